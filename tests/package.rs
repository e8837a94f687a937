//! The Debian package: what is in it, and what its life leaves on a machine.
//!
//! dpkg runs for real, on a directory of its own as the root. There, systemd's helpers only write down what they are asked
//! for; a real systemd is asked on a real machine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use tempfile::TempDir;

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {printed}");
    printed
}

/// Where cargo lets tests keep files.
fn own_dir() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    fs::create_dir_all(&dir).expect("create a directory");
    dir
}

/// The man page and the completion, made once.
fn pages() -> PathBuf {
    static MADE: Once = Once::new();
    let dir = own_dir().join("pages");
    MADE.call_once(|| {
        let program = Path::new(env!("CARGO_BIN_EXE_rkubelet")).with_file_name("examples").join("pages");
        assert!(program.exists(), "{} is missing: cargo build --example pages", program.display());
        run(Command::new(program).arg(&dir));
    });
    dir
}

/// The executable without what debuggers need, which is most of it.
fn stripped() -> PathBuf {
    static MADE: Once = Once::new();
    let path = own_dir().join("rkubelet");
    MADE.call_once(|| {
        drop(run(Command::new("strip").arg("-o").arg(&path).arg(env!("CARGO_BIN_EXE_rkubelet"))))
    });
    path
}

/// Builds the package of a version into a directory.
fn build(version: &str, output: &Path) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("package/deb.sh");
    let mut command = Command::new(script);
    command.arg(stripped()).arg(pages()).arg(version).arg(output);
    let path = run(command.env("DEB_COMPRESSION", "-Zgzip -z1"));
    PathBuf::from(path.trim())
}

/// A root file system with a shell, dpkg's database, and helpers that write down what they are asked for.
struct Root(TempDir);

