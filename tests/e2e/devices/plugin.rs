//! A device plugin that speaks the real protocol: it serves at a socket of its own, and registers at the agent's.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{oneshot, watch};
use tonic::client::Grpc;
use tonic::transport::Endpoint;

pub(crate) const RESOURCE: &str = "example.com/lamp";

#[derive(Clone, PartialEq, Message)]
struct Empty {}

#[derive(Clone, PartialEq, Message)]
struct Options {
    #[prost(bool, tag = "1")]
    pre_start: bool,
    #[prost(bool, tag = "2")]
    preferred: bool,
}

#[derive(Clone, PartialEq, Message)]
struct RegisterRequest {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    endpoint: String,
    #[prost(string, tag = "3")]
    resource_name: String,
    #[prost(message, optional, tag = "4")]
    options: Option<Options>,
}

#[derive(Clone, PartialEq, Message)]
struct Device {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    health: String,
}

#[derive(Clone, PartialEq, Message)]
struct DeviceList {
    #[prost(message, repeated, tag = "1")]
    devices: Vec<Device>,
}

/// Requests of Allocate and PreStartContainer, and answers of GetPreferredAllocation, look the same.
#[derive(Clone, PartialEq, Message)]
struct Ids {
    #[prost(string, repeated, tag = "1")]
    ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ListOfIds {
    #[prost(message, repeated, tag = "1")]
    each: Vec<Ids>,
}

#[derive(Clone, PartialEq, Message)]
struct PreferenceRequest {
    #[prost(string, repeated, tag = "1")]
    available: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    must: Vec<String>,
    #[prost(int32, tag = "3")]
    size: i32,
}

#[derive(Clone, PartialEq, Message)]
struct PreferenceRequests {
    #[prost(message, repeated, tag = "1")]
    each: Vec<PreferenceRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct Mount {
    #[prost(string, tag = "1")]
    container: String,
    #[prost(string, tag = "2")]
    host: String,
    #[prost(bool, tag = "3")]
    read_only: bool,
}

#[derive(Clone, PartialEq, Message)]
struct DeviceSpec {
    #[prost(string, tag = "1")]
    container: String,
    #[prost(string, tag = "2")]
    host: String,
    #[prost(string, tag = "3")]
    permissions: String,
}

#[derive(Clone, PartialEq, Message)]
struct Allocated {
    #[prost(btree_map = "string, string", tag = "1")]
    env: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "2")]
    mounts: Vec<Mount>,
    #[prost(message, repeated, tag = "3")]
    devices: Vec<DeviceSpec>,
    #[prost(btree_map = "string, string", tag = "4")]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Answers {
    #[prost(message, repeated, tag = "1")]
    each: Vec<Allocated>,
}

/// What the plugin knows and has seen.
struct Shared {
    devices: watch::Sender<DeviceList>,
    /// Mounted into containers, for what the plugin gives them.
    gift: PathBuf,
    calls: Mutex<Vec<String>>,
}

