//! What a machine must have for the rig to run on it. What is missing fails the test: nothing is skipped.

use std::path::Path;

/// Programs and files, each with the Debian package that brings it.
const NEEDS: &[(&[&str], &str)] = &[
    (&["/usr/bin/containerd"], "containerd"),
    (&["/usr/bin/ctr"], "containerd"),
    (&["/usr/sbin/runc", "/usr/bin/runc"], "runc"),
    (&["/usr/lib/cni/bridge", "/opt/cni/bin/bridge"], "containernetworking-plugins"),
    (&["/usr/lib/cni/portmap", "/opt/cni/bin/portmap"], "containernetworking-plugins"),
    (&["/bin/busybox", "/usr/bin/busybox"], "busybox-static"),
    (&["/usr/sbin/iptables", "/sbin/iptables"], "iptables"),
    (&["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"], "iproute2"),
    (&["/usr/bin/nsenter"], "util-linux"),
    (&["/lib/systemd/systemd"], "systemd"),
    (&["/usr/bin/mount", "/bin/mount"], "mount"),
    (&["/usr/bin/cc"], "gcc"),
    (&["/usr/include/stdlib.h"], "libc6-dev"),
    (&["/usr/bin/minisign"], "minisign"),
    (&["/usr/sbin/nginx"], "nginx"),
    (&["/usr/bin/openssl"], "openssl"),
];

/// The same for a rig with a registry.
const REGISTRY_NEEDS: &[(&[&str], &str)] =
    &[(&["/usr/bin/docker-registry"], "docker-registry"), (&["/usr/bin/htpasswd"], "apache2-utils")];

/// Fails with one line that says what to do, if the machine cannot run a rig.
pub(crate) fn check() {
    assert!(
        rustix::process::geteuid().is_root(),
        "the end-to-end tests need root: run `sudo -E make test`, or be root"
    );
    check_all(NEEDS);
}

/// The same, if it cannot run a registry.
pub(crate) fn check_registry() {
    check_all(REGISTRY_NEEDS);
}

fn check_all(needs: &[(&[&'static str], &'static str)]) {
    let mut missing: Vec<&str> =
        needs.iter().filter(|(paths, _)| find(paths).is_none()).map(|&(_, package)| package).collect();
    missing.dedup();
    assert!(
        missing.is_empty(),
        "missing packages: run `make deps` or `apt-get install {}`",
        missing.join(" ")
    );
}

/// The first of these paths that exists.
pub(crate) fn find(paths: &[&'static str]) -> Option<&'static str> {
    paths.iter().copied().find(|path| Path::new(path).exists())
}

/// The static busybox.
pub(crate) fn busybox() -> &'static str {
    find(&["/bin/busybox", "/usr/bin/busybox"]).expect("checked by needs::check")
}

/// The directory of the CNI plugins.
pub(crate) fn cni_plugins() -> &'static str {
    find(&["/usr/lib/cni", "/opt/cni/bin"]).expect("checked by needs::check")
}
