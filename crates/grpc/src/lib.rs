//! RocketMQ's gRPC protocol (`apache.rocketmq.v2`): its messages, and calls over one connection of HTTP/2.
//!
//! - [`messages`]: requests, answers and what stands in them.
//! - [`Channel`]: a connection to a server; [`Answers`]: what a call is answered with.
//! - [`ProstCodec`]: the messages as servers on tonic read and write them.

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
