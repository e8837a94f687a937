//! Sequences of readings, and what is left of the pods after each.

use serde_json::json;

use super::*;
use crate::pod::PodUid;
use crate::pod::decode::Decoded;
use crate::pod::decode::list::ItemPath;
use crate::pod::finding::Refusal;
use crate::pod::testing::pod;
use crate::sync::view::diff_verdicts;

/// `NAME VERSION` is a pod, with a UID of its own or that of `NAME VERSION UID`; `NAME!` is a bad one, `!` something of
/// which nobody knows what it is.
fn items(text: &str) -> UrlReading {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let items = words.enumerate().map(|(index, word)| {
        let path = ItemPath { document: None, item: Some(index) };
        let refusal = || Err(Refusal::from(Finding::new("spec", "bad")));
        let (name, decoded) = match word.split_once(' ') {
            Some((name, version)) => {
                let (hash, uid) = match version.split_once(' ') {
                    Some((hash, uid)) => (hash, uid.to_owned()),
                    None => (version, format!("{name}-{version}")),
                };
                let pod = Pod { source: Source::Http, uid: PodUid(uid), ..pod(name, hash) };
                (Some(name), Ok(Decoded { pod, warnings: vec![] }))
            }
            None => (word.strip_suffix('!').filter(|name| !name.is_empty()), refusal()),
        };
        let name = name.map(|name| PodName::new("default", name));
        ListItem { path, name, manifest: json!({"is": word}), decoded }
    });
    let contents = ListContents { pods: items.collect(), objects: vec![] };
    UrlReading::Items { contents, signer: None }
}

fn failed(reason: &str) -> UrlReading {
    UrlReading::Failed(UrlFailure { reason: reason.to_owned(), cause: Cause::Network })
}

fn told(snapshot: &Snapshot) -> String {
    let pods = snapshot.pods.iter().map(|p| format!("{}@{}", p.name.name, p.hash));
    pods.collect::<Vec<_>>().join(" ")
}

fn judge(kept: &[(&str, &str)]) -> UrlJudge {
    let kept = kept.iter().map(|(name, hash)| Held {
        pod: Arc::new(Pod { source: Source::Http, uid: PodUid(format!("{name}-{hash}")), ..pod(name, hash) }),
        manifest: "{}".into(),
        signer: None,
    });
    UrlJudge::new("http://h/".to_owned(), kept, [])
}

