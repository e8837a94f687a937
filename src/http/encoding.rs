//! Decompresses bodies, within a limit. Pure.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// Why a body cannot be decompressed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncodingError {
    /// An encoding that is not supported.
    #[error("the encoding {encoding:?} was not asked for")]
    Unknown {
        /// Its name.
        encoding: String,
    },
    /// Damaged, or cut short.
    #[error("the body is not gzip, or not all of it")]
    Gzip(#[source] io::Error),
    /// Unpacked it passes the limit.
    #[error("the body has more than {limit} bytes when unpacked")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

/// Unpacks a body that came with this `Content-Encoding`; never makes more than `limit` bytes of it.
///
/// # Errors
/// When it is damaged, too large, or packed otherwise.
pub(crate) fn unpack(encoding: Option<&str>, body: Vec<u8>, limit: usize) -> Result<Vec<u8>, EncodingError> {
    match encoding.map(str::trim).unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => {
            let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
            let unpacked = || MultiGzDecoder::new(body.as_slice()).take(bound);
            // Measured first: a bomb costs no memory at all, and what is good no more than its size.
            let size = io::copy(&mut unpacked(), &mut io::sink()).map_err(EncodingError::Gzip)?;
            let size = usize::try_from(size).ok().filter(|size| *size <= limit);
            let mut bytes = Vec::with_capacity(size.ok_or(EncodingError::TooLarge { limit })?);
            unpacked().read_to_end(&mut bytes).map_err(EncodingError::Gzip)?;
            Ok(bytes)
        }
        other => Err(EncodingError::Unknown { encoding: other.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn bodies_are_unpacked_within_the_limit() {
        assert_eq!(unpack(None, b"abc".to_vec(), 1).unwrap(), b"abc");
        assert_eq!(unpack(Some("identity"), b"abc".to_vec(), 3).unwrap(), b"abc");
        assert_eq!(unpack(Some(" GZIP"), gzip(b"abc"), 3).unwrap(), b"abc");
        let two = [gzip(b"abc"), gzip(b"def")].concat();
        assert_eq!(unpack(Some("gzip"), two, 6).unwrap(), b"abcdef", "several members are one body");
        assert!(matches!(unpack(Some("gzip"), gzip(b"abcd"), 3), Err(EncodingError::TooLarge { limit: 3 })));
        assert!(matches!(unpack(Some("br"), vec![], 3), Err(EncodingError::Unknown { .. })));
    }

    #[test]
    fn a_bomb_is_not_blown_up() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        assert!(matches!(unpack(Some("gzip"), bomb, 1 << 20), Err(EncodingError::TooLarge { .. })));
    }

    #[test]
    fn every_cut_is_an_error() {
        let whole = gzip(b"apiVersion: v1");
        for end in 0..whole.len() {
            let cut = whole[..end].to_vec();
            assert!(matches!(unpack(Some("gzip"), cut, 100), Err(EncodingError::Gzip(_))), "{end} bytes");
        }
    }
}
