//! Files whose change restarts or signals the containers that mount them: two annotations. Pure.
//!
//! `rkubelet.dev/watch-files: /etc/ssl/a.crt, /etc/ssl/a.key` names paths of the node that lie in hostPath volumes of the pod;
//! `rkubelet.dev/on-change: restart` (which is meant if it is missing) or `signal:HUP` says what follows a change.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::annotations::{field, names};
use super::finding::Finding;
use super::{ContainerRef, containers_of, is_sidecar, signal};
use crate::text::excerpt::quoted;

const WATCH_FILES: &str = "rkubelet.dev/watch-files";
const ON_CHANGE: &str = "rkubelet.dev/on-change";
/// Every file costs a watch or more of the kernel's.
const MOST: usize = 16;

/// What follows a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnChange {
    /// The containers are replaced, within their grace.
    Restart,
    /// Their main processes get this signal.
    Signal(u32),
}

/// A file, and who mounts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchedFile {
    /// Its path on the node.
    pub(crate) path: PathBuf,
    /// The containers that mount it.
    pub(crate) containers: BTreeSet<String>,
}

/// What a pod wants to be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchedFiles {
    /// The files.
    pub(crate) files: Vec<WatchedFile>,
    /// What follows a change.
    pub(crate) on_change: OnChange,
}

/// Whether a pod asks for it at all; the rest costs more to find out.
pub(crate) fn asks_for_watch(metadata: &ObjectMeta) -> bool {
    metadata.annotations.as_ref().is_some_and(|all| all.contains_key(WATCH_FILES))
}

/// What a pod wants to be watched; none if it wants nothing.
///
/// # Errors
/// All that is wrong with the annotations.
pub(crate) fn watched_files(
    metadata: &ObjectMeta,
    spec: &PodSpec,
) -> Result<Option<WatchedFiles>, Vec<Finding>> {
    let text = metadata.annotations.as_ref().and_then(|all| all.get(ON_CHANGE));
    let mut findings = Vec::new();
    let on_change = match text.map(|text| text.trim()) {
        None | Some("restart") => OnChange::Restart,
        Some(text) => match text.strip_prefix("signal:").and_then(signal_number) {
            Some(number) => OnChange::Signal(number),
            None => {
                let reason =
                    format!("{} is neither restart nor signal:NAME, such as signal:HUP", quoted(text));
                findings.push(Finding::new(field(ON_CHANGE), reason));
                OnChange::Restart
            }
        },
    };
    if !asks_for_watch(metadata) {
        if text.is_some() {
            findings.push(Finding::new(field(ON_CHANGE), format!("needs {WATCH_FILES}")));
        }
        return if findings.is_empty() { Ok(None) } else { Err(findings) };
    }
    let mut files = Vec::new();
    let paths = names(metadata, WATCH_FILES);
    if paths.len() > MOST {
        findings.push(Finding::new(field(WATCH_FILES), format!("may have at most {MOST} paths")));
    }
    for text in paths {
        let path = Path::new(text);
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(plain) {
            let reason = format!("{} must be an absolute path without '..'", quoted(text));
            findings.push(Finding::new(field(WATCH_FILES), reason));
            continue;
        }
        let containers = mounting(spec, path);
        if containers.is_empty() {
            let reason = format!("{} lies in no hostPath that a container mounts", quoted(text));
            findings.push(Finding::new(field(WATCH_FILES), reason));
        }
        files.push(WatchedFile { path: path.to_owned(), containers });
    }
    if findings.is_empty() { Ok(Some(WatchedFiles { files, on_change })) } else { Err(findings) }
}

/// `HUP` or `SIGHUP`.
fn signal_number(name: &str) -> Option<u32> {
    signal::number(name).or_else(|| signal::number(&format!("SIG{name}")))
}

