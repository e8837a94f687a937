//! The two images, and a containerd root that holds them unpacked: made once per build directory, copied per rig.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::archive::{HOLD_SOURCE, PAUSE_SOURCE, hex, image_archive, run};
use super::machine::Machine;
use super::{containerd, needs};

/// Part of the template's name: raise it when the way of making it changes.
const RECIPE: u32 = 3;

/// What every rig starts from.
pub(crate) struct Template {
    /// The static pause program, the first process of a rig and of a sandbox.
    pub(crate) pause_program: PathBuf,
    /// A containerd root with both images imported and unpacked.
    pub(crate) containerd_root: PathBuf,
}

/// The template, made by whoever comes first while the others wait.
pub(crate) fn template() -> Template {
    let cache = build_dir().join("rig");
    fs::create_dir_all(&cache).expect("create the directory of templates");
    let busybox = fs::read(needs::busybox()).expect("read busybox");
    let version = containerd::version();
    let mut hash = Sha256::new();
    for input in
        [&busybox, PAUSE_SOURCE.as_bytes(), HOLD_SOURCE.as_bytes(), version.as_bytes(), &RECIPE.to_be_bytes()]
    {
        hash.update(Sha256::digest(input));
    }
    let name = &hex(&hash.finalize())[..16];
    let dir = cache.join(name);

    let lock = File::create(cache.join("lock")).expect("create the lock of the templates");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("lock the templates");
    if !dir.exists() {
        let unfinished = cache.join(format!("{name}.unfinished"));
        let _ = fs::remove_dir_all(&unfinished);
        build(&unfinished);
        fs::rename(&unfinished, &dir).expect("move the template into place");
    }
    Template { pause_program: dir.join("pause"), containerd_root: dir.join("root") }
}

/// `target/debug` or its like: where the running program was built.
pub(crate) fn build_dir() -> PathBuf {
    let program = std::env::current_exe().expect("the path of the running program");
    program.ancestors().nth(2).expect("a program in target/PROFILE/deps or examples").to_owned()
}

fn build(dir: &Path) {
    let archive = image_archive(dir);
    let machine = Machine::start(&dir.join("pause"));
    let no_root = dir.join("nothing");
    fs::create_dir(&no_root).expect("create an empty root");
    containerd::install(machine.dir(), &no_root);
    let running = containerd::Containerd::start(&machine);
    run(machine
        .command("ctr")
        .args(["--address", &containerd::socket(machine.dir()).display().to_string(), "-n", "k8s.io"])
        .args(["images", "import", "--snapshotter=overlayfs"])
        .arg(&archive));
    running.end();
    run(Command::new("cp").arg("-a").arg(containerd::root(machine.dir())).arg(dir.join("root")));
}
