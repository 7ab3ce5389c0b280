//! Byte formats, codes and units of RocketMQ's protocol and store: pure, without I/O and clock.
//!
//! - [`frame`]: a remoting command, decoded in place and written without intermediate values.
//! - [`fields`]: the header fields (`extFields`) of a command as borrowed ranges.
//! - [`codes`]: request codes, response codes, language and version numbers.
//! - [`header`]: the typed headers of the message paths.
//! - [`units`], [`record`], [`properties`], [`batch`], [`id`], [`hash`]: the message record and its parts.
//! - [`ha`]: the frames of replication between brokers.
//! - [`names`]: the names of topics and groups that RocketMQ fixes.
//! - [`recall`]: the recall handle of a timed message.
//! - [`pop`]: the receipt handles of popped messages, and the offset fields of pop responses.
//! - [`defaults`]: the defaults of RocketMQ's settings.
//! - [`seal`]: a signed field of Vostok's own callers, against recorded requests.
//! - [`json`], [`body`]: the JSON dialect of bodies and configuration files, and their types.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod base64;
pub mod batch;
pub mod body;
pub mod codes;
pub mod defaults;
pub mod fields;
mod find;
pub mod frame;
pub mod ha;
pub mod hash;
pub mod header;
pub mod id;
pub mod json;
pub mod names;
pub mod pop;
pub mod properties;
pub mod recall;
pub mod record;
pub mod seal;
pub mod settings;
pub mod units;
