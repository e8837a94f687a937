//! The manifest URL: polled, with the last good contents kept on disk.
//!
//! Owns the requests, their pace and the files of the last good contents. What the contents come to is decided in
//! [`judge`], when to ask again in [`pace`], what an answer is in [`reading`]. A server that does not answer, or
//! answers with something else, changes nothing.

mod fetch;
mod judge;
mod keep;
mod network;
mod objects;
mod pace;
mod reading;
mod settle;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future;
use hyper::header::HeaderMap;
use jiff::Timestamp;
use tracing::field::display;
use tracing::{debug, info, warn};

use crate::host::state::Store;
use crate::http::{Cause, Client, PlainText, Proxies, Tls, Url};
use crate::pod::Source;
use crate::pod::decode::list::decode_contents;
use crate::pod::object::{ObjectKind, Subject};
use crate::source::key::read_key;
use crate::source::signature::{Newest, PublicKey, accepts, check_signer, digest};
use crate::source::trust::Trust;
use crate::source::untrusted_signature::UntrustedSignatures;
use crate::sync::handles::Handles;
use crate::sync::message::Event;
use crate::sync::view::{Outcome, Verdict};
use crate::text::chain;
use crate::time::clock::Clock;
use fetch::{Body, FetchError, Fetched, Taken, fetch};
use judge::{Judged, UrlChange, UrlFailure, UrlJudge, UrlReading};
use keep::{Kept, origin};
use network::Network;
use pace::{Ended, NextRequest, next};

/// The least time between two requests however often the network changes: an eighth of the delay, within these bounds.
const MIN_INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(5);
const MIN_INTERVAL_PART: u32 = 8;

/// The settings of the source.
#[derive(Debug, Clone)]
pub(crate) struct HttpSource {
    /// The URL.
    pub url: Url,
    /// Headers for the URL's own server only.
    pub headers: HeaderMap,
    /// How often to ask.
    pub period: Duration,
    /// Which servers may be asked in plain text.
    pub plain_text: PlainText,
    /// How the server is verified, and the client certificate.
    pub tls: Tls,
    /// The proxies of the environment.
    pub proxies: Arc<Proxies>,
    /// The file of the key that must have signed the contents.
    pub public_key: Option<PathBuf>,
    /// Whose key file is trusted.
    pub trust: Trust,
    /// The node's name, for the pods' identity.
    pub node_name: String,
    /// Unknown fields are refused.
    pub strict: bool,
    /// ConfigMaps and Secrets, and references to them, are refused.
    pub kubelet_strict: bool,
    /// Where the last good contents are kept.
    pub store: Store,
}

impl HttpSource {
    /// The key that contents must be signed with, or why there is none; nothing where none is asked for. Blocking.
    fn read_key(&self) -> Option<Result<PublicKey, String>> {
        let path = self.public_key.as_deref()?;
        Some(read_key(path, self.trust.own_uid()).map_err(|error| chain(&error)))
    }
}

