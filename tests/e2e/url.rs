//! The URL source: what it takes, what it never takes, and what outlives the server.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::manifest::{self, journal, journalled};
use crate::rig::web::{Server, reply};
use crate::rig::{Agent, READ_ONLY_PORT, Rig, wait_until};

/// Asks each second, so that what is wrong shows soon.
const OFTEN: &str = "--http-check-frequency=1s";
pub(crate) const ADDRESS: &str = "127.0.0.1:8099";
pub(crate) const FAILED: &str = "cannot take pods from the URL";
pub(crate) const AGAIN: &str = "taking pods from the URL again";

/// The agent with this URL beside its directory.
pub(crate) fn start<'rig>(rig: &'rig Rig, url: &str, more: &[&str]) -> Agent<'rig> {
    rig.start_agent(&[&[&format!("--manifest-url={url}"), OFTEN], more].concat())
}

pub(crate) fn documents(pods: &[&str]) -> String {
    pods.iter().map(|name| manifest::idle(name)).collect::<Vec<_>>().join("---\n")
}

/// A YAML manifest as JSON, by way of the agent's own parser.
fn json(yaml: &str) -> Value {
    rkubelet::testing::parse_documents(yaml).expect("a test's manifest").remove(0).value
}

pub(crate) fn list(kind: &str, pods: &[&str]) -> String {
    let items: Vec<_> = pods.iter().map(|name| json(&manifest::idle(name))).collect();
    serde_json::json!({"apiVersion": "v1", "kind": kind, "items": items}).to_string()
}

/// Waits until these pods run, and no other has a sandbox.
pub(crate) fn wait_for(rig: &Rig, pods: &[&str]) {
    for pod in pods {
        rig.wait_running(&format!("{pod}-node1"), "main");
    }
    rig.wait(&format!("{pods:?} and no other pod"), || {
        rig.sandboxes().iter().all(|seen| pods.iter().any(|pod| seen.pod == format!("{pod}-node1")))
    });
}

/// A line of `/metrics`.
pub(crate) fn has_metric(rig: &Rig, line: &str) -> bool {
    let page = rig.http_get(&format!("http://127.0.0.1:{READ_ONLY_PORT}/metrics"));
    page.is_some_and(|page| page.body.lines().any(|found| found == line))
}

#[test]
fn pods_come_from_the_url_in_every_form_and_only_an_empty_list_removes_all() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    server.serve(manifest::idle("a"));
    let _agent = start(&rig, &server.url("/pods?node=1"), &[]);
    wait_for(&rig, &["a"]);
    let before = rig.fingerprint();

    // A pod that stays is not touched by the form in which it comes.
    server.serve(documents(&["a", "b"]));
    wait_for(&rig, &["a", "b"]);
    server.serve(list("PodList", &["b", "c", "a"]));
    wait_for(&rig, &["a", "b", "c"]);
    server.serve(list("List", &["a", "c"]));
    wait_for(&rig, &["a", "c"]);
    rig.assert_untouched(&before);
    let pod = rig.pod("a-node1").expect("the pod is shown");
    assert_eq!(pod["metadata"]["annotations"]["kubernetes.io/config.source"], "http");

    server.serve(list("PodList", &[]));
    wait_for(&rig, &[]);
    assert!(server.requests().iter().all(|head| head.starts_with("GET /pods?node=1 HTTP/1.1")));
}

