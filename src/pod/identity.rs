//! Who a static pod is: its name on this node, its hash and its UID.
//!
//! The hash covers the manifest as written, never a struct with defaults, so that an upgrade of the agent
//! changes no identity. The version tags and the canonical form below are promises: changing them restarts
//! every static pod of every node.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{PodSpec, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::decode::Origin;
use super::id::{ConfigHash, PodName, PodUid, Source};
use super::keys::{CONFIG_HASH, CONFIG_SEEN, CONFIG_SOURCE};

const POD_VERSION: &str = "rkubelet-pod-v1";
const CONTAINER_VERSION: &str = "rkubelet-container-v1";

/// The hash of a manifest as written, its path and the node's name.
pub(crate) fn config_hash(manifest: &Value, node_name: &str, path: &str) -> ConfigHash {
    ConfigHash(digest(&[POD_VERSION, node_name, path, &canonical(manifest)], 16))
}

/// Per container name, init containers included, the hash of the container as written.
pub(crate) fn container_hashes(manifest: &Value) -> BTreeMap<String, String> {
    let mut hashes = BTreeMap::new();
    for list in ["initContainers", "containers"] {
        for container in manifest["spec"][list].as_array().into_iter().flatten() {
            if let Some(name) = container["name"].as_str() {
                hashes.insert(name.to_owned(), digest(&[CONTAINER_VERSION, &canonical(container)], 8));
            }
        }
    }
    hashes
}

/// The name that a static pod has on a node.
pub(crate) fn static_name(name: &str, node_name: &str) -> String {
    format!("{name}-{}", node_name.to_lowercase())
}

/// Gives a pod its static identity: name, namespace, UID, node, annotations, toleration.
pub(crate) fn apply_identity(
    metadata: &mut ObjectMeta,
    spec: &mut PodSpec,
    hash: &ConfigHash,
    origin: &Origin<'_>,
) -> (PodName, PodUid) {
    let uid = metadata.uid.take().filter(|uid| !uid.is_empty()).unwrap_or_else(|| hash.0.clone());
    let name = static_name(metadata.name.as_deref().unwrap_or_default(), origin.node_name);
    let namespace = metadata.namespace.take().filter(|namespace| !namespace.is_empty());
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());

    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_HASH.to_owned(), hash.0.clone());
    annotations.insert(CONFIG_SEEN.to_owned(), origin.seen.to_string());
    annotations.insert(CONFIG_SOURCE.to_owned(), origin.source.as_str().to_owned());

    metadata.uid = Some(uid.clone());
    metadata.name = Some(name.clone());
    metadata.namespace = Some(namespace.clone());
    spec.node_name = Some(origin.node_name.to_owned());
    if origin.source == Source::File {
        tolerate_no_execute(spec);
    }
    (PodName { namespace, name }, PodUid(uid))
}

/// A pod from a file tolerates every NoExecute taint: conditions of the node do not evict it.
fn tolerate_no_execute(spec: &mut PodSpec) {
    let toleration = Toleration {
        effect: Some("NoExecute".to_owned()),
        operator: Some("Exists".to_owned()),
        ..Default::default()
    };
    let tolerations = spec.tolerations.get_or_insert_default();
    let same = |other: &Toleration| Toleration { toleration_seconds: None, ..other.clone() } == toleration;
    match tolerations.iter_mut().find(|other| same(other)) {
        Some(other) => *other = toleration,
        None => {
            tolerations.reserve_exact(1);
            tolerations.push(toleration);
        }
    }
}

/// Hexadecimal digits of the first bytes of SHA-256 over the parts, each with its length before it.
fn digest(parts: &[&str], bytes: usize) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut text = String::with_capacity(bytes * 2);
    for byte in hasher.finalize().iter().take(bytes) {
        let _ = write!(text, "{byte:02x}"); // Writing to a String does not fail.
    }
    text
}

