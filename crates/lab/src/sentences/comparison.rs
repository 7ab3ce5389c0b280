//! R9 and R12: how two runs compare.

use super::Sentence;
use crate::judge::scale::Scaling;
use crate::judge::stats::Estimate;
use crate::judge::versus::{Apart, Ladders, Mode, Pairing, Tested, Verdict};
use crate::judge::{Text, both, numbers};

impl Verdict {
    /// The name of the verdict as reports print it.
    pub fn name(self) -> Text {
        Text::of(match self {
            Self::Better => ("better", "更优"),
            Self::Equal => ("equal", "相当"),
            Self::Worse => ("worse", "更差"),
            Self::Undecided => ("cannot be told", "无法判定"),
            Self::NotComparable => ("not comparable", "不可比"),
        })
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
        let said =
            |left: &'static str| [&self.first, &self.second].map(|mode| mode.as_deref().unwrap_or(left));
        let ([from, to], [from_zh, to_zh]) = (said("as the brokers had it"), said("沿用 Broker 设置"));
        both!("comparison.from-b", text = self.factor.name(), from, to, from_zh, to_zh)
    }
}

impl Sentence for Apart {
    fn sentence(&self) -> Text {
        let (en, zh, unit): (_, _, fn(f64) -> String) = match self.limit {
            Tested::DiskWrite => ("disk writes", "磁盘写", numbers::bytes),
            Tested::DiskFlushes => ("disk flushes", "磁盘 flush", numbers::count),
            Tested::Loopback => ("loopback", "本机回环", numbers::bytes),
            Tested::RoundTrips => ("loopback round trips", "本机往返", numbers::count),
            Tested::LabMessages => ("messages of the lab", "压测端消息", numbers::count),
            Tested::Crc => ("CRC32", "CRC32", numbers::bytes),
        };
        let (times, one, other) = (numbers::short(self.times()), unit(self.values.0), unit(self.values.1));
        let (first, second) = &self.machines;
        both!("comparison.self-tests-differ-times", times, en, one, first, other, second, zh)
    }
}

impl Sentence for Scaling {
    fn sentence(&self) -> Text {
        let (few, many) = self.masters;
        let Estimate { mean, low, high } = self.efficiency;
        let [value, low, high] = [mean, low, high].map(numbers::percent);
        let (bound, bound_zh) = bound(self.climb);
        let text =
            both!("comparison.each-many-masters-carries", many, value, low, high, few, bound, bound_zh);
        let Some(limit) = &self.shared else { return text };
        let (name, why) = (limit.resource.name(), limit.evidence.sentence());
        both!("comparison.they-share-shared-why", text, name, why)
    }
}

/// The words for what unsaturated ladders leave of an efficiency; `climb` is as in [`Scaling`].
fn bound(climb: (bool, bool)) -> (&'static str, &'static str) {
    match climb {
        (false, false) => ("", ""),
        (true, false) => (
            ", at most: the ladders of the fewer were not saturated",
            "，此为上界：主节点少的一方负载阶梯未饱和",
        ),
        (false, true) => (
            ", at least: the ladders of the more were not saturated",
            "，此为下界：主节点多的一方负载阶梯未饱和",
        ),
        (true, true) => (
            ", which is no efficiency: the ladders of both were not saturated; extend them",
            "，但这不是扩展效率：双方负载阶梯均未饱和，请继续加压",
        ),
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