/// Polls until the inbox is closed.
pub(crate) async fn run_http(source: HttpSource, client: Client, handles: Handles) {
    let (period, url) = (source.period, source.url.clone());
    let mut state = smol::unblock(move || UrlState::load(source)).await;
    if let Ok(Some(proxy)) = state.source.proxies.choose(&url) {
        info!(%url, %proxy, "the URL is asked through a proxy");
    }
    let kept = state.judge.snapshot();
    if !kept.pods.is_empty() || !kept.objects.is_empty() {
        info!(%url, pods = kept.pods.len(), objects = kept.objects.len(), "pods as the URL last held them");
        if handles.inbox.send(Event::Config(kept)).await.is_err() {
            return;
        }
    }
    let mut failures = 0;
    let mut network = None;
    while !handles.inbox.is_closed() {
        let clock = &*handles.clock;
        let asked = clock.uptime();
        let fetched = fetch(&state.source, &client, &state.taken, clock).await;
        let read = clock.uptime();
        // Contents may be large, and the disk slow: do it on a thread of the pool.
        let judged;
        (state, judged) = smol::unblock(move || state.take_in(fetched, read)).await;
        judged.changes.iter().for_each(|change| log(&url, change));
        if judged.failure.is_none() {
            handles.telemetry.metrics.source_read(Source::Http, Timestamp::now());
        }
        if let Some(snapshot) = judged.snapshot
            && handles.inbox.send(Event::Config(snapshot)).await.is_err()
        {
            return;
        }
        let ended = match judged.failure {
            None => {
                failures = 0;
                Ended::Well
            }
            Some(UrlFailure { cause, .. }) => {
                failures += 1;
                Ended::Failed { times: failures, cause }
            }
        };
        match next(period, ended, fastrand::f64()) {
            NextRequest::After(delay) => {
                network = None;
                clock.sleep(delay).await;
            }
            NextRequest::AfterOrNetwork(delay) => {
                // Kept open over the requests in between: a change during one shortens the wait for the next.
                network = network.or_else(|| Network::open().ok());
                wait(delay, asked, clock, network.as_ref()).await;
            }
        }
    }
}

/// Waits until it is time, or the network has changed since.
async fn wait(delay: Duration, asked: Duration, clock: &dyn Clock, network: Option<&Network>) {
    let changed = async {
        let notified = match network {
            Some(network) => network.changed().await.is_ok(),
            None => false,
        };
        if !notified {
            future::pending::<()>().await;
        }
        let interval = (delay / MIN_INTERVAL_PART).clamp(*MIN_INTERVAL.start(), *MIN_INTERVAL.end());
        clock.sleep(interval.saturating_sub(clock.uptime().saturating_sub(asked))).await;
        debug!("the network has changed: asking the URL again");
    };
    future::or(clock.sleep(delay), changed).await;
}

/// What is carried from one request to the next.
struct UrlState {
    source: HttpSource,
    judge: UrlJudge,
    kept: Kept,
    /// The contents that were taken last.
    taken: Taken,
    /// Their digest.
    sha256: Option<String>,
    /// The pods that the key, as it was last read, did not sign.
    untrusted_signatures: UntrustedSignatures,
}

impl UrlState {
    /// Reads what an earlier agent left. Blocking.
    fn load(source: HttpSource) -> Self {
        let key = source.read_key();
        // A key that cannot be read is reported with the first request; until then no pod is trusted.
        let trusted = |signer: Option<&str>| match &key {
            None => true,
            Some(key) => check_signer(key.as_ref().map_err(String::as_str), signer).is_ok(),
        };
        let origin = origin(&source.node_name, source.strict, source.kubelet_strict);
        let (kept, held, objects) =
            Kept::load(source.store.clone(), &source.url.without_credentials(), &origin, trusted);
        let judge = UrlJudge::new(source.url.to_string(), held, objects);
        Self {
            source,
            judge,
            kept,
            taken: Taken::default(),
            sha256: None,
            untrusted_signatures: UntrustedSignatures::default(),
        }
    }

    /// Decodes, judges and keeps what was read at this uptime. Slow with large contents.
    fn take_in(mut self, fetched: Result<Fetched, FetchError>, read: Duration) -> (Self, Judged) {
        let mut judged = match fetched {
            Err(error) => self.fail(&error, error.cause()),
            Ok(Fetched::Same) => self.judge.apply(UrlReading::Same),
            Ok(Fetched::Body(body)) => self.judge_body(*body, read),
        };
        if judged.failure.is_none() {
            self.kept.keep(self.judge.held(), self.judge.objects());
        }
        if let Some(key) = self.source.read_key() {
            let key = key.as_ref().map_err(String::as_str);
            let pods = self.judge.held().map(|held| (held.pod.name.clone().into(), held.signer.as_deref()));
            let objects = self
                .judge
                .objects()
                .map(|held| (Subject::Object(held.object.key.clone()), held.signer.as_deref()));
            let judged_all =
                pods.chain(objects).map(|(subject, signer)| (subject, check_signer(key, signer)));
            if self.untrusted_signatures.update(judged_all) {
                judged.snapshot = judged.snapshot.or_else(|| Some(self.judge.snapshot()));
            }
        }
        if let Some(snapshot) = &mut judged.snapshot {
            self.untrusted_signatures.mark(snapshot);
        }
        (self, judged)
    }

