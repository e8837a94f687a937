//! Where credentials come from: docker's files on the node, and plugins.
//!
//! Read anew at each pull, so that a file that changes counts at once. Secrets go to the runtime and nowhere else.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing::{debug, warn};

use super::plugin::Plugin;
use crate::pod::image::keyring::{Credential, DockerFile, DockerFileError, Keyring};
use crate::pod::image::provider::Provider;
use crate::text::chain;
use crate::text::last_logged::LastLogged;

/// No file of credentials is larger.
const MAX_BYTES: u64 = 10 << 20;
/// The bit of a file's mode by which others read it.
const OTHERS_READ: u32 = 0o004;

/// All sources of credentials.
#[derive(Debug)]
pub(super) struct Credentials {
    files: Vec<(PathBuf, DockerFile)>,
    plugins: Vec<Plugin>,
    /// The last problem with each file.
    logged: Mutex<BTreeMap<PathBuf, LastLogged>>,
}

/// What was found for a repository.
#[derive(Debug, Default)]
pub(super) struct FoundCredentials {
    /// To be tried in this order.
    pub(super) credentials: Vec<Credential>,
    /// What could not be asked, and why.
    pub(super) complaints: Vec<String>,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
enum CredentialFileError {
    #[error("cannot read the file")]
    Read(#[source] io::Error),
    #[error("not a file of credentials")]
    Parse(#[source] DockerFileError),
}

/// A file that was used.
#[derive(Debug)]
struct Loaded {
    keyring: Keyring,
    /// What should be mended about it.
    faults: Vec<String>,
}

/// Where docker's files are looked for, as kubelet does: the first one that can be used is used, the old format after
/// the new one.
pub(super) fn search_paths(root_dir: PathBuf, home: Option<OsString>) -> Vec<(PathBuf, DockerFile)> {
    let home = home.filter(|home| !home.is_empty()).map(PathBuf::from);
    let here = std::env::current_dir().ok();
    let (new, old) = (DockerFile::ConfigJson, DockerFile::Dockercfg);
    let file_in = |dir: Option<&PathBuf>, name: &str, file| dir.map(|dir| (dir.join(name), file));
    [
        file_in(Some(&root_dir), "config.json", new),
        file_in(here.as_ref(), "config.json", new),
        file_in(home.as_ref(), ".docker/config.json", new),
        Some(("/.docker/config.json".into(), new)),
        file_in(Some(&root_dir), ".dockercfg", old),
        file_in(here.as_ref(), ".dockercfg", old),
        file_in(home.as_ref(), ".dockercfg", old),
        Some(("/.dockercfg".into(), old)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Credentials {
    /// Credentials from these files, and then from the plugins of these providers in `plugin_dir`.
    pub(super) fn new(
        files: Vec<(PathBuf, DockerFile)>,
        providers: Vec<Provider>,
        plugin_dir: PathBuf,
    ) -> Self {
        let plugins = providers.into_iter().map(|provider| Plugin::new(provider, &plugin_dir)).collect();
        Self { files, plugins, logged: Mutex::default() }
    }

    /// The credentials for a repository: those of the file, then those of plugins.
    pub(super) async fn find(&self, repository: &str) -> FoundCredentials {
        let mut found = FoundCredentials::default();
        if let Some(keyring) = self.read_files().await {
            found.credentials = keyring.lookup(repository);
        }
        let mut answered = Keyring::default();
        for plugin in self.plugins.iter().filter(|plugin| plugin.provider.is_for(repository)) {
            match plugin.ask(repository).await {
                Ok(keyring) => answered.merge(&keyring),
                Err(error) => {
                    found.complaints.push(format!("credential provider {}: {error}", plugin.provider.name));
                }
            }
        }
        found.credentials.extend(answered.lookup(repository));
        found
    }

    async fn read_files(&self) -> Option<Keyring> {
        let files = self.files.clone();
        let read = smol::unblock(move || {
            let read = files.into_iter().map(|(path, file)| (load(&path, file), path));
            let mut seen = Vec::new();
            for (loaded, path) in read {
                let is_good = matches!(loaded, Ok(Some(_)));
                seen.push((path, loaded));
                if is_good {
                    break;
                }
            }
            seen
        });
        let mut keyring = None;
        for (path, loaded) in read.await {
            let problem = match loaded {
                Ok(None) => String::new(),
                Ok(Some(loaded)) => {
                    debug!(path = %path.display(), "credentials");
                    keyring = Some(loaded.keyring);
                    loaded.faults.join("; ")
                }
                Err(error) => chain(&error),
            };
            self.log_problem(path, problem);
        }
        keyring
    }

    /// Logs what is wrong with a file, on change.
    fn log_problem(&self, path: PathBuf, problem: String) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if problem.is_empty() {
            logged.remove(&path);
        } else if logged.entry(path.clone()).or_default().is_new(&problem) {
            warn!(path = %path.display(), problem, "credentials for images");
        }
    }
}

/// Reads a file; none if there is none.
fn load(path: &Path, file: DockerFile) -> Result<Option<Loaded>, CredentialFileError> {
    let mut opened = match File::open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened.map_err(CredentialFileError::Read)?,
    };
    let mode = opened.metadata().map_err(CredentialFileError::Read)?.permissions().mode();
    let mut text = String::new();
    opened.by_ref().take(MAX_BYTES).read_to_string(&mut text).map_err(CredentialFileError::Read)?;
    let (keyring, useless) = Keyring::parse(&text, file).map_err(CredentialFileError::Parse)?;
    let mut faults = Vec::new();
    if mode & OTHERS_READ != 0 {
        faults.push("every user of this machine can read the file".to_owned());
    }
    if !useless.is_empty() {
        faults.push(format!("entries of no use: {}", useless.join(", ")));
    }
    Ok(Some(Loaded { keyring, faults }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ENTRY: &str = r#"{"auths": {"r.io": {"username": "NAME", "password": "p"}}}"#;

    fn names(found: &FoundCredentials) -> Vec<&str> {
        let names = found.credentials.iter().map(|found| match found {
            Credential::Basic { username, .. } => username.as_str(),
            other => panic!("{other:?}"),
        });
        names.collect()
    }

    #[test]
    fn the_first_file_that_can_be_used_is_used_and_read_anew() {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<_> =
            ["a", "b", "c"].map(|name| (dir.path().join(name), DockerFile::ConfigJson)).into();
        let credentials = Credentials::new(files, vec![], PathBuf::new());
        let find = || smol::block_on(credentials.find("r.io/x"));
        assert_eq!(names(&find()), [""; 0]);
        fs::write(dir.path().join("c"), ENTRY.replace("NAME", "c")).unwrap();
        assert_eq!(names(&find()), ["c"]);
        fs::write(dir.path().join("b"), "{").unwrap();
        assert_eq!(names(&find()), ["c"], "one that is damaged is passed over");
        fs::write(dir.path().join("b"), ENTRY.replace("NAME", "b")).unwrap();
        assert_eq!(names(&find()), ["b"]);
        fs::create_dir(dir.path().join("a")).unwrap();
        assert_eq!(names(&find()), ["b"], "a directory is passed over");
        assert!(find().complaints.is_empty());
    }

    #[test]
    fn a_file_that_everybody_can_read_is_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        fs::write(&path, r#"{"auths": {"a.io": {"auth": "!"}}}"#).unwrap();
        for (mode, faults) in [(0o600, 1), (0o640, 1), (0o644, 2)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let loaded = load(&path, DockerFile::ConfigJson).unwrap().unwrap();
            assert_eq!(loaded.faults.len(), faults, "{mode:o}: {:?}", loaded.faults);
        }
    }

    #[test]
    fn places_of_files() {
        let paths = search_paths("/root-dir".into(), Some("/home/me".into()));
        let named = |path: &str| paths.iter().position(|(found, _)| found == Path::new(path));
        let order = [
            "/root-dir/config.json",
            "/home/me/.docker/config.json",
            "/.docker/config.json",
            "/root-dir/.dockercfg",
            "/home/me/.dockercfg",
            "/.dockercfg",
        ];
        let places: Vec<_> = order.iter().map(|path| named(path).expect(path)).collect();
        assert!(places.is_sorted(), "{paths:?}");
        assert_eq!(search_paths("/root-dir".into(), None).len(), paths.len() - 2);
    }
}
