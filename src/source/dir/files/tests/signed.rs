//! Signed versions: who signed them, and which may follow which.

use super::*;

#[test]
fn a_signed_pod_never_goes_back() {
    let (mut files, mut disk) = (Files::default(), Disk::default());
    let steps = [
        ("signed", "a", "p 1 5", "accepted p"),
        ("again", "a", "p 1 5", "accepted p"),
        ("newer", "a", "p 2 7", "accepted p"),
        ("older", "a", "p 1 5", "refused replayed: serial 5 is older than 7, which was taken before"),
        (
            "older, elsewhere",
            "b",
            "p 1 5",
            "refused replayed: serial 5 is older than 7, which was taken before",
        ),
        ("other contents", "a", "p 3 7", "refused serial 7 was taken before with other contents"),
        ("none", "a", "p 3 none", "refused no serial in the trusted comment, but 7 was taken before"),
        ("another pod", "a", "q 1 1", "accepted q"),
        ("newer", "a", "p 3 8", "accepted p"),
    ];
    for (name, path, text, expect) in steps {
        files.apply(reading(&[(path, Some(text))]));
        assert!(verdict(&files, path).starts_with(expect), "{name}: {}", verdict(&files, path));
        files = restart(&mut files, &mut disk);
    }
    files.apply(reading(&[]));
    let mut files = restart(&mut files, &mut disk);
    files.apply(reading(&[("a", Some("p 2 7"))]));
    assert!(verdict(&files, "a").contains("replayed"), "not even after it was removed");
}

#[test]
fn a_newcomer_that_does_not_run_raises_no_serial() {
    let mut files = Files::default();
    files.apply(reading(&[("a", Some("p 1 5"))]));
    files.apply(reading(&[("a", None), ("b", Some("p 2 9"))]));
    files.apply(reading(&[("a", Some("p 1 5")), ("b", None)]));
    assert_eq!(verdict(&files, "a"), "accepted p");
}

#[test]
fn what_is_signed_again_is_written_again() {
    let (mut files, mut disk) = (Files::default(), Disk::default());
    let signed_by = |key: &str, files: &mut Files| {
        let FileReading::Read(contents, Ok(manifest)) = contents("p 1 5") else { unreachable!() };
        let signed = Some(Signed { key: key.into(), serial: Some(5) });
        let read = FileReading::Read(contents, Ok(Box::new(ValidManifest { signed, ..*manifest })));
        let files_found = BTreeMap::from([(PathBuf::from("a"), read)]);
        files.apply(DirectoryReading::Files(FoundFiles { files: files_found, ..FoundFiles::default() }));
    };
    for (key, written) in [("old", 1), ("old", 0), ("new", 1), ("new", 0)] {
        signed_by(key, &mut files);
        assert_eq!(disk.save(&mut files).write.len(), written, "{key}");
        let signer = disk.records[Path::new("a")].audit.signed.as_ref().map(|signed| signed.key.as_str());
        assert_eq!(signer, Some(key), "the next agent asks who signed it");
    }
}
