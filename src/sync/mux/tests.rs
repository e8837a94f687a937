//! Snapshots in, differences and verdicts out.

use proptest::prelude::*;

use super::*;
use crate::pod::object::ObjectKind;
use crate::pod::object::testing::object;
use crate::pod::testing::{pod, pod_after};

fn snapshot(source: Source, pods: Vec<Arc<Pod>>) -> Snapshot {
    let verdicts = pods
        .iter()
        .map(|p| Verdict {
            source,
            origin: format!("{source}:{}", p.name.name),
            document: 1,
            item: None,
            outcome: Outcome::Accepted { subject: p.name.clone().into(), warnings: vec![] },
        })
        .collect();
    Snapshot {
        source,
        pods,
        objects: vec![],
        complete: true,
        untrusted_signatures: BTreeMap::new(),
        verdicts,
    }
}

fn from(source: Source, name: &str, hash: &str) -> Arc<Pod> {
    Arc::new(Pod { source, ..pod(name, hash) })
}

#[test]
fn differences_are_what_changed_and_nothing_else() {
    let mut mux = PodConfig::new([Source::File]);
    let a1 = from(Source::File, "a", "1");
    let a2 = from(Source::File, "a", "2");
    let b = from(Source::File, "b", "3");
    assert_eq!(
        mux.apply(snapshot(Source::File, vec![a1.clone(), b.clone()])),
        [PodUpdate::Add(a1.clone()), PodUpdate::Add(b.clone())]
    );
    assert_eq!(mux.apply(snapshot(Source::File, vec![a1, b])), []);
    assert_eq!(
        mux.apply(snapshot(Source::File, vec![a2.clone()])),
        [PodUpdate::Remove(PodName::new("default", "b")), PodUpdate::Update(a2)]
    );
}

#[test]
fn the_directory_wins_and_the_url_takes_over_when_it_goes() {
    let mut mux = PodConfig::new([Source::File, Source::Http]);
    let file = from(Source::File, "a", "1");
    let http = from(Source::Http, "a", "2");
    assert_eq!(mux.apply(snapshot(Source::Http, vec![http.clone()])), [], "the directory has not spoken");
    assert!(!mux.all_settled() && !mux.is_settled(Source::Http) && !mux.is_settled(Source::File));
    assert_eq!(mux.apply(snapshot(Source::File, vec![file.clone()])), [PodUpdate::Add(file)]);
    assert!(mux.is_settled(Source::Http) && mux.is_settled(Source::File));
    let by = Winner { source: Source::File, origin: Some("file:a".to_owned()) };
    let shadowed = Outcome::Shadowed { subject: PodName::new("default", "a").into(), by };
    assert!(mux.verdicts().iter().any(|v| v.source == Source::Http && v.outcome == shadowed));
    assert_eq!(mux.apply(snapshot(Source::File, vec![])), [PodUpdate::Update(http)]);
    assert!(mux.all_settled());
}

#[test]
fn what_is_taken_again_is_unchanged() {
    let mut mux = PodConfig::new([Source::File]);
    let word = |mux: &PodConfig| mux.verdicts()[0].outcome.word();
    let good = |hash| snapshot(Source::File, vec![from(Source::File, "a", hash)]);
    let refused = || {
        let mut snapshot = good("2");
        snapshot.verdicts[0].outcome = Outcome::Refused(Finding::whole("bad").into());
        snapshot
    };
    let moved = || {
        let mut snapshot = good("2");
        snapshot.verdicts[0].origin = "elsewhere".to_owned();
        snapshot
    };
    for (step, snapshot, want) in [
        ("new", good("1"), "accepted"),
        ("again", good("1"), "unchanged"),
        ("and again", good("1"), "unchanged"),
        ("edited", good("2"), "accepted"),
        ("broken, the last good runs", refused(), "refused"),
        ("mended", good("2"), "accepted"),
        ("elsewhere in a list", moved(), "unchanged"),
    ] {
        mux.apply(snapshot);
        assert_eq!(word(&mux), want, "{step}");
    }
}

#[test]
fn nothing_is_known_of_a_source_that_was_not_given_or_is_incomplete() {
    let mut mux = PodConfig::new([Source::File]);
    assert!(!mux.is_settled(Source::Api) && !mux.is_settled(Source::File));
    mux.apply(Snapshot { complete: false, ..snapshot(Source::File, vec![]) });
    assert!(!mux.is_settled(Source::File));
    assert!(mux.expects(Source::File) && !mux.expects(Source::Api));
}

