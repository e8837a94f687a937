//! What is said at the socket where device plugins register: as much of HTTP/2 and gRPC as one method needs. Pure.
//!
//! Written here, since Go's gRPC names the path of a UNIX socket as the authority, which `h2` and `hyper` refuse. The headers
//! of requests are not read: there is one method, and what is no request for it has no version that is known.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;

use crate::runtime::cri::proto::device_plugin::RegisterRequest;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length, type, flags, stream.
const FRAME_HEAD: usize = 9;
/// HTTP/2's, as nothing else is agreed upon.
const MAX_FRAME: usize = 16_384;
/// A request has a few hundred bytes.
const MAX_REQUEST: usize = 32 << 10;
/// Requests that are under way on one connection.
const MAX_STREAMS: usize = 16;
/// The head of a message of gRPC: whether it is compressed, and its length.
const MESSAGE_HEAD: usize = 5;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// Of SETTINGS and PING: an answer.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// HPACK: `:status: 200`, and `content-type` with a value that follows, both of the static table.
const STATUS_200: u8 = 0x88;
const CONTENT_TYPE: [u8; 2] = [0x0f, 0x10];
/// HPACK: name and value follow.
const LITERAL: u8 = 0;
/// gRPC's code for an error that has none.
const UNKNOWN: &str = "2";
/// What gRPC encodes in messages, control characters and all that is not ASCII besides.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The peer does not speak HTTP/2, or too much of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Broken(&'static str);

/// One connection.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    greeted: bool,
    /// What is not a whole frame yet.
    unread: Vec<u8>,
    /// What has come of each request.
    streams: BTreeMap<u32, Vec<u8>>,
    /// What is to be sent.
    answers: Vec<u8>,
}

/// A request that has come as a whole.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    stream: u32,
    pub(super) request: Result<RegisterRequest, String>,
}

impl Conversation {
    /// A new one, which begins with the settings.
    pub(super) fn new() -> Self {
        let mut new = Self::default();
        new.send(SETTINGS, 0, 0, &[]);
        new
    }

    /// What is to be sent now.
    pub(super) fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    /// Takes in what was read.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Vec<Asked>, Broken> {
        self.unread.extend_from_slice(bytes);
        if !self.greeted {
            let Some((preface, rest)) = self.unread.split_at_checked(PREFACE.len()) else {
                return Ok(Vec::new());
            };
            if preface != PREFACE {
                return Err(Broken("this is not HTTP/2"));
            }
            self.unread = rest.to_vec();
            self.greeted = true;
        }
        let mut asked = Vec::new();
        while let Some((kind, flags, stream, payload)) = self.next_frame()? {
            asked.extend(self.on_frame(kind, flags, stream, &payload)?);
        }
        Ok(asked)
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, asked: &Asked, result: Result<(), String>) {
        let mut head = vec![STATUS_200];
        head.extend(CONTENT_TYPE);
        push_text(&mut head, "application/grpc");
        match result {
            Ok(()) => {
                self.send(HEADERS, END_HEADERS, asked.stream, &head);
                // An empty message.
                self.send(DATA, 0, asked.stream, &[0; MESSAGE_HEAD]);
                let mut trailers = Vec::new();
                push_field(&mut trailers, "grpc-status", "0");
                self.send(HEADERS, END_HEADERS | END_STREAM, asked.stream, &trailers);
            }
            Err(message) => {
                push_field(&mut head, "grpc-status", UNKNOWN);
                push_field(&mut head, "grpc-message", &utf8_percent_encode(&message, ENCODED).to_string());
                self.send(HEADERS, END_HEADERS | END_STREAM, asked.stream, &head);
            }
        }
    }

    fn next_frame(&mut self) -> Result<Option<(u8, u8, u32, Vec<u8>)>, Broken> {
        let Some((&[l0, l1, l2, kind, flags, s0, s1, s2, s3], rest)) =
            self.unread.split_first_chunk::<FRAME_HEAD>()
        else {
            return Ok(None);
        };
        let length = usize::from(l0) << 16 | usize::from(l1) << 8 | usize::from(l2);
        if length > MAX_FRAME {
            return Err(Broken("a frame is too long"));
        }
        let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        let frame = (kind, flags, u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]), payload.to_vec());
        self.unread = rest.to_vec();
        Ok(Some(frame))
    }

    fn on_frame(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> Result<Option<Asked>, Broken> {
        match kind {
            SETTINGS if flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => self.send(PING, ACK, 0, payload),
            PUSH_PROMISE => return Err(Broken("a client may not push")),
            RST_STREAM => drop(self.streams.remove(&stream)),
            HEADERS => {
                if self.streams.len() >= MAX_STREAMS || stream == 0 {
                    return Err(Broken("there are too many requests at the same time"));
                }
                self.streams.entry(stream).or_default();
                return Ok(self.finish_if(flags, stream));
            }
            DATA => {
                let data = without_padding(flags, payload).ok_or(Broken("a frame has no end"))?;
                if let Some(body) = self.streams.get_mut(&stream) {
                    if body.len().saturating_add(data.len()) > MAX_REQUEST {
                        return Err(Broken("a request is too long"));
                    }
                    body.extend_from_slice(data);
                }
                // As much may be sent again on the connection; a request is shorter than what a stream may hold.
                if let Some(length) = u32::try_from(payload.len()).ok().filter(|length| *length > 0) {
                    self.send(WINDOW_UPDATE, 0, 0, &length.to_be_bytes());
                }
                return Ok(self.finish_if(flags, stream));
            }
            _ => {}
        }
        Ok(None)
    }

    fn finish_if(&mut self, flags: u8, stream: u32) -> Option<Asked> {
        let body = if flags & END_STREAM == 0 { None } else { self.streams.remove(&stream) };
        body.map(|body| Asked { stream, request: decode(&body) })
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let [_, length @ ..] = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
        self.answers.extend(length);
        self.answers.extend([kind, flags]);
        self.answers.extend(stream.to_be_bytes());
        self.answers.extend_from_slice(payload);
    }
}

