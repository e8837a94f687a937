//! The body of a response, as hyper takes it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use super::slots::TakenSlot;
use crate::server::request::ByteStream;

/// The body of a response.
pub(super) struct ReplyBody {
    content: Content,
    /// The connection's slot, which is idle again once the body is sent or given up.
    slot: Arc<TakenSlot>,
}

enum Content {
    Whole(Option<Bytes>),
    Streamed(ByteStream),
}

impl ReplyBody {
    /// All of it.
    pub(super) fn whole(bytes: Vec<u8>, slot: Arc<TakenSlot>) -> Self {
        let bytes = (!bytes.is_empty()).then(|| bytes.into());
        Self { content: Content::Whole(bytes), slot }
    }

    /// Chunk by chunk.
    pub(super) fn streamed(chunks: ByteStream, slot: Arc<TakenSlot>) -> Self {
        slot.slot.set_streaming();
        Self { content: Content::Streamed(chunks), slot }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Streamed(chunks) => {
                let next = chunks.as_mut().poll_next(cx);
                next.map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Streamed(_) => SizeHint::default(),
        }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        self.slot.set_idle(true);
    }
}
