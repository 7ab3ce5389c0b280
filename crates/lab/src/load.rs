//! The requests of a load and the connections that send them.
//!
//! A request is a [`Template`] that is encoded once; per request only the parts that differ are overwritten, and these
//! have a fixed width. A [`Slots`] table holds the requests in flight, and a [`Pace`] gives the times at which the
//! requests of an open loop are due. A [`Connection`] takes all answers of a wake-up and sends the next requests in one
//! write.

mod clock;
mod connection;
mod destination;
mod ending;
mod grpc_template;
mod keeper;
mod latency;
mod message;
mod pace;
mod refusal;
mod slots;
mod snapshot;
mod spread;
mod tally;
mod template;
#[cfg(test)]
mod tests;
mod work;

pub use clock::Clock;
pub(crate) use clock::{date_time, zone_ms};
pub(crate) use connection::Answers;
pub use connection::{Connection, ConnectionOptions};
pub use destination::Destination;
pub(crate) use ending::Ending;
pub(crate) use grpc_template::{GrpcTemplate, requests};
pub use keeper::keep_connected;
pub(crate) use keeper::{Alarm, pause};
pub use latency::{Latency, Percentiles};
pub use message::{Message, body, key_prefix};
pub use pace::Pace;
pub use refusal::Refusal;
pub use slots::{Flight, Slots};
pub use snapshot::Snapshot;
pub use spread::{Spread, Turn};
pub use tally::Tally;
pub use template::{Stamp, Target, Template};
pub use work::{Fate, Work};

/// Requests in flight of an asynchronous producer (`-y true`).
pub(crate) const ASYNCHRONOUS_IN_FLIGHT: u32 = 10_000;

/// Most bytes of one-way requests that may wait for a socket; beyond that the connection is closed.
pub(crate) const ONE_WAY_BYTES_MAX: usize = 256 << 20;
