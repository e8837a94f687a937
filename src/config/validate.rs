//! What kubelet checks of a whole configuration before it starts with it: values, and how they go together. Pure.
//!
//! It runs on what files and flags came to, for settings without effect too: a configuration that kubelet would refuse
//! is refused here, with every reason. It changes nothing, and looks at nothing of the machine.

mod eviction;
mod node;
mod resources;

use serde_json::Value;

use super::flags::Flags;
use super::flags::table::{FLAGS, FlagTarget};
use super::kubelet_configuration::{KubeletConfiguration, normalize};
use crate::pod::quantity::Amount;
use crate::time::duration::parse_duration;

const SECOND: i64 = 1_000_000_000;
/// User namespaces come in blocks of this many IDs.
const USER_NAMESPACE_UNIT: i64 = 65_536;
/// Hidden metrics can be shown of the release before the one that rkubelet follows.
const PREVIOUS_RELEASE: &str = "1.35";

/// The reasons to refuse the configuration, each beginning with the setting; none if there is none.
pub(crate) fn find_problems(settings: &KubeletConfiguration, flags: &Flags) -> Vec<String> {
    let mut checks = Checks { settings, flags, problems: Vec::new() };
    checks.images();
    checks.logs();
    checks.shutdown();
    checks.paths();
    checks.tls();
    checks.observability();
    checks.others();
    eviction::check(&mut checks);
    resources::check(&mut checks);
    node::check(&mut checks);
    checks.problems
}

/// The settings, and what was found wrong with them so far.
struct Checks<'a> {
    /// Files and flags, merged.
    settings: &'a KubeletConfiguration,
    /// What only a flag can say.
    flags: &'a Flags,
    problems: Vec<String>,
}

impl<'a> Checks<'a> {
    /// Notes what is wrong with a field.
    fn refuse(&mut self, field: &str, reason: impl AsRef<str>) {
        self.problems.push(format!("{}: {}", name(field), reason.as_ref()));
    }

    fn text(&self, field: &str) -> &'a str {
        self.settings.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn bool(&self, field: &str, default: bool) -> bool {
        self.settings.get(field).and_then(Value::as_bool).unwrap_or(default)
    }

    fn int(&self, field: &str) -> Option<i64> {
        self.settings.get(field)?.as_i64()
    }

    /// Nanoseconds; zero if unset.
    fn nanos(&self, field: &str) -> i64 {
        match self.settings.get(field) {
            Some(Value::String(text)) => parse_duration(text).unwrap_or_default(),
            Some(value) => value.as_i64().unwrap_or_default(),
            None => 0,
        }
    }

    fn texts(&self, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.items(field).filter_map(Value::as_str)
    }

    fn items(&self, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.settings.get(field).and_then(Value::as_array).into_iter().flatten()
    }

