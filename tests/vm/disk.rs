//! The root file system that all machines share, and the files of a run.
//!
//! Made once by `root-fs.sh` and one boot, in which containerd imports the images; kept in `target/vm` under the hash of
//! its recipe. Everything else that a machine gets is on its second disk, a tar file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::archive::{image_archive, run};
use super::machine::{Boot, Machine};

/// Raise it when the way of making the disk changes outside of the files below.
const RECIPE: u32 = 1;
/// The programs that the machine is made with and runs on, each with its Debian package.
const NEEDS: &[(&str, &str)] = &[
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/usr/bin/qemu-img", "qemu-utils"),
    ("/usr/bin/mmdebstrap", "mmdebstrap"),
    ("/usr/sbin/mke2fs", "e2fsprogs"),
    ("/usr/bin/setpriv", "util-linux"),
];

/// What machines are made from.
pub(crate) struct Base {
    /// The kernel.
    pub(crate) kernel: PathBuf,
    /// The disk that overlays are made over.
    pub(crate) disk: PathBuf,
    /// The format of the disk.
    pub(crate) format: &'static str,
}

/// The base, or one line on why it cannot be had.
pub(crate) fn base() -> Result<Base, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("it takes root to make the root file system".into());
    }
    if std::env::consts::ARCH != "x86_64" {
        return Err("the virtual machine is an x86_64".into());
    }
    let missing: Vec<_> =
        NEEDS.iter().filter(|(path, _)| !Path::new(path).exists()).map(|&(_, package)| package).collect();
    if !missing.is_empty() {
        return Err(format!("missing packages: {}; `make vm-deps` installs them", missing.join(" ")));
    }
    let cache = cache();
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    let lock = File::create(cache.join("lock")).map_err(|error| error.to_string())?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).map_err(|error| error.to_string())?;
    let dir = cache.join(recipe());
    if !dir.exists() {
        let unfinished = dir.with_extension("unfinished");
        let _ = fs::remove_dir_all(&unfinished);
        if let Err(reason) = build(&unfinished) {
            let _ = fs::remove_dir_all(&unfinished);
            return Err(reason);
        }
        fs::rename(&unfinished, &dir).map_err(|error| error.to_string())?;
    }
    Ok(Base { kernel: dir.join("vmlinuz"), disk: dir.join("disk.qcow2"), format: "qcow2" })
}

/// Where disks are kept.
pub(crate) fn cache() -> PathBuf {
    let program = std::env::current_exe().expect("the path of the running program");
    program.ancestors().nth(3).expect("a program in target/PROFILE/deps").join("vm")
}

/// A directory for the machine of this process; those that ended runs left behind are removed.
pub(crate) fn directory_of_this_run() -> PathBuf {
    for entry in fs::read_dir(cache()).expect("list the cache").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix("run-").is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let dir = cache().join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("create the directory of the run");
    dir
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm")
}

/// The hash of everything that the disk is made of, but for the versions of Debian's packages.
fn recipe() -> String {
    let mut files = Vec::new();
    walk(&sources().join("files"), &mut files);
    files.push(sources().join("root-fs.sh"));
    files.extend(["pause.c", "hold.c"].map(|name| sources().with_file_name("rig").join(name)));
    files.sort();
    let mut hash = Sha256::new();
    hash.update(RECIPE.to_be_bytes());
    for file in files {
        hash.update(file.strip_prefix(sources()).unwrap_or(&file).as_os_str().as_encoded_bytes());
        hash.update(Sha256::digest(fs::read(&file).expect("read a file of the recipe")));
    }
    hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("list the files of the recipe").flatten() {
        let path = entry.path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

fn build(dir: &Path) -> Result<(), String> {
    println!("    making the root file system of the virtual machine, once");
    let output = Command::new(sources().join("root-fs.sh"))
        .arg(dir)
        .arg(sources().join("files"))
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let text =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let last = text.lines().rev().find(|line| line.starts_with("E:")).or_else(|| text.lines().last());
        // A recipe that is wrong is no reason to be quiet.
        assert_eq!(output.status.code(), Some(69), "root-fs.sh: {text}");
        return Err(format!("the root file system cannot be made: {}", last.unwrap_or("no reason given")));
    }
    let archive = image_archive(&dir.join("images"));
    let payload = dir.join("payload.tar");
    run(Command::new("tar").arg("-cf").arg(&payload).arg("-C").arg(dir.join("images")).arg("images.tar"));
    let raw = Base { kernel: dir.join("vmlinuz"), disk: dir.join("disk.raw"), format: "raw" };
    let mut machine = Machine::new(&raw, &dir.join("machine"), &payload);
    // The first boot on this computer: if it fails, no scenario can tell anything.
    machine.try_boot(&Boot::default()).map_err(|silent| format!("it does not boot here: {}", silent.0))?;
    machine.wait("containerd", |machine| machine.holds("ctr version"));
    machine.sh("ctr -n k8s.io images import /opt/rkubelet/images.tar && rm /opt/rkubelet/images.tar && sync");
    machine.shut_down("poweroff");
    run(Command::new("qemu-img")
        .args(["convert", "-O", "qcow2"])
        .arg(machine.disk())
        .arg(dir.join("disk.qcow2")));
    fs::remove_file(&raw.disk).map_err(|error| error.to_string())?;
    fs::remove_file(&payload).map_err(|error| error.to_string())?;
    fs::remove_dir_all(archive.parent().expect("a directory")).map_err(|error| error.to_string())
}

/// The files of a run, as a tar file in `dir`: the repository's, where the README finds them, and the built binary.
pub(crate) fn payload(dir: &Path) -> PathBuf {
    let tree = dir.join("payload");
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(tree.join("target/release")).expect("create the payload");
    let binary = std::env::var_os("VM_RKUBELET")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_rkubelet")), PathBuf::from);
    run(Command::new("strip").arg("-o").arg(tree.join("target/release/rkubelet")).arg(binary));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for part in ["systemd", "manifests"] {
        run(Command::new("cp").arg("-r").arg(root.join(part)).arg(&tree));
    }
    packages(&root.join("package/deb.sh"), &tree);
    let archive = dir.join("payload.tar");
    run(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&tree).arg("."));
    fs::remove_dir_all(&tree).expect("remove the tree of the payload");
    archive
}

/// The Debian package in two versions, of the binary in the payload.
fn packages(script: &Path, tree: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_rkubelet")).with_file_name("examples").join("pages");
    assert!(program.exists(), "{} is missing: cargo build --example pages", program.display());
    let pages = tree.join("pages");
    run(Command::new(program).arg(&pages));
    for version in super::package::VERSIONS {
        run(Command::new(script)
            .arg(tree.join("target/release/rkubelet"))
            .arg(&pages)
            .arg(version)
            .arg(tree.join("packages"))
            .env("DEB_COMPRESSION", "-Zgzip -z1"));
    }
    fs::remove_dir_all(&pages).expect("remove the pages");
}
