//! The last good contents on disk, so that a machine that starts without its server starts its pods. Blocking.
//!
//! Kept for one URL and one key: another URL does not get these pods, and what was taken without a signature, or with
//! another one, is not started where this one is asked for.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::judge::Held;
use crate::host::state::{Durability, StateError, Store};
use crate::pod::decode::{Origin, decode_document};
use crate::pod::{ConfigHash, Source};
use crate::source::signature::{Newest, PublicKey, digest};
use crate::text::chain;
use crate::text::yaml::Document;

/// The name of the pods' file.
const PODS: &str = "pods";
/// The name of the file of the newest serial.
const SERIAL: &str = "serial";
/// Stands for the URL in the pods' identity: it may move, or its query may hold another token, and no pod restarts.
const IDENTITY: &str = "url";

#[derive(Debug, Serialize, Deserialize)]
struct Pods {
    /// The digest of the URL, which may hold secrets.
    url: String,
    key: Option<String>,
    /// The manifests, each as JSON.
    manifests: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Serial {
    key: String,
    newest: Newest,
}

/// What is on disk.
#[derive(Debug)]
pub(super) struct Kept {
    store: Store,
    /// The digest of the URL.
    url: String,
    /// The pods that were last written or read, and who signed them, if this agent knows.
    pods: Option<(Option<String>, Vec<ConfigHash>)>,
    newest: Option<(String, Newest)>,
    complained: bool,
}

/// How pods of the URL are made.
pub(super) fn origin<'a>(node_name: &'a str, strict: bool) -> Origin<'a> {
    Origin { node_name, source: Source::Http, path: IDENTITY, seen: Timestamp::now(), strict }
}

impl Kept {
    /// What an earlier agent left of this URL, if whoever signed it, or nobody, is `trusted`.
    pub(super) fn load(
        store: Store,
        url: &str,
        origin: &Origin<'_>,
        trusted: impl Fn(Option<&str>) -> bool,
    ) -> (Self, Vec<Held>) {
        let mut kept =
            Self { store, url: digest(url.as_bytes()), pods: None, newest: None, complained: false };
        let newest = or_warn(kept.store.read::<Serial>(SERIAL));
        kept.newest = newest.map(|serial| (serial.key, serial.newest));
        let pods = or_warn(kept.store.read::<Pods>(PODS));
        let Some(pods) = pods.filter(|p| p.url == kept.url && trusted(p.key.as_deref())) else {
            return (kept, Vec::new());
        };
        let held: Vec<Held> = pods.manifests.iter().filter_map(|manifest| revive(manifest, origin)).collect();
        kept.pods = Some((pods.key, held.iter().map(|held| held.pod.hash.clone()).collect()));
        (kept, held)
    }

    /// The newest version that this key signed and that was taken.
    pub(super) fn newest(&self, key: &PublicKey) -> Option<&Newest> {
        self.newest.as_ref().filter(|(signer, _)| *signer == key.to_string()).map(|(_, newest)| newest)
    }

    /// Remembers the newest version, so that no older one is taken; in memory even if the disk is full.
    pub(super) fn keep_newest(&mut self, key: &PublicKey, newest: Newest) {
        if self.newest(key) == Some(&newest) {
            return;
        }
        let serial = Serial { key: key.to_string(), newest };
        let written = self.store.write(SERIAL, &serial, Durability::Power);
        self.newest = Some((serial.key, serial.newest));
        self.complain(written);
    }

