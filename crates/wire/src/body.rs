//! The JSON bodies of requests, responses and configuration files, one type each.
//!
//! Every type derives serde's traits; [`crate::json`] implements RocketMQ's dialect. Members are declared in the alphabetical
//! order in which fastjson writes them, absent members take RocketMQ's defaults, `None` is not written. The vectors under
//! `golden/` were written by RocketMQ 5.3.3 and 5.5.0.

pub mod admin;
pub mod assignment;
pub mod auth;
pub mod changes;
pub mod cluster;
pub mod controller;
pub mod group;
pub mod ha;
pub mod heartbeat;
pub mod key_values;
pub mod lite;
pub mod lock;
pub mod offset;
pub mod pop;
pub mod queue;
pub mod register;
pub mod route;
pub mod topic;

use std::collections::BTreeMap;

pub use admin::*;
pub use assignment::*;
pub use auth::*;
pub use changes::*;
pub use cluster::*;
pub use controller::*;
pub use group::*;
pub use ha::*;
pub use heartbeat::*;
pub use key_values::*;
pub use lite::*;
pub use lock::*;
pub use offset::*;
pub use pop::*;
pub use queue::*;
pub use register::*;
pub use route::*;
pub use topic::*;

/// Members of a configuration file that this version does not know; kept when the file is rewritten.
pub type Extra = BTreeMap<String, serde_json::Value>;

#[cfg(test)]
mod tests;
