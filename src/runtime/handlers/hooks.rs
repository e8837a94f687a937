//! Runs lifecycle hooks: a command in the container, a request, a pause.
//!
//! A hook is run once. One that was under way when the agent ended is not run again, as with kubelet: the container
//! counts as started, and a stop that is taken up by the next agent begins with its preStop hook.

mod http;

use std::time::Duration;

use smol::Timer;
use tracing::warn;

use super::http_get::{BadHeader, request};
use super::{HandlerRunner, LOOPBACK};
use crate::http::{HttpError, LookupOwner, Url};
use crate::pod::ContainerId;
use crate::pod::hook::{Hook, HttpGet};
use crate::runtime::cri::CriError;
use crate::time::within::within;

use http::{Answered, USER_AGENT, ask};

/// How long a postStart hook may take. kubelet would wait for ever.
pub(crate) const POST_START_LIMIT: Duration = Duration::from_secs(60 * 60);
/// How much of what a failed command printed is told.
const MAX_OUTPUT: usize = 1024;

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HookError {
    /// The command could not be run.
    #[error(transparent)]
    Exec(#[from] CriError),
    /// The command failed.
    #[error("command '{command}' exited with {code}: , message: {output:?}")]
    Exit {
        /// The words of the command.
        command: String,
        /// Its exit code.
        code: i32,
        /// The end of what it printed.
        output: String,
    },
    /// The request failed.
    #[error("Get \"{url}\"")]
    Http {
        /// What was asked for.
        url: Url,
        /// Why.
        source: HttpError,
    },
    /// The request cannot be made.
    #[error(transparent)]
    Header(#[from] BadHeader),
    /// It is none that can be run.
    #[error("{0}")]
    Invalid(String),
    /// It was not done in time.
    #[error("not done within {0:?}")]
    Late(Duration),
}

impl HandlerRunner {
    /// Runs a hook of a container, for no longer than `limit`. The pod's own address is `pod_ip`; none on the host's
    /// network.
    ///
    /// # Errors
    /// When it cannot be run, fails, or takes too long.
    pub(crate) async fn run_hook(
        &self,
        id: &ContainerId,
        hook: &Hook,
        pod_ip: Option<&str>,
        limit: Duration,
    ) -> Result<(), HookError> {
        let run = async {
            match hook {
                Hook::Exec(command) => self.exec_hook(id, command, limit).await,
                Hook::HttpGet(get) => self.http_hook(id, get, pod_ip, limit).await,
                Hook::Sleep(time) => {
                    Timer::after(*time).await;
                    Ok(())
                }
                Hook::Invalid(reason) => Err(HookError::Invalid(reason.clone())),
            }
        };
        // A pause may be as long as its limit.
        Box::pin(within(limit, run)).await.unwrap_or(Err(HookError::Late(limit)))
    }

    async fn exec_hook(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<(), HookError> {
        let done = self.cri.exec_sync(id, command.to_vec(), limit).await?;
        if done.exit_code == 0 {
            return Ok(());
        }
        let printed = [done.stdout, done.stderr].concat();
        let end = &printed[printed.len().saturating_sub(MAX_OUTPUT)..];
        let (command, output) = (command.join(" "), String::from_utf8_lossy(end).into_owned());
        Err(HookError::Exit { command, code: done.exit_code, output })
    }

    async fn http_hook(
        &self,
        id: &ContainerId,
        get: &HttpGet,
        pod_ip: Option<&str>,
        limit: Duration,
    ) -> Result<(), HookError> {
        let given = get.host.as_deref().or(pod_ip).map(str::to_owned);
        let host = given.or_else(|| self.node_ips.get().into_iter().next());
        let host = host.as_deref().unwrap_or(LOOPBACK);
        let request = request(get, host, USER_AGENT, limit, LookupOwner::Pod(id.to_string()))?;
        let url = &request.url;
        let answered = ask(&self.http, &request).await;
        if answered.map_err(|source| HookError::Http { url: url.clone(), source })? == Answered::InPlainText {
            warn!(%id, reason = "LifecycleHTTPFallback", %url, "an HTTPS hook was answered in plain HTTP");
        }
        Ok(())
    }
}
