//! The rows against the walk, the types and the document.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, NodeAffinity, Pod, PodSecurityContext, PodSpec, SecurityContext, Volume,
    VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::json;

use super::{Support, TABLE, check_fields, has_longer_row, support_of};

fn lines(findings: &[crate::pod::Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn fields_are_reported_by_their_path() {
    let report = check_fields(&json!({
        "kind": "Pod",
        "metadata": {"name": "x", "creationTimestamp": null, "labels": {"spec": "x"}},
        "spec": {
            "nodeSelector": {"a": "b"},
            "securityContext": {"runAsUser": 1, "fsGroup": 2, "windowsOptions": {"runAsUserName": "x"}},
            "activeDeadlineSeconds": 5,
            "initContainers": [{"name": "i", "restartPolicy": "Always", "resizePolicy": [{}], "envFrom": [{}]}],
            "imagePullSecrets": [],
            "unknown": 1,
            "containers": [
                {"name": "a", "image": "i", "securityContext": {"privileged": true}, "resources": {"limits": {"cpu": 1, "ephemeral-storage": "1Gi"}}},
                {"name": "b", "resources": {"limits": {"example.com/gpu": 1}, "claims": [{"name": "x"}]}, "env": [
                    {"name": "A", "value": "x"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "C", "valueFrom": {"fileKeyRef": {}}},
                ], "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}], "volumeDevices": [{}]},
            ],
            "volumes": [
                {"name": "e", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                {"name": "n", "emptyDir": {"medium": ""}}, {"name": "d", "downwardAPI": {}},
                {"name": "s", "emptyDir": {"medium": "", "sizeLimit": "1Mi"}}, {"name": "z", "emptyDir": {"sizeLimit": 0}},
                {"name": "p", "projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {}}]}}, {"name": "c", "csi": {}},
            ],
        },
    }));
    let refusals = [
        "spec.containers[1].resources.claims: not supported yet",
        "spec.containers[1].volumeDevices: not supported yet",
        "spec.volumes[6].projected.sources[1].serviceAccountToken: not supported yet",
        "spec.volumes[7].csi: not supported yet",
    ];
    assert_eq!(lines(&report.refusals), refusals);
}

#[test]
fn odd_shapes_do_no_harm() {
    for value in
        [json!(null), json!(5), json!([]), json!({"spec": 5}), json!({"spec": {"containers": {"name": 1}}})]
    {
        assert_eq!(check_fields(&value), Default::default(), "{value}");
    }
}

/// Catches the names of the fields of a struct on their way into a deserializer.
struct Names<'a>(&'a mut Vec<&'static str>);

#[derive(Debug)]
struct Caught;

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("caught")
    }
}

impl std::error::Error for Caught {}

impl serde::de::Error for Caught {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Caught
    }
}

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Caught;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Caught> {
        Err(Caught)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Caught> {
        self.0.extend(fields);
        Err(Caught)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn fields_of<T: for<'de> Deserialize<'de>>() -> Vec<&'static str> {
    let mut names = Vec::new();
    assert!(T::deserialize(Names(&mut names)).is_err());
    assert!(!names.is_empty());
    names
}

#[test]
fn the_table_knows_every_field_of_a_pod() {
    let structs = [
        ("", fields_of::<Pod>()),
        ("metadata.", fields_of::<ObjectMeta>()),
        ("spec.", fields_of::<PodSpec>()),
        ("spec.initContainers[].", fields_of::<Container>()),
        ("spec.containers[].", fields_of::<Container>()),
        ("spec.containers[].env[].", fields_of::<EnvVar>()),
        ("spec.containers[].env[].valueFrom.", fields_of::<EnvVarSource>()),
        ("spec.containers[].volumeMounts[].", fields_of::<VolumeMount>()),
        ("spec.volumes[].", fields_of::<Volume>()),
    ];
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (prefix, fields) in structs {
        for field in fields {
            let pattern = format!("{prefix}{field}");
            assert!(support_of(&pattern).is_some() || has_longer_row(&pattern), "no row for {pattern}");
            known.insert(pattern);
        }
    }
    known.extend(
        fields_of::<VolumeProjection>()
            .iter()
            .map(|field| format!("spec.volumes[].projected.sources[].{field}")),
    );
    let below = |prefix: &str, fields: Vec<&str>| -> Vec<String> {
        fields.iter().map(|field| format!("{prefix}.{field}")).collect()
    };
    known.extend(below("spec.affinity.nodeAffinity", fields_of::<NodeAffinity>()));
    known.extend(below("spec.securityContext", fields_of::<PodSecurityContext>()));
    known.extend(below("spec.containers[].securityContext", fields_of::<SecurityContext>()));
    for below in ["claims", "limits.ephemeral-storage"] {
        known.insert(format!("spec.containers[].resources.{below}"));
    }
    for (_, rows) in TABLE {
        for row in rows {
            assert!(known.contains(*row), "no field {row}");
        }
    }
}

#[test]
fn the_document_lists_the_same() {
    let mut section = None;
    let mut listed = Vec::new();
    for line in include_str!("../../../docs/pod-fields.md").lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = Some(match title {
                "Honoured" => Support::Honoured,
                "Refused" => Support::Refused,
                "Ignored" => Support::Ignored,
                _ => panic!("unknown section {title}"),
            });
        } else if let Some((path, _)) = line.strip_prefix("- `").and_then(|rest| rest.split_once('`')) {
            listed.push((section.unwrap(), path));
        }
    }
    let table: Vec<_> =
        TABLE.iter().flat_map(|(support, rows)| rows.iter().map(|row| (*support, *row))).collect();
    assert_eq!(listed, table);
}
