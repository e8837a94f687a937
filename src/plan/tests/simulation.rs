//! A simulated runtime that shows that plans reach rest from any leftovers, and what never happens on the way.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ContainerRestartRule, ContainerRestartRuleOnExitCodes};
use proptest::prelude::*;

use super::*;
use crate::plan::checkpoint::Life;
use crate::pod::hook::Hook;
use crate::pod::is_sidecar;
use crate::pod::restart::{AfterExit, after_exit};
use crate::probe::threshold::{Kind, ProbeOutcome};

/// A runtime that does as it is told, and holds the rules that containerd holds; with what the worker remembers.
struct Simulated {
    observed: Observed,
    checkpoint: Checkpoint,
    /// What probes found of the containers that are there from the beginning.
    probes: Verdicts,
    now: i64,
    terminations: Terminations,
    uptime: Duration,
    /// Hooks never come to their end.
    hooks_hang: bool,
    /// How containers end that are told to.
    exit_code: i32,
}

impl Simulated {
    fn plan(&mut self, want: &Want) -> Plan {
        self.checkpoint.forget_gone(&self.observed);
        let inputs = Inputs::default();
        let plan = plan_pod(&Situation {
            checkpoint: &self.checkpoint,
            probes: &self.probes,
            terminations: &self.terminations,
            now: at(self.now),
            uptime: self.uptime,
            ..inputs.situation(want, &self.observed)
        });
        self.checkpoint.terminating_sandboxes.extend(plan.terminating.iter().cloned());
        self.checkpoint.killed_containers.extend(plan.killed.iter().cloned());
        if let (Want::Run(pod), PodLifecycle::Completed) = (want, plan.lifecycle) {
            self.checkpoint.note(pod, Life::Completed, Arc::default());
        }
        plan
    }

    fn apply(&mut self, want: &Want, plan: &Plan) {
        let before = self.observed.clone();
        for step in &plan.steps {
            self.now += 1;
            if let (Step::StartContainer(start), Want::Run(pod)) = (step, want) {
                assert!(may_start(pod, &before, start), "before its init containers: {step:?}");
            }
            self.step(want, step);
            self.check(want);
        }
    }

    /// An init container that was found running does its work; false if there is none.
    fn init_container_ends(&mut self) -> bool {
        let now = self.now;
        let mut all = self.observed.containers.iter_mut();
        let runs = all.find(|c| c.name == "setup" && c.state == running());
        runs.map(|c| c.state = exited(0, now)).is_some()
    }

