//! ConfigMaps and Secrets: what they are, how they are read, which ones a pod refers to and what it makes of them. Pure.
//!
//! Invariant: what an object holds is shown by nothing here: `Debug` texts, findings and errors name keys, never values.

pub(crate) mod decode;
pub(crate) mod kept;
mod pull_secrets;
pub(crate) mod references;
pub(crate) mod volume_files;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Finding, PodName, Source};

/// What kind of object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ObjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl ObjectKind {
    /// As it is written in `kind`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ObjectKind::ConfigMap => "ConfigMap",
            ObjectKind::Secret => "Secret",
        }
    }

    /// The inverse of [`ObjectKind::as_str`].
    pub(crate) fn parse(kind: &str) -> Option<Self> {
        [ObjectKind::ConfigMap, ObjectKind::Secret].into_iter().find(|known| known.as_str() == kind)
    }

    /// As kubelet's messages have it.
    fn in_messages(self) -> &'static str {
        match self {
            ObjectKind::ConfigMap => "configmap",
            ObjectKind::Secret => "secret",
        }
    }
}

/// Which object it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    /// Its kind.
    pub(crate) kind: ObjectKind,
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name inside the namespace.
    pub(crate) name: String,
}

impl ObjectKey {
    /// An object from its parts.
    pub(crate) fn new(kind: ObjectKind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The inverse of `Display`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(' ')?;
        let (namespace, name) = name.split_once('/')?;
        Some(Self::new(ObjectKind::parse(kind)?, namespace, name))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}

/// What a document describes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Subject {
    /// A pod.
    Pod(PodName),
    /// A ConfigMap or Secret.
    Object(ObjectKey),
}

impl Subject {
    /// The pod, if it is one.
    pub(crate) fn pod(&self) -> Option<&PodName> {
        match self {
            Subject::Pod(name) => Some(name),
            Subject::Object(_) => None,
        }
    }

    /// The object, if it is one.
    pub(crate) fn object(&self) -> Option<&ObjectKey> {
        match self {
            Subject::Pod(_) => None,
            Subject::Object(key) => Some(key),
        }
    }

    /// The inverse of `Display`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(key) = ObjectKey::parse(text) {
            return Some(Self::Object(key));
        }
        let (namespace, name) = text.split_once('/')?;
        Some(Self::Pod(PodName::new(namespace, name)))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Pod(name) => name.fmt(f),
            Subject::Object(key) => key.fmt(f),
        }
    }
}

impl From<PodName> for Subject {
    fn from(name: PodName) -> Self {
        Self::Pod(name)
    }
}

/// One field, `pod` or `object`.
impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        let field = if self.pod().is_some() { "pod" } else { "object" };
        map.serialize_entry(field, &self.to_string())?;
        map.end()
    }
}

/// A value of an object. Its `Debug` text tells its length alone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ObjectValue(Arc<[u8]>);

impl ObjectValue {
    /// The value.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for ObjectValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for ObjectValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A manifest, which may hold secrets. Its `Debug` text tells its length alone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HiddenText(pub(crate) Arc<str>);

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for HiddenText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for HiddenText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

/// A ConfigMap or Secret that pods of this node may use. Immutable once built; it travels as `Arc<Object>`.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    /// Which it is.
    pub(crate) key: ObjectKey,
    /// Who has it.
    pub(crate) source: Source,
    /// What it holds, by key.
    pub(crate) data: BTreeMap<String, ObjectValue>,
    /// The same for what is not for the environment: `binaryData` of a ConfigMap.
    pub(crate) binary_data: BTreeMap<String, ObjectValue>,
    /// Its contents may not change.
    pub(crate) immutable: bool,
    /// The type of a Secret.
    pub(crate) secret_type: Option<String>,
    /// A digest of all the above but the source.
    pub(crate) digest: Digest,
}

/// What tells versions of an object apart. It tells who can guess a value whether the guess is right, so it is shown nowhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest(pub(crate) [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}

impl Object {
    /// Both are the same version of the same object.
    pub(crate) fn same_as(&self, other: &Object) -> bool {
        self.key == other.key && self.digest == other.digest
    }

    /// A value, for a file.
    pub(crate) fn value(&self, key: &str) -> Option<&ObjectValue> {
        self.data.get(key).or_else(|| self.binary_data.get(key))
    }

