//! The AppArmor profile of a container, from its field, its pod's annotation or its pod's field.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::pod::containers_of;

/// What the deprecated annotations begin with, before the name of a container.
pub(crate) const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The value of an annotation for the runtime's own profile.
pub(crate) const RUNTIME_DEFAULT: &str = "runtime/default";
/// The value of an annotation for none.
pub(crate) const UNCONFINED: &str = "unconfined";
/// What the value for a profile of the node begins with.
pub(crate) const LOCALHOST: &str = "localhost/";

/// A profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile<'a> {
    /// The runtime's own.
    RuntimeDefault,
    /// None.
    Unconfined,
    /// One that is loaded into the node's kernel.
    Localhost(&'a str),
}

impl<'a> Profile<'a> {
    /// From a field; none if it is not valid, which validation refuses.
    pub(crate) fn of_field(field: &'a AppArmorProfile) -> Option<Self> {
        match (field.type_.as_str(), field.localhost_profile.as_deref()) {
            ("RuntimeDefault", _) => Some(Self::RuntimeDefault),
            ("Unconfined", _) => Some(Self::Unconfined),
            ("Localhost", Some(name)) => Some(Self::Localhost(name)),
            _ => None,
        }
    }

    /// From the value of an annotation; none if it is not valid.
    pub(crate) fn of_annotation(value: &'a str) -> Option<Self> {
        match value {
            RUNTIME_DEFAULT => Some(Self::RuntimeDefault),
            UNCONFINED => Some(Self::Unconfined),
            other => other.strip_prefix(LOCALHOST).map(Self::Localhost),
        }
    }

    /// As an annotation says it, which older runtimes read too.
    pub(crate) fn annotation(self) -> String {
        match self {
            Profile::RuntimeDefault => RUNTIME_DEFAULT.to_owned(),
            Profile::Unconfined => UNCONFINED.to_owned(),
            Profile::Localhost(name) => format!("{LOCALHOST}{name}"),
        }
    }
}

/// The profile of a container, if anything says one. The annotation comes before the pod's field: for a static pod nobody
/// has made a field of it.
pub(crate) fn profile<'a>(
    metadata: &'a ObjectMeta,
    spec: &'a PodSpec,
    container: &'a Container,
) -> Option<Profile<'a>> {
    let own = container.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
    if let Some(own) = own {
        return Profile::of_field(own);
    }
    let annotations = metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(&format!("{ANNOTATION}{}", container.name)));
    value
        .and_then(|value| Profile::of_annotation(value))
        .or_else(|| Profile::of_field(spec.security_context.as_ref()?.app_armor_profile.as_ref()?))
}

/// Whether the pod asks for a profile that a kernel without AppArmor cannot give it.
pub(crate) fn is_required(metadata: &ObjectMeta, spec: &PodSpec) -> bool {
    let pod = spec.security_context.iter().filter_map(|context| context.app_armor_profile.as_ref());
    let own = containers_of(spec)
        .filter_map(|(_, container)| container.security_context.as_ref()?.app_armor_profile.as_ref());
    let mut annotations = metadata.annotations.iter().flatten();
    pod.chain(own).any(|profile| profile.type_ != "Unconfined")
        || annotations.any(|(key, value)| key.starts_with(ANNOTATION) && value != UNCONFINED)
}
