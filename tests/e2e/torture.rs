//! Torture: an agent that is killed all the time, and manifests that change faster than pods can.
//!
//! Both are random. The seed is printed; `RKUBELET_TORTURE_SEED` gives it again.

mod leftovers;
mod recorder;
mod runtime_log;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use crate::rig::{ContainerSeen, ContainerState, Rig, wait_until};
use leftovers::wait_for_nothing;
use recorder::{Main, Recorder, Shape};

/// How long all pods together may take to come to rest, or to be gone.
const REST: Duration = Duration::from_secs(90);
/// How long after its caller is gone containerd may take to end a container that it was starting.
const CUT_SHORT: Duration = Duration::from_secs(5);

fn seeded() -> fastrand::Rng {
    let given = std::env::var("RKUBELET_TORTURE_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("the seed is a number"));
    eprintln!("RKUBELET_TORTURE_SEED={seed} repeats these choices");
    fastrand::Rng::with_seed(seed)
}

/// No event marks a random moment.
fn pause(rng: &mut fastrand::Rng, most: u64) {
    wait_until(Duration::from_millis(rng.u64(..=most)), || false);
}

/// The manifests of a test, as they were last written.
struct Manifests<'rig> {
    rig: &'rig Rig,
    recorder: Recorder,
    /// Those that are there: the version and what it is like.
    wanted: BTreeMap<String, (u32, Shape)>,
    /// Those that were there before, the last of each name.
    earlier: BTreeMap<String, (u32, Shape)>,
    /// How often each version was written.
    written: BTreeMap<u32, usize>,
}

impl<'rig> Manifests<'rig> {
    fn new(rig: &'rig Rig) -> Self {
        let recorder = Recorder::new(rig);
        Self { rig, recorder, wanted: BTreeMap::new(), earlier: BTreeMap::new(), written: BTreeMap::new() }
    }

    /// Writes a version that was never there before.
    fn write(&mut self, name: &str, shape: Shape) {
        let version = u32::try_from(self.written.len()).expect("a small number") + 1;
        self.put(name, (version, shape));
    }

    fn put(&mut self, name: &str, (version, shape): (u32, Shape)) {
        let text = self.recorder.manifest(name, version, &shape);
        self.rig.write_manifest(&format!("{name}.yaml"), &text);
        *self.written.entry(version).or_default() += 1;
        if let Some(before) = self.wanted.insert(name.to_owned(), (version, shape)) {
            self.earlier.insert(name.to_owned(), before);
        }
    }

    fn remove(&mut self, name: &str) {
        self.rig.remove_manifest(&format!("{name}.yaml"));
        if let Some(before) = self.wanted.remove(name) {
            self.earlier.insert(name.to_owned(), before);
        }
    }

    /// Edits one, removes it, or brings it back.
    fn change(&mut self, name: &str, shape: Shape, rng: &mut fastrand::Rng) {
        if self.wanted.contains_key(name) && rng.u8(..3) == 0 {
            self.remove(name);
        } else {
            self.write(name, shape);
        }
    }

    /// The same, but now and then as it was before, which may be what is just being ended.
    fn change_or_take_back(&mut self, name: &str, shape: Shape, rng: &mut fastrand::Rng) {
        match self.earlier.get(name).copied() {
            Some(before) if rng.u8(..3) == 0 => self.put(name, before),
            _ => self.change(name, shape, rng),
        }
    }

    fn remove_all(&mut self) {
        for name in self.wanted.keys().cloned().collect::<Vec<_>>() {
            self.remove(&name);
        }
    }

