//! Cgroups in directories that stand for the kernel's.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::*;
use crate::host::Dirs;
use crate::host::resource::Resource as _;
use crate::pod::PodName;
use crate::pod::object::PodObjects;
use crate::pod::testing::pod;

const UID: &str = "cd356e388f0b1d2e7bf518178c21b8ff";
const OTHER: &str = "1d0dc1eff9be3a4ff33ec80437482d79";

fn hierarchies(root: &Path, unified: bool) -> Hierarchies {
    let root = root.display();
    Hierarchies::parse(&if unified {
        format!("30 23 0:26 / {root} rw - cgroup2 cgroup2 rw\n")
    } else {
        ["cpu", "memory", "pids", "freezer"]
            .map(|name| format!("30 23 0:26 / {root}/{name} rw - cgroup cgroup rw,{name}\n"))
            .concat()
    })
}

fn all_pods() -> PodFigures {
    let (cpu_shares, memory_limit, pids_limit) = (Some(2048), Some(1 << 30), Some(32_768));
    PodFigures { cpu_shares, memory_limit, pids_limit, ..PodFigures::default() }
}

fn resource(root: &Path, unified: bool) -> PodCgroups {
    for point in hierarchies(root, unified).points() {
        fs::create_dir_all(point).unwrap();
    }
    let node = NodeResources { unified, pod_pids_limit: Some(50), ..NodeResources::default() };
    let cgroups = Cgroups::new(CgroupRoot::new("/r"), true, node, hierarchies(root, unified), all_pods());
    PodCgroups(Arc::new(cgroups), Dirs::new(root.join("root"), root.join("logs")))
}

fn instance(uid: &str, resources: Json) -> Pod {
    let mut pod = pod("p", uid);
    pod.spec.containers[0].resources = Some(serde_json::from_value(resources).unwrap());
    pod
}

/// Every file below a directory, by its path.
fn files(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(
                files(&entry.path()).into_iter().map(|(path, text)| (format!("{name}/{path}"), text)),
            );
        } else {
            found.insert(name, fs::read_to_string(entry.path()).unwrap());
        }
    }
    found
}

