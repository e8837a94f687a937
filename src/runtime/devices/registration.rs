//! The socket at which device plugins register: gRPC with one method, on HTTP/2 as it is.
//!
//! Decides nothing: hands each registration on, and answers what it is told to.

use std::path::Path;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use h2::RecvStream;
use h2::server::SendResponse;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use prost::Message;
use tokio::net::{UnixListener, UnixStream};
use tracing::{debug, warn};

use crate::http::Reactor;
use crate::runtime::cri::proto::device_plugin::RegisterRequest;

const REGISTER: &str = "/v1beta1.Registration/Register";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The head of a message of gRPC: whether it is compressed, and its length.
const HEAD: usize = 5;
/// A request has a few hundred bytes.
const MAX_REQUEST: usize = 64 << 10;
/// How long a request may take to come, and its answer to be found.
const DEADLINE: Duration = Duration::from_secs(30);
/// Between two attempts to accept a connection.
const PAUSE: Duration = Duration::from_secs(1);
const UNKNOWN: u8 = 2;
const INVALID_ARGUMENT: u8 = 3;
const UNIMPLEMENTED: u8 = 12;

/// A plugin that registers, and where it is answered.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) request: RegisterRequest,
    pub(super) reply: Sender<Result<(), String>>,
}

/// A refusal: gRPC's code, and a sentence.
struct Refused(u8, String);

/// Listens at a path where there is nothing.
pub(super) fn listen(reactor: &Reactor, path: &Path) -> std::io::Result<Receiver<Registration>> {
    let listener = {
        let _reactor = reactor.enter();
        UnixListener::bind(path)?
    };
    let (inbox, registrations) = async_channel::unbounded();
    let spawner = reactor.clone();
    reactor.spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(spawner.spawn(serve(stream, inbox.clone(), spawner.clone()))),
                Err(error) => {
                    warn!(%error, "cannot accept a device plugin");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    });
    Ok(registrations)
}

/// Serves one connection until its peer closes it.
async fn serve(stream: UnixStream, inbox: Sender<Registration>, spawner: Reactor) {
    let served = async {
        let mut connection = h2::server::handshake(stream).await?;
        while let Some(request) = connection.accept().await {
            let (request, respond) = request?;
            spawner.spawn(answer(request, respond, inbox.clone()));
        }
        Ok::<_, h2::Error>(())
    };
    if let Err(error) = served.await {
        debug!(%error, "a device plugin broke its connection off");
    }
}

async fn answer(request: Request<RecvStream>, respond: SendResponse<Bytes>, inbox: Sender<Registration>) {
    let late = Err(Refused(UNKNOWN, format!("no answer within {DEADLINE:?}")));
    let result = tokio::time::timeout(DEADLINE, register(request, inbox)).await.unwrap_or(late);
    if let Err(error) = send(result, respond) {
        debug!(%error, "cannot answer a device plugin");
    }
}

async fn register(request: Request<RecvStream>, inbox: Sender<Registration>) -> Result<(), Refused> {
    let (head, mut body) = request.into_parts();
    if head.uri.path() != REGISTER {
        return Err(Refused(UNIMPLEMENTED, format!("unknown method {}", head.uri.path())));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(|error| Refused(UNKNOWN, error.to_string()))?;
        // The peer may send as much again; it has gone if it cannot be told.
        let _ = body.flow_control().release_capacity(chunk.len());
        bytes.extend_from_slice(&chunk);
        if bytes.len() > MAX_REQUEST {
            return Err(Refused(INVALID_ARGUMENT, "the request is too long".to_owned()));
        }
    }
    let request = decode(&bytes).map_err(|reason| Refused(INVALID_ARGUMENT, reason))?;
    let (reply, answer) = async_channel::bounded(1);
    let gone = || Refused(UNKNOWN, "the agent is stopping".to_owned());
    inbox.send(Registration { request, reply }).await.map_err(|_| gone())?;
    answer.recv().await.map_err(|_| gone())?.map_err(|reason| Refused(UNKNOWN, reason))
}

/// Reads a body of one message.
fn decode(bytes: &[u8]) -> Result<RegisterRequest, String> {
    let (head, message) = bytes.split_at_checked(HEAD).ok_or("the request is incomplete")?;
    match head {
        [0, length @ ..] if length == (message.len() as u64).to_be_bytes().get(4..).unwrap_or_default() => {
            RegisterRequest::decode(message).map_err(|error| error.to_string())
        }
        [0, ..] => Err("the request is not one whole message".to_owned()),
        _ => Err("compressed requests are not read".to_owned()),
    }
}

fn send(result: Result<(), Refused>, mut respond: SendResponse<Bytes>) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    match result {
        Ok(()) => {
            let mut stream = respond.send_response(response, false)?;
            // An empty message.
            stream.send_data(Bytes::from_static(&[0; HEAD]), false)?;
            let mut trailers = HeaderMap::new();
            trailers.insert(STATUS, HeaderValue::from_static("0"));
            stream.send_trailers(trailers)
        }
        Err(Refused(code, message)) => {
            let headers = response.headers_mut();
            headers.insert(STATUS, HeaderValue::from(u16::from(code)));
            let encoded = utf8_percent_encode(&message, NON_ALPHANUMERIC).to_string();
            headers.extend(HeaderValue::from_str(&encoded).ok().map(|value| (MESSAGE, value)));
            respond.send_response(response, true).map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_whole_message_is_read() {
        let request = RegisterRequest { version: "v1beta1".into(), ..RegisterRequest::default() };
        let message = request.encode_to_vec();
        let framed = |head: [u8; HEAD], rest: &[u8]| [&head[..], rest].concat();
        let length = u8::try_from(message.len()).unwrap();
        for (bytes, expect) in [
            (framed([0, 0, 0, 0, length], &message), Some(request)),
            (framed([0; HEAD], &[]), Some(RegisterRequest::default())),
            (framed([1, 0, 0, 0, length], &message), None),
            (framed([0, 0, 0, 1, length], &message), None),
            (framed([0, 0, 0, 0, 2], &message), None),
            (framed([0, 0, 0, 0, 2], &[0xff, 0xff]), None),
            (vec![0, 0], None),
            (Vec::new(), None),
        ] {
            assert_eq!(decode(&bytes).ok(), expect, "{bytes:?}");
        }
    }
}
