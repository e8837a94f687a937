//! Which fields a type has at a path, asked of the type itself.
//!
//! A type that is deserialized tells its deserializer the names of its fields. The deserializer here walks down
//! one path, as if a manifest held nothing else, and keeps the names that it is told at the end. So the answer is
//! always in step with the types that manifests are decoded into.

use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer as _, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_ignored::Path;

/// The names of the fields that the struct at `path` inside a `T` has; none if there is no struct.
pub(super) fn fields_at<'de, T: Deserialize<'de>>(path: &Path<'_>) -> &'static [&'static str] {
    let mut keys = Vec::new();
    let mut rest = path;
    loop {
        rest = match rest {
            Path::Root => break,
            Path::Map { parent, key } => {
                keys.push(key.as_str());
                parent
            }
            // Every item is of one type, and wrappers are not written: the type asks for both by itself.
            Path::Seq { parent, .. }
            | Path::Some { parent }
            | Path::NewtypeStruct { parent }
            | Path::NewtypeVariant { parent } => parent,
        };
    }
    let mut fields: &'static [&'static str] = &[];
    // It always ends in an error: there are no values to be had.
    let _ = T::deserialize(Descent { keys: &mut keys, fields: &mut fields });
    fields
}

/// The way down: keys are taken from the end.
struct Descent<'a, 'k> {
    keys: &'a mut Vec<&'k str>,
    fields: &'a mut &'static [&'static str],
}

impl<'de> Deserializer<'de> for Descent<'_, '_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.keys.is_empty() {
            *self.fields = fields;
            return Err(Error::custom("the end of the path"));
        }
        visitor.visit_map(self)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("nothing below has fields"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Descent<'_, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(key) = self.keys.pop() else { return Ok(None) };
        let key: StrDeserializer<'_, Error> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(Descent { keys: self.keys, fields: self.fields })
    }
}

impl<'de> SeqAccess<'de> for Descent<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        seed.deserialize(Descent { keys: self.keys, fields: self.fields }).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn at(keys: &[&str]) -> &'static [&'static str] {
        fn walk(parent: &Path<'_>, keys: &[&str]) -> &'static [&'static str] {
            match keys {
                [] => fields_at::<Pod>(parent),
                ["[]", rest @ ..] => walk(&Path::Seq { parent, index: 7 }, rest),
                [key, rest @ ..] => walk(&Path::Map { parent, key: (*key).to_owned() }, rest),
            }
        }
        walk(&Path::Root, keys)
    }

    #[test]
    fn types_tell_their_fields() {
        assert!(at(&[]).contains(&"spec") && at(&[]).contains(&"kind"));
        assert!(at(&["metadata"]).contains(&"labels"));
        assert!(at(&["spec"]).contains(&"initContainers"));
        assert!(at(&["spec", "containers", "[]"]).contains(&"imagePullPolicy"));
        assert!(at(&["spec", "containers", "[]", "livenessProbe", "httpGet"]).contains(&"port"));
        assert!(at(&["spec", "volumes", "[]", "projected", "sources", "[]"]).contains(&"downwardAPI"));
        for without in [&["metadata", "labels"][..], &["kind"], &["spec", "nowhere"]] {
            assert_eq!(at(without), [""; 0], "{without:?}");
        }
    }
}
