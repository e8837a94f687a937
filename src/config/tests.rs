//! Files, drop-ins and flags: merged, or refused.

mod files;
mod manifest_sources;
mod settings;

use std::ffi::OsString;
use std::path::Path;

use super::flags::Flags;
use super::flags::table::{FLAGS, FlagTarget};
use super::kind::{Effect, Field, ValueKind};
use super::kubelet_configuration::KubeletConfiguration;
use super::kubelet_configuration::fields::FIELDS;
use super::{Config, Invocation, load};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

pub(in crate::config) fn resolve_on(host: &str, body: &str, arguments: &[&str]) -> Result<Config, String> {
    let text = |error: super::ConfigError| error.to_string();
    let flags = Flags::parse(arguments.iter().map(OsString::from), Path::new("/cwd")).map_err(text)?;
    let mut files = KubeletConfiguration::default();
    files.merge_file(&format!("{HEAD}{body}"), Path::new("/etc/config.yaml")).map_err(text)?;
    Config::resolve(files, &flags, host).map_err(text)
}

fn resolve(body: &str, arguments: &[&str]) -> Config {
    resolve_on("edge", body, arguments).unwrap()
}

fn load_from(arguments: &[&str]) -> Result<Config, String> {
    match load(arguments.iter().map(OsString::from)) {
        Ok(Invocation::Run(config)) => Ok(*config),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// The dotted paths of the honoured fields.
fn honoured_fields(fields: &'static [Field], prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for field in fields {
        let path = format!("{prefix}{}", field.name);
        match field.kind {
            ValueKind::Object(inner) => found.extend(honoured_fields(inner, &format!("{path}."))),
            _ if field.effect == Effect::Honoured => found.push(path),
            _ => {}
        }
    }
    found
}

/// A value for each honoured field that is not its default, as the file writes it.
fn other_value(path: &str) -> &'static str {
    match path {
        "address" | "healthzBindAddress" => "10.1.2.3",
        "allowedUnsafeSysctls" => "['net.*']",
        "authentication.anonymous.enabled" => "true",
        "authentication.webhook.enabled" => "false",
        "authentication.x509.clientCAFile" | "tlsCertFile" | "tlsPrivateKeyFile" => "/other",
        "authorization.mode" => "AlwaysAllow",
        "enableDebuggingHandlers" | "enableServer" | "enableSystemLogHandler" => "false",
        "tlsCipherSuites" => "[TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]",
        "tlsMinVersion" => "VersionTLS13",
        "seccompDefault" => "true",
        "cgroupDriver" => "systemd",
        "cgroupRoot" => "/edge",
        "cgroupsPerQOS" | "cpuCFSQuota" => "false",
        "cpuCFSQuotaPeriod" => "7ms",
        "cpuManagerPolicy" => "static",
        "podPidsLimit" | "podsPerCore" => "7",
        "enforceNodeAllocatable" => "[none]",
        "kubeReserved" | "systemReserved" => "{cpu: 7m}",
        "kubeReservedCgroup" | "systemReservedCgroup" => "/other",
        "reservedSystemCPUs" => "'0'",
        "singleProcessOOMKill" => "true",
        "clusterDNS" => "[10.96.0.10]",
        "clusterDomain" => "cluster.local",
        "containerRuntimeEndpoint" | "imageServiceEndpoint" => "/run/other.sock",
        "containerLogMaxFiles" | "containerLogMaxWorkers" => "7",
        "containerLogMaxSize" => "7Mi",
        "containerLogMonitorInterval" => "7s",
        "crashLoopBackOff.maxContainerRestartPeriod" => "7s",
        "fileCheckFrequency" | "httpCheckFrequency" | "syncFrequency" | "runtimeRequestTimeout" => "7s",
        "healthzPort"
        | "port"
        | "readOnlyPort"
        | "maxPods"
        | "maxParallelImagePulls"
        | "logging.verbosity" => "7",
        "logging.format" => "json",
        "serializeImagePulls" => "false",
        "podLogsDir" | "resolvConf" | "staticPodPath" => "/other",
        "staticPodURL" => "https://host/pods",
        "staticPodURLHeader" => "{a: [b]}",
        _ => panic!("{path} is honoured: give it a value here"),
    }
}

#[test]
fn every_honoured_field_changes_the_config_and_no_other_does_so_silently() {
    let default = resolve("", &["--config=/c"]);
    for path in honoured_fields(FIELDS, "") {
        let mut names: Vec<_> = path.split('.').collect();
        let last = names.pop().unwrap();
        let inner = format!("{last}: {}", other_value(&path));
        let body = names.iter().rev().fold(inner, |inner, name| format!("{name}: {{{inner}}}"));
        // What is not there cannot be enforced.
        let beside: &[&str] = match path.as_str() {
            "cgroupsPerQOS" => &["--enforce-node-allocatable=none"],
            "cpuManagerPolicy" => &["--reserved-cpus=0"],
            _ => &[],
        };
        let mut config = resolve(&body, &[beside, &["--config=/c"]].concat());
        // It shows every field, honoured or not.
        config.configz = default.configz.clone();
        config.warnings.retain(|line| beside.is_empty() || !line.starts_with("flags without effect"));
        assert!(!config.warnings.iter().any(|line| line.contains("without effect")), "{path}");
        config.warnings.clone_from(&default.warnings);
        assert_ne!(config, default, "{path}");
    }
}

#[test]
fn every_mirror_of_an_honoured_field_changes_the_config() {
    let default = resolve("", &["--config=/c"]);
    for flag in FLAGS.iter().filter(|flag| flag.effect() == Effect::Honoured) {
        let FlagTarget::Field(path) = flag.target else { continue };
        let value = match path {
            "staticPodURLHeader" => "a:b",
            "kubeReserved" | "systemReserved" => "cpu=7m",
            _ => other_value(path).trim_matches(['[', ']', '\'']),
        };
        let body = match path {
            "cgroupsPerQOS" => "enforceNodeAllocatable: []",
            "cpuManagerPolicy" => "reservedSystemCPUs: '0'",
            _ => "",
        };
        let mut config = resolve(body, &["--config=/c", &format!("--{}={value}", flag.name)]);
        config.configz = default.configz.clone();
        config.warnings.clone_from(&default.warnings);
        assert_ne!(config, default, "--{}", flag.name);
    }
}

#[test]
fn the_documentation_lists_what_is_honoured() {
    let text = include_str!("../../docs/configuration.md");
    let listed = |title: &str| -> Vec<String> {
        let section = text.split("\n## ").find(|section| section.starts_with(title)).unwrap();
        section
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(name, _)| name.to_owned())
            .collect()
    };
    let flags: Vec<String> = FLAGS
        .iter()
        .filter(|flag| flag.effect() == Effect::Honoured)
        .map(|flag| format!("--{}", flag.name))
        .collect();
    assert_eq!(listed("Flags honoured"), flags);
    assert_eq!(listed("Fields honoured"), honoured_fields(FIELDS, ""));
}
