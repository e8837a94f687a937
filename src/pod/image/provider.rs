//! Credential provider plugins: their configuration, the messages exchanged with them, and how long an answer is valid.
//!
//! The configuration is kubelet's CredentialProviderConfig, the messages are those of `credentialprovider.kubelet.k8s.io`.
//! What plugins answer is secret: no error here repeats any of it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::keyring::{Credential, Keyring};
use super::registry_pattern::{RegistryPattern, split_path};
use crate::text::yaml::parse_documents;
use crate::time::duration::parse_duration;

const CONFIG_KIND: &str = "CredentialProviderConfig";
const CONFIG_VERSIONS: [&str; 3] =
    ["kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"];
const PLUGIN_VERSIONS: [&str; 3] = [
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
];

/// One plugin, as it is configured.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Provider {
    /// The name of its program in the plugins' directory.
    pub name: String,
    /// Arguments for the program.
    pub args: Vec<String>,
    /// Variables for the program, beside those of the agent. May be secret.
    pub env: Vec<(String, String)>,
    match_images: Vec<String>,
    default_cache: Duration,
    api_version: String,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A configuration of plugins that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProviderConfigError {
    /// Neither YAML nor JSON, or not one document of it.
    #[error("{0}")]
    Syntax(String),
    /// Something else is in the file.
    #[error("{field} is {found:?}, it must be {expected}")]
    WrongType {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// What it says.
        found: String,
        /// What it must say.
        expected: String,
    },
    /// A field that does not exist, or whose value has the wrong form.
    #[error("{0}")]
    Field(String),
    /// A provider that kubelet would refuse as well.
    #[error("providers[{index}].{field}: {problem}")]
    Provider {
        /// Its index in the list.
        index: usize,
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two providers have one name.
    #[error("the provider {0} is there twice")]
    Twice(String),
    /// No provider is configured.
    #[error("providers: at least one is required")]
    Empty,
}

/// Reads the providers of one file.
///
/// # Errors
/// When the file is not such a configuration, or asks for what cannot be had.
pub(crate) fn parse_providers(text: &str) -> Result<Vec<Provider>, ProviderConfigError> {
    let mut documents =
        parse_documents(text).map_err(|error| ProviderConfigError::Syntax(error.to_string()))?;
    let (Some(document), true) = (documents.pop(), documents.is_empty()) else {
        return Err(ProviderConfigError::Syntax(format!("must hold one document, a {CONFIG_KIND}")));
    };
    if let Some(key) = document.duplicate_keys.first() {
        return Err(ProviderConfigError::Field(format!("written twice: {key}")));
    }
    let said = |field: &str| document.value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    for (field, expected) in [("apiVersion", &CONFIG_VERSIONS[..]), ("kind", &[CONFIG_KIND])] {
        let found = said(field);
        if !expected.contains(&found.as_str()) {
            let expected = expected.join(" or ");
            return Err(ProviderConfigError::WrongType { field, found, expected });
        }
    }
    let file: File = serde_path_to_error::deserialize(&document.value)
        .map_err(|error| ProviderConfigError::Field(format!("{}: {}", error.path(), error.inner())))?;
    let providers = file.providers.unwrap_or_default();
    if providers.is_empty() {
        return Err(ProviderConfigError::Empty);
    }
    let checked = providers.into_iter().enumerate().map(|(index, item)| {
        item.check().map_err(|(field, problem)| ProviderConfigError::Provider { index, field, problem })
    });
    let providers: Vec<_> = checked.collect::<Result<_, _>>()?;
    refuse_doubles(&providers)?;
    Ok(providers)
}

/// No two providers may have one name, in one file or in several.
///
/// # Errors
/// With the name that is there twice.
pub(crate) fn refuse_doubles(providers: &[Provider]) -> Result<(), ProviderConfigError> {
    let mut names: Vec<_> = providers.iter().map(|provider| &provider.name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ProviderConfigError::Twice(pair[0].clone())),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    providers: Option<Vec<ProviderEntry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProviderEntry {
    name: String,
    match_images: Option<Vec<String>>,
    default_cache_duration: Option<String>,
    api_version: Option<String>,
    args: Option<Vec<String>>,
    env: Option<Vec<Variable>>,
    token_attributes: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    name: String,
    value: String,
}

impl ProviderEntry {
    fn check(self) -> Result<Provider, (&'static str, &'static str)> {
        let name = self.name;
        if name.is_empty() || name.contains(['/', ' ']) || name == "." || name == ".." {
            return Err(("name", "must be the name of a program, without slashes and spaces"));
        }
        let api_version = self.api_version.unwrap_or_default();
        if !PLUGIN_VERSIONS.contains(&api_version.as_str()) {
            return Err(("apiVersion", "must be credentialprovider.kubelet.k8s.io/v1, v1beta1 or v1alpha1"));
        }
        let match_images = self.match_images.unwrap_or_default();
        if match_images.is_empty() {
            return Err(("matchImages", "at least one is required"));
        }
        let duration = self.default_cache_duration.as_deref().and_then(parse_duration);
        let Some(nanos) = duration.and_then(|nanos| u64::try_from(nanos).ok()) else {
            return Err(("defaultCacheDuration", "must be a duration such as 10m, zero or longer"));
        };
        if self.token_attributes.is_some() {
            return Err(("tokenAttributes", "tokens of service accounts need an API server"));
        }
        Ok(Provider {
            name,
            args: self.args.unwrap_or_default(),
            env: self.env.into_iter().flatten().map(|variable| (variable.name, variable.value)).collect(),
            match_images,
            default_cache: Duration::from_nanos(nanos),
            api_version,
        })
    }
}

/// What a plugin answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginAnswer {
    /// The credentials.
    pub keyring: Keyring,
    scope: Scope,
    /// How long it is valid; the provider's default if it does not say.
    keep: Option<Duration>,
}

/// What an answer may be used for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Image,
    Registry,
    Global,
}

