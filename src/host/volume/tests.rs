//! What mounts come to, and what is checked at their paths.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use super::*;
use crate::pod::quantity::Amount;
use crate::pod::testing::pod;
use crate::runtime::cri::convert::volume_mount;
use crate::runtime::cri::proto::{Mount, MountPropagation};

const NODE: NodeCapacity =
    NodeCapacity { cpu: Amount::ZERO, memory: Amount::ZERO, ephemeral_storage: Amount::ZERO };

fn check(need: Need, path: &Path) -> Result<(), String> {
    let volume = PlannedVolume { need, host_path: path.to_owned(), group: None, ready: None };
    volume.apply().map_err(|error| error.to_string())
}

#[test]
fn host_paths_are_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("file"), "").unwrap();
    fs::create_dir(path("dir")).unwrap();
    let _listener = UnixListener::bind(path("socket")).unwrap();
    let cases = [
        (Need::Anything, "nothing", true),
        (Need::Directory, "nothing", false),
        (Need::Directory, "file", false),
        (Need::Directory, "dir", true),
        (Need::File, "dir", false),
        (Need::File, "nothing", false),
        (Need::File, "file", true),
        (Need::Socket, "file", false),
        (Need::Socket, "socket", true),
        (Need::DirectoryOrCreate, "file", false),
        (Need::DirectoryOrCreate, "made/below", true),
        (Need::FileOrCreate, "dir", false),
        (Need::FileOrCreate, "made-file", true),
        (Need::FileOrCreate, "no/such/parent", false),
        (Need::BlockDevice, "file", false),
    ];
    for (need, name, fits) in cases {
        let outcome = check(need.clone(), &path(name));
        assert_eq!(outcome.is_ok(), fits, "{need:?} {name}: {outcome:?}");
    }
    assert!(path("made/below").is_dir() && path("made-file").is_file() && !path("nothing").exists());
    check(Need::CharDevice, Path::new("/dev/null")).unwrap();
    assert!(check(Need::Directory, &path("file")).unwrap_err().contains("is not a directory"));

    check(Need::EmptyDir, &path("empty")).unwrap();
    assert_eq!(fs::metadata(path("empty")).unwrap().permissions().mode() & 0o7777, 0o777);
}

/// A pod with a volume of each kind that there is, and one mount.
fn pod_mounting(mount: Value) -> Pod {
    let mut pod = pod("p", "u");
    let volumes = json!([
        {"name": "scratch", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": "/srv/data", "type": ""}},
        {"name": "odd", "hostPath": {"path": "/srv", "type": "Shelf"}},
        {"name": "words", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "all", "projected": {"sources": []}},
        {"name": "tty", "hostPath": {"path": "/dev/ttyUSB0", "type": "CharDevice"}},
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "huge", "emptyDir": {"medium": "HugePages"}},
        {"name": "csi", "csi": {"driver": "d"}},
    ]);
    pod.spec.volumes = Some(serde_json::from_value(volumes).unwrap());
    pod.spec.containers[0].volume_mounts = Some(vec![serde_json::from_value(mount).unwrap()]);
    pod
}

fn planned(pod: &Pod) -> Result<Vec<PlannedMount>, String> {
    let dirs = Dirs::new("/var/lib/kubelet".into(), "/var/log/pods".into());
    let env = [("POD".to_owned(), "p-0".to_owned()), ("UP".to_owned(), "../x".to_owned())];
    plan_mounts(pod, &pod.spec.containers[0], &env, &dirs).map_err(|error| error.to_string())
}

#[test]
fn mounts_as_the_runtime_wants_them() {
    const SCRATCH: &str = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/scratch";
    use MountPropagation::{PropagationBidirectional, PropagationHostToContainer, PropagationPrivate};
    // The mount; where on the node and in the container, read-only, propagation.
    let rows = [
        (json!({"name": "scratch", "mountPath": "/s"}), SCRATCH, "/s", false, PropagationPrivate),
        (json!({"name": "host", "mountPath": "/d"}), "/srv/data", "/d", false, PropagationPrivate),
        (json!({"name": "host", "mountPath": "d/e"}), "/srv/data", "/d/e", false, PropagationPrivate),
        (
            json!({"name": "host", "mountPath": "/d", "readOnly": true, "mountPropagation": "None"}),
            "/srv/data",
            "/d",
            true,
            PropagationPrivate,
        ),
        (
            json!({"name": "host", "mountPath": "/d", "mountPropagation": "HostToContainer"}),
            "/srv/data",
            "/d",
            false,
            PropagationHostToContainer,
        ),
        (
            json!({"name": "host", "mountPath": "/d", "mountPropagation": "Bidirectional"}),
            "/srv/data",
            "/d",
            false,
            PropagationBidirectional,
        ),
    ];
    for (mount, host_path, container_path, readonly, propagation) in rows {
        let prepared = planned(&pod_mounting(mount.clone())).unwrap();
        let expect = Mount {
            container_path: container_path.into(),
            host_path: host_path.into(),
            readonly,
            propagation: propagation as i32,
            ..Mount::default()
        };
        assert_eq!(
            prepared.iter().map(|found| volume_mount(&found.host_path, &found.mount)).collect::<Vec<_>>(),
            [expect],
            "{mount}"
        );
    }
}

