//! Which objects a pod refers to, and what it cannot do without.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Volume};

use super::volume_files::check_volume;
use super::{ObjectKey, ObjectKind, PodObjects};
use crate::pod::env::{env_from, object_variable};
use crate::pod::{Pod, annotations};

/// Every object that a pod refers to. Volumes that no container mounts do not count.
pub(crate) fn references(pod: &Pod) -> BTreeSet<ObjectKey> {
    let mut all: BTreeSet<ObjectKey> = pull_secrets(pod).collect();
    let namespace = &pod.name.namespace;
    let mut add = |kind, name: &str| {
        all.insert(ObjectKey::new(kind, namespace, name));
    };
    for volume in mounted_volumes(pod) {
        volume_references(volume).into_iter().for_each(|(kind, name)| add(kind, name));
    }
    for (_, container) in pod.containers() {
        for source in container.env_from.iter().flatten() {
            source.config_map_ref.iter().for_each(|reference| add(ObjectKind::ConfigMap, &reference.name));
            source.secret_ref.iter().for_each(|reference| add(ObjectKind::Secret, &reference.name));
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            let (kind, name, ..) = match variable_reference(source) {
                Some(reference) => reference,
                None => continue,
            };
            add(kind, name);
        }
    }
    all
}

/// The Secrets that `imagePullSecrets` names. An entry without a name means nothing.
pub(super) fn pull_secrets(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let names = pod.spec.image_pull_secrets.iter().flatten().map(|reference| &reference.name);
    let named = names.filter(|name| !name.is_empty());
    named.map(|name| ObjectKey::new(ObjectKind::Secret, &pod.name.namespace, name))
}

/// The volumes that a container mounts.
pub(crate) fn mounted_volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let mounts = pod.containers().flat_map(|(_, container)| container.volume_mounts.iter().flatten());
    let names: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
    pod.spec.volumes.iter().flatten().filter(move |volume| names.contains(volume.name.as_str()))
}

fn volume_references(volume: &Volume) -> Vec<(ObjectKind, &str)> {
    let mut all = Vec::new();
    let config_map = volume.config_map.as_ref().map(|source| source.name.as_str());
    let secret = volume.secret.as_ref().and_then(|source| source.secret_name.as_deref());
    all.extend(config_map.map(|name| (ObjectKind::ConfigMap, name)));
    all.extend(secret.map(|name| (ObjectKind::Secret, name)));
    for source in volume.projected.iter().flat_map(|projected| &projected.sources).flatten() {
        all.extend(source.config_map.as_ref().map(|source| (ObjectKind::ConfigMap, source.name.as_str())));
        all.extend(source.secret.as_ref().map(|source| (ObjectKind::Secret, source.name.as_str())));
    }
    all
}

/// The object and the key in it that a variable refers to, and whether it may be missing.
pub(crate) fn variable_reference(source: &EnvVarSource) -> Option<(ObjectKind, &str, &str, bool)> {
    if let Some(reference) = &source.config_map_key_ref {
        let optional = reference.optional == Some(true);
        return Some((ObjectKind::ConfigMap, &reference.name, &reference.key, optional));
    }
    let reference = source.secret_key_ref.as_ref()?;
    Some((ObjectKind::Secret, &reference.name, &reference.key, reference.optional == Some(true)))
}

/// The pod asks to be replaced when an object changes that it refers to.
pub(crate) fn restarts_on_change(pod: &Pod) -> bool {
    annotations::is_true(&pod.metadata, annotations::RESTART_ON_CHANGE)
}

impl PodObjects {
    /// Why the volumes of a pod cannot be made, if objects or keys are missing.
    pub(crate) fn lacking_volume(&self, pod: &Pod) -> Option<String> {
        mounted_volumes(pod).find_map(|volume| {
            let reason = check_volume(volume, &pod.name.namespace, self).err()?;
            Some(format!("MountVolume.SetUp failed for volume {:?}: {reason}", volume.name))
        })
    }

