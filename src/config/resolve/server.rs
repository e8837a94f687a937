//! The port with TLS and authentication: whether there is one, its certificate, and who may ask there.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Settings;
use crate::config::flags::Flags;
use crate::config::kubelet_configuration::KubeletConfiguration;
use crate::server::access::{AccessRules, Authorization};
use crate::server::router::RouteRules;
use crate::server::tls::TlsSettings;

/// The port with TLS and authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecurePort {
    /// Its number.
    pub port: u16,
    /// Its certificate, and what it asks of clients.
    pub tls: TlsSettings,
}

/// The port, where a configuration file makes kubelet open it, or a flag names it: an agent with neither stays closed.
pub(super) fn secure_port(settings: &Settings<'_>, flags: &Flags, host: &str) -> Option<SecurePort> {
    let asked = ["config", "config-dir", "port"].iter().any(|flag| flags.get(flag).is_some());
    if !asked || !settings.bool("enableServer").unwrap_or(true) {
        return None;
    }
    let path = |field: &str| settings.text(field).map(PathBuf::from);
    let root_dir = || PathBuf::from(flags.text("root-dir").unwrap_or("/var/lib/kubelet")).join("pki");
    Some(SecurePort {
        port: settings.int("port").filter(|port| *port != 0).unwrap_or(10250),
        tls: TlsSettings {
            // One without the other cannot be used, and is said to.
            files: match (path("tlsCertFile"), path("tlsPrivateKeyFile")) {
                (None, None) => None,
                (certificate, key) => Some((certificate.unwrap_or_default(), key.unwrap_or_default())),
            },
            cert_dir: flags.text("cert-dir").map_or_else(root_dir, PathBuf::from),
            host: host.to_owned(),
            ips: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            only_tls13: settings.text("tlsMinVersion") == Some("VersionTLS13"),
            cipher_suites: settings.texts("tlsCipherSuites"),
            client_ca: path("authentication.x509.clientCAFile"),
        },
    })
}

/// Who may ask: kubelet's defaults of a configuration file, also where there is none.
pub(super) fn access(settings: &Settings<'_>) -> AccessRules {
    AccessRules {
        own_uid: 0,
        anonymous: settings.bool("authentication.anonymous.enabled").unwrap_or(false),
        token_review: settings.bool("authentication.webhook.enabled").unwrap_or(true),
        authorization: match settings.text("authorization.mode") {
            Some("AlwaysAllow") => Authorization::AlwaysAllow,
            _ => Authorization::Webhook,
        },
    }
}

/// Which paths are left out.
pub(super) fn routes(settings: &Settings<'_>) -> RouteRules {
    RouteRules {
        debugging: settings.bool("enableDebuggingHandlers").unwrap_or(true),
        system_logs: settings.bool("enableSystemLogHandler").unwrap_or(true),
    }
}

/// The warning for a port that lets everybody do everything.
pub(super) fn insecure(settings: &Settings<'_>, flags: &Flags) -> Option<String> {
    let port = secure_port(settings, flags, "")?.port;
    let rules = access(settings);
    let address = settings.bind_address("address").unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let is_open =
        rules.anonymous && rules.authorization == Authorization::AlwaysAllow && !address.is_loopback();
    is_open.then(|| {
        format!(
            "whoever reaches {address} port {port} may run commands in every container: authentication.anonymous is \
             enabled, and authorization.mode is AlwaysAllow"
        )
    })
}

/// The page `/configz`: the defaults of kubelet 1.36, and what is set in their place.
pub(super) fn configz(merged: &KubeletConfiguration) -> String {
    let mut shown: Value = serde_json::from_str(include_str!("defaults.json")).unwrap_or_default();
    merged.show(&mut shown);
    json!({ "kubeletconfig": shown }).to_string()
}
