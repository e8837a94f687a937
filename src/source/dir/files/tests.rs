//! Tables of readings and what follows from them.

mod missing;
mod objects;
mod signed;

use super::*;
use crate::pod::decode::Decoded;
use crate::pod::testing::pod;
use crate::pod::{Pod, PodUid};

/// A manifest is `NAME VERSION`; `!` is a bad one; what follows `#` is a comment. `NAME VERSION SERIAL` is signed.
pub(super) fn check_text(text: &str) -> Result<ValidManifest, Refusal> {
    let words: Vec<&str> = text.split('#').next().unwrap().split_whitespace().collect();
    let (name, hash, serial) = match *words.as_slice() {
        [name, hash] => (name, hash, None),
        [name, hash, serial] => (name, hash, Some(serial)),
        _ => return Err(Refusal::from(Finding::new("spec", "bad"))),
    };
    let uid = if hash == "same" { hash.to_owned() } else { format!("{name}-{hash}") };
    let decoded = Decoded { pod: Pod { uid: PodUid(uid), ..pod(name, hash) }, warnings: vec![] };
    let decoded = DecodedFile { pod: Some((WHOLE, decoded)), objects: vec![] };
    let signed = serial.map(|serial| Signed { key: "key".into(), serial: serial.parse().ok() });
    Ok(ValidManifest { decoded, signed })
}

pub(super) fn contents(text: &str) -> FileReading {
    let since = if text.ends_with("old") { (0, 0) } else { (1, 0) };
    let bytes = text.as_bytes().to_vec();
    let contents = FileContents { bytes, signature: None, owner: 0, mode: 0o644, since };
    FileReading::Read(contents, check_text(text).map(Box::new))
}

/// What the next agent begins with, if everything was written; with the records on its disk.
pub(super) fn restart(files: &mut Files, disk: &mut Disk) -> Files {
    disk.save(files);
    let records = disk.records.values().map(|record| (record.clone(), check_text(&record.text.0).unwrap()));
    Files::restored(records.collect(), disk.serials.clone())
}

/// A disk that keeps what it is told to.
#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) records: BTreeMap<PathBuf, LastGoodRecord>,
    serials: BTreeMap<String, Newest>,
}

impl Disk {
    pub(super) fn save(&mut self, files: &mut Files) -> Unsaved {
        let unsaved = files.unsaved();
        self.records.extend(unsaved.write.iter().map(|record| (record.path.clone(), record.clone())));
        self.records.retain(|path, _| !unsaved.remove.contains(path));
        if let Some(serials) = &unsaved.serials {
            self.serials.clone_from(serials);
        }
        files.mark_saved(&unsaved);
        unsaved
    }
}

pub(super) fn reading(files: &[(&str, Option<&str>)]) -> DirectoryReading {
    let each = files
        .iter()
        .map(|(name, text)| (PathBuf::from(name), text.map_or(FileReading::Unfinished, contents)));
    DirectoryReading::Files(FoundFiles { files: each.collect(), ..FoundFiles::default() })
}

pub(super) fn pods(snapshot: &Snapshot) -> String {
    let mut all: Vec<_> = snapshot.pods.iter().map(|p| format!("{}@{}", p.name.name, p.hash)).collect();
    all.sort();
    all.join(" ")
}

