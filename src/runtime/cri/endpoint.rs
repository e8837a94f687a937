//! Where a runtime listens. Pure: nothing is opened here. The configuration reads endpoints through this type too.
//!
//! Invariant: an [`Endpoint`] is the absolute path of a UNIX socket. The runtime is on this machine;
//! whatever looks like a network address is refused.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// containerd's socket, and kubelet's default for `containerRuntimeEndpoint`.
pub const DEFAULT_ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

/// The UNIX socket of a CRI runtime.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    path: String,
}

impl Endpoint {
    /// The absolute path of the socket.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self { path: DEFAULT_ENDPOINT.trim_start_matches("unix://").to_owned() }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.path)
    }
}

/// Why a text is not the endpoint of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// Nothing was given.
    #[error("the runtime endpoint is empty")]
    Empty,
    /// Another transport than a UNIX socket.
    #[error("runtime endpoint {endpoint:?}: scheme {scheme:?} is not supported, only unix:///path is")]
    Scheme {
        /// The text as given.
        endpoint: String,
        /// What stands before `://`.
        scheme: String,
    },
    /// A path that depends on the working directory.
    #[error("runtime endpoint {endpoint:?}: the socket must be an absolute path, as in unix:///path")]
    Relative {
        /// The text as given.
        endpoint: String,
    },
    /// A path that cannot be a socket's.
    #[error("runtime endpoint {endpoint:?}: names no file")]
    NoFile {
        /// The text as given.
        endpoint: String,
    },
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Reads `unix:///path`, and as kubelet does also `unix:/path` and a bare absolute path.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        if text.is_empty() {
            return Err(EndpointError::Empty);
        }
        let endpoint = || text.to_owned();
        let path = match text.split_once("://") {
            Some(("unix", path)) => path,
            Some((scheme, _)) => {
                return Err(EndpointError::Scheme { endpoint: endpoint(), scheme: scheme.to_owned() });
            }
            None => text.strip_prefix("unix:").unwrap_or(text),
        };
        if !path.starts_with('/') {
            return Err(EndpointError::Relative { endpoint: endpoint() });
        }
        if path.ends_with('/') || path.contains('\0') {
            return Err(EndpointError::NoFile { endpoint: endpoint() });
        }
        Ok(Self { path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_sockets_by_url_and_by_path() {
        for (text, path) in [
            (DEFAULT_ENDPOINT, "/run/containerd/containerd.sock"),
            ("unix:///var/run/crio/crio.sock", "/var/run/crio/crio.sock"),
            ("/run/containerd/containerd.sock", "/run/containerd/containerd.sock"),
            ("unix:/run/containerd.sock", "/run/containerd.sock"),
            ("unix:///srv/a b%20c.sock", "/srv/a b%20c.sock"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.path(), path);
            assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
        }
        assert_eq!(DEFAULT_ENDPOINT.parse(), Ok(Endpoint::default()));
    }

    #[test]
    fn refuses_the_rest_and_says_why() {
        for (text, why) in [
            ("", "is empty"),
            ("tcp://127.0.0.1:1234", "scheme \"tcp\""),
            ("npipe:////./pipe/containerd", "scheme \"npipe\""),
            ("http:///run/x.sock", "scheme \"http\""),
            ("run/containerd.sock", "absolute path"),
            ("unix://run/containerd.sock", "absolute path"),
            ("unix:run/containerd.sock", "absolute path"),
            ("unix://", "absolute path"),
            ("unix:", "absolute path"),
            ("unix:///", "names no file"),
            ("unix:///run/", "names no file"),
            ("/run/containerd/", "names no file"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
