//! The images of the tests: made of the machine's busybox and two small C programs, as one archive for `ctr images import`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::needs;

/// The image of the containers: Debian's static busybox.
pub(crate) const BUSYBOX: &str = "localhost/rkubelet/busybox:1";
/// The same image by a public name.
pub(crate) const PUBLIC_BUSYBOX: &str = "docker.io/library/busybox:1.36";
/// The image of the sandboxes.
pub(crate) const PAUSE: &str = "localhost/rkubelet/pause:1";
/// The program of sandboxes.
pub(crate) const PAUSE_SOURCE: &str = include_str!("pause.c");
/// A program that holds what it is told to.
pub(crate) const HOLD_SOURCE: &str = include_str!("hold.c");

/// Makes `images.tar` in this directory, with all images, for a containerd elsewhere.
pub(crate) fn image_archive(dir: &Path) -> PathBuf {
    fs::create_dir_all(dir).expect("create the directory of images");
    let pause = compile(dir, "pause", PAUSE_SOURCE);
    let hold = compile(dir, "hold", HOLD_SOURCE);
    let archive = dir.join("images.tar");
    write_archive(dir, &archive, &pause, &hold);
    archive
}

/// Compiles a static program.
fn compile(dir: &Path, name: &str, text: &str) -> PathBuf {
    let (source, program) = (dir.join(format!("{name}.c")), dir.join(name));
    fs::write(&source, text).expect("write a C program");
    run(Command::new("cc").args(["-static", "-Os", "-s", "-Wall", "-o"]).arg(&program).arg(&source));
    program
}

/// An OCI image layout with both images, as a tar file.
fn write_archive(dir: &Path, archive: &Path, pause: &Path, hold: &Path) {
    let layout = dir.join("layout");
    fs::create_dir_all(layout.join("blobs/sha256")).expect("create the image layout");
    let busybox = busybox_files(&dir.join("busybox"), hold);
    let manifests = [
        add_image(&layout, BUSYBOX, &busybox, &["/bin/sh"]),
        add_image(&layout, PUBLIC_BUSYBOX, &busybox, &["/bin/sh"]),
        add_image(&layout, PAUSE, &pause_files(&dir.join("sandbox"), pause), &["/pause"]),
    ];
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    fs::write(layout.join("index.json"), index.to_string()).expect("write index.json");
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).expect("write oci-layout");
    pack(&layout, archive);
}

fn busybox_files(files: &Path, hold: &Path) -> PathBuf {
    let bin = files.join("bin");
    fs::create_dir_all(&bin).expect("create /bin");
    fs::copy(needs::busybox(), bin.join("busybox")).expect("copy busybox");
    fs::copy(hold, bin.join("hold")).expect("copy hold");
    let applets = Command::new(needs::busybox()).arg("--list").output().expect("list the applets of busybox");
    for applet in String::from_utf8_lossy(&applets.stdout).lines().filter(|applet| *applet != "busybox") {
        symlink("busybox", bin.join(applet)).expect("link an applet");
    }
    for empty in ["etc", "root", "tmp", "usr", "var", "www"] {
        fs::create_dir(files.join(empty)).expect("create a directory of the image");
    }
    // A pod that mounts the machine's /usr can run its programs.
    for libraries in ["lib", "lib64"] {
        symlink(format!("usr/{libraries}"), files.join(libraries)).expect("link the libraries");
    }
    fs::write(files.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").expect("write /etc/passwd");
    fs::write(files.join("etc/group"), "root:x:0:\n").expect("write /etc/group");
    files.to_owned()
}

fn pause_files(files: &Path, pause: &Path) -> PathBuf {
    fs::create_dir_all(files).expect("create the sandbox's files");
    fs::copy(pause, files.join("pause")).expect("copy pause");
    files.to_owned()
}

/// Adds an image of one layer; returns its descriptor for the index.
fn add_image(layout: &Path, name: &str, files: &Path, command: &[&str]) -> serde_json::Value {
    let layer_file = files.with_extension("tar");
    pack(files, &layer_file);
    let layer = fs::read(&layer_file).expect("read a layer");
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = json!({
        "architecture": arch,
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hex(&Sha256::digest(&layer)))]},
    });
    let config = add_blob(layout, "config.v1+json", config.to_string().as_bytes());
    let layers = [add_blob(layout, "layer.v1.tar", &layer)];
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers});
    let mut descriptor = add_blob(layout, "manifest.v1+json", manifest.to_string().as_bytes());
    descriptor["annotations"] = json!({"io.containerd.image.name": name});
    descriptor["platform"] = json!({"architecture": arch, "os": "linux"});
    descriptor
}

fn add_blob(layout: &Path, kind: &str, bytes: &[u8]) -> serde_json::Value {
    let digest = hex(&Sha256::digest(bytes));
    fs::write(layout.join("blobs/sha256").join(&digest), bytes).expect("write a blob");
    let kind = format!("application/vnd.oci.image.{kind}");
    json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len()})
}

fn pack(files: &Path, archive: &Path) {
    run(Command::new("tar")
        .args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-cf"])
        .arg(archive)
        .arg("-C")
        .arg(files)
        .arg("."));
}

/// Runs a program that must succeed.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
