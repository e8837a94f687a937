//! The names and ids of pods, sandboxes and containers, each a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

string_id!(
    /// The identity of one instance of a pod.
    PodUid
);
string_id!(
    /// A versioned hash of a manifest as written, its origin and the node name.
    ConfigHash
);
string_id!(
    /// The runtime's id of a sandbox.
    SandboxId
);
string_id!(
    /// The runtime's id of a container.
    ContainerId
);

/// Namespace and name: what a worker belongs to. Instances (UIDs) of one name follow each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// The namespace.
    pub namespace: String,
    /// The name inside the namespace.
    pub name: String,
}

impl PodName {
    /// A name from its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Where a pod comes from. The order is the precedence: on a clash of names the lesser wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Source {
    /// The manifest directory.
    File,
    /// The manifest URL.
    Http,
    /// The API server.
    Api,
}

impl Source {
    /// The value of the annotation `kubernetes.io/config.source`.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Http => "http",
            Source::Api => "api",
        }
    }

    /// The inverse of [`Source::as_str`].
    pub fn from_annotation(text: &str) -> Option<Self> {
        [Source::File, Source::Http, Source::Api].into_iter().find(|source| source.as_str() == text)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
