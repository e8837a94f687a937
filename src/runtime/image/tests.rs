//! Choices and words.

use tonic::{Code, Status};

use super::*;

#[test]
fn policies() {
    use PullPermit::{Look, Pull};
    let cases = [
        (Some("Always"), Pull, true, Choice::Pull),
        (Some("Always"), Pull, false, Choice::Pull),
        (Some("Always"), Look, true, Choice::Wait),
        (Some("Always"), Look, false, Choice::Wait),
        (Some("IfNotPresent"), Pull, true, Choice::Use),
        (Some("IfNotPresent"), Pull, false, Choice::Pull),
        (Some("IfNotPresent"), Look, true, Choice::Use),
        (Some("IfNotPresent"), Look, false, Choice::Wait),
        (Some("Never"), Pull, true, Choice::Use),
        (Some("Never"), Pull, false, Choice::Refuse),
        (Some("Never"), Look, false, Choice::Refuse),
        (None, Pull, true, Choice::Use),
        (None, Pull, false, Choice::Pull),
    ];
    for (policy, permit, present, expect) in cases {
        assert_eq!(choose(policy, permit, present), expect, "{policy:?}, {permit:?}, present {present}");
    }
}

#[test]
fn words_for_what_failed() {
    let error = |code, text: &str| CriError::from_status("PullImage", &Status::new(code, text));
    let complaint = ["credential provider p: exit status: 1".to_owned()];
    let rows = [
        (vec![error(Code::Unknown, "no")], &[][..], "ErrImagePull", "no"),
        (vec![error(Code::NotFound, "no")], &[], "ErrImagePull", "rpc error: code = NotFound desc = no"),
        (vec![error(Code::Unknown, "a"), error(Code::Unknown, "a")], &[], "ErrImagePull", "a"),
        (vec![error(Code::Unknown, "a"), error(Code::Unknown, "b")], &[], "ErrImagePull", "[a, b]"),
        (
            vec![error(Code::Unknown, "no")],
            &complaint,
            "ErrImagePull",
            "no (credential provider p: exit status: 1)",
        ),
        (
            vec![error(Code::Unknown, "RegistryUnavailable: down")],
            &[],
            "RegistryUnavailable",
            "image pull failed for i:1 because the registry is unavailable: down",
        ),
        (
            vec![error(Code::Unknown, "SignatureValidationFailed")],
            &[],
            "SignatureValidationFailed",
            "image pull failed for i:1 because the signature validation failed",
        ),
    ];
    for (errors, complaints, reason, message) in rows {
        let waiting = reason::failed_pull("i:1", &errors, complaints);
        assert_eq!((waiting.reason.as_str(), waiting.message.as_str()), (reason, message));
    }
    let invalid = reason::invalid_name("Foo", &ImageName::parse("Foo").unwrap_err());
    assert_eq!(
        invalid.message,
        "Failed to apply default image tag \"Foo\": couldn't parse image name \"Foo\": \
         invalid reference format: repository name (library/Foo) must be lowercase"
    );
    let inspect = reason::inspect("i:1", &error(Code::Internal, "no"));
    assert_eq!(inspect.message, "Failed to inspect image \"i:1\": rpc error: code = Internal desc = no");
}

#[test]
fn a_refusal_is_not_an_outage() {
    let head = "failed to pull and unpack image \"r.io/a:1\": failed to resolve reference \"r.io/a:1\": ";
    let rows = [
        (&["failed to do request: dial tcp 10.0.0.1:443: connect: connection refused"][..], true),
        (&["failed to do request: dial tcp: lookup r.io: no such host"], true),
        (&["failed to do request: dial tcp 10.0.0.1:443: i/o timeout"], true),
        (
            &["failed to authorize: failed to fetch anonymous token: dial tcp: lookup a.io: no such host"],
            true,
        ),
        (
            &[
                "unexpected status from HEAD request to https://r.io/v2/a/manifests/1: 503 Service Unavailable",
            ],
            true,
        ),
        (&["pulling from host r.io failed with status code [manifests 1]: 401 Unauthorized"], false),
        (&["pull access denied, repository does not exist or may require authorization"], false),
        (&["r.io/a:1: not found"], false),
        (&["connection refused", "401 Unauthorized"], false),
        (&["connection refused, and then 403 Forbidden"], false),
        (&["connection refused", "no such host"], true),
        (&[], false),
    ];
    for (texts, expect) in rows {
        let errors: Vec<_> = texts
            .iter()
            .map(|text| CriError::from_status("PullImage", &Status::unknown(format!("{head}{text}"))))
            .collect();
        assert_eq!(reason::is_unreachable(&errors), expect, "{texts:?}");
    }
}
