//! Typed headers of the message paths, read in one pass over a command's fields.

mod pull;
mod send;
#[cfg(test)]
mod tests;

pub use pull::{PullHeader, PullReply, pull_flag};
pub use send::{SendHeader, SendReply};