    /// Why this is refused in place of a version that must not change.
    pub(crate) fn changed_immutable(&self) -> Finding {
        let reason = format!(
            "{} is immutable and has other contents now: it must be removed before it is defined anew",
            self.key
        );
        Finding::new("immutable", reason)
    }

    /// Whether a newer version may take the place of this one.
    pub(crate) fn may_become(&self, newer: &Object) -> bool {
        !self.immutable || self.same_as(newer)
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.same_as(other)
    }
}

/// Who has the objects that pods refer to: the local manifests, and for pods of an API server one day that server.
pub(crate) trait ObjectProvider {
    /// An object, if it is there.
    fn find(&self, key: &ObjectKey) -> Option<&Arc<Object>>;

    /// Where it is looked for, in words.
    fn places(&self) -> &Arc<str>;
}

/// The objects that a pod refers to, as far as they are there.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PodObjects {
    /// Those that are there.
    pub(crate) found: BTreeMap<ObjectKey, Arc<Object>>,
    /// Where the others are looked for, in words.
    pub(crate) places: Arc<str>,
}

impl PodObjects {
    /// Those that are looked for in these places.
    pub(crate) fn collect<'k>(
        keys: impl IntoIterator<Item = &'k ObjectKey>,
        provider: &dyn ObjectProvider,
    ) -> Self {
        let found = keys.into_iter().filter_map(|key| Some((key.clone(), provider.find(key)?.clone())));
        Self { found: found.collect(), places: provider.places().clone() }
    }

    /// What tells these versions from others; for the agent's own files alone.
    pub(crate) fn digest(&self) -> String {
        use sha2::Digest as _;
        let mut hasher = sha2::Sha256::new();
        for (key, object) in &self.found {
            hasher.update(key.to_string());
            hasher.update(object.digest.0);
        }
        hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// An object.
    ///
    /// # Errors
    /// Says that it is not there, and where it was looked for.
    pub(crate) fn get(&self, key: &ObjectKey) -> Result<&Object, String> {
        self.found.get(key).map(|object| &**object).ok_or_else(|| {
            let (kind, places) = (key.kind.in_messages(), &self.places);
            format!(
                "{kind} {:?} not found in namespace {:?}: looked for in {places}",
                key.name, key.namespace
            )
        })
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Objects for tests.

    use super::*;

    /// An object of these values.
    pub(crate) fn object(kind: ObjectKind, name: &str, values: &[(&str, &str)]) -> Arc<Object> {
        let data = values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec().into()));
        let key = ObjectKey::new(kind, "default", name);
        Arc::new(decode::build(key, Source::File, data.collect(), BTreeMap::new(), false, None))
    }

    /// These objects are there.
    pub(crate) fn objects(all: &[Arc<Object>]) -> PodObjects {
        let found = all.iter().map(|object| (object.key.clone(), object.clone())).collect();
        PodObjects { found, places: "/etc/manifests".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{object, objects};
    use super::*;

    #[test]
    fn nothing_shows_a_value() {
        let secret = object(ObjectKind::Secret, "s", &[("password", "hunter2")]);
        let all = objects(std::slice::from_ref(&secret));
        for text in [format!("{secret:?}"), format!("{all:?}"), format!("{all:#?}")] {
            assert!(text.contains("7 bytes") && text.contains("password"), "{text}");
            assert!(!text.contains("hunter2") && !text.contains(&format!("{:?}", b"hunter2")), "{text}");
            assert!(text.contains("Digest(..)"), "{text}");
        }
    }

    #[test]
    fn subjects_are_read_as_they_are_written() {
        for text in ["default/web-node1", "ConfigMap default/settings", "Secret kube-system/tls"] {
            assert_eq!(Subject::parse(text).map(|subject| subject.to_string()).as_deref(), Some(text));
        }
        assert_eq!(Subject::parse("web"), None);
    }

    #[test]
    fn what_is_not_there_is_named_with_the_places() {
        let all = objects(&[]);
        let error = all.get(&ObjectKey::new(ObjectKind::ConfigMap, "shop", "settings")).unwrap_err();
        let want = "configmap \"settings\" not found in namespace \"shop\": looked for in /etc/manifests";
        assert_eq!(error, want);
    }
}