/// A reading, the pods that follow (none: no snapshot), and whether all is accounted for.
type Step<'a> = (&'a str, UrlReading, Option<(&'a str, bool)>);

fn run(mut judge: UrlJudge, steps: Vec<Step<'_>>) {
    for (name, reading, expect) in steps {
        let snapshot = judge.apply(reading).snapshot;
        let found = snapshot.as_ref().map(|s| (told(s), s.complete));
        assert_eq!(found.as_ref().map(|(pods, complete)| (pods.as_str(), *complete)), expect, "{name}");
    }
}

#[test]
fn desired_state_shrinks_only_on_evidence() {
    run(
        judge(&[]),
        vec![
            ("down from the start", failed("down"), Some(("", false))),
            ("still", failed("down"), None),
            ("two pods", items("a 1, b 1"), Some(("a@1 b@1", true))),
            ("the same contents", UrlReading::Same, None),
            ("the same pods, written otherwise", items("a 1, b 1"), None),
            ("down", failed("down"), Some(("a@1 b@1", true))),
            ("for another reason", failed("late"), Some(("a@1 b@1", true))),
            ("back", UrlReading::Same, Some(("a@1 b@1", true))),
            ("one turns bad: its last good stays", items("a!, b 2"), Some(("a@1 b@2", true))),
            ("and is still bad", items("a!, b 2"), None),
            ("something unknown: nobody goes", items("!, b 3"), Some(("a@1 b@3", false))),
            ("nothing but the unknown is a failure", items("!"), Some(("a@1 b@3", false))),
            ("mended, and one is gone", items("b 3"), Some(("b@3", true))),
            ("a bad one that was never good", items("b 3, c!"), Some(("b@3", false))),
            ("an empty list says so", items(""), Some(("", true))),
        ],
    );
    run(
        judge(&[("a", "1"), ("b", "1")]),
        vec![
            ("kept from before, the server down", failed("down"), Some(("a@1 b@1", false))),
            ("the server is back", items("a 1, b 2"), Some(("a@1 b@2", true))),
        ],
    );
    run(judge(&[("a", "1")]), vec![("an empty list removes what was kept", items(""), Some(("", true)))]);
}

#[test]
fn of_two_pods_of_one_name_the_first_stays() {
    run(
        judge(&[]),
        vec![
            ("two of a name", items("a 1, a 2"), Some(("a@1", true))),
            ("the first is bad: its last good stays", items("a!, a 2"), Some(("a@1", true))),
            ("the first is good again", items("a 3, a 2"), Some(("a@3", true))),
            ("the first is gone", items("a 2"), Some(("a@2", true))),
            ("a first one that was never good", items("b!, a 2, b 1"), Some(("a@2", false))),
            ("is gone", items("a 2, b 1"), Some(("a@2 b@1", true))),
            ("one UID, two pods", items("x 1 same, y 1 same"), Some(("x@1", false))),
        ],
    );
    let mut judge = judge(&[]);
    let outcome = |judged: &Judged, place: usize| match &judged.changes[place] {
        UrlChange::Verdict(Verdict {
            origin, document, item, outcome: Outcome::Refused(refusal), ..
        }) => {
            format!("{origin} {document} {item:?}: {refusal}")
        }
        other => format!("{other:?}"),
    };
    let judged = judge.apply(items("a 1, a 2"));
    assert_eq!(
        outcome(&judged, 1),
        "http://h/ 1 Some(1): metadata.name: pod default/a is already defined by http://h/ items[0]"
    );
    let judged = judge.apply(items("x 1 same, y 1 same"));
    assert_eq!(
        outcome(&judged, 2),
        "http://h/ 1 Some(1): metadata.uid: UID same is already defined by http://h/ items[0]"
    );
}

#[test]
fn a_name_that_cannot_be_is_no_evidence() {
    run(
        judge(&[]),
        vec![
            ("two pods", items("a 1, b 1"), Some(("a@1 b@1", true))),
            ("a capital letter: nobody goes", items("A!, b 2"), Some(("a@1 b@2", false))),
            ("mended", items("b 2"), Some(("b@2", true))),
        ],
    );
}

#[test]
fn what_could_not_be_kept_is_not_accepted() {
    let nested = |levels: usize| {
        let deep = (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let UrlReading::Items { mut contents, signer } = items("a 1") else { panic!("items") };
        let items = &mut contents.pods;
        items[0].manifest = deep;
        UrlReading::Items { contents, signer }
    };
    run(judge(&[]), vec![("as deep as can be read", nested(127), Some(("a@1", true)))]);
    run(judge(&[]), vec![("deeper", nested(128), Some(("", false)))]);
}

#[test]
fn a_long_reason_is_cut() {
    let mut judge = judge(&[]);
    let judged = judge.apply(failed(&"x".repeat(9 << 20)));
    let UrlChange::Failed(reason) = &judged.changes[0] else { panic!("{:?}", judged.changes.len()) };
    assert!(reason.len() < 3000 && reason.contains(" bytes)..."), "{} bytes", reason.len());
}

#[test]
fn each_pod_has_the_key_that_signed_it() {
    let signed = |text: &str, key: &str| match items(text) {
        UrlReading::Items { contents, .. } => UrlReading::Items { contents, signer: Some(key.to_owned()) },
        reading => reading,
    };
    let mut judge = judge(&[]);
    judge.apply(signed("a 1, b 1", "k1"));
    judge.apply(signed("a!, b 1", "k2"));
    let signers: Vec<_> = judge.held().map(|held| held.signer.as_deref()).collect();
    assert_eq!(signers, [Some("k1"), Some("k2")], "a bad one's last good version is not the new key's");
}

#[test]
fn nobody_takes_the_uid_of_a_pod_that_is_held() {
    let two = || ("two pods", items("a 1 U, b 1 V"), Some(("a@1 b@1", true)));
    run(
        judge(&[]),
        vec![
            two(),
            ("one wants the other's: its last good stays", items("a 2 V, b 2 V"), Some(("a@1 b@2", true))),
            ("in either order", items("b 3 U, a 3 U"), Some(("a@3 b@2", true))),
            ("they may change places", items("a 4 V, b 4 U"), Some(("a@4 b@4", true))),
            (
                "a new one does not take it from one that is bad",
                items("c 1 V, a!, b 4 U"),
                Some(("a@4 b@4", false)),
            ),
            ("nor from one that nobody can tell by name", items("c 1 V, !, b 5 U"), Some(("a@4 b@5", false))),
            ("nor from one that returns to it", items("c 1 V, a 5 U, b 5 U"), Some(("a@4 b@5", false))),
            ("but from one that is gone", items("c 1 V, b 5 U"), Some(("b@5 c@1", true))),
        ],
    );
    let mut judge = judge(&[]);
    judge.apply(two().1);
    let judged = judge.apply(items("c 1 U, a!, b 1 V"));
    let said: Vec<_> = judged.changes.iter().map(|change| format!("{change:?}")).collect();
    let owner = "UID U is already defined by the last good version of default/a";
    assert!(said.iter().any(|change| change.contains(owner)), "{said:?}");
}

#[test]
fn each_verdict_is_said_once_and_each_edit_again() {
    let mut judge = judge(&[]);
    let mut said = |reading| judge.apply(reading).changes.len();
    assert_eq!(said(items("a 1, b!")), 2);
    assert_eq!(said(items("a 1, b!")), 0);
    assert_eq!(said(items("n 1, a 1, b!")), 1, "others have only moved");
    assert_eq!(said(items("n 1, a 2, b!")), 1);
    assert_eq!(said(failed("down")), 1);
    assert_eq!(said(failed("down")), 0);
    assert_eq!(said(items("n 1, a 2, b!")), 1, "recovered");
    assert_eq!(said(items("n 1, b!")), 1, "removed");
}

#[test]
fn a_failure_is_a_verdict_on_the_url_until_it_is_over() {
    let mut judge = judge(&[]);
    judge.apply(items("a 1"));
    let verdicts = |judged: Judged| {
        let verdicts = judged.snapshot.unwrap().verdicts;
        verdicts
            .into_iter()
            .map(|v| {
                let refused = matches!(v.outcome, Outcome::Refused(_));
                format!("{} {} {:?} {refused}", v.origin, v.document, v.item)
            })
            .collect::<Vec<_>>()
    };
    let judged = judge.apply(failed("down"));
    assert_eq!(judged.failure.as_ref().map(|failure| failure.cause), Some(Cause::Network));
    assert_eq!(verdicts(judged), ["http://h/ 0 None true", "http://h/ 1 Some(0) false"]);
    let judged = judge.apply(UrlReading::Same);
    assert_eq!(judged.failure, None);
    assert_eq!(verdicts(judged), ["http://h/ 1 Some(0) false"]);
}

#[test]
fn each_verdict_has_a_place_of_its_own() {
    let mut judge = judge(&[("a", "1"), ("b", "1")]);
    for reading in [failed("down"), items("a 1, b 2, c!"), failed("late")] {
        let verdicts = judge.apply(reading).snapshot.unwrap().verdicts;
        assert!(verdicts.len() > 2);
        assert_eq!(diff_verdicts(&verdicts, &verdicts), []);
    }
}

#[test]
fn more_parts_than_anybody_needs_are_a_failure() {
    let many = |count: usize| items(&(0..count).map(|n| format!("p{n} 1,")).collect::<String>());
    let mut judge = judge(&[("a", "1")]);
    let judged = judge.apply(many(MOST_ITEMS + 1));
    let snapshot = judged.snapshot.unwrap();
    assert_eq!((snapshot.pods.len(), snapshot.verdicts.len()), (1, 2));
    assert_eq!(judged.failure.unwrap().reason, "holds 5001 pods, more than 5000");
    let judged = judge.apply(many(MOST_ITEMS));
    assert_eq!((judged.failure, judged.snapshot.unwrap().pods.len()), (None, MOST_ITEMS));
}

#[test]
fn what_is_kept_is_the_manifest_of_what_counts() {
    let mut judge = judge(&[]);
    judge.apply(items("a 1, b 1"));
    judge.apply(items("a!, b 2"));
    let kept: Vec<_> = judge.held().map(|held| held.manifest.to_string()).collect();
    assert_eq!(kept, [r#"{"is":"a 1"}"#, r#"{"is":"b 2"}"#]);
}