#[test]
fn of_two_pods_with_one_uid_the_one_that_had_it_stays() {
    let mut mux = PodConfig::new([Source::File, Source::Http]);
    let url = from(Source::Http, "a", "same");
    let (file, own) = (from(Source::File, "b", "same"), from(Source::File, "b", "own"));
    mux.apply(snapshot(Source::File, vec![own]));
    mux.apply(snapshot(Source::Http, vec![url.clone()]));
    assert_eq!(mux.apply(snapshot(Source::File, vec![file.clone()])), [], "both run on as they were");
    let [Verdict { outcome: Outcome::Refused(refusal), .. }, _] = &mux.verdicts()[..] else {
        panic!("{:?}", mux.verdicts())
    };
    assert_eq!(refusal.to_string(), "metadata.uid: UID same is already that of pod default/a");
    assert!(mux.refuses(&file.name) && !mux.refuses(&url.name));
    let freed = mux.apply(snapshot(Source::Http, vec![]));
    assert_eq!(freed, [PodUpdate::Remove(url.name.clone()), PodUpdate::Update(file.clone())]);

    let mut new = PodConfig::new([Source::File, Source::Http]);
    new.apply(snapshot(Source::File, vec![file.clone()]));
    assert_eq!(new.apply(snapshot(Source::Http, vec![url])), [], "the newcomer waits");
}

#[test]
fn a_circle_across_sources_is_refused_and_what_was_good_stays() {
    let mut mux = PodConfig::new([Source::File, Source::Http]);
    let a = Arc::new(pod_after("a", "1", "b"));
    let b = |hash, after| Arc::new(Pod { source: Source::Http, ..pod_after("b", hash, after) });
    let (b1, b2, b3) = (b("2", "c"), b("3", "a"), b("4", "d"));
    mux.apply(snapshot(Source::File, vec![a.clone()]));
    mux.apply(snapshot(Source::Http, vec![b1]));
    assert_eq!(mux.refusals(), []);
    assert_eq!(mux.apply(snapshot(Source::Http, vec![b2])), [], "both run on as they were");
    let verdicts = mux.verdicts();
    let reasons: Vec<_> = verdicts
        .iter()
        .map(|v| match &v.outcome {
            Outcome::Refused(refusal) => (refusal.first.field.as_str(), refusal.first.reason.as_str()),
            other => panic!("{other:?}"),
        })
        .collect();
    let field = "metadata.annotations[rkubelet.dev/after]";
    assert_eq!(
        reasons,
        [
            (field, "pods wait for each other in a circle: a -> b -> a"),
            (field, "pods wait for each other in a circle: b -> a -> b")
        ]
    );
    assert_eq!(mux.refusals(), verdicts);
    assert!(mux.refuses(&a.name));
    assert_eq!(mux.apply(snapshot(Source::Http, vec![b3.clone()])), [PodUpdate::Update(b3)]);
    assert_eq!(mux.refusals(), []);
}

fn snapshots() -> impl Strategy<Value = Vec<Snapshot>> {
    let source = prop_oneof![Just(Source::File), Just(Source::Http), Just(Source::Api)];
    let pods = prop::collection::btree_map(0u8..5, 0u8..3, 0..5);
    let one = (source, pods).prop_map(|(source, pods)| {
        let held = pods.into_iter().map(|(n, h)| from(source, &format!("p{n}"), &format!("{source}{n}-{h}")));
        snapshot(source, held.collect())
    });
    prop::collection::vec(one, 0..12)
}

fn replay(updates: impl IntoIterator<Item = PodUpdate>, state: &mut BTreeMap<PodName, Arc<Pod>>) {
    for update in updates {
        match update {
            PodUpdate::Add(pod) => assert!(state.insert(pod.name.clone(), pod).is_none()),
            PodUpdate::Update(pod) => assert!(state.insert(pod.name.clone(), pod).is_some()),
            PodUpdate::Remove(name) => assert!(state.remove(&name).is_some()),
        }
    }
}

proptest! {
    #[test]
    fn merging_is_idempotent_and_blind_to_order(snapshots in snapshots()) {
        let mut mux = PodConfig::new([Source::File]);
        let mut followed = BTreeMap::new();
        for snapshot in &snapshots {
            replay(mux.apply(snapshot.clone()), &mut followed);
            prop_assert!(mux.apply(snapshot.clone()).is_empty(), "the same snapshot again changes nothing");
        }
        prop_assert_eq!(&followed, &mux.merged);

        // Only the last word of each source counts, whoever spoke first.
        let mut last = BTreeMap::new();
        for snapshot in &snapshots {
            last.insert(snapshot.source, snapshot.clone());
        }
        let mut backwards = PodConfig::new([Source::File]);
        for snapshot in last.into_values().rev() {
            backwards.apply(snapshot);
        }
        prop_assert_eq!(&backwards.merged, &mux.merged);
    }
}