    fn step(&mut self, want: &Want, step: &Step) {
        let now = self.now;
        let seen = &mut self.observed;
        match (step, want) {
            (Step::StopContainers(all), _) => {
                for stop in all {
                    self.terminations.note(stop, 1);
                    let found =
                        seen.containers.iter_mut().find(|c| c.id == stop.id).expect("stops what is there");
                    match stop.action {
                        StopAction::PreStop { .. } if self.hooks_hang => {}
                        StopAction::PreStop { .. } => self.terminations.hook_is_over(&stop.id),
                        StopAction::Wait => {}
                        StopAction::End { .. } => {
                            found.state = exited(self.exit_code, now);
                            self.terminations.retain(|id| *id != stop.id);
                        }
                    }
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
            (_, Want::End { .. } | Want::Stop { .. }) => panic!("starts something while stopping: {step:?}"),
            (Step::CreateSandbox { attempt, .. }, Want::Run(pod)) => {
                assert!(!self.checkpoint.has_completed(pod), "what completed needs no sandbox");
                let new = Sandbox {
                    hash: Some(pod.hash.clone()),
                    created_at: at(now),
                    ..sandbox(pod.uid.as_str(), *attempt, true)
                };
                assert!(!seen.sandboxes.iter().any(|s| s.id == new.id), "the name is free");
                seen.sandboxes.push(new);
            }
            (Step::StartContainer(start), Want::Run(pod)) => {
                assert!(!self.checkpoint.has_completed(pod), "what completed does not start again");
                assert!(
                    !self.checkpoint.terminating_sandboxes.contains(&start.sandbox),
                    "an end that was begun is finished first"
                );
                let spec = pod.container(start.container).expect("a container of the pod");
                // An init container does its work in no time.
                let ends = matches!(start.container, ContainerRef::Init(_)) && !is_sidecar(spec);
                let state = if ends { exited(0, now) } else { running() };
                let mut new = container(pod.uid.as_str(), 0, &spec.name, start.attempt, state);
                (new.sandbox, new.crashes, new.created_at) = (start.sandbox.clone(), start.crashes, at(now));
                new.round = start.round;
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

/// Every ordinary init container succeeded in this sandbox and round, or a container was made there since.
fn may_start(pod: &Pod, seen: &Observed, start: &StartContainer) -> bool {
    let beside = |c: &&Container| c.uid == pod.uid && c.sandbox == start.sandbox && c.round == start.round;
    let beside: Vec<_> = seen.containers.iter().filter(beside).collect();
    let made = |name: &str| beside.iter().any(|c| c.name == name);
    let done = |name: &str| beside.iter().any(|c| c.name == name && c.exit().is_some_and(|e| e.code == 0));
    let mut init = pod.spec.init_containers.iter().flatten().filter(|spec| !is_sidecar(spec));
    matches!(start.container, ContainerRef::Init(_))
        || pod.spec.containers.iter().any(|spec| made(&spec.name))
        || init.all(|spec| done(&spec.name))
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
        containers in prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, 0..3u32, 0..2u32, any_state(), any::<bool>()), 0..8),
    ) -> Observed {
        let uids = ["u", "old"];
        let sandboxes: Vec<_> = sandboxes.iter().map(|((u, n), ready)| sandbox(uids[usize::from(*u)], *n, *ready)).collect();
        let mut found = std::collections::BTreeMap::new();
        if !sandboxes.is_empty() {
            for (place, name, attempt, round, state, hook) in containers {
                let home = place.get(&sandboxes);
                let mut new = container(home.uid.as_str(), 0, NAMES[name], attempt, state);
                (new.sandbox, new.round) = (home.id.clone(), round);
                new.sidecar = (NAMES[name] == "proxy").then_some(1);
                new.pre_stop = hook.then(|| Hook::Exec(vec!["drain".into()]));
                found.insert(new.id.clone(), new);
            }
        }
        Observed { sandboxes, containers: found.into_values().collect() }
    }
}

const NAMES: [&str; 4] = ["main", "side", "setup", "proxy"];

fn any_policy() -> impl Strategy<Value = Option<String>> {
    prop::sample::select(vec![None, Some("Always"), Some("OnFailure"), Some("Never")])
        .prop_map(|policy| policy.map(str::to_owned))
}

prop_compose! {
    /// A pod with any policies: `setup` runs to its end, `proxy` is a sidecar, `main` may restart all on exit code 2.
    fn any_pod()(
        pod in any_policy(),
        own in prop::collection::vec(any_policy(), 3),
        (has_init, has_sidecar, has_rule) in any::<(bool, bool, bool)>(),
    ) -> Pod {
        let mut wanted = pod_with("p", "u", pod.as_deref().unwrap_or("Always"), &NAMES);
        let mut init = wanted.spec.containers.split_off(2);
        for (container, policy) in wanted.spec.containers.iter_mut().chain(&mut init).zip(own) {
            container.restart_policy = policy;
        }
        init[1].restart_policy = Some("Always".into());
        // A setup of policy Always would be a sidecar.
        init[0].restart_policy.take_if(|policy| policy == "Always");
        init.retain(|spec| if spec.name == "setup" { has_init } else { has_sidecar });
        wanted.spec.init_containers = Some(init);
        if has_rule {
            let exit_codes = ContainerRestartRuleOnExitCodes { operator: "In".into(), values: Some(vec![2]) };
            let rule = ContainerRestartRule { action: "RestartAllContainers".into(), exit_codes: Some(exit_codes) };
            let main = &mut wanted.spec.containers[0];
            main.restart_policy.get_or_insert_with(|| "Never".into());
            main.restart_policy_rules = Some(vec![rule]);
        }
        wanted
    }
}

/// At rest a pod that lives runs every container that its policies want, and one that completed runs none.
fn check_rest(pod: &Pod, world: &Simulated, lifecycle: PodLifecycle) {
    let alive = |name: &str| world.observed.containers.iter().any(|c| c.name == name && c.is_alive());
    for (which, spec) in pod.containers() {
        let newest = world.observed.containers_of(pod, &spec.name).first().and_then(|c| c.exit());
        let stays = newest.is_some_and(|exit| after_exit(&pod.spec, spec, exit.code) == AfterExit::Stays);
        let ordinary = matches!(which, ContainerRef::Init(_)) && !is_sidecar(spec);
        match lifecycle {
            PodLifecycle::Completed => assert!(!alive(&spec.name), "{} outlives its pod", spec.name),
            PodLifecycle::Active => {
                assert!(alive(&spec.name) || ordinary || stays, "{} should run", spec.name)
            }
            PodLifecycle::TerminatesFirst => panic!("at rest before the end"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn applying_plans_reaches_rest(
        observed in any_observed(),
        pod in any_pod(),
        stop in any::<bool>(),
        completed in prop::bool::weighted(0.2),
        ended in prop::collection::vec(any::<bool>(), 4),
        hooks_hang in any::<bool>(),
        exit_code in prop::sample::select(vec![0, 137]),
        failed in prop::collection::vec(prop::sample::select(vec![None, None, Some(Kind::Liveness), Some(Kind::Startup)]), 8),
    ) {
        let failed = observed.containers.iter().zip(failed).filter_map(|(c, kind)| Some((c.id.clone(), kind?)));
        let probes = failed.map(|key| (key, Some(ProbeOutcome::Failure))).collect();
        let mut checkpoint = Checkpoint::default();
        if completed {
            checkpoint.note(&pod, Life::Completed, Arc::default());
        }
        let marked = observed.sandboxes.iter().zip(ended).filter(|(_, ended)| *ended);
        checkpoint.terminating_sandboxes = marked.map(|(sandbox, _)| sandbox.id.clone()).collect();
        let want = if stop { Want::Stop { grace: None } } else { Want::Run(Arc::new(pod.clone())) };
        let mut world = Simulated { observed, checkpoint, probes, now: 1_000, terminations: Terminations::default(), uptime: Duration::ZERO, hooks_hang, exit_code };
        let mut rounds = 0;
        let lifecycle = loop {
            let plan = world.plan(&want);
            if plan.steps.is_empty() && plan.wake_in.is_none() && !world.init_container_ends() {
                break plan.lifecycle;
            }
            world.apply(&want, &plan);
            if plan.steps.is_empty() {
                world.uptime += plan.wake_in.unwrap_or_default();
            }
            world.now += plan.wake_in.map_or(0, |left| i64::try_from(left.as_secs()).unwrap() + 1);
            rounds += 1;
            prop_assert!(rounds < 30, "no rest after {rounds} rounds: {:?}", plan);
        };
        prop_assert!(world.checkpoint.terminating_sandboxes.is_empty(), "an end that was begun is finished");
        if stop {
            prop_assert!(world.observed.is_empty());
        } else {
            prop_assert!(world.observed.sandboxes.iter().all(|s| s.uid.as_str() == "u"), "the other instance is gone");
            check_rest(&pod, &world, lifecycle);
        }
    }
}
