//! R1: whether a ladder has a ceiling.

use super::Sentence;
use crate::judge::bottleneck::Reading;
use crate::judge::ceiling::{Ceiling, Doubt, Invalid, Sign};
use crate::judge::{Text, both, numbers};
use serde_json::{Value, json};

impl Sentence for Sign {
    fn sentence(&self) -> Text {
        match self {
            Self::Below { gain } => both!("ceiling.last-step-stays-below", gain),
            Self::Flat { gains } => {
                let [one, other] = gains;
                both!("ceiling.last-two-steps-gained", one, other)
            }
            Self::Knee { high_us, low_us } => {
                both!("ceiling.latency-its-knee-p99", high_us, times = high_us / low_us.max(1.0), low_us)
            }
        }
    }
}

impl Sentence for Ceiling {
    fn sentence(&self) -> Text {
        match self {
            Self::Found { sign, .. } => sign.sentence(),
            Self::NotSaturated { gain, load, invalid } => {
                both!("ceiling.not-saturated-last-valid", load, gain, text = advice(invalid))
            }
            Self::Undecided { doubt, invalid } => undecided(*doubt, &advice(invalid)),
        }
    }
}

fn undecided(doubt: Doubt, advice: &Text) -> Text {
    match doubt {
        Doubt::Steps(steps) => both!("ceiling.steps-valid-steps-three", steps, advice),
        Doubt::OneStep(low, high) => both!("ceiling.last-valid-step-gained", low, high, advice),
        Doubt::Interval(low, high) => both!("ceiling.last-step-gained-between", low, high),
    }
}

/// Advice for finding the ceiling: more load, unless steps with more load are there and must become valid first.
fn advice(invalid: &Invalid) -> Text {
    if invalid.loads.is_empty() {
        return both!("ceiling.extend-ladder");
    }
    let loads: Vec<String> = invalid.loads.iter().map(|load| numbers::count(*load)).collect();
    let why = invalid.why.as_ref().map(Sentence::sentence).unwrap_or_default();
    both!("ceiling.load-loads-run-not", loads = loads.join(", "), why)
}

impl Ceiling {
    /// The verdict beside the figure of a resource that is full. Larger batches make requests cheaper, so the rate may
    /// still rise then.
    pub fn beside_full(&self, full: &Reading) -> Text {
        let Self::NotSaturated { gain, load, invalid } = self else { return self.sentence() };
        both!("ceiling.none-shows-yet-last", load, gain, full = full.sentence(), text = advice(invalid))
    }

    /// The verdict as files hold it.
    pub(crate) fn json(&self) -> Value {
        let why = self.sentence();
        match self {
            Self::Found { step, tps, .. } => json!({ "found": { "step": step, "tps": tps, "why": why } }),
            Self::NotSaturated { gain, .. } => json!({ "not-saturated": { "gain": gain, "why": why } }),
            Self::Undecided { .. } => json!({ "undecided": { "why": why } }),
        }
    }
}
