//! The reference kubelet: a released version, built from its Go module, once per target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that we measure against.
pub(crate) const VERSION: &str = "1.36.4";

/// The executable, built if it is not there yet.
pub(crate) fn kubelet(cache: &Path) -> PathBuf {
    let dir = cache.join(format!("kubelet-{VERSION}"));
    let program = dir.join("kubelet");
    if !program.exists() {
        println!("Building kubelet {VERSION} from its Go module; this takes a while, once ...");
        fs::create_dir_all(&dir).expect("create the directory of the reference");
        fs::write(dir.join("go.mod"), go_mod(&dir)).expect("write go.mod");
        let unfinished = dir.join("kubelet.unfinished");
        let flags = format!("-s -w -X k8s.io/component-base/version.gitVersion=v{VERSION}");
        let status = go(&dir)
            .args(["build", "-mod=mod", "-buildvcs=false", "-trimpath", "-ldflags", &flags, "-o"])
            .arg(&unfinished)
            .arg("k8s.io/kubernetes/cmd/kubelet")
            .status()
            .expect("run go build");
        assert!(status.success(), "kubelet does not build; REFERENCE_KUBELET=PATH names one that is built");
        fs::rename(unfinished, &program).expect("move the reference into place");
    }
    program
}

fn go(dir: &Path) -> Command {
    let mut command = Command::new("go");
    // As the released kubelet is built; a newer compiler is fetched by go itself if the module asks for it.
    command.current_dir(dir).env("CGO_ENABLED", "0");
    command
}

/// A module that requires Kubernetes. Its own staging modules, which it replaces by directories that are not
/// part of the published module, are replaced by their published versions.
fn go_mod(dir: &Path) -> String {
    let module = format!("k8s.io/kubernetes@v{VERSION}");
    let output =
        go(dir).args(["mod", "download", "-json", &module]).output().expect("run go: is golang installed?");
    assert!(output.status.success(), "go cannot download {module}: {output:?}");
    let download: serde_json::Value = serde_json::from_slice(&output.stdout).expect("go prints JSON");
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
