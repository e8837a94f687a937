//! The files of volumes that are made from the pod: names, contents and modes. Pure.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::DownwardAPIVolumeFile;

use super::field_ref::{resolve_field, subscript};
use super::resource_field::{NodeCapacity, resolve_resource};
use super::{Pod, finding::Finding};
use crate::text::excerpt::quoted;

/// A file of a volume. Its `Debug` text does not tell what is in it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ProjectedFile {
    /// What is in it.
    pub(crate) contents: Vec<u8>,
    /// Its mode.
    pub(crate) mode: u32,
}

impl fmt::Debug for ProjectedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, mode {:o}", self.contents.len(), self.mode)
    }
}

/// The files of a volume by their path in it.
pub(crate) type ProjectedFiles = BTreeMap<String, ProjectedFile>;

/// The mode of files for which none is written.
pub(crate) const DEFAULT_MODE: i32 = 0o644;

/// Whether a file may be made from this field.
pub(crate) fn is_volume_field(path: &str) -> bool {
    if let Some((map, key)) = subscript(path) {
        return !key.is_empty() && matches!(map, "metadata.labels" | "metadata.annotations");
    }
    matches!(
        path,
        "metadata.name" | "metadata.namespace" | "metadata.uid" | "metadata.labels" | "metadata.annotations"
    )
}

/// The files that are made from the pod.
///
/// # Errors
/// For an item that has no value.
pub(crate) fn downward_files(
    pod: &Pod,
    items: &[DownwardAPIVolumeFile],
    default_mode: Option<i32>,
    node: &NodeCapacity,
) -> Result<ProjectedFiles, Finding> {
    let default_mode = default_mode.unwrap_or(DEFAULT_MODE);
    items
        .iter()
        .map(|item| {
            let contents = contents(pod, item, node)?.into_bytes();
            let mode = mode_bits(item.mode.unwrap_or(default_mode));
            Ok((item.path.clone(), ProjectedFile { contents, mode }))
        })
        .collect()
}

/// A mode of the manifest as a mode of a file.
pub(crate) fn mode_bits(mode: i32) -> u32 {
    u32::try_from(mode).unwrap_or(0) & 0o777
}

fn contents(pod: &Pod, item: &DownwardAPIVolumeFile, node: &NodeCapacity) -> Result<String, Finding> {
    if let Some(reference) = &item.field_ref {
        let value = match reference.field_path.as_str() {
            "metadata.labels" => Some(map_text(pod.metadata.labels.as_ref())),
            "metadata.annotations" => Some(map_text(pod.metadata.annotations.as_ref())),
            path if is_volume_field(path) => resolve_field(pod, path, &[], &[]),
            _ => None,
        };
        return value.ok_or_else(|| {
            let reason = format!("{} has no value", quoted(&reference.field_path));
            Finding::new("fieldRef.fieldPath", reason)
        });
    }
    match &item.resource_field_ref {
        Some(reference) => resolve_resource(pod, None, reference, node),
        None => Err(Finding::new(item.path.clone(), "has neither fieldRef nor resourceFieldRef")),
    }
}

/// Labels or annotations as a text: `key="value"`, one to a line, sorted by key.
fn map_text(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", go_quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// A text in quotes, as Go's `%q` writes it.
fn go_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c == '\u{7f}' => out.push_str(&format!("\\x{:02x}", c as u32)),
            // Go's other characters that do not print: controls, separators, marks without a glyph.
            c if is_unprintable(c) && (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if is_unprintable(c) => out.push_str(&format!("\\U{:08x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn is_unprintable(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(
            c,
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e000}'..='\u{f8ff}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use k8s_openapi::api::core::v1::Volume;

    use super::*;
    use crate::pod::object::PodObjects;
    use crate::pod::object::volume_files::volume_files;
    use crate::pod::quantity::Amount;
    use crate::pod::testing::pod;

    const NODE: NodeCapacity =
        NodeCapacity { cpu: Amount::ZERO, memory: Amount::ZERO, ephemeral_storage: Amount::ZERO };

    fn of(volume: Value) -> Result<Vec<(String, String, u32)>, String> {
        let mut pod = pod("web-n", "u");
        pod.metadata.labels = Some([("b".into(), "2".into()), ("a".into(), "say \"1\"\n".into())].into());
        pod.metadata.annotations = Some([("note".into(), "hello".into())].into());
        let volume: Volume = serde_json::from_value(volume).unwrap();
        let files = volume_files(&pod, &volume, &PodObjects::default(), &NODE).unwrap()?;
        let text = |file: &ProjectedFile| String::from_utf8(file.contents.clone()).unwrap();
        Ok(files.iter().map(|(path, file)| (path.clone(), text(file), file.mode)).collect())
    }

    #[test]
    fn files_with_their_modes() {
        let field = |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
        let mut odd = field("d/name", "metadata.name");
        odd["mode"] = json!(0o400);
        let items = json!([
            odd,
            field("labels", "metadata.labels"),
            field("annotations", "metadata.annotations"),
            field("one", "metadata.labels['b']"),
            field("none", "metadata.labels['x']"),
            field("uid", "metadata.uid"),
            {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "requests.cpu"}},
        ]);
        let expect = [
            ("annotations", "note=\"hello\"", 0o640),
            ("cpu", "0", 0o640),
            ("d/name", "web-n", 0o400),
            ("labels", "a=\"say \\\"1\\\"\\n\"\nb=\"2\"", 0o640),
            ("none", "", 0o640),
            ("one", "2", 0o640),
            ("uid", "u", 0o640),
        ]
        .map(|(path, text, mode)| (path.to_owned(), text.to_owned(), mode));
        let plain = json!({"name": "v", "downwardAPI": {"items": items, "defaultMode": 0o640}});
        assert_eq!(of(plain).unwrap(), expect);
        let sources = json!([{"downwardAPI": {"items": items}}]);
        let projected = json!({"name": "v", "projected": {"sources": sources, "defaultMode": 0o640}});
        assert_eq!(of(projected).unwrap(), expect);
        assert_eq!(of(json!({"name": "v", "downwardAPI": {}})).unwrap(), []);
    }

    #[test]
    fn what_has_no_value_is_named() {
        let rows = [
            (
                json!({"path": "p", "fieldRef": {"fieldPath": "status.podIP"}}),
                "fieldRef.fieldPath: \"status.podIP\" has no value",
            ),
            (
                json!({"path": "p", "resourceFieldRef": {"containerName": "x", "resource": "limits.cpu"}}),
                "resourceFieldRef.containerName: there is no container \"x\"",
            ),
            (json!({"path": "p"}), "p: has neither fieldRef nor resourceFieldRef"),
        ];
        for (item, expect) in rows {
            let volume = json!({"name": "v", "downwardAPI": {"items": [item]}});
            assert_eq!(of(volume), Err(expect.to_owned()));
        }
    }

    #[test]
    fn texts_are_quoted_as_go_does() {
        let rows = [
            ("plain", r#""plain""#),
            ("tab\tbell\u{7}", r#""tab\tbell\a""#),
            ("\u{1}\u{7f}", r#""\x01\x7f""#),
            ("ü€😀", r#""ü€😀""#),
            ("\u{2028}\u{a0}", r#""\u2028\u00a0""#),
            ("a\\b", r#""a\\b""#),
        ];
        for (text, expect) in rows {
            assert_eq!(go_quoted(text), expect);
        }
    }
}
