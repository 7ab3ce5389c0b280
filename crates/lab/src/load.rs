//! Requests and the connections that drive them.
//!
//! A request is a [`Template`] encoded once; per request only the fixed-width places that differ are written over.
//! A [`Slots`] table knows what is in flight, a [`Pace`] says when requests are due in an open loop, and a
//! [`Lane`] is one connection: it takes all answers of a wake-up and lets their successors leave in one write.

mod clock;
mod keeper;
mod lane;
mod message;
mod pace;
mod slots;
mod spread;
mod template;
#[cfg(test)]
mod tests;
mod work;

pub use clock::Clock;
pub use keeper::keep;
pub use lane::{Lane, LaneOptions};
pub use message::{Message, body};
pub use pace::Pace;
pub use slots::{Flight, Slots, WAIT_NS};
pub use spread::{Spread, Turn};
pub use template::{Stamp, Target, Template};
pub use work::{Fate, Work};
