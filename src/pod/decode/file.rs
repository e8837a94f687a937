//! From the text of a manifest file to what it holds: one pod, ConfigMaps and Secrets, or the reasons why not.
//!
//! A file is taken as a whole or not at all: an edit of a pod and of its ConfigMap in one file takes effect together.

use super::list::{ItemPath, ListContents, ObjectItem, decode_documents};
use super::{Decoded, Origin, decode_single, parse_manifest};
use crate::pod::finding::{Finding, Refusal};
use crate::pod::object::Subject;
use crate::pod::object::decode::{DecodedObject, doubled};
use crate::text::yaml::Document;

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecodedFile {
    /// Its pod, if it has one.
    pub(crate) pod: Option<(ItemPath, Decoded)>,
    /// Its ConfigMaps and Secrets.
    pub(crate) objects: Vec<(ItemPath, DecodedObject)>,
}

impl DecodedFile {
    /// Every document's place, what it describes, and what its author should know, in their order.
    pub(crate) fn subjects(&self) -> Vec<(ItemPath, Subject, Vec<Finding>)> {
        let pod = self
            .pod
            .iter()
            .map(|(path, decoded)| (*path, Subject::Pod(decoded.pod.name.clone()), decoded.warnings.clone()));
        let objects = self.objects.iter().map(|(path, decoded)| {
            (*path, Subject::Object(decoded.object.key.clone()), decoded.warnings.clone())
        });
        let mut all: Vec<_> = pod.chain(objects).collect();
        all.sort_by_key(|(path, ..)| *path);
        all
    }
}