/// JSON without spaces, keys sorted by their bytes, whatever order the map type keeps.
fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            text.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::yaml::parse_documents;

    fn manifest(text: &str) -> Value {
        parse_documents(text).unwrap().remove(0).value
    }

    const WEB: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  initContainers:\n  - {name: setup, image: \"i:1\"}\n  containers:\n  - {name: c, image: \"i:1\", args: [\"ü\\n\", 0644, 1.5, yes, ~]}\n";

    /// If this test fails, do not change the expected values: every static pod would restart on upgrade.
    #[test]
    fn golden_hashes() {
        let web = manifest(WEB);
        assert_eq!(
            canonical(&web),
            "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"web\"},\"spec\":{\"containers\":[{\"args\":[\"ü\\n\",420,1.5,true,null],\"image\":\"i:1\",\"name\":\"c\"}],\"initContainers\":[{\"image\":\"i:1\",\"name\":\"setup\"}]}}"
        );
        let hash = config_hash(&web, "node1", "/etc/kubernetes/manifests/web.yaml");
        assert_eq!(hash.as_str(), "c3bc19f9e827f7fbbe4a75eed2f86587");
        let hashes = container_hashes(&web);
        let hashes: Vec<_> = hashes.iter().map(|(name, hash)| (name.as_str(), hash.as_str())).collect();
        assert_eq!(hashes, [("c", "3148b315df86d934"), ("setup", "d4f541cafe770e71")]);
    }

    #[test]
    fn spelling_does_not_change_the_hash() {
        let hash = |text: &str| config_hash(&manifest(text), "n", "p");
        let same = [
            "a: {b: 1, c: [x, 420]}",
            "# a comment\na:\n    c:\n    - 'x'\n    - 0644 # octal\n    b: 1\n",
            "{\"a\": {\"c\": [\"x\", 420],\n\"b\": 1}}",
            "---\na: &a {<<: {b: 2}, c: [x, 0x1A4], b: 1.0}\n",
        ];
        for text in same {
            assert_eq!(hash(text), hash(same[0]), "{text}");
        }
        for text in ["a: {b: '1', c: [x, 420]}", "a: {b: 1, c: [420, x]}", "a: {b: 1, c: [x, 420], d: ~}"] {
            assert_ne!(hash(text), hash(same[0]), "{text}");
        }
    }

    #[test]
    fn node_and_path_are_part_of_the_hash_and_do_not_run_together() {
        let web = json!({});
        let all = [("a", "b"), ("ab", ""), ("", "ab"), ("a", "c"), ("b", "a")];
        let hashes: std::collections::BTreeSet<_> =
            all.iter().map(|(n, p)| config_hash(&web, n, p)).collect();
        assert_eq!(hashes.len(), all.len());
    }

    #[test]
    fn identity_of_files_and_urls() {
        let origin = |source| Origin {
            node_name: "Node1",
            source,
            path: "/m/web.yaml",
            seen: "2026-11-16T00:39:04.685901133Z".parse().unwrap(),
            strict: false,
            kubelet_strict: false,
        };
        let hash = ConfigHash::from("abc");
        let mut metadata = ObjectMeta { name: Some("web".to_owned()), ..Default::default() };
        let mut spec = PodSpec::default();
        let (name, uid) = apply_identity(&mut metadata, &mut spec, &hash, &origin(Source::File));
        assert_eq!((name.to_string(), uid.to_string()), ("default/web-node1".to_owned(), "abc".to_owned()));
        assert_eq!(spec.node_name.as_deref(), Some("Node1"));
        assert_eq!(spec.tolerations.as_ref().map(Vec::len), Some(1));
        let annotations = metadata.annotations.clone().unwrap();
        assert_eq!(annotations[CONFIG_HASH], "abc");
        assert_eq!(annotations[CONFIG_SOURCE], "file");
        assert_eq!(annotations[CONFIG_SEEN], "2026-11-16T00:39:04.685901133Z");

        let mut metadata = ObjectMeta {
            name: Some("web".to_owned()),
            namespace: Some("edge".to_owned()),
            uid: Some("fixed".to_owned()),
            ..Default::default()
        };
        let mut spec = PodSpec::default();
        let (name, uid) = apply_identity(&mut metadata, &mut spec, &hash, &origin(Source::Http));
        assert_eq!((name.to_string(), uid.to_string()), ("edge/web-node1".to_owned(), "fixed".to_owned()));
        assert_eq!(metadata.annotations.unwrap()[CONFIG_HASH], "abc");
        assert_eq!(spec.tolerations, None);
    }

    #[test]
    fn the_toleration_is_added_once() {
        let mut spec = PodSpec::default();
        tolerate_no_execute(&mut spec);
        tolerate_no_execute(&mut spec);
        assert_eq!(spec.tolerations.unwrap().len(), 1);
    }
}
