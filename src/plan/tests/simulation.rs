//! A simulated runtime that shows that plans reach rest from any leftovers, and what never happens on the way.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A runtime that does as it is told, and holds the rules that containerd holds.
struct Simulated {
    observed: Observed,
    now: i64,
}

impl Simulated {
    fn apply(&mut self, want: &Want, plan: &Plan) {
        for step in &plan.steps {
            self.now += 1;
            self.step(want, step);
            self.check(want);
        }
    }

    fn step(&mut self, want: &Want, step: &Step) {
        let now = self.now;
        let seen = &mut self.observed;
        match (step, want) {
            (Step::StopContainers(all), _) => {
                for stop in all {
                    let found =
                        seen.containers.iter_mut().find(|c| c.id == stop.id).expect("stops what is there");
                    found.state = exited(137, now);
                }
            }
            (Step::StopSandbox(id), _) => {
                assert!(
                    !seen.containers.iter().any(|c| c.sandbox == *id && c.is_alive()),
                    "containers stop first"
                );
                seen.sandboxes.iter_mut().find(|s| s.id == *id).expect("stops what is there").ready = false;
            }
            (Step::RemoveContainer(rm), _) => {
                let before = seen.containers.len();
                seen.containers.retain(|c| c.id != rm.id);
                assert_eq!(seen.containers.len(), before - 1, "removes what is there");
            }
            (Step::RemoveInstance(_), _) => {}
            (Step::RemoveSandbox(id), _) => {
                assert!(!seen.containers.iter().any(|c| c.sandbox == *id), "an empty one");
                seen.sandboxes.retain(|s| s.id != *id);
            }
            (_, Want::Stop) => panic!("starts something while stopping: {step:?}"),
            (Step::CreateSandbox { attempt }, Want::Run(pod)) => {
                let new = Sandbox {
                    hash: Some(pod.hash.clone()),
                    created_at: at(now),
                    ..sandbox(pod.uid.as_str(), *attempt, true)
                };
                assert!(!seen.sandboxes.iter().any(|s| s.id == new.id), "the name is free");
                seen.sandboxes.push(new);
            }
            (Step::StartContainer(start), Want::Run(pod)) => {
                let name = &pod.container(start.container).expect("a container of the pod").name;
                let mut new = container(pod.uid.as_str(), 0, name, start.attempt, running());
                (new.sandbox, new.crashes, new.created_at) = (start.sandbox.clone(), start.crashes, at(now));
                assert!(!seen.containers.iter().any(|c| c.id == new.id), "the name is free");
                assert!(
                    seen.sandboxes.iter().any(|s| s.id == start.sandbox && s.ready),
                    "in a ready sandbox"
                );
                seen.containers.push(new);
            }
        }
    }

    /// Two instances of the name never overlap, nor two containers of one name.
    fn check(&self, want: &Want) {
        let alive: Vec<_> = self.observed.containers.iter().filter(|c| c.is_alive()).collect();
        if let Want::Run(pod) = want {
            let newborn = alive.iter().any(|c| c.created_at > at(1_000) && c.uid == pod.uid);
            assert!(!newborn || alive.iter().all(|c| c.uid == pod.uid), "instances overlap: {alive:?}");
        }
        let names: BTreeSet<_> = alive.iter().map(|c| (&c.uid, &c.name)).collect();
        assert!(
            names.len() == alive.len() || alive.iter().any(|c| c.created_at <= at(1_000)),
            "doubled: {alive:?}"
        );
    }
}

fn any_state() -> impl Strategy<Value = ContainerState> {
    prop_oneof![
        Just(running()),
        Just(ContainerState::Created),
        Just(ContainerState::Unknown),
        (0..3i32, 0..900i64).prop_map(|(code, finished)| exited(code, finished)),
    ]
}

prop_compose! {
    /// Any leftovers: up to two instances, dead and living sandboxes, containers in any state.
    fn any_observed()(
        sandboxes in prop::collection::btree_map((0..2u8, 0..3u32), any::<bool>(), 0..4),
        containers in prop::collection::vec((any::<prop::sample::Index>(), 0..2u8, 0..3u32, any_state()), 0..6),
    ) -> Observed {
        let uids = ["u", "old"];
        let sandboxes: Vec<_> = sandboxes.iter().map(|((u, n), ready)| sandbox(uids[usize::from(*u)], *n, *ready)).collect();
        let mut found = std::collections::BTreeMap::new();
        if !sandboxes.is_empty() {
            for (place, name, attempt, state) in containers {
                let home = place.get(&sandboxes);
                let name = ["main", "side"][usize::from(name)];
                let mut new = container(home.uid.as_str(), 0, name, attempt, state);
                new.sandbox = home.id.clone();
                found.insert(new.id.clone(), new);
            }
        }
        Observed { sandboxes, containers: found.into_values().collect() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn applying_plans_reaches_rest(observed in any_observed(), policy in prop::sample::select(vec!["Always", "OnFailure", "Never"]), stop in any::<bool>()) {
        let want = if stop { Want::Stop } else { Want::Run(Arc::new(pod_with("p", "u", policy, &["main", "side"]))) };
        let mut world = Simulated { observed, now: 1_000 };
        let mut rounds = 0;
        loop {
            let plan = plan_pod(&want, &world.observed, &History::default(), CRASH, at(world.now));
            if plan.steps.is_empty() && plan.wake_in.is_none() {
                break;
            }
            world.apply(&want, &plan);
            world.now += plan.wake_in.map_or(0, |left| i64::try_from(left.as_secs()).unwrap() + 1);
            rounds += 1;
            prop_assert!(rounds < 20, "no rest after {rounds} rounds: {:?}", plan);
        }
        if stop {
            prop_assert!(world.observed.is_empty());
        } else {
            prop_assert!(world.observed.sandboxes.iter().all(|s| s.uid.as_str() == "u"), "the other instance is gone");
            if policy == "Always" {
                let alive: BTreeSet<_> = world.observed.containers.iter().filter(|c| c.is_alive()).map(|c| c.name.as_str()).collect();
                prop_assert_eq!(alive, BTreeSet::from(["main", "side"]));
            }
        }
    }
}
