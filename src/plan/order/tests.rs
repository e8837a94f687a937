//! Tables for every decision.

use proptest::prelude::*;

use super::*;
use crate::pod::observed::Sandbox;
use crate::pod::testing::{pod, pod_after};
use crate::pod::{ConfigHash, PodUid, SandboxId};

/// A pod of the manifest `name` on `node1`, in version `hash`; it waits for nobody if `after` is empty.
fn on_node(name: &str, hash: &str, after: &str) -> Arc<Pod> {
    let full = format!("{name}-node1");
    let mut pod = if after.is_empty() { pod(&full, hash) } else { pod_after(&full, hash, after) };
    pod.spec.node_name = Some("Node1".into());
    Arc::new(pod)
}

fn pods(all: &[(&str, &str, &str)]) -> Pods {
    all.iter().map(|(name, hash, after)| on_node(name, hash, after)).map(|p| (p.name.clone(), p)).collect()
}

fn words(pods: &Pods) -> String {
    let each = pods.values().map(|pod| format!("{}@{}", as_written(pod), pod.hash));
    each.collect::<Vec<_>>().join(" ")
}

/// The circles, by the manifest's name.
fn told(refused: &BTreeMap<PodName, Finding>) -> Vec<(&str, &str)> {
    let circle = |why: &'static str, reason: &str| reason.strip_prefix(why).map(str::len);
    refused
        .iter()
        .map(|(name, finding)| {
            assert_eq!(finding.field, "metadata.annotations[rkubelet.dev/after]");
            let len = circle("pods wait for each other in a circle: ", &finding.reason).unwrap();
            let way = &finding.reason[finding.reason.len() - len..];
            (name.name.strip_suffix("-node1").unwrap(), way)
        })
        .collect()
}