    /// What is not yet as the manifests say; `may_fail` names pods whose one run may have been cut short.
    fn unlike(&self, may_fail: &BTreeSet<String>) -> Vec<String> {
        let sandboxes = self.rig.sandboxes();
        let containers = self.rig.containers();
        let running = containers.iter().filter(|seen| seen.state == ContainerState::Running);
        let mut running: BTreeMap<String, Vec<&str>> = running.fold(BTreeMap::new(), |mut all, seen| {
            all.entry(seen.pod().to_owned()).or_default().push(&seen.name);
            all
        });
        let mut unlike = Vec::new();
        for (name, (version, shape)) in &self.wanted {
            let pod = format!("{name}-node1");
            let versions: Vec<_> = sandboxes.iter().filter(|seen| seen.pod == pod).collect();
            let only = versions.iter().all(|seen| seen.labels["version"] == version.to_string());
            if versions.is_empty() || !only {
                unlike.push(format!("{pod}: version {version} is not alone: {versions:?}"));
            }
            let mut found = running.remove(&pod).unwrap_or_default();
            found.sort_unstable();
            let status = self.rig.pod(&pod).map(|pod| pod["status"].clone()).unwrap_or_default();
            let (phase, began) = (&status["phase"], &status["startTime"]);
            let expect = if shape.main == Main::Job { "Succeeded" } else { "Running" };
            let failed = *phase == "Failed" && found.is_empty() && may_fail.contains(name);
            if began.as_str().is_none_or(|began| began < "2020") {
                unlike.push(format!("{pod}: began at {began}"));
            }
            if !failed && (found != shape.running() || *phase != expect) {
                unlike.push(format!("{pod}: {phase}, runs {found:?}, {shape:?}"));
            }
        }
        unlike.extend(running.keys().map(|pod| format!("{pod}: runs and is not wanted")));
        unlike
    }

    /// Waits until the pods are as the manifests say, and no others are there.
    fn wait_for_rest(&self, may_fail: &BTreeSet<String>) {
        let begun = Instant::now();
        let mut unlike = Vec::new();
        wait_until(REST, || {
            unlike = self.unlike(may_fail);
            unlike.is_empty()
        });
        assert!(unlike.is_empty(), "{unlike:#?}\n{}", self.rig.report());
        eprintln!("at rest after {:?}", begun.elapsed());
    }

    /// No two that should never meet have met.
    fn assert_never_met(&self) {
        let met = self.recorder.met();
        assert!(met.is_empty(), "ran at the same time: {met:?}\n{}", self.rig.report());
    }
}

fn nanoseconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since.as_nanos()).expect("a clock before 2262")
}

/// Why containers ended, from evidence.
#[derive(Default)]
struct Ends {
    /// When agents were killed: before and after.
    kills: Vec<(i64, i64)>,
    /// Every container that was seen to run.
    ran: BTreeSet<String>,
    /// Containers that the test ended.
    by_us: BTreeSet<String>,
    /// Containers that containerd ended itself, since the agent was killed while it started them, with their pods.
    cut_short: BTreeMap<String, String>,
    /// Ends that the test is to blame for, by pod and container and version.
    blamed: BTreeMap<(String, String, u32), usize>,
}

impl Ends {
    /// Looks at everything that has ended while no agent runs: nothing may have ended without a cause.
    fn look(&mut self, manifests: &Manifests<'_>) -> Vec<(ContainerSeen, u32)> {
        let rig = manifests.rig;
        let versions: BTreeMap<_, u32> = rig
            .sandboxes()
            .into_iter()
            .map(|seen| (seen.id, seen.labels["version"].parse().expect("the number of a version")))
            .collect();
        let mut alive = Vec::new();
        for seen in rig.containers() {
            let Some(&version) = versions.get(&seen.sandbox_id) else { continue };
            let name = seen.pod().trim_end_matches("-node1").to_owned();
            let wanted = manifests.wanted.get(&name).filter(|(wanted, _)| *wanted == version);
            let Some((_, shape)) = wanted else { continue };
            match seen.state {
                ContainerState::Running if seen.pid != 0 => {
                    self.ran.insert(seen.id.clone());
                    alive.push((seen, version));
                }
                ContainerState::Exited if self.by_us.contains(&seen.id) => {}
                ContainerState::Exited if self.is_cut_short(&seen) => {
                    self.cut_short.insert(seen.id, name);
                }
                ContainerState::Exited => {
                    let done = shape.main == Main::Job && (seen.name == "main" || seen.name == "side");
                    assert!(
                        seen.exit_code == 0 && (done || seen.name == "init"),
                        "ended without a cause: {seen:#?}, agents killed at {:?}\n{}",
                        self.kills,
                        rig.report()
                    );
                }
                _ => {}
            }
        }
        alive
    }

