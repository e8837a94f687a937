//! Directories of other machines (`nfs`), mounted by the system's own program. Blocking.

use std::ffi::OsString;
use std::net::Ipv6Addr;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::NFSVolumeSource;

use super::VolumeError;
use crate::host::files::make_dir;
use crate::host::mounts::is_mounted_unseen;
use crate::host::program::run_program;

/// How long a mount may take; then it is tried again.
const DEADLINE: Duration = Duration::from_secs(60);

/// What to mount, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nfs {
    source: String,
    read_only: bool,
}

impl Nfs {
    /// What a manifest says of it.
    pub(super) fn new(source: &NFSVolumeSource) -> Self {
        let server = &source.server;
        let is_v6 = server.parse::<Ipv6Addr>().is_ok();
        let server = if is_v6 { format!("[{server}]") } else { server.clone() };
        let read_only = source.read_only == Some(true);
        Self { source: format!("{server}:{}", source.path), read_only }
    }

    /// The arguments of the mount program.
    fn arguments(&self, at: &Path) -> Vec<OsString> {
        let options: &[&str] = if self.read_only { &["-t", "nfs", "-o", "ro"] } else { &["-t", "nfs"] };
        let mut arguments: Vec<OsString> = options.iter().map(Into::into).collect();
        arguments.extend([OsString::from(&self.source), at.into()]);
        arguments
    }

    /// Mounts it, unless something is mounted there.
    pub(super) fn mount(&self, at: &Path) -> Result<(), VolumeError> {
        self.mount_with("mount", at, DEADLINE)
    }

    fn mount_with(&self, program: &str, at: &Path, deadline: Duration) -> Result<(), VolumeError> {
        if is_mounted_unseen(at)? {
            return Ok(());
        }
        make_dir(at, 0o750)?;
        let failed = |source| VolumeError::Mount { volume: self.source.clone(), source };
        run_program(program, &self.arguments(at), deadline).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use serde_json::{Value, json};

    use super::*;
    use crate::text::chain;

    fn nfs(source: Value) -> Nfs {
        Nfs::new(&serde_json::from_value(source).unwrap())
    }

    #[test]
    fn arguments_as_kubelet_gives_them() {
        let rows = [
            (json!({"server": "nas", "path": "/data"}), "-t nfs nas:/data /at"),
            (json!({"server": "nas", "path": "/", "readOnly": true}), "-t nfs -o ro nas:/ /at"),
            (json!({"server": "192.0.2.1", "path": "/a b"}), "-t nfs 192.0.2.1:/a b /at"),
            (json!({"server": "2001:db8::1", "path": "/d"}), "-t nfs [2001:db8::1]:/d /at"),
        ];
        for (source, expect) in rows {
            let arguments = nfs(source).arguments(Path::new("/at"));
            let text: Vec<_> = arguments.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(text.join(" "), expect);
        }
    }

    #[test]
    fn what_the_program_says_is_told_and_one_that_hangs_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let at = dir.path().join("v/kubernetes.io~nfs/data");
        let nfs = nfs(json!({"server": "nas", "path": "/data"}));
        let said = dir.path().join("said");
        let good = script("good", &format!("echo \"$@\" > {}", said.display()));
        nfs.mount_with(&good, &at, DEADLINE).unwrap();
        assert!(at.is_dir());
        assert_eq!(fs::read_to_string(said).unwrap(), format!("-t nfs nas:/data {}\n", at.display()));
        let bad = script("bad", "echo 'mount.nfs: access denied by server' >&2\nexit 32");
        let error = nfs.mount_with(&bad, &at, DEADLINE).unwrap_err();
        assert_eq!(
            chain(&error),
            "mount of nas:/data failed: exit code 32: mount.nfs: access denied by server"
        );
        let begun = Instant::now();
        let hangs = script("hangs", "sleep 1000 >/dev/null 2>&1 &\nexec sleep 1000");
        let error = nfs.mount_with(&hangs, &at, Duration::from_millis(200)).unwrap_err();
        assert_eq!(chain(&error), "mount of nas:/data failed: it did not end within 200ms, and was killed");
        assert!(begun.elapsed() < Duration::from_secs(10));
        let none = nfs.mount_with("/nonexistent/mount", &at, DEADLINE).unwrap_err();
        assert!(chain(&none).contains("cannot run /nonexistent/mount"), "{}", chain(&none));
    }
}