    /// Why a container has no environment, if objects or keys are missing.
    pub(crate) fn lacking_env(&self, namespace: &str, container: &Container) -> Option<String> {
        let from = env_from(container, namespace, self).err();
        let variables = container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
        from.or_else(|| {
            variables
                .filter_map(variable_reference)
                .find_map(|reference| object_variable(reference, namespace, self).err())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::object::testing::{object, objects};
    use crate::pod::testing::pod;

    fn pod_of(spec: Value) -> Pod {
        let mut pod = pod("p", "u");
        let mut whole = serde_json::to_value(&pod.spec).unwrap();
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        pod.spec = serde_json::from_value(whole).unwrap();
        pod
    }

    #[test]
    fn every_kind_of_reference_is_found() {
        let mounted = |volume: Value| {
            let mount = json!([{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]);
            json!({"containers": mount, "volumes": [volume]})
        };
        let from = |source: Value| json!({"containers": [{"name": "c", "envFrom": [source]}]});
        let variable = |source: Value| json!({"containers": [{"name": "c", "env": [{"name": "V", "valueFrom": source}]}]});
        let reference = json!({"name": "x", "key": "k"});
        let rows = [
            (json!({}), &[][..]),
            (json!({"imagePullSecrets": [{"name": "x"}, {"name": ""}]}), &["Secret default/x"]),
            (mounted(json!({"name": "v", "configMap": {"name": "x"}})), &["ConfigMap default/x"]),
            (mounted(json!({"name": "v", "secret": {"secretName": "x"}})), &["Secret default/x"]),
            (mounted(json!({"name": "unmounted", "secret": {"secretName": "x"}})), &[]),
            (
                mounted(json!({"name": "v", "projected": {"sources": [
                    {"secret": {"name": "x"}}, {"configMap": {"name": "y"}}, {"downwardAPI": {}}]}})),
                &["ConfigMap default/y", "Secret default/x"],
            ),
            (from(json!({"configMapRef": {"name": "x"}})), &["ConfigMap default/x"]),
            (from(json!({"secretRef": {"name": "x", "optional": true}})), &["Secret default/x"]),
            (variable(json!({"configMapKeyRef": reference})), &["ConfigMap default/x"]),
            (variable(json!({"secretKeyRef": reference})), &["Secret default/x"]),
            (
                json!({"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]}),
                &["Secret default/x"],
            ),
        ];
        for (spec, want) in rows {
            let found: Vec<_> = references(&pod_of(spec.clone())).iter().map(ToString::to_string).collect();
            assert_eq!(found, want, "{spec}");
        }
    }

    #[test]
    fn what_is_missing_is_said_unless_it_is_optional() {
        let volume = |source: Value| {
            let mounts = json!([{"name": "v", "mountPath": "/v"}]);
            json!({"containers": [{"name": "c", "volumeMounts": mounts}], "volumes": [source]})
        };
        let there = objects(&[object(ObjectKind::ConfigMap, "here", &[("k", "1")])]);
        let items = json!([{"key": "other", "path": "p"}]);
        let rows = [
            (json!({"name": "v", "configMap": {"name": "here"}}), None),
            (
                json!({"name": "v", "configMap": {"name": "gone"}}),
                Some(
                    "MountVolume.SetUp failed for volume \"v\": configmap \"gone\" not found in namespace \"default\": looked for in /etc/manifests",
                ),
            ),
            (json!({"name": "v", "configMap": {"name": "gone", "optional": true}}), None),
            (
                json!({"name": "v", "configMap": {"name": "here", "items": items}}),
                Some("MountVolume.SetUp failed for volume \"v\": configmap \"here\" has no key \"other\""),
            ),
            (json!({"name": "v", "configMap": {"name": "here", "items": items, "optional": true}}), None),
            (
                json!({"name": "v", "projected": {"sources": [{"secret": {"name": "here"}}]}}),
                Some(
                    "MountVolume.SetUp failed for volume \"v\": secret \"here\" not found in namespace \"default\": looked for in /etc/manifests",
                ),
            ),
        ];
        for (source, want) in rows {
            assert_eq!(there.lacking_volume(&pod_of(volume(source.clone()))).as_deref(), want, "{source}");
        }
        let missing = "couldn't find key \"other\" in ConfigMap default/here";
        let rows = [
            (json!({"envFrom": [{"configMapRef": {"name": "here"}}]}), None),
            (json!({"envFrom": [{"secretRef": {"name": "here"}}]}), Some("secret \"here\" not found")),
            (json!({"envFrom": [{"secretRef": {"name": "here", "optional": true}}]}), None),
            (
                json!({"env": [{"name": "V", "valueFrom": {"configMapKeyRef": {"name": "here", "key": "k"}}}]}),
                None,
            ),
            (
                json!({"env": [{"name": "V", "valueFrom": {"configMapKeyRef": {"name": "here", "key": "other"}}}]}),
                Some(missing),
            ),
            (
                json!({"env": [{"name": "V", "valueFrom": {"configMapKeyRef": {"name": "here", "key": "other", "optional": true}}}]}),
                None,
            ),
            (
                json!({"env": [{"name": "V", "valueFrom": {"secretKeyRef": {"name": "no", "key": "other"}}}]}),
                Some("secret \"no\" not found"),
            ),
        ];
        for (mut container, want) in rows {
            container["name"] = "c".into();
            let container: Container = serde_json::from_value(container).unwrap();
            let lack = there.lacking_env("default", &container);
            assert_eq!(lack.is_some(), want.is_some(), "{lack:?}");
            assert!(lack.unwrap_or_default().starts_with(want.unwrap_or_default()), "{want:?}");
        }
    }
}