#[test]
fn one_bad_pod_is_refused_alone_and_of_two_of_a_name_the_first_stays() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    server.serve(documents(&["a", "b"]));
    let agent = start(&rig, &server.url("/pods"), &[]);
    wait_for(&rig, &["a", "b"]);
    let before = rig.fingerprint();

    let bad =
        manifest::idle("a").replace("terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 1.5");
    let twice = manifest::script("b", "exec sleep 1000");
    server.serve([bad, manifest::idle("b"), twice, manifest::idle("c")].join("---\n"));
    wait_for(&rig, &["a", "b", "c"]);
    rig.assert_untouched(&before);
    for (place, words) in [
        ("document=1", "spec.terminationGracePeriodSeconds"),
        ("document=3", "pod default/b-node1 is already defined by http://127.0.0.1:8099/pods document 2"),
    ] {
        let lines = agent.log_lines_with("manifest refused");
        let line =
            lines.iter().find(|line| line.contains(place)).unwrap_or_else(|| panic!("{place}: {lines:?}"));
        assert!(line.contains(words), "{line}");
    }
    let refused = "rkubelet_manifests{source=\"http\",outcome=\"refused\"} 2";
    rig.wait("both to be shown as refused", || has_metric(&rig, refused));
    assert_eq!(agent.log_lines_with("manifest refused").len(), 2, "each is said once");
}

/// Another machine that has what the agent kept on disk: the first one after a reboot.
pub(crate) fn reboot(rig: &Rig) -> Rig {
    let next = Rig::new();
    let kept = |rig: &Rig| rig.root_dir().join("rkubelet");
    rig.output("cp", &["-a", &kept(rig).display().to_string(), &kept(&next).display().to_string()]);
    next
}

#[test]
fn a_reboot_with_the_server_down_starts_all_pods_of_that_url_and_of_no_other() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let url = server.url("/pods?token=secret");
    server.serve(documents(&["a", "b"]));
    let agent = start(&rig, &url, &[]);
    wait_for(&rig, &["a", "b"]);
    // The last good version of a pod that is bad by then counts too.
    let bad =
        manifest::idle("a").replace("terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 1.5");
    server.serve([bad, manifest::idle("b"), manifest::idle("c")].join("---\n"));
    wait_for(&rig, &["a", "b", "c"]);
    agent.kill9();
    drop(server);

    let rig = reboot(&rig);
    let agent = start(&rig, &url, &[]);
    wait_for(&rig, &["a", "b", "c"]);
    agent.wait_for_log(FAILED);
    assert!(!agent.log().contains("secret"), "{}", agent.log());
    let before = rig.fingerprint();

    // The server is back, and nothing restarts.
    let server = Server::start(&rig, ADDRESS);
    server.serve(documents(&["a", "b", "c", "d"]));
    wait_for(&rig, &["a", "b", "c", "d"]);
    rig.assert_untouched(&before);
    agent.kill9();
    drop(server);

    let rig = reboot(&rig);
    let agent = start(&rig, "http://127.0.0.1:8099/others", &[]);
    agent.wait_for_log(FAILED);
    settle(&rig);
    assert_eq!(rig.sandboxes().len(), 1, "only the marker runs\n{}", rig.report());
}

/// A pod of the directory that is written last, and runs: what came before it has been looked at by then.
fn settle(rig: &Rig) {
    rig.write_manifest("marker.yaml", &manifest::idle("marker"));
    rig.wait_running("marker-node1", "main");
}

#[test]
fn the_directory_wins_and_the_url_takes_over_when_it_goes() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    server.serve(journalled(&rig, "both", "url"));
    rig.write_manifest("both.yaml", &journalled(&rig, "both", "file"));
    let _agent = start(&rig, &server.url("/pods"), &[]);
    rig.wait("the file's pod", || journal(&rig, "both").last().is_some_and(|line| line == "start file"));
    let shadowed = "rkubelet_manifests{source=\"http\",outcome=\"shadowed\"} 1";
    rig.wait("the URL's pod to be shown as shadowed", || has_metric(&rig, shadowed));

    rig.remove_manifest("both.yaml");
    rig.wait("the URL's pod", || journal(&rig, "both").last().is_some_and(|line| line == "start url"));
    rig.wait("it to be shown as accepted", || {
        has_metric(&rig, "rkubelet_manifests{source=\"http\",outcome=\"accepted\"} 1")
    });
    rig.write_manifest("both.yaml", &journalled(&rig, "both", "file"));
    rig.wait("the file's pod again", || {
        let told = journal(&rig, "both");
        told.ends_with(&["asked url", "end url", "start file"].map(str::to_owned))
    });
}

