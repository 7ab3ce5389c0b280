//! R7, R8 and R11: what factors change.

use super::{Sentence, serialized};
use crate::judge::effects::{Effect, Interaction};
use crate::judge::stats::Estimate;
use crate::judge::{Text, both, numbers};

impl Sentence for Effect {
    fn sentence(&self) -> Text {
        let [value, low, high] = self.tps.changes();
        let (late, late_zh) = later(&self.p99, self.equal_rate);
        let (Text { en, zh }, from, to) = (self.factor.name(), &self.from, &self.to);
        // A setting is reported only because it has an effect; when its rate shows none, the effect is in its latency.
        if self.is_flat() && self.factor.is_setting() && !self.is_rate_certain() {
            return both!("effects.from-tps-unchanged-low", en, from, to, low, high, late, zh, late_zh);
        }
        if self.is_flat() && !self.factor.is_setting() {
            return both!("effects.from-flat-low-high", en, from, to, low, high, late, zh, late_zh);
        }
        both!("effects.from-value-tps-low", en, from, to, value, low, high, late, zh, late_zh)
    }
}

/// The words about latency in both languages; empty for one-way sends, which have no latency.
fn later(p99: &Estimate, equal_rate: bool) -> (String, String) {
    if p99.mean == 0.0 {
        return (String::new(), String::new());
    }
    let [value, low, high] = p99.changes();
    let (of, of_zh) = if equal_rate { (" at equal rate", "等速率 ") } else { ("", "") };
    (format!(", p99{of} {value} ({low} to {high})"), format!("，{of_zh}p99 {value}（{low} 到 {high}）"))
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
        let (at, of, value) = (self.at.name(), self.of.name(), numbers::short(self.times.mean));
        let (en, zh, en2, zh2) = (at.en, at.zh, of.en, of.zh);
        both!("effects.en2-works-value-times", en2, value, en, zh, zh2)
    }
}

serialized!(Interaction, |interaction| {
    "times": interaction.times,
    "says": interaction.sentence(),
});
