//! The flags of the tools that stand in for RocketMQ's benchmark scripts, and what all tools share: sizes, addresses,
//! secrets.

mod argv;
mod flags;

pub(crate) use argv::{SECRET, is_secret, long_options, without_secrets};
pub use flags::{
    BatchProducerFlags, Bool, Compression, ConsumerFlags, EchoFlags, LineFormat, ProducerFlags, Run, Sending,
    TransactionProducerFlags,
};
pub(crate) use flags::{above_zero, address, name_servers, namesrv_default, one_to};
