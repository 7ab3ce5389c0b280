//! Long polling: pulls and pops that wait for a message, in the list of their queue or topic. The lists are
//! independent of queues, topics and the form of the response.

mod pops;
mod pulls;

pub(crate) use pops::{Ask, Bounds, NoWait, Pop, PopTimeouts, SuspendedPop, Waiters, Want};
pub(crate) use pulls::{PullAsk, SUSPENDED_MAX, SuspendedPull, SuspendedPulls};
