//! Lifecycle hooks, as what is to be done: one action with its port looked up. `runtime::hooks` does it.
//!
//! A hook that cannot be run is accepted, as by kubelet, and fails when it is run.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction, LifecycleHandler};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{PodName, PodUid};
use crate::text::excerpt::quoted;
use crate::text::url::Scheme;

/// One hook of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hook {
    /// A command in the container.
    Exec(Vec<String>),
    /// A request.
    HttpGet(HttpGet),
    /// Nothing, for this long.
    Sleep(Duration),
    /// It cannot be run, for this reason.
    Invalid(String),
}

/// A request.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HttpGet {
    /// Plain, or through TLS.
    pub scheme: Scheme,
    /// The host to ask; none for the pod itself.
    pub host: Option<String>,
    /// The port.
    pub port: u16,
    /// Path and query, as written.
    pub path: String,
    /// The headers that the manifest names.
    pub headers: Vec<(String, String)>,
}

/// The values of headers may be secrets, and steps are written to the log of developers.
impl fmt::Debug for HttpGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpGet")
            .field("scheme", &self.scheme)
            .field("host", &self.host)
            .field("port", &self.port)
            .field("path", &self.path)
            .field("headers", &headers)
            .finish()
    }
}

impl Hook {
    /// The hook that a handler stands for, in a container with these ports.
    pub(crate) fn of(handler: &LifecycleHandler, ports: &[ContainerPort]) -> Self {
        if let Some(exec) = &handler.exec {
            return Self::Exec(exec.command.clone().unwrap_or_default());
        }
        if let Some(http) = &handler.http_get {
            return HttpGet::of(http, ports).map_or_else(Self::Invalid, Self::HttpGet);
        }
        if let Some(sleep) = &handler.sleep {
            return Self::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0)));
        }
        let kind = if handler.tcp_socket.is_some() { "tcpSocket" } else { "no action" };
        Self::Invalid(format!("invalid handler: {kind}"))
    }

    /// Reads a hook and the ports of its container back from the annotations that hold them, as JSON.
    ///
    /// # Errors
    /// When either is not what was written there.
    pub(crate) fn from_annotations(handler: &str, ports: Option<&str>) -> Result<Self, serde_json::Error> {
        let ports: Vec<ContainerPort> = ports.map(serde_json::from_str).transpose()?.unwrap_or_default();
        Ok(Self::of(&serde_json::from_str(handler)?, &ports))
    }

    /// What to say when it failed with `error`: kubelet's words.
    pub(crate) fn failure(&self, container: &str, pod: &PodName, uid: &PodUid, error: &str) -> String {
        let (name, namespace) = (&pod.name, &pod.namespace);
        let what = match self {
            Self::Exec(command) => format!("Exec lifecycle hook ([{}])", command.join(" ")),
            Self::HttpGet(http) => format!("HTTP lifecycle hook ({})", http.path),
            Self::Sleep(time) => format!("Sleep lifecycle hook ({})", time.as_secs()),
            Self::Invalid(_) => return format!("Cannot run handler: {error}"),
        };
        format!(
            "{what} for Container \"{container}\" in Pod \"{name}_{namespace}({uid})\" failed - error: {error}"
        )
    }
}

impl HttpGet {
    /// The request that an action stands for, in a container with these ports.
    ///
    /// # Errors
    /// When it names no port, with the reason.
    pub(crate) fn of(action: &HTTPGetAction, ports: &[ContainerPort]) -> Result<Self, String> {
        let headers = action.http_headers.iter().flatten();
        Ok(Self {
            scheme: if action.scheme.as_deref() == Some("HTTPS") { Scheme::Https } else { Scheme::Http },
            host: action.host.clone().filter(|host| !host.is_empty()),
            port: port_number(&action.port, ports)?,
            path: action.path.clone().unwrap_or_default(),
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
        })
    }
}

