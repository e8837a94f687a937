//! Where each setting comes from: the file, a drop-in, a flag, or the default. Nothing is validated as a whole here: a
//! configuration with which the agent would not start is shown, too, as far as it can be read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use super::error::ConfigError;
use super::files::{list_drop_ins, read_text};
use super::flags::Flags;
use super::flags::table::{FLAGS, FlagTarget};
use super::kind::{Effect, Field, ValueKind};
use super::kubelet_configuration::KubeletConfiguration;
use super::kubelet_configuration::fields::FIELDS;

/// A setting, by the dotted path of its field, or by its flag if it has no field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownSetting {
    /// Its name.
    pub(crate) name: String,
    /// Its value; none for a default.
    pub(crate) value: Option<Value>,
    /// `default`, a path, or a flag.
    pub(crate) origin: String,
    /// Whether rkubelet acts on it.
    pub(crate) is_honoured: bool,
}

/// The settings of a command line and the files that it names as they are now, by name.
pub(crate) fn settings(
    arguments: impl Iterator<Item = OsString>,
    working_directory: &Path,
) -> Result<Vec<KnownSetting>, ConfigError> {
    let flags = Flags::parse(arguments, working_directory)?;
    let path_of = |flag: &str| flags.text(flag).map(|path| working_directory.join(path));
    let mut paths: Vec<_> = path_of("config").into_iter().collect();
    if let Some(directory) = path_of("config-dir") {
        paths.extend(list_drop_ins(&directory)?.read);
    }
    let mut merged = KubeletConfiguration::default();
    let mut origins = BTreeMap::new();
    for path in paths {
        let before = merged.clone();
        let text = read_text(&path)?;
        merged.merge_file(&text, &path)?;
        // What this file says again counts as its own, though it changes nothing.
        let mut own = KubeletConfiguration::default();
        own.merge_file(&text, &path)?;
        for name in leaves(FIELDS, "") {
            if own.get(&name).is_some() || before.get(&name) != merged.get(&name) {
                origins.insert(name, path.display().to_string());
            }
        }
    }
    flags.apply_to(&mut merged);
    let mut settings = BTreeMap::new();
    for flag in FLAGS {
        let Some(value) = flags.get(flag.name) else { continue };
        match flag.target {
            FlagTarget::Field(path) => drop(origins.insert(path.to_owned(), format!("--{}", flag.name))),
            FlagTarget::Own(_, effect) => {
                let name = format!("--{}", flag.name);
                let is_honoured = effect == Effect::Honoured;
                let setting = KnownSetting {
                    name: name.clone(),
                    value: Some(value.clone()),
                    origin: "flag".into(),
                    is_honoured,
                };
                settings.insert(name, setting);
            }
        }
    }
    for name in leaves(FIELDS, "") {
        let field = super::kubelet_configuration::field_at(&name);
        let value = merged.get(&name).map(|value| match field.map(|field| field.kind) {
            // They may hold a secret.
            Some(ValueKind::Headers) => "***".into(),
            _ => value.clone(),
        });
        let origin = value.as_ref().and_then(|_| origins.remove(&name));
        let origin = origin.unwrap_or_else(|| "default".to_owned());
        let is_honoured = field.is_some_and(|field| field.effect == Effect::Honoured);
        settings.insert(name.clone(), KnownSetting { name, value, origin, is_honoured });
    }
    Ok(settings.into_values().collect())
}

/// The dotted paths of all fields that hold values.
fn leaves(fields: &'static [Field], prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for field in fields {
        let path = format!("{prefix}{}", field.name);
        match field.kind {
            ValueKind::Object(inner) => found.extend(leaves(inner, &format!("{path}."))),
            _ => found.push(path),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn each_setting_names_who_said_it_last() {
        let dir = tempfile::tempdir().unwrap();
        let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("c.yaml"), format!("{head}maxPods: 1\nhealthzPort: 1\nlogging: {{verbosity: 1}}\nstaticPodURLHeader: {{a: [secret]}}\n")).unwrap();
        fs::write(dir.path().join("d/1.conf"), format!("{head}healthzPort: 2\nreadOnlyPort: 2\n")).unwrap();
        fs::write(dir.path().join("d/2.conf"), format!("{head}readOnlyPort: 3\n")).unwrap();
        let arguments = ["--config=c.yaml", "--config-dir=d", "-v=4", "--strict-manifests", "--max-pods=9"];
        let found = settings(arguments.iter().map(OsString::from), dir.path()).unwrap();
        let at = |path: &str| dir.path().join(path).display().to_string();
        for (name, value, origin, is_honoured) in [
            ("maxPods", Some(json!(9)), "--max-pods".to_owned(), true),
            ("healthzPort", Some(json!(2)), at("d/1.conf"), true),
            ("readOnlyPort", Some(json!(3)), at("d/2.conf"), true),
            ("logging.verbosity", Some(json!(4)), "--v".to_owned(), true),
            ("staticPodURLHeader", Some(json!("***")), at("c.yaml"), true),
            ("--strict-manifests", Some(json!(true)), "flag".to_owned(), true),
            ("syncFrequency", None, "default".to_owned(), true),
        ] {
            let expect = KnownSetting { name: name.to_owned(), value, origin, is_honoured };
            assert_eq!(found.iter().find(|setting| setting.name == name), Some(&expect));
        }
        assert!(settings(["--nonsense"].iter().map(OsString::from), dir.path()).is_err());
    }
}
