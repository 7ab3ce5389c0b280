//! Bytes, words and units of the RocketMQ protocol and store.
