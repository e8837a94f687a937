//! Settings of the pod as a whole.

use super::*;

#[test]
fn names_classes_and_systems() {
    let long = "a".repeat(65);
    let rows = [
        ("hostnameOverride", json!("my.own.name"), None),
        ("hostnameOverride", json!(""), Some("spec.hostnameOverride: must not be empty")),
        (
            "hostnameOverride",
            json!(long),
            Some("spec.hostnameOverride: has 65 characters, at most 64 are allowed"),
        ),
        ("runtimeClassName", json!("kata-qemu"), None),
        ("runtimeClassName", json!("a_b"), Some("spec.runtimeClassName: \"a_b\" must consist of")),
        ("os", json!({"name": "linux"}), None),
        (
            "os",
            json!({"name": "windows"}),
            Some("spec.os.name: PodOSNotSupported: \"windows\" is not this node's operating system, linux"),
        ),
    ];
    for (field, value, expect) in rows {
        let found = with(&format!("/spec/{field}"), value.clone());
        match expect {
            None => assert_eq!(found, Vec::<String>::new(), "{field} {value}"),
            Some(expect) => {
                let [one] = &found[..] else { panic!("{field} {value}: {found:?}") };
                assert!(one.starts_with(expect), "{one}");
            }
        }
    }
}

#[test]
fn a_host_name_of_its_own_goes_with_neither_a_domain_nor_the_nodes_network() {
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        let mut pod = good();
        pod["spec"]["hostnameOverride"] = json!("mine");
        pod["spec"][field] = json!(true);
        let expect = format!("spec.hostnameOverride: may not be set together with {field}");
        assert_eq!(findings(pod), [expect]);
    }
}
