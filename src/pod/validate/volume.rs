//! Volumes: unique names, one source each, host paths without `..`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, Volume};
use serde_json::Value;

use super::findings::Findings;
use super::names;
use crate::pod::quantity::Amount;
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

/// The names of the sources that a volume has, from its JSON, where each has the name that users write.
fn sources(volume: &Volume) -> Vec<String> {
    match serde_json::to_value(volume) {
        Ok(Value::Object(map)) => map.into_iter().map(|(key, _)| key).filter(|key| key != "name").collect(),
        _ => Vec::new(),
    }
}

/// The reason why a path with `..` is not allowed, if it is one.
pub(super) fn backwards(path: &str) -> Option<String> {
    path.split('/').any(|part| part == "..").then(|| format!("{} must not contain '..'", quoted(path)))
}
