//! Programs of a released Kubernetes, built from its Go module, once per target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that we measure against.
pub(crate) const VERSION: &str = "1.36.4";
/// A compiler that is new enough for it.
const TOOLCHAIN: &str = "go1.26.0";

/// The executable `name` of a Go package, built if it is not there yet.
pub(crate) fn build(cache: &Path, name: &str, package: &str) -> PathBuf {
    let dir = cache.join(format!("{name}-{VERSION}"));
    let program = dir.join(name);
    if !program.exists() {
        println!("Building {name} for Kubernetes {VERSION} from its Go module; this takes a while, once ...");
        fs::create_dir_all(&dir).expect("create the directory of the reference");
        let _ = fs::remove_file(dir.join("go.mod"));
        fs::write(dir.join("go.mod"), go_mod(&dir)).expect("write go.mod");
        let unfinished = dir.join(format!("{name}.unfinished"));
        let flags = format!("-s -w -X k8s.io/component-base/version.gitVersion=v{VERSION}");
        let status = go(&dir)
            .args(["build", "-mod=mod", "-buildvcs=false", "-trimpath", "-ldflags", &flags, "-o"])
            .arg(&unfinished)
            .arg(package)
            .status()
            .expect("run go build");
        assert!(
            status.success(),
            "{name} does not build; if it is kubelet, REFERENCE_KUBELET=PATH names one that is built"
        );
        fs::rename(unfinished, &program).expect("move the reference into place");
    }
    program
}

/// The Go command: the one in PATH if it can fetch the version that a module asks for, which it can since 1.21; else
/// that version, fetched through the module proxy by the old one. Debian 12 has 1.19.
fn go(dir: &Path) -> Command {
    let minor = |version: &str| version.strip_prefix("go1.")?.split('.').next()?.parse::<u32>().ok();
    let version = output(Command::new("go").args(["env", "GOVERSION"]));
    let program = match minor(version.trim()) {
        Some(..21) => toolchain(dir).join("bin/go"),
        _ => PathBuf::from("go"),
    };
    let mut command = Command::new(program);
    // Without cgo, as the released kubelet is built.
    command.current_dir(dir).env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "auto").env_remove("GOROOT");
    command
}

fn toolchain(dir: &Path) -> PathBuf {
    let arch = output(Command::new("go").args(["env", "GOARCH"]));
    let module = format!("golang.org/toolchain@v0.0.1-{TOOLCHAIN}.linux-{}", arch.trim());
    let download = download(Command::new("go").current_dir(dir), &module);
    let root = PathBuf::from(download["Dir"].as_str().expect("the directory of the module"));
    // A module has no executables; newer versions of Go know that this one has.
    let mut chmod = Command::new("chmod");
    chmod.args(["-R", "a+x"]).arg(root.join("bin")).arg(root.join("pkg/tool"));
    output(&mut chmod);
    root
}

/// Fetches a module, and returns what go says about it.
fn download(go: &mut Command, module: &str) -> serde_json::Value {
    let text = output(go.args(["mod", "download", "-json", module]));
    serde_json::from_str(&text).expect("go prints JSON")
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A module that requires Kubernetes. Its own staging modules, which it replaces by directories that are not
/// part of the published module, are replaced by their published versions.
fn go_mod(dir: &Path) -> String {
    let module = format!("k8s.io/kubernetes@v{VERSION}");
    let download = download(&mut go(dir), &module);
    let path = download["GoMod"].as_str().expect("the path of go.mod");
    let theirs = fs::read_to_string(path).expect("read the go.mod of Kubernetes");

    let staging = VERSION.strip_prefix('1').expect("a version 1.x.y");
    let mut ours = format!("module reference\n\nrequire k8s.io/kubernetes v{VERSION}\n");
    for line in theirs.lines() {
        if let Some((module, _)) = line.trim().split_once(" => ./staging/") {
            ours += &format!("replace {module} => {module} v0{staging}\n");
        } else if line.starts_with("go ") || line.starts_with("godebug ") {
            ours += &format!("{line}\n");
        }
    }
    ours
}
