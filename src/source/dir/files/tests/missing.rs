//! Files that are not there for a moment.

use super::*;

#[test]
fn a_file_that_is_missing_for_a_moment_keeps_its_pod() {
    let mut files = Files::default();
    let mut step = |there: &[(&str, Option<&str>)], missing: &[&str]| {
        let DirectoryReading::Files(found) = reading(there) else { unreachable!() };
        let missing = missing.iter().map(PathBuf::from).collect();
        let (notices, _) = files.apply(DirectoryReading::Files(FoundFiles { missing, ..found }));
        (pods(&files.snapshot(true)), notices.len())
    };
    let cases = [
        ("two", vec![("a", Some("p 1")), ("b", Some("q 1"))], vec![], ("p@1 q@1", 2)),
        ("one is missing, the other edited", vec![("b", Some("q 2"))], vec!["a"], ("p@1 q@2", 1)),
        ("it is back", vec![("a", Some("p 2")), ("b", None)], vec![], ("p@2 q@2", 1)),
        ("one moves: no clash is said", vec![("b", None), ("c", Some("p 3"))], vec!["a"], ("p@2 q@2", 0)),
        ("it has moved", vec![("b", None), ("c", None)], vec![], ("p@3 q@2", 2)),
        ("a copy: a clash", vec![("b", None), ("c", None), ("d", Some("p 4"))], vec![], ("p@3 q@2", 1)),
        ("both are missing", vec![("d", None)], vec!["b", "c"], ("p@3 q@2", 0)),
        ("both are gone", vec![("d", None)], vec![], ("p@4", 3)),
    ];
    for (name, there, missing, (expect, said)) in cases {
        assert_eq!(step(&there, &missing), (expect.to_owned(), said), "{name}");
    }
}

#[test]
fn a_new_agent_begins_nothing_whose_file_is_missing() {
    let away = |missing: &[&str]| {
        let missing = missing.iter().map(PathBuf::from).collect();
        let DirectoryReading::Files(found) = reading(&[("b", Some("q 1"))]) else { unreachable!() };
        DirectoryReading::Files(FoundFiles { missing, ..found })
    };
    let back = || reading(&[("a", Some("p 1")), ("b", None)]);
    let gone = || DirectoryReading::Unreadable("gone".into());
    let runs: [Vec<Step<'_>>; 3] = [
        vec![
            ("missing: not begun, and not ended", away(&["a"]), Some(("q@1", false))),
            ("still", away(&["a"]), None),
            ("gone", away(&[]), Some(("q@1", true))),
        ],
        vec![
            ("missing", away(&["a"]), Some(("q@1", false))),
            ("it is back", back(), Some(("p@1 q@1", true))),
            ("missing again: it runs on", away(&["a"]), None),
        ],
        vec![
            ("no directory: all of it runs on", gone(), Some(("p@1 q@1", false))),
            ("missing: it runs on", away(&["a"]), Some(("p@1 q@1", true))),
        ],
    ];
    for steps in runs {
        let (mut files, mut disk) = (Files::default(), Disk::default());
        files.apply(reading(&[("a", Some("p 1")), ("b", Some("q 1"))]));
        run_on(restart(&mut files, &mut disk), steps);
    }
}
