//! How messages of gRPC are read and written: as `tonic_prost::ProstCodec` does, with smaller buffers.
//!
//! tonic allocates 8 KiB to write and 8 KiB to read with each call. When a hundred pods start there are hundreds of calls at
//! once, and malloc does not give back what lies between objects that live on.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Holds most requests and answers about one pod; a buffer grows where a message is longer.
const BUFFER_BYTES: usize = 512;
/// tonic's own: how many bytes of a stream are sent together.
const YIELD_THRESHOLD: usize = 32 * 1024;

/// The codec of the generated clients, named in `build.rs`.
#[derive(Debug)]
pub(super) struct SmallBufferCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallBufferCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallBufferCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER_BYTES, YIELD_THRESHOLD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER_BYTES, YIELD_THRESHOLD))
    }
}
