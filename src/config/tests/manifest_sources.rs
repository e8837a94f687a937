//! Where manifests come from, and which are accepted.

use super::{resolve, resolve_on};
use crate::http::tls::{Identity, Roots};
use crate::http::{PlainText, Tls};

#[test]
fn a_plain_text_manifest_url_needs_a_flag() {
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