/// The number of a port, which may be given by the name that the container has for it.
///
/// # Errors
/// When there is none, with the reason.
pub(crate) fn port_number(port: &IntOrString, ports: &[ContainerPort]) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            ports.iter().find(|port| port.name.as_ref() == Some(name)).map(|port| port.container_port)
        }
    };
    let number = number.ok_or_else(|| format!("port {} not found", port_text(port)))?;
    let valid = u16::try_from(number).ok().filter(|number| *number > 0);
    valid.ok_or_else(|| format!("invalid port number: {number}"))
}

fn port_text(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => quoted(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hook(handler: serde_json::Value) -> Hook {
        let ports = r#"[{"name":"web","containerPort":8080,"protocol":"TCP"}]"#;
        Hook::from_annotations(&handler.to_string(), Some(ports)).unwrap()
    }

    #[test]
    fn one_action_each() {
        let get = |scheme, port, host: Option<&str>| {
            let headers = vec![("X-A".to_owned(), "1".to_owned())];
            let host = host.map(str::to_owned);
            Hook::HttpGet(HttpGet { scheme, host, port, path: "/p?q".into(), headers })
        };
        let http = |port: serde_json::Value, more: serde_json::Value| {
            let mut action =
                json!({"path": "/p?q", "port": port, "httpHeaders": [{"name": "X-A", "value": "1"}]});
            action.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"httpGet": action})
        };
        let invalid = |reason: &str| Hook::Invalid(reason.to_owned());
        let cases = [
            (json!({"exec": {"command": ["a", "b"]}}), Hook::Exec(vec!["a".into(), "b".into()])),
            (http(json!(81), json!({})), get(Scheme::Http, 81, None)),
            (http(json!("web"), json!({"host": "", "scheme": "HTTP"})), get(Scheme::Http, 8080, None)),
            (http(json!("web"), json!({"host": "db"})), get(Scheme::Http, 8080, Some("db"))),
            (http(json!("ftp"), json!({})), invalid("port \"ftp\" not found")),
            (http(json!(70_000), json!({})), invalid("invalid port number: 70000")),
            (http(json!(0), json!({})), invalid("invalid port number: 0")),
            (http(json!(81), json!({"scheme": "HTTPS"})), get(Scheme::Https, 81, None)),
            (json!({"sleep": {"seconds": 3}}), Hook::Sleep(Duration::from_secs(3))),
            (json!({"sleep": {"seconds": -3}}), Hook::Sleep(Duration::ZERO)),
            (json!({"tcpSocket": {"port": 80}}), invalid("invalid handler: tcpSocket")),
            (json!({}), invalid("invalid handler: no action")),
        ];
        for (handler, expect) in cases {
            assert_eq!(hook(handler.clone()), expect, "{handler}");
        }
        assert!(Hook::from_annotations("{", None).is_err());
        assert!(Hook::from_annotations("{}", Some("[{}")).is_err());
    }

    #[test]
    fn failures_in_kubelets_words() {
        let (pod, uid) = (PodName::new("default", "p-node1"), PodUid::from("UID"));
        let said = |hook: Hook| hook.failure("main", &pod, &uid, "E");
        let place = "for Container \"main\" in Pod \"p-node1_default(UID)\" failed - error: E";
        let exec = Hook::Exec(vec!["sh".into(), "-c".into()]);
        assert_eq!(said(exec), format!("Exec lifecycle hook ([sh -c]) {place}"));
        let (scheme, path) = (Scheme::Http, "/stop".to_owned());
        let get = HttpGet { scheme, host: None, port: 80, path, headers: vec![] };
        assert_eq!(said(Hook::HttpGet(get)), format!("HTTP lifecycle hook (/stop) {place}"));
        assert_eq!(said(Hook::Sleep(Duration::from_secs(5))), format!("Sleep lifecycle hook (5) {place}"));
        assert_eq!(said(Hook::Invalid(String::new())), "Cannot run handler: E");
    }
}
