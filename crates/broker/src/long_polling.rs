//! Long polling: the pulls and pops that wait for a message, in the lists of their queue or topic. The lists know neither queues
//! nor topics, and nothing of how a request is answered.

mod pops;
mod pulls;

pub(crate) use pops::{Ask, Bounds, NoWait, Pop, PopTimeouts, SuspendedPop, Waiters, Want};
pub(crate) use pulls::{PullAsk, SUSPENDED_MAX, SuspendedPull, SuspendedPulls};
