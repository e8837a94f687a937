//! References to ConfigMaps and Secrets: names, keys, and the files that they are to become.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EnvVarSource, KeyToPath, ProjectedVolumeSource, Volume};

use super::findings::Findings;
use super::names;
use super::volume::{not_relative, validate_mode};
use crate::pod::object::decode::not_key;
use crate::text::excerpt::quoted;

/// Validates the `envFrom` of a container.
pub(super) fn validate_env_from(container: &Container, path: &str, findings: &mut Findings) {
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        let path = format!("{path}.envFrom[{index}]");
        if let Some(prefix) = source.prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
            findings.check(format_args!("{path}.prefix"), names::not_env_name(prefix));
        }
        match (&source.config_map_ref, &source.secret_ref) {
            (Some(_), Some(_)) => findings.add(&path, "may have one source only"),
            (None, None) => findings.add(&path, "must have a source, configMapRef or secretRef"),
            (Some(reference), None) => {
                findings
                    .check(format_args!("{path}.configMapRef.name"), names::not_subdomain(&reference.name));
            }
            (None, Some(reference)) => {
                findings.check(format_args!("{path}.secretRef.name"), names::not_subdomain(&reference.name));
            }
        }
    }
}

/// Validates what a variable refers to, if that is an object.
pub(super) fn validate_variable_source(source: &EnvVarSource, path: &str, findings: &mut Findings) {
    let config_map = source.config_map_key_ref.as_ref().map(|r| ("configMapKeyRef", &r.name, &r.key));
    let secret = source.secret_key_ref.as_ref().map(|r| ("secretKeyRef", &r.name, &r.key));
    for (field, name, key) in config_map.into_iter().chain(secret) {
        findings.check(format_args!("{path}.{field}.name"), names::not_subdomain(name));
        findings.check(format_args!("{path}.{field}.key"), not_key(key));
    }
}

/// Validates a volume that is made of one object.
pub(super) fn validate_volume_source(volume: &Volume, path: &str, findings: &mut Findings) {
    let required = |name: &str| name.is_empty().then(|| "must not be empty".to_owned());
    if let Some(source) = &volume.config_map {
        let path = format!("{path}.configMap");
        findings.check(format_args!("{path}.name"), required(&source.name));
        validate_mode(source.default_mode, &format!("{path}.defaultMode"), findings);
        validate_keys(source.items.as_deref(), &path, &mut BTreeSet::new(), findings);
    }
    if let Some(source) = &volume.secret {
        let path = format!("{path}.secret");
        let name = source.secret_name.as_deref().unwrap_or_default();
        findings.check(format_args!("{path}.secretName"), required(name));
        validate_mode(source.default_mode, &format!("{path}.defaultMode"), findings);
        validate_keys(source.items.as_deref(), &path, &mut BTreeSet::new(), findings);
    }
}

/// Validates the objects of a projected volume; `seen` has the paths of its other files.
pub(super) fn validate_projected_objects(
    projected: &ProjectedVolumeSource,
    path: &str,
    seen: &mut BTreeSet<String>,
    findings: &mut Findings,
) {
    for (index, source) in projected.sources.iter().flatten().enumerate() {
        let config_map = source.config_map.as_ref().map(|s| ("configMap", &s.name, s.items.as_deref()));
        let secret = source.secret.as_ref().map(|s| ("secret", &s.name, s.items.as_deref()));
        for (field, name, items) in config_map.into_iter().chain(secret) {
            let path = format!("{path}.sources[{index}].{field}");
            if name.is_empty() {
                findings.add(format_args!("{path}.name"), "must not be empty");
            }
            validate_keys(items, &path, seen, findings);
        }
    }
}

fn validate_keys(
    items: Option<&[KeyToPath]>,
    path: &str,
    seen: &mut BTreeSet<String>,
    findings: &mut Findings,
) {
    for (index, item) in items.into_iter().flatten().enumerate() {
        let path = format!("{path}.items[{index}]");
        if item.key.is_empty() {
            findings.add(format_args!("{path}.key"), "must not be empty");
        }
        let twice = || {
            let is_new = seen.insert(item.path.clone());
            (!is_new).then(|| format!("{} is used twice", quoted(&item.path)))
        };
        findings.check(format_args!("{path}.path"), not_relative(&item.path).or_else(twice));
        validate_mode(item.mode, &format!("{path}.mode"), findings);
    }
}
