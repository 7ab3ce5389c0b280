//! R3: which resource limits the rate.

use super::{Sentence, serialized_as_sentence};
use crate::judge::bottleneck::{
    Bottleneck, Cpu, Disk, Evidence, Network, PRESSURE_FULL, RETRANSMITS_FULL, Reading, Resource,
    THROTTLED_FULL,
};
use crate::judge::validity::{GENERATOR_CPU_MAX, LAG_US_MAX};
use crate::judge::{Text, both};

impl Resource {
    /// The name of the resource as reports print it.
    pub fn name(self) -> Text {
        Text::named("resource", self)
    }
}

impl Sentence for Bottleneck {
    fn sentence(&self) -> Text {
        let says = self.evidence.sentence();
        if self.evidence.names_resource() {
            return says;
        }
        both!("bottleneck.text", name = self.resource.name(), says)
    }
}

impl Sentence for Evidence {
    fn sentence(&self) -> Text {
        match *self {
            Self::Used(ref reading) => reading.sentence(),
            Self::ShapedNetwork { bytes, variation } => {
                both!("bottleneck.more-load-gives-no", bytes, variation)
            }
            Self::NothingBusy { variation } => both!("bottleneck.more-load-gives-no-more", variation),
            Self::RoomLeft { round_trip_us, in_flight, observed } => {
                let unseen =
                    if observed { Text::default() } else { both!("bottleneck.no-machine-was-observed") };
                both!("bottleneck.client-or-rtt-limited", round_trip_us, in_flight, unseen)
            }
            Self::Unobserved => both!("bottleneck.more-load-gives-no-more-no"),
        }
    }
}

impl Sentence for Reading {
    fn sentence(&self) -> Text {
        match self {
            Self::Cpu(reading) => reading.sentence(),
            Self::Disk(reading) => reading.sentence(),
            Self::Network(reading) => reading.sentence(),
            Self::FallsBehind { growth, sent } => {
                both!("bottleneck.replica-falls-behind-value", growth, sent)
            }
            Self::Generator(share) => {
                both!("bottleneck.client-generator-uses-value", share, limit = GENERATOR_CPU_MAX)
            }
            Self::SendsLate(lag_us) => {
                both!("bottleneck.client-sends-up-value", lag_us, limit = LAG_US_MAX)
            }
        }
    }
}

impl Sentence for Cpu {
    fn sentence(&self) -> Text {
        match *self {
            Self::Busy { busy, cores } => both!("bottleneck.cpu-value-cores-busy", busy, cores),
            Self::Waiting { used, waiting, others, cores } => {
                both!("bottleneck.cpu-broker-used-used", used, waiting, others, cores)
            }
            Self::Quota(stopped) => {
                both!("bottleneck.cpu-quota-stopped-processes", stopped, limit = THROTTLED_FULL)
            }
            Self::BusiestCore(busy) => both!("bottleneck.cpu-busiest-core-value", busy),
        }
    }
}

impl Sentence for Disk {
    fn sentence(&self) -> Text {
        match *self {
            Self::Busy(busy) => both!("bottleneck.disk-busy-value-time", busy),
            Self::Pressure { percent, iowait, written } => {
                let limit = PRESSURE_FULL;
                both!("bottleneck.disk-everything-waits-value", percent, limit, iowait, written)
            }
            Self::Awaited(share) => both!("bottleneck.disk-thread-broker-waited", share),
            Self::Written { bytes, most } => both!("bottleneck.disk-value-s-written", bytes, most),
            Self::Requests { done, most } => both!("bottleneck.disk-value-iops-limit", done, most),
            Self::Flushes { writes, most } => both!("bottleneck.disk-value-writes-s", writes, most),
        }
    }
}

impl Sentence for Network {
    fn sentence(&self) -> Text {
        match *self {
            Self::In { bytes, most } => both!("bottleneck.network-value-s-limit", bytes, most),
            Self::Out { bytes, most } => both!("bottleneck.network-value-s-out", bytes, most),
            Self::Loopback { bytes, most } => both!("bottleneck.network-value-s-over", bytes, most),
            Self::SentAgain(share) => {
                both!("bottleneck.network-value-segments-sent", share, limit = RETRANSMITS_FULL)
            }
            Self::OnTheWay(share) => both!("bottleneck.network-value-bytes-flight", share),
        }
    }
}

serialized_as_sentence!(Reading, Evidence);
