//! ConfigMaps and Secrets as they are read, by case.

use super::*;
use crate::text::yaml::parse_documents;

fn decode(text: &str) -> Result<DecodedObject, Refusal> {
    let documents = parse_documents(text).unwrap();
    let origin = Origin {
        node_name: "n",
        source: Source::File,
        path: "/m/a.yaml",
        seen: jiff::Timestamp::UNIX_EPOCH,
        strict: false,
        kubelet_strict: false,
    };
    decode_object(&documents[0], &origin)
}

fn secret(rest: &str) -> String {
    format!("{{apiVersion: v1, kind: Secret, metadata: {{name: s}}, {rest}}}")
}

fn config_map(rest: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, {rest}}}")
}

#[test]
fn values() {
    let object = decode(&secret("data: {a: aHVudGVyMg==, b: \"aHVu\\ndGVyMg==\"}, stringData: {b: plain}"));
    let object = object.unwrap().object;
    assert_eq!(object.key.to_string(), "Secret default/s");
    assert_eq!(object.value("a").unwrap().bytes(), b"hunter2");
    assert_eq!(object.value("b").unwrap().bytes(), b"plain", "stringData counts more");
    let object = decode(&config_map("data: {a: x, e: }, binaryData: {b: AAE=}, immutable: true"));
    let object = object.unwrap().object;
    assert_eq!(object.value("b").unwrap().bytes(), [0, 1]);
    assert!(object.immutable && !object.data.contains_key("b"));
    assert_eq!(object.value("e").unwrap().bytes(), b"");
    let other = decode(&config_map("data: {a: z}, immutable: true")).unwrap().object;
    assert!(!object.may_become(&other) && object.may_become(&object.clone()));
    let warned = decode(&config_map("dta: {a: x}")).unwrap();
    assert_eq!(warned.warnings[0].to_string(), "dta: unknown field, did you mean \"data\"?");
}

#[test]
fn refusals_name_keys_and_never_values() {
    let large = config_map(&format!("data: {{a: {}}}", "x".repeat(MAX_OBJECT + 1)));
    let most = config_map(&format!("data: {{a: {}}}", "x".repeat(MAX_OBJECT)));
    assert!(decode(&most).is_ok());
    let rows = [
        (secret("data: {password: hunter2!}"), "data[password]: is not base64"),
        (secret("stringData: {pin: 470815}"), "stringData[pin]: must be a string"),
        (secret("stringData: {list: [hunter2]}"), "stringData[list]: must be a string"),
        (secret("data: hunter2"), "data: must be a mapping"),
        (secret("stringData: {../x: hunter2}"), "stringData[../x]: \"../x\" is not a key: letters"),
        (secret("stringData: {..x: hunter2}"), "stringData[..x]: \"..x\" is not a key: it must not"),
        (secret("stringData: {.: hunter2}"), "stringData[.]: \".\" is not a key: it must not"),
        (secret("stringData: {\"\": hunter2}"), "stringData[]: \"\" is not a key"),
        (secret("type: 7"), "type: must be a string"),
        (
            secret("type: kubernetes.io/tls"),
            "data[tls.crt]: is needed in a Secret of type kubernetes.io/tls; data[tls.key]",
        ),
        (secret("type: kubernetes.io/ssh-auth"), "data[ssh-privatekey]: is needed"),
        (secret("type: kubernetes.io/basic-auth"), "data[username]: is needed"),
        (secret("type: kubernetes.io/dockerconfigjson"), "data[.dockerconfigjson]: is needed"),
        (
            secret("type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: \"hunter2\"}"),
            "data[.dockerconfigjson]: line 1, column 1: not JSON",
        ),
        (
            secret("type: kubernetes.io/dockercfg, stringData: {.dockercfg: \"[]\"}"),
            "data[.dockercfg]: the file",
        ),
        (secret("immutable: hunter2"), "immutable: must be true or false"),
        (config_map("data: {a: x}, binaryData: {a: AAE=}"), "binaryData[a]: the same key is in data"),
        (large, "data: has 1048577 bytes of data, at most 1048576 are allowed"),
        ("{apiVersion: v2, kind: Secret, metadata: {name: s}}".to_owned(), "apiVersion: must be v1"),
        ("{apiVersion: v1, kind: Secret, metadata: {name: S/x}}".to_owned(), "metadata.name: "),
        ("{apiVersion: v1, kind: Secret, metadata: {}}".to_owned(), "metadata.name: must not be empty"),
        (
            "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ../x}}".to_owned(),
            "metadata.namespace: ",
        ),
    ];
    for (text, want) in rows {
        let refusal = decode(&text).unwrap_err();
        assert!(refusal.to_string().starts_with(want), "{want}: {refusal}");
        for value in ["hunter2", "470815"] {
            assert!(!refusal.to_string().contains(value), "{refusal}");
            assert!(!serde_json::to_string(&refusal).unwrap().contains(value), "{refusal}");
        }
    }
}

#[test]
fn versions_differ_in_every_part() {
    let all = [
        config_map("data: {a: x}"),
        config_map("data: {a: z}"),
        config_map("data: {b: x}"),
        config_map("data: {ax: ''}"),
        config_map("binaryData: {a: eA==}"),
        config_map("data: {a: x}, immutable: true"),
        secret("type: a"),
        secret("type: b"),
    ];
    let digests: BTreeSet<_> = all.iter().map(|text| decode(text).unwrap().object.digest).collect();
    assert_eq!(digests.len(), all.len());
    let again = decode(&config_map("data: {a: x}")).unwrap().object;
    assert!(again.same_as(&decode(&all[0]).unwrap().object));
}
