//! The manifests, which change at random, and the two sources that tell the agent of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::world::World;
use crate::pod::annotations::{AFTER, AFTER_TIMEOUT};
use crate::pod::testing::pod;
use crate::pod::{ConfigHash, Pod, PodName, PodUid, Source};
use crate::sync::message::Event;
use crate::sync::mux::Snapshot;

pub(super) const SOURCES: [Source; 2] = [Source::File, Source::Http];
/// The exit code after which a rule restarts all containers of the pod.
pub(super) const RESTART_ALL: i32 = 42;
/// How many pod names there are.
const NAMES: usize = 5;

/// What the sources hold, and what they have said.
pub(super) struct Manifests {
    /// What is written in each source.
    truth: BTreeMap<Source, BTreeMap<PodName, Arc<Pod>>>,
    /// Every version that ever was.
    pub(super) versions: Vec<Arc<Pod>>,
    /// What each source has told this agent last: its pods, and whether those are all.
    pub(super) told: BTreeMap<Source, (Vec<Arc<Pod>>, bool)>,
    /// What each source keeps on disk for the next agent.
    kept: BTreeMap<Source, Vec<Arc<Pod>>>,
    /// These cannot be read.
    pub(super) outages: BTreeSet<Source>,
    /// These names have a fixed `metadata.uid`.
    fixed: BTreeSet<PodName>,
    /// These names have one and the same fixed `metadata.uid`: to write one of them renames the pod.
    renamed: BTreeSet<PodName>,
}

/// The name of a pod by its number.
pub(super) fn names() -> impl ExactSizeIterator<Item = PodName> {
    (0..NAMES).map(|number| PodName::new("default", format!("p{number}")))
}

/// Who has each name: the first source that holds it.
fn merge<'a>(sources: impl Iterator<Item = &'a Arc<Pod>>) -> BTreeMap<PodName, Arc<Pod>> {
    let mut merged = BTreeMap::new();
    for pod in sources {
        merged.entry(pod.name.clone()).or_insert_with(|| pod.clone());
    }
    merged
}

impl Manifests {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let fixed = names().filter(|_| rng.f64() < 0.2).collect();
        let truth = SOURCES.map(|source| (source, BTreeMap::new())).into();
        let renamed = if rng.f64() < 0.25 { names().skip(NAMES - 2).collect() } else { BTreeSet::new() };
        let (told, kept, outages) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut manifests = Self { truth, versions: Vec::new(), told, kept, outages, fixed, renamed };
        for name in names().filter(|_| rng.f64() < 0.6).collect::<Vec<_>>() {
            let source = manifests.draw_source(rng, &name);
            manifests.put(rng, source, &name);
        }
        manifests
    }

    /// What should run, now that everything can be read.
    pub(super) fn wanted(&self) -> BTreeMap<PodName, Arc<Pod>> {
        merge(self.truth.values().flat_map(BTreeMap::values))
    }

    /// What should run as far as the agent was told.
    pub(super) fn wanted_as_told(&self) -> BTreeMap<PodName, Arc<Pod>> {
        let heard = SOURCES.iter().map_while(|source| self.told.get(source));
        merge(heard.flat_map(|(pods, _)| pods))
    }

    /// The same for one name.
    pub(super) fn wanted_name_as_told(&self, name: &PodName) -> Option<&Arc<Pod>> {
        let heard = SOURCES.iter().map_while(|source| self.told.get(source));
        heard.flat_map(|(pods, _)| pods).find(|pod| pod.name == *name)
    }

    /// A source has told this agent all that it holds, after those before it have said something.
    pub(super) fn is_settled(&self, source: Source) -> bool {
        let mut before = SOURCES.iter().take_while(|before| **before < source);
        before.all(|before| self.told.contains_key(before))
            && self.told.get(&source).is_some_and(|(_, complete)| *complete)
    }

    /// The version with this hash.
    pub(super) fn version(&self, hash: &ConfigHash) -> Arc<Pod> {
        self.versions.iter().find(|pod| pod.hash == *hash).unwrap().clone()
    }

    /// Whether a pod may wait for another: they are one pod, renamed.
    pub(super) fn may_wait_for(&self, name: &PodName, other: &PodName) -> bool {
        name == other || (self.renamed.contains(name) && self.renamed.contains(other))
    }

    /// The source that a manifest is written to. A source has one pod of a UID, and which of two sources has it would
    /// depend on the agent's past: those with the same UID are all in one.
    fn draw_source(&self, rng: &mut Rng, name: &PodName) -> Source {
        if self.renamed.contains(name) { SOURCES[0] } else { *rng.choice(&SOURCES).unwrap() }
    }

    /// Writes a new version of a pod.
    fn put(&mut self, rng: &mut Rng, source: Source, name: &PodName) {
        let number = self.versions.len();
        let hash = format!("{}-{source}-v{number}", name.name);
        let uid = match (self.renamed.contains(name), self.fixed.contains(name)) {
            (true, _) => "uid-shared".to_owned(),
            (false, true) => format!("uid-{}", name.name),
            (false, false) => hash.clone(),
        };
        let pod = Arc::new(draw_pod(rng, name, source, uid.as_str().into(), hash.as_str().into()));
        self.versions.push(pod.clone());
        self.insert(source, pod);
    }

    /// A version is what its source holds under its name, and nothing else has its UID.
    fn insert(&mut self, source: Source, pod: Arc<Pod>) {
        let held = self.truth.entry(source).or_default();
        held.retain(|_, other| other.uid != pod.uid);
        held.insert(pod.name.clone(), pod);
    }

    /// Changes one manifest; returns the source that it is in.
    pub(super) fn edit(&mut self, rng: &mut Rng) -> (Source, String) {
        let name = rng.choice(names()).unwrap();
        let source = self.draw_source(rng, &name);
        let there = self.truth[&source].contains_key(&name);
        let of_name: Vec<_> =
            self.versions.iter().filter(|pod| pod.name == name && pod.source == source).cloned().collect();
        let what = match (there, rng.u32(0..10)) {
            (true, 0..5) => {
                self.truth.get_mut(&source).unwrap().remove(&name);
                "removed"
            }
            (_, 5..8) if !of_name.is_empty() => {
                let old = rng.choice(&of_name).unwrap().clone();
                self.insert(source, old);
                "put back"
            }
            _ => {
                self.put(rng, source, &name);
                "written"
            }
        };
        let hash = self.truth[&source].get(&name).map(|pod| pod.hash.to_string()).unwrap_or_default();
        (source, format!("{name} {what} {hash}"))
    }
}

