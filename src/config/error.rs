//! Why a configuration is refused: one line each, naming the flag, file or field.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde_json::Value;

use crate::http::Url;
use crate::pod::image::provider::ProviderConfigError;
use crate::text::url::UrlError;

/// Why rkubelet does not start with a configuration. `Display` is one line, and complete: it includes the cause.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A flag that neither kubelet nor rkubelet has.
    #[error("unknown flag {flag}{hint}")]
    UnknownFlag {
        /// The flag as written, with its dashes.
        flag: String,
        /// The flag that may have been meant.
        hint: Suggestion,
    },
    /// A flag that kubelet once had.
    #[error("flag {flag} was removed from kubelet in Kubernetes {release}")]
    RemovedFlag {
        /// The flag as written, with its dashes.
        flag: String,
        /// The release that no longer has it.
        release: &'static str,
    },
    /// A flag that needs a value, at the end of the command line.
    #[error("flag {flag} needs a value")]
    MissingValue {
        /// The flag, with its dashes.
        flag: String,
    },
    /// A flag whose value is of the wrong kind.
    #[error("flag {flag}: {value:?} is not {expected}")]
    FlagValue {
        /// The flag, with its dashes.
        flag: String,
        /// The value as written.
        value: String,
        /// What it should have been.
        expected: String,
    },
    /// An argument that is not a flag.
    #[error("unexpected argument {argument:?}: rkubelet takes flags only")]
    Argument {
        /// The argument as written.
        argument: String,
    },
    /// A file or directory that cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's error. Part of the line, so it is no `source`.
        cause: io::Error,
    },
    /// A file that is neither YAML nor JSON, or not one document of it.
    #[error("{}: {problem}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, on one line.
        problem: String,
    },
    /// A file that holds something other than a KubeletConfiguration of the version we read.
    #[error("{}: not a KubeletConfiguration: {field} is {found}, it must be {expected}", path.display())]
    WrongType {
        /// The file.
        path: PathBuf,
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// The value in the file.
        found: Value,
        /// The value that it must have.
        expected: &'static str,
    },
    /// Parts of a file that would be ignored, with `--strict-config`.
    #[error("{}: {}", path.display(), ignored.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Ignored {
        /// The file.
        path: PathBuf,
        /// The parts.
        ignored: Vec<Ignored>,
    },
    /// A field whose value is of the wrong kind.
    #[error("{}: {field}: {value} is not {expected}", path.display())]
    FieldValue {
        /// The file.
        path: PathBuf,
        /// The full path of the field.
        field: String,
        /// The value as JSON, shortened.
        value: String,
        /// What it should have been.
        expected: String,
    },
    /// Settings that kubelet refuses too, each for what it says or for how it goes with others.
    #[error("{}", problems.join("; "))]
    Invalid {
        /// A reason for each, beginning with the setting.
        problems: Vec<String>,
    },
    /// Several of these at once.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<ConfigError>),
    /// One of the two flags about credential provider plugins without the other.
    #[error("--{given} needs --{missing} beside it")]
    CredentialProviderFlags {
        /// The flag that is there.
        given: &'static str,
        /// The flag that is not.
        missing: &'static str,
    },
    /// A configuration of credential provider plugins that cannot be used.
    #[error("{}: {problem}", path.display())]
    CredentialProviders {
        /// The file, or the directory of files.
        path: PathBuf,
        /// What is wrong with it.
        problem: ProviderConfigError,
    },
    /// Signed files are required, but there is no key to check them with.
    #[error("--require-signed-files needs --manifest-public-key")]
    SignedFilesWithoutKey,
    /// A manifest URL that cannot be parsed.
    #[error("staticPodURL (--manifest-url): {cause}")]
    Url {
        /// What is wrong with it. Part of the line, so it is no `source`.
        cause: UrlError,
    },
    /// A manifest URL without TLS to another machine: anybody on the way could change the manifests.
    #[error(
        "staticPodURL (--manifest-url): {url} is in plain text and not on this machine; use https, or say --allow-insecure-manifest-url"
    )]
    PlainTextUrl {
        /// The URL.
        url: Url,
    },
    /// A header that cannot be sent, by its name or by its value.
    #[error("staticPodURLHeader (--manifest-url-header): {name:?} or its value cannot be a header")]
    Header {
        /// The header's name; its value may be a secret.
        name: String,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("--manifest-url-client-certificate and --manifest-url-client-key go together")]
    IncompleteIdentity,
    /// Neither the hostname nor `--hostname-override` is a name that can be part of names and paths.
    #[error("node name {name:?} is not letters, digits, '-', '_' and '.'; set one with --hostname-override")]
    NodeName {
        /// The name that came out.
        name: String,
    },
}

impl ConfigError {
    /// All of these as one; none if there is none.
    pub(crate) fn all(mut problems: Vec<Self>) -> Option<Self> {
        if problems.len() > 1 { Some(Self::Several(problems)) } else { problems.pop() }
    }
}

/// A part of a configuration file that is ignored, as kubelet ignores it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ignored {
    /// A field that KubeletConfiguration does not have.
    #[error("unknown field {field}{hint}")]
    UnknownField {
        /// The full path of the field, such as `authentication.x509.caFile`.
        field: String,
        /// The field that may have been meant.
        hint: Suggestion,
    },
    /// A field that is written more than once.
    #[error("field {field} is written more than once, and the last one counts")]
    DoubledField {
        /// The full path of the field.
        field: String,
    },
    /// More documents than one.
    #[error("{count} documents, and the first one counts")]
    Documents {
        /// How many there are.
        count: usize,
    },
}

/// A name that may have been meant; nothing if none is near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suggestion(pub Option<String>);

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(f, " (did you mean {name}?)"),
            None => Ok(()),
        }
    }
}

/// A value as JSON on one line, cut to a length that suits a log.
pub(crate) fn shorten(value: &Value) -> String {
    const LONGEST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
