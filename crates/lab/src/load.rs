//! The requests of a load and the connections that send them.
//!
//! A request is a [`Template`] that is encoded once; per request only the parts that differ are overwritten, and these
//! have a fixed width. A [`Slots`] table holds the requests in flight, a [`Pace`] says when the requests of an open
//! loop are due, and a [`Connection`] is one connection: it takes all answers of a wake-up and sends the next requests in one
//! write.

mod clock;
mod connection;
mod keeper;
mod message;
mod pace;
mod slots;
mod spread;
mod template;
#[cfg(test)]
mod tests;
mod work;

pub use clock::Clock;
pub use connection::{Connection, ConnectionOptions};
pub use keeper::keep;
pub use message::{Message, body};
pub use pace::Pace;
pub use slots::{Flight, Slots, WAIT_NS};
pub use spread::{Spread, Turn};
pub use template::{Stamp, Target, Template};
pub use work::{Fate, Work};