/// Decodes a file.
///
/// # Errors
/// When any part of it is at fault, or it holds more than one pod.
pub(crate) fn decode_file(bytes: &[u8], origin: &Origin<'_>) -> Result<DecodedFile, Refusal> {
    let (text, documents) = parse_manifest(bytes)?;
    if origin.kubelet_strict || is_plain(&documents) {
        let path = ItemPath { document: None, item: None };
        let pod = Some((path, decode_single(text, &documents, origin)?));
        return Ok(DecodedFile { pod, objects: Vec::new() });
    }
    let ListContents { pods, objects } = decode_documents(text, documents, origin)?;
    let (mut good, mut problems, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let mut refuse = |path: ItemPath, refusal: Refusal| {
        problems.extend(refusal.problems().map(|finding| placed(path, finding)));
        warnings.extend(refusal.warnings.iter().map(|finding| placed(path, finding)));
    };
    for item in pods {
        match item.decoded {
            Ok(decoded) => good.push((item.path, decoded)),
            Err(refusal) => refuse(item.path, refusal),
        }
    }
    let mut decoded_objects = Vec::new();
    for ObjectItem { path, decoded, .. } in objects {
        match decoded {
            Ok(decoded) => decoded_objects.push((path, decoded)),
            Err(refusal) => refuse(path, refusal),
        }
    }
    if let Some(refusal) = Refusal::from_findings(problems) {
        return Err(refusal.with_warnings(warnings));
    }
    if good.len() > 1 {
        let reason =
            format!("holds {} pods; a file may hold one, and ConfigMaps and Secrets beside it", good.len());
        return Err(Finding::whole(reason).into());
    }
    if good.is_empty() && decoded_objects.is_empty() {
        return Err(Finding::whole("holds no pod, ConfigMap or Secret").into());
    }
    if let Some(key) = doubled(decoded_objects.iter().map(|(_, decoded)| &decoded.object.key)) {
        return Err(Finding::new("metadata.name", format!("{key} is in the file twice")).into());
    }
    Ok(DecodedFile { pod: good.pop(), objects: decoded_objects })
}

/// There is no object and no list in it, and one document at the most: what is said about it is about a pod.
fn is_plain(documents: &[Document]) -> bool {
    let lists = ["List", "PodList", "ConfigMapList", "SecretList", "ConfigMap", "Secret"];
    match documents {
        [] => true,
        [document] => document.value["kind"].as_str().is_none_or(|kind| !lists.contains(&kind)),
        _ => false,
    }
}

/// What is said about a part, as said about the file.
fn placed(path: ItemPath, finding: &Finding) -> Finding {
    let mut placed = finding.clone();
    if let Some(item) = path.item {
        let dot = if finding.field.is_empty() { "" } else { "." };
        placed.field = format!("items[{item}]{dot}{}", finding.field);
    }
    if let Some(document) = path.document {
        placed.reason = format!("document {document}: {}", finding.reason);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Source;

    const POD: &str =
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}";

    fn decode(text: &str, kubelet_strict: bool) -> Result<String, String> {
        let seen = jiff::Timestamp::UNIX_EPOCH;
        let (source, path) = (Source::File, "/m/a.yaml");
        let origin = Origin { node_name: "n", source, path, seen, strict: false, kubelet_strict };
        let file = decode_file(text.as_bytes(), &origin).map_err(|refusal| refusal.to_string())?;
        let shown = file.subjects().into_iter().map(|(path, subject, warnings)| {
            let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
            format!("[{path}] {subject} {}", warnings.join(" ")).trim_end().to_owned()
        });
        Ok(shown.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn what_a_file_may_hold() {
        let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {a: x}}";
        let secret = "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: hunter2}}";
        let bad = "{apiVersion: v1, kind: Secret, metadata: {name: b}, stringData: {../x: hunter2}}";
        let list = |items: &str| format!("{{apiVersion: v1, kind: List, items: [{items}]}}");
        let rows = [
            (POD.to_owned(), Ok("[] default/p-n")),
            (map.to_owned(), Ok("[] ConfigMap default/m")),
            (
                format!("{map}\n---\n{POD}\n---\n{secret}\n"),
                Ok(
                    "[document 1] ConfigMap default/m; [document 2] default/p-n; [document 3] Secret default/s",
                ),
            ),
            (list(&format!("{POD}, {secret}")), Ok("[items[0]] default/p-n; [items[1]] Secret default/s")),
            (
                format!("---\n{}\n---\n{POD}", list(map)),
                Ok("[document 1 items[0]] ConfigMap default/m; [document 2] default/p-n"),
            ),
            (
                "{apiVersion: v1, kind: SecretList, items: [{metadata: {name: s}}]}".to_owned(),
                Ok("[items[0]] Secret default/s"),
            ),
            (
                map.replace(", data", ", dta"),
                Ok("[] ConfigMap default/m dta: unknown field, did you mean \"data\"?"),
            ),
            (
                format!("{POD}\n---\n{POD}"),
                Err("holds 2 pods; a file may hold one, and ConfigMaps and Secrets beside it"),
            ),
            (list(""), Err("holds no pod, ConfigMap or Secret")),
            (String::new(), Err("holds no pod: it is empty or has only comments")),
            (format!("{map}\n---\n{map}"), Err("metadata.name: ConfigMap default/m is in the file twice")),
            (
                format!("{POD}\n---\n{bad}"),
                Err(
                    "stringData[../x]: document 2: \"../x\" is not a key: letters, digits, '-', '_' and '.' are allowed",
                ),
            ),
            (
                list(bad),
                Err(
                    "items[0].stringData[../x]: \"../x\" is not a key: letters, digits, '-', '_' and '.' are allowed",
                ),
            ),
            (
                format!("{map}\n---\n{{apiVersion: v1, kind: Service}}"),
                Err("kind: document 2: \"Service\" is not Pod, ConfigMap or Secret"),
            ),
            (
                "{apiVersion: v1, kind: Service}".to_owned(),
                Err("kind: \"Service\" is not Pod, ConfigMap or Secret"),
            ),
        ];
        for (text, want) in rows {
            let found = decode(&text, false);
            assert_eq!(found.as_deref().map_err(String::as_str), want, "{text}");
        }
        for text in [map.to_owned(), list(map), format!("{POD}\n---\n{map}")] {
            let refused = decode(&text, true).unwrap_err();
            assert!(refused.contains("is not Pod") || refused.contains("a manifest is one Pod"), "{refused}");
        }
    }

    #[test]
    fn no_error_of_the_syntax_holds_a_value() {
        let values = [
            "*hunter2",
            "\"hunter2",
            "!hunter2 x",
            "&hunter2 [",
            "'hunter2",
            "\"\\hunter2\"",
            "{hunter2",
            "| hunter2",
        ];
        for value in values {
            let text = format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData:\n  password: {value}\n"
            );
            let found = decode(&text, false);
            assert!(!format!("{found:?}").contains("hunter2"), "{value}: {found:?}");
        }
    }
}
