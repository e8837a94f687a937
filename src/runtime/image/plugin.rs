//! Runs a credential provider plugin: a program that reads a request and writes an answer.
//!
//! One process per plugin and registry at a time; those who wait for it share what it says, also that it failed. It
//! ends by its deadline together with whatever it started.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_lite::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, future};
use rustix::process::{Pid, Signal, kill_process_group};
use smol::process::{Child, Command};
use tracing::{debug, warn};

use crate::pod::image::keyring::Keyring;
use crate::pod::image::provider::{Answers, PluginAnswer, PluginAnswerError, Provider, registry};
use crate::runtime::limiter::PermitsByName;
use crate::time::within::within;

/// How long a plugin may take, as in kubelet.
const DEADLINE: Duration = Duration::from_secs(60);
/// No answer is longer.
const MAX_ANSWER: u64 = 1 << 20;
/// What is kept of a plugin's complaints.
const MAX_COMPLAINT: usize = 500;

/// A plugin, and what it said.
#[derive(Debug)]
pub(super) struct Plugin {
    /// Its configuration.
    pub(super) provider: Provider,
    program: PathBuf,
    deadline: Duration,
    turns: PermitsByName,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    answers: Answers,
    /// By registry: the last failure and when it was.
    failures: BTreeMap<String, (Instant, Arc<PluginError>)>,
}

/// A plugin that did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error("cannot run {}: {cause}", program.display())]
    Run { program: PathBuf, cause: io::Error },
    #[error("cannot hear it: {cause}")]
    Pipe { cause: io::Error },
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("{0}")]
    Exit(ExitStatus),
    #[error("its answer is longer than {MAX_ANSWER} bytes")]
    TooLong,
    #[error(transparent)]
    PluginAnswer(#[from] PluginAnswerError),
}

impl Plugin {
    /// The provider's program in `dir`, with an empty cache.
    pub(super) fn new(provider: Provider, dir: &Path) -> Self {
        let program = dir.join(&provider.name);
        Self {
            provider,
            program,
            deadline: DEADLINE,
            turns: PermitsByName::default(),
            memory: Mutex::default(),
        }
    }

    /// What the plugin says about a repository, now or a while ago.
    pub(super) async fn ask(&self, repository: &str) -> Result<Keyring, Arc<PluginError>> {
        if let Some(known) = self.known(repository) {
            return Ok(known);
        }
        let began = Instant::now();
        let registry = registry(repository);
        let turn = self.turns.acquire(registry).await;
        if turn.waited {
            if let Some(known) = self.known(repository) {
                return Ok(known);
            }
            let failure = self.memory().failures.get(registry).cloned();
            if let Some((at, error)) = failure
                && at >= began
            {
                return Err(error);
            }
        }
        let outcome = self.run(repository).await;
        let now = Instant::now();
        let mut memory = self.memory();
        match outcome {
            Ok(answer) => {
                memory.failures.remove(registry);
                memory.answers.put(&self.provider, repository, &answer, now);
                Ok(answer.keyring)
            }
            Err(error) => {
                let error = Arc::new(error);
                memory.failures.insert(registry.to_owned(), (now, error.clone()));
                Err(error)
            }
        }
    }

    fn known(&self, repository: &str) -> Option<Keyring> {
        self.memory().answers.get(repository, Instant::now()).cloned()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the program once.
    async fn run(&self, repository: &str) -> Result<PluginAnswer, PluginError> {
        debug!(plugin = self.provider.name, repository, "asking for credentials");
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.provider.args).envs(self.provider.env.iter().cloned());
        // A group of its own, so that what it starts can be ended with it.
        command.process_group(0);
        let spawned = Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let child = spawned.map_err(|cause| PluginError::Run { program: self.program.clone(), cause })?;
        let request = self.provider.request(repository);
        let exchanged = within(self.deadline, async {
            let mut complaint = Vec::new();
            (exchange(child, request.as_bytes(), &mut complaint).await, complaint)
        });
        let late = || (Err(PluginError::Late(self.deadline)), Vec::new());
        let (outcome, complaint) = exchanged.await.unwrap_or_else(late);
        let outcome = outcome.and_then(|answer| Ok(self.provider.answer(&answer)?));
        if let Err(error) = &outcome {
            let complaint = String::from_utf8_lossy(&complaint);
            warn!(plugin = self.provider.name, repository, %error, stderr = complaint.trim(), "no credentials");
        }
        outcome
    }
}

