//! Credentials by registry: docker's files, and which entries of them suit a repository, in which order.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::registry_pattern::{RegistryPattern, split_path};

/// What a registry wants to see. Its `Debug` text tells nothing.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// Name and password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: String,
    },
    /// A token that is exchanged for others (`identitytoken`).
    Identity(String),
    /// A token that is shown as it is (`registrytoken`).
    Registry(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// Credentials, each for a pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Keyring {
    /// By pattern, last in the alphabet first: the longer of two that begin alike comes first.
    entries: Vec<(String, Credential)>,
}

/// How a file of docker's is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DockerFile {
    /// `config.json`: entries under `auths`.
    ConfigJson,
    /// `.dockercfg`: nothing but entries.
    Dockercfg,
}

/// A file that holds no credentials. Never tells what it does hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DockerFileError {
    /// It is not JSON.
    #[error("line {line}, column {column}: not JSON")]
    Syntax {
        /// Where it ceases to be JSON.
        line: usize,
        /// Where in that line.
        column: usize,
    },
    /// It is JSON of another shape.
    #[error("{0} is not an object")]
    Shape(&'static str),
}

/// Docker Hub's own name in docker's files.
const DOCKER_HUB: &str = "index.docker.io";

impl Keyring {
    /// Adds a credential for a pattern, written as docker writes it: with a scheme or without, and with a version of
    /// the API that means nothing.
    pub(crate) fn add(&mut self, pattern: &str, credential: Credential) {
        let bare =
            pattern.strip_prefix("https://").or_else(|| pattern.strip_prefix("http://")).unwrap_or(pattern);
        let (host, path) = split_path(bare);
        let path = if path.starts_with("/v1/") || path.starts_with("/v2/") { &path[3..] } else { path };
        let key = if path == "/" { host.to_owned() } else { format!("{host}{path}") };
        // Behind what is equal: of two credentials for one pattern, the first one given is tried first.
        let at = self.entries.partition_point(|(known, _)| *known >= key);
        self.entries.insert(at, (key, credential));
    }

    /// Adds all that another one holds.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (pattern, credential) in &other.entries {
            self.add(pattern, credential.clone());
        }
    }

    /// The credentials for a repository in full, in the order in which they are to be tried.
    pub(crate) fn lookup(&self, repository: &str) -> Vec<Credential> {
        let target = RegistryPattern::parse(repository);
        let chosen = |suits: &dyn Fn(&str) -> bool| -> Vec<Credential> {
            self.entries
                .iter()
                .filter(|(pattern, _)| suits(pattern))
                .map(|(_, found)| found.clone())
                .collect()
        };
        let found = chosen(&|pattern| RegistryPattern::parse(pattern).covers(&target));
        match found.is_empty() && repository.starts_with("docker.io/") {
            true => chosen(&|pattern| pattern == DOCKER_HUB),
            false => found,
        }
    }

    /// Reads a file of docker's; returns the patterns whose entries are of no use as well.
    ///
    /// # Errors
    /// When it is no such file.
    pub(crate) fn parse(text: &str, file: DockerFile) -> Result<(Self, Vec<String>), DockerFileError> {
        let root: Value = serde_json::from_str(text)
            .map_err(|error| DockerFileError::Syntax { line: error.line(), column: error.column() })?;
        let root = root.as_object().ok_or(DockerFileError::Shape("the file"))?;
        let none = Map::new();
        let auths = match (file, root.get("auths")) {
            (DockerFile::Dockercfg, _) => root,
            (DockerFile::ConfigJson, None | Some(Value::Null)) => &none,
            (DockerFile::ConfigJson, Some(auths)) => {
                auths.as_object().ok_or(DockerFileError::Shape("auths"))?
            }
        };
        let mut keyring = Self::default();
        let mut useless = Vec::new();
        for (pattern, entry) in auths {
            match credential(entry) {
                Ok(Some(credential)) => keyring.add(pattern, credential),
                // Docker leaves an empty entry where a helper of its own keeps the secret.
                Ok(None) => {}
                Err(Useless) => useless.push(pattern.clone()),
            }
        }
        Ok((keyring, useless))
    }
}

struct Useless;

/// What an entry holds: `auth` counts more than name and password, a token more than either.
fn credential(entry: &Value) -> Result<Option<Credential>, Useless> {
    let entry = entry.as_object().ok_or(Useless)?;
    let text = |key: &str| match entry.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(value) => value.as_str().ok_or(Useless),
    };
    let (identity, registry) = (text("identitytoken")?, text("registrytoken")?);
    if !identity.is_empty() {
        return Ok(Some(Credential::Identity(identity.to_owned())));
    }
    if !registry.is_empty() {
        return Ok(Some(Credential::Registry(registry.to_owned())));
    }
    let (username, password) = match text("auth")? {
        "" => (text("username")?.to_owned(), text("password")?.to_owned()),
        auth => decode_auth(auth).ok_or(Useless)?,
    };
    let is_empty = username.is_empty() && password.is_empty();
    Ok((!is_empty).then_some(Credential::Basic { username, password }))
}

