//! Static pods may not refer to objects of an API server. kubelet counts ConfigMaps and Secrets among them since 1.34; here they
//! may lie beside the pods.

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::LocalObjects;
use super::findings::Findings;
use crate::pod::containers_of;

/// Finds every reference to an object that only an API server has.
pub(super) fn validate_references(spec: &PodSpec, local_objects: LocalObjects, findings: &mut Findings) {
    let mut refuse = |field: String, what: &str| {
        let is_local = field.rsplit('.').next().is_some_and(is_local_object);
        if local_objects == LocalObjects::Refused || !is_local {
            findings.add(field, format!("static pods may not reference {what}"));
        }
    };
    if spec.service_account_name.as_deref().is_some_and(|name| !name.is_empty()) {
        refuse("spec.serviceAccountName".to_owned(), "serviceaccounts");
    }
    if spec.image_pull_secrets.as_ref().is_some_and(|secrets| !secrets.is_empty()) {
        refuse("spec.imagePullSecrets".to_owned(), "secrets");
    }
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        refuse("spec.resourceClaims".to_owned(), "resourceclaims");
    }
    for (which, container) in containers_of(spec) {
        container_references(container, &which.to_string(), &mut refuse);
    }
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        volume_references(volume, &format!("spec.volumes[{index}]"), &mut refuse);
    }
}

/// The field refers to a ConfigMap or Secret, and to nothing else.
fn is_local_object(field: &str) -> bool {
    matches!(
        field,
        "imagePullSecrets"
            | "configMapRef"
            | "secretRef"
            | "configMapKeyRef"
            | "secretKeyRef"
            | "configMap"
            | "secret"
    )
}

fn container_references(container: &Container, path: &str, refuse: &mut impl FnMut(String, &str)) {
    for (index, source) in container.env_from.iter().flatten().enumerate() {
        if source.config_map_ref.is_some() {
            refuse(format!("{path}.envFrom[{index}].configMapRef"), "configmaps");
        }
        if source.secret_ref.is_some() {
            refuse(format!("{path}.envFrom[{index}].secretRef"), "secrets");
        }
    }
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let Some(source) = &variable.value_from else { continue };
        if source.config_map_key_ref.is_some() {
            refuse(format!("{path}.env[{index}].valueFrom.configMapKeyRef"), "configmaps");
        }
        if source.secret_key_ref.is_some() {
            refuse(format!("{path}.env[{index}].valueFrom.secretKeyRef"), "secrets");
        }
    }
}

fn volume_references(volume: &Volume, path: &str, refuse: &mut impl FnMut(String, &str)) {
    let sources = [
        (volume.config_map.is_some(), "configMap", "configmaps (via configmap volumes)"),
        (volume.secret.is_some(), "secret", "secrets (via secret volumes)"),
        (volume.csi.is_some(), "csi", "csidrivers (via CSI volumes)"),
        (volume.glusterfs.is_some(), "glusterfs", "endpoints (via glusterFS volumes)"),
        (volume.persistent_volume_claim.is_some(), "persistentVolumeClaim", "persistentvolumeclaims"),
        (volume.ephemeral.is_some(), "ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
        (volume.azure_file.is_some(), "azureFile", "secrets (via azureFile volumes)"),
    ];
    for (present, name, what) in sources {
        if present {
            refuse(format!("{path}.{name}"), what);
        }
    }
    let projections = volume.projected.iter().flat_map(|projected| &projected.sources).flatten();
    for (index, source) in projections.enumerate() {
        let sources = [
            (source.config_map.is_some(), "configMap", "configmaps (via projected volumes)"),
            (source.secret.is_some(), "secret", "secrets (via projected volumes)"),
            (
                source.service_account_token.is_some(),
                "serviceAccountToken",
                "serviceaccounts (via projected volumes)",
            ),
            (source.cluster_trust_bundle.is_some(), "clusterTrustBundle", "clustertrustbundles"),
            (source.pod_certificate.is_some(), "podCertificate", "podcertificates"),
        ];
        for (present, name, what) in sources {
            if present {
                refuse(format!("{path}.projected.sources[{index}].{name}"), what);
            }
        }
    }
}