/// A process that is ended with its whole group, unless it has ended by itself.
struct ProcessGroup {
    child: Child,
    ended: bool,
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (false, Some(pid)) = (self.ended, pid) {
            // It may have ended this very moment.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Writes the request, and reads until the process has ended; what it complains about goes to `complaint`.
async fn exchange(child: Child, request: &[u8], complaint: &mut Vec<u8>) -> Result<Vec<u8>, PluginError> {
    let mut group = ProcessGroup { child, ended: false };
    let child = &mut group.child;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A plugin need not read what it does not want to know.
            let _ = stdin.write_all(request).await;
            let _ = stdin.close().await;
        }
    };
    let mut answer = Vec::new();
    let read = async {
        if let Some(stdout) = stdout {
            let read = stdout.take(MAX_ANSWER + 1).read_to_end(&mut answer).await;
            read.map_err(|cause| PluginError::Pipe { cause })?;
        }
        match answer.len() as u64 > MAX_ANSWER {
            true => Err(PluginError::TooLong),
            false => Ok(answer),
        }
    };
    let complain = async {
        if let Some(stderr) = stderr {
            drain(stderr, complaint).await;
        }
    };
    let talk = async {
        let ((), answer) = future::zip(write, read).await;
        answer
    };
    // The end of the answer ends the exchange, so that what is too long is not waited for.
    let (answer, ()) = future::try_zip(talk, async {
        complain.await;
        Ok(())
    })
    .await?;
    let status = child.status().await.map_err(|cause| PluginError::Pipe { cause })?;
    group.ended = true;
    if status.success() { Ok(answer) } else { Err(PluginError::Exit(status)) }
}

/// Reads to the end, and keeps the beginning.
async fn drain(mut from: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut buffer = [0; 512];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let room = MAX_COMPLAINT.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..count.min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::pod::image::keyring::Credential;
    use crate::pod::image::provider::parse_providers;

    const ANSWER: &str = r#"{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "cacheKeyType": "Registry", "auth": {"r.io": {"username": "'$WHO'", "password": "p"}}}"#;

    /// A plugin that is a shell script, and the directory that it lies in.
    fn plugin(script: &str) -> (tempfile::TempDir, Plugin) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let text = dir.path().join("text");
        fs::write(&text, format!("#!/bin/sh\ncd {}\n{script}\n", dir.path().display())).unwrap();
        // Another process writes what is to be run: a fork of a neighbouring test would hold it open for writing.
        let install = std::process::Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
        assert!(install.unwrap().success());
        let config = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
             - {name: p, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: [r.io], \
             defaultCacheDuration: 1m, args: [get], env: [{name: WHO, value: me}]}\n";
        let provider = parse_providers(config).unwrap().remove(0);
        let plugin = Plugin::new(provider, dir.path());
        (dir, plugin)
    }

    #[test]
    fn it_is_asked_and_its_answer_kept() {
        let (dir, plugin) = plugin(&format!("cat > request; echo $1 >> runs; echo '{ANSWER}'"));
        let expect = [Credential::Basic { username: "me".into(), password: "p".into() }];
        for image in ["r.io/a", "r.io/a", "r.io/b"] {
            assert_eq!(smol::block_on(plugin.ask(image)).unwrap().lookup(image), expect, "{image}");
        }
        assert_eq!(fs::read_to_string(dir.path().join("runs")).unwrap(), "get\n");
        assert_eq!(
            fs::read_to_string(dir.path().join("request")).unwrap(),
            plugin.provider.request("r.io/a")
        );
    }

    #[test]
    fn those_who_wait_share_one_run() {
        for (script, succeeds) in [(format!("echo '{ANSWER}'"), true), ("exit 3".into(), false)] {
            let until_both_asked = "until [ -e both ]; do sleep 0.01; done; echo >> runs";
            let (dir, plugin) = plugin(&format!("{until_both_asked}; {script}"));
            let both_asked = async { fs::write(dir.path().join("both"), "").unwrap() };
            let asked = future::zip(plugin.ask("r.io/a"), plugin.ask("r.io/b"));
            let ((a, b), ()) = smol::block_on(future::zip(asked, both_asked));
            assert_eq!((a.is_ok(), b.is_ok()), (succeeds, succeeds), "{script}");
            assert_eq!(fs::read_to_string(dir.path().join("runs")).unwrap(), "\n", "{script}");
        }
    }

    #[test]
    fn whatever_it_does_it_ends() {
        let rows = [
            ("exit 3", "exit status: 3"),
            ("echo hunter2 >&2; kill -9 $$", "signal: 9 (SIGKILL)"),
            ("echo hunter2", "its answer is not a CredentialProviderResponse"),
            ("exec yes", "its answer is longer than 1048576 bytes"),
            ("yes >&2 & sleep 1000", "no answer within 2s"),
            ("exec 0<&- 1>&- 2>&-; sleep 1000", "no answer within 2s"),
        ];
        for (script, expect) in rows {
            let (_dir, mut plugin) = plugin(&format!("echo $$ > pid; {script}"));
            plugin.deadline = Duration::from_secs(2);
            let error = smol::block_on(plugin.ask("r.io/a")).unwrap_err();
            assert_eq!(error.to_string(), expect, "{script}");
            let pid = fs::read_to_string(_dir.path().join("pid")).unwrap();
            let pid = pid.trim().parse().ok().and_then(Pid::from_raw).unwrap();
            let gone = || rustix::process::test_kill_process_group(pid).is_err();
            let deadline = Instant::now() + Duration::from_secs(30);
            while !gone() {
                assert!(Instant::now() < deadline, "{script}: something runs on");
                smol::block_on(smol::Timer::after(Duration::from_millis(10)));
            }
        }
        let (dir, plugin) = plugin("");
        fs::remove_file(dir.path().join("p")).unwrap();
        let error = smol::block_on(plugin.ask("r.io/a")).unwrap_err().to_string();
        assert!(error.contains("No such file or directory"), "{error}");
    }
}