/// The containers that mount a path of the node. Init containers are over when it changes.
fn mounting(spec: &PodSpec, path: &Path) -> BTreeSet<String> {
    let stays = |(which, container): &(ContainerRef, &Container)| {
        matches!(which, ContainerRef::Main(_)) || is_sidecar(container)
    };
    let mounts = |container: &Container| {
        container.volume_mounts.iter().flatten().any(|mount| {
            let volume = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name);
            let Some(host_path) = volume.and_then(|volume| volume.host_path.as_ref()) else { return false };
            // What an expression comes to is not known yet.
            let part = mount.sub_path.as_deref().unwrap_or_default();
            path.starts_with(Path::new(&host_path.path).join(part))
        })
    };
    let all = containers_of(spec).filter(stays).filter(|(_, container)| mounts(container));
    all.map(|(_, container)| container.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn watched(files: Option<&str>, on_change: Option<&str>) -> Result<Option<WatchedFiles>, Vec<String>> {
        let spec = json!({
            "volumes": [
                {"name": "ssl", "hostPath": {"path": "/etc/ssl/"}}, {"name": "one", "hostPath": {"path": "/srv/one.conf"}},
                {"name": "unused", "hostPath": {"path": "/unused"}}, {"name": "own", "emptyDir": {}},
            ],
            "initContainers": [
                {"name": "init", "volumeMounts": [{"name": "unused", "mountPath": "/u"}]},
                {"name": "side", "restartPolicy": "Always", "volumeMounts": [{"name": "ssl", "mountPath": "/s", "subPath": "live"}]},
            ],
            "containers": [
                {"name": "a", "volumeMounts": [{"name": "ssl", "mountPath": "/ssl"}, {"name": "own", "mountPath": "/own"}]},
                {"name": "b", "volumeMounts": [{"name": "one", "mountPath": "/one"}]},
            ],
        });
        let annotations = [(WATCH_FILES, files), (ON_CHANGE, on_change)];
        let annotations =
            annotations.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
        let metadata = ObjectMeta { annotations: Some(annotations.collect()), ..ObjectMeta::default() };
        let found = watched_files(&metadata, &serde_json::from_value(spec).unwrap());
        found.map_err(|findings| findings.iter().map(|finding| finding.reason.clone()).collect())
    }

    #[test]
    fn who_mounts_what() {
        let found =
            watched(Some("/etc/ssl/a.crt, /etc/ssl/live/b.crt,/srv/one.conf"), None).unwrap().unwrap();
        assert_eq!(found.on_change, OnChange::Restart);
        let found: Vec<_> = found
            .files
            .iter()
            .map(|file| {
                (file.path.to_str().unwrap(), file.containers.iter().map(String::as_str).collect::<Vec<_>>())
            })
            .collect();
        let expect = [
            ("/etc/ssl/a.crt", vec!["a"]),
            ("/etc/ssl/live/b.crt", vec!["a", "side"]),
            ("/srv/one.conf", vec!["b"]),
        ];
        assert_eq!(found, expect);
        for (text, expect) in [
            ("restart", OnChange::Restart),
            ("signal:HUP", OnChange::Signal(1)),
            ("signal:SIGUSR1", OnChange::Signal(10)),
        ] {
            assert_eq!(watched(Some("/etc/ssl/a"), Some(text)).unwrap().unwrap().on_change, expect, "{text}");
        }
        assert_eq!(watched(None, None), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let rows = [
            (Some("etc/ssl/a"), None, "must be an absolute path"),
            (Some("/etc/ssl/../shadow"), None, "must be an absolute path"),
            (Some(""), None, "must be an absolute path"),
            (Some("/etc/sslx/a"), None, "lies in no hostPath"),
            (Some("/unused/a"), None, "lies in no hostPath"),
            (Some("/etc/ssl/a"), Some("signal:NONE"), "is neither restart nor signal"),
            (Some("/etc/ssl/a"), Some("reload"), "is neither restart nor signal"),
            (None, Some("restart"), "needs rkubelet.dev/watch-files"),
        ];
        for (files, on_change, expect) in rows {
            let found = watched(files, on_change).unwrap_err();
            assert!(found.len() == 1 && found[0].contains(expect), "{files:?} {on_change:?}: {found:?}");
        }
        let many = (0..=MOST).map(|n| format!("/etc/ssl/{n}")).collect::<Vec<_>>().join(",");
        assert_eq!(watched(Some(&many), None).unwrap_err(), ["may have at most 16 paths"]);
    }
}
