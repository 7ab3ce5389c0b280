//! The figures with which R3 names a resource, and their limits.

use crate::judge::validity::{GENERATOR_CPU_MAX, LAG_US_MAX};

/// I/O pressure (percent of time in which all tasks waited for the disk) that counts as full use.
pub const PRESSURE_FULL: f64 = 40.0 / 3.0;

/// Share of retransmitted TCP segments that counts as a full network.
pub const RETRANSMITS_FULL: f64 = 0.04 / 3.0;

/// Share of the time that a CPU quota stopped the processes which counts as full use of the quota.
pub const THROTTLED_FULL: f64 = 0.25;

/// The measured figure behind the use of a resource. Shares and busy times are parts of 1; bytes and counts are per second;
/// `most` is what the self-test reached or the network card can do.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Reading {
    /// Reading of the processors.
    Cpu(Cpu),
    /// Reading of the disk that holds the store.
    Disk(Disk),
    /// Reading of the network.
    Network(Network),
    /// Bytes by which a slave falls further behind, beside the bytes that are sent.
    FallsBehind { growth: f64, sent: f64 },
    /// Share of its processors that the load generator uses.
    Generator(f64),
    /// Microseconds by which the load generator sends late (p99).
    SendsLate(f64),
}

/// A figure of the processors.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Cpu {
    /// Busy time of the cores that the broker may use.
    Busy { busy: f64, cores: f64 },
    /// Cores that the broker used and waited for, cores that other programs used, and all cores that the broker may
    /// use.
    Waiting { used: f64, waiting: f64, others: f64, cores: f64 },
    /// Share of the time in which a quota stopped the processes.
    Quota(f64),
    /// Busy time of the busiest core.
    BusiestCore(f64),
}

/// A figure of a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Disk {
    /// Share of the time in which the disk was busy.
    Busy(f64),
    /// I/O pressure in percent of the time, with the processors' time of waiting for the disk and the bytes written.
    Pressure { percent: f64, iowait: f64, written: f64 },
    /// Share of the seconds in which a thread of the broker waited for the disk.
    Awaited(f64),
    /// Bytes written.
    Written { bytes: f64, most: f64 },
    /// Reads and writes, beside the random writes of the self-test.
    Requests { done: f64, most: f64 },
    /// Writes, beside the flushes of the self-test.
    Flushes { writes: f64, most: f64 },
}

/// A figure of the network.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Network {
    /// Bytes received from other machines.
    In { bytes: f64, most: f64 },
    /// Bytes sent to other machines.
    Out { bytes: f64, most: f64 },
    /// Bytes sent within the machine.
    Loopback { bytes: f64, most: f64 },
    /// Share of the TCP segments that were sent again.
    SentAgain(f64),
    /// Share of the bytes in flight that the other machine had not yet confirmed.
    OnTheWay(f64),
}

impl Reading {
    /// The figure as a share of its limit: 1 means fully used.
    pub fn used(&self) -> f64 {
        match *self {
            Self::Cpu(Cpu::Busy { busy, .. } | Cpu::BusiestCore(busy)) => busy,
            Self::Cpu(Cpu::Waiting { used, waiting, cores, .. }) => (used + waiting) / cores,
            Self::Cpu(Cpu::Quota(stopped)) => stopped / THROTTLED_FULL,
            Self::Disk(Disk::Busy(share) | Disk::Awaited(share)) => share,
            Self::Disk(Disk::Pressure { percent, .. }) => percent / PRESSURE_FULL,
            Self::Disk(Disk::Written { bytes, most }) => bytes / most,
            Self::Disk(Disk::Requests { done, most }) => done / most,
            Self::Disk(Disk::Flushes { writes, most }) => writes / most,
            Self::Network(
                Network::In { bytes, most }
                | Network::Out { bytes, most }
                | Network::Loopback { bytes, most },
            ) => bytes / most,
            Self::Network(Network::SentAgain(share)) => share / RETRANSMITS_FULL,
            Self::Network(Network::OnTheWay(share)) => share,
            Self::FallsBehind { growth, sent } => growth / sent,
            // R0 accepts a generator up to its limits; from there on the generator itself is the bottleneck.
            Self::Generator(share) => share / GENERATOR_CPU_MAX,
            Self::SendsLate(lag_us) => lag_us / LAG_US_MAX,
        }
    }

    /// The use by which resources are ranked. Figures beyond a limit that is only a rule of thumb count as full.
    pub fn rank(&self) -> f64 {
        match self {
            // Below the use of the whole machine, which tells more when both are full.
            Self::Cpu(Cpu::BusiestCore(busy)) => busy * 0.8,
            Self::FallsBehind { .. } => 0.75 + self.used() / 4.0,
            Self::Cpu(Cpu::Waiting { .. } | Cpu::Quota(_))
            | Self::Disk(Disk::Pressure { .. } | Disk::Requests { .. })
            | Self::Network(Network::SentAgain(_))
            | Self::SendsLate(_) => self.used().min(1.0),
            _ => self.used(),
        }
    }
}

/// Why a resource is named as the limit of a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants say what their fields are")]
pub enum Evidence {
    /// The resource is used up.
    Used(Reading),
    /// More load gives no more, no resource is used up, and the bytes of bodies flow almost evenly.
    ShapedNetwork { bytes: f64, variation: f64 },
    /// More load gives no more, no resource is used up, and the rate varies.
    NothingBusy { variation: f64 },
    /// No resource is used up, and more load was not tried or gave a higher rate. `observed` tells whether a machine of a
    /// broker was.
    RoomLeft { round_trip_us: f64, in_flight: f64, observed: bool },
    /// More load gives no more, and no machine of a broker was observed.
    Unobserved,
}

impl Evidence {
    /// Whether the sentence names the resource by itself.
    pub fn names_resource(&self) -> bool {
        matches!(self, Self::Used(_) | Self::RoomLeft { observed: true, .. })
    }
}
