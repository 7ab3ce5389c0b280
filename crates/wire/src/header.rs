//! Typed headers of the message paths, read in one pass over a command's fields.

mod end;
mod pull;
mod send;
#[cfg(test)]
mod tests;

pub use end::{Decision, EndTransaction};
pub use pull::{PullHeader, PullResponseHeader, pull_flag};
pub use send::{SendHeader, SendResponseHeader};
