//! Who takes part.

use std::fs;
use std::path::{Path, PathBuf};

use crate::reference;
use crate::settings::Settings;

/// The reference's name.
pub(crate) const KUBELET: &str = "kubelet";
/// Ours.
pub(crate) const RKUBELET: &str = "rkubelet";
/// Ours, with the feature `apiserver`.
pub(crate) const RKUBELET_APISERVER: &str = "rkubelet-apiserver";
/// The bare CRI client.
pub(crate) const LIMIT: &str = "limit";
/// The bare CRI client at one width, which follows.
pub(crate) const LIMIT_AT: &str = "limit-at-";

/// An agent to measure.
pub(crate) struct Contestant {
    /// One of the names above.
    pub(crate) name: &'static str,
    /// Its executable.
    pub(crate) program: PathBuf,
}

impl Contestant {
    /// The size of the executable in MiB.
    pub(crate) fn size_mib(&self) -> f64 {
        let size = fs::metadata(&self.program).expect("read the size of an executable").len();
        size as f64 / f64::from(1 << 20)
    }
}

/// The agents that take part; `dir` is where `make bench` puts ours.
pub(crate) fn contestants(settings: &Settings, dir: &Path) -> Vec<Contestant> {
    let mut found = Vec::new();
    if settings.has_agent(KUBELET) {
        let build = || reference::build(dir, "kubelet", "k8s.io/kubernetes/cmd/kubelet");
        let program = settings.reference.clone().unwrap_or_else(build);
        found.push(Contestant { name: KUBELET, program });
    }
    for name in [RKUBELET, RKUBELET_APISERVER] {
        if settings.has_agent(name) {
            let program = dir.join(name);
            assert!(program.exists(), "{} is missing: run `make bench`", program.display());
            found.push(Contestant { name, program });
        }
    }
    found
}