/// A plugin that runs until it is dropped.
pub(crate) struct Plugin {
    shared: Arc<Shared>,
    /// Ends its thread, and with it all its sockets.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Plugin {
    /// Serves these devices, and registers at the agent's socket in `dir`.
    pub(crate) fn start(dir: &Path, gift: &Path, devices: &[(&str, bool)]) -> Self {
        let shared = Arc::new(Shared {
            devices: watch::channel(list(devices)).0,
            gift: gift.to_owned(),
            calls: Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let (served, dir) = (shared.clone(), dir.to_owned());
        let thread = thread::spawn(move || {
            runtime().block_on(async {
                let socket = dir.join("lamp.sock");
                let _ = std::fs::remove_file(&socket);
                let listener = UnixListener::bind(&socket).expect("listen as a plugin");
                Handle::current().spawn(serve(listener, served));
                let answer = register(&dir.join("kubelet.sock"), "v1beta1", RESOURCE).await;
                ready.send(answer).expect("somebody waits");
                let _ = stopped.await;
            });
        });
        let answer = is_ready.recv_timeout(Duration::from_secs(60)).expect("an answer to the registration");
        answer.expect("register");
        Self { shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Tells other devices from now on.
    pub(crate) fn tell(&self, devices: &[(&str, bool)]) {
        self.shared.devices.send_replace(list(devices));
    }

    /// What it was asked, without how often for its options and devices.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().expect("the calls").clone()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "the plugin has panicked");
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Registers as a plugin would that nobody should believe; the refusal.
pub(crate) fn refusal(dir: &Path, version: &str, resource: &str) -> String {
    let answer = runtime().block_on(register(&dir.join("kubelet.sock"), version, resource));
    answer.expect_err("a refusal").message().to_owned()
}

fn list(devices: &[(&str, bool)]) -> DeviceList {
    let each = devices.iter().map(|(id, healthy)| Device {
        id: (*id).to_owned(),
        health: if *healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
    });
    DeviceList { devices: each.collect() }
}

async fn register(socket: &Path, version: &str, resource: &str) -> Result<(), tonic::Status> {
    let unavailable = |error: tonic::transport::Error| tonic::Status::unavailable(error.to_string());
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).expect("an endpoint");
    let endpoint = endpoint.timeout(Duration::from_secs(30));
    let mut client = Grpc::new(endpoint.connect().await.map_err(unavailable)?);
    client.ready().await.map_err(unavailable)?;
    let request = RegisterRequest {
        version: version.to_owned(),
        endpoint: "lamp.sock".to_owned(),
        resource_name: resource.to_owned(),
        options: None,
    };
    let path = hyper::http::uri::PathAndQuery::from_static("/v1beta1.Registration/Register");
    let codec = tonic_prost::ProstCodec::<RegisterRequest, Empty>::default();
    client.unary(tonic::Request::new(request), path, codec).await.map(drop)
}

async fn serve(listener: UnixListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        let service = service_fn(move |request| answer(request, shared.clone()));
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let connection = connection.serve_connection(TokioIo::new(stream), service);
        Handle::current().spawn(connection);
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Body>, hyper::Error> {
    let method = request.uri().path().trim_start_matches("/v1beta1.DevicePlugin/").to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let message = body.get(5..).unwrap_or_default();
    let note = |text: String| shared.calls.lock().expect("the calls").push(text);
    let reply = match method.as_str() {
        "GetDevicePluginOptions" => Options { pre_start: true, preferred: true }.encode_to_vec(),
        "ListAndWatch" => return Ok(response(watched(shared.devices.subscribe()))),
        "GetPreferredAllocation" => {
            let request = PreferenceRequests::decode(message).expect("a request").each.remove(0);
            note(format!("prefer {} of {}", request.size, request.available.join(" ")));
            // The last ones.
            let size = usize::try_from(request.size).unwrap_or_default();
            let mut ids = request.available;
            ids.sort();
            let ids = ids.split_off(ids.len() - size);
            ListOfIds { each: vec![Ids { ids }] }.encode_to_vec()
        }
        "Allocate" => {
            let ids = ListOfIds::decode(message).expect("a request").each.remove(0).ids;
            note(format!("allocate {}", ids.join(" ")));
            let allocated = Allocated {
                env: [("LAMP".to_owned(), ids.join(" ")), ("OWN".to_owned(), "the plugin's".to_owned())]
                    .into(),
                mounts: vec![Mount {
                    container: "/gift".into(),
                    host: shared.gift.display().to_string(),
                    read_only: true,
                }],
                devices: vec![DeviceSpec {
                    container: "/dev/lamp".into(),
                    host: "/dev/zero".into(),
                    permissions: "r".into(),
                }],
                annotations: [("example.com/lamp".to_owned(), "lit".to_owned())].into(),
            };
            Answers { each: vec![allocated] }.encode_to_vec()
        }
        "PreStartContainer" => {
            let request = Ids::decode(message).expect("a request");
            note(format!("start {}", request.ids.join(" ")));
            Empty {}.encode_to_vec()
        }
        other => panic!("a call of {other}"),
    };
    let frames = [Ok(Frame::data(framed(&reply))), Ok(Frame::trailers(trailers()))];
    Ok(response(StreamBody::new(futures_lite::stream::iter(frames)).boxed_unsync()))
}

/// All devices, with each change, without end.
fn watched(mut devices: watch::Receiver<DeviceList>) -> Body {
    devices.mark_changed();
    let frames = futures_lite::stream::unfold(devices, |mut devices| async move {
        devices.changed().await.ok()?;
        let list = devices.borrow_and_update().encode_to_vec();
        Some((Ok(Frame::data(framed(&list))), devices))
    });
    StreamBody::new(frames).boxed_unsync()
}

fn response(body: Body) -> Response<Body> {
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(body).unwrap_or_else(|_| Response::new(Full::new(Bytes::new()).boxed_unsync()))
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([("grpc-status".parse().expect("a name"), HeaderValue::from_static("0"))])
}

fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    [&[0], &length[..], message].concat().into()
}