    /// It was being started when an agent was killed, and containerd says that it could not be.
    fn is_cut_short(&self, seen: &ContainerSeen) -> bool {
        let cut_short = i64::try_from(CUT_SHORT.as_nanos()).expect("a short time");
        let within = |(before, after): &(i64, i64)| {
            seen.created_at <= *after && (*before..after + cut_short).contains(&seen.finished_at)
        };
        seen.exit_code == 128 && seen.reason == "StartError" && self.kills.iter().any(within)
    }

    /// Ends a container that runs, and takes the blame.
    fn end(&mut self, rig: &Rig, (seen, version): &(ContainerSeen, u32)) {
        let mut kill = rig.command("sh");
        // containerd may be about to end it itself.
        if kill.args(["-c", &format!("kill -9 {}", seen.pid)]).status().is_ok_and(|status| status.success()) {
            self.by_us.insert(seen.id.clone());
            let pod = seen.pod().trim_end_matches("-node1").to_owned();
            *self.blamed.entry((pod, seen.name.clone(), *version)).or_default() += 1;
        }
    }

    /// Every start of a version has a cause: it was written, or what was started before was ended by the test, or
    /// containerd cut its start short.
    fn assert_causes(&self, manifests: &Manifests<'_>, pods: &[&str]) {
        let cut_short = runtime_log::cut_short(manifests.rig);
        for pod in pods {
            for container in ["init", "side", "main"] {
                let mut in_vain = Vec::new();
                for (version, starts) in manifests.recorder.starts(pod, container) {
                    let key = ((*pod).to_owned(), container.to_owned(), version);
                    let causes =
                        manifests.written[&version] + self.blamed.get(&key).copied().unwrap_or_default();
                    in_vain.extend(std::iter::repeat_n(version, starts.saturating_sub(causes)));
                }
                let cut =
                    cut_short.get(&((*pod).to_owned(), container.to_owned())).copied().unwrap_or_default();
                assert!(
                    in_vain.len() <= cut,
                    "{container} of {pod} was started anew without a cause, in versions {in_vain:?}; {cut} starts were \
                     cut short"
                );
            }
        }
    }
}

