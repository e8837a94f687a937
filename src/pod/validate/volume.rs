//! Volumes: unique names, one source each, paths without `..`, files that can be made.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, PodSpec, ProjectedVolumeSource, Volume};
use serde_json::Value;

use super::findings::Findings;
use super::names;
use super::objects::{validate_projected_objects, validate_volume_source};
use crate::pod::downward_api::is_volume_field;
use crate::pod::quantity::Amount;
use crate::pod::resource_field::wrong_reference;
use crate::text::excerpt::quoted;

const HOST_PATH_TYPES: [&str; 7] =
    ["DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

/// Validates the volumes and gives their names.
pub(super) fn validate_volumes(spec: &PodSpec, findings: &mut Findings) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = format!("spec.volumes[{index}]");
        findings.check(format_args!("{path}.name"), names::not_label(&volume.name));
        if !seen.insert(volume.name.clone()) {
            findings.add(format_args!("{path}.name"), format!("{} is used twice", quoted(&volume.name)));
        }
        validate_volume(volume, &path, findings);
    }
    seen
}

fn validate_volume(volume: &Volume, path: &str, findings: &mut Findings) {
    let sources = sources(volume);
    if sources.len() > 1 {
        findings.add(path, format!("may have one source, has {}", sources.join(", ")));
    }
    if let Some(host_path) = &volume.host_path {
        let field = format!("{path}.hostPath.path");
        if host_path.path.is_empty() {
            findings.add(field, "must not be empty");
        } else {
            findings.check(field, backwards(&host_path.path));
        }
        findings.one_of(format_args!("{path}.hostPath.type"), host_path.type_.as_deref(), &HOST_PATH_TYPES);
    }
    if let Some(downward) = &volume.downward_api {
        validate_mode(downward.default_mode, &format!("{path}.downwardAPI.defaultMode"), findings);
        let items = downward.items.as_deref().unwrap_or_default();
        validate_items(items, &format!("{path}.downwardAPI"), None, findings);
    }
    validate_volume_source(volume, path, findings);
    if let Some(projected) = &volume.projected {
        validate_projected(projected, &format!("{path}.projected"), findings);
    }
    if let Some(image) = &volume.image {
        let reference = image.reference.as_deref().unwrap_or_default();
        if reference.is_empty() {
            findings.add(format_args!("{path}.image.reference"), "must not be empty");
        }
        let policies = ["Always", "IfNotPresent", "Never"];
        findings.one_of(format_args!("{path}.image.pullPolicy"), image.pull_policy.as_deref(), &policies);
    }
    if let Some(nfs) = &volume.nfs {
        // The program would take it for an option.
        if nfs.server.is_empty() || nfs.server.starts_with('-') {
            findings.add(format_args!("{path}.nfs.server"), "must be the name or the address of a server");
        }
        if !nfs.path.starts_with('/') {
            findings.add(format_args!("{path}.nfs.path"), "must be an absolute path");
        }
    }
    if let Some(empty_dir) = &volume.empty_dir {
        let medium = empty_dir.medium.as_deref().unwrap_or_default();
        if !matches!(medium, "" | "Memory" | "HugePages") && !medium.starts_with("HugePages-") {
            findings.add(
                format_args!("{path}.emptyDir.medium"),
                format!("{} is not a known medium", quoted(medium)),
            );
        }
        let limit = empty_dir.size_limit.as_ref().map(|limit| Amount::parse(&limit.0));
        let reason = match limit {
            Some(Err(error)) => Some(error.to_string()),
            Some(Ok(amount)) if amount.is_negative() => Some("must not be negative".to_owned()),
            _ => None,
        };
        findings.check(format_args!("{path}.emptyDir.sizeLimit"), reason);
    }
}

