//! What containerd's log tells of starts that it cut short.

use std::collections::BTreeMap;
use std::fs;

use crate::rig::Rig;

/// How often the start of a container failed, by pod and container. Its process may have run for a moment: containerd
/// ends what it was starting when its caller vanishes.
pub(super) fn cut_short(rig: &Rig) -> BTreeMap<(String, String), usize> {
    let log = fs::read_to_string(rig.dir().join("containerd.log")).expect("containerd's log");
    let quoted = |text: &str| text.split("\\\"").nth(1).unwrap_or_default().to_owned();
    let named = |text: &str| text.split("Name:").nth(1)?.split(',').next().map(str::to_owned);
    let (mut sandboxes, mut containers, mut failed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for line in log.lines() {
        if let Some((made, id)) = line.split_once(" returns sandbox id ") {
            sandboxes.insert(quoted(id), named(made).expect("the name of a pod"));
        } else if let Some((made, id)) = line.split_once(" returns container id ") {
            let pod: Option<&String> = sandboxes.get(&quoted(made));
            let pod = pod.expect("a container in a sandbox").trim_end_matches("-node1").to_owned();
            containers.insert(quoted(id), (pod, named(made).expect("the name of a container")));
        } else if line.contains("msg=\"StartContainer for ") && line.contains("\\\" failed\"") {
            let of = containers.get(&quoted(line)).expect("a container that was made").clone();
            *failed.entry(of).or_default() += 1;
        }
    }
    failed
}
