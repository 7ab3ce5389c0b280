//! Defaults of Apache RocketMQ.

/// Configuration that a RocketMQ 5.5.0 broker without a configuration file reports (`GET_BROKER_CONFIG`), one
/// `key=value` per line. The value `*` depends on the machine.
pub const BROKER: &str = include_str!("defaults/broker.properties");
