//! The files of `configMap`, `secret`, `downwardAPI` and `projected` volumes: names, contents and modes.

use k8s_openapi::api::core::v1::{KeyToPath, Volume};

use super::{Object, ObjectKey, ObjectKind, PodObjects};
use crate::pod::Pod;
use crate::pod::downward_api::{DEFAULT_MODE, ProjectedFile, ProjectedFiles, downward_files, mode_bits};
use crate::pod::resource_field::NodeCapacity;

/// One source of files that is an object.
struct ObjectSource<'v> {
    kind: ObjectKind,
    name: &'v str,
    items: &'v [KeyToPath],
    optional: bool,
}

/// The files of a volume, if it is of a kind that has files.
///
/// # Errors
/// For an object, a key or an item that is not there.
pub(crate) fn volume_files(
    pod: &Pod,
    volume: &Volume,
    objects: &PodObjects,
    node: &NodeCapacity,
) -> Option<Result<ProjectedFiles, String>> {
    let namespace = &pod.name.namespace;
    let mut files = ProjectedFiles::new();
    if let Some(source) = &volume.downward_api {
        let items = source.items.as_deref().unwrap_or_default();
        return Some(downward_files(pod, items, source.default_mode, node).map_err(|f| f.to_string()));
    }
    if let Some((source, mode)) = object_source(volume) {
        return Some(add_object(&mut files, &source, namespace, mode, objects).map(|()| files));
    }
    let projected = volume.projected.as_ref()?;
    for source in projected.sources.iter().flatten() {
        let added = match &source.downward_api {
            Some(downward) => {
                let items = downward.items.as_deref().unwrap_or_default();
                downward_files(pod, items, projected.default_mode, node)
                    .map(|more| files.extend(more))
                    .map_err(|finding| finding.to_string())
            }
            None => match projected_source(source) {
                Some(source) => add_object(&mut files, &source, namespace, projected.default_mode, objects),
                None => Ok(()),
            },
        };
        if let Err(reason) = added {
            return Some(Err(reason));
        }
    }
    Some(Ok(files))
}

/// Whether all objects and keys of a volume are there.
///
/// # Errors
/// Names the first that is not.
pub(super) fn check_volume(volume: &Volume, namespace: &str, objects: &PodObjects) -> Result<(), String> {
    let projected = volume.projected.iter().flat_map(|projected| &projected.sources).flatten();
    let own = object_source(volume).map(|(source, _)| source);
    own.into_iter().chain(projected.filter_map(projected_source)).try_for_each(|source| {
        let Some(object) = find(&source, namespace, objects)? else { return Ok(()) };
        source.items.iter().try_for_each(|item| find_key(&source, object, item).map(drop))
    })
}

fn object_source(volume: &Volume) -> Option<(ObjectSource<'_>, Option<i32>)> {
    if let Some(source) = &volume.config_map {
        let (kind, name) = (ObjectKind::ConfigMap, source.name.as_str());
        let (items, optional) = (source.items.as_deref().unwrap_or_default(), source.optional == Some(true));
        return Some((ObjectSource { kind, name, items, optional }, source.default_mode));
    }
    let source = volume.secret.as_ref()?;
    let (kind, name) = (ObjectKind::Secret, source.secret_name.as_deref().unwrap_or_default());
    let (items, optional) = (source.items.as_deref().unwrap_or_default(), source.optional == Some(true));
    Some((ObjectSource { kind, name, items, optional }, source.default_mode))
}

fn projected_source(source: &k8s_openapi::api::core::v1::VolumeProjection) -> Option<ObjectSource<'_>> {
    if let Some(source) = &source.config_map {
        let (items, optional) = (source.items.as_deref().unwrap_or_default(), source.optional == Some(true));
        return Some(ObjectSource { kind: ObjectKind::ConfigMap, name: &source.name, items, optional });
    }
    let source = source.secret.as_ref()?;
    let (items, optional) = (source.items.as_deref().unwrap_or_default(), source.optional == Some(true));
    Some(ObjectSource { kind: ObjectKind::Secret, name: &source.name, items, optional })
}

/// The object of a source; none if it may be missing, and is.
fn find<'o>(
    source: &ObjectSource<'_>,
    namespace: &str,
    objects: &'o PodObjects,
) -> Result<Option<&'o Object>, String> {
    match objects.get(&ObjectKey::new(source.kind, namespace, source.name)) {
        Ok(object) => Ok(Some(object)),
        Err(_) if source.optional => Ok(None),
        Err(reason) => Err(reason),
    }
}