    /// The pairs of a map of texts.
    fn pairs(&self, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let map = self.settings.get(field).and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// Whether a feature gate is on; `default` is that of Kubernetes 1.36.
    fn gate(&self, gate: &str, default: bool) -> bool {
        self.settings.get("featureGates").and_then(|gates| gates.get(gate)?.as_bool()).unwrap_or(default)
    }

    fn images(&mut self) {
        let high = self.int("imageGCHighThresholdPercent").unwrap_or(85);
        let low = self.int("imageGCLowThresholdPercent").unwrap_or(80);
        if low >= high {
            let other = name("imageGCHighThresholdPercent");
            self.refuse(
                "imageGCLowThresholdPercent",
                format!("{low} must be less than {other}, which is {high}"),
            );
        }
        let least = match self.nanos("imageMinimumGCAge") {
            0 => 120 * SECOND,
            least => least,
        };
        let most = self.nanos("imageMaximumGCAge");
        if most > 0 && most <= least {
            self.refuse("imageMaximumGCAge", format!("must be longer than {}", name("imageMinimumGCAge")));
        }
        let parallel = self.int("maxParallelImagePulls").unwrap_or(1);
        if parallel > 1 && self.bool("serializeImagePulls", false) {
            let other = name("serializeImagePulls");
            self.refuse("maxParallelImagePulls", format!("is {parallel}, but {other} is true"));
        }
        let policy = self.text("imagePullCredentialsVerificationPolicy");
        let list = "preloadedImagesVerificationAllowlist";
        if self.texts(list).next().is_some() && policy != "NeverVerifyAllowlistedImages" {
            let other = "imagePullCredentialsVerificationPolicy";
            self.refuse(list, format!("needs {other} to be NeverVerifyAllowlistedImages"));
        }
    }

    fn logs(&mut self) {
        let size = self.text("containerLogMaxSize");
        if Amount::parse(size).is_ok_and(|amount| !amount.is_whole()) {
            self.refuse("containerLogMaxSize", format!("{size:?} is not a whole number of bytes"));
        }
        if self.nanos("logging.flushFrequency") < 0 {
            self.refuse("logging.flushFrequency", "must not be negative");
        }
        let patterns: Vec<_> = self.items("logging.vmodule").map(|item| &item["filePattern"]).collect();
        if !patterns.is_empty() && self.text("logging.format") == "json" {
            self.refuse("logging.vmodule", "works with the format text only");
        }
        for pattern in patterns {
            let text = pattern.as_str().unwrap_or_default();
            if text.is_empty() || text.contains(['=', ',']) {
                self.refuse("logging.vmodule", format!("{text:?} is not a pattern of file names"));
            }
        }
        for option in ["logging.options.json.infoBufferSize", "logging.options.text.infoBufferSize"] {
            let is_set = match self.settings.get(option) {
                Some(Value::String(text)) => Amount::parse(text).is_ok_and(|amount| !amount.is_zero()),
                Some(value) => value.as_f64() != Some(0.0),
                None => false,
            };
            if is_set && !self.gate("LoggingAlphaOptions", false) {
                self.refuse(option, "needs the feature gate LoggingAlphaOptions");
            }
        }
        // Of the fields that these flags mirror kubelet takes no notice.
        for flag in ["log-json-split-stream", "log-text-split-stream"] {
            if self.flags.is_set(flag) && !self.gate("LoggingAlphaOptions", false) {
                self.problems.push(format!("--{flag}: needs the feature gate LoggingAlphaOptions"));
            }
        }
    }

    fn shutdown(&mut self) {
        let (total, critical) = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods");
        let (nanos, critical_nanos) = (self.nanos(total), self.nanos(critical));
        if critical_nanos > nanos {
            self.refuse(critical, format!("must not be longer than {total}"));
        }
        for (field, nanos) in [(total, nanos), (critical, critical_nanos)] {
            if (1..SECOND).contains(&nanos) {
                self.refuse(field, "must be zero, or one second or longer");
            }
        }
        if (nanos > 0 || critical_nanos > 0) && !self.gate("GracefulNodeShutdown", true) {
            self.refuse(total, "needs the feature gate GracefulNodeShutdown");
        }
        let by_priority = "shutdownGracePeriodByPodPriority";
        if self.items(by_priority).next().is_some() {
            if !self.gate("GracefulNodeShutdownBasedOnPodPriority", true) {
                self.refuse(by_priority, "needs the feature gate GracefulNodeShutdownBasedOnPodPriority");
            } else if nanos > 0 || critical_nanos > 0 {
                self.refuse(by_priority, format!("cannot be set together with {total}"));
            }
        }
    }

    fn paths(&mut self) {
        let logs = self.text("podLogsDir");
        if !logs.is_ascii() {
            self.refuse("podLogsDir", format!("{logs:?} has characters other than ASCII"));
        }
        let clean = normalize(logs.as_ref());
        if clean.to_str() != Some(logs) {
            self.refuse(
                "podLogsDir",
                format!("{logs:?} is not normalized, as {:?} is", clean.display().to_string()),
            );
        }
    }

    fn tls(&mut self) {
        for suite in self.texts("tlsCipherSuites") {
            if !CIPHER_SUITES.contains(&suite.strip_prefix("TLS_").unwrap_or_default()) {
                self.refuse("tlsCipherSuites", format!("{suite:?} is not a known cipher suite"));
            }
        }
        let mut suites = self.texts("tlsCipherSuites").peekable();
        let serves_http2 = self.bool("enableServer", true) && self.text("tlsMinVersion") != "VersionTLS13";
        if serves_http2
            && suites.peek().is_some()
            && !suites.any(|suite| HTTP2_CIPHER_SUITES.contains(&suite))
        {
            let needed = HTTP2_CIPHER_SUITES.join(" or ");
            self.refuse("tlsCipherSuites", format!("HTTP/2 needs {needed} among them"));
        }
        let mut seen = Vec::new();
        for curve in self.items("tlsCurvePreferences").filter_map(Value::as_i64) {
            if !CURVES.contains(&curve) {
                self.refuse("tlsCurvePreferences", format!("{curve} is not a known curve"));
            } else if seen.contains(&curve) {
                self.refuse("tlsCurvePreferences", format!("{curve} is there twice"));
            }
            seen.push(curve);
        }
    }

    fn observability(&mut self) {
        let release = self.text("showHiddenMetricsForVersion");
        if !release.is_empty() && release != PREVIOUS_RELEASE {
            self.refuse("showHiddenMetricsForVersion", format!("must be {PREVIOUS_RELEASE}, or nothing"));
        }
        let endpoint = self.text("tracing.endpoint");
        let scheme = endpoint.split_once("//").map_or("dns:", |(scheme, _)| scheme);
        if !["dns:", "unix:", "unix-abstract:"].contains(&scheme) {
            self.refuse(
                "tracing.endpoint",
                format!("{endpoint:?} is not host:port, dns://, unix:// or unix-abstract://"),
            );
        }
        if self.bool("enableSystemLogQuery", false) && !self.bool("enableSystemLogHandler", true) {
            self.refuse("enableSystemLogQuery", "needs enableSystemLogHandler");
        }
    }

    fn others(&mut self) {
        if self.bool("runOnce", false) {
            self.refuse("runOnce", "is not supported any more, and must not be true");
        }
        if !self.text("systemCgroups").is_empty() && self.text("cgroupRoot").is_empty() {
            self.refuse("systemCgroups", format!("needs {}", name("cgroupRoot")));
        }
        let period = self.nanos("cpuCFSQuotaPeriod");
        if period != 0 && period != SECOND / 10 && !self.gate("CustomCPUCFSQuotaPeriod", true) {
            self.refuse("cpuCFSQuotaPeriod", "needs the feature gate CustomCPUCFSQuotaPeriod");
        }
        let factor = self.settings.get("memoryThrottlingFactor").and_then(Value::as_f64).unwrap_or(1.0);
        if factor <= 0.0 || factor > 1.0 {
            self.refuse("memoryThrottlingFactor", format!("{factor} must be greater than 0 and at most 1"));
        }
        if self.text("memoryReservationPolicy") == "TieredReservation" && !self.gate("MemoryQoS", false) {
            self.refuse("memoryReservationPolicy", "TieredReservation needs the feature gate MemoryQoS");
        }
        if let Some(ids) = self.int("userNamespaces.idsPerPod") {
            let range = USER_NAMESPACE_UNIT..=i64::from(u32::MAX);
            if !range.contains(&ids) || ids % USER_NAMESPACE_UNIT != 0 {
                let reason = format!("{ids} is not a multiple of {USER_NAMESPACE_UNIT} below 2^32");
                self.refuse("userNamespaces.idsPerPod", reason);
            }
        }
    }
}

/// The field with the flag that mirrors it, if there is one.
fn name(field: &str) -> String {
    let mirror = FLAGS.iter().find(|flag| matches!(flag.target, FlagTarget::Field(path) if path == field));
    match mirror {
        Some(flag) => format!("{field} (--{})", flag.name),
        None => field.to_owned(),
    }
}

/// Names of cipher suites that kubelet takes, without the `TLS_` that all begin with.
static CIPHER_SUITES: &[&str] = &[
    "AES_128_GCM_SHA256",
    "AES_256_GCM_SHA384",
    "CHACHA20_POLY1305_SHA256",
    "ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE_ECDSA_WITH_RC4_128_SHA",
    "ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "ECDHE_RSA_WITH_RC4_128_SHA",
    "RSA_WITH_3DES_EDE_CBC_SHA",
    "RSA_WITH_AES_128_CBC_SHA",
    "RSA_WITH_AES_128_CBC_SHA256",
    "RSA_WITH_AES_128_GCM_SHA256",
    "RSA_WITH_AES_256_CBC_SHA",
    "RSA_WITH_AES_256_GCM_SHA384",
    "RSA_WITH_RC4_128_SHA",
];

/// HTTP/2 needs one of these below TLS 1.3.
const HTTP2_CIPHER_SUITES: [&str; 2] =
    ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];

/// TLS' numbers of curves and key exchanges: P-256, P-384, P-521, X25519, and those with ML-KEM.
const CURVES: [i64; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

#[cfg(test)]
mod tests;