#[test]
fn killed_at_two_hundred_moments_it_doubles_restarts_and_orphans_nothing() {
    const KILLS: usize = 200;
    const PODS: [&str; 6] = ["plain", "deaf", "init", "side", "job", "all"];
    let shape = |name: &str| Shape {
        policy: if name == "job" { "Never" } else { "Always" },
        init: matches!(name, "init" | "all"),
        sidecar: matches!(name, "side" | "all"),
        host_network: matches!(name, "plain" | "init" | "all"),
        grace: 1,
        main: match name {
            "deaf" => Main::Stubborn,
            "job" => Main::Job,
            _ => Main::Obedient,
        },
    };
    let mut rng = seeded();
    let rig = Rig::new();
    rig.write_config("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n");
    let mut manifests = Manifests::new(&rig);
    let mut ends = Ends::default();
    for name in PODS {
        manifests.write(name, shape(name));
    }
    let agent = rig.start_agent(&[]);
    manifests.wait_for_rest(&BTreeSet::new());
    agent.kill9();
    let begun = Instant::now();
    for _ in 0..KILLS {
        let change = |manifests: &mut Manifests<'_>, rng: &mut fastrand::Rng| {
            let name = PODS[rng.usize(..PODS.len())];
            manifests.change(name, shape(name), rng);
        };
        if rng.u8(..4) == 0 {
            change(&mut manifests, &mut rng);
        }
        let agent = rig.start_agent(&[]);
        if rng.u8(..3) == 0 {
            pause(&mut rng, 300);
            change(&mut manifests, &mut rng);
        }
        // Mostly too short for a pod to come up, now and then long enough.
        let most = if rng.u8(..5) == 0 { 2_000 } else { 400 };
        pause(&mut rng, most);
        rig.wait("the agent to be a process", || agent.pid().is_some());
        let before = nanoseconds();
        agent.kill9();
        ends.kills.push((before, nanoseconds()));
        let alive = ends.look(&manifests);
        if !alive.is_empty() && rng.u8(..3) == 0 {
            let victim = &alive[rng.usize(..alive.len())];
            if victim.0.pod() != "job-node1" {
                ends.end(&rig, victim);
            }
        }
        manifests.assert_never_met();
    }
    eprintln!(
        "{KILLS} kills in {:?}; {} versions, {} containers seen to run, {} ended by the test, {} starts cut short",
        begun.elapsed(),
        manifests.written.len(),
        ends.ran.len(),
        ends.by_us.len(),
        ends.cut_short.len()
    );

    let agent = rig.start_agent(&[]);
    let jobs: BTreeSet<_> = ends.cut_short.values().filter(|pod| *pod == "job").cloned().collect();
    manifests.wait_for_rest(&jobs);
    agent.kill9();
    ends.look(&manifests);
    manifests.assert_never_met();
    ends.assert_causes(&manifests, &PODS);

    manifests.remove_all();
    let _agent = rig.start_agent(&[]);
    wait_for_nothing(&rig);
}

#[test]
fn three_hundred_changes_converge_and_no_two_instances_meet() {
    const CHANGES: usize = 300;
    let mut rng = seeded();
    let rig = Rig::new();
    let mut manifests = Manifests::new(&rig);
    let names: Vec<_> = (0..10).map(|number| format!("pod-{number}")).collect();
    let _agent = rig.start_agent(&[]);
    let begun = Instant::now();
    for _ in 0..CHANGES {
        let name = &names[rng.usize(..names.len())];
        let shape = Shape::any(&mut rng);
        manifests.change_or_take_back(name, shape, &mut rng);
        pause(&mut rng, 200);
    }
    eprintln!("{CHANGES} changes in {:?}", begun.elapsed());
    manifests.wait_for_rest(&BTreeSet::new());
    manifests.assert_never_met();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    Ends::default().assert_causes(&manifests, &names);

    manifests.remove_all();
    wait_for_nothing(&rig);
    manifests.assert_never_met();
}

#[test]
fn the_recorder_sees_those_that_meet() {
    let rig = Rig::new();
    let recorder = Recorder::new(&rig);
    let shape = Shape {
        policy: "Never",
        init: false,
        sidecar: true,
        host_network: true,
        grace: 1,
        main: Main::Obedient,
    };
    // Three pods that write the record of one.
    let posing = |pod: &str, version| {
        let text = recorder.manifest("a", version, &shape);
        let mut manifest: serde_json::Value = serde_json::from_str(&text).expect("a manifest is JSON");
        manifest["metadata"]["name"] = pod.into();
        manifest.to_string()
    };
    rig.write_manifest("a.yaml", &posing("a", 1));
    let _agent = rig.start_agent(&[]);
    rig.wait_running("a-node1", "main");
    assert_eq!(recorder.met(), [""; 0], "two containers of one instance may");
    rig.write_manifest("b.yaml", &posing("b", 1));
    rig.wait("the same container to meet itself", || recorder.met() == ["a.side.met"]);
    rig.write_manifest("c.yaml", &posing("c", 2));
    rig.wait("two instances to meet", || recorder.met().contains(&"a.met".to_owned()));
}