#[test]
fn cleanup_of_one_source_does_not_wait_for_another_nor_go_without_it() {
    let rig = Rig::new();
    let server = Server::start(&rig, ADDRESS);
    let url = server.url("/pods");
    server.serve(documents(&["remote"]));
    for file in ["stays", "goes"] {
        rig.write_manifest(&format!("{file}.yaml"), &manifest::idle(file));
    }
    let agent = start(&rig, &url, &[]);
    wait_for(&rig, &["remote", "stays", "goes"]);
    let remote = rig.wait_running("remote-node1", "main");
    agent.kill9();
    drop(server);
    fs::remove_dir_all(rig.root_dir().join("rkubelet/url")).expect("forget the URL's pods");
    rig.remove_manifest("goes.yaml");

    let agent = start(&rig, &url, &[]);
    agent.wait_for_log(FAILED);
    wait_for(&rig, &["remote", "stays"]);
    assert_eq!(rig.wait_running("remote-node1", "main").id, remote.id);
    // Once the URL has spoken, its pods end too.
    let server = Server::start(&rig, ADDRESS);
    server.serve(list("List", &[]));
    wait_for(&rig, &["stays"]);
}

#[test]
fn headers_go_to_the_url_and_to_nobody_else() {
    let rig = Rig::new();
    let (first, second) = (Server::start(&rig, ADDRESS), Server::start(&rig, "[::1]:8098"));
    let there = format!("Location: {}\r\n", second.url("/moved"));
    first.answer(move |head, stream| {
        let (status, place) = if head.starts_with("GET /pods") {
            ("307 Moved", "Location: /near\r\n")
        } else {
            ("302 Found", there.as_str())
        };
        reply(stream, status, place, b"")
    });
    second.serve(documents(&["a"]));
    let url = "http://user:open-sesame@127.0.0.1:8099/pods";
    let agent = start(&rig, url, &["--manifest-url-header=X-Token:hush,X-Token:hush-again"]);
    wait_for(&rig, &["a"]);
    let heads =
        |server: &Server| server.requests().iter().map(|head| head.to_lowercase()).collect::<Vec<_>>();
    for head in heads(&first) {
        assert!(head.contains("x-token: hush\n") && head.contains("x-token: hush-again\n"), "{head}");
        assert!(head.contains("authorization: basic dxnlcjpvcgvulxnlc2ftzq=="), "{head}");
    }
    for head in heads(&second) {
        assert!(!head.contains("hush") && !head.contains("authorization"), "{head}");
        assert!(head.contains("host: [::1]:8098"), "{head}");
    }
    let log = agent.log();
    assert!(!log.contains("hush") && !log.contains("sesame"), "{log}");
}

#[test]
fn plain_text_beyond_this_machine_needs_a_flag() {
    let rig = Rig::without_containerd();
    let mut agent = start(&rig, "http://192.0.2.10:8099/pods", &[]);
    assert_eq!(agent.wait_for_end().code(), Some(64));
    assert!(agent.log().contains("--allow-insecure-manifest-url"), "{}", agent.log());
}

#[test]
fn when_the_network_comes_back_the_url_is_asked_at_once() {
    let rig = Rig::new();
    let server = Server::start(&rig, "0.0.0.0:8099");
    server.serve(documents(&["a"]));
    let url = "http://198.51.100.1:8099/pods";
    // Without the network's word the next request could be ten minutes away.
    let agent = rig.start_agent(&[
        &format!("--manifest-url={url}"),
        "--http-check-frequency=10m",
        "--allow-insecure-manifest-url",
        "-v=4",
    ]);
    agent.wait_for_log(FAILED);
    let addresses = |how: &str, address: &str| rig.output("ip", &["addr", how, address, "dev", "lo"]);
    rig.wait("the agent to notice the network", || {
        addresses("add", "198.51.100.9/32");
        addresses("del", "198.51.100.9/32");
        wait_until(Duration::from_secs(2), || agent.log().contains("the network has changed"))
    });
    addresses("add", "198.51.100.1/32");
    wait_for(&rig, &["a"]);
}
