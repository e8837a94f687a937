//! Which pods, containers and paths are measured, and whose the results are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Volume;

use super::disk::{DiskJob, Measured};
use crate::host::Dirs;
use crate::host::disk_usage::Counted;
use crate::host::volume::own_path;
use crate::pod::{ContainerId, Pod};
use crate::status::stats::{PodReading, VolumeReading};
use crate::sync::view::{PodView, View};

/// A pod of which a container runs.
#[derive(Debug, Clone)]
pub(super) struct MeasuredPod {
    pub(super) pod: Arc<Pod>,
    pub(super) started_at: Timestamp,
    pub(super) containers: Vec<MeasuredContainer>,
}

/// A container that runs.
#[derive(Debug, Clone)]
pub(super) struct MeasuredContainer {
    pub(super) name: String,
    pub(super) id: ContainerId,
    pub(super) image: String,
    pub(super) started_at: Timestamp,
}

/// The pods of which a container runs.
pub(super) fn select_pods(view: &View) -> Vec<MeasuredPod> {
    view.pods.values().filter_map(measured).collect()
}

fn measured(shown: &PodView) -> Option<MeasuredPod> {
    let state = shown.state.as_ref()?;
    let containers: Vec<_> = state
        .all_containers()
        .filter_map(|container| {
            let created = container.created.as_ref()?;
            Some(MeasuredContainer {
                name: container.name.clone(),
                id: created.id.clone(),
                image: created.image_ref.clone(),
                started_at: container.running_since()?,
            })
        })
        .collect();
    let (pod, started_at) = (shown.pod.clone(), state.started_at);
    (!containers.is_empty()).then_some(MeasuredPod { pod, started_at, containers })
}

/// What of a pod takes room on disks.
pub(super) fn disk_jobs(measured: &MeasuredPod, dirs: &Dirs) -> Vec<DiskJob> {
    let pod = &measured.pod;
    let logs = dirs.logs(&pod.name, &pod.uid);
    let logs = measured.containers.iter().map(|one| DiskJob::count(logs.join(&one.name), Counted::Inside));
    let mut jobs: Vec<_> = logs.collect();
    jobs.push(DiskJob::count(dirs.etc_hosts(&pod.uid), Counted::File));
    for (volume, path) in volumes(pod, dirs) {
        jobs.push(if volume.nfs.is_some() { DiskJob::network(path) } else { DiskJob::volume(path) });
    }
    jobs
}

/// The volumes that the agent made or mounted, and where.
fn volumes<'a>(pod: &'a Pod, dirs: &Dirs) -> impl Iterator<Item = (&'a Volume, PathBuf)> {
    pod.spec.volumes.iter().flatten().filter_map(|volume| Some((volume, own_path(pod, volume, dirs)?)))
}

/// Gives a pod what was measured of it.
pub(super) fn add_disk(
    shown: &mut PodReading,
    measured: &MeasuredPod,
    dirs: &Dirs,
    found: &BTreeMap<PathBuf, Measured>,
) {
    let pod = &measured.pod;
    let logs = dirs.logs(&pod.name, &pod.uid);
    for container in &mut shown.containers {
        container.logs = found.get(&logs.join(&container.name)).and_then(|measured| measured.used);
    }
    shown.etc_hosts = found.get(&dirs.etc_hosts(&pod.uid)).and_then(|measured| measured.used);
    let read = volumes(pod, dirs).filter_map(|(volume, path)| {
        let fs = found.get(&path).and_then(Measured::as_fs)?;
        // One that was not mounted yet.
        Some(VolumeReading { name: volume.name.clone(), fs, is_ephemeral: is_ephemeral(volume) })
    });
    shown.volumes = read.collect();
}

/// Whether a volume counts as storage of its pod, as kubelet counts: what is in memory does not.
fn is_ephemeral(volume: &Volume) -> bool {
    let empty_dir = volume.empty_dir.as_ref();
    let on_disk = empty_dir.is_some_and(|source| source.medium.as_deref().unwrap_or_default().is_empty());
    on_disk || volume.config_map.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn volumes_that_the_agent_made_are_measured() {
        let dirs = Dirs::new("/root".into(), "/logs".into());
        let mut pod = pod("p", "u");
        let volumes = serde_json::json!([
            {"name": "a", "emptyDir": {}},
            {"name": "b", "emptyDir": {"medium": "Memory"}},
            {"name": "c", "hostPath": {"path": "/"}},
            {"name": "d", "configMap": {"name": "d"}},
            {"name": "e", "secret": {"secretName": "e"}},
            {"name": "f", "nfs": {"server": "s", "path": "/"}},
        ]);
        pod.spec.volumes = Some(serde_json::from_value(volumes).unwrap());
        let of_volumes = self::volumes(&pod, &dirs).map(|(volume, _)| (&*volume.name, is_ephemeral(volume)));
        assert_eq!(
            of_volumes.collect::<Vec<_>>(),
            [("a", true), ("b", false), ("d", true), ("e", false), ("f", false)]
        );
        let measured =
            MeasuredPod { pod: Arc::new(pod), started_at: Timestamp::UNIX_EPOCH, containers: Vec::new() };
        let jobs = disk_jobs(&measured, &dirs);
        assert_eq!(jobs.len(), 6, "and /etc/hosts");
        assert_eq!(jobs.iter().filter(|job| job.may_hang()).count(), 1);
    }
}
