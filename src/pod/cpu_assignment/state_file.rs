//! The form of kubelet's file `cpu_manager_state`, with its checksum.
//!
//! Written in the second version of the form, which every kubelet since 1.17 reads; the newest version is read too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Assignments, CpuSet};
use crate::text::checksum::checksum_of;

const POLICY: &str = "static";

type Entries = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    policy_name: String,
    default_cpu_set: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    entries: Entries,
    checksum: u64,
    /// The newest version holds all of it once more, as a text.
    #[serde(default, skip_serializing)]
    data: Option<String>,
    #[serde(default, skip_serializing)]
    data_checksum: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    policy_name: String,
    default_cpu_set: String,
    #[serde(default)]
    entries: Entries,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FormError {
    /// It is not of this form.
    #[error("not a state of the CPU manager")]
    Json(#[from] serde_json::Error),
    /// It was changed by hand, or torn.
    #[error("its checksum is wrong")]
    Checksum,
    /// Another policy wrote it.
    #[error("it is of the policy {0:?}")]
    Policy(String),
    /// What it says is not a set of CPUs.
    #[error("{0:?} is not a set of CPUs")]
    Cpus(String),
}

/// Writes assignments.
///
/// # Errors
/// When they cannot be written as JSON.
pub(crate) fn write(assignments: &Assignments) -> Result<Vec<u8>, FormError> {
    let texts = |containers: &BTreeMap<String, CpuSet>| {
        containers.iter().map(|(name, cpus)| (name.clone(), cpus.to_string())).collect()
    };
    let entries: Entries =
        assignments.own.iter().map(|(uid, containers)| (uid.clone(), texts(containers))).collect();
    let default_cpu_set = assignments.shared.to_string();
    let [name, _] = GO_NAMES;
    let checksum = checksum(name, POLICY, &default_cpu_set, &entries);
    let policy_name = POLICY.to_owned();
    Ok(serde_json::to_vec(&Form {
        policy_name,
        default_cpu_set,
        entries,
        checksum,
        data: None,
        data_checksum: 0,
    })?)
}

/// Reads assignments.
///
/// # Errors
/// When the file cannot be used.
pub(crate) fn read(bytes: &[u8]) -> Result<Assignments, FormError> {
    let form: Form = serde_json::from_slice(bytes)?;
    let data = match form.data {
        Some(data) if checksum_of(&format!("(string){data}")) == form.data_checksum => {
            serde_json::from_str(&data)?
        }
        Some(_) => return Err(FormError::Checksum),
        None if is_right(&form) => {
            let Form { policy_name, default_cpu_set, entries, .. } = form;
            Data { policy_name, default_cpu_set, entries }
        }
        None => return Err(FormError::Checksum),
    };
    if data.policy_name != POLICY {
        return Err(FormError::Policy(data.policy_name));
    }
    let cpus = |text: &String| CpuSet::parse(text).ok_or_else(|| FormError::Cpus(text.clone()));
    let mut own = BTreeMap::new();
    for (uid, containers) in &data.entries {
        let each = containers.iter().map(|(name, text)| Ok((name.clone(), cpus(text)?)));
        own.insert(uid.clone(), each.collect::<Result<_, FormError>>()?);
    }
    Ok(Assignments { shared: cpus(&data.default_cpu_set)?, own })
}

/// The name of the structure in Go, which is part of what the checksum is of. kubelet writes the first; it reads the second
/// too, which the structure had for a while.
const GO_NAMES: [&str; 2] = ["CPUManagerCheckpoint", "CPUManagerCheckpointV2"];

/// Whether a checksum is that of these contents. Zero is none, which the oldest form had.
fn is_right(form: &Form) -> bool {
    let of = |name| checksum(name, &form.policy_name, &form.default_cpu_set, &form.entries);
    form.checksum == 0 || GO_NAMES.iter().any(|name| of(name) == form.checksum)
}

/// kubelet's checksum: of the text in which Go's spew shows the structure, with the checksum as zero.
fn checksum(name: &str, policy: &str, default: &str, entries: &Entries) -> u64 {
    let each = |(uid, containers): (&String, &BTreeMap<String, String>)| {
        let cpus: Vec<_> = containers.iter().map(|(name, cpus)| format!("{name}:{cpus}")).collect();
        format!("{uid}:map[{}]", cpus.join(" "))
    };
    let entries: Vec<_> = entries.iter().map(each).collect();
    checksum_of(&format!(
        "(*state.{name}){{PolicyName:(string){policy} DefaultCPUSet:(string){default} \
         Entries:(map[string]map[string]string)map[{}] Checksum:(checksum.Checksum)0}}",
        entries.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_kubelets() {
        // Computed by Go with the dump that kubelet makes: policy, default set, entries; with the first and the second name.
        type Rows<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)])];
        let rows: [(&str, &str, Rows<'_>, u64, u64); 7] = [
            ("none", "4-6", &[], 354_655_845, 2_655_485_041),
            ("static", "0-3", &[], 611_748_604, 532_911_304),
            ("static", "", &[], 3_083_571_066, 1_673_889_894),
            ("static", "0,2", &[("uid", &[("main", "1,3")])], 2_297_197_559, 397_712_851),
            (
                "static",
                "0",
                &[("pod2", &[("b", "3"), ("a", "1-2")]), ("pod1", &[("c", "4")])],
                821_612_350,
                3_260_127_946,
            ),
            ("static", "0", &[("pod1", &[])], 3_374_917_210, 492_267_358),
            ("st\"a\tt\n", "é", &[("u d", &[("ü\0", "1")])], 3_925_480_024, 2_621_183_956),
        ];
        for (policy, default, entries, first, second) in rows {
            let texts = |(uid, containers): &(&str, &[(&str, &str)])| {
                let each = containers.iter().map(|(name, cpus)| ((*name).to_owned(), (*cpus).to_owned()));
                ((*uid).to_owned(), each.collect())
            };
            let entries: Entries = entries.iter().map(texts).collect();
            let sums = GO_NAMES.map(|name| checksum(name, policy, default, &entries));
            assert_eq!(sums, [first, second], "{policy} {default} {entries:?}");
        }
    }

    #[test]
    fn what_kubelets_wrote_is_read() {
        for checksum in ["2297197559", "397712851", "0"] {
            let text = format!(
                r#"{{"policyName":"static","defaultCpuSet":"0,2","entries":{{"uid":{{"main":"1,3"}}}},"checksum":{checksum}}}"#
            );
            let read = read(text.as_bytes()).unwrap();
            assert_eq!(
                (read.of("uid", "main").to_string(), read.shared.to_string()),
                ("1,3".into(), "0,2".into())
            );
        }
    }

    #[test]
    fn what_is_written_is_read_and_what_was_changed_is_not() {
        let set = |text: &str| CpuSet::parse(text).unwrap();
        let own = BTreeMap::from([("uid".to_owned(), BTreeMap::from([("main".to_owned(), set("1,3"))]))]);
        let assignments = Assignments { shared: set("0,2"), own };
        let text = String::from_utf8(write(&assignments).unwrap()).unwrap();
        let start =
            r#"{"policyName":"static","defaultCpuSet":"0,2","entries":{"uid":{"main":"1,3"}},"checksum":"#;
        assert_eq!(text, format!("{start}2297197559}}"), "as kubelet itself writes it");
        assert_eq!(read(text.as_bytes()).unwrap(), assignments);
        for (from, to) in [("0,2", "0,4"), ("static", "none"), ("main", "other"), ("}", "")] {
            assert!(read(text.replace(from, to).as_bytes()).is_err(), "{from}");
        }
        let data = r#"{"policyName":"static","defaultCpuSet":"0,2","entries":{"uid":{"main":"1,3"}}}"#;
        let sum = checksum_of(&format!("(string){data}"));
        let newest = serde_json::json!({"policyName": "", "defaultCpuSet": "", "checksum": 1,
            "data": data, "dataChecksum": sum});
        assert_eq!(read(newest.to_string().as_bytes()).unwrap(), assignments);
    }
}
