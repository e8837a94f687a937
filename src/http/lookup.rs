//! Host names to addresses, by the system's resolver: `getaddrinfo`, with its hosts file, nsswitch and DNS. A resolver of
//! our own would know none of these.
//!
//! A call of it cannot be interrupted, and holds its thread for half a minute or more when no name server answers.
//! So there are few such threads, and a lookup that finds none waits. Invariants: one owner, which is a pod or the URL
//! source, holds at most [`MAX_PER_OWNER`] threads, all pods together [`MAX_OF_PODS`], and the URL source never waits for
//! pods; one name is looked up once at a time, for everybody who asks; a caller that is gone leaves nothing behind.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;

use tokio::sync::Notify;

/// Lookups of all pods together that run at the same time.
const MAX_OF_PODS: usize = 16;
/// Lookups of one owner that run at the same time.
const MAX_PER_OWNER: usize = 2;
/// `getaddrinfo` needs some; the default of 2 MiB it never needs.
const STACK: usize = 512 << 10;

/// Whom a name is looked up for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LookupOwner {
    /// The URL source.
    Source,
    /// A pod, or a container of one, by any text that tells it from others.
    Pod(String),
}

/// The addresses of a name, with port 0; or the resolver's error.
pub(super) type LookupAnswer = Result<Vec<SocketAddr>, String>;

/// The addresses of a host that needs no lookup: an address, or `localhost`, which is this machine (RFC 6761).
pub(super) fn without_lookup(host: &str) -> Option<Vec<SocketAddr>> {
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) if host.strip_suffix('.').unwrap_or(host).eq_ignore_ascii_case("localhost") => {
            vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]
        }
        Err(_) => return None,
    };
    Some(addresses.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
}

/// Every lookup that runs. Cheap to clone.
#[derive(Clone)]
pub(super) struct Lookups(Arc<LookupState>);

struct LookupState {
    resolve: Box<dyn Fn(&str) -> LookupAnswer + Send + Sync>,
    /// By the name that is looked up.
    running: Mutex<BTreeMap<String, Running>>,
    /// A lookup has ended.
    ended: Notify,
}

struct Running {
    owner: LookupOwner,
    answer: Arc<OnceLock<LookupAnswer>>,
}

/// A lookup that has begun.
pub(super) struct Lookup {
    lookups: Lookups,
    answer: Arc<OnceLock<LookupAnswer>>,
}

/// What a new request for a name comes to.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    /// The name is being looked up: share the answer.
    Join,
    /// Start a thread.
    Begin,
    /// Wait until another lookup has ended.
    Wait,
}

/// `running` are the names that are being looked up, each with its owner.
fn admit<'a>(
    running: impl Iterator<Item = (&'a str, &'a LookupOwner)>,
    host: &str,
    owner: &LookupOwner,
) -> Admission {
    let (mut own, mut of_pods) = (0, 0);
    for (name, holder) in running {
        if name == host {
            return Admission::Join;
        }
        own += usize::from(holder == owner);
        of_pods += usize::from(*holder != LookupOwner::Source);
    }
    let crowded = *owner != LookupOwner::Source && of_pods >= MAX_OF_PODS;
    if own >= MAX_PER_OWNER || crowded { Admission::Wait } else { Admission::Begin }
}

impl Default for Lookups {
    fn default() -> Self {
        Self::new(|host| {
            let found = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
            Ok(found.collect())
        })
    }
}

impl std::fmt::Debug for Lookups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookups").field("running", &self.0.running().keys()).finish()
    }
}

impl Lookups {
    /// Lookups by this function instead of the system's.
    pub(super) fn new(resolve: impl Fn(&str) -> LookupAnswer + Send + Sync + 'static) -> Self {
        Self(Arc::new(LookupState {
            resolve: Box::new(resolve),
            running: Mutex::default(),
            ended: Notify::new(),
        }))
    }

    /// Begins a lookup, or joins one; waits for as long as there is no thread for it.
    ///
    /// # Errors
    /// When no thread can be made.
    pub(super) async fn begin(&self, host: &str, owner: &LookupOwner) -> io::Result<Lookup> {
        loop {
            // Before the look: an end in between is not missed.
            let ended = self.0.ended.notified();
            if let Some(answer) = self.try_begin(host, owner)? {
                return Ok(Lookup { lookups: self.clone(), answer });
            }
            ended.await;
        }
    }

    fn try_begin(&self, host: &str, owner: &LookupOwner) -> io::Result<Option<Arc<OnceLock<LookupAnswer>>>> {
        let mut running = self.0.running();
        match admit(running.iter().map(|(name, lookup)| (name.as_str(), &lookup.owner)), host, owner) {
            Admission::Wait => Ok(None),
            Admission::Join => Ok(running.get(host).map(|lookup| lookup.answer.clone())),
            Admission::Begin => {
                let (shared, name) = (self.0.clone(), host.to_owned());
                let thread = thread::Builder::new().name("lookup".to_owned()).stack_size(STACK);
                // It waits for our lock before it removes what is inserted below.
                thread.spawn(move || {
                    let answer = (shared.resolve)(&name);
                    shared.end(&name, answer);
                })?;
                let answer = Arc::new(OnceLock::new());
                running.insert(host.to_owned(), Running { owner: owner.clone(), answer: answer.clone() });
                Ok(Some(answer))
            }
        }
    }
}

impl LookupState {
    fn end(&self, host: &str, answer: LookupAnswer) {
        if let Some(lookup) = self.running().remove(host) {
            // Set once, here.
            let _ = lookup.answer.set(answer);
        }
        self.ended.notify_waiters();
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        // A poisoned lock still guards whole entries.
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Lookup {
    /// Waits for the answer.
    pub(super) async fn answer(self) -> LookupAnswer {
        loop {
            let ended = self.lookups.0.ended.notified();
            if let Some(answer) = self.answer.get() {
                return answer.clone();
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests;
