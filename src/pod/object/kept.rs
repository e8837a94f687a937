//! The form in which the objects of an instance are kept on disk.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::decode::build;
use super::{Object, ObjectKey, ObjectValue};
use crate::pod::Source;

/// An object on disk. It has no `Debug` text: it holds what a Secret holds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeptObject {
    object: String,
    source: Source,
    #[serde(default)]
    data: BTreeMap<String, String>,
    #[serde(default)]
    binary_data: BTreeMap<String, String>,
    #[serde(default)]
    immutable: bool,
    #[serde(default, rename = "type")]
    secret_type: Option<String>,
}

impl KeptObject {
    /// An object as it is kept.
    pub(crate) fn new(object: &Object) -> Self {
        let encode = |map: &BTreeMap<String, ObjectValue>| {
            map.iter().map(|(key, value)| (key.clone(), STANDARD.encode(value.bytes()))).collect()
        };
        Self {
            object: object.key.to_string(),
            source: object.source,
            data: encode(&object.data),
            binary_data: encode(&object.binary_data),
            immutable: object.immutable,
            secret_type: object.secret_type.clone(),
        }
    }

    /// The object, if it is one.
    pub(crate) fn revive(self) -> Option<Object> {
        let decode = |map: BTreeMap<String, String>| -> Option<BTreeMap<String, ObjectValue>> {
            map.into_iter().map(|(key, text)| Some((key, STANDARD.decode(text).ok()?.into()))).collect()
        };
        let (data, binary) = (decode(self.data)?, decode(self.binary_data)?);
        let (key, kind) = (ObjectKey::parse(&self.object)?, self.secret_type.as_deref());
        Some(build(key, self.source, data, binary, self.immutable, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::object::ObjectKind;
    use crate::pod::object::testing::object;

    #[test]
    fn what_is_kept_is_the_same_object() {
        let secret = object(ObjectKind::Secret, "s", &[("a", "hunter2"), ("b", "\u{1}")]);
        let text = serde_json::to_string(&KeptObject::new(&secret)).unwrap();
        let read: KeptObject = serde_json::from_str(&text).unwrap();
        let revived = read.revive().unwrap();
        assert!(revived.same_as(&secret));
        assert_eq!(revived.data, secret.data);
    }
}
