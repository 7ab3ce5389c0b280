//! R1: whether a ladder has a ceiling.

use super::Sentence;
use crate::judge::bottleneck::Reading;
use crate::judge::ceiling::{Ceiling, Doubt, Invalid, Sign};
use crate::judge::{Text, both, numbers};
use serde_json::{Value, json};

impl Sentence for Sign {
    fn sentence(&self) -> Text {
        match self {
            Self::Below { gain } => {
                let gain = numbers::change(*gain);
                both!(
                    "the last step stays below the best before it ({gain})",
                    "最后一级低于此前的最高值（{gain}）"
                )
            }
            Self::Flat { gains } => {
                let [one, other] = gains.map(numbers::change);
                both!("the last two steps gained {one} and {other}", "最后两级仅增长 {one} 与 {other}")
            }
            Self::Knee { high_us, low_us } => {
                let times = numbers::short(high_us / low_us.max(1.0));
                let [high, low] = [*high_us, *low_us].map(numbers::micros);
                both!(
                    "latency has its knee: p99 {high} is {times} times the {low} at half the rate",
                    "时延拐点：p99 {high} 是半载 {low} 的 {times} 倍"
                )
            }
        }
    }
}

impl Sentence for Ceiling {
    fn sentence(&self) -> Text {
        match self {
            Self::Found { sign, .. } => sign.sentence(),
            Self::NotSaturated { gain, load, invalid } => {
                let (value, load) = (numbers::change(*gain), numbers::count(*load));
                let Text { en, zh } = advice(invalid);
                both!(
                    "not saturated: the last valid step (load {load}) still gained {value}; {en}",
                    "未饱和：最后一个有效级（负载 {load}）仍增长 {value}；{zh}"
                )
            }
            Self::Undecided { doubt, invalid } => undecided(*doubt, &advice(invalid)),
        }
    }
}

fn undecided(doubt: Doubt, Text { en, zh }: &Text) -> Text {
    let interval = |low, high| (numbers::change(low), numbers::change(high));
    match doubt {
        Doubt::Steps(steps) => both!(
            "{steps} valid steps: three are needed to find a ceiling; {en}",
            "只有 {steps} 个有效级：判断上限至少需要三级；{zh}"
        ),
        Doubt::OneStep(low, high) => {
            let (low, high) = interval(low, high);
            both!(
                "the last valid step gained little ({low} to {high}), and one alone may be chance: {en}",
                "最后一个有效级增长很小（{low} 到 {high}），但仅一级可能是偶然：{zh}"
            )
        }
        Doubt::Interval(low, high) => {
            let (low, high) = interval(low, high);
            both!(
                "the last step gained between {low} and {high}: measure longer, or with more repeats",
                "最后一级增长在 {low} 到 {high} 之间，无法判定：请延长或增加重复次数"
            )
        }
    }
}

/// Advice for finding the ceiling: more load, unless steps with more load are there and must become valid first.
fn advice(invalid: &Invalid) -> Text {
    if invalid.loads.is_empty() {
        return both!("extend the ladder", "请继续加压");
    }
    let loads: Vec<String> = invalid.loads.iter().map(|load| numbers::count(*load)).collect();
    let why = invalid.why.as_ref().map(Sentence::sentence).unwrap_or_default();
    let (loads, why, why_zh) = (loads.join(", "), why.en, why.zh);
    both!(
        "load {loads} was run and is not valid ({why}): mend that first, a longer ladder tells no more",
        "负载 {loads} 已运行但无效（{why_zh}）：请先解决，继续加压没有意义"
    )
}

impl Ceiling {
    /// The verdict beside the figure of a resource that is full. Larger batches make requests cheaper, so the rate may
    /// still rise then.
    pub fn beside_full(&self, full: &Reading) -> Text {
        let Self::NotSaturated { gain, load, invalid } = self else { return self.sentence() };
        let (value, load) = (numbers::change(*gain), numbers::count(*load));
        let (Text { en, zh }, full) = (advice(invalid), full.sentence());
        let (reading, reading_zh) = (full.en, full.zh);
        both!(
            "none shows yet: the last valid step (load {load}) still gained {value}, although a resource is full ({reading}); {en}",
            "尚未出现：最后一个有效级（负载 {load}）仍增长 {value}，尽管已有资源用满（{reading_zh}）；{zh}"
        )
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
