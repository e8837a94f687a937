//! Where containers land on cgroup v2, and with which limits, for both cgroup drivers.

use super::machine::{Boot, Machine};
use super::node;

/// The pods: a name, its resources, its class as a part of the cgroup's path, what the cgroups hold, `oom_score_adj`.
struct Case {
    name: &'static str,
    resources: &'static str,
    class: &'static str,
    memory: &'static str,
    cpu: &'static str,
    weight: &'static str,
    oom_score_adj: std::ops::RangeInclusive<i32>,
}

const CASES: &[Case] = &[
    Case {
        name: "guaranteed",
        resources: "    resources: {limits: {memory: 64Mi, cpu: 250m}}\n",
        class: "",
        memory: "67108864",
        cpu: "25000 100000",
        weight: "10",
        oom_score_adj: -997..=-997,
    },
    Case {
        name: "burstable",
        resources: "    resources: {requests: {memory: 32Mi}, limits: {memory: 96Mi}}\n",
        class: "burstable",
        memory: "100663296",
        cpu: "max 100000",
        weight: "1",
        oom_score_adj: 900..=999,
    },
    Case {
        name: "besteffort",
        resources: "",
        class: "besteffort",
        memory: "max",
        cpu: "max 100000",
        weight: "1",
        oom_score_adj: 1000..=1000,
    },
];

/// Has containerd use a driver; what it runs is unchanged until it is made anew.
fn set_driver(machine: &mut Machine, systemd: bool) {
    machine.sh(&format!(
        "sed -i 's/SystemdCgroup = .*/SystemdCgroup = {systemd}/' /etc/containerd/config.toml; sync /etc/containerd/config.toml"
    ));
}

pub(crate) fn with_the_driver_cgroupfs(machine: &mut Machine) {
    check(machine, false);
}

pub(crate) fn with_the_driver_systemd(machine: &mut Machine) {
    set_driver(machine, true);
    machine.shut_down("reboot");
    machine.boot(&Boot::default());
    node::wait_for_agent(machine);
    let names = node::manifests(machine);
    node::wait_at_rest(machine, &names);
    check(machine, true);
    // Not only new pods: those that were there before the change run in slices as well.
    let outside = machine
        .sh("for pid in $(ctr -n k8s.io tasks ls | awk 'NR > 1 && $3 == \"RUNNING\" { print $2 }'); do\n\
         grep -H -v '^0::/kubepods\\.slice/' /proc/$pid/cgroup; done; true");
    assert_eq!(outside, "", "{}", machine.report());
}

fn check(machine: &mut Machine, systemd: bool) {
    let driver = if systemd { "systemd" } else { "cgroupfs" };
    for case in CASES {
        node::put(machine, case.name, &node::idle(case.name, case.name, case.resources));
    }
    let names = node::manifests(machine);
    let pods = node::wait_at_rest(machine, &names);
    let mut faults = Vec::new();
    for case in CASES {
        let pod = &pods[case.name];
        let pid = node::process(machine, pod, 0);
        let cgroup = machine.sh(&format!("sed -n 's/^0:://p' /proc/{pid}/cgroup")).trim().to_owned();
        let uid = pod["metadata"]["uid"].as_str().expect("a UID");
        let annotation = &pod["metadata"]["annotations"]["kubernetes.io/config.hash"];
        assert!(annotation.is_string(), "{pod:#}");
        let expect = match (systemd, case.class) {
            (false, "") => format!("/kubepods/pod{uid}/"),
            (false, class) => format!("/kubepods/{class}/pod{uid}/"),
            (true, "") => {
                format!("/kubepods.slice/kubepods-pod{}.slice/cri-containerd-", uid.replace('-', "_"))
            }
            (true, class) => format!(
                "/kubepods.slice/kubepods-{class}.slice/kubepods-{class}-pod{}.slice/cri-containerd-",
                uid.replace('-', "_")
            ),
        };
        let mut compare = |what: &str, found: &str, expect: &str| {
            if found.trim() != expect {
                faults.push(format!("{driver}, {}: {what} is {:?}, not {expect:?}", case.name, found.trim()));
            }
        };
        if !cgroup.starts_with(&expect) {
            compare("the cgroup", &cgroup, &format!("{expect}..."));
        }
        let container = format!("/sys/fs/cgroup{cgroup}");
        let parent = container.rsplit_once('/').expect("a path").0.to_owned();
        // The limit holds for the container, and for the pod where all its containers have one.
        for (what, dir) in [("container", &container), ("pod", &parent)] {
            let limits = [("memory.max", case.memory), ("cpu.max", case.cpu), ("cpu.weight", case.weight)];
            for (file, expect) in limits {
                let found = machine.answer(&format!("cat {dir}/{file}")).text;
                compare(&format!("{file} of the {what}"), &found, expect);
            }
        }
        let found = machine.answer(&format!("cat {parent}/pids.max")).text;
        compare("pids.max of the pod", &found, &node::PIDS.to_string());
        let adjusted = machine.sh(&format!("cat /proc/{pid}/oom_score_adj"));
        if !adjusted.trim().parse().is_ok_and(|value| case.oom_score_adj.contains(&value)) {
            compare("oom_score_adj", &adjusted, &format!("{:?}", case.oom_score_adj));
        }
    }
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), machine.report());
    for case in CASES {
        node::take_away(machine, case.name);
    }
    let names = node::manifests(machine);
    node::wait_at_rest(machine, &names);
    // What was made for a pod goes with it.
    machine.wait("the cgroups of the pods to go", |machine| {
        CASES.iter().all(|case| {
            let uid = pods[case.name]["metadata"]["uid"].as_str().expect("a UID");
            let uid = if systemd { uid.replace('-', "_") } else { uid.to_owned() };
            machine.sh(&format!("find /sys/fs/cgroup -type d -name '*pod{uid}*'")).is_empty()
        })
    });
}
