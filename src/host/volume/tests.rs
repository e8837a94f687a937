//! What mounts come to, and what is checked at their paths.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use super::*;
use crate::pod::testing::pod;
use crate::runtime::cri::convert::volume_mount;
use crate::runtime::cri::proto::{Mount, MountPropagation};

fn check(need: Need, path: &Path) -> Result<(), String> {
    let volume = PlannedVolume { need, host_path: path.to_owned() };
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
        let outcome = check(need, &path(name));
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
        {"name": "nfs", "nfs": {"server": "s", "path": "/"}},
    ]);
    pod.spec.volumes = Some(serde_json::from_value(volumes).unwrap());
    pod.spec.containers[0].volume_mounts = Some(vec![serde_json::from_value(mount).unwrap()]);
    pod
}

fn planned(pod: &Pod) -> Result<Vec<PlannedMount>, String> {
    let dirs = Dirs::new("/var/lib/kubelet".into(), "/var/log/pods".into());
    plan_mounts(pod, &pod.spec.containers[0], &dirs).map_err(|error| error.to_string())
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
        ("nfs", "volume \"nfs\" is of a kind that is not supported yet"),
        ("odd", "volume \"odd\" is of a kind that is not supported yet"),
    ];
    for (name, reason) in rows {
        assert_eq!(planned(&pod_mounting(json!({"name": name, "mountPath": "/m"}))), Err(reason.into()));
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
        let volumes = plan_pod_volumes(&pod, &Dirs::new("/r".into(), "/l".into())).unwrap();
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
