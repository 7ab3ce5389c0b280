//! R7, R8 and R11: what factors change.

use super::{Sentence, serialized};
use crate::judge::effects::{Effect, Interaction};
use crate::judge::stats::Estimate;
use crate::judge::{Text, both};

impl Sentence for Effect {
    fn sentence(&self) -> Text {
        let [value, low, high] = self.tps.changes();
        let late = later(&self.p99, self.equal_rate);
        let (name, from, to) = (self.factor.name(), &self.from, &self.to);
        // A setting is reported only because it has an effect; when its rate shows none, the effect is in its latency.
        if self.is_flat() && self.factor.is_setting() && !self.is_rate_certain() {
            return both!("effects.from-tps-unchanged-low", name, from, to, low, high, late);
        }
        if self.is_flat() && !self.factor.is_setting() {
            return both!("effects.from-flat-low-high", name, from, to, low, high, late);
        }
        both!("effects.from-value-tps-low", name, from, to, value, low, high, late)
    }
}

/// The words about latency in both languages; empty for one-way sends, which have no latency.
fn later(p99: &Estimate, equal_rate: bool) -> Text {
    let [value, low, high] = p99.changes();
    match equal_rate {
        _ if p99.mean == 0.0 => Text::default(),
        true => both!("effects.p99-equal-rate", value, low, high),
        false => both!("effects.p99", value, low, high),
    }
}

serialized!(Effect, |effect| {
    "factor": effect.factor.name(),
    "from": effect.from,
    "to": effect.to,
    "tps": effect.tps,
    "p99": effect.p99,
    "pairs": effect.pairs,
    "equal_rate": effect.equal_rate,
    "says": effect.sentence(),
});

impl Sentence for Interaction {
    fn sentence(&self) -> Text {
        let (at, of) = (self.at.name(), self.of.name());
        both!("effects.en2-works-value-times", of, times = self.times.mean, at)
    }
}

serialized!(Interaction, |interaction| {
    "times": interaction.times,
    "says": interaction.sentence(),
});
