//! Tables: what is given to whom, taken back, and told.

use serde_json::json;

use super::*;
use crate::pod::testing::pod;

fn offered(ids: &[(&str, bool)]) -> BTreeMap<String, Device> {
    let each =
        ids.iter().map(|(id, healthy)| ((*id).to_owned(), Device { healthy: *healthy, nodes: vec![] }));
    each.collect()
}

fn ids(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|id| (*id).to_owned()).collect()
}

const RESOURCE: &str = "example.com/dev";

#[test]
fn which_resources_are_of_plugins() {
    for (name, expect) in [
        ("example.com/gpu", true),
        ("nvidia.com/gpu", true),
        ("cpu", false),
        ("hugepages-2Mi", false),
        ("kubernetes.io/x", false),
        ("sub.kubernetes.io/x", false),
        ("requests.example.com/x", false),
        ("example.com/", false),
        ("a/b/c", false),
    ] {
        assert_eq!(is_extended_resource(name), expect, "{name}");
    }
    let container: Container = serde_json::from_value(json!({"name": "c", "resources": {
        "requests": {"a.com/only-requested": "1"},
        "limits": {"cpu": "1", "a.com/x": "2", "a.com/none": "0", "b.com/y": "1k"},
    }}))
    .unwrap();
    assert_eq!(wanted_devices(&container), [("a.com/x".to_owned(), 2), ("b.com/y".to_owned(), 1000)]);
}

#[test]
fn chosen_from_what_is_healthy_and_free() {
    let mut all = DeviceAssignments::default();
    let (a, b) = (pod("a", "1"), pod("b", "2"));
    let choose = |all: &DeviceAssignments, count| all.choose(&b, "main", RESOURCE, count);
    assert_eq!(choose(&all, 1), Err(DeviceShortage::Unregistered(RESOURCE.into())));
    all.offers.insert(RESOURCE.into(), Offer::default());
    assert_eq!(choose(&all, 1), Err(DeviceShortage::Unhealthy(RESOURCE.into())));
    all.update(RESOURCE, offered(&[("ill", false), ("d1", true), ("d2", true), ("d3", true)]));
    all.grant(&a.uid, "main", RESOURCE, ids(&["d1"]), Vec::new());
    assert_eq!(all.allocatable(), [(RESOURCE.to_owned(), 3)].into());
    let choice = choose(&all, 1).unwrap().unwrap();
    assert_eq!(choice, DeviceChoice { taken: ids(&[]), free: ids(&["d2", "d3"]), count: 1 });
    assert_eq!(choice.alternatives(), Some(ids(&["d2", "d3"])));
    // The plugin's preference counts where it can.
    for (preferred, expect) in [
        (vec!["d3"], ["d3"]),
        (vec!["d1", "ill", "none", "d3"], ["d3"]),
        (vec![], ["d2"]),
        (vec!["d3", "d2"], ["d3"]),
    ] {
        let preferred: Vec<_> = preferred.into_iter().map(str::to_owned).collect();
        assert_eq!(choice.clone().settle(&preferred), ids(&expect), "{preferred:?}");
    }
    let too_few = choose(&all, 3).unwrap_err();
    assert_eq!(
        too_few.to_string(),
        "requested number of devices unavailable for example.com/dev. Requested: 3, Available: 2"
    );
    assert_eq!(all.choose(&a, "main", RESOURCE, 1), Ok(None), "it has its own");
    all.disconnect(RESOURCE);
    assert_eq!(choose(&all, 1), Err(DeviceShortage::Unhealthy(RESOURCE.into())));
    assert_eq!(all.choose(&a, "main", RESOURCE, 1), Ok(None), "also without the plugin");
    assert_eq!(all.allocatable(), [(RESOURCE.to_owned(), 0)].into());
    assert!(all.release(&a.uid) && !all.release(&a.uid));
}

#[test]
fn what_init_containers_had_is_given_again() {
    let mut all = DeviceAssignments::default();
    let mut p = pod("p", "1");
    p.spec.init_containers = Some(
        serde_json::from_value(json!([
            {"name": "first"}, {"name": "sidecar", "restartPolicy": "Always"}, {"name": "second"},
        ]))
        .unwrap(),
    );
    all.update(RESOURCE, offered(&[("d1", true), ("d2", true), ("d3", true)]));
    for (container, count, taken, free) in [
        ("first", 2, ids(&[]), ids(&["d1", "d2", "d3"])),
        ("sidecar", 1, ids(&["d1"]), ids(&["d3"])),
        ("second", 2, ids(&["d2"]), ids(&["d3"])),
        ("main", 2, ids(&["d2", "d3"]), ids(&[])),
    ] {
        let choice = all.choose(&p, container, RESOURCE, count).unwrap().unwrap();
        assert_eq!((&choice.taken, &choice.free), (&taken, &free), "{container}");
        assert_eq!(choice.alternatives().is_none(), taken.len() == count, "{container}");
        all.grant(&p.uid, container, RESOURCE, choice.settle(&[]), Vec::new());
    }
    // What is ill meanwhile is not given again.
    all.update(RESOURCE, offered(&[("d1", true), ("d2", false), ("d3", true)]));
    all.granted.get_mut(&p.uid).unwrap().remove("main");
    assert!(matches!(all.choose(&p, "main", RESOURCE, 2), Err(DeviceShortage::TooFew { .. })));
}

#[test]
fn a_change_of_health_names_the_pods() {
    let mut all = DeviceAssignments::default();
    let uid = |text: &str| PodUid::from(text);
    all.update(RESOURCE, offered(&[("d1", true), ("d2", true)]));
    all.grant(&uid("1"), "main", RESOURCE, ids(&["d1"]), Vec::new());
    all.grant(&uid("2"), "main", RESOURCE, ids(&["d2"]), Vec::new());
    for (now, expect) in [
        (offered(&[("d1", true), ("d2", true)]), vec![]),
        (offered(&[("d1", false), ("d2", true)]), vec![uid("1")]),
        // kubelet tells nobody of one that vanishes, and tells when it is back.
        (offered(&[("d1", false)]), vec![]),
        (offered(&[("d1", true), ("d2", true)]), vec![uid("1"), uid("2")]),
    ] {
        assert_eq!(all.update(RESOURCE, now.clone()), expect.into_iter().collect(), "{now:?}");
    }
    all.update(RESOURCE, offered(&[("d1", false)]));
    let health = all.health();
    assert_eq!(health[&uid("1")]["main"][RESOURCE], [("d1".to_owned(), false)].into());
    assert_eq!(health[&uid("2")]["main"][RESOURCE], [("d2".to_owned(), true)].into());
}

#[test]
fn devices_are_noted_by_their_numa_nodes() {
    let mut all = DeviceAssignments::default();
    let device = |nodes: &[i64]| Device { healthy: true, nodes: nodes.to_vec() };
    all.update(RESOURCE, [("a".to_owned(), device(&[0])), ("b".to_owned(), device(&[0, 1]))].into());
    all.grant(&PodUid::from("1"), "main", RESOURCE, ids(&["a", "b", "gone"]), Vec::new());
    let grant = &all.of(&PodUid::from("1"), "main").unwrap()[RESOURCE];
    let texts = |list: &[&str]| list.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    let expect = [(-1, texts(&["gone"])), (0, texts(&["a", "b"])), (1, texts(&["b"]))];
    assert_eq!((grant.devices.clone(), grant.ids()), (expect.into(), ids(&["a", "b", "gone"])));
}
