//! The HTTP client: one GET, one connection, one deadline.
//!
//! Owns connections and messages. The caller (URL source, probe, hook) decides whom to ask, what to send, whether
//! redirects are followed and what an answer means. Invariants: nothing outlives a request but the TLS
//! settings and a lookup that the system does not end; every request ends at its deadline, which counts from when its
//! lookup could begin, whatever the server does; what is kept of an answer is bounded.
//!
//! It runs on the tokio thread, which is there for the runtime's client anyway.

pub(crate) mod encoding;
pub(crate) mod error;
mod exchange;
pub(crate) mod lookup;
pub(crate) mod proxy;
pub(crate) mod reactor;
pub(crate) mod redirect;
pub(crate) mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{HOST, HeaderMap, LOCATION};
use rustls::ClientConfig;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(crate) use crate::text::url::Url;
pub(crate) use error::{Cause, HttpError};
pub(crate) use lookup::LookupOwner;
pub(crate) use proxy::Proxies;
pub(crate) use reactor::{Reactor, spawn_tokio_thread};
pub(crate) use redirect::{PlainText, Redirects};
pub(crate) use tls::Tls;

use crate::text::url::Scheme;
use crate::time::within::within;
use exchange::{Proxy, Route, connect, exchange};
use lookup::{Lookups, without_lookup};
use redirect::is_redirect;
use tls::Configs;

/// A lookup may take this long, or as long as its request.
const LOOKUP_DEADLINE: Duration = Duration::from_secs(20);

/// A GET.
#[derive(Debug, Clone)]
pub(crate) struct GetRequest {
    /// What to ask for.
    pub url: Url,
    /// Headers for every server on the way. A `Host` is for the URL's own origin alone.
    pub headers: HeaderMap,
    /// Headers for the URL's own scheme, host and port only.
    pub secrets: HeaderMap,
    /// Headers for this one URL, wherever in a row of redirects it is asked.
    pub conditional: Option<(Url, HeaderMap)>,
    /// The time for all of it, redirects included.
    pub deadline: Duration,
    /// How much of a body is taken.
    pub body: BodyLimit,
    /// How the server is known, where the URL asks for TLS.
    pub tls: Tls,
    /// Whom names are looked up for.
    pub owner: LookupOwner,
    /// The proxies; none where a server is always asked directly.
    pub proxies: Option<Arc<Proxies>>,
}

/// How much of a body is taken, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyLimit {
    /// All of it; a larger one is an error.
    Whole(usize),
    /// Its beginning; the rest is not waited for.
    Start(usize),
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct GetResponse {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, as it was sent: not unpacked.
    pub body: Vec<u8>,
    /// How the end of the body was recognised.
    pub end: BodyEnd,
    /// The URL that answered, after redirects.
    pub url: Url,
}

/// How the end of a body was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// By its length, its last chunk, or the end of TLS.
    Told,
    /// By the end of the connection, which is also what a broken one looks like.
    Guessed,
    /// Not at all: there may be more than was to be taken.
    Cut,
}

/// The client. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    handle: Handle,
    configs: Arc<Configs>,
    lookups: Lookups,
}

/// The end of a request: what it has to wait for through no fault of the other side does not count.
#[derive(Debug, Clone, Copy)]
struct RequestDeadline {
    given: Duration,
    at: Instant,
}

impl RequestDeadline {
    fn after(given: Duration) -> Self {
        Self { given, at: Instant::now() + given }
    }

    fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    fn error(&self) -> HttpError {
        HttpError::Deadline { after: self.given }
    }
}