/// Manifests as name, version and whom they wait for.
type Manifests<'a> = &'a [(&'a str, &'a str, &'a str)];

struct Case {
    name: &'static str,
    before: Manifests<'static>,
    wanted: Manifests<'static>,
    taken: &'static str,
    refused: &'static [(&'static str, &'static str)],
}

#[test]
fn circles_are_refused_and_what_was_good_stays() {
    let cases = [
        Case {
            name: "a chain, a missing one, and one for two",
            before: &[],
            wanted: &[("a", "1", ""), ("b", "1", "a"), ("c", "1", "a,b,nobody"), ("d", "1", "c-node1")],
            taken: "a@1 b@1 c@1 d@1",
            refused: &[],
        },
        Case {
            name: "itself",
            before: &[],
            wanted: &[("a", "1", "a"), ("b", "1", "b-node1"), ("c", "1", "a")],
            taken: "c@1",
            refused: &[("a", "a -> a"), ("b", "b -> b")],
        },
        Case {
            name: "two; who waits for one of them is in no circle",
            before: &[],
            wanted: &[("a", "1", "b"), ("b", "1", "a"), ("c", "1", "a")],
            taken: "c@1",
            refused: &[("a", "a -> b -> a"), ("b", "b -> a -> b")],
        },
        Case {
            name: "three, the shortest way round",
            before: &[],
            wanted: &[("a", "1", "b"), ("b", "1", "c"), ("c", "1", "a,b")],
            taken: "",
            refused: &[("a", "a -> b -> c -> a"), ("b", "b -> c -> b"), ("c", "c -> b -> c")],
        },
        Case {
            name: "an edit closes a circle: what was good stays",
            before: &[("a", "1", "b"), ("b", "1", "")],
            wanted: &[("a", "1", "b"), ("b", "2", "a")],
            taken: "a@1 b@1",
            refused: &[("a", "a -> b -> a"), ("b", "b -> a -> b")],
        },
        Case {
            name: "a new one closes a circle",
            before: &[("a", "1", "b")],
            wanted: &[("a", "1", "b"), ("b", "1", "a")],
            taken: "a@1",
            refused: &[("a", "a -> b -> a"), ("b", "b -> a -> b")],
        },
        Case {
            name: "what stays closes another circle",
            before: &[("a", "1", "b"), ("b", "1", ""), ("c", "1", "")],
            wanted: &[("a", "2", "c"), ("b", "2", "a"), ("c", "2", "a")],
            taken: "a@1 b@1 c@1",
            refused: &[("a", "a -> c -> a"), ("b", "b -> a -> b"), ("c", "c -> a -> c")],
        },
        Case {
            name: "a removal opens the circle",
            before: &[("a", "1", "b"), ("b", "1", "")],
            wanted: &[("b", "2", "a")],
            taken: "b@2",
            refused: &[],
        },
    ];
    for case in cases {
        let before = pods(case.before);
        let (taken, refused) = refuse_cycles(pods(case.wanted), &before);
        assert_eq!(words(&taken), case.taken, "{}", case.name);
        assert_eq!(told(&refused), case.refused, "{}", case.name);
        let again = refuse_cycles(pods(case.wanted), &taken);
        assert_eq!((words(&again.0), &again.1), (words(&taken), &refused), "{}: the same again", case.name);
    }
}

#[test]
fn another_namespace_is_another_pod() {
    let (a, b) = (on_node("a", "1", "b"), on_node("b", "1", "a"));
    let b = Arc::new(Pod { name: PodName::new("other", "b-node1"), ..(*b).clone() });
    let wanted: Pods = [a, b].into_iter().map(|pod| (pod.name.clone(), pod)).collect();
    assert_eq!(refuse_cycles(wanted, &Pods::new()).1, BTreeMap::new());
}

#[test]
fn whom_a_pod_waits_for() {
    let lacks = |name: &PodName| match name.name.as_str() {
        "ready-node1" | "done-node1" => None,
        "slow-node1" => Some(Lack::NotReady),
        "failed-node1" => Some(Lack::Failed),
        _ => Some(Lack::Absent),
    };
    let cases = [
        ("", ""),
        ("ready", ""),
        ("ready-node1,done", ""),
        ("ready,slow", "slow (not ready)"),
        ("slow-node1", "slow-node1 (not ready)"),
        ("failed, nobody", "failed (failed), nobody (there is no such pod)"),
    ];
    for (after, expect) in cases {
        assert_eq!(in_words(&unmet(&on_node("p", "1", after), lacks)), expect, "{after:?}");
    }
}

#[test]
fn a_manifests_name_comes_before_a_full_one() {
    let pod = on_node("p", "1", "x-node1");
    let both = |name: &PodName| (name.name == "x-node1").then_some(Lack::NotReady);
    assert_eq!(unmet(&pod, both), [], "the manifest x-node1 is ready, the manifest x is not");
}

#[test]
fn a_gate_opens_once() {
    let mut waits = (*on_node("p", "u", "db")).clone();
    let key = AFTER_TIMEOUT.to_owned();
    waits.metadata.annotations.get_or_insert_default().insert(key, "10s".into());
    let db = [Unmet { name: "db".into(), lack: Lack::NotReady }];
    let shut = |left| Gate::Shut { unmet: db.to_vec(), left: Duration::from_secs(left) };
    let (in_order, late) = (Gate::Open(Opened::InOrder), Gate::Open(Opened::Late(db.to_vec())));
    let sandbox = |uid: &str, hash: &str, ready| Sandbox {
        id: SandboxId::from("s"),
        uid: PodUid::from(uid),
        hash: Some(ConfigHash::from(hash)),
        attempt: 0,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        ready,
        ips: vec![],
    };
    let none: &[Sandbox] = &[];
    let cases = [
        ("nobody is waited for", None, none, &db[..0], 0, in_order.clone()),
        ("somebody is", None, none, &db[..], 0, shut(10)),
        ("still", Some(shut(10)), none, &db[..], 4, shut(6)),
        ("no more", Some(shut(6)), none, &db[..0], 5, in_order.clone()),
        ("the time is over", Some(shut(6)), none, &db[..], 10, late.clone()),
        ("long over", Some(shut(6)), none, &db[..], 1_000, late.clone()),
        ("it runs already", None, &[sandbox("u", "u", true)], &db[..], 0, in_order.clone()),
        ("a boot ago it did", None, &[sandbox("u", "u", false)], &db[..], 0, shut(10)),
        ("an older version runs", None, &[sandbox("u", "v", true)], &db[..], 0, shut(10)),
        ("another instance runs", None, &[sandbox("v", "v", true)], &db[..], 0, shut(10)),
        ("open stays open", Some(in_order.clone()), none, &db[..], 0, in_order.clone()),
        ("late is said once", Some(late.clone()), none, &db[..], 11, late.clone()),
    ];
    for (name, before, sandboxes, unmet, waited, expect) in cases {
        let observed = Observed { sandboxes: sandboxes.to_vec(), containers: vec![] };
        let found = Gate::judge(before.as_ref(), &waits, &observed, unmet, Duration::from_secs(waited));
        assert_eq!(found, expect, "{name}");
    }
    assert_eq!(timeout(&on_node("p", "1", "db")), Duration::from_secs(300));
}

prop_compose! {
    /// Any manifests of five names, each in one of three versions, after any of the others.
    fn any_manifests()(
        all in prop::collection::btree_map(0..5u8, (0..3u8, prop::collection::vec(0..5u8, 0..3)), 0..6)
    ) -> Pods {
        let each = all.into_iter().map(|(name, (version, after))| {
            let after: Vec<_> = after.into_iter().map(|name| format!("p{name}")).collect();
            // A version says whom it waits for.
            let version = format!("{name}.{version}.{}", after.join("."));
            on_node(&format!("p{name}"), &version, &after.join(","))
        });
        each.map(|pod| (pod.name.clone(), pod)).collect()
    }
}

proptest! {
    #[test]
    fn what_is_taken_never_waits_in_a_circle(rounds in prop::collection::vec(any_manifests(), 1..5)) {
        let mut taken = Pods::new();
        for wanted in rounds {
            let (next, refused) = refuse_cycles(wanted.clone(), &taken);
            prop_assert_eq!(find_cycles(&next), BTreeMap::new());
            for (name, pod) in &wanted {
                let now = next.get(name);
                let stays = taken.get(name);
                if refused.contains_key(name) {
                    prop_assert!(now == stays, "a bad edit changes nothing");
                } else {
                    prop_assert_eq!(now, Some(pod), "a good one counts");
                }
            }
            prop_assert!(next.keys().all(|name| wanted.contains_key(name)), "what is gone is gone");
            taken = next;
        }
    }
}
