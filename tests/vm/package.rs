//! The Debian package's life on a node: installed, upgraded, removed and purged by apt, while its pods run.

use super::machine::Machine;
use super::{install, node};

/// The versions that the payload has, oldest first.
pub(crate) const VERSIONS: [&str; 2] = ["0.0.1", "0.0.2"];

fn apt(machine: &mut Machine, arguments: &str) -> String {
    machine.sh(&format!("DEBIAN_FRONTEND=noninteractive apt-get -q -y {arguments}"))
}

fn install_version(machine: &mut Machine, version: &str) {
    apt(machine, &format!("install /opt/rkubelet/packages/rkubelet_{version}_amd64.deb"));
    let found = machine.sh("dpkg-query -W -f '${Version} ${Status}' rkubelet");
    assert_eq!(found, format!("{version} install ok installed"));
    assert_eq!(
        machine.sh("systemctl is-active rkubelet; systemctl is-enabled rkubelet"),
        "active\nenabled\n"
    );
}

pub(crate) fn apt_installs_upgrades_and_removes_it(machine: &mut Machine) {
    let names = node::manifests(machine);
    node::wait_at_rest(machine, &names);
    let tasks = node::tasks(machine);
    assert!(tasks.len() > 2, "{tasks:?}");
    let untouched = |machine: &mut Machine, what: &str| {
        assert_eq!(node::tasks(machine), tasks, "after {what}: {}", machine.report());
    };
    // What was installed by hand makes way.
    machine.sh("systemctl disable --now rkubelet\n\
         rm /etc/systemd/system/rkubelet.service /usr/local/bin/rkubelet /etc/default/rkubelet; systemctl daemon-reload");
    untouched(machine, "the removal by hand");

    install_version(machine, VERSIONS[0]);
    node::open_port(machine);
    node::wait_for_agent(machine);
    node::wait_at_rest(machine, &names);
    untouched(machine, "the installation");
    let pid = machine.sh("systemctl show -P MainPID rkubelet");

    install_version(machine, VERSIONS[1]);
    node::wait_for_agent(machine);
    node::wait_at_rest(machine, &names);
    untouched(machine, "the upgrade");
    assert_ne!(machine.sh("systemctl show -P MainPID rkubelet"), pid, "an upgrade restarts the agent");
    assert!(machine.holds("grep -q read-only-port /etc/default/rkubelet"), "what a person wrote stays");

    let said = apt(machine, "remove rkubelet");
    assert!(said.contains("its pods run on"), "{said}");
    assert_ne!(machine.answer("systemctl is-active rkubelet").code, 0, "no agent runs");
    untouched(machine, "the removal");
    let said = apt(machine, "purge rkubelet");
    assert!(said.contains("/var/lib/kubelet stays"), "{said}");
    untouched(machine, "the purge");
    let left = machine.sh("find / -xdev -iname '*rkubelet*' -not -path '/opt/*' -not -path '/var/log/*' \
         -not -path '/var/lib/kubelet/*' -not -path '/proc/*' -not -path '/sys/*' -not -path '/var/lib/containerd/*'");
    assert_eq!(left, "", "the purge takes all that is the package's");
    assert!(!node::manifests(machine).is_empty(), "manifests are the administrator's");

    // As the next scenario expects it.
    install::install(machine);
    node::open_port(machine);
    node::wait_for_agent(machine);
    node::wait_at_rest(machine, &names);
    untouched(machine, "the installation by hand");
}