    /// Writes the pods that count and the key that signed them, if they are not the ones on disk.
    pub(super) fn keep<'a>(&mut self, held: impl Iterator<Item = &'a Held> + Clone, key: Option<&str>) {
        let hashes = held.clone().map(|held| held.pod.hash.clone());
        let now = Some((key.map(str::to_owned), hashes.collect()));
        if self.pods == now {
            return;
        }
        let manifests = held.map(|held| held.manifest.to_string()).collect();
        let pods = Pods { url: self.url.clone(), key: key.map(str::to_owned), manifests };
        let written = self.store.write(PODS, &pods, Durability::Power);
        // What could not be written is tried again at the next look.
        self.pods = now.filter(|_| written.is_ok());
        self.complain(written);
    }

    /// Says once that the disk does not take it.
    fn complain(&mut self, written: Result<(), StateError>) {
        match written {
            Ok(()) => self.complained = false,
            Err(error) if !self.complained => {
                self.complained = true;
                warn!(
                    error = chain(&error),
                    "the pods of the URL would not survive a reboot without the server"
                );
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

fn revive(manifest: &str, origin: &Origin<'_>) -> Option<Held> {
    let value = serde_json::from_str(manifest).ok();
    let document = value.map(|value| Document { number: 1, value, duplicate_keys: Vec::new() })?;
    match decode_document(&document, origin) {
        Ok(decoded) => Some(Held { pod: decoded.pod.into(), manifest: manifest.into() }),
        Err(refusal) => {
            warn!(reason = %refusal, "a pod that was kept of the URL is refused now");
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
        let item = decode_list(text.as_bytes(), &origin("n", false)).unwrap().remove(0);
        Held { pod: item.decoded.unwrap().pod.into(), manifest: item.manifest.to_string().into() }
    }

    fn load(root: &Path, url: &str, signer: Option<&'static str>) -> (Kept, Vec<ConfigHash>) {
        let trusted = |found: Option<&str>| found == signer;
        let (kept, held) = Kept::load(Store::new(root, "url"), url, &origin("n", false), trusted);
        (kept, held.into_iter().map(|held| held.pod.hash.clone()).collect())
    }

    #[test]
    fn pods_are_kept_for_one_url_and_one_signer() {
        let root = tempfile::tempdir().unwrap();
        let (mut kept, none) = load(root.path(), "http://a/", None);
        assert!(none.is_empty());
        let pods = [held("a"), held("b")];
        let hashes: Vec<_> = pods.iter().map(|held| held.pod.hash.clone()).collect();
        kept.keep(pods.iter(), None);
        assert_eq!(load(root.path(), "http://a/", None).1, hashes);
        assert_eq!(load(root.path(), "http://b/", None).1, []);
        assert_eq!(load(root.path(), "http://a/", Some("key")).1, []);
        kept.keep(pods.iter(), Some("key"));
        assert_eq!(load(root.path(), "http://a/", Some("key")).1, hashes);
        kept.keep([].iter(), Some("key"));
        assert_eq!(load(root.path(), "http://a/", Some("key")).1, []);
    }

    #[test]
    fn nothing_is_written_that_is_there_already() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("rkubelet/url/pods.json");
        let inode = || fs::metadata(&file).map(|metadata| metadata.ino()).ok();
        let pods = [held("a")];
        let (mut kept, _) = load(root.path(), "http://a/", None);
        kept.keep(pods.iter(), None);
        let written = inode();
        assert!(written.is_some());
        kept.keep(pods.iter(), None);
        let (mut again, _) = load(root.path(), "http://a/", None);
        again.keep(pods.iter(), None);
        assert_eq!(inode(), written);
        again.keep([].iter(), None);
        assert_ne!(inode(), written);
    }

    #[test]
    fn what_could_not_be_written_is_tried_again() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("rkubelet"), "in the way").unwrap();
        let (mut kept, _) = load(root.path(), "http://a/", None);
        let pods = [held("a")];
        kept.keep(pods.iter(), None);
        fs::remove_file(root.path().join("rkubelet")).unwrap();
        kept.keep(pods.iter(), None);
        assert_eq!(load(root.path(), "http://a/", None).1.len(), 1);
    }

    #[test]
    fn a_damaged_file_costs_what_it_held() {
        let root = tempfile::tempdir().unwrap();
        let (mut kept, _) = load(root.path(), "http://a/", None);
        kept.keep([held("a")].iter(), None);
        let file = root.path().join("rkubelet/url/pods.json");
        let whole = fs::read_to_string(&file).unwrap();
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(load(root.path(), "http://a/", None).1, []);
        // One pod that is no pod any more is passed over, the others count.
        let mut pods: Pods = serde_json::from_str(&whole).unwrap();
        pods.manifests.insert(0, "{}".to_owned());
        fs::write(&file, serde_json::to_string(&pods).unwrap()).unwrap();
        assert_eq!(load(root.path(), "http://a/", None).1, [held("a").pod.hash.clone()]);
    }

    #[test]
    fn the_newest_serial_is_that_of_its_key() {
        let root = tempfile::tempdir().unwrap();
        let key = PublicKey::parse(KEY).unwrap();
        let newest = Newest { serial: 7, sha256: "x".to_owned() };
        load(root.path(), "http://a/", None).0.keep_newest(&key, newest.clone());
        // Whatever the URL: the key is what signs.
        let (kept, _) = load(root.path(), "http://b/", None);
        assert_eq!(kept.newest(&key), Some(&newest));
        let other = PublicKey::parse(include_str!("../../../tests/fixtures/minisign/other.pub")).unwrap();
        assert_eq!(kept.newest(&other), None);
    }
}
