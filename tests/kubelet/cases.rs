//! The cases of the corpus of configurations, and how each becomes a command line.
//!
//! A case is a line of `fields.txt` (fields over a configuration that kubelet starts with), a line of `flags.txt` (flags
//! after such flags), or an entry of `files/` (a whole file, or a directory with a file and drop-ins).

use std::fs;
use std::path::{Path, PathBuf};

/// What a machine must offer: where things are.
pub(crate) struct Place {
    /// A directory for the case's own files.
    pub(crate) directory: PathBuf,
    /// The endpoint of a runtime.
    pub(crate) endpoint: String,
}

/// One configuration.
pub(crate) enum Case {
    /// Fields, in YAML's flow style.
    Fields(String),
    /// Flags.
    Flags(String),
    /// A file, or a directory with `config.yaml` and `conf.d`.
    File(PathBuf),
}

/// Settings that kubelet needs to start on the machine of a test: in standalone mode nobody can be asked who may do what,
/// and the machine may have swap and cgroups of version 1.
const BASE_FIELDS: &[(&str, &str)] = &[
    ("authentication", "{anonymous: {enabled: true}, webhook: {enabled: false}}"),
    ("authorization", "{mode: AlwaysAllow}"),
    ("cgroupDriver", "cgroupfs"),
    ("failSwapOn", "false"),
    ("failCgroupV1", "false"),
    ("oomScoreAdj", "0"),
];

/// The same as flags.
const BASE_FLAGS: &[&str] = &[
    "--anonymous-auth=true",
    "--authentication-token-webhook=false",
    "--authorization-mode=AlwaysAllow",
    "--cgroup-driver=cgroupfs",
    "--fail-swap-on=false",
    "--fail-cgroupv1=false",
    "--oom-score-adj=0",
];

/// The directory of the corpus.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubelet")
}

/// Every case with its name, in the order of the corpus.
pub(crate) fn cases() -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for line in lines("fields.txt") {
        cases.push((format!("field {line}"), Case::Fields(line)));
    }
    for line in lines("flags.txt") {
        cases.push((format!("flags {line}"), Case::Flags(line)));
    }
    let entries = fs::read_dir(directory().join("files")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        cases.push((format!("file {}", path.file_name().unwrap().to_str().unwrap()), Case::File(path)));
    }
    cases
}

/// The lines of a file of the corpus that are no comments.
pub(crate) fn lines(name: &str) -> Vec<String> {
    let text = fs::read_to_string(directory().join(name)).unwrap();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

impl Case {
    /// The command line, its files written.
    pub(crate) fn arguments(&self, place: &Place) -> Vec<String> {
        let directory = place.directory.display();
        let mut arguments = vec![
            format!("--root-dir={directory}/root"),
            format!("--cert-dir={directory}/pki"),
            "--hostname-override=node1".to_owned(),
            "--node-ip=127.0.0.1".to_owned(),
        ];
        let endpoint = format!("--container-runtime-endpoint={}", place.endpoint);
        match self {
            Self::Fields(fields) => {
                let config = place.directory.join("config.yaml");
                fs::write(&config, configuration(fields, place)).unwrap();
                arguments.push(format!("--config={}", config.display()));
            }
            Self::Flags(flags) => {
                arguments.push(endpoint);
                arguments.extend(BASE_FLAGS.iter().map(|&flag| flag.to_owned()));
                arguments.extend(flags.split(' ').map(str::to_owned));
            }
            Self::File(path) => {
                arguments.push(endpoint);
                arguments.extend(BASE_FLAGS.iter().map(|&flag| flag.to_owned()));
                let config = if path.is_dir() { path.join("config.yaml") } else { path.clone() };
                if config.exists() {
                    arguments.push(format!("--config={}", config.display()));
                }
                if path.is_dir() {
                    arguments.push(format!("--config-dir={}", path.join("conf.d").display()));
                }
            }
        }
        arguments
    }
}

/// The case's fields and those of the base that it does not have.
fn configuration(fields: &str, place: &Place) -> String {
    let inner = fields.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(fields);
    let has = |key: &str| format!(", {inner}").contains(&format!(", {key}:"));
    // kubelet takes a text that begins with a brace for JSON.
    let mut text =
        String::from("---\n{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration");
    let endpoint = format!("'{}'", place.endpoint);
    let own = [("containerRuntimeEndpoint", endpoint.as_str())];
    for (key, value) in BASE_FIELDS.iter().copied().chain(own) {
        if !has(key) {
            text += &format!(", {key}: {value}");
        }
    }
    format!("{text}, {inner}}}\n")
}
