//! Files, drop-ins and flags, laid over each other and refused.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::flags::Flags;
use super::flags::table::{FLAGS, Target};
use super::kind::{Effect, Field, Kind};
use super::kubelet_configuration::KubeletConfiguration;
use super::kubelet_configuration::fields::FIELDS;
use super::{Config, Invocation, load};
use crate::http::tls::{Identity, Roots};
use crate::http::{PlainText, Tls};

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn resolve_on(host: &str, body: &str, arguments: &[&str]) -> Result<Config, String> {
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
            Kind::Object(inner) => found.extend(honoured_fields(inner, &format!("{path}."))),
            _ if field.effect == Effect::Honoured => found.push(path),
            _ => {}
        }
    }
    found
}

#[test]
fn defaults_are_those_of_kubelet() {
    let config = resolve("", &[]);
    let seconds = Duration::from_secs;
    assert_eq!(
        config,
        Config {
            node_name: "edge".into(),
            pod_manifest_path: None,
            manifest_url: None,
            manifest_url_headers: Default::default(),
            manifest_url_plain_text: PlainText::Loopback,
            manifest_url_tls: Tls::Verified { roots: Roots::System, identity: None },
            file_check_frequency: seconds(20),
            http_check_frequency: seconds(20),
            sync_frequency: seconds(60),
            runtime_endpoint: "unix:///run/containerd/containerd.sock".parse().unwrap(),
            image_endpoint: "unix:///run/containerd/containerd.sock".parse().unwrap(),
            runtime_request_timeout: seconds(120),
            root_dir: "/var/lib/kubelet".into(),
            cert_dir: "/var/lib/kubelet/pki".into(),
            pod_logs_dir: "/var/log/pods".into(),
            node_ips: vec![],
            node_labels: Default::default(),
            healthz_bind_address: "127.0.0.1".parse().unwrap(),
            healthz_port: Some(10248),
            address: "0.0.0.0".parse().unwrap(),
            port: 10250,
            read_only_port: None,
            max_pods: 110,
            cluster_dns: vec![],
            cluster_domain: String::new(),
            resolv_conf: Some("/etc/resolv.conf".into()),
            serialize_image_pulls: true,
            max_parallel_image_pulls: None,
            image_pull_deadline: Duration::from_secs(3600),
            image_pull_fallback: false,
            credential_providers: vec![],
            credential_provider_bin_dir: PathBuf::new(),
            max_container_restart_period: seconds(300),
            verbosity: 0,
            strict_manifests: false,
            manifest_public_key: None,
            signed_files_key: None,
            allow_unsafe_manifest_permissions: false,
            warnings: vec![
                "no source of pods: neither staticPodPath (--pod-manifest-path) nor staticPodURL (--manifest-url) is set"
                    .into()
            ],
        }
    );
}

/// A value for each honoured field that is not its default, as the file writes it.
fn other_value(path: &str) -> &'static str {
    match path {
        "address" | "healthzBindAddress" => "10.1.2.3",
        "clusterDNS" => "[10.96.0.10]",
        "clusterDomain" => "cluster.local",
        "containerRuntimeEndpoint" | "imageServiceEndpoint" => "/run/other.sock",
        "crashLoopBackOff.maxContainerRestartPeriod" => "7s",
        "fileCheckFrequency" | "httpCheckFrequency" | "syncFrequency" | "runtimeRequestTimeout" => "7s",
        "healthzPort" | "readOnlyPort" | "maxPods" | "maxParallelImagePulls" | "logging.verbosity" => "7",
        "serializeImagePulls" => "false",
        "podLogsDir" | "resolvConf" | "staticPodPath" => "/other",
        "staticPodURL" => "https://host/pods",
        "staticPodURLHeader" => "{a: [b]}",
        _ => panic!("{path} is honoured: give it a value here"),
    }
}

#[test]
fn every_honoured_field_changes_the_config_and_no_other_does_so_silently() {
    let default = resolve("", &[]);
    for path in honoured_fields(FIELDS, "") {
        let value = other_value(&path);
        let body = match path.split_once('.') {
            Some((outer, inner)) => format!("{outer}: {{{inner}: {value}}}"),
            None => format!("{path}: {value}"),
        };
        let mut config = resolve(&body, &[]);
        assert!(!config.warnings.iter().any(|line| line.contains("without effect")), "{path}");
        config.warnings.clone_from(&default.warnings);
        assert_ne!(config, default, "{path}");
    }
}

