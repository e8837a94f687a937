//! A resolver that never answers: whoever does not depend on it notices nothing.

use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::manifest::IDLE;
use crate::probes::{container, pod, probe};
use crate::rig::{Agent, Rig};

/// A name server that takes every question and answers none.
fn silent_name_server(rig: &Rig) -> UdpSocket {
    let pid = rig.machine().first_pid();
    let bind = move || {
        let network =
            fs::File::open(format!("/proc/{pid}/ns/net")).expect("open the rig's network namespace");
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("enter the rig's network namespace");
        UdpSocket::bind("127.0.0.1:53").expect("listen inside the rig")
    };
    std::thread::spawn(bind).join().expect("a thread that binds")
}

/// The agent with that name server, and one name in its hosts file.
fn start<'rig>(rig: &'rig Rig, more: &[&str]) -> Agent<'rig> {
    let file = |name: &str, text: &str| {
        let path = rig.dir().join(name);
        fs::write(&path, text).expect("write a file of the resolver");
        path.display().to_string()
    };
    let script = format!(
        "mount --bind {} /etc/resolv.conf; mount --bind {} /etc/hosts; mount --bind {} /etc/nsswitch.conf; exec \"$@\"",
        file("resolv.conf", "nameserver 127.0.0.1\n"),
        file("hosts", "127.0.0.1 known.example\n"),
        file("nsswitch.conf", "hosts: files dns\n"),
    );
    rig.start_agent_through(&["unshare", "--mount", "sh", "-e", "-c", &script, "sh"], more)
}

fn threads(agent: &Agent<'_>) -> usize {
    let pid = agent.pid().expect("rkubelet runs").as_raw_nonzero();
    fs::read_dir(format!("/proc/{pid}/task")).expect("list the threads of rkubelet").count()
}

#[test]
fn lookups_that_hang_harm_neither_other_pods_nor_the_agent() {
    let rig = Rig::new();
    let _silent = silent_name_server(&rig);
    // Twelve names that nobody knows, in one pod; each is asked for every second.
    let bad: Vec<_> = (0..12)
        .map(|n| {
            let probe = format!(
                "readinessProbe: {{httpGet: {{host: b{n}.example.com, port: 80}}, periodSeconds: 1, failureThreshold: 1}}"
            );
            container(&format!("bad{n}"), &[&probe], IDLE)
        })
        .collect();
    rig.write_manifest("bad.yaml", &pod(&rig, "bad", &[], &bad));
    let agent = start(&rig, &[]);
    rig.wait_running("bad-node1", "bad11");
    let result = |n: usize| probe(&rig, &format!("bad{n}"), "Readiness")["last"].clone();
    rig.wait("each of them to have been run", || (0..12).all(|n| !result(n).is_null()));

    // The agent's own port answers them, by a name of the hosts file and by `localhost`.
    let healthy = ["localhost", "known.example"].map(|host| {
        let name = host.replace(".example", "");
        let probe = format!(
            "livenessProbe: {{tcpSocket: {{host: {host}, port: 10248}}, periodSeconds: 1, failureThreshold: 1}}"
        );
        container(&name, &[&probe], IDLE)
    });
    rig.write_manifest("healthy.yaml", &pod(&rig, "healthy", &[], &healthy));
    let names = ["localhost", "known"];
    let before = names.map(|name| rig.wait_running("healthy-node1", name).id);
    let rounds = |name: &str| probe(&rig, name, "Liveness")["inARow"].as_u64().unwrap_or_default();
    let seen = |count: u64| rig.wait("rounds of probes", || names.iter().all(|name| rounds(name) >= count));
    seen(5);
    let (rss, held) = (agent.rss_kib(), threads(&agent));
    seen(25);
    for (name, id) in names.iter().zip(before) {
        assert_eq!(rig.wait_running("healthy-node1", name).id, id, "{name} was restarted\n{}", rig.report());
        assert_eq!(probe(&rig, name, "Liveness")["last"]["result"], "Success", "{name}");
    }
    println!("from {rss} KiB and {held} threads to {} KiB and {} threads", agent.rss_kib(), threads(&agent));
    assert!(threads(&agent) <= held + 2, "{} threads after {held}", threads(&agent));
    assert!(agent.rss_kib() < rss + 512, "from {rss} to {} KiB", agent.rss_kib());

    // Two of the pod's lookups run and end late, which is its failure; the others say nothing about it.
    let results: Vec<_> = (0..12).map(result).collect();
    let unknown = results.iter().filter(|last| {
        last["result"] == "Unknown"
            && last["output"].as_str().is_some_and(|text| text.contains("too many others are under way"))
    });
    assert!(unknown.count() >= 8, "{results:?}");
    rig.wait("a lookup that ends late", || {
        (0..12).any(|n| {
            let last = result(n);
            let output = last["output"].as_str().unwrap_or_default().to_owned();
            last["result"] == "Failure" && output.contains("did not end within 1s")
        })
    });
}
