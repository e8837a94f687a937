//! Runs probes: a command in the container, a request, a connection, a question to the health service.
//!
//! Invariant: a run ends at its deadline, whatever the other side does, and what is kept of its output is bounded.

mod grpc;

use std::future::Future;
use std::time::Duration;

use futures_lite::future;
use smol::Timer;
use smol::net::TcpStream;

use super::http_get::{REDIRECTS, authority, request};
use super::{Runtime, chain};
use crate::pod::ContainerId;
use crate::pod::hook::HttpGet;
use crate::pod::termination_message::beginning;
use crate::probe::check::Check;
use crate::probe::schedule::{ProbeResult, Ran};

/// Commands that run at the same time. A hundred that hang leave room for others.
pub const EXEC_WIDTH: usize = 128;
/// As kubelet 1.36 calls itself.
const USER_AGENT: &str = "kube-probe/1.36";
/// How much of an output is kept, in bytes.
const MAX_OUTPUT: usize = 512;
/// A closed connection is forgotten by the kernel after this long: kubelet's.
const LINGER: Duration = Duration::from_secs(1);

impl Runtime {
    /// Runs what a probe does, for no longer than `timeout`; the pod is reached at `host`.
    pub async fn run_check(&self, id: &ContainerId, check: &Check, host: &str, timeout: Duration) -> Ran {
        match check {
            Check::Exec(command) => self.exec_check(id, command, timeout).await,
            Check::HttpGet(get) => self.http_check(get, host, timeout).await,
            Check::TcpSocket { host: own, port } => {
                tcp_check(own.as_deref().unwrap_or(host), *port, timeout).await
            }
            Check::Grpc { port, service } => {
                let late = || failed(format!("timeout: health rpc did not complete within {timeout:?}"));
                within(timeout, late, grpc::check(&self.reactor, host, *port, service)).await
            }
            Check::Invalid(reason) => ran(ProbeResult::Unknown, reason),
        }
    }

    async fn exec_check(&self, id: &ContainerId, command: &[String], timeout: Duration) -> Ran {
        // The deadline counts from when there is room.
        let _room = self.exec_probes.acquire().await;
        let _counted = self.metrics.exec_probe();
        let late =
            || failed(format!("command timed out: {:?} timed out after {timeout:?}", command.join(" ")));
        let run = async {
            match self.cri.exec_sync(id, command.to_vec(), timeout).await {
                Ok(done) => {
                    let result =
                        if done.exit_code == 0 { ProbeResult::Success } else { ProbeResult::Failure };
                    ran(result, &String::from_utf8_lossy(&[done.stdout, done.stderr].concat()))
                }
                // It is the runtime that failed.
                Err(error) => ran(ProbeResult::Unknown, &chain(&error)),
            }
        };
        within(timeout, late, run).await
    }

    async fn http_check(&self, get: &HttpGet, host: &str, timeout: Duration) -> Ran {
        let host = get.host.as_deref().unwrap_or(host);
        let request = match request(get, host, USER_AGENT, timeout) {
            Ok(request) => request,
            Err(error) => return ran(ProbeResult::Unknown, &error.to_string()),
        };
        match self.http.get(&request, &REDIRECTS).await {
            Ok(answer) => {
                let body = String::from_utf8_lossy(&answer.body);
                match answer.status {
                    200..=299 => ran(ProbeResult::Success, &body),
                    300..=399 => ran(
                        ProbeResult::Warning,
                        &format!("Probe terminated redirects, Response body: {body}"),
                    ),
                    status => failed(format!("HTTP probe failed with statuscode: {status}")),
                }
            }
            Err(error) => failed(format!("Get \"{}\": {}", request.url, chain(&error))),
        }
    }
}

async fn tcp_check(host: &str, port: u16, timeout: Duration) -> Ran {
    let place = authority(host, port);
    let late = || failed(format!("dial tcp {place}: i/o timeout"));
    let run = async {
        match TcpStream::connect((host, port)).await {
            Ok(stream) => {
                // The connection is of use without it too.
                let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(LINGER));
                ran(ProbeResult::Success, "")
            }
            Err(error) => failed(format!("dial tcp {place}: {error}")),
        }
    };
    within(timeout, late, run).await
}

async fn within(timeout: Duration, late: impl FnOnce() -> Ran, run: impl Future<Output = Ran>) -> Ran {
    let late = async {
        Timer::after(timeout).await;
        late()
    };
    future::or(run, late).await
}

fn failed(output: String) -> Ran {
    ran(ProbeResult::Failure, &output)
}

fn ran(result: ProbeResult, output: &str) -> Ran {
    Ran { result, output: beginning(output, MAX_OUTPUT).to_owned() }
}