fn expect(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn limited() -> Json {
    json!({"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}})
}

#[test]
fn values_of_both_versions() {
    let root = tempfile::tempdir().unwrap();
    let v1 = resource(root.path(), false);
    for (uid, resources) in [(UID, limited()), (OTHER, json!({"requests": {"cpu": "1"}}))] {
        v1.prepare(&instance(uid, resources.clone()), &PodObjects::default()).unwrap();
        v1.prepare(&instance(uid, resources), &PodObjects::default()).unwrap();
    }
    v1.prepare(&instance("best", json!({})), &PodObjects::default()).unwrap();
    let dir = format!("r/kubepods/burstable/pod{UID}");
    let other = format!("r/kubepods/burstable/pod{OTHER}");
    assert_eq!(
        files(root.path()),
        expect(&[
            ("cpu/r/kubepods/cpu.shares", "2048"),
            ("memory/r/kubepods/memory.limit_in_bytes", "1073741824"),
            ("pids/r/kubepods/pids.max", "32768"),
            ("cpu/r/kubepods/burstable/cpu.shares", "1280"),
            ("cpu/r/kubepods/besteffort/cpu.shares", "2"),
            ("cpu/r/kubepods/besteffort/podbest/cpu.shares", "2"),
            ("pids/r/kubepods/besteffort/podbest/pids.max", "50"),
            (&format!("cpu/{dir}/cpu.shares"), "256"),
            (&format!("cpu/{dir}/cpu.cfs_period_us"), "100000"),
            (&format!("cpu/{dir}/cpu.cfs_quota_us"), "50000"),
            (&format!("memory/{dir}/memory.limit_in_bytes"), "67108864"),
            (&format!("pids/{dir}/pids.max"), "50"),
            (&format!("cpu/{other}/cpu.shares"), "1024"),
            (&format!("pids/{other}/pids.max"), "50"),
        ])
    );

    let root = tempfile::tempdir().unwrap();
    let v2 = resource(root.path(), true);
    fs::write(root.path().join("cgroup.controllers"), "cpu io memory pids misc").unwrap();
    fs::write(root.path().join("cgroup.subtree_control"), "cpu io memory").unwrap();
    v2.prepare(&instance(UID, limited()), &PodObjects::default()).unwrap();
    assert_eq!(
        files(root.path()),
        expect(&[
            ("cgroup.controllers", "cpu io memory pids misc"),
            ("cgroup.subtree_control", "+pids"),
            ("r/kubepods/cpu.weight", "79"),
            ("r/kubepods/memory.max", "1073741824"),
            ("r/kubepods/pids.max", "32768"),
            ("r/kubepods/burstable/cpu.weight", "10"),
            (&format!("{dir}/cpu.weight"), "10"),
            (&format!("{dir}/cpu.max"), "50000 100000"),
            (&format!("{dir}/memory.max"), "67108864"),
            (&format!("{dir}/pids.max"), "50"),
        ])
    );
}

/// As the kernel does, which removes a cgroup with its files.
fn without_files(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.path().is_dir() {
            without_files(&entry.path());
        } else {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn found_again_and_removed_if_ours() {
    let root = tempfile::tempdir().unwrap();
    let killed = resource(root.path(), false);
    for uid in [UID, OTHER] {
        killed.prepare(&instance(uid, limited()), &PodObjects::default()).unwrap();
        // The runtime's: a container's cgroup, in a hierarchy that we write nothing to.
        fs::create_dir_all(root.path().join(format!("freezer/r/kubepods/burstable/pod{uid}/container")))
            .unwrap();
    }
    fs::create_dir_all(root.path().join(format!("root/pods/{UID}"))).unwrap();
    without_files(root.path());
    let later = resource(root.path(), false);
    let found = later.list();
    let place = |point: &str| root.path().join(point).join(format!("r/kubepods/burstable/pod{UID}"));
    let mut places: Vec<_> = found.iter().map(|(uid, path)| (uid.as_str(), path.clone())).collect();
    places.sort();
    assert_eq!(
        places,
        ["cpu", "freezer", "memory", "pids"].map(|point| (UID, place(point))),
        "the other's are not ours"
    );
    for (_, path) in &found[..2] {
        later.remove(path).unwrap();
        later.remove(path).unwrap();
    }
    without_files(root.path());
    later.release(&PodName::new("default", "p"), &PodUid::from(UID)).unwrap();
    assert_eq!(later.list(), []);
    assert!(root.path().join(format!("cpu/r/kubepods/burstable/pod{OTHER}")).is_dir());
}

#[test]
fn one_that_refuses_to_go_is_found_again_without_the_pods_directory() {
    let root = tempfile::tempdir().unwrap();
    let cgroups = resource(root.path(), false);
    for uid in [UID, OTHER] {
        cgroups.prepare(&instance(uid, limited()), &PodObjects::default()).unwrap();
    }
    without_files(root.path());
    let place = root.path().join(format!("cpu/r/kubepods/burstable/pod{UID}"));
    fs::write(place.join("busy"), "as one with processes in it").unwrap();
    // The pod's directory goes whatever becomes of the cgroup.
    cgroups.release(&PodName::new("default", "p"), &PodUid::from(UID)).unwrap();
    let later = resource(root.path(), false);
    for _ in 0..2 {
        assert_eq!(later.list(), [(PodUid::from(UID), place.clone())], "and nobody else's");
        assert!(later.remove(&place).is_err());
    }
    fs::remove_file(place.join("busy")).unwrap();
    later.remove(&place).unwrap();
    assert_eq!((later.list(), later.left().names().unwrap()), (vec![], vec![]));
}

#[test]
fn a_pod_is_refused_only_for_limits_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let of_pod = |limits: Json| {
        let mut pod = instance(UID, limited());
        pod.spec.resources =
            Some(serde_json::from_value(json!({"limits": limits, "requests": limits})).unwrap());
        pod
    };
    let mut nothing_mounted = resource(root.path(), false);
    Arc::get_mut(&mut nothing_mounted.0).unwrap().hierarchies = Hierarchies::default();
    nothing_mounted.prepare(&instance(UID, limited()), &PodObjects::default()).unwrap();
    let error =
        nothing_mounted.prepare(&of_pod(json!({"memory": "1Gi"})), &PodObjects::default()).unwrap_err();
    assert_eq!(error.to_string(), "the node has no cgroup controller cpu mounted");

    let mut none = resource(root.path(), false);
    Arc::get_mut(&mut none.0).unwrap().per_qos = false;
    none.prepare(&instance(UID, limited()), &PodObjects::default()).unwrap();
    assert_eq!(none.0.parent(&instance(UID, limited()), CgroupDriver::Cgroupfs), "");
    assert!(none.prepare(&of_pod(json!({"memory": "1Gi"})), &PodObjects::default()).is_err());
    assert_eq!(files(root.path()), BTreeMap::new());
}