impl Client {
    /// A client on this reactor.
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle, configs: Arc::default(), lookups: Lookups::default() }
    }

    /// Makes the request, and follows redirects as far as the rule allows. Cancelled when dropped.
    ///
    /// # Errors
    /// When there is no whole answer in time.
    pub(crate) async fn get(
        &self,
        request: &GetRequest,
        redirects: &Redirects,
    ) -> Result<GetResponse, HttpError> {
        let mut deadline = RequestDeadline::after(request.deadline);
        let mut hop = request.clone();
        let mut followed = 0;
        loop {
            let response = self.get_once(&hop, &mut deadline).await?;
            if !is_redirect(response.status) {
                return Ok(response);
            }
            let location = response.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(next) = redirects.next(&hop.url, response.status, location, followed)? else {
                return Ok(response);
            };
            if location.is_some_and(|location| location.contains("://")) {
                // A redirect that names a server is for that server's name.
                hop.headers.remove(HOST);
            }
            if !next.has_origin_of(&hop.url) {
                hop.secrets = HeaderMap::new();
                hop.tls = hop.tls.without_identity();
            }
            hop.url = next;
            followed += 1;
        }
    }

    /// Opens a connection, and closes it.
    ///
    /// # Errors
    /// When there is none in time.
    pub(crate) async fn reach(
        &self,
        host: &str,
        port: u16,
        deadline: Duration,
        owner: &LookupOwner,
    ) -> Result<(), HttpError> {
        let mut deadline = RequestDeadline::after(deadline);
        let addresses = self.resolve(host, port, owner, &mut deadline).await?;
        let host = host.to_owned();
        self.on_reactor(deadline, async move { connect(&host, &addresses).await.map(drop) }).await
    }

    /// Does something on the reactor, until the deadline at most.
    async fn on_reactor<T: Send + 'static>(
        &self,
        deadline: RequestDeadline,
        work: impl Future<Output = Result<T, HttpError>> + Send + 'static,
    ) -> Result<T, HttpError> {
        let work =
            async move { timeout(deadline.left(), work).await.unwrap_or_else(|_| Err(deadline.error())) };
        AbortOnDrop(self.handle.spawn(work)).await
    }

    /// The addresses of a host. A wait for a thread of the resolver puts the deadline off, but has the same length at
    /// most; then it is an error of its own, since it says nothing about the host.
    async fn resolve(
        &self,
        host: &str,
        port: u16,
        owner: &LookupOwner,
        deadline: &mut RequestDeadline,
    ) -> Result<Vec<SocketAddr>, HttpError> {
        let with_port = |addresses: Vec<SocketAddr>| {
            let with_port = addresses.into_iter().map(|mut address| {
                address.set_port(port);
                address
            });
            with_port.collect()
        };
        if let Some(addresses) = without_lookup(host) {
            return Ok(with_port(addresses));
        }
        let asked = Instant::now();
        let not_started = |source| HttpError::LookupNotStarted { host: host.to_owned(), source };
        let begin = self.lookups.begin(host, owner);
        let lookup = within(deadline.left(), begin).await;
        let lookup = lookup.unwrap_or_else(|| Err(io::Error::other("too many others are under way")));
        let lookup = lookup.map_err(not_started)?;
        deadline.at += asked.elapsed();
        let after = deadline.given.min(LOOKUP_DEADLINE);
        match within(after.min(deadline.left()), lookup.answer()).await {
            Some(Ok(addresses)) => Ok(with_port(addresses)),
            Some(Err(reason)) => {
                Err(HttpError::Resolve { host: host.to_owned(), source: io::Error::other(reason) })
            }
            None => Err(HttpError::LookupDeadline { host: host.to_owned(), after }),
        }
    }

    /// The settings of TLS. Those that read files do so where it may block.
    async fn config(
        &self,
        scheme: Scheme,
        tls: &Tls,
        deadline: RequestDeadline,
    ) -> Result<Option<Arc<ClientConfig>>, HttpError> {
        match (scheme, tls) {
            (Scheme::Http, _) => Ok(None),
            (Scheme::Https, Tls::Unverified) => Ok(Some(self.configs.get(&Tls::Unverified)?)),
            (Scheme::Https, tls) => {
                let (configs, tls) = (self.configs.clone(), tls.clone());
                let load = smol::unblock(move || configs.get(&tls));
                Ok(Some(within(deadline.left(), load).await.ok_or_else(|| deadline.error())??))
            }
        }
    }

    async fn get_once(
        &self,
        request: &GetRequest,
        deadline: &mut RequestDeadline,
    ) -> Result<GetResponse, HttpError> {
        let GetRequest { url, tls, owner, proxies, .. } = request;
        let config = self.config(url.scheme, tls, *deadline).await?;
        let proxy = match proxies.as_ref().map(|proxies| proxies.choose(url)).transpose()?.flatten() {
            Some(proxy) => Some(Proxy {
                config: self.config(proxy.scheme, &tls.without_identity(), *deadline).await?,
                url: proxy.clone(),
            }),
            None => None,
        };
        let first = proxy.as_ref().map_or(url, |proxy| &proxy.url);
        let addresses = self.resolve(&first.host, first.port, owner, deadline).await?;
        let (hop, route) = (request.clone(), Route { addresses, proxy, config });
        let answered = self.on_reactor(*deadline, async move { exchange(&hop, route).await }).await;
        let is_tls = matches!(answered, Err(HttpError::Handshake { .. } | HttpError::CertificateTime { .. }));
        if is_tls && request.tls != Tls::Unverified {
            self.configs.forget(&request.tls);
        }
        answered
    }
}

/// A task of the reactor that is aborted when this is dropped.
struct AbortOnDrop<T>(JoinHandle<Result<T, HttpError>>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, HttpError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let joined = std::pin::Pin::new(&mut self.0).poll(context);
        joined.map(|joined| joined.unwrap_or(Err(HttpError::Reactor)))
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
pub(crate) mod tests;