/// The files of a volume that are made from the pod; `seen` has the paths so far, where they may be used once.
fn validate_items(
    items: &[DownwardAPIVolumeFile],
    path: &str,
    mut seen: Option<&mut BTreeSet<String>>,
    findings: &mut Findings,
) {
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}.items[{index}]");
        let field = format!("{path}.path");
        let mut twice = || seen.as_mut().is_some_and(|seen| !seen.insert(item.path.clone()));
        let reason = not_relative(&item.path)
            .or_else(|| twice().then(|| format!("{} is used twice", quoted(&item.path))));
        findings.check(field, reason);
        validate_mode(item.mode, &format!("{path}.mode"), findings);
        match (&item.field_ref, &item.resource_field_ref) {
            (Some(_), Some(_)) => findings.add(&path, "may have one of fieldRef and resourceFieldRef only"),
            (None, None) => {
                findings
                    .add(format_args!("{path}.fieldRef"), "one of fieldRef and resourceFieldRef is needed");
            }
            (Some(reference), None) => {
                let version = reference.api_version.as_deref();
                findings.one_of(format_args!("{path}.fieldRef.apiVersion"), version, &["v1"]);
                if !is_volume_field(&reference.field_path) {
                    let reason =
                        format!("{} is not a field that a file can have", quoted(&reference.field_path));
                    findings.add(format_args!("{path}.fieldRef.fieldPath"), reason);
                }
            }
            (None, Some(reference)) => {
                if reference.container_name.as_deref().is_none_or(str::is_empty) {
                    findings.add(format_args!("{path}.resourceFieldRef.containerName"), "must not be empty");
                }
                if let Some((field, reason)) = wrong_reference(reference) {
                    findings.add(format_args!("{path}.resourceFieldRef.{field}"), reason);
                }
            }
        }
    }
}

/// A mode of files has nine bits.
pub(super) fn validate_mode(mode: Option<i32>, field: &str, findings: &mut Findings) {
    if mode.is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        findings.add(field, "must be a mode between 0 and 0777 (octal)");
    }
}

fn validate_projected(projected: &ProjectedVolumeSource, path: &str, findings: &mut Findings) {
    validate_mode(projected.default_mode, &format!("{path}.defaultMode"), findings);
    let mut seen = BTreeSet::new();
    for (index, source) in projected.sources.iter().flatten().enumerate() {
        let path = format!("{path}.sources[{index}]");
        let kinds = [
            source.cluster_trust_bundle.is_some(),
            source.config_map.is_some(),
            source.downward_api.is_some(),
            source.pod_certificate.is_some(),
            source.secret.is_some(),
            source.service_account_token.is_some(),
        ];
        if kinds.iter().filter(|present| **present).count() > 1 {
            findings.add(&path, "may have one source only");
        }
        if let Some(downward) = &source.downward_api {
            let items = downward.items.as_deref().unwrap_or_default();
            validate_items(items, &format!("{path}.downwardAPI"), Some(&mut seen), findings);
        }
    }
    validate_projected_objects(projected, path, &mut seen, findings);
}

/// The names of the sources that a volume has, from its JSON, where each has the name that users write.
fn sources(volume: &Volume) -> Vec<String> {
    match serde_json::to_value(volume) {
        Ok(Value::Object(map)) => map.into_iter().map(|(key, _)| key).filter(|key| key != "name").collect(),
        _ => Vec::new(),
    }
}

/// The reason why a path does not lie in a volume, if it does not.
pub(super) fn not_relative(path: &str) -> Option<String> {
    if path.is_empty() {
        Some("must not be empty".to_owned())
    } else if path.starts_with('/') {
        Some(format!("{} must be relative", quoted(path)))
    } else if path.starts_with("..") {
        Some(format!("{} must not begin with '..'", quoted(path)))
    } else {
        backwards(path)
    }
}

/// The reason why a path with `..` is not allowed, if it is one.
pub(super) fn backwards(path: &str) -> Option<String> {
    path.split('/').any(|part| part == "..").then(|| format!("{} must not contain '..'", quoted(path)))
}