impl World {
    /// A source says what it holds, as far as it can be read.
    pub(super) fn speak(&mut self, source: Source) {
        if self.agent.is_none() {
            return;
        }
        let written: Vec<_> = self.manifests.truth[&source].values().cloned().collect();
        let before = self.manifests.told.get(&source).map(|(pods, _)| pods.clone());
        let kept = self.manifests.kept.get(&source).cloned().unwrap_or_default();
        let (pods, complete) = match before {
            // What it knows stays, and nothing is added.
            Some(before) if self.manifests.outages.contains(&source) => (before, false),
            // Of what it kept on disk, some may be lost.
            None if self.manifests.outages.contains(&source) => {
                let mut kept = kept;
                kept.retain(|_| self.rng.f64() < 0.8);
                (kept, false)
            }
            _ => (written, true),
        };
        if complete {
            self.manifests.kept.insert(source, pods.clone());
        }
        let hashes: Vec<_> = pods.iter().map(|pod| pod.hash.as_str()).collect();
        self.note(format_args!("{source} says {hashes:?} complete {complete}"));
        self.note_wanted();
        self.manifests.told.insert(source, (pods.clone(), complete));
        self.note_wanted();
        let untrusted_signatures = BTreeMap::new();
        self.tell(Event::Config(Snapshot {
            source,
            pods,
            objects: Vec::new(),
            complete,
            untrusted_signatures,
            verdicts: Vec::new(),
        }));
    }
}

/// Draws what a manifest says.
fn draw_pod(rng: &mut Rng, name: &PodName, source: Source, uid: PodUid, hash: ConfigHash) -> Pod {
    let policy = *rng.choice(&["Always", "Always", "OnFailure", "Never"]).unwrap();
    let mains = rng.usize(1..=2);
    let (has_init, has_sidecar) = (rng.f64() < 0.3, rng.f64() < 0.3);
    let mut spec = json!({
        "restartPolicy": policy,
        "terminationGracePeriodSeconds": rng.u32(1..=20),
        "containers": (0..mains).map(|n| draw_container(rng, &format!("main{n}"))).collect::<Vec<_>>(),
    });
    if rng.f64() < 0.15 {
        let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [RESTART_ALL]}});
        spec["containers"][0]["restartPolicy"] = policy.into();
        spec["containers"][0]["restartPolicyRules"] = json!([rule]);
    }
    let mut init = Vec::new();
    if has_init {
        init.push(json!({"name": "setup", "image": "setup:1"}));
    }
    if has_sidecar {
        let mut sidecar = draw_container(rng, "proxy");
        sidecar["restartPolicy"] = "Always".into();
        init.insert(rng.usize(0..=init.len()), sidecar);
    }
    spec["initContainers"] = init.into();
    if rng.f64() < 0.12 {
        spec["activeDeadlineSeconds"] = rng.u32(20..=100).into();
    }
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let mut drawn = pod(&name.name, hash.as_str());
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    drawn.container_hashes = all.map(|c| (c.name.clone(), format!("{hash}-{}", c.name))).collect();
    (drawn.uid, drawn.source, drawn.spec) = (uid, source, spec);
    let number: usize = name.name[1..].parse().unwrap();
    if number > 0 && rng.f64() < 0.25 {
        // Never in a circle: only after one with a lower number.
        let after = format!("p{}", rng.usize(0..number));
        let timeout = format!("{}s", rng.u32(10..=60));
        let annotations = [(AFTER.to_owned(), after), (AFTER_TIMEOUT.to_owned(), timeout)];
        drawn.metadata.annotations = Some(annotations.into());
    }
    drawn
}

fn draw_container(rng: &mut Rng, name: &str) -> Value {
    let mut container = json!({
        "name": name,
        "image": format!("image:{}", rng.u32(0..3)),
        "imagePullPolicy": if rng.f64() < 0.2 { "Always" } else { "IfNotPresent" },
    });
    let exec = json!({"exec": {"command": ["x"]}});
    let mut lifecycle = json!({});
    if rng.f64() < 0.2 {
        lifecycle["preStop"] = exec.clone();
    }
    if rng.f64() < 0.15 {
        lifecycle["postStart"] = exec.clone();
    }
    if rng.f64() < 0.15 {
        lifecycle["stopSignal"] = "SIGUSR1".into();
    }
    container["lifecycle"] = lifecycle;
    for (kind, share) in [("livenessProbe", 0.2), ("readinessProbe", 0.2), ("startupProbe", 0.1)] {
        if rng.f64() < share {
            let mut probe = exec.clone();
            probe["periodSeconds"] = rng.u32(5..=20).into();
            probe["failureThreshold"] = rng.u32(1..=3).into();
            container[kind] = probe;
        }
    }
    container
}
