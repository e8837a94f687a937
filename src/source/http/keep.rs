//! The last good contents on disk, so that a machine that starts without its server starts its pods. Blocking.
//!
//! Kept for one URL, and each pod with the key that signed it: another URL does not get these pods, and what was taken
//! without a signature, or with another key's, is not started where a key is asked for. The newest serial is kept for
//! every key that was ever used: a key that returns may not bring older contents back.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use super::judge::Held;
use super::objects::HeldObject;
use crate::host::state::{Durability, StateError, Store};
use crate::pod::decode::{Origin, decode_document};
use crate::pod::object::decode::decode_object;
use crate::pod::object::{Digest, HiddenText};
use crate::pod::{ConfigHash, Source};
use crate::source::signature::{Newest, PublicKey, digest};
use crate::text::chain;
use crate::text::last_logged::LastLogged;
use crate::text::yaml::Document;

/// The name of the pods' file.
const PODS: &str = "pods";
/// The name of the file of the newest serial.
const SERIAL: &str = "serial";
/// Stands for the URL in the pods' identity: it may move, or its query may hold another token, and no pod restarts.
const IDENTITY: &str = "url";

#[derive(Debug, Default, Serialize, Deserialize)]
struct SavedPods {
    /// The digest of the URL, which may hold secrets.
    url: String,
    #[serde(default)]
    pods: Vec<KeptPod>,
    /// ConfigMaps and Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    objects: Vec<KeptPod>,
    /// What agents before 0.2 wrote instead of `pods`: one key for all.
    #[serde(default, skip_serializing)]
    key: Option<String>,
    #[serde(default, skip_serializing)]
    manifests: Vec<HiddenText>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptPod {
    /// Who signed the contents in which it came.
    key: Option<String>,
    /// As JSON.
    manifest: HiddenText,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Serials {
    #[serde(default)]
    keys: BTreeMap<String, Newest>,
    /// What agents before 0.2 wrote instead of `keys`.
    #[serde(default, skip_serializing)]
    key: Option<String>,
    #[serde(default, skip_serializing)]
    newest: Option<Newest>,
}

/// What is on disk.
#[derive(Debug)]
pub(super) struct Kept {
    store: Store,
    /// The digest of the URL.
    url: String,
    /// What was last written or read, if this agent knows.
    pods: Option<ContentsFingerprint>,
    newest: BTreeMap<String, Newest>,
    logged: LastLogged,
}

/// How pods of the URL are made.
pub(super) fn origin<'a>(node_name: &'a str, strict: bool, kubelet_strict: bool) -> Origin<'a> {
    let (source, seen) = (Source::Http, Timestamp::now());
    Origin { node_name, source, path: IDENTITY, seen, strict, kubelet_strict }
}

impl Kept {
    /// What an earlier agent left of this URL, if whoever signed it, or nobody, is `trusted`.
    pub(super) fn load(
        store: Store,
        url: &str,
        origin: &Origin<'_>,
        trusted: impl Fn(Option<&str>) -> bool,
    ) -> (Self, Vec<Held>, Vec<HeldObject>) {
        let mut kept = Self {
            store,
            url: digest(url.as_bytes()),
            pods: None,
            newest: BTreeMap::new(),
            logged: LastLogged::default(),
        };
        if let Some(Serials { keys, key, newest }) = or_warn(kept.store.read(SERIAL)) {
            kept.newest = key.zip(newest).into_iter().chain(keys).collect();
        }
        let pods: Option<SavedPods> = or_warn(kept.store.read(PODS));
        let Some(SavedPods { pods, objects, key, manifests, .. }) = pods.filter(|pods| pods.url == kept.url)
        else {
            return (kept, Vec::new(), Vec::new());
        };
        let old = manifests.into_iter().map(|manifest| KeptPod { key: key.clone(), manifest });
        let all: Vec<KeptPod> = old.chain(pods).collect();
        let is_trusted = |kept: &&KeptPod| trusted(kept.key.as_deref());
        let held: Vec<Held> = all.iter().filter(is_trusted).filter_map(|pod| revive(pod, origin)).collect();
        let held_objects: Vec<HeldObject> =
            objects.iter().filter(is_trusted).filter_map(|object| revive_object(object, origin)).collect();
        // What is not taken over is not known to be there.
        let is_all = held.len() == all.len() && held_objects.len() == objects.len();
        kept.pods = is_all.then(|| fingerprint(held.iter(), held_objects.iter()));
        (kept, held, held_objects)
    }

    /// The newest version that this key signed and that was taken.
    pub(super) fn newest(&self, key: &PublicKey) -> Option<&Newest> {
        self.newest.get(&key.to_string())
    }

    /// Remembers the newest version, so that no older one is taken; in memory even if the disk is full.
    pub(super) fn keep_newest(&mut self, key: &PublicKey, newest: Newest) {
        if self.newest(key) == Some(&newest) {
            return;
        }
        self.newest.insert(key.to_string(), newest);
        let serials = Serials { keys: self.newest.clone(), ..Serials::default() };
        let written = self.store.write(SERIAL, &serials, Durability::Power);
        self.log_unwritten(written);
    }