#[test]
fn no_container_runs_without_what_it_mounts() {
    let rows = [
        ("nowhere", "volume \"nowhere\" is not in the pod"),
        ("csi", "volume \"csi\" is of a kind that is not supported yet"),
        ("odd", "volume \"odd\" is of a kind that is not supported yet"),
    ];
    for (name, reason) in rows {
        let pod = pod_mounting(json!({"name": name, "mountPath": "/m"}));
        let dirs = Dirs::new("/r".into(), "/l".into());
        let error = plan_pod_volumes(&pod, &PodObjects::default(), &dirs, &NODE).unwrap_err();
        assert_eq!(error.to_string(), reason);
    }
    // What is not mounted is no obstacle.
    let mut pod = pod_mounting(json!({"name": "host", "mountPath": "/m"}));
    assert_eq!(planned(&pod).map(|all| all.len()), Ok(1));
    pod.spec.containers[0].volume_mounts = None;
    assert_eq!(planned(&pod).map(|all| all.len()), Ok(0));
}

#[test]
fn each_type_of_host_path_has_its_check() {
    let rows = [
        (None, Need::Anything),
        (Some(""), Need::Anything),
        (Some("DirectoryOrCreate"), Need::DirectoryOrCreate),
        (Some("Directory"), Need::Directory),
        (Some("FileOrCreate"), Need::FileOrCreate),
        (Some("File"), Need::File),
        (Some("Socket"), Need::Socket),
        (Some("CharDevice"), Need::CharDevice),
        (Some("BlockDevice"), Need::BlockDevice),
    ];
    for (kind, need) in rows {
        let mut pod = pod_mounting(json!({"name": "host", "mountPath": "/m"}));
        for volume in pod.spec.volumes.iter_mut().flatten().filter(|volume| volume.name == "host") {
            volume.host_path.as_mut().unwrap().type_ = kind.map(str::to_owned);
        }
        let volumes =
            plan_pod_volumes(&pod, &PodObjects::default(), &Dirs::new("/r".into(), "/l".into()), &NODE)
                .unwrap();
        assert_eq!(volumes[0].need, need, "{kind:?}");
    }
}

#[test]
fn the_pods_hosts_file_is_mounted_unless_the_container_brings_its_own() {
    let hosts = || PathBuf::from("/var/lib/kubelet/pods/u/etc-hosts");
    // Where the container mounts something; what is at /etc/hosts then, and whether ours is to be written.
    let rows = [
        ("/d", "/var/lib/kubelet/pods/u/etc-hosts", true),
        ("/etc/hosts", "/srv/data", false),
        ("etc/hosts", "/srv/data", false),
    ];
    for (path, expect, written) in rows {
        let volumes = planned(&pod_mounting(json!({"name": "host", "mountPath": path}))).unwrap();
        let container =
            Container { termination_message_path: Some("dev/words".into()), ..Container::default() };
        let words = Path::new("/var/lib/kubelet/pods/u/containers/c/00000000");
        let (mounts, file) = crate::runtime::container_mounts(&container, &volumes, hosts(), words);
        let last = mounts.last().unwrap();
        assert_eq!((last.container_path.as_str(), Path::new(&last.host_path)), ("/dev/words", words));
        let at_hosts: Vec<_> = mounts.iter().filter(|m| m.container_path == "/etc/hosts").collect();
        assert_eq!(at_hosts.len(), 1, "{path}");
        assert_eq!(at_hosts[0].host_path, expect, "{path}");
        assert_eq!(file, written.then(hosts), "{path}");
    }
}

