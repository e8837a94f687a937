//! Runs probes: a command in the container, a request, a connection, a question to the health service.
//!
//! Invariant: a run ends at its deadline, whatever the other side does, and what is kept of its output is bounded. A
//! command's deadline is the runtime's to keep; it is given up soon after. A host name whose lookup cannot begin says
//! nothing about the container; one whose lookup does not end in time is a failure, as it is for kubelet.

mod grpc;

use std::time::Duration;

use super::http_get::{REDIRECTS, authority, request};
use super::{HandlerRunner, LOOPBACK};
use crate::http::{HttpError, LookupOwner};
use crate::pod::ContainerId;
use crate::pod::hook::HttpGet;
use crate::probe::check::Check;
use crate::probe::schedule::{ProbeKey, ProbeResult, Ran};
use crate::probe::target::ProbeHost;
use crate::runtime::cri::ErrorClass;
use crate::runtime::{Answer, ProbeRunner};
use crate::text::chain;
use crate::text::excerpt::beginning;
use crate::time::within::within;

/// As kubelet 1.36 calls itself.
const USER_AGENT: &str = "kube-probe/1.36";
/// How much of an output is kept, in bytes.
const MAX_OUTPUT: usize = 512;
/// How long the runtime may take to start a command and to tell of its end.
const EXEC_SLACK: Duration = Duration::from_secs(10);

impl ProbeRunner for HandlerRunner {
    fn run_probe<'a>(
        &'a self,
        key: &'a ProbeKey,
        check: &'a Check,
        place: &'a ProbeHost,
        timeout: Duration,
    ) -> Answer<'a, Ran> {
        Box::pin(async move {
            let host = |own: Option<&String>| match (own, place) {
                (Some(host), _) | (None, ProbeHost::Address(host)) => Ok(host.clone()),
                (None, ProbeHost::Node) => {
                    Ok(self.node_ips.get().into_iter().next().unwrap_or(LOOPBACK.to_owned()))
                }
                (None, ProbeHost::None) => Err(ran(ProbeResult::Unknown, "the pod has no address")),
            };
            let owner = || LookupOwner::Pod(key.pod.to_string());
            let asked = async {
                Ok(match check {
                    Check::Exec(command) => self.exec_check(&key.id, command, timeout).await,
                    Check::HttpGet(get) => {
                        self.http_check(get, &host(get.host.as_ref())?, timeout, owner()).await
                    }
                    Check::TcpSocket { host: own, port } => {
                        self.tcp_check(&host(own.as_ref())?, *port, timeout, &owner()).await
                    }
                    Check::Grpc { port, service } => {
                        let late =
                            || failed(format!("timeout: health rpc did not complete within {timeout:?}"));
                        let host = host(None)?;
                        let ask = grpc::check(&self.reactor, &host, *port, service, timeout);
                        within(timeout, ask).await.unwrap_or_else(late)
                    }
                    Check::Invalid(reason) => ran(ProbeResult::Unknown, reason),
                })
            };
            asked.await.unwrap_or_else(|nobody: Ran| nobody)
        })
    }
}

impl HandlerRunner {
    async fn exec_check(&self, id: &ContainerId, command: &[String], timeout: Duration) -> Ran {
        // The deadline counts from when there is room.
        let _room = self.exec_permits.acquire().await;
        let _counted = self.metrics.exec_probe();
        // The runtime counts the command's time from when it has started it. What it takes itself is not the container's
        // fault: a runtime that says nothing says nothing about the container.
        let late = || ran(ProbeResult::Unknown, "the runtime does not answer");
        let run = async {
            match self.cri.exec_sync(id, command.to_vec(), timeout).await {
                Ok(done) => {
                    let result =
                        if done.exit_code == 0 { ProbeResult::Success } else { ProbeResult::Failure };
                    ran(result, &[printed(&done.stdout), printed(&done.stderr)].concat())
                }
                Err(error) if error.class == ErrorClass::Timeout => {
                    failed(format!("command timed out: {:?} timed out after {timeout:?}", command.join(" ")))
                }
                // It is the runtime that failed.
                Err(error) => ran(ProbeResult::Unknown, &chain(&error)),
            }
        };
        within(timeout.saturating_add(EXEC_SLACK), run).await.unwrap_or_else(late)
    }

    async fn http_check(&self, get: &HttpGet, host: &str, timeout: Duration, owner: LookupOwner) -> Ran {
        let request = match request(get, host, USER_AGENT, timeout, owner) {
            Ok(request) => request,
            Err(error) => return failed(error.to_string()),
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
            Err(error @ HttpError::LookupNotStarted { .. }) => ran(ProbeResult::Unknown, &chain(&error)),
            Err(error) => failed(format!("Get \"{}\": {}", request.url, chain(&error))),
        }
    }

    async fn tcp_check(&self, host: &str, port: u16, timeout: Duration, owner: &LookupOwner) -> Ran {
        let place = authority(host, port);
        match self.http.reach(host, port, timeout, owner).await {
            Ok(()) => ran(ProbeResult::Success, ""),
            Err(error @ HttpError::LookupNotStarted { .. }) => ran(ProbeResult::Unknown, &chain(&error)),
            Err(HttpError::LookupDeadline { .. }) => failed(format!("dial tcp: lookup {host}: i/o timeout")),
            Err(HttpError::Deadline { .. }) => failed(format!("dial tcp {place}: i/o timeout")),
            Err(HttpError::Connect { source, .. } | HttpError::Resolve { source, .. }) => {
                failed(format!("dial tcp {place}: {source}"))
            }
            Err(error) => failed(format!("dial tcp {place}: {}", chain(&error))),
        }
    }
}

/// The beginning of what a command printed; it may have printed megabytes.
fn printed(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_OUTPUT)]).into_owned()
}

fn failed(output: String) -> Ran {
    ran(ProbeResult::Failure, &output)
}

fn ran(result: ProbeResult, output: &str) -> Ran {
    Ran { result, output: beginning(output, MAX_OUTPUT).to_owned() }
}
