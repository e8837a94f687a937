//! One poll of the URL: the contents, and the signature beside them where a key is given.

use std::time::Duration;

use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue};

use super::HttpSource;
use super::reading::{AnswerError, Contents, Validators, read};
use crate::http::{
    BodyLimit, Cause, Client, GetRequest, GetResponse, HttpError, LookupOwner, Redirects, Url,
};
use crate::pod::decode::MAX_MANIFEST;
use crate::source::key::{KeyError, read_key};
use crate::source::signature::{EXTENSION, MAX_SIGNATURE, PublicKey, SignatureError, Trusted};
use crate::time::clock::Clock;

/// As kubelet's: the time for one request, redirects included.
const DEADLINE: Duration = Duration::from_secs(10);
/// More redirects in a row are a loop.
const MOST_REDIRECTS: usize = 5;
/// Contents and signature are replaced one after the other: how often to retry, and how long to wait in between.
const ATTEMPTS: usize = 4;
const BETWEEN: Duration = Duration::from_secs(1);

/// Contents that were asked for and may count.
#[derive(Debug)]
pub(super) enum Fetched {
    /// The same as those that were taken last.
    Same,
    /// These.
    Body(Box<Body>),
}

/// New contents.
#[derive(Debug)]
pub(super) struct Body {
    /// Unpacked.
    pub(super) bytes: Vec<u8>,
    /// What to ask by next time, if they are taken.
    pub(super) validators: Validators,
    /// The key, and what its signature says, where one is asked for.
    pub(super) signed: Option<(PublicKey, Trusted)>,
}

/// Why there are no contents.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// No answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// An answer that holds no contents.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// There is no key to check signatures with.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is no signature.
    #[error("not signed: {url} has status {status}")]
    Unsigned {
        /// Where it should be.
        url: Url,
        /// What the server says.
        status: u16,
    },
    /// The signature does not prove what it should.
    #[error("refused for its signature")]
    Signature(#[from] SignatureError),
}

impl FetchError {
    /// What the failure depends on.
    pub(super) fn cause(&self) -> Cause {
        match self {
            FetchError::Http(error) => error.cause(),
            _ => Cause::Other,
        }
    }

    /// It may be that new contents are there, and their signature is not yet.
    fn may_be_halfway(&self) -> bool {
        matches!(self, FetchError::Unsigned { .. } | FetchError::Signature(SignatureError::Tampered))
    }
}

/// What is known of the contents that were taken last.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken {
    /// What the server can compare.
    pub(super) validators: Validators,
    /// The key that signed them.
    pub(super) signer: Option<String>,
    /// When they were last read as a whole, in uptime.
    pub(super) read: Option<Duration>,
}

/// Looks, and says so if these are still the contents.
pub(super) async fn fetch(
    source: &HttpSource,
    client: &Client,
    taken: &Taken,
    clock: &dyn Clock,
) -> Result<Fetched, FetchError> {
    let mut attempts = 1..;
    loop {
        match look(source, client, taken, clock.uptime()).await {
            Err(error) if error.may_be_halfway() && attempts.next() < Some(ATTEMPTS) => {
                clock.sleep(BETWEEN).await;
            }
            ended => return ended,
        }
    }
}

/// The disk, and hashing large contents, are slow: both are done on threads of the pool.
async fn look(
    source: &HttpSource,
    client: &Client,
    taken: &Taken,
    now: Duration,
) -> Result<Fetched, FetchError> {
    // Read anew each time: it is small, and a new key counts at once.
    let key = match (source.public_key.clone(), source.trust.own_uid()) {
        (None, _) => None,
        (Some(path), own_uid) => Some(smol::unblock(move || read_key(&path, own_uid)).await?),
    };
    let (signer, age) = (taken.signer.as_deref(), taken.read.map(|read| now.saturating_sub(read)));
    let key_text = key.as_ref().map(PublicKey::to_string);
    let asked = taken.validators.usable(signer, key_text.as_deref(), age.unwrap_or_default());
    let response = get(source, client, &source.url, asked.headers(), MAX_MANIFEST).await?;
    let (bytes, validators) = match smol::unblock(move || read(response, &asked, MAX_MANIFEST)).await? {
        Contents::Same => return Ok(Fetched::Same),
        Contents::Body { bytes, validators } => (bytes, validators),
    };
    let Some(key) = key else {
        return Ok(Fetched::Body(Box::new(Body { bytes, validators, signed: None })));
    };
    let url = source.url.with_suffix(&format!(".{EXTENSION}"));
    let response = get(source, client, &url, None, MAX_SIGNATURE).await?;
    let signature = match (response.status, read(response, &Validators::default(), MAX_SIGNATURE)) {
        (200, Ok(Contents::Body { bytes, .. })) => {
            String::from_utf8(bytes).map_err(|_| SignatureError::Malformed)?
        }
        (status, _) => return Err(FetchError::Unsigned { url, status }),
    };
    smol::unblock(move || {
        let trusted = key.verify(&bytes, &signature)?;
        Ok(Fetched::Body(Box::new(Body { bytes, validators, signed: Some((key, trusted)) })))
    })
    .await
}

async fn get(
    source: &HttpSource,
    client: &Client,
    url: &Url,
    conditional: Option<(Url, HeaderMap)>,
    max_body: usize,
) -> Result<GetResponse, HttpError> {
    let mut secrets = source.headers.clone();
    if !secrets.contains_key(AUTHORIZATION)
        && let Some(credentials) = url.authorization()
        && let Ok(mut value) = HeaderValue::try_from(credentials)
    {
        value.set_sensitive(true);
        secrets.insert(AUTHORIZATION, value);
    }
    let request = GetRequest {
        url: url.clone(),
        headers: HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]),
        secrets,
        conditional,
        deadline: DEADLINE,
        body: BodyLimit::Whole(max_body),
        tls: source.tls.clone(),
        owner: LookupOwner::Source,
        proxies: Some(source.proxies.clone()),
    };
    let redirects = Redirects::AnyHost { most: MOST_REDIRECTS, plain_text: source.plain_text };
    client.get(&request, &redirects).await
}