#[test]
fn each_kind_of_volume_has_its_place_and_group() {
    let dirs = Dirs::new("/r".into(), "/l".into());
    let files = |name: &str| {
        let file = crate::pod::downward_api::ProjectedFile { contents: name.into(), mode: 0o644 };
        Need::Files([("name".to_owned(), file)].into())
    };
    let group = Some(42);
    let rows = [
        (
            "scratch",
            Need::EmptyDir,
            "/r/pods/u/volumes/kubernetes.io~empty-dir/scratch",
            group,
            Some("scratch"),
        ),
        (
            "fast",
            Need::Memory(1 << 20),
            "/r/pods/u/volumes/kubernetes.io~empty-dir/fast",
            group,
            Some("fast"),
        ),
        (
            "words",
            files("p"),
            "/r/pods/u/volumes/kubernetes.io~downward-api/words",
            group,
            Some("wrapped_words"),
        ),
        (
            "all",
            Need::Files([].into()),
            "/r/pods/u/volumes/kubernetes.io~projected/all",
            group,
            Some("wrapped_all"),
        ),
        // What is the node's keeps its group.
        ("host", Need::Anything, "/srv/data", None, None),
    ];
    let node = NodeCapacity { memory: Amount::whole(1 << 30), ..NODE };
    for (name, need, path, group, ready) in rows {
        let mut pod = pod_mounting(json!({"name": name, "mountPath": "/m"}));
        pod.spec.security_context = Some(serde_json::from_value(json!({"fsGroup": 42})).unwrap());
        let planned = plan_pod_volumes(&pod, &PodObjects::default(), &dirs, &node).unwrap();
        let ready =
            ready.map(|name| format!("/r/pods/u/plugins/kubernetes.io~empty-dir/{name}/ready").into());
        assert_eq!(planned, [PlannedVolume { need, host_path: path.into(), group, ready }], "{name}");
    }
    let pod = pod_mounting(json!({"name": "huge", "mountPath": "/m"}));
    let error = plan_pod_volumes(&pod, &PodObjects::default(), &dirs, &node).unwrap_err().to_string();
    assert_eq!(error, "medium HugePages: no container asks for hugepages-SIZE");
}

#[test]
fn parts_of_volumes() {
    const TARGET: &str = "/var/lib/kubelet/pods/u/volume-subpaths/host/main/0";
    let fails = |reason: &str| format!("failed to prepare subPath for volumeMount \"host\": {reason}");
    // The fields of the mount; the part that is bound, if it is a part.
    let rows = [
        (json!({}), Ok(None)),
        (json!({"subPath": ""}), Ok(None)),
        (json!({"subPath": "a/b"}), Ok(Some("a/b"))),
        (json!({"subPath": "$(POD)"}), Ok(Some("$(POD)"))),
        (json!({"subPathExpr": "a/$(POD)"}), Ok(Some("a/p-0"))),
        (json!({"subPathExpr": "$(NONE)"}), Err(fails("missing value for \"NONE\""))),
        (json!({"subPathExpr": "$(UP)"}), Err(fails("\"../x\" must not contain '..'"))),
        (json!({"subPathExpr": "/$(POD)"}), Err(fails("\"/p-0\" must be relative"))),
    ];
    for (fields, expect) in rows {
        let mut mount = json!({"name": "host", "mountPath": "/m"});
        mount.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let found = planned(&pod_mounting(mount)).map(|mut all| all.remove(0));
        match (found, expect) {
            (Ok(found), Ok(None)) => {
                assert_eq!((found.host_path, found.sub_path), ("/srv/data".into(), None), "{fields}");
            }
            (Ok(found), Ok(Some(part))) => {
                let sub_path =
                    SubPath { volume: "/srv/data".into(), path: part.into(), target: TARGET.into() };
                assert_eq!((found.host_path, found.sub_path), (TARGET.into(), Some(sub_path)), "{fields}");
            }
            (found, expect) => assert_eq!(found.err(), expect.err(), "{fields}"),
        }
    }
}

#[test]
fn devices_and_files_of_the_pod_are_known_as_such() {
    for (name, is_device, read_only) in
        [("tty", true, None), ("host", false, None), ("words", false, Some(true)), ("all", false, Some(true))]
    {
        let found = planned(&pod_mounting(json!({"name": name, "mountPath": "/m"}))).unwrap().remove(0);
        assert_eq!((found.is_device, found.mount.read_only), (is_device, read_only), "{name}");
    }
}

#[test]
fn an_image_is_the_runtimes_to_mount() {
    let mut pod = pod("p", "u");
    let volumes = json!([{"name": "i", "image": {"reference": "r/data:1", "pullPolicy": "Always"}}]);
    pod.spec.volumes = Some(serde_json::from_value(volumes).unwrap());
    let mounts = json!([{"name": "i", "mountPath": "m", "subPath": "d/e"}]);
    pod.spec.containers[0].volume_mounts = Some(serde_json::from_value(mounts).unwrap());
    let dirs = Dirs::new("/r".into(), "/l".into());
    assert_eq!(
        plan_pod_volumes(&pod, &PodObjects::default(), &dirs, &NODE).unwrap(),
        [],
        "nothing is made on the node"
    );
    let mut planned = plan_mounts(&pod, &pod.spec.containers[0], &[], &dirs).unwrap();
    planned[0].apply().unwrap();
    planned[0].image.as_mut().unwrap().resolved = "sha256:1".into();
    let (mounts, _) =
        crate::runtime::container_mounts(&Container::default(), &planned, "/h".into(), Path::new("/w"));
    let image = mounts[0].image.as_ref().unwrap();
    assert_eq!((image.image.as_str(), image.user_specified_image.as_str()), ("sha256:1", "r/data:1"));
    assert_eq!(
        (mounts[0].container_path.as_str(), mounts[0].host_path.as_str(), mounts[0].image_sub_path.as_str()),
        ("/m", "", "d/e")
    );
    assert!(mounts[0].readonly);
}
