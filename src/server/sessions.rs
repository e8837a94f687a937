//! Commands, attachments and forwarded ports: the runtime is asked where, and the client is passed through.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::time::Duration;

use jiff::Timestamp;

use super::Endpoints;
use super::request::{Reply, Request, Response};
use super::tunnel;
use crate::pod::state::ContainerSummary;
use crate::pod::{ContainerId, Pod, PodName, SandboxId, keys};
use crate::runtime::cri::client::streaming::Streams;
use crate::runtime::cri::proto::{PodSandboxFilter, PodSandboxState, PodSandboxStateValue};
use crate::runtime::cri::{CriError, ErrorClass};
use crate::text::chain;

/// How long a command of `/run` may take.
const RUN_WITHIN: Duration = Duration::from_secs(120);

/// A container of a pod, as a path names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionTarget {
    /// The pod.
    pub pod: PodName,
    /// The instance, if it matters.
    pub uid: Option<String>,
    /// The container; empty for none.
    pub container: String,
}

/// What is to be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Session {
    /// Run a command, with its streams.
    Exec(Vec<String>, Streams),
    /// Attach to its process.
    Attach(Streams),
    /// Forward ports of the pod.
    PortForward(Vec<i32>),
}

/// The streams that a request's parameters ask for.
///
/// # Errors
/// If there is none, as in kubelet.
pub(crate) fn streams(request: &Request) -> Result<Streams, Response> {
    // "input", "output" and "error" are kubelet's names.
    let asks = |name: &str| request.parameter(name).is_some_and(|value| value == "1" || value == "true");
    let tty = asks("tty");
    let streams =
        Streams { stdin: asks("input"), stdout: asks("output"), stderr: asks("error") && !tty, tty };
    if streams.stdin || streams.stdout || streams.stderr {
        return Ok(streams);
    }
    Err(Response::text(400, "you must specify at least 1 of stdin, stdout, stderr"))
}

/// The ports that a request's parameters name.
///
/// # Errors
/// If one is none.
pub(crate) fn ports(request: &Request) -> Result<Vec<i32>, Response> {
    let values: Vec<_> = request.parameters("port").collect();
    let numbers = values.iter().flat_map(|value| value.split(','));
    let port = |text: &str| {
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        port.map(i32::from).ok_or_else(|| Response::text(400, format!("unable to parse {text:?} as a port")))
    };
    numbers.map(port).collect()
}

impl Endpoints {
    fn find(
        &self,
        target: &SessionTarget,
    ) -> Result<(std::sync::Arc<Pod>, Option<ContainerSummary>), Response> {
        let view = self.view.load();
        let missing = || Response::text(404, "pod does not exist");
        let found = view.pods.get(&target.pod).ok_or_else(missing)?;
        if target.uid.as_ref().is_some_and(|uid| *uid != found.pod.uid.to_string()) {
            return Err(missing());
        }
        let mut containers = found.state.iter().flat_map(|state| state.all_containers());
        let container = containers.find(|container| container.name == target.container).cloned();
        Ok((found.pod.clone(), container))
    }

    /// The container's id, if it runs.
    fn running(&self, target: &SessionTarget) -> Result<ContainerId, Response> {
        let (_, container) = self.find(target)?;
        let container = container.filter(|container| container.running_since().is_some());
        let refuse = || {
            let SessionTarget { pod, container, .. } = target;
            Response::text(404, format!("container {container:?} does not run in pod {:?}", pod.name))
        };
        container.and_then(|container| container.id().cloned()).ok_or_else(refuse)
    }

    /// The pod's sandbox, if it is up.
    async fn sandbox(&self, target: &SessionTarget) -> Result<SandboxId, Response> {
        let (pod, _) = self.find(target)?;
        let label_selector = BTreeMap::from([(keys::POD_UID.to_owned(), pod.uid.to_string())]);
        let state = Some(PodSandboxStateValue { state: PodSandboxState::SandboxReady.into() });
        let filter = PodSandboxFilter { label_selector, state, ..Default::default() };
        let listed = self.cri.list_pod_sandbox(Some(filter)).await.map_err(|error| refused(&error))?;
        let sandbox = listed.into_iter().max_by_key(|sandbox| sandbox.created_at);
        let missing = || Response::text(404, format!("pod {:?} has no sandbox that is up", target.pod.name));
        sandbox.map(|sandbox| SandboxId(sandbox.id)).ok_or_else(missing)
    }

