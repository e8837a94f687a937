//! A probe as what is to be done, and how often: one action with its port and variables looked up. Pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};

use super::threshold::{Kind, Thresholds};
use crate::pod::env::expand;
use crate::pod::hook::{HttpGet, port_number};

/// One probe of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    /// What to do.
    pub check: Check,
    /// How long after its start a container is left alone.
    pub initial_delay: Duration,
    /// The time from one run to the next.
    pub period: Duration,
    /// The time that a run has.
    pub timeout: Duration,
    /// How many results in a row make a verdict.
    pub thresholds: Thresholds,
}

/// What a probe does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Check {
    /// Runs a command in the container.
    Exec(Vec<String>),
    /// Makes a request.
    HttpGet(HttpGet),
    /// Opens a connection.
    TcpSocket {
        /// To whom; none for the pod itself.
        host: Option<String>,
        /// The port.
        port: u16,
    },
    /// Asks the standard health service.
    Grpc {
        /// The port.
        port: u16,
        /// Whose health to ask for; empty for the server's.
        service: String,
    },
    /// It cannot be run, for this reason.
    Invalid(String),
}

/// The probe of this kind that a container has.
pub(crate) fn probe_of(container: &Container, kind: Kind) -> Option<&Probe> {
    match kind {
        Kind::Startup => container.startup_probe.as_ref(),
        Kind::Readiness => container.readiness_probe.as_ref(),
        Kind::Liveness => container.liveness_probe.as_ref(),
    }
}

impl Spec {
    /// The probe of a container, as its manifest has it.
    pub(crate) fn of(probe: &Probe, container: &Container) -> Self {
        let number = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default)
        };
        let seconds = |value, default| Duration::from_secs(u64::from(number(value, default)));
        Self {
            check: Check::of(probe, container),
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10).max(Duration::from_secs(1)),
            timeout: seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1)),
            thresholds: Thresholds {
                success: number(probe.success_threshold, 1),
                failure: number(probe.failure_threshold, 3),
            },
        }
    }
}

impl Check {
    fn of(probe: &Probe, container: &Container) -> Self {
        let ports = container.ports.as_deref().unwrap_or_default();
        if let Some(exec) = &probe.exec {
            // As written, as kubelet does: what comes from elsewhere has no value here.
            let value = |name: &str| {
                let mut env = container.env.iter().flatten();
                env.rfind(|v| v.name == name).map(|v| v.value.as_deref().unwrap_or_default())
            };
            return Self::Exec(exec.command.iter().flatten().map(|word| expand(word, value)).collect());
        }
        if let Some(http) = &probe.http_get {
            return HttpGet::of(http, ports).map_or_else(Self::Invalid, Self::HttpGet);
        }
        if let Some(tcp) = &probe.tcp_socket {
            let host = tcp.host.clone().filter(|host| !host.is_empty());
            return port_number(&tcp.port, ports)
                .map_or_else(Self::Invalid, |port| Self::TcpSocket { host, port });
        }
        if let Some(grpc) = &probe.grpc {
            let service = grpc.service.clone().unwrap_or_default();
            return u16::try_from(grpc.port).map_or_else(
                |_| Self::Invalid(format!("invalid port number: {}", grpc.port)),
                |port| Self::Grpc { port, service },
            );
        }
        Self::Invalid("missing probe handler".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(probe: Value) -> Spec {
        let container = json!({
            "name": "main",
            "env": [
                {"name": "A", "value": "old"},
                {"name": "A", "value": "$(B)"},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            "ports": [{"name": "web", "containerPort": 8080}],
        });
        let container: Container = serde_json::from_value(container).unwrap();
        Spec::of(&serde_json::from_value(probe).unwrap(), &container)
    }

    #[test]
    fn one_action_each() {
        let invalid = |reason: &str| Check::Invalid(reason.to_owned());
        let tcp = |host: Option<&str>, port| Check::TcpSocket { host: host.map(str::to_owned), port };
        let cases = [
            (
                json!({"exec": {"command": ["a", "$(A) $(IP) $$(A)"]}}),
                Check::Exec(vec!["a".into(), "$(B)  $(A)".into()]),
            ),
            (json!({"tcpSocket": {"port": "web", "host": ""}}), tcp(None, 8080)),
            (json!({"tcpSocket": {"port": 81, "host": "db"}}), tcp(Some("db"), 81)),
            (json!({"tcpSocket": {"port": "ftp"}}), invalid("port \"ftp\" not found")),
            (json!({"grpc": {"port": 9000}}), Check::Grpc { port: 9000, service: String::new() }),
            (json!({"grpc": {"port": 9, "service": "s"}}), Check::Grpc { port: 9, service: "s".into() }),
            (json!({"httpGet": {"port": "ftp"}}), invalid("port \"ftp\" not found")),
            (json!({}), invalid("missing probe handler")),
        ];
        for (probe, expect) in cases {
            assert_eq!(spec(probe.clone()).check, expect, "{probe}");
        }
        let http = spec(json!({"httpGet": {"port": "web", "path": "/up"}})).check;
        assert!(matches!(&http, Check::HttpGet(get) if get.port == 8080 && get.path == "/up"), "{http:?}");
    }

    #[test]
    fn numbers_are_the_manifests() {
        let seconds = Duration::from_secs;
        let own = spec(json!({
            "initialDelaySeconds": 4, "periodSeconds": 5, "timeoutSeconds": 6,
            "successThreshold": 7, "failureThreshold": 8,
        }));
        assert_eq!((own.initial_delay, own.period, own.timeout), (seconds(4), seconds(5), seconds(6)));
        assert_eq!(own.thresholds, Thresholds { success: 7, failure: 8 });
    }
}
