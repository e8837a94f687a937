//! The form of kubelet's file `kubelet_internal_checkpoint`, with its checksum.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{DeviceAssignments, Grant, Offer};
use crate::pod::PodUid;
use crate::text::checksum::checksum_of;

/// What Go writes as `null` is none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    #[serde(rename = "PodUID")]
    pod_uid: String,
    container_name: String,
    resource_name: String,
    #[serde(rename = "DeviceIDs")]
    device_ids: Option<BTreeMap<i64, Option<Vec<String>>>>,
    alloc_resp: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CheckpointData {
    pod_device_entries: Option<Vec<Entry>>,
    registered_devices: Option<BTreeMap<String, Option<Vec<String>>>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CheckpointForm {
    data: CheckpointData,
    checksum: u64,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckpointError {
    /// It is not of this form.
    #[error("not a checkpoint of the device manager")]
    Json(#[from] serde_json::Error),
    /// What it holds of a plugin's answer cannot be read.
    #[error("the answer of a plugin in it cannot be read")]
    Answer(#[from] base64::DecodeError),
    /// It was changed by hand, or torn.
    #[error("its checksum is wrong")]
    Checksum,
}

/// Writes assignments.
///
/// # Errors
/// When they cannot be written as JSON.
pub(crate) fn write(assignments: &DeviceAssignments) -> Result<Vec<u8>, CheckpointError> {
    let mut entries = Vec::new();
    for (uid, containers) in &assignments.granted {
        for (container, grants) in containers {
            entries.extend(grants.iter().map(|(resource, grant)| Entry {
                pod_uid: uid.to_string(),
                container_name: container.clone(),
                resource_name: resource.clone(),
                device_ids: Some(
                    grant.devices.iter().map(|(node, ids)| (*node, Some(ids.clone()))).collect(),
                ),
                alloc_resp: Some(STANDARD.encode(&grant.answer)),
            }));
        }
    }
    let healthy = |offer: &Offer| Some(offer.healthy().into_iter().collect());
    let registered = assignments.offers.iter().map(|(name, offer)| (name.clone(), healthy(offer)));
    let data = CheckpointData {
        // As Go writes a list to which nothing was added.
        pod_device_entries: Some(entries).filter(|entries| !entries.is_empty()),
        registered_devices: Some(registered.collect()),
    };
    let checksum = checksum_of(&dump(&data)?);
    Ok(serde_json::to_vec(&CheckpointForm { data, checksum })?)
}

/// Reads assignments. Of the resources only the names are known until their plugins register again.
///
/// # Errors
/// When the file cannot be used.
pub(crate) fn read(bytes: &[u8]) -> Result<DeviceAssignments, CheckpointError> {
    let CheckpointForm { data, checksum } = serde_json::from_slice(bytes)?;
    if checksum_of(&dump(&data)?) != checksum {
        return Err(CheckpointError::Checksum);
    }
    let mut read = DeviceAssignments::default();
    for entry in data.pod_device_entries.into_iter().flatten() {
        let devices = entry.device_ids.unwrap_or_default();
        let devices = devices.into_iter().map(|(node, ids)| (node, ids.unwrap_or_default())).collect();
        let answer = STANDARD.decode(entry.alloc_resp.unwrap_or_default())?;
        let containers = read.granted.entry(PodUid(entry.pod_uid)).or_default();
        let grants = containers.entry(entry.container_name).or_default();
        grants.insert(entry.resource_name, Grant { devices, answer });
    }
    let registered = data.registered_devices.unwrap_or_default();
    read.offers = registered.into_keys().map(|name| (name, Offer::default())).collect();
    Ok(read)
}

/// The text in which Go's spew shows the data.
fn dump(data: &CheckpointData) -> Result<String, CheckpointError> {
    let words = |ids: &Option<Vec<String>>| match ids {
        Some(ids) => format!("[{}]", ids.join(" ")),
        None => "<nil>".to_owned(),
    };
    let map = |entries: Vec<String>| format!("map[{}]", entries.join(" "));
    let nil = || "<nil>".to_owned();
    let entry = |entry: &Entry| -> Result<String, CheckpointError> {
        let ids = entry.device_ids.as_ref();
        let ids =
            ids.map(|ids| map(ids.iter().map(|(node, ids)| format!("{node}:{}", words(ids))).collect()));
        let answer = entry.alloc_resp.as_ref().map(|text| STANDARD.decode(text)).transpose()?;
        let answer = answer.map(|bytes| {
            let mut text = String::with_capacity(bytes.len().saturating_mul(4).saturating_add(2));
            for byte in bytes {
                text.push(if text.is_empty() { '[' } else { ' ' });
                text.push_str(&byte.to_string());
            }
            if text.is_empty() { "[]".to_owned() } else { text + "]" }
        });
        Ok(format!(
            "{{PodUID:(string){} ContainerName:(string){} ResourceName:(string){} \
             DeviceIDs:(checkpoint.DevicesPerNUMA){} AllocResp:([]uint8){}}}",
            entry.pod_uid,
            entry.container_name,
            entry.resource_name,
            ids.unwrap_or_else(nil),
            answer.unwrap_or_else(nil),
        ))
    };
    let entries = match &data.pod_device_entries {
        Some(entries) => {
            format!("[{}]", entries.iter().map(entry).collect::<Result<Vec<_>, _>>()?.join(" "))
        }
        None => nil(),
    };
    let registered = data.registered_devices.as_ref().map(|registered| {
        map(registered.iter().map(|(name, ids)| format!("{name}:{}", words(ids))).collect())
    });
    Ok(format!(
        "(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries} \
         RegisteredDevices:(map[string][]string){}}}",
        registered.unwrap_or_else(nil)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_with_the_checksums_of_go_are_read() {
        // Written by Go, with the structures of kubelet and the dump that it makes.
        for text in [
            r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}"#,
            r#"{"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":2932075448}"#,
            r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":null},"Checksum":1944006890}"#,
            r#"{"Data":{"PodDeviceEntries":[],"RegisteredDevices":null},"Checksum":3252601439}"#,
            r#"{"Data":{"PodDeviceEntries":[{"PodUID":"pod1","ContainerName":"main","ResourceName":"example.com/dev","DeviceIDs":{"-1":["d1"]},"AllocResp":"CgVhYv8="}],"RegisteredDevices":{"example.com/dev":["d1","d2"]}},"Checksum":1437223380}"#,
            r#"{"Data":{"PodDeviceEntries":[{"PodUID":"pod1","ContainerName":"main","ResourceName":"example.com/dev","DeviceIDs":{"0":["c"],"1":["b","a"]},"AllocResp":""},{"PodUID":"pod2","ContainerName":"x","ResourceName":"z/dev","DeviceIDs":{},"AllocResp":null}],"RegisteredDevices":{"a/b":null,"z/dev":[]}},"Checksum":1017303780}"#,
            r#"{"Data":{"PodDeviceEntries":[{"PodUID":"pod1","ContainerName":"main","ResourceName":"example.com/dev","DeviceIDs":null,"AllocResp":"YSBsb25nZXIgdGV4dCB0aGFuIHNpeHRlZW4gYnl0ZXMsIHNvIHRoYXQgdGhlcmUgd291bGQgYmUgbGluZXMgaW4gYSBoZXhkdW1wIDw+Jic="}],"RegisteredDevices":{"a/b":["\u003c\u0026\u003e"],"a/b10":["x"],"a/b9":["x"]}},"Checksum":1919874795}"#,
            r#"{"Data":{"PodDeviceEntries":[{"PodUID":"pod1","ContainerName":"main","ResourceName":"example.com/dev","DeviceIDs":{"-1":["q"],"10":["b"],"9":["c"]},"AllocResp":"AA=="}],"RegisteredDevices":{}},"Checksum":3943627608}"#,
        ] {
            let read = read(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(super::read(&write(&read).unwrap()).unwrap(), read, "{text}");
            let torn = text.replace("pod1", "pod3");
            let is_refused = matches!(super::read(torn.as_bytes()), Err(CheckpointError::Checksum));
            assert_eq!(is_refused, torn != text, "{torn}");
        }
    }

    #[test]
    fn written_as_kubelet_writes_it() {
        let none = write(&DeviceAssignments::default()).unwrap();
        let expect = r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}"#;
        assert_eq!(String::from_utf8(none).unwrap(), expect);
        let mut some = DeviceAssignments::default();
        let healthy = super::super::Device { healthy: true, nodes: Vec::new() };
        some.update("example.com/dev", ["d1", "d2"].map(|id| (id.to_owned(), healthy.clone())).into());
        let ids = ["d1".to_owned()].into();
        some.grant(&PodUid::from("pod1"), "main", "example.com/dev", ids, vec![10, 5, 97, 98, 255]);
        let expect = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"pod1","ContainerName":"main","ResourceName":"example.com/dev","DeviceIDs":{"-1":["d1"]},"AllocResp":"CgVhYv8="}],"RegisteredDevices":{"example.com/dev":["d1","d2"]}},"Checksum":1437223380}"#;
        assert_eq!(String::from_utf8(write(&some).unwrap()).unwrap(), expect);
        for text in ["", "{}", "[]", r#"{"Data":{},"Checksum":0}"#] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
