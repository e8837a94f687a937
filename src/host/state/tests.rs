//! Files that are whole, torn, or not there.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn store() -> (tempfile::TempDir, Store) {
    let root = tempfile::tempdir().unwrap();
    let store = Store::new(root.path(), "things");
    (root, store)
}

#[test]
fn what_is_written_is_read_until_it_is_removed() {
    let (_root, store) = store();
    assert_eq!(store.read::<Vec<u8>>("a").unwrap(), None);
    assert!(store.names().unwrap().is_empty());
    for (value, durability) in [(vec![1, 2], Durability::Process), (vec![3], Durability::Power)] {
        store.write("a", &value, durability).unwrap();
        assert_eq!(store.read("a").unwrap(), Some(value));
    }
    assert_eq!(store.names().unwrap(), ["a"]);
    store.remove("a").unwrap();
    store.remove("a").unwrap();
    assert_eq!(store.read::<Vec<u8>>("a").unwrap(), None);
}

#[test]
fn several_values_are_written_together_or_leave_what_was_there() {
    let (root, store) = store();
    store.write_all([("a", &1), ("b", &2)], Durability::Power).unwrap();
    store.write_all::<u32>([], Durability::Power).unwrap();
    fs::create_dir(root.path().join("rkubelet/things/c.tmp")).unwrap();
    assert!(store.write_all([("a", &8), ("b", &9), ("c", &3)], Durability::Power).is_err());
    let held = ["a", "b", "c"].map(|name| store.read::<u32>(name).unwrap());
    assert_eq!(held, [Some(1), Some(2), None]);
    let mut names = store.names().unwrap();
    names.sort();
    assert_eq!(names, ["a", "b"]);
    assert!(!root.path().join("rkubelet/things/a.tmp").exists());
}

#[test]
fn a_damaged_file_says_so_and_can_be_written_over() {
    let (root, store) = store();
    store.write("a", &1, Durability::Process).unwrap();
    for damage in ["", "[1, 2", "\u{0}\u{0}\u{0}", "{\"other\": true}"] {
        fs::write(root.path().join("rkubelet/things/a.json"), damage).unwrap();
        assert!(matches!(store.read::<u32>("a"), Err(StateError::Damaged { .. })), "{damage:?}");
    }
    store.write("a", &2, Durability::Process).unwrap();
    assert_eq!(store.read("a").unwrap(), Some(2));
}

#[test]
fn a_failed_write_leaves_what_was_there() {
    let (root, store) = store();
    store.write("a", &1, Durability::Process).unwrap();
    fs::create_dir(root.path().join("rkubelet/things/a.tmp")).unwrap();
    assert!(matches!(
        store.write("a", &2, Durability::Power),
        Err(StateError::File { operation: "write", .. })
    ));
    assert_eq!(store.read("a").unwrap(), Some(1));
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let (root, store) = store();
    // The quotes count.
    let largest = "x".repeat(usize::try_from(MAX_BYTES).unwrap() - 2);
    store.write("a", &largest, Durability::Process).unwrap();
    assert!(store.read::<String>("a").unwrap().as_ref() == Some(&largest), "the largest is read whole");
    let error = store.write("a", &format!("{largest}x"), Durability::Process).unwrap_err();
    assert!(matches!(&error, StateError::TooLarge { size, .. } if *size as u64 == MAX_BYTES + 1), "{error}");
    assert!(store.read::<String>("a").unwrap() == Some(largest), "what was there is there still");
    assert!(!root.path().join("rkubelet/things/a.tmp").exists());
}

#[test]
fn only_root_reads_it() {
    let (root, store) = store();
    store.write("a", &1, Durability::Process).unwrap();
    let mode = |path: &str| fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("rkubelet/things"), mode("rkubelet/things/a.json")), (0o700, 0o600));
}

#[test]
fn a_small_file_that_need_not_outlive_a_power_cut_is_written_over_in_place() {
    use std::os::unix::fs::MetadataExt as _;
    let (root, store) = store();
    let path = root.path().join("rkubelet/things/a.json");
    let inode = || fs::metadata(&path).unwrap().ino();
    let text = |length: usize| "x".repeat(length);
    let cases = [
        ("shorter", 100, Durability::Process, true),
        ("longer, in the same page", 4094, Durability::Process, true),
        ("longer than a page", 4095, Durability::Process, false),
        ("shorter than what is longer than a page", 10, Durability::Process, false),
        ("to outlive a power cut", 10, Durability::Power, false),
    ];
    store.write("a", &text(200), Durability::Process).unwrap();
    for (case, length, durability, in_place) in cases {
        // Held, so that its number is not given to the next file.
        let (_held, before) = (File::open(&path).unwrap(), inode());
        store.write("a", &text(length), durability).unwrap();
        assert_eq!(store.read("a").unwrap(), Some(text(length)), "{case}");
        assert_eq!(inode() == before, in_place, "{case}");
    }
    let elsewhere = root.path().join("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    store.write("a", &text(3), Durability::Process).unwrap();
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious", "a link is replaced, not followed");
    assert_eq!(store.read("a").unwrap(), Some(text(3)));
}
