//! What Apache RocketMQ has by itself.

/// What a broker of RocketMQ 5.5.0 tells without a file of settings (`GET_BROKER_CONFIG`), a line `key=value` each; a star
/// stands for what depends on the machine.
pub const BROKER: &str = include_str!("defaults/broker.properties");
