//! Messages on a gRPC stream. The buffers of a call begin small: tonic allocates both at once for every call.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// First size of a call's buffers.
const BUFFER_BYTES: usize = 512;

/// Number of bytes after which a stream writes, although more messages follow.
const WRITE_BYTES: usize = 32 << 10;

/// Codec that encodes messages of type `T` and decodes messages of type `U`.
pub struct ProstCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for ProstCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Message + 'static, U: Message + Default + 'static> Codec for ProstCodec<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = CodecHalf<T>;
    type Decoder = CodecHalf<U>;

    fn encoder(&mut self) -> CodecHalf<T> {
        CodecHalf(PhantomData)
    }

    fn decoder(&mut self) -> CodecHalf<U> {
        CodecHalf(PhantomData)
    }
}

/// Encoder of messages of type `T`, and decoder of messages of type `T`. It has no state.
pub struct CodecHalf<T>(PhantomData<T>);

impl<T: Message> Encoder for CodecHalf<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(out).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, WRITE_BYTES)
    }
}

impl<T: Message + Default> Decoder for CodecHalf<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        T::decode(bytes).map(Some).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, WRITE_BYTES)
    }
}
