//! On real files: what stays, what goes, and what is never touched.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use flate2::read::GzDecoder;

use super::*;

fn one(pod: &Path) -> LogDir {
    let mut found = open_pod_logs(pod).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn listed(dir: &LogDir) -> Vec<String> {
    let mut names: Vec<_> = dir.list().unwrap().into_iter().map(|file| file.name).collect();
    names.sort();
    names
}

#[test]
fn compressed_with_its_mode_and_all_its_lines() {
    let pod = tempfile::tempdir().unwrap();
    let main = pod.path().join("main");
    fs::create_dir(&main).unwrap();
    let text: String = (0..50_000).map(|number| format!("line {number}\n")).collect();
    fs::write(main.join("0.log"), "").unwrap();
    fs::write(main.join("0.log.20260101-000000"), &text).unwrap();
    fs::set_permissions(main.join("0.log.20260101-000000"), fs::Permissions::from_mode(0o640)).unwrap();
    let dir = one(pod.path());
    dir.compress("0.log.20260101-000000").unwrap();
    assert_eq!(listed(&dir), ["0.log", "0.log.20260101-000000.gz"]);
    let file = fs::File::open(main.join("0.log.20260101-000000.gz")).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let mut read = String::new();
    GzDecoder::new(file).read_to_string(&mut read).unwrap();
    assert_eq!(read, text);
    // Its container was removed meanwhile.
    fs::write(main.join("1.log.20260101-000000"), &text).unwrap();
    dir.compress("1.log.20260101-000000").unwrap();
    assert_eq!(listed(&dir), ["0.log", "0.log.20260101-000000.gz"]);
}

#[test]
fn the_last_whole_lines_stay() {
    let pod = tempfile::tempdir().unwrap();
    let main = pod.path().join("main");
    fs::create_dir(&main).unwrap();
    let dir = one(pod.path());
    for (keep, left) in [(100, "one\ntwo\nthree\n"), (14, "one\ntwo\nthree\n"), (10, "two\nthree\n")]
        .into_iter()
        .chain([(9, "three\n"), (6, "three\n"), (5, ""), (0, "")])
    {
        fs::write(main.join("0.log"), "one\ntwo\nthree\n").unwrap();
        dir.cut("0.log", keep).unwrap();
        assert_eq!(fs::read_to_string(main.join("0.log")).unwrap(), left, "{keep}");
        assert_eq!(listed(&dir), ["0.log"]);
    }
}

#[test]
fn nothing_leads_out_of_the_directory() {
    let root = tempfile::tempdir().unwrap();
    let (pod, secret) = (root.path().join("pod"), root.path().join("secret"));
    fs::create_dir_all(pod.join("main")).unwrap();
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("0.log.20260101-000000"), "secret").unwrap();
    // A link in the place of a container's directory, of a log, of a temporary file; and a pipe.
    symlink(&secret, pod.join("side")).unwrap();
    symlink(secret.join("0.log.20260101-000000"), pod.join("main/0.log.20260101-000000")).unwrap();
    symlink(secret.join("new"), pod.join("main/0.log.20260102-000000.tmp")).unwrap();
    fs::write(pod.join("main/0.log.20260102-000000"), "x").unwrap();
    rustix::fs::mknodat(CWD, pod.join("main/1.log.20260101-000000"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let dir = one(&pod);
    assert_eq!(dir.container, "main");
    assert_eq!(listed(&dir), ["0.log.20260102-000000"], "only regular files");
    for name in ["0.log.20260101-000000", "0.log.20260102-000000", "1.log.20260101-000000"] {
        assert!(dir.compress(name).is_err(), "{name}");
        let _ = dir.cut(name, 1);
    }
    assert_eq!(fs::read_to_string(secret.join("0.log.20260101-000000")).unwrap(), "secret");
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
    // And a link in the place of the pod.
    symlink(&secret, root.path().join("linked")).unwrap();
    assert!(open_pod_logs(&root.path().join("linked")).is_err());
    assert!(open_pod_logs(&root.path().join("none")).unwrap().is_empty());
}

#[test]
fn a_log_that_is_there_is_not_replaced() {
    let pod = tempfile::tempdir().unwrap();
    let main = pod.path().join("main");
    fs::create_dir(&main).unwrap();
    fs::write(main.join("0.log"), "new").unwrap();
    fs::write(main.join("0.log.20260101-000000"), "old").unwrap();
    let dir = one(pod.path());
    dir.restore("0.log.20260101-000000", "0.log").unwrap();
    assert_eq!(fs::read_to_string(main.join("0.log")).unwrap(), "new");
    dir.remove("0.log").unwrap();
    dir.restore("0.log.20260101-000000", "0.log").unwrap();
    assert_eq!(fs::read_to_string(main.join("0.log")).unwrap(), "old");
    assert_eq!(listed(&dir), ["0.log"]);
}
