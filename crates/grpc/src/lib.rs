//! RocketMQ's gRPC protocol (`apache.rocketmq.v2`): its messages, and calls over one connection of HTTP/2.
//!
//! - [`messages`]: requests, responses and their parts.
//! - [`Channel`]: a connection to a server; [`Answers`]: the responses of a call.
//! - [`ProstCodec`]: codec for servers on tonic.

mod answers;
mod channel;
mod codec;
mod failure;
mod frame;
pub mod messages;

pub use answers::Answers;
pub use channel::{Channel, Method};
pub use codec::{Half, ProstCodec};
pub use failure::Failure;
pub use frame::{append, append_send, framed};
