//! R4: whether the byte counts add up, and where bandwidth is the limit.

use super::{Sentence, serialized};
use crate::judge::balance::{BandwidthLimit, Quantity, Term};
use crate::judge::{Text, both, numbers};

impl Quantity {
    /// The name of the quantity as reports print it.
    pub fn name(self) -> Text {
        Text::named("quantity", self)
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
        let (bytes, count, bits) = (self.bytes, self.sizes.len(), self.bytes * 8.0 / 1e9);
        both!("balance.count-sizes-all-reach", count, bytes, bits, text = self.hardware())
    }
}

impl BandwidthLimit {
    /// Capabilities of a broker's machine, for comparison.
    fn hardware(&self) -> Text {
        let Some(machine) = &self.machine else {
            return both!("balance.no-machine-broker-compare");
        };
        let known =
            |bytes: Option<f64>| bytes.map_or_else(|| "?".to_owned(), |bytes| numbers::bytes(bytes) + "/s");
        both!("balance.its-limits-network-net", net = known(machine.network), disk = known(machine.disk))
    }
}
