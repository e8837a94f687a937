//! Asks the standard health service, in plain text, over a connection of its own.

use std::time::Duration;

use tonic::Code;
use tonic::transport::Endpoint;

use super::{ProbeResult, Ran, USER_AGENT, authority, failed, ran};
use crate::http::Reactor;
use crate::runtime::cri::proto::health::HealthCheckRequest;
use crate::runtime::cri::proto::health::health_check_response::ServingStatus;
use crate::runtime::cri::proto::health::health_client::HealthClient;
use crate::text::chain;

/// An answer has a few bytes; a larger one is none.
const MAX_ANSWER: usize = 4 << 10;

/// Asks a server for the health of a service of its. The caller bounds the time of the whole.
pub(super) async fn check(reactor: &Reactor, host: &str, port: u16, service: &str, timeout: Duration) -> Ran {
    let place = authority(host, port);
    let refused = |error: &dyn std::error::Error| {
        failed(format!("error: failed to connect service at {place:?}: {}", chain(error)))
    };
    let endpoint = Endpoint::from_shared(format!("http://{place}"));
    let endpoint = match endpoint.and_then(|endpoint| endpoint.user_agent(USER_AGENT)) {
        // A connection that is being made does not notice that nobody waits for it any more.
        Ok(endpoint) => endpoint.connect_timeout(timeout),
        Err(error) => return refused(&error),
    };
    let channel = {
        let _reactor = reactor.enter();
        endpoint.connect_lazy()
    };
    let mut client = HealthClient::new(channel).max_decoding_message_size(MAX_ANSWER);
    match client.check(HealthCheckRequest { service: service.to_owned() }).await {
        Ok(answer) => match answer.into_inner().status() {
            ServingStatus::Serving => ran(ProbeResult::Success, "service healthy"),
            status => failed(format!("service unhealthy (responded with {:?})", status.as_str_name())),
        },
        Err(status) if status.code() == Code::Unimplemented => failed(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            status.message()
        )),
        Err(status) if status.code() == Code::Unavailable => refused(&status),
        Err(status) => failed(format!("error: health rpc probe failed: {}", chain(&status))),
    }
}