/// What is read, the pods that follow (none: no snapshot), and whether all is accounted for.
type Step<'a> = (&'a str, DirectoryReading, Option<(&'a str, bool)>);

fn run(steps: Vec<Step<'_>>) {
    run_on(Files::default(), steps);
}

fn run_on(mut files: Files, steps: Vec<Step<'_>>) {
    for (name, reading, expect) in steps {
        let (_, snapshot) = files.apply(reading);
        let found = snapshot.as_ref().map(|s| (pods(s), s.complete));
        assert_eq!(found.as_ref().map(|(pods, complete)| (pods.as_str(), *complete)), expect, "{name}");
    }
}

#[test]
fn desired_state_shrinks_only_on_evidence() {
    run(vec![
        ("an empty directory is an answer", reading(&[]), Some(("", true))),
        ("two files", reading(&[("a", Some("a 1")), ("b", Some("b 1"))]), Some(("a@1 b@1", true))),
        ("nothing new", reading(&[("a", None), ("b", None)]), None),
        ("touched", reading(&[("a", Some("a 1")), ("b", None)]), None),
        ("broken: the last good stays", reading(&[("a", Some("!")), ("b", None)]), Some(("a@1 b@1", true))),
        ("still broken", reading(&[("a", Some("!")), ("b", None)]), None),
        ("unmounted", DirectoryReading::Unreadable("gone".into()), Some(("a@1 b@1", false))),
        ("still", DirectoryReading::Unreadable("gone".into()), None),
        ("back", reading(&[("a", None), ("b", None)]), Some(("a@1 b@1", true))),
        ("mended", reading(&[("a", Some("a 2")), ("b", None)]), Some(("a@2 b@1", true))),
        ("removed", reading(&[("b", None)]), Some(("b@1", true))),
    ]);
    run(vec![
        ("a file that was never good", reading(&[("a", Some("!"))]), Some(("", false))),
        ("becomes good", reading(&[("a", Some("a 1"))]), Some(("a@1", true))),
    ]);
    run(vec![
        ("still being written when the agent starts", reading(&[("a", None)]), Some(("", false))),
        ("still", reading(&[("a", None)]), None),
        ("and gone before it was read", reading(&[]), Some(("", true))),
    ]);
    run(vec![("missing from the start", DirectoryReading::Unreadable("gone".into()), Some(("", false)))]);
}

#[test]
fn the_incumbent_stays() {
    run(vec![
        ("one", reading(&[("b", Some("p 1"))]), Some(("p@1", true))),
        ("a clash", reading(&[("a", Some("p 2")), ("b", None)]), Some(("p@1", true))),
        ("the incumbent is edited", reading(&[("a", None), ("b", Some("p 3"))]), Some(("p@3", true))),
        ("the incumbent goes", reading(&[("a", None)]), Some(("p@2", true))),
    ]);
    run(vec![
        ("two", reading(&[("a", Some("p 1")), ("b", Some("q 1"))]), Some(("p@1 q@1", true))),
        (
            "one wants the other's name: its last good stays",
            reading(&[("a", None), ("b", Some("p 2"))]),
            Some(("p@1 q@1", true)),
        ),
        ("and gets it when it is free", reading(&[("b", None)]), Some(("p@2", true))),
    ]);
    run(vec![
        ("two", reading(&[("a", Some("p 1")), ("b", Some("q 1"))]), Some(("p@1 q@1", true))),
        ("swapped", reading(&[("a", Some("q 2")), ("b", Some("p 2"))]), Some(("p@2 q@2", true))),
    ]);
    run(vec![(
        "after a restart the older file is the incumbent",
        reading(&[("a", Some("p new")), ("b", Some("p old"))]),
        Some(("p@old", true)),
    )]);
    run(vec![(
        "one UID, two pods",
        reading(&[("a", Some("p same")), ("b", Some("q same"))]),
        Some(("p@same", true)),
    )]);
    let mut files = Files::default();
    let (notices, _) = files.apply(reading(&[("a", Some("p 1")), ("b", Some("p 2"))]));
    assert!(notices.iter().any(|change| matches!(
        change,
        Notice::Verdict { path, outcomes, audit: None }
            if path == Path::new("b")
                && matches!(outcomes.as_slice(), [(_, Outcome::Refused(refusal))] if refusal.to_string() == "metadata.name: pod default/p is already defined by a")
    )));
}

#[test]
fn each_verdict_is_said_once_and_each_edit_again() {
    let mut files = Files::default();
    let mut said = |reading| files.apply(reading).0.len();
    assert_eq!(said(reading(&[("a", Some("a 1"))])), 1);
    assert_eq!(said(reading(&[("a", Some("a 1"))])), 0);
    assert_eq!(said(reading(&[("a", Some("a 2"))])), 1);
    assert_eq!(said(reading(&[("a", Some("!"))])), 1);
    assert_eq!(said(reading(&[("a", Some("!"))])), 0);
    assert_eq!(said(reading(&[("a", Some("a 2"))])), 1, "good again");
    assert_eq!(said(reading(&[])), 1);
}

#[test]
fn nothing_is_said_of_a_kept_version_before_its_file_is_read() {
    let (mut files, mut disk) = (Files::default(), Disk::default());
    files.apply(reading(&[("a", Some("a 1"))]));
    let mut files = restart(&mut files, &mut disk);
    // Somebody is writing it, or was a moment ago.
    let (notices, snapshot) = files.apply(reading(&[("a", None)]));
    assert_eq!((notices.as_slice(), snapshot.map(|snapshot| snapshot.pods.len())), (&[][..], Some(1)));
    assert_eq!(files.apply(reading(&[("a", Some("!"))])).0.len(), 1);
}

/// The verdict on a file, as the last snapshot gives it.
fn verdict(files: &Files, path: &str) -> String {
    match files.outcomes(Path::new(path)).remove(0).1 {
        Outcome::Accepted { subject, .. } => format!("accepted {}", subject.pod().unwrap().name),
        Outcome::Refused(refusal) => format!("refused {refusal}"),
        Outcome::Unchanged { .. } | Outcome::Shadowed { .. } | Outcome::Skipped { .. } => unreachable!(),
    }
}

#[test]
fn a_new_agent_knows_what_the_last_one_wanted() {
    let (mut files, mut disk) = (Files::default(), Disk::default());
    let both = reading(&[("a", Some("p 1")), ("b", Some("q 1"))]);
    files.apply(both);
    let mut files = restart(&mut files, &mut disk);
    let (notices, snapshot) = files.apply(DirectoryReading::Unreadable("gone".into()));
    let snapshot = snapshot.unwrap();
    assert_eq!((pods(&snapshot).as_str(), snapshot.complete), ("p@1 q@1", false), "missing is not empty");
    assert_eq!(notices, [Notice::Unreadable("gone".into())]);

    let mut files = restart(&mut files, &mut disk);
    let (_, snapshot) = files.apply(reading(&[("a", Some("!")), ("b", Some("q 1"))]));
    let snapshot = snapshot.unwrap();
    assert_eq!(
        (pods(&snapshot).as_str(), snapshot.complete),
        ("p@1 q@1", true),
        "broken while nobody looked"
    );
    assert_eq!(verdict(&files, "a"), "refused spec: bad; the last good version runs on");

    let mut files = restart(&mut files, &mut disk);
    let (_, snapshot) = files.apply(reading(&[("b", Some("q 2"))]));
    assert_eq!(pods(&snapshot.unwrap()), "q@2", "removed and edited while nobody looked");
    restart(&mut files, &mut disk);
    assert_eq!(disk.records.keys().collect::<Vec<_>>(), [Path::new("b")], "what is gone is not kept");
}

#[test]
fn incumbents_stay_over_a_restart() {
    let (mut files, mut disk) = (Files::default(), Disk::default());
    files.apply(reading(&[("b", Some("p 1")), ("c", Some("q 1"))]));
    let clash = || reading(&[("a", Some("p old")), ("b", Some("p 1")), ("c", Some("p 3"))]);
    for _ in 0..2 {
        let (_, snapshot) = files.apply(clash());
        if let Some(snapshot) = snapshot {
            assert_eq!(pods(&snapshot), "p@1 q@1");
        }
        assert_eq!(verdict(&files, "a"), "refused metadata.name: pod default/p is already defined by b");
        let kept =
            "refused metadata.name: pod default/p is already defined by b; the last good version runs on";
        assert_eq!(verdict(&files, "c"), kept);
        files = restart(&mut files, &mut disk);
    }
}

#[test]
fn only_what_changed_is_written() {
    let (mut files, mut disk) = (Files::default(), Disk::default());
    let mut step = |reading: DirectoryReading| {
        files.apply(reading);
        let unsaved = disk.save(&mut files);
        (unsaved.write.len(), unsaved.remove.len())
    };
    let cases = [
        ("two", reading(&[("a", Some("a 1")), ("b", Some("b 1"))]), (2, 0)),
        ("nothing", reading(&[("a", None), ("b", None)]), (0, 0)),
        ("touched", reading(&[("a", Some("a 1")), ("b", None)]), (0, 0)),
        ("edited", reading(&[("a", Some("a 2")), ("b", None)]), (1, 0)),
        ("a comment", reading(&[("a", Some("a 2 # why")), ("b", None)]), (1, 0)),
        ("broken", reading(&[("a", Some("!")), ("b", None)]), (0, 0)),
        ("unreadable", DirectoryReading::Unreadable("gone".into()), (0, 0)),
        ("mended", reading(&[("a", Some("a 2 # why")), ("b", None)]), (0, 0)),
        ("a clash", reading(&[("a", None), ("b", None), ("c", Some("a 3"))]), (0, 0)),
        ("the incumbent goes", reading(&[("b", None), ("c", None)]), (1, 1)),
        ("all gone", reading(&[]), (0, 2)),
    ];
    for (name, reading, expect) in cases {
        assert_eq!(step(reading), expect, "{name}");
    }
}

#[test]
fn what_could_not_be_written_is_offered_again() {
    let mut files = Files::default();
    files.apply(reading(&[("a", Some("a 1"))]));
    assert_eq!(files.unsaved(), files.unsaved());
    files.apply(reading(&[("a", None)]));
    assert_eq!(&*files.unsaved().write[0].text.0, "a 1");
    files.mark_saved(&files.unsaved());
    assert!(files.unsaved().is_empty());
}

#[test]
fn the_disk_is_not_filled() {
    let (mut files, mut disk) = (Files::default(), Disk::default());
    files.apply(reading(&[("a", Some("a 1")), ("b", Some("b 1")), ("c", Some("c 1"))]));
    for file in files.files.values_mut() {
        file.runs.as_mut().unwrap().size = 30 << 20;
    }
    let unsaved = disk.save(&mut files);
    assert_eq!((unsaved.write.len(), unsaved.left_out), (2, vec![PathBuf::from("c")]));
    assert!(files.unsaved().is_empty());
    files.apply(reading(&[("a", Some("a 2")), ("b", None), ("c", Some("c 2"))]));
    let unsaved = disk.save(&mut files);
    assert_eq!((unsaved.write.len(), unsaved.left_out.len()), (2, 0));
}

#[test]
fn what_was_left_out_is_written_when_there_is_room() {
    let (mut files, mut disk) = (Files::default(), Disk::default());
    let make_large = |files: &mut Files| {
        for file in files.files.values_mut() {
            file.runs.as_mut().unwrap().size = 30 << 20;
        }
    };
    let mut step = |now: &[(&str, Option<&str>)], large: bool| {
        files.apply(reading(now));
        if large {
            make_large(&mut files);
        }
        disk.save(&mut files);
        disk.records.values().map(|record| record.text.0.to_string()).collect::<Vec<_>>()
    };
    let all = [("b", Some("b 1")), ("c", Some("c 1")), ("d", Some("d 1"))];
    assert_eq!(step(&all, true), ["b 1", "c 1"], "no room for the last");
    assert_eq!(step(&[("b", None), ("c", None), ("d", None)], true), ["b 1", "c 1"], "still none");
    let newcomer = [("a", Some("a 1")), ("b", None), ("c", None), ("d", None)];
    assert_eq!(step(&newcomer, true), ["b 1", "c 1"], "what is on disk is not crowded out");
    assert_eq!(step(&[("b", Some("b 2")), ("c", None), ("d", None)], false), ["b 2", "c 1", "d 1"], "room");
}

#[test]
fn accepted_versions_are_audited_and_skipped_files_are_named_once() {
    let mut files = Files::default();
    let mut said = |text: &str| {
        let DirectoryReading::Files(mut found) = reading(&[("a", Some(text))]) else { unreachable!() };
        found.skipped.insert("sub".into(), "why");
        found.skipped_unnamed = 5;
        files.apply(DirectoryReading::Files(found)).0
    };
    let notices = said("p 1 5");
    assert_eq!(notices[0], Notice::Skipped("sub".into(), "why"));
    assert_eq!(notices[1], Notice::SkippedUnnamed(5));
    let Notice::Verdict { audit: Some(audit), .. } = &notices[2] else { panic!("{notices:?}") };
    assert_eq!(audit.sha256, digest(b"p 1 5"));
    assert_eq!((audit.owner, audit.mode), (0, 0o644));
    assert_eq!(audit.signed, Some(Signed { key: "key".into(), serial: Some(5) }));
    assert_eq!(said("p 1 5"), []);
    assert!(matches!(
        said("p 1 5 # changed").as_slice(),
        [Notice::Verdict { outcomes, .. }] if matches!(outcomes[0].1, Outcome::Refused(_))
    ));
    assert!(matches!(said("p 2 6").as_slice(), [Notice::Verdict { audit: Some(_), .. }]));
}

#[test]
fn only_valid_manifests_speak_for_their_directory() {
    let mut files = Files::default();
    files.apply(reading(&[("a", Some("a 1")), ("b", Some("b 1")), ("c", Some("!"))]));
    assert_eq!(files.running(), 2);
    let read = |text| contents(text);
    let cases = [
        ("nothing", vec![], 0),
        ("a stray file", vec![("leftover", read("!"))], 0),
        ("a stray file by the name of a manifest", vec![("a", read("!"))], 0),
        ("one that cannot be read", vec![("a", FileReading::Refused("no".into()))], 0),
        ("one that is being written", vec![("a", FileReading::Unfinished)], 0),
        ("the same files as before", vec![("a", FileReading::Unchanged), ("c", FileReading::Unchanged)], 1),
        ("another pod", vec![("d", read("d 1")), ("leftover", read("!"))], 1),
    ];
    for (name, found, expect) in cases {
        let found = found.into_iter().map(|(path, reading)| (PathBuf::from(path), reading)).collect();
        let found = FoundFiles { files: found, ..FoundFiles::default() };
        assert_eq!(files.count_valid(&found), expect, "{name}");
    }
}
