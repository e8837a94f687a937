//! Every flag of kubelet, and every way to give one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use serde_json::{Value, json};

use super::help::help_text;
use super::table::{FLAGS, FlagTarget};
use super::{Flags, KubeletConfiguration};
use crate::config::kubelet_configuration::field_at;

/// Name and type of every flag of kubelet 1.36, as its help prints them.
const KUBELET_FLAGS: &str = include_str!("../../../tests/fixtures/kubelet-flags.txt");

fn parse(arguments: &[&str]) -> Result<Flags, String> {
    Flags::parse(arguments.iter().map(OsString::from), Path::new("/cwd")).map_err(|error| error.to_string())
}

#[test]
fn the_table_is_in_order_and_mirrors_fields_that_exist() {
    assert!(FLAGS.is_sorted_by(|a, b| a.name < b.name));
    for flag in FLAGS {
        if let FlagTarget::Field(path) = flag.target {
            assert!(field_at(path).is_some(), "--{} mirrors {path}", flag.name);
        }
    }
}

#[test]
fn every_flag_of_kubelet_is_accepted() {
    let mut seen = 0;
    for line in KUBELET_FLAGS.lines() {
        let (_, rest) = line.split_once("--").unwrap();
        let (name, kind) = rest.split_once(' ').unwrap_or((rest, "bool"));
        let value = match (name, kind) {
            ("container-runtime-endpoint" | "image-service-endpoint", _) => "unix:///run/x.sock",
            ("manifest-url", _) => "http://host/pods",
            ("node-ip", _) => "10.0.0.1",
            ("cluster-dns", _) => "10.96.0.10,10.96.0.11",
            ("cgroup-driver", _) => "systemd",
            ("authorization-mode", _) => "Webhook",
            ("hairpin-mode", _) => "none",
            ("logging-format", _) => "text",
            ("cpu-manager-policy" | "topology-manager-policy", _) => "none",
            ("memory-manager-policy", _) => "None",
            ("topology-manager-scope", _) => "pod",
            ("tls-min-version", _) => "VersionTLS12",
            ("container-log-max-size", _) | (_, "quantity") => "10Mi",
            ("eviction-hard" | "eviction-soft", _) => "memory.available<1Gi",
            ("register-with-taints", _) => "a=b:NoSchedule",
            ("cloud-provider", _) => "external",
            ("seccomp-default", _) | (_, "bool" | "version") => "true",
            (_, "ip") => "127.0.0.1",
            (_, "int" | "Level") => "5",
            ("cpu-cfs-quota-period", _) => "10ms",
            (_, "duration") => "1m30s",
            (_, "mapStringBool") => "A=true",
            (_, "mapStringString") => "a=b",
            (_, "colonSeparatedMultimapStringString") => "a:b",
            (_, "reserved") => "0:memory=1Gi",
            (_, "pattern") => "f=1",
            (_, "string" | "strings") => "/text",
            other => panic!("unknown type: {other:?}"),
        };
        let flags = parse(&[&format!("--{name}={value}")]).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(flags.get(name).is_some(), "{line}");
        seen += 1;
    }
    let ours = FLAGS.iter().filter(|flag| flag.help.contains("rkubelet's own")).count();
    assert_eq!(seen + ours + 1, FLAGS.len(), "all but our own, and --pod-infra-container-image");
}

#[test]
fn flags_have_the_syntax_of_pflag() {
    let cases: &[(&[&str], &str, Value)] = &[
        (&["--max-pods=5"], "max-pods", json!(5)),
        (&["--max-pods", "5"], "max-pods", json!(5)),
        (&["--max_pods", "5"], "max-pods", json!(5)),
        (&["--max-pods=5", "--max-pods=6"], "max-pods", json!(6)),
        (&["--oom-score-adj", "-999"], "oom-score-adj", json!(-999)),
        (&["--strict-manifests"], "strict-manifests", json!(true)),
        (&["--strict-manifests=false"], "strict-manifests", json!(false)),
        (&["-v", "2"], "v", json!(2)),
        (&["-v=2"], "v", json!(2)),
        (&["-v2"], "v", json!(2)),
        (&["--v=2"], "v", json!(2)),
        (&["--v", "2"], "v", json!(2)),
        (&["-h"], "help", json!(true)),
        (&["--help"], "help", json!(true)),
        (&["--version"], "version", json!(true)),
        (&["--version=raw"], "version", json!("raw")),
        (&["--version=false"], "version", json!(false)),
        (&["--sync-frequency", "1m30s"], "sync-frequency", json!("1m30s")),
        (&["--root-dir", "state"], "root-dir", json!("/cwd/state")),
        (&["--pod-manifest-path="], "pod-manifest-path", json!("")),
        (
            &["--cluster-dns=10.0.0.1", "--cluster-dns=10.0.0.2"],
            "cluster-dns",
            json!(["10.0.0.1", "10.0.0.2"]),
        ),
        (&["--node-labels", "a=b,c"], "node-labels", json!({"a": "b", "c": ""})),
    ];
    for (arguments, name, value) in cases {
        assert_eq!(parse(arguments).unwrap().get(name), Some(value), "{arguments:?}");
    }
}

