//! A directory with files of every kind.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::SystemTime;

use super::*;
use crate::pod::finding::Finding;
use crate::source::dir::timing::QUIET;
use crate::source::signature::MAX_SIGNATURE;

#[test]
fn only_manifests_by_name() {
    let cases = [
        ("a.yaml", true),
        ("a.yml", true),
        ("a.json", true),
        ("a.manifest", true),
        (".a.manifest", false),
        (".a.yaml", false),
        ("a.yaml~", false),
        ("a.yaml.bak", false),
        (".a.yaml.swp", false),
        ("a.YAML", false),
        ("yaml", false),
        ("a", false),
    ];
    for (name, expect) in cases {
        assert_eq!(is_manifest_name(name), expect, "{name}");
    }
}

#[test]
fn every_other_visible_name_is_skipped_with_a_reason() {
    let cases = [
        ("a.yaml", false, None),
        ("a.yaml", true, None),
        ("a.yaml.minisig", false, None),
        (".a.txt", false, None),
        ("..data", true, None),
        ("a.txt", false, Some(OTHER_NAME)),
        ("a.yaml~", false, Some(OTHER_NAME)),
        ("notes.minisig", false, Some(OTHER_NAME)),
        ("sub", true, Some(SUBDIRECTORY)),
    ];
    for (name, is_dir, expect) in cases {
        assert_eq!(why_skipped(name, is_dir), expect, "{name}");
    }
    let temporary = tempfile::tempdir().unwrap();
    (0..200).for_each(|number| fs::write(temporary.path().join(format!("{number:03}.txt")), "").unwrap());
    let (reading, _) =
        read(temporary.path(), false, own_rules(), &KnownFiles::default(), &Writers::default());
    let DirectoryReading::Files(found) = reading else { panic!("{reading:?}") };
    assert_eq!((found.skipped.len(), found.skipped_unnamed), (MAX_SKIPPED, 100));
    assert!(found.skipped.contains_key(&temporary.path().join("099.txt")), "the first by name");
}

#[test]
fn reads_what_changed_and_refuses_what_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("a.yaml"), "a").unwrap();
    let long_ago = SystemTime::now() - 10 * QUIET;
    File::options().append(true).open(at("a.yaml")).unwrap().set_modified(long_ago).unwrap();
    fs::write(at("notes.txt"), "a").unwrap();
    fs::create_dir(at("d.yaml")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("f.yaml"), rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("l.yaml")).unwrap();
    File::create(at("big.yaml")).unwrap().set_len(50 << 20).unwrap();

    let (initial, known) = read(dir.path(), false, own_rules(), &KnownFiles::default(), &Writers::default());
    assert_eq!(
        words(initial),
        "a.yaml a; big.yaml is larger than 10 MiB; d.yaml is a directory; f.yaml is not a regular file; \
         l.yaml cannot be read: No such file or directory (os error 2)"
    );
    fs::write(at("b.json"), "b").unwrap();
    fs::write(at("half.yaml"), "b").unwrap();
    let half = busy(&at("half.yaml"));
    let (second, known) = read(dir.path(), false, own_rules(), &known, &half);
    assert!(words(second).starts_with(
        "a.yaml same; b.json b; big.yaml same; d.yaml same; f.yaml same; half.yaml unfinished; l.yaml cannot"
    ));

    assert_eq!(
        words(read(&at("a.yaml"), false, own_rules(), &known, &Writers::default()).0),
        "a.yaml same",
        "a single file"
    );
    assert!(
        words(read(&at("nowhere"), false, own_rules(), &KnownFiles::default(), &Writers::default()).0)
            .contains("No such file")
    );
}

