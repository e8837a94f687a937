//! The certificate of our own, and files that change.

use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{ServerName, UnixTime};

use super::*;

fn settings(directory: &Path) -> TlsSettings {
    TlsSettings {
        files: None,
        cert_dir: directory.to_owned(),
        host: "node1".to_owned(),
        ips: vec!["127.0.0.1".parse().unwrap()],
        only_tls13: false,
        cipher_suites: Vec::new(),
        client_ca: None,
    }
}

#[test]
fn our_own_certificate_is_valid_for_the_node_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("pki");
    ServerTls::new(settings(&own)).unwrap();
    let certificate = certificates(&own.join("kubelet.crt")).unwrap().remove(0);
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::new(provider::default_provider()));
    let verifier = verifier.build().unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
    for (name, is_ours) in [("node1", true), ("127.0.0.1", true), ("node2", false)] {
        let name = ServerName::try_from(name).unwrap();
        let verified = verifier.verify_server_cert(&certificate, &[], &name, &[], now);
        assert_eq!(verified.is_ok(), is_ours, "{name:?}: {verified:?}");
    }
    let mode = fs::metadata(own.join("kubelet.key")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    ServerTls::new(settings(&own)).unwrap();
    assert_eq!(certificates(&own.join("kubelet.crt")).unwrap(), [certificate], "kept over a restart");
}

#[test]
fn files_are_read_anew_when_they_change_and_only_then() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path();
    let tls = ServerTls::new(settings(own)).unwrap();
    let first = tls.load().unwrap();
    assert!(Arc::ptr_eq(&first, &tls.load().unwrap()));
    fs::write(own.join("kubelet.crt"), "half").unwrap();
    assert!(Arc::ptr_eq(&first, &tls.load().unwrap()), "the old one is used while the new one is not usable");
    fs::remove_file(own.join("kubelet.crt")).unwrap();
    assert!(!Arc::ptr_eq(&first, &tls.load().unwrap()));
}

#[test]
fn cipher_suites_by_gos_names() {
    let directory = tempfile::tempdir().unwrap();
    for (only_tls13, names, is_usable) in [
        (false, &["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"][..], true),
        (false, &["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"], true),
        (false, &["TLS_RSA_WITH_AES_128_CBC_SHA"], false),
        (true, &["TLS_RSA_WITH_AES_128_CBC_SHA"], true),
        (false, &[], true),
    ] {
        let cipher_suites = names.iter().map(|name| (*name).to_owned()).collect();
        let made = ServerTls::new(TlsSettings { only_tls13, cipher_suites, ..settings(directory.path()) });
        assert_eq!(made.is_ok(), is_usable, "{names:?}");
    }
}