    /// Writes the pods that count, if they are not the ones on disk.
    pub(super) fn keep<'a>(
        &mut self,
        held: impl Iterator<Item = &'a Held> + Clone,
        objects: impl Iterator<Item = &'a HeldObject> + Clone,
    ) {
        let now = Some(fingerprint(held.clone(), objects.clone()));
        if self.pods == now {
            return;
        }
        let pods = held.map(|held| KeptPod {
            key: held.signer.as_deref().map(str::to_owned),
            manifest: HiddenText(held.manifest.clone()),
        });
        let objects = objects.map(|held| KeptPod {
            key: held.signer.as_deref().map(str::to_owned),
            manifest: held.manifest.clone(),
        });
        let (pods, objects) = (pods.collect(), objects.collect());
        let pods = SavedPods { url: self.url.clone(), pods, objects, ..SavedPods::default() };
        let written = self.store.write(PODS, &pods, Durability::Power);
        // What could not be written is tried again at the next look.
        self.pods = now.filter(|_| written.is_ok());
        self.log_unwritten(written);
    }

    /// Logs a write that failed, on change.
    fn log_unwritten(&mut self, written: Result<(), StateError>) {
        match written.map_err(|error| chain(&error)) {
            Ok(()) => self.logged.clear(),
            Err(error) if self.logged.is_new(&error) => {
                warn!(error, "the pods of the URL would not survive a reboot without the server");
            }
            Err(_) => {}
        }
    }
}

/// A file that cannot be used costs what it held.
fn or_warn<T>(read: Result<Option<T>, StateError>) -> Option<T> {
    read.unwrap_or_else(|error| {
        warn!(error = chain(&error), "what was kept of the URL is lost");
        None
    })
}

/// What tells kept pods and objects from others, each with who signed it.
#[derive(Debug, PartialEq)]
struct ContentsFingerprint {
    pods: Vec<(Option<Arc<str>>, ConfigHash)>,
    objects: Vec<(Option<Arc<str>>, Digest)>,
}

fn fingerprint<'a>(
    held: impl Iterator<Item = &'a Held>,
    objects: impl Iterator<Item = &'a HeldObject>,
) -> ContentsFingerprint {
    ContentsFingerprint {
        pods: held.map(|held| (held.signer.clone(), held.pod.hash.clone())).collect(),
        objects: objects.map(|held| (held.signer.clone(), held.object.digest.clone())).collect(),
    }
}

/// Whether a manifest can be read again.
pub(super) fn can_be_kept(manifest: &str) -> bool {
    serde_json::from_str::<Value>(manifest).is_ok()
}

fn revive(kept: &KeptPod, origin: &Origin<'_>) -> Option<Held> {
    let KeptPod { key, manifest } = kept;
    let refusal = match serde_json::from_str(&manifest.0) {
        Ok(value) => {
            let document = Document { number: 1, value, duplicate_keys: Vec::new() };
            match decode_document(&document, origin) {
                Ok(decoded) => {
                    let (pod, signer) = (decoded.pod.into(), key.as_deref().map(Arc::from));
                    return Some(Held { pod, manifest: manifest.0.clone(), signer });
                }
                Err(refusal) => refusal.to_string(),
            }
        }
        Err(error) => error.to_string(),
    };
    warn!(reason = refusal, "a pod that was kept of the URL is refused now");
    None
}

