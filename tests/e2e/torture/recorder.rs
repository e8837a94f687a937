//! Pods that record what becomes of them: every start, and whether two that should never meet have met.
//!
//! Each container holds a lock of its own, and one that it shares with the containers of its instance alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::rig::{BUSYBOX, Rig};

/// What a pod is like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) policy: &'static str,
    pub(super) init: bool,
    pub(super) sidecar: bool,
    /// No network to set up: what comes after it is reached sooner.
    pub(super) host_network: bool,
    /// Seconds.
    pub(super) grace: u8,
    pub(super) main: Main,
}

/// What the container `main` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Main {
    /// Ends when it is asked to.
    Obedient,
    /// Does not.
    Stubborn,
    /// Ends by itself, with success.
    Job,
}

impl Shape {
    /// Any shape that comes to rest.
    pub(super) fn any(rng: &mut fastrand::Rng) -> Self {
        let main = [Main::Obedient, Main::Stubborn, Main::Job][rng.usize(..3)];
        let policies: &[_] =
            if main == Main::Job { &["OnFailure", "Never"] } else { &["Always", "OnFailure", "Never"] };
        let policy = policies[rng.usize(..policies.len())];
        let (init, sidecar, host_network) = (rng.bool(), rng.bool(), rng.bool());
        Self { policy, init, sidecar, host_network, grace: rng.u8(..=2), main }
    }

    /// The containers that run once all is at rest.
    pub(super) fn running(&self) -> &'static [&'static str] {
        match (self.main, self.sidecar) {
            (Main::Job, _) => &[],
            (_, true) => &["main", "side"],
            (_, false) => &["main"],
        }
    }
}

/// Where the pods of a test write.
pub(super) struct Recorder {
    dir: PathBuf,
}

impl Recorder {
    pub(super) fn new(rig: &Rig) -> Self {
        let dir = rig.dir().join("record");
        fs::create_dir_all(&dir).expect("create the directory of records");
        Self { dir }
    }

    /// A version of a pod, as a manifest.
    pub(super) fn manifest(&self, name: &str, version: u32, shape: &Shape) -> String {
        let container = |container: &str, script: &str| {
            let start = format!("echo {version} >> /record/{name}.{container}.starts\n{script}");
            json!({
                "name": container,
                "image": BUSYBOX,
                "command": [
                    "hold", format!("/record/{name}={version}"), "hold", format!("/record/{name}.{container}"),
                    "sh", "-c", start
                ],
                "volumeMounts": [
                    {"name": "record", "mountPath": "/record"},
                    {"name": "scratch", "mountPath": "/scratch"},
                ],
            })
        };
        const LOOP: &str = "while :; do sleep 1000 & wait $!; done";
        let main = match shape.main {
            Main::Obedient => format!("trap 'exit 0' TERM; {LOOP}"),
            Main::Stubborn => format!("trap : TERM; {LOOP}"),
            Main::Job => "sleep 0.2".to_owned(),
        };
        let mut init: Vec<Value> = Vec::new();
        if shape.init {
            init.push(container("init", "sleep 0.1"));
        }
        if shape.sidecar {
            let mut side = container("side", &format!("trap 'exit 0' TERM; {LOOP}"));
            side["restartPolicy"] = json!("Always");
            init.push(side);
        }
        let manifest = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"version": version.to_string()}},
            "spec": {
                "terminationGracePeriodSeconds": shape.grace,
                "restartPolicy": shape.policy,
                "hostNetwork": shape.host_network,
                "initContainers": init,
                "containers": [container("main", &main)],
                "volumes": [
                    {"name": "record", "hostPath": {"path": self.dir}},
                    {"name": "scratch", "emptyDir": {}},
                ],
            },
        });
        manifest.to_string()
    }

    /// How often each version of a container has started.
    pub(super) fn starts(&self, pod: &str, container: &str) -> BTreeMap<u32, usize> {
        let text = fs::read_to_string(self.dir.join(format!("{pod}.{container}.starts"))).unwrap_or_default();
        let mut starts = BTreeMap::new();
        for version in text.lines() {
            *starts.entry(version.parse().expect("the number of a version")).or_default() += 1;
        }
        starts
    }

    /// The pods and containers that have met another instance, or themselves.
    pub(super) fn met(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.dir).expect("list the records").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".met")).collect()
    }
}