#[test]
fn what_the_key_has_not_signed_may_not_be_started() {
    let mut mux = PodConfig::new([Source::File, Source::Http]);
    let name = |name: &str| PodName::new("default", name);
    let untrusted_signatures = |snapshot: Snapshot, reasons: &[(&str, &str)]| Snapshot {
        untrusted_signatures: reasons.iter().map(|(pod, reason)| (name(pod), (*reason).to_owned())).collect(),
        ..snapshot
    };
    let refused = |reason: &str| Starts::Refused(reason.to_owned());
    let (file, http) = (from(Source::File, "a", "1"), from(Source::Http, "a", "2"));
    let by_file =
        |reasons: &[(&str, &str)]| untrusted_signatures(snapshot(Source::File, vec![file.clone()]), reasons);
    mux.apply(by_file(&[]));
    assert_eq!(mux.starts(&name("a")), Starts::Allowed);
    assert_eq!(mux.apply(by_file(&[("a", "key 1")])), [], "the pod is the same");
    assert_eq!(mux.starts(&name("a")), refused("key 1"));
    mux.apply(untrusted_signatures(snapshot(Source::Http, vec![http.clone()]), &[("a", "of the URL")]));
    assert_eq!(mux.starts(&name("a")), refused("key 1"), "the other source's pod does not run");
    mux.apply(by_file(&[]));
    assert_eq!(mux.starts(&name("a")), Starts::Allowed, "signed again");
    mux.apply(snapshot(Source::File, vec![]));
    assert_eq!(mux.starts(&name("a")), refused("of the URL"), "the URL's pod has taken over");

    // A version that is refused here changes nothing: the one before it runs on, and another key signed it.
    let mut mux = PodConfig::new([Source::File]);
    let before = from(Source::File, "b", "1");
    mux.apply(untrusted_signatures(snapshot(Source::File, vec![before.clone()]), &[("b", "key 1")]));
    let circle = Arc::new(pod_after("b", "2", "b"));
    assert_eq!(mux.apply(snapshot(Source::File, vec![circle])), []);
    assert_eq!(mux.get(&name("b")), Some(&before));
    assert_eq!(mux.starts(&name("b")), refused("key 1"));
}

#[test]
fn objects_of_the_directory_come_before_those_of_the_url() {
    let [mine, theirs] = [(Source::File, "1"), (Source::Http, "2")].map(|(source, value)| {
        let found = (*object(ObjectKind::ConfigMap, "c", &[("v", value)])).clone();
        Arc::new(Object { source, ..found })
    });
    let holds = |source, objects: &[&Arc<Object>]| {
        let subject = |object: &&Arc<Object>| Subject::Object(object.key.clone());
        let verdict = |object: &&Arc<Object>| Verdict {
            source,
            origin: source.to_string(),
            document: 1,
            item: None,
            outcome: Outcome::Accepted { subject: subject(object), warnings: vec![] },
        };
        Snapshot {
            objects: objects.iter().map(|object| (*object).clone()).collect(),
            verdicts: objects.iter().map(verdict).collect(),
            ..snapshot(source, vec![])
        }
    };
    let mut mux = PodConfig::new([Source::File, Source::Http]);
    // Of a source that must wait for another nothing counts.
    let rows: Vec<(Snapshot, Option<&Arc<Object>>, &str)> = vec![
        (holds(Source::Http, &[&theirs]), None, "accepted"),
        (holds(Source::File, &[]), Some(&theirs), "accepted"),
        (holds(Source::File, &[&mine]), Some(&mine), "accepted shadowed"),
        (holds(Source::File, &[&mine]), Some(&mine), "unchanged shadowed"),
        (holds(Source::File, &[]), Some(&theirs), "accepted"),
        (holds(Source::Http, &[]), None, ""),
    ];
    for (snapshot, found, words) in rows {
        assert_eq!(mux.apply(snapshot), [], "no pod changes");
        assert_eq!(mux.find(&mine.key).map(|object| object.source), found.map(|object| object.source));
        let said: Vec<_> = mux.verdicts().iter().map(|verdict| verdict.outcome.word()).collect();
        assert_eq!(said.join(" "), words);
    }
}