fn revive_object(kept: &KeptPod, origin: &Origin<'_>) -> Option<HeldObject> {
    let KeptPod { key, manifest } = kept;
    // What serde says about a value may quote it.
    let value = serde_json::from_str(&manifest.0).ok()?;
    match decode_object(&Document { number: 1, value, duplicate_keys: Vec::new() }, origin) {
        Ok(decoded) => {
            let (object, signer) = (decoded.object.into(), key.as_deref().map(Arc::from));
            Some(HeldObject { object, manifest: manifest.clone(), signer })
        }
        Err(refusal) => {
            warn!(reason = %refusal, "an object that was kept of the URL is refused now");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;

    use super::*;
    use crate::pod::decode::list::decode_list;

    const KEY: &str = include_str!("../../../tests/fixtures/minisign/key.pub");

    fn held(name: &str) -> Held {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
        );
        let item = decode_list(text.as_bytes(), &origin("n", false, false)).unwrap().remove(0);
        Held {
            pod: item.decoded.unwrap().pod.into(),
            manifest: item.manifest.to_string().into(),
            signer: None,
        }
    }

    fn signed(name: &str, key: &str) -> Held {
        Held { signer: Some(key.into()), ..held(name) }
    }

    fn load(root: &Path, url: &str, signer: Option<&'static str>) -> (Kept, Vec<ConfigHash>) {
        let trusted = |found: Option<&str>| found == signer;
        let (kept, held, _) = Kept::load(Store::new(root, "url"), url, &origin("n", false, false), trusted);
        (kept, held.into_iter().map(|held| held.pod.hash.clone()).collect())
    }

    #[test]
    fn pods_are_kept_for_one_url_and_one_signer() {
        let root = tempfile::tempdir().unwrap();
        let (mut kept, none) = load(root.path(), "http://a/", None);
        assert!(none.is_empty());
        let pods = [held("a"), held("b")];
        let hashes: Vec<_> = pods.iter().map(|held| held.pod.hash.clone()).collect();
        kept.keep(pods.iter(), [].iter());
        assert_eq!(load(root.path(), "http://a/", None).1, hashes);
        assert_eq!(load(root.path(), "http://b/", None).1, []);
        assert_eq!(load(root.path(), "http://a/", Some("key")).1, []);
        kept.keep([signed("a", "key"), signed("b", "key")].iter(), [].iter());
        assert_eq!(load(root.path(), "http://a/", Some("key")).1, hashes);
        // What another key signed is not taken over with the rest.
        kept.keep([signed("a", "old"), signed("b", "key")].iter(), [].iter());
        assert_eq!(load(root.path(), "http://a/", Some("key")).1, hashes[1..]);
        kept.keep([].iter(), [].iter());
        assert_eq!(load(root.path(), "http://a/", Some("key")).1, []);
    }

    #[test]
    fn nothing_is_written_that_is_there_already() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("rkubelet/url/pods.json");
        let inode = || fs::metadata(&file).map(|metadata| metadata.ino()).ok();
        let pods = [held("a")];
        let (mut kept, _) = load(root.path(), "http://a/", None);
        kept.keep(pods.iter(), [].iter());
        let written = inode();
        assert!(written.is_some());
        kept.keep(pods.iter(), [].iter());
        let (mut again, _) = load(root.path(), "http://a/", None);
        again.keep(pods.iter(), [].iter());
        assert_eq!(inode(), written);
        again.keep([].iter(), [].iter());
        assert_ne!(inode(), written);
    }

    #[test]
    fn what_could_not_be_written_is_tried_again() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("rkubelet"), "in the way").unwrap();
        let (mut kept, _) = load(root.path(), "http://a/", None);
        let pods = [held("a")];
        kept.keep(pods.iter(), [].iter());
        fs::remove_file(root.path().join("rkubelet")).unwrap();
        kept.keep(pods.iter(), [].iter());
        assert_eq!(load(root.path(), "http://a/", None).1.len(), 1);
    }

    #[test]
    fn a_damaged_file_costs_what_it_held() {
        let root = tempfile::tempdir().unwrap();
        let (mut kept, _) = load(root.path(), "http://a/", None);
        kept.keep([held("a")].iter(), [].iter());
        let file = root.path().join("rkubelet/url/pods.json");
        let whole = fs::read_to_string(&file).unwrap();
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(load(root.path(), "http://a/", None).1, []);
        // One pod that is no pod any more is passed over, the others count.
        let mut pods: SavedPods = serde_json::from_str(&whole).unwrap();
        pods.pods.insert(0, KeptPod { key: None, manifest: HiddenText("{}".into()) });
        fs::write(&file, serde_json::to_string(&pods).unwrap()).unwrap();
        assert_eq!(load(root.path(), "http://a/", None).1, [held("a").pod.hash.clone()]);
    }

    #[test]
    fn files_of_an_earlier_agent_count() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("rkubelet/url");
        fs::create_dir_all(&dir).unwrap();
        let url = digest(b"http://a/");
        let manifests = [held("a").manifest.to_string()];
        let pods = serde_json::json!({"url": url, "key": "k", "manifests": manifests});
        fs::write(dir.join("pods.json"), pods.to_string()).unwrap();
        let key = PublicKey::parse(KEY).unwrap();
        let serial = serde_json::json!({"key": key.to_string(), "newest": {"serial": 7, "sha256": "x"}});
        fs::write(dir.join("serial.json"), serial.to_string()).unwrap();
        let (kept, hashes) = load(root.path(), "http://a/", Some("k"));
        assert_eq!(hashes, [held("a").pod.hash.clone()]);
        assert_eq!(kept.newest(&key).map(|newest| newest.serial), Some(7));
    }

    #[test]
    fn the_newest_serial_is_kept_for_each_key() {
        let root = tempfile::tempdir().unwrap();
        let key = PublicKey::parse(KEY).unwrap();
        let other = PublicKey::parse(include_str!("../../../tests/fixtures/minisign/other.pub")).unwrap();
        let newest = |serial| Newest { serial, sha256: "x".to_owned() };
        let (mut kept, _) = load(root.path(), "http://a/", None);
        kept.keep_newest(&key, newest(12));
        assert_eq!(kept.newest(&other), None);
        kept.keep_newest(&other, newest(1));
        // Whatever the URL: the key is what signs.
        let (kept, _) = load(root.path(), "http://b/", None);
        assert_eq!((kept.newest(&key), kept.newest(&other)), (Some(&newest(12)), Some(&newest(1))));
    }
}
