//! R9 and R12: how two runs compare.

use super::Sentence;
use crate::judge::scale::Scaling;
use crate::judge::stats::Estimate;
use crate::judge::versus::{Apart, Ladders, Mode, Pairing, Tested, Verdict};
use crate::judge::{Text, both, numbers};

impl Verdict {
    /// The name of the verdict as reports print it.
    pub fn name(self) -> Text {
        Text::named("judgement", self)
    }
}

/// Most repeats that are recommended to decide a comparison.
const REPEATS_MAX: usize = 100;

/// The verdict on a cell; where it is undecided, with the number of repeats that would probably decide it.
pub fn verdict(pairing: &Pairing) -> Text {
    let name = pairing.verdict.name();
    match pairing.repeats_needed {
        None => name,
        Some(repeats) if repeats > REPEATS_MAX => {
            both!("comparison.would-take-more-repeats-max", name, REPEATS_MAX)
        }
        Some(repeats) => both!("comparison.about-repeats-repeats-would", name, repeats),
    }
}

/// Writes a ratio as a change with its interval: `+12.3 % (+8.0 % … +16.1 %)`.
pub fn ratio_text(ratio: &Estimate) -> String {
    let [value, low, high] = ratio.changes();
    format!("{value} ({low} … {high})")
}

impl Sentence for Mode {
    fn sentence(&self) -> Text {
        let said = |mode: &Option<String>| match mode {
            Some(mode) => Text::same(mode),
            None => both!("comparison.as-brokers-had-it"),
        };
        let (from, to) = (said(&self.first), said(&self.second));
        both!("comparison.from-b", text = self.factor.name(), from, to)
    }
}

impl Sentence for Apart {
    fn sentence(&self) -> Text {
        let unit: fn(f64) -> String = match self.limit {
            Tested::DiskWrite | Tested::Loopback | Tested::Crc => numbers::bytes,
            Tested::DiskFlushes | Tested::RoundTrips | Tested::LabMessages => numbers::count,
        };
        let (name, one, other) =
            (Text::named("tested", self.limit), unit(self.values.0), unit(self.values.1));
        let (times, (first, second)) = (self.times(), &self.machines);
        both!("comparison.self-tests-differ-times", times, name, one, first, other, second)
    }
}

impl Sentence for Scaling {
    fn sentence(&self) -> Text {
        let ((few, many), Estimate { mean, low, high }) = (self.masters, self.efficiency);
        let bound = bound(self.climb);
        let text = both!("comparison.each-many-masters-carries", many, mean, low, high, few, bound);
        let Some(limit) = &self.shared else { return text };
        let (name, why) = (limit.resource.name(), limit.evidence.sentence());
        both!("comparison.they-share-shared-why", text, name, why)
    }
}

/// Addition to the sentence about an efficiency. Unsaturated ladders make the efficiency an upper
/// bound, a lower bound or unknown. Empty if all ladders were saturated. `climb` is as in
/// [`Scaling`].
fn bound(climb: (bool, bool)) -> Text {
    match climb {
        (false, false) => Text::default(),
        (true, false) => both!("comparison.at-most"),
        (false, true) => both!("comparison.at-least"),
        (true, true) => both!("comparison.no-efficiency"),
    }
}

/// The reservation that is printed beside the capacity; `None` when every ladder shows its ceiling in both runs.
pub fn reservation(ladders: &Ladders) -> Option<Text> {
    let (all, (first, second)) = (ladders.compared, ladders.unsaturated);
    if first + second == 0 {
        return None;
    }
    if first.min(second) == all {
        return Some(both!("comparison.ladders-not-saturated-either"));
    }
    Some(both!("comparison.all-ladders-first-not", all, first, second))
}
