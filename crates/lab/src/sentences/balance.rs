//! R4: whether the byte counts add up, and where bandwidth is the limit.

use super::{Sentence, serialized};
use crate::judge::balance::{BandwidthLimit, Quantity, Term};
use crate::judge::{Text, both, numbers};

impl Quantity {
    /// The name of the quantity as reports print it.
    pub fn name(self) -> Text {
        match self {
            Self::NetworkIn => both!("network in", "网络流入"),
            Self::NetworkOut => both!("network out", "网络流出"),
            Self::DiskWritten => both!("disk written", "磁盘写入"),
        }
    }
}

serialized!(Term, |term| {
    "name": term.quantity.name(),
    "expected": term.expected,
    "found": term.found,
    "off": term.off,
    "beside": term.beside,
});

serialized!(BandwidthLimit, |limit| {
    "bytes": limit.bytes,
    "sizes": limit.sizes,
    "says": limit.sentence(),
});

impl Sentence for BandwidthLimit {
    fn sentence(&self) -> Text {
        let (rate, count) = (numbers::bytes(self.bytes), self.sizes.len());
        let bits = numbers::short(self.bytes * 8.0 / 1e9);
        let Text { en, zh } = self.hardware();
        both!(
            "{count} sizes all reach {rate}/s ({bits} Gb/s) of bodies: a ceiling of bandwidth, not of messages; {en}",
            "{count} 种消息大小都停在 {rate}/s（{bits} Gb/s）：这是带宽上限，不是消息数上限；{zh}"
        )
    }
}

impl BandwidthLimit {
    /// Capabilities of a broker's machine, for comparison.
    fn hardware(&self) -> Text {
        let Some(machine) = &self.machine else {
            return both!("no machine of a broker to compare with", "没有 Broker 主机数据可供比较");
        };
        let known =
            |bytes: Option<f64>| bytes.map_or_else(|| "?".to_owned(), |bytes| numbers::bytes(bytes) + "/s");
        let (net, disk) = (known(machine.network), known(machine.disk));
        both!("its limits: network {net}, disk {disk}", "硬件上限：网络 {net}，磁盘 {disk}")
    }
}
