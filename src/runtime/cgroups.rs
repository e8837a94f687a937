//! Which cgroup driver is used: the runtime's where it tells, else the configured one.

use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::{Runtime, StartError};
use crate::pod::Pod;
use crate::pod::cgroup_name::CgroupDriver;

/// What runc says where it is given a name of cgroupfs, and has systemd make its cgroups.
const WANTS_SLICE: &str = "slice:prefix:name";

/// How long an answer of the runtime counts.
const ASK_AGAIN: Duration = Duration::from_secs(60);

impl Runtime {
    /// The driver, asked for again when the answer is old: a runtime that was restarted may have another.
    ///
    /// # Errors
    /// When the runtime cannot be asked.
    pub(super) async fn cgroup_driver(&self) -> Result<CgroupDriver, StartError> {
        let mut known = self.cgroup_driver.lock().await;
        if let Some((driver, asked)) = *known
            && asked.elapsed() < ASK_AGAIN
        {
            return Ok(driver);
        }
        let told = match self.cri.cgroup_driver().await {
            Ok(told) => told,
            Err(error) if error.is_away() => return Err(StartError::Away(error)),
            Err(error) => {
                warn!(%error, "the container runtime does not tell its cgroup driver");
                None
            }
        };
        let (driver, mismatch) = select_driver(told, self.node.cgroup_driver);
        if known.is_none_or(|(before, _)| before != driver) {
            if let Some(mismatch) = mismatch {
                warn!("{mismatch}");
            }
            info!(driver = driver.as_str(), told_by_runtime = told.is_some(), "cgroup driver");
            self.node.cgroups.set_driver(driver);
        }
        *known = Some((driver, Instant::now()));
        Ok(driver)
    }

    /// What the runtime is told as the parent of a pod's cgroups.
    ///
    /// # Errors
    /// When the runtime cannot be asked for its driver.
    pub(super) async fn cgroup_parent(&self, pod: &Pod) -> Result<String, StartError> {
        Ok(self.node.cgroups.parent(pod, self.cgroup_driver().await?))
    }
}

/// The driver, and what to say if the configuration names another than the runtime has.
fn select_driver(
    told: Option<CgroupDriver>,
    configured: Option<CgroupDriver>,
) -> (CgroupDriver, Option<String>) {
    let driver = told.or(configured).unwrap_or(CgroupDriver::Cgroupfs);
    let mismatch = configured.filter(|configured| *configured != driver).map(|configured| {
        let (ours, theirs) = (configured.as_str(), driver.as_str());
        format!(
            "cgroupDriver (--cgroup-driver) is {ours}, but the container runtime uses {theirs}: {theirs} is used. \
             Set cgroupDriver: {theirs}, or SystemdCgroup = {} in containerd's configuration, and restart",
            configured == CgroupDriver::Systemd
        )
    });
    (driver, mismatch)
}

/// What to do about a sandbox that the runtime refuses because it has another driver.
pub(super) fn driver_advice(refusal: &str) -> Option<String> {
    refusal.contains(WANTS_SLICE).then(|| {
        format!(
            "the container runtime has systemd make its cgroups, and rkubelet names them for cgroupfs or not at all: \
             set cgroupDriver: systemd (--cgroup-driver=systemd) and cgroupsPerQOS: true, or SystemdCgroup = false in \
             containerd's configuration ({refusal})"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_driver_counts() {
        use CgroupDriver::{Cgroupfs, Systemd};
        let rows = [
            (None, None, Cgroupfs, None),
            (None, Some(Systemd), Systemd, None),
            (Some(Systemd), None, Systemd, None),
            (Some(Systemd), Some(Systemd), Systemd, None),
            (
                Some(Systemd),
                Some(Cgroupfs),
                Systemd,
                Some("Set cgroupDriver: systemd, or SystemdCgroup = false"),
            ),
            (
                Some(Cgroupfs),
                Some(Systemd),
                Cgroupfs,
                Some("Set cgroupDriver: cgroupfs, or SystemdCgroup = true"),
            ),
        ];
        for (told, configured, expect, words) in rows {
            let (driver, mismatch) = select_driver(told, configured);
            assert_eq!(driver, expect, "{told:?} {configured:?}");
            match words {
                Some(words) => assert!(mismatch.unwrap().contains(words), "{told:?} {configured:?}"),
                None => assert_eq!(mismatch, None, "{told:?} {configured:?}"),
            }
        }
        let refusal = r#"expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups"#;
        assert!(driver_advice(refusal).unwrap().contains("--cgroup-driver=systemd"));
        assert_eq!(driver_advice("no such image"), None);
    }
}