/// Base64 of `name:password`, padded or not.
fn decode_auth(auth: &str) -> Option<(String, String)> {
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = GeneralPurpose::new(&STANDARD, lenient).decode(auth.trim()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    text.split_once(':').map(|(name, password)| (name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(name: &str) -> Credential {
        Credential::Basic { username: name.into(), password: "p".into() }
    }

    #[test]
    fn patterns_as_docker_writes_them() {
        let rows = [
            ("https://hello.kubernetes.io", "hello.kubernetes.io/foo/bar", true),
            ("http://hello.kubernetes.io/", "hello.kubernetes.io/foo/bar", true),
            ("https://*.example.io/path", "prefix.example.io/path/foo", true),
            ("https://prefix.*.io:8888", "prefix.example.io:8888/foo", true),
            ("https://*.example.io/v1/", "prefix.example.io/path", true),
            ("https://*.example.io/v2/", "prefix.example.io/path", true),
            ("https://*.example.io/v2/path", "prefix.example.io/path/foo", true),
            ("https://*.example.io/v2", "prefix.example.io/path", false),
            ("https://hello.kubernetes.io", "world.mesos.org/foo/bar", false),
            ("suffix.*.io", "prefix.example.io/foo", false),
            ("https://index.docker.io/v1/", "docker.io/library/busybox", true),
            ("index.docker.io", "docker.io/me/app", true),
            ("docker.io", "docker.io/me/app", true),
            ("https://index.docker.io/v1/", "r.example/library/busybox", false),
        ];
        for (pattern, repository, expect) in rows {
            let mut keyring = Keyring::default();
            keyring.add(pattern, basic("u"));
            assert_eq!(!keyring.lookup(repository).is_empty(), expect, "{pattern} for {repository}");
        }
    }

    #[test]
    fn the_nearest_pattern_is_tried_first_and_all_that_suit_are() {
        let mut keyring = Keyring::default();
        for pattern in ["r.example", "r.example/team", "*.example", "r.example/team/app", "other.example"] {
            keyring.add(pattern, basic(pattern));
        }
        keyring.add("r.example", basic("again"));
        let names = |repository: &str| -> Vec<String> {
            let name = |found| match found {
                Credential::Basic { username, .. } => username,
                other => panic!("{other:?}"),
            };
            keyring.lookup(repository).into_iter().map(name).collect()
        };
        let all = ["r.example/team/app", "r.example/team", "r.example", "again", "*.example"];
        assert_eq!(names("r.example/team/app"), all);
        assert_eq!(names("r.example/else"), ["r.example", "again", "*.example"]);
        assert_eq!(names("elsewhere.org/a"), [""; 0]);
        // Docker Hub's own entry is for want of anything better.
        keyring.add("docker.io", basic("near"));
        keyring.add("index.docker.io", basic("hub"));
        assert_eq!(keyring.lookup("docker.io/library/a"), [basic("near")]);
    }

    #[test]
    fn files_of_docker() {
        let text = r#"{"auths": {
            "padded.io": {"auth": "dXNlcjpwYTpzcw=="}, "bare.io": {"auth": "dXNlcjpwYTpzcw"},
            "plain.io": {"username": "user", "password": "pa:ss", "email": "x"},
            "both.io": {"username": "not", "password": "this", "auth": "dXNlcjpwYTpzcw=="},
            "identity.io": {"auth": "dXNlcjo=", "identitytoken": "t"}, "registry.io": {"registrytoken": "t"},
            "helper.io": {}, "null.io": {"username": null},
            "bad64.io": {"auth": "!"}, "nocolon.io": {"auth": "dXNlcg=="}, "number.io": {"password": 5}, "list.io": []
        }, "credHelpers": {"x": "y"}}"#;
        let (keyring, useless) = Keyring::parse(text, DockerFile::ConfigJson).unwrap();
        let whole = Credential::Basic { username: "user".into(), password: "pa:ss".into() };
        for host in ["padded.io", "bare.io", "plain.io", "both.io"] {
            assert_eq!(keyring.lookup(&format!("{host}/a")), std::slice::from_ref(&whole), "{host}");
        }
        assert_eq!(keyring.lookup("identity.io/a"), [Credential::Identity("t".into())]);
        assert_eq!(keyring.lookup("registry.io/a"), [Credential::Registry("t".into())]);
        for host in ["helper.io", "null.io", "bad64.io"] {
            assert_eq!(keyring.lookup(&format!("{host}/a")), [], "{host}");
        }
        assert_eq!(useless, ["bad64.io", "list.io", "nocolon.io", "number.io"]);

        let old = r#"{"https://old.io": {"auth": "dXNlcjpwYTpzcw==", "email": "x"}}"#;
        assert_eq!(Keyring::parse(old, DockerFile::Dockercfg).unwrap().0.lookup("old.io/a"), [whole]);
        assert_eq!(Keyring::parse("{}", DockerFile::ConfigJson).unwrap(), (Keyring::default(), vec![]));
    }

    #[test]
    fn nothing_tells_a_secret() {
        for (text, error) in [
            ("{\"auths\": hunter2}", "line 1, column 11: not JSON"),
            ("{\"auths\": \"hunter2\"}", "auths is not an object"),
            ("\"hunter2\"", "the file is not an object"),
        ] {
            assert_eq!(Keyring::parse(text, DockerFile::ConfigJson).unwrap_err().to_string(), error);
        }
        for secret in [
            Credential::Basic { username: "hunter2".into(), password: "hunter2".into() },
            Credential::Identity("hunter2".into()),
            Credential::Registry("hunter2".into()),
        ] {
            let mut keyring = Keyring::default();
            keyring.add("r.io", secret);
            assert!(!format!("{keyring:?}").contains("hunter2"), "{keyring:?}");
        }
    }
}
