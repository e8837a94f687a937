//! Certificates, as far as a server needs them: the subject of a client's, and one of our own. Pure.
//!
//! Owns the little DER that takes. Must not: verify anything; rustls does.

use std::net::IpAddr;

use super::request::Requester;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const BOOLEAN: u8 = 0x01;
const GENERALIZED_TIME: u8 = 0x18;
const UTC_TIME: u8 = 0x17;
/// The first tag with this number that only its place gives a meaning; a structure, or bytes.
const CONTEXT: u8 = 0xa0;
const CONTEXT_BYTES: u8 = 0x80;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const PRIME256V1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// Whom a client certificate names: its common name is the user, its organizations are the groups. None without a user.
pub(crate) fn subject(certificate: &[u8]) -> Option<Requester> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if rest.first() == Some(&CONTEXT) {
        rest = any(rest)?.2;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        rest = any(rest)?.2;
    }
    let (mut names, _) = element(rest, SEQUENCE)?;
    let (mut user, mut groups) = (None, Vec::new());
    while !names.is_empty() {
        let (mut set, after) = element(names, SET)?;
        names = after;
        while !set.is_empty() {
            let (pair, after) = element(set, SEQUENCE)?;
            set = after;
            let (kind, value) = element(pair, OBJECT_ID)?;
            let (_, text, _) = any(value)?;
            let text = || String::from_utf8(text.to_vec()).ok();
            match kind {
                COMMON_NAME => user = text(),
                ORGANIZATION => groups.extend(text()),
                _ => {}
            }
        }
    }
    user.filter(|user| !user.is_empty()).map(|user| Requester { user, groups })
}

/// The tag, the contents and what follows.
fn any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let mut length = usize::from(*first);
    if *first >= 0x80 {
        let bytes = usize::from(*first & 0x7f);
        if bytes == 0 || bytes > 3 || rest.len() < bytes {
            return None;
        }
        length = rest[..bytes].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        rest = &rest[bytes..];
    }
    (rest.len() >= length).then(|| (*tag, &rest[..length], &rest[length..]))
}

/// The contents of an element with this tag, and what follows.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    any(der).filter(|(found, ..)| *found == tag).map(|(_, contents, rest)| (contents, rest))
}

fn wrap(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = contents.len();
    let mut der = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => der.push(short),
        _ => {
            let bytes: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            der.push(0x80 | u8::try_from(bytes.len()).unwrap_or(0x7f));
            der.extend(bytes);
        }
    }
    der.extend_from_slice(contents);
    der
}

fn join(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    wrap(tag, &parts.concat())
}

fn bits(contents: &[u8]) -> Vec<u8> {
    wrap(BIT_STRING, &[&[0], contents].concat())
}

/// What is signed of a certificate of our own, for a P-256 key: from 2020 on and without an end, since the clock of a
/// machine that nobody visits may be wrong, and whoever trusts it does so by its key.
pub(crate) fn to_be_signed(
    name: &str,
    host: &str,
    ips: &[IpAddr],
    serial: [u8; 8],
    public_key: &[u8],
) -> Vec<u8> {
    let extension = |id: &[u8], critical: bool, value: Vec<u8>| {
        let mut parts = vec![wrap(OBJECT_ID, id)];
        if critical {
            parts.push(wrap(BOOLEAN, &[0xff]));
        }
        parts.push(wrap(OCTET_STRING, &value));
        join(SEQUENCE, &parts)
    };
    let common_name = join(SEQUENCE, &[wrap(OBJECT_ID, COMMON_NAME), wrap(UTF8_STRING, name.as_bytes())]);
    let named = wrap(SEQUENCE, &wrap(SET, &common_name));
    let address = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => wrap(CONTEXT_BYTES | 7, &ip.octets()),
        IpAddr::V6(ip) => wrap(CONTEXT_BYTES | 7, &ip.octets()),
    };
    let mut alternatives = vec![wrap(CONTEXT_BYTES | 2, host.as_bytes())];
    alternatives.extend(ips.iter().map(address));
    let [first, others @ ..] = serial;
    // Positive, and not zero.
    let serial = [&[first & 0x3f | 0x40], &others[..]].concat();
    join(
        SEQUENCE,
        &[
            wrap(CONTEXT, &wrap(INTEGER, &[2])),
            wrap(INTEGER, &serial),
            algorithm(),
            named.clone(),
            join(SEQUENCE, &[wrap(UTC_TIME, b"200101000000Z"), wrap(GENERALIZED_TIME, b"99991231235959Z")]),
            named,
            join(
                SEQUENCE,
                &[
                    join(SEQUENCE, &[wrap(OBJECT_ID, EC_PUBLIC_KEY), wrap(OBJECT_ID, PRIME256V1)]),
                    bits(public_key),
                ],
            ),
            wrap(
                CONTEXT | 3,
                &join(
                    SEQUENCE,
                    &[
                        // Digital signatures. An authority it is not: clients refuse one as a server.
                        extension(KEY_USAGE, true, wrap(BIT_STRING, &[7, 0x80])),
                        extension(EXTENDED_KEY_USAGE, false, wrap(SEQUENCE, &wrap(OBJECT_ID, SERVER_AUTH))),
                        extension(BASIC_CONSTRAINTS, true, wrap(SEQUENCE, &[])),
                        extension(ALTERNATIVE_NAMES, false, join(SEQUENCE, &alternatives)),
                    ],
                ),
            ),
        ],
    )
}

fn algorithm() -> Vec<u8> {
    wrap(SEQUENCE, &wrap(OBJECT_ID, ECDSA_WITH_SHA256))
}

/// The certificate, of what was signed and the signature.
pub(crate) fn signed(to_be_signed: &[u8], signature: &[u8]) -> Vec<u8> {
    join(SEQUENCE, &[to_be_signed.to_vec(), algorithm(), bits(signature)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_found_and_anything_else_is_not() {
        let certificate = signed(&to_be_signed("me", "host", &[], [1; 8], &[4; 65]), &[1; 70]);
        let expect = Requester { user: "me".into(), groups: Vec::new() };
        assert_eq!(subject(&certificate), Some(expect));
        for length in 0..certificate.len() {
            assert_eq!(subject(&certificate[..length]), None, "cut at {length}");
        }
        let unnamed = signed(&to_be_signed("", "host", &[], [1; 8], &[4; 65]), &[1; 70]);
        for bytes in [&b""[..], b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", &unnamed] {
            assert_eq!(subject(bytes), None);
        }
    }
}
