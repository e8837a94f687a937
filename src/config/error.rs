//! Why a configuration is refused: one line each, naming the flag, file or field.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde_json::Value;

use crate::http::Url;
use crate::pod::image::provider::ProviderConfigError;
use crate::text::url::UrlError;

/// A configuration that rkubelet does not start with. `Display` is one line and says all there is to say.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A flag that neither kubelet nor rkubelet has.
    #[error("unknown flag {flag}{hint}")]
    UnknownFlag {
        /// The flag as written, with its dashes.
        flag: String,
        /// The flag that may have been meant.
        hint: Hint,
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
        /// What the system said. Part of the line, so it is not offered as a source.
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
        /// What it says.
        found: Value,
        /// What it must say.
        expected: &'static str,
    },
    /// A field that KubeletConfiguration does not have.
    #[error("{}: unknown field {field}{hint}", path.display())]
    UnknownField {
        /// The file.
        path: PathBuf,
        /// The full path of the field, such as `authentication.x509.caFile`.
        field: String,
        /// The field that may have been meant.
        hint: Hint,
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
    /// More than one image at a time, and one at a time, were both asked for.
    #[error("maxParallelImagePulls is {parallel}, but serializeImagePulls (--serialize-image-pulls) is true")]
    ImagePulls {
        /// The number asked for.
        parallel: u32,
    },
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
    /// Files must be signed, but nobody said by whom.
    #[error("--require-signed-files needs --manifest-public-key")]
    SignedFilesWithoutKey,
    /// A manifest URL that is none.
    #[error("staticPodURL (--manifest-url): {cause}")]
    Url {
        /// What is wrong with it. Part of the line, so it is not offered as a source.
        cause: UrlError,
    },
    /// A manifest URL that anybody on the way could change.
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
    HalfIdentity,
    /// Neither the hostname nor `--hostname-override` is a name that a node can have.
    #[error("node name {name:?} is not a DNS-1123 subdomain; set one with --hostname-override")]
    NodeName {
        /// The name that came out.
        name: String,
    },
}

/// A name that may have been meant; nothing if none is near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hint(pub Option<String>);

impl fmt::Display for Hint {
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
