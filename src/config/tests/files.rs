//! What is read from the machine: configuration files, drop-ins, credential providers.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{HEAD, load_from};
use crate::config::{Invocation, load};

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
fn file_drop_ins_and_flags_are_merged_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let drop_ins = root.join("conf.d");
    fs::create_dir(&drop_ins).unwrap();
    let write = |path: &Path, body: &str| fs::write(path, format!("{HEAD}{body}")).unwrap();
    write(
        &root.join("config.yaml"),
        "maxPods: 1\nhealthzPort: 1\nreadOnlyPort: 1\nlogging: {verbosity: 1}\nstaticPodPath: m",
    );
    write(&drop_ins.join("10.conf"), "healthzPort: 2\nreadOnlyPort: 2\nlogging: {flushFrequency: 7s}");
    write(&drop_ins.join("20.conf"), "readOnlyPort: 3\npodLogsDir: logs");
    fs::write(drop_ins.join("30.yaml"), "not: read").unwrap();

    let config = format!("--config={}", root.join("config.yaml").display());
    let config_dir = format!("--config-dir={}", drop_ins.display());
    let arguments = [config.as_str(), &config_dir, "--read-only-port=4", "--hostname-override=n"];
    let loaded = load_from(&arguments).unwrap();
    assert_eq!((loaded.healthz_port, loaded.read_only_port, loaded.verbosity), (Some(2), Some(4), 1));
    assert_eq!(loaded.pod_manifest_path, Some(root.join("m")));
    assert_eq!(loaded.pod_logs_dir, drop_ins.join("logs"));
    assert_eq!(
        loaded.warnings,
        [
            "KubeletConfiguration fields without effect yet: logging.flushFrequency".to_owned(),
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