    /// Passes the client through to a command, a process or ports.
    pub(super) async fn open_session(
        &self,
        target: SessionTarget,
        session: Session,
        request: &Request,
    ) -> Reply {
        let url = match self.session_url(&target, session).await {
            Ok(url) => url,
            Err(response) => return response.into(),
        };
        match tunnel::open(&url, request).await {
            Ok(Ok(tunnel)) => Reply::Tunnel(tunnel),
            Ok(Err(response)) => response.into(),
            Err(error) => Response::text(502, format!("{}\n", chain(&error))).into(),
        }
    }

    async fn session_url(&self, target: &SessionTarget, session: Session) -> Result<String, Response> {
        let url = match session {
            Session::Exec(command, streams) => self.cri.exec(&self.running(target)?, command, streams).await,
            Session::Attach(streams) => self.cri.attach(&self.running(target)?, streams).await,
            Session::PortForward(ports) => self.cri.port_forward(&self.sandbox(target).await?, ports).await,
        };
        url.map_err(|error| refused(&error))
    }

    /// Runs a command to its end: what it wrote.
    pub(super) async fn run_command(&self, target: &SessionTarget, command: Vec<String>) -> Reply {
        let id = match self.running(target) {
            Ok(id) => id,
            Err(response) => return response.into(),
        };
        match self.cri.exec_sync(&id, command, RUN_WITHIN).await {
            Ok(ran) => {
                let mut body = ran.stdout.to_vec();
                body.extend_from_slice(&ran.stderr);
                let status = if ran.exit_code == 0 { 200 } else { 500 };
                Response { status, ..Response::page("text/plain; charset=utf-8", body) }.into()
            }
            Err(error) => refused(&error).into(),
        }
    }

    /// Has the runtime write a checkpoint of a container, and names the file.
    pub(super) async fn checkpoint(&self, target: &SessionTarget) -> Reply {
        let id = match self.running(target) {
            Ok(id) => id,
            Err(response) => return response.into(),
        };
        let directory = self.dirs.root().join("checkpoints");
        let PodName { namespace, name } = &target.pod;
        let at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let file = directory.join(format!("checkpoint-{name}_{namespace}-{}-{at}.tar", target.container));
        let made =
            smol::unblock(move || DirBuilder::new().recursive(true).mode(0o700).create(directory)).await;
        if let Err(error) = made {
            return Response::text(500, format!("cannot make the directory of checkpoints: {error}\n"))
                .into();
        }
        let location = file.display().to_string();
        match self.cri.checkpoint_container(&id, location.clone(), RUN_WITHIN).await {
            Ok(()) => {
                let answer = serde_json::json!({ "items": [location] });
                Response::json("the checkpoint", serde_json::to_vec(&answer)).into()
            }
            Err(error) => refused(&error).into(),
        }
    }
}

fn refused(error: &CriError) -> Response {
    let status = match error.class {
        ErrorClass::NotFound | ErrorClass::Unimplemented => 404,
        ErrorClass::Timeout => 504,
        ErrorClass::Unavailable => 503,
        ErrorClass::Refused => 500,
    };
    Response::text(status, format!("{}\n", error.as_go_writes_it()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::request::tests::request;
    use crate::server::request::{Method, Port};

    #[test]
    fn streams_and_ports_of_a_query() {
        let of = |query: &str| request(Port::Socket, Method::Get, &format!("/exec/a/b/c?{query}"));
        let none = Streams::default();
        for (query, expect) in [
            ("input=1&output=1&error=1", Ok(Streams { stdin: true, stdout: true, stderr: true, tty: false })),
            ("output=1&error=1&tty=1", Ok(Streams { stdout: true, tty: true, ..none })),
            ("output=true", Ok(Streams { stdout: true, ..none })),
            ("tty=1", Err(400)),
            ("error=1&tty=1", Err(400)),
            ("output=0", Err(400)),
            ("", Err(400)),
        ] {
            assert_eq!(streams(&of(query)).map_err(|refused| refused.status), expect, "{query}");
        }
        for (query, expect) in [
            ("", Ok(vec![])),
            ("port=80&port=443,53", Ok(vec![80, 443, 53])),
            ("port=0", Err(400)),
            ("port=65536", Err(400)),
            ("port=http", Err(400)),
        ] {
            assert_eq!(ports(&of(query)).map_err(|refused| refused.status), expect, "{query}");
        }
    }
}
