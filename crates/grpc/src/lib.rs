//! RocketMQ's gRPC protocol (`apache.rocketmq.v2`): its messages, and calls over one connection of HTTP/2.
//!
//! - [`messages`]: requests, responses and their parts.
//! - [`Channel`]: a connection to a server; [`ResponseStream`]: the responses of a call.
//! - [`ProstCodec`]: codec for servers on tonic.

mod channel;
mod codec;
mod failure;
mod frame;
pub mod messages;
mod response_stream;

pub use channel::{Channel, Method};
pub use codec::{CodecHalf, ProstCodec};
pub use failure::Failure;
pub use frame::{append, append_send, framed};
pub use response_stream::ResponseStream;