impl Root {
    fn new() -> Self {
        let root = Self(tempfile::tempdir().expect("create a directory"));
        for dir in [
            "bin",
            "dev",
            "tmp",
            "proc/self",
            "run/systemd/system",
            "var/lib/dpkg/updates",
            "var/lib/dpkg/info",
        ] {
            fs::create_dir_all(root.path(dir)).expect("create a directory");
        }
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
        fs::copy(busybox.expect("busybox: run `make deps`"), root.path("bin/busybox")).expect("copy busybox");
        for applet in ["sh", "rm", "rmdir", "grep", "echo"] {
            symlink("busybox", root.path(&format!("bin/{applet}"))).expect("link an applet");
        }
        for helper in ["deb-systemd-helper", "deb-systemd-invoke", "systemctl"] {
            root.program(helper, &format!("echo \"{helper} $*\" >> /calls"));
        }
        // A file will do.
        fs::write(root.path("dev/null"), "").expect("write a file");
        fs::write(root.path("proc/self/mounts"), "").expect("write the list of mounts");
        fs::write(root.path("var/lib/dpkg/status"), "").expect("write the database");
        root
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path(&format!("bin/{name}"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("write a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("make it executable");
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside)
    }

    /// Runs dpkg; returns what it printed, and what the helpers were asked for meanwhile.
    fn dpkg(&self, arguments: &[&str]) -> (String, String) {
        self.dpkg_with(arguments, "")
    }

    fn dpkg_with(&self, arguments: &[&str], purge_data: &str) -> (String, String) {
        let _ = fs::remove_file(self.path("calls"));
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", self.0.path().display()))
            // The directory holds no other package, and nobody is asked about a changed file.
            .args(["--force-depends", "--force-confold", "--force-not-root"])
            .arg(format!("--log={}", self.path("tmp/log").display()))
            .args(arguments)
            .env("RKUBELET_PURGE_DATA", purge_data)
            .env("PATH", "/bin:/usr/bin:/sbin:/usr/sbin");
        let printed = run(&mut command);
        (printed, fs::read_to_string(self.path("calls")).unwrap_or_default())
    }
}

#[test]
fn the_package_holds_what_a_node_needs() {
    let dir = tempfile::tempdir().expect("create a directory");
    let package = build("1.2.3", dir.path());
    let arch = run(Command::new("dpkg").arg("--print-architecture"));
    let name = package.file_name().map(|name| name.to_string_lossy().into_owned());
    assert_eq!(name, Some(format!("rkubelet_1.2.3_{}.deb", arch.trim())));

    let info = run(Command::new("dpkg-deb").arg("--info").arg(&package));
    for word in
        ["Version: 1.2.3", "Depends: libc6 (>= 2.", "Conflicts: kubelet", "conffiles", "postinst", "postrm"]
    {
        assert!(info.contains(word), "no {word:?}: {info}");
    }
    let contents = run(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for (mode, path) in [
        ("-rwxr-xr-x root/root", "./usr/bin/rkubelet"),
        ("-rw-r--r-- root/root", "./usr/lib/systemd/system/rkubelet.service"),
        ("-rw-r--r-- root/root", "./etc/default/rkubelet"),
        ("drwxr-xr-x root/root", "./etc/kubernetes/manifests/"),
        ("-rw-r--r-- root/root", "./usr/share/man/man8/rkubelet.8.gz"),
        ("-rw-r--r-- root/root", "./usr/share/bash-completion/completions/rkubelet"),
        ("-rw-r--r-- root/root", "./usr/share/doc/rkubelet/copyright"),
        ("-rw-r--r-- root/root", "./usr/share/doc/rkubelet/examples/config.yaml"),
        ("-rw-r--r-- root/root", "./usr/share/doc/rkubelet/examples/manifests/web.yaml"),
    ] {
        let line = contents.lines().find(|line| line.ends_with(path));
        assert!(line.is_some_and(|line| line.starts_with(mode)), "{path}: {line:?}\n{contents}");
    }
    run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(dir.path().join("tree")));
    let unit = fs::read_to_string(dir.path().join("tree/usr/lib/systemd/system/rkubelet.service"));
    let unit = unit.expect("the unit");
    assert!(unit.contains("ExecStart=/usr/bin/rkubelet ") && !unit.contains("/usr/local"), "{unit}");

    // The same input makes the same package.
    let again = tempfile::tempdir().expect("create a directory");
    let bytes = |path: &Path| fs::read(path).expect("read a package");
    assert!(bytes(&package) == bytes(&build("1.2.3", again.path())), "two builds differ");
}

#[test]
fn the_example_configuration_is_valid() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("package/config.yaml");
    let mut check = Command::new(env!("CARGO_BIN_EXE_rkubelet"));
    // One fault that is ours: all faults are named, so the file has none.
    check.arg(format!("--config={}", config.display())).arg("--strict-config").arg("--healthz-port=99999");
    let output = check.output().expect("run rkubelet");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{told}");
    assert!(told.contains("healthz") && !told.contains("config.yaml"), "{told}");
}

#[test]
fn the_pages_name_every_flag() {
    let help = run(Command::new(env!("CARGO_BIN_EXE_rkubelet")).arg("--help"));
    let names: Vec<&str> = help
        .lines()
        // Sentences name options, too.
        .filter(|line| line.trim_start().starts_with('-'))
        .filter_map(|line| line.trim_start().split("--").nth(1)?.split_whitespace().next())
        .collect();
    assert!(names.len() > 100, "{help}");
    let man = fs::read_to_string(pages().join("rkubelet.8")).expect("read the man page");
    let completion = fs::read_to_string(pages().join("rkubelet.bash")).expect("read the completion");
    for name in names {
        let roff = format!("\\fB\\-\\-{}\\fR", name.replace('-', "\\-"));
        assert!(man.contains(&roff), "the man page lacks --{name}");
        assert!(completion.contains(&format!("    --{name}\n")), "the completion lacks --{name}");
    }
    let script =
        "source \"$1\"; COMP_WORDS=(rkubelet --pod-man); COMP_CWORD=1; _rkubelet; echo \"${COMPREPLY[*]}\"
        COMP_WORDS=(rkubelet --config = /etc/pass); COMP_CWORD=3; _rkubelet; echo \"${COMPREPLY[*]}\"
        COMP_WORDS=(rkubelet check --url); COMP_CWORD=2; _rkubelet; echo \"${COMPREPLY[*]}\"";
    let completed = run(Command::new("bash").args(["-c", script, "bash"]).arg(pages().join("rkubelet.bash")));
    let lines: Vec<_> = completed.lines().collect();
    assert_eq!(lines[0], "--pod-manifest-path");
    assert!(lines[1].contains("/etc/passwd"), "{completed}");
    assert_eq!(lines[2], "--url-contents");
}

#[test]
fn a_life_of_the_package() {
    let dir = tempfile::tempdir().expect("create a directory");
    let (old, new) = (build("1.0.0", dir.path()), build("1.1.0", dir.path()));
    let (old, new) = (old.display().to_string(), new.display().to_string());
    let root = Root::new();

    let (_, calls) = root.dpkg(&["--install", &old]);
    assert!(root.path("usr/bin/rkubelet").exists() && root.path("etc/kubernetes/manifests").is_dir());
    for call in ["deb-systemd-helper enable rkubelet.service", "systemctl --system daemon-reload"] {
        assert!(calls.contains(call), "no {call}: {calls}");
    }
    assert!(calls.contains("deb-systemd-invoke start rkubelet.service"), "{calls}");

    // The administrator's changes stay, and the agent is restarted once, never stopped.
    let flags = root.path("etc/default/rkubelet");
    fs::write(&flags, "RKUBELET_ARGS=--mine\n").expect("write the flags");
    fs::write(root.path("etc/kubernetes/manifests/web.yaml"), "kind: Pod\n").expect("write a manifest");
    fs::create_dir_all(root.path("var/lib/kubelet/pods")).expect("create the agent's directory");
    let (_, calls) = root.dpkg(&["--install", &new]);
    assert!(calls.contains("deb-systemd-invoke restart rkubelet.service"), "{calls}");
    assert!(!calls.contains("stop") && !calls.contains("invoke start"), "{calls}");
    assert_eq!(fs::read_to_string(&flags).expect("the flags"), "RKUBELET_ARGS=--mine\n");

    let (printed, calls) = root.dpkg(&["--remove", "rkubelet"]);
    assert!(calls.contains("deb-systemd-invoke stop rkubelet.service"), "{calls}");
    assert!(printed.contains("its pods run on"), "{printed}");
    assert!(!root.path("usr/bin/rkubelet").exists() && flags.exists());
    assert!(root.path("etc/kubernetes/manifests/web.yaml").exists());

    let (printed, calls) = root.dpkg(&["--purge", "rkubelet"]);
    assert!(calls.contains("deb-systemd-helper purge rkubelet.service"), "{calls}");
    assert!(!flags.exists(), "a purge removes the flags");
    assert!(printed.contains("/var/lib/kubelet stays"), "{printed}");
    assert!(
        root.path("var/lib/kubelet/pods").is_dir() && root.path("etc/kubernetes/manifests/web.yaml").exists()
    );

    // Whoever asks for it loses the data too; an empty manifest directory goes by itself.
    fs::remove_file(root.path("etc/kubernetes/manifests/web.yaml")).expect("remove a manifest");
    root.dpkg(&["--install", &new]);
    let (printed, _) = root.dpkg_with(&["--purge", "rkubelet"], "1");
    assert!(!root.path("var/lib/kubelet").exists(), "{printed}");
    assert!(!root.path("etc/kubernetes").exists() && !root.path("etc/default/rkubelet").exists());
}
