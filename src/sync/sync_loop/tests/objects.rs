//! Who is told when ConfigMaps and Secrets change.

use super::*;
use crate::pod::object::ObjectKind;
use crate::pod::object::testing::object;

fn with_map(name: &str, map: &str) -> Arc<Pod> {
    let mut pod = crate::pod::testing::pod(name, name);
    let from = serde_json::json!([{"configMapRef": {"name": map}}]);
    pod.spec.containers[0].env_from = Some(serde_json::from_value(from).unwrap());
    Arc::new(pod)
}

#[test]
fn a_change_is_told_to_those_who_refer_to_it() {
    let pods = vec![with_map("a", "x"), with_map("b", "y"), Arc::new(crate::pod::testing::pod("c", "c"))];
    let mut state = SyncLoop::new([Source::File]).looking_in("/m".into());
    let mut told = |maps: &[(&str, &str)]| {
        let objects = maps.iter().map(|(name, value)| object(ObjectKind::ConfigMap, name, &[("v", value)]));
        let snapshot = Snapshot {
            source: Source::File,
            pods: pods.clone(),
            objects: objects.collect(),
            complete: true,
            untrusted_signatures: BTreeMap::new(),
            verdicts: vec![],
        };
        let commands = state.handle(Event::Config(snapshot));
        let shown = commands.into_iter().map(|command| match command {
            Command::Tell(name, Desired { objects, .. }) => {
                let found = objects.map(|objects| objects.found.len().to_string());
                format!("{}:{}", name.name, found.unwrap_or_else(|| "none".into()))
            }
            Command::Dismiss(name) => format!("dismiss {name}"),
        });
        let mut shown: Vec<_> = shown.collect();
        shown.sort();
        shown.join(" ")
    };
    let rows: [(&str, &[(&str, &str)], &str); 6] = [
        ("all are new", &[], "a:0 b:0 c:none"),
        ("the same again", &[], ""),
        ("one appears", &[("x", "1")], "a:1"),
        ("one changes, and one that nobody refers to appears", &[("x", "2"), ("z", "1")], "a:1"),
        ("another appears", &[("x", "2"), ("y", "1")], "b:1"),
        ("one is gone", &[("y", "1")], "a:0"),
    ];
    for (name, maps, want) in rows {
        assert_eq!(told(maps), want, "{name}");
    }
}
