//! Tables: files and attempts on one side, steps on the other.

use super::*;

const POLICY: Policy = Policy { max_size: 100, max_files: 4, workers: 1, interval: Duration::from_secs(10) };

/// `name` or `name=size`, separated by spaces.
fn files(text: &str) -> Vec<LogFile> {
    let file = |word: &str| {
        let (name, size) = word.split_once('=').unwrap_or((word, "10"));
        LogFile { name: name.to_owned(), size: size.parse().unwrap() }
    };
    text.split_whitespace().map(file).collect()
}

/// `r0 d1` and so on: running, dead, unknown.
fn logs(attempts: &str, text: &str) -> ContainerLogs {
    let attempts = attempts.split_whitespace().map(|word| {
        let life = match &word[..1] {
            "r" => ContainerLife::Running,
            "d" => ContainerLife::Dead,
            _ => ContainerLife::Unknown,
        };
        (word[1..].parse().unwrap(), life)
    });
    ContainerLogs { files: files(text), attempts: attempts.collect() }
}

fn told(step: &RotationStep) -> String {
    match step {
        RotationStep::Remove(name) => format!("remove {name}"),
        RotationStep::Compress(name) => format!("compress {name}"),
        RotationStep::Rotate { attempt, from, to } => format!("rotate {attempt} {from} {to}"),
        RotationStep::Reopen { attempt } => format!("reopen {attempt}"),
        RotationStep::Restore { from, to } => format!("restore {from} {to}"),
        RotationStep::Cut { name, keep } => format!("cut {name} {keep}"),
    }
}

fn rotation(attempts: &str, files: &str) -> Vec<String> {
    let now = "2026-11-18T11:02:03.5Z".parse().unwrap();
    plan_rotation(&logs(attempts, files), &POLICY, now).iter().map(told).collect()
}

#[test]
fn what_is_rotated_compressed_and_removed() {
    for (case, attempts, files, steps) in [
        ("small", "r0", "0.log=99", &[][..]),
        ("nothing written", "r0", "0.log=0", &[]),
        ("as large as allowed", "r0", "0.log=100", &["rotate 0 0.log 0.log.20261118-110203"]),
        ("dead", "d0", "0.log=1000", &[]),
        ("about to start", "u0", "0.log=1000 0.log.a.tmp", &[]),
        ("not ours", "r0", "0.log=9 00.log=999 x.log=999 0.logs=999 0.log.=999 1.txt", &[]),
        (
            "the newest rotated part is compressed when it is not the newest any more",
            "r0",
            "0.log=100 0.log.20261118-100000",
            &["compress 0.log.20261118-100000", "rotate 0 0.log 0.log.20261118-110203"],
        ),
        (
            "excess goes first, the oldest of it first",
            "r0",
            "0.log.20261118-100000 0.log=100 0.log.20261117-000000.gz 0.log.20261116-000000.gz",
            &[
                "remove 0.log.20261116-000000.gz",
                "compress 0.log.20261118-100000",
                "rotate 0 0.log 0.log.20261118-110203",
            ],
        ),
        (
            "an agent was killed before it removed what it had compressed",
            "r0",
            "0.log=5 0.log.20261118-100000 0.log.20261118-100000.gz",
            &["remove 0.log.20261118-100000"],
        ),
        (
            "and while it compressed",
            "r0",
            "0.log=5 0.log.20261118-100000 0.log.20261118-100000.tmp",
            &["remove 0.log.20261118-100000.tmp"],
        ),
        ("and while it cut", "d0 r1", "0.log 0.log.tmp 1.log", &["remove 0.log.tmp"]),
        ("and after it had renamed", "r0", "0.log.20261118-100000=100", &["reopen 0"]),
        (
            "and then the container died",
            "d0",
            "0.log.20261117-100000.gz 0.log.20261118-100000=100",
            &["restore 0.log.20261118-100000 0.log"],
        ),
        ("no log at all", "r0", "", &["reopen 0"]),
        ("dead without a log", "d0", "", &[]),
        (
            "each attempt has its own",
            "d1 r2",
            "1.log=500 1.log.20261118-100000 2.log=100",
            &["rotate 2 2.log 2.log.20261118-110203"],
        ),
    ] {
        assert_eq!(rotation(attempts, files), steps, "{case}");
    }
}

#[test]
fn with_two_files_one_rotated_part_is_kept() {
    let policy = Policy { max_files: 2, ..POLICY };
    let logs = logs("r0", "0.log=100 0.log.20261118-100000");
    let steps = plan_rotation(&logs, &policy, "2026-11-18T11:02:03Z".parse().unwrap());
    let steps: Vec<_> = steps.iter().map(told).collect();
    assert_eq!(steps, ["remove 0.log.20261118-100000", "rotate 0 0.log 0.log.20261118-110203"]);
}

