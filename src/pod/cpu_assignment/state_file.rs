//! The form of kubelet's file `cpu_manager_state`, with its checksum.
//!
//! Written in the second version of the form, which every kubelet since 1.17 reads; the newest version is read too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Assignments, CpuSet};

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
    let checksum = checksum(POLICY, &default_cpu_set, &entries);
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
        Some(data) if u64::from(fnv(&format!("(string){data}"))) == form.data_checksum => {
            serde_json::from_str(&data)?
        }
        Some(_) => return Err(FormError::Checksum),
        None if checksum(&form.policy_name, &form.default_cpu_set, &form.entries) == form.checksum => {
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

/// kubelet's checksum: of the text in which Go's spew shows the structure, with the checksum as zero.
fn checksum(policy: &str, default: &str, entries: &Entries) -> u64 {
    let each = |(uid, containers): (&String, &BTreeMap<String, String>)| {
        let cpus: Vec<_> = containers.iter().map(|(name, cpus)| format!("{name}:{cpus}")).collect();
        format!("{uid}:map[{}]", cpus.join(" "))
    };
    let entries: Vec<_> = entries.iter().map(each).collect();
    u64::from(fnv(&format!(
        "(*state.CPUManagerCheckpoint){{PolicyName:(string){policy} DefaultCPUSet:(string){default} \
         Entries:(map[string]map[string]string)map[{}] Checksum:(checksum.Checksum)0}}",
        entries.join(" ")
    )))
}

/// FNV-1a, of 32 bits.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_kubelets() {
        // From kubelet's own tests.
        assert_eq!(checksum("none", "4-6", &Entries::new()), 354_655_845);
    }

    #[test]
    fn what_is_written_is_read_and_what_was_changed_is_not() {
        let set = |text: &str| CpuSet::parse(text).unwrap();
        let own = BTreeMap::from([("uid".to_owned(), BTreeMap::from([("main".to_owned(), set("1,3"))]))]);
        let assignments = Assignments { shared: set("0,2"), own };
        let text = String::from_utf8(write(&assignments).unwrap()).unwrap();
        let start =
            r#"{"policyName":"static","defaultCpuSet":"0,2","entries":{"uid":{"main":"1,3"}},"checksum":"#;
        assert!(text.starts_with(start), "{text}");
        assert_eq!(read(text.as_bytes()).unwrap(), assignments);
        for (from, to) in [("0,2", "0,4"), ("static", "none"), ("main", "other"), ("}", "")] {
            assert!(read(text.replace(from, to).as_bytes()).is_err(), "{from}");
        }
        let data = r#"{"policyName":"static","defaultCpuSet":"0,2","entries":{"uid":{"main":"1,3"}}}"#;
        let sum = fnv(&format!("(string){data}"));
        let newest = serde_json::json!({"policyName": "", "defaultCpuSet": "", "checksum": 1,
            "data": data, "dataChecksum": sum});
        assert_eq!(read(newest.to_string().as_bytes()).unwrap(), assignments);
    }
}