fn without_padding(flags: u8, payload: &[u8]) -> Option<&[u8]> {
    if flags & PADDED == 0 {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*padding))?)
}

fn push_field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(LITERAL);
    push_text(block, name);
    push_text(block, value);
}

/// HPACK's form of a text, without Huffman's code.
fn push_text(block: &mut Vec<u8>, text: &str) {
    const IN_ONE: usize = 127;
    // A frame holds it together with the rest.
    let text = crate::text::excerpt::beginning(text, MAX_FRAME / 2);
    match u8::try_from(text.len()).ok().filter(|length| usize::from(*length) < IN_ONE) {
        Some(length) => block.push(length),
        None => {
            block.push(0x7f);
            let mut rest = text.len().saturating_sub(IN_ONE);
            while rest >= 128 {
                block.push(u8::try_from(rest % 128).unwrap_or(0) | 0x80);
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap_or(0));
        }
    }
    block.extend_from_slice(text.as_bytes());
}

/// Reads a body of one message.
fn decode(bytes: &[u8]) -> Result<RegisterRequest, String> {
    let (head, message) = bytes.split_at_checked(MESSAGE_HEAD).ok_or("the request is incomplete")?;
    match head {
        [0, length @ ..] if length == (message.len() as u64).to_be_bytes().get(4..).unwrap_or_default() => {
            RegisterRequest::decode(message).map_err(|error| error.to_string())
        }
        [0, ..] => Err("the request is not one whole message".to_owned()),
        _ => Err("compressed requests are not read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> RegisterRequest {
        RegisterRequest {
            version: "v1beta1".into(),
            resource_name: "a.com/x".into(),
            ..RegisterRequest::default()
        }
    }

    fn framed(head: [u8; MESSAGE_HEAD], rest: &[u8]) -> Vec<u8> {
        [&head[..], rest].concat()
    }

    fn message() -> Vec<u8> {
        let message = request().encode_to_vec();
        framed([0, 0, 0, 0, u8::try_from(message.len()).unwrap()], &message)
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut one = Conversation::default();
        one.send(kind, flags, stream, payload);
        one.answers
    }

    /// What a client says that registers.
    fn call() -> Vec<u8> {
        let all = [
            PREFACE.to_vec(),
            frame(SETTINGS, 0, 0, &[]),
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]),
            frame(HEADERS, END_HEADERS, 1, b"whatever it is"),
            frame(DATA, 0, 1, &message()[..3]),
            frame(PING, 0, 0, b"12345678"),
            frame(DATA, END_STREAM | PADDED, 1, &[&[2], &message()[3..], &[0, 0]].concat()),
        ];
        all.concat()
    }

    #[test]
    fn a_call_is_read_in_any_pieces_and_answered() {
        for size in [1, 7, 50, 1000] {
            let mut talk = Conversation::new();
            assert_eq!(talk.take_answers(), frame(SETTINGS, 0, 0, &[]));
            let asked: Vec<_> = call().chunks(size).flat_map(|bytes| talk.read(bytes).unwrap()).collect();
            assert_eq!(asked, [Asked { stream: 1, request: Ok(request()) }], "{size}");
            let sent = talk.take_answers();
            for expect in [frame(SETTINGS, ACK, 0, &[]), frame(PING, ACK, 0, b"12345678")] {
                assert!(sent.windows(expect.len()).any(|part| part == expect), "{sent:?}");
            }
            talk.answer(&asked[0], Ok(()));
            let head = b"\x88\x0f\x10\x10application/grpc";
            let expect = [
                frame(HEADERS, END_HEADERS, 1, head),
                frame(DATA, 0, 1, &[0; 5]),
                frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\0\x0bgrpc-status\x010"),
            ];
            assert_eq!(talk.take_answers(), expect.concat());
            talk.answer(&asked[0], Err("50% \u{e4}".to_owned()));
            let fields = b"\0\x0bgrpc-status\x012\0\x0cgrpc-message\x0c50%25 %C3%A4";
            let expect = frame(HEADERS, END_HEADERS | END_STREAM, 1, &[&head[..], fields].concat());
            assert_eq!(talk.take_answers(), expect);
        }
    }

    #[test]
    fn what_is_no_call_ends_the_conversation_or_is_passed_over() {
        let after = |bytes: &[u8]| Conversation::new().read(&[PREFACE, bytes].concat());
        let headers = frame(HEADERS, END_HEADERS, 1, b"");
        let long = frame(DATA, 0, 1, &[0; 16_000]).repeat(3);
        let many: Vec<u8> = (0..=20).flat_map(|n| frame(HEADERS, END_HEADERS, 2 * n + 1, b"")).collect();
        for bytes in [
            [headers.clone(), long].concat(),
            many,
            frame(PUSH_PROMISE, 0, 1, b""),
            frame(DATA, PADDED, 1, b""),
            frame(DATA, PADDED, 1, b"\x05abc"),
            frame(HEADERS, 0, 0, b""),
            vec![0xff; 9],
        ] {
            assert!(after(&bytes).is_err(), "{:?}", bytes.get(..9));
        }
        for bytes in [
            frame(DATA, END_STREAM, 7, b"unknown"),
            [headers, frame(RST_STREAM, 0, 1, b""), frame(DATA, END_STREAM, 1, &message())].concat(),
            frame(77, 0xff, 9, b"new"),
            Vec::new(),
        ] {
            assert_eq!(after(&bytes), Ok(Vec::new()), "{bytes:?}");
        }
        assert!(Conversation::new().read(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").is_err());
    }

    #[test]
    fn long_texts_have_their_length_before_them() {
        for (length, expect) in [(126, vec![126]), (127, vec![127, 0]), (300, vec![127, 0xad, 1])] {
            let mut block = Vec::new();
            push_text(&mut block, &"x".repeat(length));
            assert_eq!((&block[..expect.len()], block.len()), (&expect[..], expect.len() + length));
        }
    }

    #[test]
    fn only_one_whole_message_is_read() {
        for (bytes, expect) in [
            (message(), Some(request())),
            (framed([0; MESSAGE_HEAD], &[]), Some(RegisterRequest::default())),
            (framed([1, 0, 0, 0, 0], &[]), None),
            (framed([0, 0, 0, 1, 2], &[0, 0]), None),
            (framed([0, 0, 0, 0, 2], &[0xff, 0xff]), None),
            (vec![0, 0], None),
            (Vec::new(), None),
        ] {
            assert_eq!(decode(&bytes).ok(), expect, "{bytes:?}");
        }
    }
}
