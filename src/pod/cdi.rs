//! Devices by the names of the Container Device Interface, such as `nvidia.com/gpu=0`. Pure.
//!
//! Under kubelet such names come from device plugins and DRA drivers, through annotations `cdi.k8s.io/...` of containers.
//! A static pod has neither: here its own annotations with this prefix name devices for all of its containers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::annotations::field;
use super::finding::Finding;
use crate::text::excerpt::quoted;

/// What the annotations begin with.
const PREFIX: &str = "cdi.k8s.io/";
/// No pod needs more.
const MOST: usize = 64;

/// The names, each once, in the order of the annotations.
pub(crate) fn cdi_names(metadata: &ObjectMeta) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (_, name) in written(metadata) {
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// What is wrong with them.
pub(crate) fn check_cdi(metadata: &ObjectMeta) -> Vec<Finding> {
    let mut findings: Vec<_> = written(metadata)
        .filter(|(_, name)| !is_qualified(name))
        .map(|(key, name)| Finding::new(field(key), format!("{} is not VENDOR/CLASS=NAME", quoted(name))))
        .collect();
    if written(metadata).count() > MOST {
        findings.push(Finding::new("metadata.annotations", format!("may name at most {MOST} CDI devices")));
    }
    findings
}

fn written(metadata: &ObjectMeta) -> impl Iterator<Item = (&str, &str)> {
    let all = metadata.annotations.iter().flatten().filter(|(key, _)| key.starts_with(PREFIX));
    all.flat_map(|(key, value)| value.split(',').map(move |name| (key.as_str(), name.trim())))
}

/// `VENDOR/CLASS=NAME`, by the rules of the interface.
fn is_qualified(name: &str) -> bool {
    let Some((kind, device)) = name.split_once('=') else { return false };
    let Some((vendor, class)) = kind.split_once('/') else { return false };
    let fits = |text: &str, more: &str, digit_first: bool| {
        let edge = |c: char| c.is_ascii_alphanumeric();
        text.starts_with(|c: char| c.is_ascii_alphabetic() || digit_first && c.is_ascii_digit())
            && text.ends_with(edge)
            && text.chars().all(|c| edge(c) || more.contains(c))
    };
    fits(vendor, "_-.", false) && fits(class, "_-", false) && fits(device, "_-.:", true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(list: &[(&str, &str)]) -> ObjectMeta {
        let annotations = list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() }
    }

    #[test]
    fn names_of_all_annotations() {
        let metadata = metadata(&[
            ("cdi.k8s.io/a", "nvidia.com/gpu=0, nvidia.com/gpu=1"),
            ("cdi.k8s.io/b", "nvidia.com/gpu=0,intel.com/npu=card-1:2"),
            ("other/c", "x/y=z"),
        ]);
        assert_eq!(cdi_names(&metadata), ["nvidia.com/gpu=0", "nvidia.com/gpu=1", "intel.com/npu=card-1:2"]);
        assert_eq!(check_cdi(&metadata), []);
        assert!(cdi_names(&ObjectMeta::default()).is_empty());
    }

    #[test]
    fn what_is_no_name_is_told() {
        for name in [
            "",
            "gpu",
            "nvidia.com/gpu",
            "nvidia.com=0",
            "/gpu=0",
            "a/b=",
            "1a/b=c",
            "a/b=c d",
            "a/b=-c",
            "a/b/c=d",
            "../x=y",
        ] {
            let findings = check_cdi(&metadata(&[("cdi.k8s.io/a", name)]));
            assert_eq!(findings.len(), 1, "{name:?}: {findings:?}");
        }
        let many = (0..=MOST).map(|n| format!("a/b={n}")).collect::<Vec<_>>().join(",");
        assert_eq!(check_cdi(&metadata(&[("cdi.k8s.io/a", &many)])).len(), 1);
    }
}
