//! R13: the steps of a plan's arithmetic, as figures; [`crate::plan`] takes them.

use super::guards::Guard;

/// Share of the safe rate with which a master is planned.
pub const PLANNED: f64 = 0.7;

/// Share of the network that a plan may use.
pub const NETWORK: f64 = 0.8;

/// Share of a disk that a plan fills.
pub const FILLED: f64 = 0.75;

/// Bytes on the wire beside the body, each time a message is delivered to a group or copied to a slave. Measured:
/// docs/scaling.md, which names the same figure.
pub const DELIVERED_BESIDE: f64 = 310.0;

/// Bytes on disk beside the body: record, queue entry and index entry. Measured as [`DELIVERED_BESIDE`] was.
pub const STORED_BESIDE: f64 = 253.0;

/// A step of the arithmetic behind a plan. Rates are messages per second, sizes bytes.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Step {
    /// The rate of one master on which the plan is based.
    SafeRate(Source),
    /// A reservation about that rate.
    Careful(Reservation),
    /// Masters that the rate needs.
    ByRate { peak: f64, growth: f64, safe: f64, masters: f64 },
    /// Masters that the network needs. A message takes `each` bytes, and goes to every slave and
    /// every group. A network of `nic` Mb/s may carry `most` bytes per second, and each master
    /// sends `sends` bytes per second.
    ByNetwork {
        peak: f64,
        each: f64,
        slaves: u32,
        groups: u32,
        nic: f64,
        most: f64,
        masters: f64,
        sends: f64,
    },
    /// Masters with the spare ones, and their slaves.
    Masters { carrying: f64, survive: u32, masters: u32, slaves: u32 },
    /// Disk of each broker, and of all.
    Disk { rate: f64, stored: f64, hours: f64, masters: f64, each: f64, total: f64 },
    /// Name servers and controllers.
    NameServers { survive: u32, name_servers: u32, controllers: u32 },
}

/// Source of the rate of a master.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Source {
    /// The user gave it.
    Named { tps: f64, size: f64 },
    /// A cell of a run held `tps` with `measured` bytes, which makes `planned` with `size` bytes.
    Measured { run: String, cell: String, tps: f64, measured: f64, planned: f64, size: f64 },
}

/// Why the rate of one master may be too high for the plan.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Reservation {
    /// The rate was held for a shorter time than a safe rate must be.
    HeldBriefly { seconds: f64, needed: f64 },
    /// No machine of a broker was observed.
    BrokersUnseen,
    /// These guards had no figures.
    NotLookedAt(Vec<Guard>),
    /// The rate was measured with fewer groups or slaves than are wanted; both as (groups, slaves).
    FewerReaders { measured: (u32, u32), wanted: (u32, u32) },
}
