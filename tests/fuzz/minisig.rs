//! Fuzzes keys and signatures: a key, a signature and what is signed, with a NUL between them.

#![no_main]

use rkubelet::testing::PublicKey;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    if let (Some(key), Some(signature)) = (text(), text())
        && let Ok(key) = PublicKey::parse(key)
    {
        let _ = key.verify(parts.next().unwrap_or_default(), signature);
    }
});
