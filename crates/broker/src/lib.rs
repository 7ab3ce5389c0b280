//! The broker: what RocketMQ does with messages, groups and offsets.