#[test]
fn refusals_name_the_flag_and_the_value() {
    for (arguments, line) in [
        (
            &["--pod-manifst-path=/a"][..],
            "unknown flag --pod-manifst-path (did you mean --pod-manifest-path?)",
        ),
        (&["--no-such-flag"], "unknown flag --no-such-flag"),
        (&["-x"], "unknown flag -x"),
        (&["-max-pods=10"], "unknown flag -max-pods=10 (did you mean --max-pods?)"),
        (
            &[
                "--network-plugin",
                "cni",
                "--container-runtime=remote",
                "--logtostderr",
                "--max-pods=x",
                "--nope",
                "1",
            ],
            "flag --network-plugin was removed from kubelet in Kubernetes 1.24; flag --container-runtime was removed from \
             kubelet in Kubernetes 1.27; flag --logtostderr was removed from kubelet in Kubernetes 1.26; flag --max-pods: \
             \"x\" is not an integer from 0 to 2147483647; unknown flag --nope",
        ),
        (&["--config"], "flag --config needs a value"),
        (&["-v"], "flag -v needs a value"),
        (&["--max-pods=many"], "flag --max-pods: \"many\" is not an integer from 0 to 2147483647"),
        (&["--healthz-port=65536"], "flag --healthz-port: \"65536\" is not an integer from 0 to 65535"),
        (&["--read-only-port", "-1"], "flag --read-only-port: \"-1\" is not an integer from 0 to 65535"),
        (&["--address=edge"], "flag --address: \"edge\" is not an IP address or localhost"),
        (
            &["--sync-frequency=20"],
            "flag --sync-frequency: \"20\" is not a duration such as 1m30s, zero or longer",
        ),
        (
            &["--register-with-taints=a:Never"],
            "flag --register-with-taints: \"a:Never\" is not a list of taints such as key=value:NoSchedule",
        ),
        (&["--fail-swap-on=maybe"], "flag --fail-swap-on: \"maybe\" is not true or false"),
        (&["--fail-swap-on", "false"], "unexpected argument \"false\": rkubelet takes flags only"),
        (&["run"], "unexpected argument \"run\": rkubelet takes flags only"),
        (&["--", "--v=2"], "unexpected argument \"--v=2\": rkubelet takes flags only"),
        (&["--version=v1.2"], "flag --version: \"v1.2\" is not true, false or raw"),
        (
            &["--feature-gates=A"],
            "flag --feature-gates: \"A\" is not a map of true and false (key=true as a flag)",
        ),
        (
            &["--container-runtime-endpoint=tcp://h:1"],
            "flag --container-runtime-endpoint: \"tcp://h:1\" is not a UNIX socket such as \
             unix:///run/containerd/containerd.sock",
        ),
        (
            &["--node-ip=10.0.0.1,10.0.0.2"],
            "flag --node-ip: \"10.0.0.1,10.0.0.2\" is not an IP address, or one IPv4 and one IPv6 address",
        ),
    ] {
        assert_eq!(parse(arguments).unwrap_err(), line, "{arguments:?}");
    }
    let torn = OsString::from_vec(b"--root-dir=/\xff".to_vec());
    assert!(Flags::parse([torn].into_iter(), Path::new("/")).is_err());
}

#[test]
fn mirrored_fields_are_set_and_flags_without_effect_listed() {
    let flags =
        parse(&["--max-pods=5", "-v=3", "--event-qps=1", "--kubeconfig=/k", "--root-dir=/r"]).unwrap();
    let mut configuration = KubeletConfiguration::default();
    flags.apply_to(&mut configuration);
    assert_eq!(configuration.get("maxPods"), Some(&json!(5)));
    assert_eq!(configuration.get("logging.verbosity"), Some(&json!(3)));
    assert_eq!(flags.without_effect(), ["--event-qps", "--kubeconfig"]);
}

#[test]
fn help_lists_every_flag_honoured_ones_first() {
    let text = help_text();
    for flag in FLAGS {
        assert!(text.contains(&format!("--{} ", flag.name)), "{}", flag.name);
        assert!(!flag.help.is_empty() && !flag.help.contains('\n'));
    }
    let at = |needle: &str| text.find(needle).unwrap();
    assert!(at("--pod-manifest-path ") < at("without effect"));
    assert!(at("without effect") < at("--kubeconfig "));
}