    fn judge_body(&mut self, body: Body, read: Duration) -> Judged {
        let Body { bytes, validators, signed } = body;
        let sha256 = digest(&bytes);
        if let Some((key, trusted)) = &signed
            && let Err(error) = accepts(self.kept.newest(key), trusted.serial, &sha256)
        {
            return self.fail(&FetchError::Signature(error), Cause::Other);
        }
        let signer = signed.as_ref().map(|(key, _)| key.to_string());
        let is_known = self.sha256.as_ref() == Some(&sha256);
        let reading = if is_known && self.taken.signer == signer {
            UrlReading::Same
        } else {
            let HttpSource { node_name, strict, kubelet_strict, .. } = &self.source;
            match decode_contents(&bytes, &origin(node_name, *strict, *kubelet_strict)) {
                Ok(contents) => UrlReading::Items { contents, signer: signer.clone() },
                Err(refusal) => {
                    UrlReading::Failed(UrlFailure { reason: refusal.to_string(), cause: Cause::Other })
                }
            }
        };
        let judged = self.judge.apply(reading);
        if judged.failure.is_some() {
            return judged;
        }
        let serial = signed.as_ref().and_then(|(_, trusted)| trusted.serial);
        if !is_known {
            // A digest of contents with a Secret tells who can guess its value whether the guess is right.
            let is_secret = self.judge.objects().any(|held| held.object.key.kind == ObjectKind::Secret);
            let sha256 = (!is_secret).then_some(&sha256);
            info!(url = %self.source.url, sha256, serial, "new contents of the URL");
        }
        if let (Some((key, _)), Some(serial)) = (&signed, serial) {
            self.kept.keep_newest(key, Newest { serial, sha256: sha256.clone() });
        }
        self.taken = Taken { validators, signer, read: Some(read) };
        self.sha256 = Some(sha256);
        judged
    }

    fn fail(&mut self, error: &FetchError, cause: Cause) -> Judged {
        self.judge.apply(UrlReading::Failed(UrlFailure { reason: chain(error), cause }))
    }
}

/// Logs only on change.
fn log(url: &Url, change: &UrlChange) {
    match change {
        UrlChange::Failed(reason) => {
            warn!(%url, reason, "cannot take pods from the URL; what runs stays as it is");
        }
        UrlChange::Recovered => info!(%url, "taking pods from the URL again"),
        UrlChange::Removed(subject) => {
            let (pod, object) = (subject.pod().map(display), subject.object().map(display));
            info!(%url, pod, object, "manifest is gone");
        }
        UrlChange::Verdict(Verdict {
            origin,
            document,
            item,
            outcome: Outcome::Accepted { subject, warnings },
            ..
        }) => {
            let (pod, object) = (subject.pod().map(display), subject.object().map(display));
            info!(origin, document, item, pod, object, "manifest accepted");
            for warning in warnings {
                warn!(origin, document, item, pod, object, "{warning}");
            }
        }
        UrlChange::Verdict(Verdict {
            origin, document, item, outcome: Outcome::Refused(refusal), ..
        }) => {
            let (place, field) = (refusal.first.position, &refusal.first.field);
            let (line, column) = (place.map(|p| p.line), place.map(|p| p.column));
            let reason = refusal.reason();
            warn!(origin, document, item, field, reason, line, column, "manifest refused");
            for warning in &refusal.warnings {
                warn!(origin, document, item, "{warning}");
            }
        }
        // These are found in the mux.
        UrlChange::Verdict(Verdict {
            outcome: Outcome::Unchanged { .. } | Outcome::Shadowed { .. } | Outcome::Skipped { .. },
            ..
        }) => {}
    }
}