/// An answer that cannot be used. Tells nothing of what it holds but its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PluginAnswerError {
    /// Not JSON, or not of the form that was agreed upon.
    #[error("its answer is not a CredentialProviderResponse")]
    Form,
    /// Of another version.
    #[error("its answer is of apiVersion {found:?}, not {expected}")]
    Version {
        /// What it says.
        found: String,
        /// What it was asked for.
        expected: String,
    },
    /// It does not say what it is for.
    #[error("its answer has no cacheKeyType of Image, Registry or Global")]
    Scope,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PluginResponse {
    cache_key_type: String,
    cache_duration: Option<String>,
    auth: Option<BTreeMap<String, Auth>>,
}

#[derive(Deserialize)]
struct Auth {
    username: String,
    password: String,
}

impl Provider {
    /// The plugin is to be asked about this repository.
    pub(crate) fn is_for(&self, repository: &str) -> bool {
        let target = RegistryPattern::parse(repository);
        self.match_images.iter().any(|image| RegistryPattern::parse(image).covers(&target))
    }

    /// What the plugin reads.
    pub(crate) fn request(&self, repository: &str) -> String {
        json!({"kind": "CredentialProviderRequest", "apiVersion": self.api_version, "image": repository})
            .to_string()
    }

    /// What the plugin wrote.
    ///
    /// # Errors
    /// When that is no answer.
    pub(crate) fn answer(&self, bytes: &[u8]) -> Result<PluginAnswer, PluginAnswerError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|_| PluginAnswerError::Form)?;
        let said = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        if said("apiVersion") != self.api_version {
            let found: String = said("apiVersion").chars().take(80).collect();
            return Err(PluginAnswerError::Version { found, expected: self.api_version.clone() });
        }
        if said("kind") != "CredentialProviderResponse" {
            return Err(PluginAnswerError::Form);
        }
        let response = PluginResponse::deserialize(&value).map_err(|_| PluginAnswerError::Form)?;
        let scope = match response.cache_key_type.as_str() {
            "Image" => Scope::Image,
            "Registry" => Scope::Registry,
            "Global" => Scope::Global,
            _ => return Err(PluginAnswerError::Scope),
        };
        let keep = match response.cache_duration {
            // A negative duration has expired.
            Some(text) => {
                let nanos = parse_duration(&text).ok_or(PluginAnswerError::Form)?;
                Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
            }
            None => None,
        };
        let mut keyring = Keyring::default();
        for (pattern, Auth { username, password }) in response.auth.into_iter().flatten() {
            keyring.add(&pattern, Credential::Basic { username, password });
        }
        Ok(PluginAnswer { keyring, scope, keep })
    }
}

/// The answers of one plugin that are still valid.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    kept: BTreeMap<CredentialKey, (Instant, Keyring)>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CredentialKey {
    Image(String),
    Registry(String),
    Global,
}

impl Answers {
    /// What is known for a repository at `now`: what is for it alone before what is for its registry, and that
    /// before what is for all.
    pub(crate) fn get(&self, repository: &str, now: Instant) -> Option<&Keyring> {
        let keys = [Scope::Image, Scope::Registry, Scope::Global].map(|scope| scope.key(repository));
        let holding = |key| self.kept.get(key).filter(|(until, _)| now < *until).map(|(_, keyring)| keyring);
        keys.iter().find_map(holding)
    }

    /// Keeps an answer for as long as it is valid, and removes those that have expired.
    pub(crate) fn put(&mut self, provider: &Provider, repository: &str, answer: &PluginAnswer, now: Instant) {
        self.kept.retain(|_, (until, _)| now < *until);
        let keep = answer.keep.unwrap_or(provider.default_cache);
        if let Some(until) = now.checked_add(keep).filter(|_| !keep.is_zero()) {
            self.kept.insert(answer.scope.key(repository), (until, answer.keyring.clone()));
        }
    }
}

impl Scope {
    fn key(self, repository: &str) -> CredentialKey {
        match self {
            Self::Image => CredentialKey::Image(repository.to_owned()),
            Self::Registry => CredentialKey::Registry(registry(repository).to_owned()),
            Self::Global => CredentialKey::Global,
        }
    }
}

/// The registry of a repository in full: host and port.
pub(crate) fn registry(repository: &str) -> &str {
    split_path(repository).0
}
