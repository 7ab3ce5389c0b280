//! R3: which resource limits the rate.

use super::{Sentence, serialized_as_sentence};
use crate::judge::bottleneck::{
    Bottleneck, Cpu, Disk, Evidence, Network, PRESSURE_FULL, RETRANSMITS_FULL, Reading, Resource,
    THROTTLED_FULL,
};
use crate::judge::numbers::{bytes, count, micros, percent, short};
use crate::judge::validity::{GENERATOR_CPU_MAX, LAG_US_MAX};
use crate::judge::{Text, both};

impl Resource {
    /// The name of the resource as reports print it.
    pub fn name(self) -> Text {
        Text::of(match self {
            Self::Cpu => ("CPU", "CPU"),
            Self::Disk => ("disk", "磁盘"),
            Self::Network => ("network", "网络"),
            Self::Replica => ("replica", "副本"),
            Self::Client => ("client", "客户端"),
            Self::Server => ("server internals", "服务端内部"),
            Self::Unknown => ("not known", "未知"),
        })
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
                let (bytes, spread) = (self::bytes(bytes), percent(variation));
                both!("bottleneck.more-load-gives-no", bytes, spread)
            }
            Self::NothingBusy { variation } => {
                both!("bottleneck.more-load-gives-no-more", spread = percent(variation))
            }
            Self::RoomLeft { round_trip_us, in_flight, observed } => {
                let (time, threads) = (micros(round_trip_us), count(in_flight));
                let (unseen, unseen_zh) = if observed {
                    ("", "")
                } else {
                    ("; no machine of a broker was observed", "；没有观察任何 Broker 主机")
                };
                both!("bottleneck.client-or-rtt-limited", time, threads, unseen, unseen_zh)
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
                both!("bottleneck.replica-falls-behind-value", value = bytes(*growth), of = bytes(*sent))
            }
            Self::Generator(share) => {
                let [value, limit] = [*share, GENERATOR_CPU_MAX].map(percent);
                both!("bottleneck.client-generator-uses-value", value, limit)
            }
            Self::SendsLate(lag) => {
                both!("bottleneck.client-sends-up-value", value = micros(*lag), limit = micros(LAG_US_MAX))
            }
        }
    }
}

impl Sentence for Cpu {
    fn sentence(&self) -> Text {
        match *self {
            Self::Busy { busy, cores } => {
                both!("bottleneck.cpu-value-cores-busy", value = percent(busy), of = short(cores))
            }
            Self::Waiting { used, waiting, others, cores } => {
                let [used, wait, rest, of] = [used, waiting, others, cores].map(short);
                both!("bottleneck.cpu-broker-used-used", used, wait, of, rest)
            }
            Self::Quota(stopped) => {
                let [value, limit] = [stopped, THROTTLED_FULL].map(percent);
                both!("bottleneck.cpu-quota-stopped-processes", value, limit)
            }
            Self::BusiestCore(busy) => both!("bottleneck.cpu-busiest-core-value", value = percent(busy)),
        }
    }
}

impl Sentence for Disk {
    fn sentence(&self) -> Text {
        match *self {
            Self::Busy(busy) => both!("bottleneck.disk-busy-value-time", value = percent(busy)),
            Self::Pressure { percent, iowait, written } => {
                let [value, limit] = [percent, PRESSURE_FULL].map(short);
                let (wait, written) = (self::percent(iowait), bytes(written));
                both!("bottleneck.disk-everything-waits-value", value, limit, wait, written)
            }
            Self::Awaited(share) => both!("bottleneck.disk-thread-broker-waited", value = percent(share)),
            Self::Written { bytes, most } => {
                let [value, limit] = [bytes, most].map(self::bytes);
                both!("bottleneck.disk-value-s-written", value, limit)
            }
            Self::Requests { done, most } => {
                both!("bottleneck.disk-value-iops-limit", value = count(done), limit = count(most))
            }
            Self::Flushes { writes, most } => {
                both!("bottleneck.disk-value-writes-s", value = count(writes), limit = count(most))
            }
        }
    }
}

impl Sentence for Network {
    fn sentence(&self) -> Text {
        match *self {
            Self::In { bytes, most } => {
                let [value, limit] = [bytes, most].map(self::bytes);
                both!("bottleneck.network-value-s-limit", value, limit)
            }
            Self::Out { bytes, most } => {
                both!("bottleneck.network-value-s-out", value = self::bytes(bytes), limit = self::bytes(most))
            }
            Self::Loopback { bytes, most } => {
                let [value, limit] = [bytes, most].map(self::bytes);
                both!("bottleneck.network-value-s-over", value, limit)
            }
            Self::SentAgain(share) => {
                let [value, limit] = [share, RETRANSMITS_FULL].map(percent);
                both!("bottleneck.network-value-segments-sent", value, limit)
            }
            Self::OnTheWay(share) => both!("bottleneck.network-value-bytes-flight", value = percent(share)),
        }
    }
}

serialized_as_sentence!(Reading, Evidence);
