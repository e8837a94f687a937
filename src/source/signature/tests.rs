//! Signatures made by the real minisign 0.11 (`minisign -S -m signed.txt -t COMMENT`), and what can be wrong with them.

use proptest::prelude::*;

use super::*;

const KEY: &str = include_str!("../../../tests/fixtures/minisign/key.pub");
const OTHER: &str = include_str!("../../../tests/fixtures/minisign/other.pub");
const SIGNED: &[u8] = include_bytes!("../../../tests/fixtures/minisign/signed.txt");
const DEFAULT: &str = include_str!("../../../tests/fixtures/minisign/default.minisig");
const SEVEN: &str = include_str!("../../../tests/fixtures/minisign/serial.minisig");
const WORDS: &str = include_str!("../../../tests/fixtures/minisign/words.minisig");
const LEGACY: &str = include_str!("../../../tests/fixtures/minisign/legacy.minisig");
const NOT_A_NUMBER: &str = include_str!("../../../tests/fixtures/minisign/not-a-number.minisig");
const TWICE: &str = include_str!("../../../tests/fixtures/minisign/twice.minisig");
const OTHER_KEY: &str = include_str!("../../../tests/fixtures/minisign/other-key.minisig");

fn key() -> PublicKey {
    PublicKey::parse(KEY).unwrap()
}

#[test]
fn a_key_is_minisigns_file_or_its_base64_alone() {
    let base64 = KEY.lines().nth(1).unwrap();
    let windows = KEY.replace('\n', "\r\n");
    for text in [KEY, base64, &format!("  {base64}\n\n"), &windows] {
        let key = PublicKey::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(key, self::key(), "{text:?}");
        assert_eq!(key.to_string(), base64);
    }
    let secret = "untrusted comment: minisign encrypted secret key\nRWRTY0IyAAAAAAAAAAAA\n";
    for text in
        ["", "\n", "hello", secret, &base64[1..], &format!("{base64}\n{base64}"), &format!("{KEY}more\n")]
    {
        assert_eq!(PublicKey::parse(text), Err(SignatureError::Key), "{text:?}");
    }
}

#[test]
fn a_valid_signature_gives_its_serial() {
    for (signature, serial) in [(DEFAULT, None), (SEVEN, Some(7)), (WORDS, Some(u64::MAX))] {
        assert_eq!(key().verify(SIGNED, signature), Ok(Trusted { serial }), "{signature}");
    }
    assert_eq!(key().verify(SIGNED, &SEVEN.replace('\n', "\r\n")), Ok(Trusted { serial: Some(7) }));
    assert_eq!(PublicKey::parse(OTHER).unwrap().verify(SIGNED, OTHER_KEY), Ok(Trusted { serial: Some(9) }));
}

#[test]
fn an_invalid_one_says_what_is_wrong() {
    use SignatureError::{Legacy, Malformed, OtherKey, Serial, Tampered};
    let other_key = OtherKey { key: key().to_string() };
    let serial = |comment: &str| Serial { comment: comment.to_owned() };
    let lines: Vec<&str> = SEVEN.lines().collect();
    let with = |line: usize, text: &str| {
        let mut lines = lines.clone();
        lines[line] = text;
        lines.join("\n")
    };
    let of_default: Vec<&str> = DEFAULT.lines().collect();
    let cases: &[(&str, &[u8], String, SignatureError)] = &[
        ("other contents", b"other", SEVEN.to_owned(), Tampered),
        ("no contents", b"", SEVEN.to_owned(), Tampered),
        ("another serial", SIGNED, SEVEN.replace("serial:7", "serial:8"), Tampered),
        ("the comment of another signature", SIGNED, with(2, of_default[2]), Tampered),
        ("another key", SIGNED, OTHER_KEY.to_owned(), other_key),
        ("a legacy signature", SIGNED, LEGACY.to_owned(), Legacy),
        ("nothing", SIGNED, String::new(), Malformed),
        ("half", SIGNED, SEVEN[..SEVEN.len() / 2].to_owned(), Malformed),
        ("no trusted comment", SIGNED, lines[..2].join("\n"), Malformed),
        ("a key", SIGNED, KEY.to_owned(), Malformed),
        ("no base64", SIGNED, with(1, "!"), Malformed),
        ("a serial that is none", SIGNED, NOT_A_NUMBER.to_owned(), serial("serial:seven")),
        ("two serials", SIGNED, TWICE.to_owned(), serial("serial:7 serial:8")),
    ];
    for (name, contents, signature, error) in cases {
        assert_eq!(key().verify(contents, signature).as_ref(), Err(error), "{name}");
    }
}

#[test]
fn serials() {
    let cases = [
        ("", Ok(None)),
        ("timestamp:1794802082\tfile:web.yaml", Ok(None)),
        ("serial:0", Ok(Some(0))),
        ("serial:007", Ok(Some(7))),
        ("May release, serial:12 of web", Ok(Some(12))),
        ("myserial:1", Ok(None)),
        ("serial:", Err(())),
        ("serial:+1", Err(())),
        ("serial:-1", Err(())),
        ("serial:1,", Err(())),
        ("serial:18446744073709551616", Err(())),
    ];
    for (comment, expect) in cases {
        assert_eq!(serial(comment).map_err(|_| ()), expect, "{comment:?}");
    }
}

#[test]
fn versions_never_go_back() {
    use SignatureError::{NoSerial, Older, Reused};
    let five = Newest { serial: 5, sha256: "a".into() };
    let cases = [
        (None, None, "a", Ok(())),
        (None, Some(0), "a", Ok(())),
        (Some(&five), Some(6), "b", Ok(())),
        (Some(&five), Some(6), "a", Ok(())),
        (Some(&five), Some(5), "a", Ok(())),
        (Some(&five), Some(5), "b", Err(Reused { serial: 5 })),
        (Some(&five), Some(4), "a", Err(Older { serial: 4, last: 5 })),
        (Some(&five), None, "a", Err(NoSerial { last: 5 })),
    ];
    for (newest, serial, sha256, expect) in cases {
        assert_eq!(accepts(newest, serial, sha256), expect, "{newest:?} {serial:?} {sha256}");
    }
}

#[test]
fn the_digest_is_that_of_sha256sum() {
    assert_eq!(digest(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

proptest! {
    #[test]
    fn whatever_is_changed_is_noticed(at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut contents = SIGNED.to_vec();
        let place = at.index(contents.len());
        contents[place] ^= 1 << bit;
        prop_assert_eq!(key().verify(&contents, SEVEN), Err(SignatureError::Tampered));
    }

    #[test]
    fn a_damaged_signature_is_never_believed_and_never_a_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        // The first line is the untrusted one.
        let (comment, rest) = SEVEN.split_once('\n').unwrap();
        let mut bytes = rest.trim_end().as_bytes().to_vec();
        let place = at.index(bytes.len());
        prop_assume!(bytes[place] != byte);
        bytes[place] = byte;
        let damaged = format!("{comment}\n{}", String::from_utf8_lossy(&bytes));
        prop_assert!(key().verify(SIGNED, &damaged).is_err(), "{}", damaged);
    }

    #[test]
    fn any_text_is_refused(text in "\\PC{0,200}(\n\\PC{0,100}){0,4}") {
        prop_assert!(PublicKey::parse(&text).is_err() && key().verify(SIGNED, &text).is_err());
    }
}
