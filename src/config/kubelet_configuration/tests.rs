//! The fields: the reference decodes, and what is wrong is named.

use std::path::Path;

use serde_json::json;

use super::{FIELDS, KubeletConfiguration, ZERO_IS_A_CHOICE, field_at};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn merged(bodies: &[&str]) -> Result<KubeletConfiguration, String> {
    let mut configuration = KubeletConfiguration::default();
    for body in bodies {
        configuration
            .merge_file(&format!("{HEAD}{body}"), Path::new("/etc/rkubelet/config.yaml"))
            .map_err(|error| error.to_string())?;
    }
    Ok(configuration)
}

#[test]
fn the_table_is_in_order_and_names_no_field_twice() {
    assert!(FIELDS.is_sorted_by(|a, b| a.name < b.name));
    for path in ZERO_IS_A_CHOICE {
        assert!(field_at(path).is_some(), "{path}");
    }
}

#[test]
fn a_full_configuration_of_kubelet_decodes() {
    let text = include_str!("../../../tests/fixtures/kubelet-configuration.json");
    let mut configuration = KubeletConfiguration::default();
    configuration.merge_file(text, Path::new("/etc/config.json")).unwrap();
    assert_eq!(configuration.get("crashLoopBackOff.maxContainerRestartPeriod"), Some(&json!("5m0s")));
    let without_effect = configuration.without_effect();
    assert!(without_effect.contains(&"authentication.webhook.cacheTTL".to_owned()));
    assert!(without_effect.contains(&"logging.flushFrequency".to_owned()));
    assert!(!without_effect.contains(&"staticPodPath".to_owned()));
    assert!(!without_effect.contains(&"logging.verbosity".to_owned()));
}

#[test]
fn refusals_name_file_field_value_and_kind() {
    for (body, line) in [
        ("maxPods: many", "maxPods: \"many\" is not an integer from 0 to 2147483647"),
        ("healthzPort: 70000", "healthzPort: 70000 is not an integer from 0 to 65535"),
        ("fileCheckFrequency: 20", "fileCheckFrequency: 20 is not a duration such as 1m30s, zero or longer"),
        (
            "fileCheckFrequency: -1s",
            "fileCheckFrequency: \"-1s\" is not a duration such as 1m30s, zero or longer",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 10m}",
            "crashLoopBackOff.maxContainerRestartPeriod: \"10m\" is not a duration from 1s to 300s",
        ),
        ("failSwapOn: 'yes'", "failSwapOn: \"yes\" is not true or false"),
        ("logging: 3", "logging: 3 is not an object"),
        ("clusterDNS: 10.0.0.1", "clusterDNS: \"10.0.0.1\" is not a list of texts"),
        (
            "registerWithTaints: a",
            "registerWithTaints: \"a\" is not a list of taints such as key=value:NoSchedule",
        ),
        (
            "evictionHard: {pid.available: 5}",
            "evictionHard: {\"pid.available\":5} is not a map of thresholds: memory.available: \"100Mi\" with quotes in a \
             file, memory.available<100Mi as a flag",
        ),
        ("hairpinMode: both", "hairpinMode: \"both\" is not one of promiscuous-bridge, hairpin-veth, none"),
    ] {
        assert_eq!(merged(&[body]).unwrap_err(), format!("/etc/rkubelet/config.yaml: {line}"), "{body}");
    }
}

#[test]
fn only_one_configuration_of_our_version_is_read() {
    for (text, part) in [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("[1]", "[1] is not a KubeletConfiguration"),
        ("kind: KubeletConfiguration", "apiVersion is null, it must be kubelet.config.k8s.io/v1beta1"),
        (
            "apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration",
            "apiVersion is \"kubelet.config.k8s.io/v1\"",
        ),
        (
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: Pod",
            "kind is \"Pod\", it must be KubeletConfiguration",
        ),
        ("{", "/x: "),
    ] {
        let line = KubeletConfiguration::default().merge_file(text, Path::new("/x")).unwrap_err().to_string();
        assert!(line.contains(part), "{text:?}: {line}");
        assert!(line.matches(" at line ").count() < 2, "a position is told once: {line}");
        assert!(!line.contains('\n'), "{line}");
    }
}

