//! Frames of a WebSocket (RFC 6455), as a client writes and reads them.

use std::io::{self, ErrorKind, Read, Write};

/// The most bytes of one message: far more than any that is sent.
const MAX_MESSAGE: usize = 16 << 20;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    /// Bytes, or text.
    Data,
    /// The end.
    Close,
    /// Are you there?
    Ping,
    /// Here.
    Pong,
    /// Anything else.
    Other,
}

/// Writes one message. A client masks what it sends; the mask need not be secret here, where no proxy is in between.
pub(super) fn write_frame(to: &mut impl Write, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
    let code = match opcode {
        Opcode::Data | Opcode::Other => 2,
        Opcode::Close => 8,
        Opcode::Ping => 9,
        Opcode::Pong => 10,
    };
    let mut frame = vec![0x80 | code];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..=125), _) => frame.push(0x80 | length),
        (_, Ok(length)) => {
            frame.push(0x80 | 126);
            frame.extend(length.to_be_bytes());
        }
        (_, Err(_)) => {
            frame.push(0x80 | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    let mask = fastrand::u32(..).to_be_bytes();
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    to.write_all(&frame)?;
    to.flush()
}

/// Reads one message, whose parts are put together; none at the end of the stream.
pub(super) fn read_frame(from: &mut impl Read) -> io::Result<Option<(Opcode, Vec<u8>)>> {
    let mut message = Vec::new();
    let mut first = None;
    loop {
        let mut head = [0; 2];
        match from.read_exact(&mut head) {
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                return Ok(None);
            }
            read => read?,
        }
        let length = match head[1] & 0x7f {
            126 => {
                let mut bytes = [0; 2];
                from.read_exact(&mut bytes)?;
                usize::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                from.read_exact(&mut bytes)?;
                usize::try_from(u64::from_be_bytes(bytes)).unwrap_or(usize::MAX)
            }
            length => usize::from(length),
        };
        if message.len().saturating_add(length) > MAX_MESSAGE {
            return Err(io::Error::new(ErrorKind::InvalidData, "a message is too long"));
        }
        let opcode = match head[0] & 0x0f {
            0 => None,
            1 | 2 => Some(Opcode::Data),
            8 => Some(Opcode::Close),
            9 => Some(Opcode::Ping),
            10 => Some(Opcode::Pong),
            _ => Some(Opcode::Other),
        };
        let begin = message.len();
        message.resize(begin + length, 0);
        from.read_exact(&mut message[begin..])?;
        let whole = head[0] & 0x80 != 0;
        match (first, opcode) {
            // Between the parts of a message one about the connection may come; an end ends this message too.
            (Some(_), Some(Opcode::Close)) => return Ok(Some((Opcode::Close, message.split_off(begin)))),
            (Some(_), Some(_)) => {
                message.truncate(begin);
                continue;
            }
            (kind, opcode) => first = kind.or(opcode),
        }
        if whole {
            return Ok(Some((first.unwrap_or(Opcode::Other), message)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_every_length_come_back() {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, 100_000] {
            let payload: Vec<u8> = (0..=255).cycle().take(length).collect();
            let mut bytes = Vec::new();
            write_frame(&mut bytes, Opcode::Data, &payload).unwrap();
            assert_eq!(bytes[1] & 0x80, 0x80, "a client masks");
            // As a server writes it: without the mask.
            let head = match length {
                ..=125 => 2,
                126..=65_535 => 4,
                _ => 10,
            };
            let mask: Vec<_> = bytes.drain(head..head + 4).collect();
            bytes[1] &= 0x7f;
            bytes[head..].iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            assert_eq!(read_frame(&mut bytes.as_slice()).unwrap(), Some((Opcode::Data, payload)));
        }
    }

    #[test]
    fn parts_are_put_together_and_the_end_is_no_error() {
        let bytes = [0x02, 1, b'a', 0x80, 1, b'b', 0x88, 0];
        let mut from = bytes.as_slice();
        assert_eq!(read_frame(&mut from).unwrap(), Some((Opcode::Data, b"ab".to_vec())));
        assert_eq!(read_frame(&mut from).unwrap(), Some((Opcode::Close, vec![])));
        assert_eq!(read_frame(&mut from).unwrap(), None);
        assert!(read_frame(&mut [0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255].as_slice()).is_err());
    }
}