#[test]
fn no_part_takes_the_name_of_another_nor_sorts_before_it() {
    let now = "2026-11-18T11:02:03.9Z".parse().unwrap();
    for (case, there, name) in [
        ("none", &[][..], "20261118-110203"),
        ("an older one", &["0.log.20261118-110202.gz"], "20261118-110203"),
        ("within the second", &["0.log.20261118-110203"], "20261118-110204"),
        ("compressed, within the second", &["0.log.20261118-110203.gz"], "20261118-110204"),
        (
            "the clock was set back",
            &["0.log.20270101-235959.gz", "0.log.20200101-000000.gz"],
            "20270102-000000",
        ),
        ("a name of somebody else", &["0.log.backup"], "20261118-110203"),
        ("the end of time", &["0.log.99991231-235959"], "20261118-110203"),
        ("both", &["0.log.99991231-235959", "0.log.20261118-110203"], "20261118-110204"),
    ] {
        assert_eq!(rotated_name("0.log", there, now), format!("0.log.{name}"), "{case}");
    }
}

fn capped(pod: &[ContainerLogs], cap: u64) -> Vec<String> {
    plan_cap(pod, cap, &POLICY).iter().map(|(place, step)| format!("{place} {}", told(step))).collect()
}

#[test]
fn what_goes_when_a_pod_has_too_much() {
    let pod = [
        logs("d1 d2 r3", "1.log=50 2.log=300 3.log=90 3.log.20260103-000000=40 2.log.20260101-000000.gz=20"),
        logs("r0", "0.log=80 0.log.20260102-000000.gz=20"),
    ];
    let all: Vec<_> = [
        "0 remove 2.log.20260101-000000.gz",
        "1 remove 0.log.20260102-000000.gz",
        "0 remove 3.log.20260103-000000",
        "0 cut 1.log 0",
    ]
    .map(str::to_owned)
    .into();
    assert_eq!(capped(&pod, 600), [""; 0], "it fits");
    assert_eq!(capped(&pod, 599), all[..1], "the oldest rotated part");
    assert_eq!(capped(&pod, 570), all[..2], "of whichever container");
    assert_eq!(capped(&pod, 520), all[..3]);
    assert_eq!(capped(&pod, 519), [&all[..], &[]].concat(), "then what kubelet would not keep");
    assert_eq!(
        capped(&pod, 400),
        [&all[..], &["0 cut 2.log 100".to_owned()]].concat(),
        "to one file's worth"
    );
    assert_eq!(capped(&pod, 230), [&all[..], &["0 cut 2.log 60".to_owned()]].concat(), "or to less");
    assert_eq!(
        capped(&pod, 0),
        [&all[..], &["0 cut 2.log 0".to_owned()]].concat(),
        "never what is written to"
    );
}

#[test]
fn what_may_be_about_to_start_is_not_cut() {
    for (case, attempts) in [("made", "u0"), ("not known to the runtime yet", "")] {
        assert_eq!(capped(&[logs(attempts, "0.log=1000")], 10), [""; 0], "{case}");
    }
    assert_eq!(capped(&[logs("r1", "0.log=1000 1.log")], 30), ["0 cut 0.log 20"], "removed from the runtime");
}

#[test]
fn the_largest_of_the_last_logs_is_cut_first() {
    let pod = [logs("d0", "0.log=200"), logs("d0", "0.log=900")];
    assert_eq!(capped(&pod, 500), ["1 cut 0.log 100"]);
}

#[test]
fn caps() {
    assert_eq!(POLICY.pod_cap(3), 1200);
    assert_eq!(Policy { max_size: 0, ..POLICY }.pod_cap(3), u64::MAX);
    assert_eq!(Policy { max_size: u64::MAX, ..POLICY }.pod_cap(3), u64::MAX);
}

#[test]
fn logs_that_grow_fast_are_looked_at_sooner() {
    let wait = |waited, largest| POLICY.next_wait(Duration::from_millis(waited), largest).as_millis();
    for (case, waited, largest, next) in [
        ("nothing", 10_000, 0, 10_000),
        ("within the limit", 10_000, 100, 10_000),
        ("twice as fast", 10_000, 200, 5000),
        ("as fast as it was", 5000, 100, 10_000),
        ("still too fast", 5000, 200, 2500),
        ("much too fast", 10_000, 100_000, 500),
    ] {
        assert_eq!(wait(waited, largest), next, "{case}");
    }
    assert_eq!(Policy { max_size: 0, ..POLICY }.next_wait(Duration::from_secs(1), 50), POLICY.interval);
}

#[test]
fn the_oldest_of_all_attempts() {
    let all = files("3.log 3.log.20260103-000000 2.log.20260101-000000.gz 4.log.20250101-000000.tmp");
    assert_eq!(select_oldest(&all).map(|file| file.name.as_str()), Some("2.log.20260101-000000.gz"));
    assert_eq!(select_oldest(&files("0.log")), None);
    assert_eq!(current_of("2.log.20260101-000000.gz").as_deref(), Some("2.log"));
}

#[test]
fn what_makes_way_on_a_full_disk() {
    let pod = [
        logs("r3", "3.log=90 3.log.20260103-000000=40"),
        logs("r0", "0.log=80 0.log.20260104-000000 0.log.20260102-000000.gz"),
    ];
    assert_eq!(plan_full(&pod), Some((1, RotationStep::Remove("0.log.20260102-000000.gz".into()))));
    assert_eq!(plan_full(&[logs("d0", "0.log=1000")]), None, "only what was rotated");
}
