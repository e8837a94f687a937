//! Asks a real API server for its verdict on every manifest of the corpus, and records it in `server.json`.
//!
//! The server and its etcd are built from their Go modules, listen on loopback only, and are ended again. Every pod
//! is created as a dry run with strict field validation; admission plugins that need other objects are off.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a tool of the tests, which fails by panicking"
)]

#[path = "manifests.rs"]
mod manifests;
#[path = "../bench/reference.rs"]
mod reference;
#[path = "../rig/wait.rs"]
mod wait;

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use manifests::{directory, manifests};
use serde_json::{Map, Value, json};
use wait::wait_until;

const TOKEN: &str = "corpus";
const READY: Duration = Duration::from_secs(180);
/// What would look for service accounts, namespaces, priority classes and the like.
const OFF: &str = "ServiceAccount,NamespaceLifecycle,Priority,LimitRanger,DefaultTolerationSeconds,PodSecurity,\
                   TaintNodesByCondition,RuntimeClass";

fn main() {
    let cache = PathBuf::from(std::env::args_os().nth(1).expect("usage: corpus CACHE"));
    let etcd = reference::build(&cache, "etcd", "go.etcd.io/etcd/server/v3");
    let server = reference::build(&cache, "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver");
    let scratch = tempfile::tempdir().expect("make a scratch directory");
    let cluster = Cluster::start(scratch.path(), &etcd, &server);

    let manifests = manifests();
    let mut verdicts = Map::new();
    for (path, bytes) in &manifests {
        verdicts.insert(path.clone(), cluster.verdict(path, bytes));
    }
    let record = json!({"version": reference::VERSION, "verdicts": verdicts});
    let mut text = serde_json::to_string_pretty(&record).expect("JSON");
    text.push('\n');
    fs::write(directory().join("server.json"), text).expect("write server.json");
    println!(
        "recorded the verdicts of kube-apiserver {} on {} manifests",
        reference::VERSION,
        manifests.len()
    );
}

/// The two processes, ended when this is dropped.
struct Cluster {
    processes: Vec<Child>,
    address: String,
    scratch: PathBuf,
}

impl Cluster {
    fn start(scratch: &Path, etcd: &Path, server: &Path) -> Self {
        let key = scratch.join("service-account.key");
        run(Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048"));
        fs::write(scratch.join("tokens.csv"), format!("{TOKEN},corpus,corpus,system:masters\n")).unwrap();

        let [client, peer, secure] = [free_port(), free_port(), free_port()];
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut store = Command::new(etcd);
        store.arg("--data-dir").arg(scratch.join("etcd")).arg("--unsafe-no-fsync");
        store.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        store.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        store.args(["--initial-cluster", &format!("default={peer}")]);

        let mut api = Command::new(server);
        api.args([
            "--etcd-servers",
            &client,
            "--bind-address",
            "127.0.0.1",
            "--secure-port",
            &secure.to_string(),
        ]);
        api.args(["--authorization-mode", "AlwaysAllow", "--allow-privileged"]);
        api.args(["--service-account-issuer", "https://corpus", "--service-cluster-ip-range", "10.0.0.0/24"]);
        api.arg("--service-account-key-file").arg(&key);
        api.arg("--service-account-signing-key-file").arg(&key);
        api.args(["--disable-admission-plugins", OFF]);
        api.arg("--cert-dir").arg(scratch.join("certificates"));
        api.arg("--token-auth-file").arg(scratch.join("tokens.csv"));

        let mut processes = Vec::new();
        for (name, mut command) in [("etcd", store), ("kube-apiserver", api)] {
            let log = File::create(scratch.join(format!("{name}.log"))).unwrap();
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
            processes.push(command.spawn().unwrap_or_else(|error| panic!("start {name}: {error}")));
        }
        let address = format!("https://127.0.0.1:{secure}");
        let cluster = Self { processes, address, scratch: scratch.to_owned() };
        cluster.wait_until_ready();
        cluster
    }

    fn wait_until_ready(&self) {
        if !wait_until(READY, || self.ask(&["--max-time", "5"], "/readyz", b"") == "ok") {
            let log = fs::read_to_string(self.scratch.join("kube-apiserver.log")).unwrap_or_default();
            let tail: Vec<_> = log.lines().rev().take(20).collect();
            panic!(
                "the API server is not ready after {READY:?}; the end of its output, backwards:\n{}",
                tail.join("\n")
            );
        }
    }

    fn verdict(&self, path: &str, manifest: &[u8]) -> Value {
        let kind = if path.ends_with(".json") { "application/json" } else { "application/yaml" };
        let url =
            format!("/api/v1/namespaces/{}/pods?dryRun=All&fieldValidation=Strict", namespace(manifest));
        let header = format!("Content-Type: {kind}");
        let reply = self.ask(&["-X", "POST", "-H", &header, "--data-binary", "@-"], &url, manifest);
        let reply: Value =
            serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{path}: {error}: {reply}"));
        match reply["code"].as_u64() {
            None => json!({"accepted": true, "fields": []}),
            Some(code @ (400..=499)) if code != 401 && code != 403 && code != 404 => {
                let causes = reply["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
                let fields: Vec<_> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
                json!({"accepted": false, "fields": fields, "message": reply["message"]})
            }
            Some(_) => panic!("{path}: the server could not judge: {reply}"),
        }
    }

    fn ask(&self, arguments: &[&str], path: &str, body: &[u8]) -> String {
        let mut curl = Command::new("curl");
        // Its certificate is one that it made for itself.
        curl.args(["-sk", "-H", &format!("Authorization: Bearer {TOKEN}")]).args(arguments);
        curl.arg(format!("{}{path}", self.address)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut curl = curl.spawn().expect("run curl");
        // A request without a body reads none.
        let _ = curl.stdin.take().expect("its stdin").write_all(body);
        let output = curl.wait_with_output().expect("wait for curl");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The namespace to create a pod in: a request for another one is refused before the pod is looked at.
fn namespace(manifest: &[u8]) -> String {
    let text = String::from_utf8_lossy(manifest);
    let documents = rkubelet::testing::parse_documents(&text).unwrap_or_default();
    let namespace = documents.first().and_then(|document| document.value["metadata"]["namespace"].as_str());
    namespace.filter(|name| !name.is_empty()).unwrap_or("default").to_owned()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
}
