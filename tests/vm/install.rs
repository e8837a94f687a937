//! Installing as a user does: the lines of the README, on a machine that has never seen the agent.

use super::machine::Machine;
use super::node;

const README: &str = include_str!("../../README.md");

/// The commands that the README gives for a real node, but for the build, and without sudo: the machine's user is root.
fn commands() -> Vec<String> {
    let section = README.split("Or by hand:").nth(1).expect("the README tells how to install by hand");
    let block = section.lines().skip_while(|line| line.trim().is_empty());
    let block =
        block.take_while(|line| line.starts_with("    ")).map(|line| line.trim().replace("sudo ", ""));
    block.filter(|line| line != "make build").collect()
}

/// Does what the README says.
pub(crate) fn install(machine: &mut Machine) {
    let commands = commands();
    assert!(commands.len() >= 4, "{commands:?}");
    let (last, first) = commands.split_last().expect("commands");
    assert!(last.contains("enable --now rkubelet"), "{last}");
    machine.sh(&format!("set -e; cd /opt/rkubelet\n{}", first.join("\n")));
    // The service is said to have started: from that moment on it answers, at the first try.
    let text = machine.sh(&format!("set -e; {last}\ncurl -sf --max-time 10 http://127.0.0.1:10248/healthz"));
    assert!(text.ends_with("ok"), "{text}");
}

pub(crate) fn as_the_readme_says(machine: &mut Machine) {
    assert!(machine.holds("stat -f -c %T /sys/fs/cgroup | grep -qx cgroup2fs"), "the machine has cgroup v2");
    machine.wait("containerd", |machine| machine.holds("ctr version"));
    install(machine);
    assert_eq!(machine.sh("systemctl is-active rkubelet").trim(), "active");
    assert_eq!(machine.sh("systemctl is-enabled rkubelet").trim(), "enabled");
    assert_eq!(machine.sh("systemctl show -P NRestarts rkubelet").trim(), "0", "{}", machine.report());
    let journal = node::journal(machine);
    assert!(!journal.contains("kernel's log"), "the unit lets it read the kernel's log: {journal}");
    let verify = machine.answer("systemd-analyze verify /etc/systemd/system/rkubelet.service");
    assert_eq!((verify.code, verify.text.trim()), (0, ""), "the unit file is sound");
    let exposure = machine.sh("systemd-analyze security rkubelet --no-pager | tail -n 1");
    let figure: Option<f32> = exposure.split_whitespace().find_map(|word| word.parse().ok());
    assert!(figure.is_some_and(|figure| figure <= 6.0), "docs/systemd.md says 6.0: {exposure}");
    println!(
        "    {}",
        machine.sh("containerd --version; runc --version | head -n 1; uname -r").replace('\n', "; ")
    );
}

pub(crate) fn the_examples_run(machine: &mut Machine) {
    machine.sh(&format!("cp /opt/rkubelet/manifests/*.yaml {}/; sync", node::MANIFESTS));
    let names = node::manifests(machine);
    assert!(names.contains("shop") && names.contains("web") && names.contains("job"), "{names:?}");
    node::wait_at_rest(machine, &names);
    let page = machine.sh("curl -sf --max-time 10 http://192.0.2.10:18080/");
    assert!(page.starts_with("started "), "{page}");
    // `shop` starts when `store` is ready.
    let started = |pods: &std::collections::BTreeMap<String, serde_json::Value>, name: &str| {
        let status = &pods[name]["status"]["containerStatuses"][0];
        status["state"]["running"]["startedAt"].as_str().expect("it runs").to_owned()
    };
    let pods = node::pods(machine).expect("the agent answers");
    assert!(started(&pods, "store") <= started(&pods, "shop"), "{pods:#?}");
}