/// The value of an item; none if it may be missing, and is.
fn find_key<'o>(
    source: &ObjectSource<'_>,
    object: &'o Object,
    item: &KeyToPath,
) -> Result<Option<&'o super::ObjectValue>, String> {
    match object.value(&item.key) {
        None if !source.optional => {
            Err(format!("{} {:?} has no key {:?}", source.kind.in_messages(), source.name, item.key))
        }
        value => Ok(value),
    }
}

fn add_object(
    files: &mut ProjectedFiles,
    source: &ObjectSource<'_>,
    namespace: &str,
    default_mode: Option<i32>,
    objects: &PodObjects,
) -> Result<(), String> {
    let Some(object) = find(source, namespace, objects)? else { return Ok(()) };
    let default_mode = default_mode.unwrap_or(DEFAULT_MODE);
    let file = |value: &super::ObjectValue, mode| ProjectedFile {
        contents: value.bytes().to_vec(),
        mode: mode_bits(mode),
    };
    if source.items.is_empty() {
        let all = object.data.iter().chain(&object.binary_data);
        files.extend(all.map(|(key, value)| (key.clone(), file(value, default_mode))));
        return Ok(());
    }
    for item in source.items {
        if let Some(value) = find_key(source, object, item)? {
            files.insert(item.path.clone(), file(value, item.mode.unwrap_or(default_mode)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::object::testing::{object, objects};
    use crate::pod::quantity::Amount;
    use crate::pod::testing::pod;

    #[test]
    fn files_of_every_kind_of_volume() {
        let all = objects(&[
            object(ObjectKind::ConfigMap, "c", &[("a", "1"), ("b", "2")]),
            object(ObjectKind::Secret, "s", &[("key", "hunter2")]),
        ]);
        let downward = json!({"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]});
        let rows = [
            (json!({"configMap": {"name": "c"}}), Ok("a=1/644 b=2/644")),
            (json!({"configMap": {"name": "c", "defaultMode": 0o400}}), Ok("a=1/400 b=2/400")),
            (
                json!({"configMap": {"name": "c", "items": [{"key": "a", "path": "d/x", "mode": 0o600}]}}),
                Ok("d/x=1/600"),
            ),
            (json!({"secret": {"secretName": "s", "defaultMode": 0o440}}), Ok("key=hunter2/440")),
            (json!({"secret": {"secretName": "none", "optional": true}}), Ok("")),
            (
                json!({"projected": {"defaultMode": 0o444, "sources": [
                    {"configMap": {"name": "c", "items": [{"key": "b", "path": "x"}]}},
                    {"secret": {"name": "s", "items": [{"key": "key", "path": "y", "mode": 0o400}]}},
                    {"secret": {"name": "none", "optional": true}},
                    {"downwardAPI": downward}]}}),
                Ok("name=p/444 x=2/444 y=hunter2/400"),
            ),
            (json!({"secret": {"secretName": "c"}}), Err("secret \"c\" not found in namespace")),
            (
                json!({"configMap": {"name": "c", "items": [{"key": "z", "path": "x"}]}}),
                Err("configmap \"c\" has no key \"z\""),
            ),
            (
                json!({"configMap": {"name": "c", "optional": true, "items": [{"key": "z", "path": "x"}, {"key": "a", "path": "y"}]}}),
                Ok("y=1/644"),
            ),
        ];
        let one = Amount::whole(1);
        let node = NodeCapacity { cpu: one, memory: one, ephemeral_storage: one };
        for (mut source, want) in rows {
            source["name"] = "v".into();
            let volume: Volume = serde_json::from_value(source.clone()).unwrap();
            let files = volume_files(&pod("p", "u"), &volume, &all, &node).unwrap();
            let shown = files.map(|files| {
                let text = |file: &ProjectedFile| String::from_utf8(file.contents.clone()).unwrap();
                let each = files.iter().map(|(path, f)| format!("{path}={}/{:o}", text(f), f.mode));
                each.collect::<Vec<_>>().join(" ")
            });
            match want {
                Ok(want) => assert_eq!(shown.as_deref(), Ok(want), "{source}"),
                Err(want) => assert!(shown.unwrap_err().starts_with(want), "{source}"),
            }
        }
        let volume: Volume = serde_json::from_value(json!({"name": "v", "emptyDir": {}})).unwrap();
        assert!(volume_files(&pod("p", "u"), &volume, &all, &node).is_none());
    }
}
