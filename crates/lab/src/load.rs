//! The requests of a load and the connections that send them.
//!
//! A request is a [`Template`] that is encoded once; per request only the parts that differ are overwritten, and these
//! have a fixed width. A [`Slots`] table holds the requests in flight, a [`Pace`] says when the requests of an open
//! loop are due, and a [`Connection`] is one connection: it takes all answers of a wake-up and sends the next requests in one
//! write.

mod clock;
mod connection;
mod ending;
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
pub(crate) use ending::Ending;
pub use keeper::keep;
pub use message::{Message, body, key_prefix};
pub use pace::Pace;
pub use slots::{Flight, Slots, WAIT_NS};
pub use spread::{Spread, Turn};
pub use template::{Stamp, Target, Template};
pub use work::{Fate, Work};

/// Requests in flight of an asynchronous producer (`-y true`).
pub(crate) const ASYNCHRONOUS_IN_FLIGHT: u32 = 10_000;

/// Most bytes of one-way requests that may wait for a socket; beyond that the connection is closed.
pub(crate) const ONE_WAY_BYTES_MAX: usize = 256 << 20;