#[test]
fn every_mirror_of_an_honoured_field_changes_the_config() {
    let default = resolve("", &[]);
    for flag in FLAGS.iter().filter(|flag| flag.effect() == Effect::Honoured) {
        let Target::Field(path) = flag.target else { continue };
        let value = match path {
            "staticPodURLHeader" => "a:b",
            _ => other_value(path).trim_matches(['[', ']']),
        };
        let mut config = resolve("", &[&format!("--{}={value}", flag.name)]);
        config.warnings.clone_from(&default.warnings);
        assert_ne!(config, default, "--{}", flag.name);
    }
}

#[test]
fn flags_win_over_the_file() {
    let body =
        "maxPods: 10\nhealthzPort: 1\nstaticPodPath: /file\nlogging: {verbosity: 1}\nclusterDNS: [10.0.0.1]";
    let config = resolve(
        body,
        &["--max-pods=20", "--healthz-port=0", "--pod-manifest-path=m", "-v4", "--cluster-dns=10.0.0.2"],
    );
    assert_eq!(config.max_pods, 20);
    assert_eq!(config.healthz_port, None);
    assert_eq!(config.pod_manifest_path, Some(PathBuf::from("/cwd/m")));
    assert_eq!(config.verbosity, 4);
    assert_eq!(config.cluster_dns, ["10.0.0.2".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(
        config.warnings,
        ["KubeletConfiguration fields without effect yet: maxPods", "flags without effect yet: --max-pods"]
    );

    assert_eq!(resolve(body, &["--pod-manifest-path="]).pod_manifest_path, None);
}

#[test]
fn zero_and_empty_mean_the_default_where_kubelet_says_so() {
    let config = resolve(
        "syncFrequency: 0s\nmaxPods: 0\naddress: ''\nport: 0\npodLogsDir: ''\ncontainerRuntimeEndpoint: ''\nresolvConf: ''",
        &[],
    );
    let mut expected = resolve("", &[]);
    expected.warnings.clone_from(&config.warnings);
    expected.resolv_conf = None;
    assert_eq!(config, expected);
}

#[test]
fn endpoints_addresses_labels_and_headers_are_read() {
    let config = resolve(
        "staticPodURL: https://host/pods\nstaticPodURLHeader: {a: [secret-1, secret-2]}",
        &["--container-runtime-endpoint=/run/a.sock", "--node-ip=10.0.0.1,::1", "--node-labels=a=b,c"],
    );
    assert_eq!(config.runtime_endpoint.to_string(), "unix:///run/a.sock");
    assert_eq!(config.image_endpoint.to_string(), "unix:///run/a.sock");
    assert_eq!(config.node_ips.len(), 2);
    assert_eq!(config.node_labels["a"], "b");
    assert_eq!(config.manifest_url_headers.get_all("a").iter().collect::<Vec<_>>(), ["secret-1", "secret-2"]);
    assert!(!format!("{config:?}").contains("secret"), "the values of headers do not show");
    assert_eq!(config.warnings, ["flags without effect yet: --node-labels"]);
}

#[test]
fn the_manifest_url_is_safe_unless_it_is_said_otherwise() {
    let plain = |url: &str, more: &[&str]| {
        let url = format!("--manifest-url={url}");
        resolve_on("edge", "", &[&[url.as_str()], more].concat()).map(|config| config.manifest_url_plain_text)
    };
    assert_eq!(plain("http://127.0.0.1:8080/pods", &[]), Ok(PlainText::Loopback));
    assert_eq!(plain("http://[::1]/pods", &[]), Ok(PlainText::Loopback));
    assert_eq!(plain("https://host/pods", &[]), Ok(PlainText::Loopback));
    assert_eq!(plain("http://host/pods", &["--allow-insecure-manifest-url"]), Ok(PlainText::Anywhere));
    let line = plain("http://user:secret@host/pods?token=secret", &[]).unwrap_err();
    assert!(line.contains("http://host/pods?... is in plain text") && !line.contains("secret"), "{line}");
    assert_eq!(
        plain("http://host:port/", &[]).unwrap_err(),
        "staticPodURL (--manifest-url): the port is not a number from 0 to 65535"
    );
}

#[test]
fn certificates_for_the_manifest_url() {
    let tls = |flags: &[&str]| resolve_on("edge", "", flags).map(|config| config.manifest_url_tls);
    let certificate = "--manifest-url-client-certificate=c.pem";
    let identity = Identity { certificate: "/cwd/c.pem".into(), key: "/cwd/k.pem".into() };
    assert_eq!(
        tls(&["--manifest-url-ca-file=/ca.pem", certificate, "--manifest-url-client-key=k.pem"]),
        Ok(Tls::Verified { roots: Roots::File("/ca.pem".into()), identity: Some(identity) })
    );
    assert_eq!(
        tls(&[certificate]).unwrap_err(),
        "--manifest-url-client-certificate and --manifest-url-client-key go together"
    );
}

#[test]
fn headers_that_cannot_be_sent_are_refused_without_their_value() {
    for (body, name) in [
        ("{'a b': [secret]}", "a b"),
        ("{a: [\"secret\\n\"]}", "a"),
        ("{Transfer-Encoding: [secret]}", "Transfer-Encoding"),
    ] {
        let line = resolve_on("edge", &format!("staticPodURLHeader: {body}"), &[]).unwrap_err();
        assert!(line.contains(&format!("{name:?}")) && !line.contains("secret"), "{line}");
    }
    for line in [
        resolve_on("edge", "staticPodURLHeader: {a: secret}", &[]).unwrap_err(),
        resolve_on("edge", "", &["--manifest-url-header=secret"]).unwrap_err(),
    ] {
        assert!(line.contains("***") && !line.contains("secret"), "{line}");
    }
}

#[test]
fn image_pulls_are_serial_unless_parallel_ones_are_asked_for() {
    for (body, serial, parallel, width) in [
        ("", true, None, Some(1)),
        ("maxParallelImagePulls: 1", true, Some(1), Some(1)),
        ("maxParallelImagePulls: 4", false, Some(4), Some(4)),
        ("serializeImagePulls: false", false, None, None),
    ] {
        let config = resolve(body, &[]);
        assert_eq!(config.parallel_image_pulls(), width, "{body}");
        assert_eq!(
            (config.serialize_image_pulls, config.max_parallel_image_pulls),
            (serial, parallel),
            "{body}"
        );
    }
    let refused = resolve_on("edge", "maxParallelImagePulls: 4\nserializeImagePulls: true", &[]).unwrap_err();
    assert!(refused.starts_with("maxParallelImagePulls is 4, but"), "{refused}");
}

#[test]
fn the_node_has_a_valid_name() {
    for (host, arguments, name) in [
        ("Edge-7", &[][..], Ok("edge-7")),
        ("edge", &["--hostname-override=Other"], Ok("other")),
        ("edge_7", &[], Err("edge_7")),
        ("", &[], Err("")),
        ("edge", &["--hostname-override=a b"], Err("a b")),
    ] {
        match (resolve_on(host, "", arguments), name) {
            (Ok(config), Ok(name)) => assert_eq!(config.node_name, name),
            (Err(line), Err(name)) => {
                assert!(line.starts_with(&format!("node name {name:?} is not")), "{line}")
            }
            (got, wanted) => panic!("{got:?}, wanted {wanted:?}"),
        }
    }
}

#[test]
fn help_and_version_come_before_any_file() {
    let run = |arguments: &[&str]| load(arguments.iter().map(OsString::from)).unwrap();
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    assert!(
        matches!(run(&["--config=/nowhere", "-h"]), Invocation::Help(text) if text.contains("--config "))
    );
    assert!(
        matches!(run(&["--config=/nowhere", "--version"]), Invocation::Version(v) if v == format!("rkubelet {version}"))
    );
    assert!(matches!(run(&["--version=raw"]), Invocation::Version(v) if v == version));
    assert!(matches!(run(&["--version=false", "--hostname-override=n"]), Invocation::Run(_)));
}

#[test]
fn file_drop_ins_and_flags_are_laid_over_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let drop_ins = root.join("conf.d");
    fs::create_dir(&drop_ins).unwrap();
    let write = |path: &Path, body: &str| fs::write(path, format!("{HEAD}{body}")).unwrap();
    write(
        &root.join("config.yaml"),
        "maxPods: 1\nhealthzPort: 1\nreadOnlyPort: 1\nlogging: {verbosity: 1}\nstaticPodPath: m",
    );
    write(&drop_ins.join("10.conf"), "healthzPort: 2\nreadOnlyPort: 2\nlogging: {format: text}");
    write(&drop_ins.join("20.conf"), "readOnlyPort: 3\npodLogsDir: logs");
    fs::write(drop_ins.join("30.yaml"), "not: read").unwrap();

    let config = format!("--config={}", root.join("config.yaml").display());
    let config_dir = format!("--config-dir={}", drop_ins.display());
    let arguments = [config.as_str(), &config_dir, "--read-only-port=4", "--hostname-override=n"];
    let loaded = load_from(&arguments).unwrap();
    assert_eq!(
        (loaded.max_pods, loaded.healthz_port, loaded.read_only_port, loaded.verbosity),
        (1, Some(2), Some(4), 1)
    );
    assert_eq!(loaded.pod_manifest_path, Some(root.join("m")));
    assert_eq!(loaded.pod_logs_dir, drop_ins.join("logs"));
    assert_eq!(
        loaded.warnings,
        [
            "KubeletConfiguration fields without effect yet: logging.format, maxPods".to_owned(),
            format!(
                "files in --config-dir ignored, their suffix is not .conf: {}",
                drop_ins.join("30.yaml").display()
            ),
        ]
    );

    // Each drop-in says what it is, and errors name the drop-in.
    fs::write(drop_ins.join("40.conf"), "maxPods: 3").unwrap();
    let line = load_from(&arguments).unwrap_err();
    assert!(line.contains("40.conf: not a KubeletConfiguration: apiVersion is null"), "{line}");
}

#[test]
fn credential_providers_are_read_whole_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let write = |file: &str, names: &[&str]| {
        let head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n";
        let items = names.iter().map(|name| {
            format!("- {{name: {name}, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: [r.io], defaultCacheDuration: 0s}}\n")
        });
        fs::write(root.join(file), format!("{head}{}", items.collect::<String>())).unwrap();
    };
    write("a.yaml", &["one", "two"]);
    let flag = |name: &str, path: &Path| format!("--image-credential-provider-{name}={}", path.display());
    let (config, bin) = (flag("config", root), flag("bin-dir", root));
    fs::write(root.join("one"), "").unwrap();
    let arguments =
        [config.as_str(), &bin, "--hostname-override=n", "--image-pull-deadline=5m", "--image-pull-fallback"];
    let loaded = load_from(&arguments).unwrap();
    assert_eq!((loaded.image_pull_deadline, loaded.image_pull_fallback), (Duration::from_secs(300), true));
    assert_eq!(loaded.credential_provider_bin_dir, root);
    assert_eq!(
        loaded.credential_providers.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
        ["one", "two"]
    );
    let missing = format!("there is no credential provider plugin {}", root.join("two").display());
    assert!(loaded.warnings.contains(&missing), "{:?}", loaded.warnings);

    write("b.yml", &["one"]);
    let line = load_from(&arguments).unwrap_err();
    assert_eq!(line, format!("{}: the provider one is there twice", root.display()));
    write("b.yml", &["a/b"]);
    let line = load_from(&arguments).unwrap_err();
    assert!(line.starts_with(&format!("{}: providers[0].name: ", root.join("b.yml").display())), "{line}");

    let rows = [
        (
            vec![config.as_str()],
            "--image-credential-provider-config needs --image-credential-provider-bin-dir",
        ),
        (vec![bin.as_str()], "--image-credential-provider-bin-dir needs --image-credential-provider-config"),
        (vec!["--image-credential-provider-config=/nowhere", &bin], "cannot read /nowhere: "),
    ];
    for (mut arguments, expect) in rows {
        arguments.push("--hostname-override=n");
        let line = load_from(&arguments).unwrap_err();
        assert!(line.starts_with(expect), "{line}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    for arguments in [["--config=/nowhere"], ["--config-dir=/nowhere"]] {
        let line = load_from(&arguments).unwrap_err();
        assert!(line.starts_with("cannot read /nowhere: "), "{line}");
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

#[test]
fn signatures_and_permissions() {
    let config =
        resolve("", &["--pod-manifest-path=/m", "--manifest-public-key=/k", "--require-signed-files"]);
    assert_eq!(config.signed_files_key, Some("/k".into()));
    assert_eq!(config.manifest_public_key, config.signed_files_key);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let config = resolve("", &["--pod-manifest-path=/m", "--manifest-public-key=/k"]);
    assert_eq!(config.signed_files_key, None);
    assert_eq!(config.warnings, ["--manifest-public-key checks no file without --require-signed-files"]);
    assert!(resolve("", &["--allow-unsafe-manifest-permissions"]).allow_unsafe_manifest_permissions);
    let refused = resolve_on("node1", "", &["--require-signed-files"]);
    assert_eq!(refused.unwrap_err(), "--require-signed-files needs --manifest-public-key");
}
