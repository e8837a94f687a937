//! What holds for every manifest, whatever its bytes.

use rkubelet::testing::{Origin, Source, decode_manifest};

/// Decodes as the agent would, strictly and not.
pub(crate) fn manifest(bytes: &[u8]) {
    let seen = jiff::Timestamp::UNIX_EPOCH;
    let [lenient, strict] = [false, true].map(|strict| {
        let origin = Origin {
            node_name: "node1",
            source: Source::File,
            path: "/m/a.yaml",
            seen,
            strict,
            kubelet_strict: false,
        };
        decode_manifest(bytes, &origin)
    });
    for refusal in [&lenient, &strict].into_iter().filter_map(|decoded| decoded.as_ref().err()) {
        assert!(!refusal.to_string().contains(char::is_control), "{refusal:?}");
    }
    match (lenient, strict) {
        (Ok(lenient), Ok(strict)) => assert_eq!(lenient.pod.hash, strict.pod.hash),
        (Err(lenient), Ok(_)) => panic!("only strictly accepted: {lenient}"),
        (_, Err(_)) => {}
    }
}