fn words(reading: DirectoryReading) -> String {
    match reading {
        DirectoryReading::Unreadable(reason) => reason,
        DirectoryReading::Files(found) => {
            let each = found.files.into_iter().map(|(path, reading)| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                match reading {
                    FileReading::Unchanged => format!("{name} same"),
                    FileReading::Unfinished => format!("{name} unfinished"),
                    FileReading::Read(FileContents { bytes, signature, .. }, _) => {
                        let signed = signature.map(|text| format!(" signed {text}")).unwrap_or_default();
                        format!("{name} {}{signed}", String::from_utf8_lossy(&bytes))
                    }
                    FileReading::Refused(reason) => format!("{name} {reason}"),
                }
            });
            each.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Reads, and takes every file for a bad manifest.
fn read(
    path: &Path,
    was_single: bool,
    rules: ReadRules,
    known: &KnownFiles,
    writers: &Writers,
) -> (DirectoryReading, KnownFiles) {
    super::read(path, was_single, rules, known, writers, |_, _| Err(Finding::whole("bad").into()))
}

/// A path without links.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn first(path: &Path, was_single: bool, rules: ReadRules) -> String {
    words(read(path, was_single, rules, &KnownFiles::default(), &Writers::default()).0)
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The rules for files of the user who runs the test.
fn own_rules() -> ReadRules {
    ReadRules { own_uid: Some(rustix::process::geteuid().as_raw()), signatures: false }
}

#[test]
fn what_others_can_write_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let root = real(temporary.path());
    let (dir, elsewhere) = (root.join("manifests"), root.join("elsewhere"));
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::write(dir.join("a.yaml"), "a").unwrap();
    fs::write(elsewhere.join("target"), "b").unwrap();
    symlink("../elsewhere/target", dir.join("b.yaml")).unwrap();
    symlink("manifests", root.join("link")).unwrap();
    let uid = own_rules().own_uid.unwrap();
    let cases: [(&Path, u32, String); 8] = [
        (&dir, 0o755, "a.yaml a; b.yaml b".into()),
        (&dir, 0o1777, format!("{} (mode 1777, owner {uid}) can be written", dir.display())),
        (
            &dir.join("a.yaml"),
            0o664,
            format!("a.yaml {}/a.yaml (mode 0664, owner {uid}) can be", dir.display()),
        ),
        (
            &elsewhere.join("target"),
            0o646,
            format!("a.yaml a; b.yaml {}/target (mode 0646,", elsewhere.display()),
        ),
        (&elsewhere, 0o777, format!("a.yaml a; b.yaml {} (mode 0777, owner {uid})", elsewhere.display())),
        (&elsewhere, 0o1777, format!("a.yaml a; b.yaml {} (mode 1777, owner {uid})", elsewhere.display())),
        (&root, 0o777, format!("{} (mode 0777, owner {uid}) can be written", root.display())),
        (&root, 0o1777, "a.yaml a; b.yaml b".into()),
    ];
    for (path, mode, expect) in cases {
        let before = fs::metadata(path).unwrap().mode();
        chmod(path, mode);
        let found = first(&dir, false, own_rules());
        assert!(found.starts_with(&expect), "{} {mode:o}: {found}", path.display());
        if path != root {
            let linked = first(&root.join("link"), false, own_rules());
            assert_eq!(linked, found, "through a link to the directory");
        }
        let anybody = ReadRules { own_uid: None, ..own_rules() };
        assert_eq!(first(&dir, false, anybody), "a.yaml a; b.yaml b", "{mode:o}");
        chmod(path, before);
    }
    let stranger = ReadRules { own_uid: Some(uid + 1), ..own_rules() };
    let found = first(&dir, false, stranger);
    assert_eq!(found.contains("is not root's"), uid != 0, "{found}");
    chmod(&root, 0o1777);
    let found = first(&root.join("link"), false, own_rules());
    assert!(found.contains("(mode 1777"), "another link could take its place: {found}");
}

#[test]
fn a_change_of_what_a_link_leads_to_is_seen() {
    let temporary = tempfile::tempdir().unwrap();
    let at = |name: &str| temporary.path().join(name);
    fs::create_dir(at("..1")).unwrap();
    fs::create_dir(at("..2")).unwrap();
    for (path, text) in [("..1/a.yaml", "1"), ("..2/a.yaml", "2")] {
        fs::write(at(path), text).unwrap();
        let long_ago = SystemTime::now() - 10 * QUIET;
        File::options().append(true).open(at(path)).unwrap().set_modified(long_ago).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/a.yaml", at("a.yaml")).unwrap();
    let mut known = KnownFiles::default();
    let mut again = || {
        let (reading, now) = read(temporary.path(), false, own_rules(), &known, &Writers::default());
        known = now;
        words(reading)
    };
    assert_eq!((again(), again()), ("a.yaml 1".into(), "a.yaml same".into()));
    symlink("..2", at("..new")).unwrap();
    fs::rename(at("..new"), at("..data")).unwrap();
    assert_eq!((again(), again()), ("a.yaml 2".into(), "a.yaml same".into()));
    chmod(&at("..2"), 0o777);
    assert!(again().contains("can be written"), "the directory that it leads into");
    chmod(&at("..2"), 0o755);
    assert_eq!(again(), "a.yaml 2", "it is trusted again, and read");
    let busy = busy(&at("..2/a.yaml"));
    let (reading, _) = read(temporary.path(), false, own_rules(), &KnownFiles::default(), &busy);
    assert_eq!(words(reading), "a.yaml unfinished", "its target is being written");
}

#[test]
fn signatures_are_read_with_their_files() {
    let temporary = tempfile::tempdir().unwrap();
    let at = |name: &str| temporary.path().join(name);
    fs::write(at("a.yaml"), "a").unwrap();
    fs::write(at("b.yaml"), "b").unwrap();
    fs::write(at("b.yaml.minisig"), "x").unwrap();
    fs::write(at("c.yaml"), "c").unwrap();
    fs::create_dir(at("c.yaml.minisig")).unwrap();
    fs::write(at("d.yaml"), "d").unwrap();
    fs::write(at("d.yaml.minisig"), "x".repeat(MAX_SIGNATURE + 1)).unwrap();
    assert_eq!(first(temporary.path(), false, own_rules()), "a.yaml a; b.yaml b; c.yaml c; d.yaml d");
    let rules = ReadRules { signatures: true, ..own_rules() };
    assert_eq!(
        first(temporary.path(), false, rules),
        "a.yaml a; b.yaml b signed x; c.yaml its signature cannot be read: is not a regular file; \
         d.yaml its signature cannot be read: it is larger than 16 KiB"
    );
    let busy = busy(&at("b.yaml.minisig"));
    let (reading, _) = read(temporary.path(), false, rules, &KnownFiles::default(), &busy);
    assert!(words(reading).contains("b.yaml unfinished"), "its signature is being written");
}

#[test]
fn a_single_file_that_was_there_was_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("pod.yaml");
    assert!(
        first(&path, false, own_rules()).contains("No such file"),
        "it may be a directory that is missing"
    );
    assert_eq!(first(&path, true, own_rules()), "");
    symlink("nowhere", &path).unwrap();
    assert!(
        first(&path, true, own_rules()).contains("No such file"),
        "a link that leads nowhere is not absent"
    );
    fs::remove_file(&path).unwrap();
    fs::write(&path, "x").unwrap();
    assert_eq!(first(&path, false, own_rules()), "pod.yaml x");
}

/// Somebody writes to a file.
fn busy(path: &Path) -> Writers {
    Writers { writing: BTreeSet::from([real(path)]), ..Writers::default() }
}

#[test]
fn a_file_that_was_written_just_now_may_not_be_whole() {
    let temporary = tempfile::tempdir().unwrap();
    let at = |name: &str| temporary.path().join(name);
    fs::write(at("new.yaml"), "n").unwrap();
    fs::write(at("signed.yaml"), "s").unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(7200);
    File::options().append(true).open(at("signed.yaml")).unwrap().set_modified(long_ago).unwrap();
    fs::write(at("signed.yaml.minisig"), "x").unwrap();
    let hour = Duration::from_secs(3600);
    let cases = [
        ("nothing is known", vec![], "new.yaml unfinished; signed.yaml unfinished", true),
        ("closed", vec!["new.yaml", "signed.yaml.minisig"], "new.yaml n; signed.yaml s signed x", false),
        ("the signature is on its way", vec!["new.yaml"], "new.yaml n; signed.yaml unfinished", true),
    ];
    for (name, whole, expect, unfinished) in cases {
        let whole = whole.into_iter().map(|name| real(&at(name))).collect();
        let writers = Writers { whole, quiet: hour, ..Writers::default() };
        let rules = ReadRules { signatures: true, ..own_rules() };
        let (reading, _) = read(temporary.path(), false, rules, &KnownFiles::default(), &writers);
        assert!(
            matches!(&reading, DirectoryReading::Files(found) if found.unfinished == unfinished),
            "{name}"
        );
        assert_eq!(words(reading), expect, "{name}");
    }
}