#[test]
fn what_kubelet_ignores_is_ignored_and_reported() {
    let ignored = |text: &str| {
        let mut configuration = KubeletConfiguration::default();
        let ignored = configuration.merge_file(&format!("{HEAD}{text}"), Path::new("/x")).unwrap();
        (configuration, ignored.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    for (text, line) in [
        ("staticPodpath: /a", "unknown field staticPodpath (did you mean staticPodPath?)"),
        (
            "authentication: {x509: {clientCaFile: /a}}",
            "unknown field authentication.x509.clientCaFile (did you mean authentication.x509.clientCAFile?)",
        ),
        ("clientCAFile: /a", "unknown field clientCAFile (did you mean authentication.x509.clientCAFile?)"),
        ("logging: {maxPods: 5}", "unknown field logging.maxPods (did you mean maxPods?)"),
        ("metadata: {name: a}", "unknown field metadata"),
        (
            "registerWithTaints: [{key: a, efect: b}]",
            "unknown field registerWithTaints[0].efect (did you mean registerWithTaints[0].effect?)",
        ),
        ("maxPods: 1\nmaxPods: 2", "field maxPods is written more than once, and the last one counts"),
        ("maxPods: 2\n---\nmaxPods: 3", "2 documents, and the first one counts"),
    ] {
        let (configuration, lines) = ignored(text);
        assert_eq!(lines, [line], "{text}");
        if text.starts_with("maxPods") {
            assert_eq!(configuration.get("maxPods"), Some(&json!(2)), "{text}");
        }
    }
    assert_eq!(ignored("nonsense: 1").0, KubeletConfiguration::default(), "what is unknown is gone");
}

#[test]
fn only_what_was_asked_for_has_no_effect() {
    // The file that kubeadm writes.
    let text = "authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}}\n\
                cgroupDriver: systemd\ncpuManagerReconcilePeriod: 0s\nevictionPressureTransitionPeriod: 0s\n\
                imageMaximumGCAge: 0s\nlogging: {flushFrequency: 0, options: {json: {infoBufferSize: '0'}}}\n\
                memorySwap: {}\nnodeStatusUpdateFrequency: 0s\nrotateCertificates: true\nshutdownGracePeriod: 0s\n\
                failSwapOn: false\nevictionHard: {}\nprotectKernelDefaults: false\nproviderID: ''\npodsPerCore: 0";
    assert_eq!(
        merged(&[text]).unwrap().without_effect(),
        ["evictionHard", "failSwapOn", "rotateCertificates"]
    );
}

#[test]
fn later_files_are_merged_into_earlier_ones() {
    let configuration = merged(&[
        "maxPods: 10\nclusterDNS: [10.0.0.1, 10.0.0.2]\nevictionHard: {a: '1', b: '2'}\nlogging: {verbosity: 2, format: text}",
        "clusterDNS: [10.0.0.3]\nevictionHard: {b: '3', c: '4'}\nlogging: {verbosity: 4}",
        "maxPods: null\nevictionHard: {a: null}",
    ])
    .unwrap();
    for (field, value) in [
        ("maxPods", None),
        ("clusterDNS", Some(json!(["10.0.0.3"]))),
        ("evictionHard", Some(json!({"b": "3", "c": "4"}))),
        ("logging", Some(json!({"verbosity": 4, "format": "text"}))),
    ] {
        assert_eq!(configuration.get(field), value.as_ref(), "{field}");
    }
}

#[test]
fn relative_paths_start_at_the_file() {
    let configuration = merged(&["staticPodPath: manifests\nresolvConf: ''\npodLogsDir: /logs"]).unwrap();
    let above = merged(&["staticPodPath: ../a/./b/"]).unwrap();
    assert_eq!(above.get("staticPodPath"), Some(&json!("/etc/a/b")));
    assert_eq!(configuration.get("staticPodPath"), Some(&json!("/etc/rkubelet/manifests")));
    assert_eq!(configuration.get("resolvConf"), Some(&json!("")));
    assert_eq!(configuration.get("podLogsDir"), Some(&json!("/logs")));
}

#[test]
fn flags_set_fields_at_any_depth() {
    let mut configuration = merged(&["featureGates: {A: true, B: true}\nevictionHard: {a: '1'}"]).unwrap();
    configuration.set("logging.options.text.splitStream", json!(true));
    configuration.set("featureGates", json!({"B": false}));
    configuration.set("evictionHard", json!({"b": "2"}));
    assert_eq!(configuration.get("logging.options.text.splitStream"), Some(&json!(true)));
    assert_eq!(configuration.get("featureGates"), Some(&json!({"A": true, "B": false})));
    assert_eq!(configuration.get("evictionHard"), Some(&json!({"b": "2"})));
    assert_eq!(field_at("logging.verbosity").map(|field| field.name), Some("verbosity"));
    assert!(field_at("logging.nonsense").is_none());
}
