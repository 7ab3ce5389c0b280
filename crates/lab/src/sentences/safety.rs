//! R2: why a cell above the highest safe rate does not count.

use super::{Sentence, joined};
use crate::judge::safety::{Above, Attempt, NotSafe};
use crate::judge::{Text, both, numbers};

impl Sentence for Above {
    fn sentence(&self) -> Text {
        let (cell, rate, Text { en, zh }) = (&self.name, numbers::rate(self.tps), self.why.sentence());
        both!(
            "cell {cell} carried {rate} with every guard kept, {en}",
            "用例 {cell} 达到 {rate} 且满足全部护栏，{zh}"
        )
    }
}

impl Sentence for NotSafe {
    fn sentence(&self) -> Text {
        match self {
            Self::Messages => both!(
                "but not every message arrived once, unchanged and in order",
                "但并非每条消息都恰好到达一次、内容不变且有序"
            ),
            Self::Unconfirmed { threads, seconds, attempt } => {
                let (threads, seconds) = (numbers::count(f64::from(*threads)), numbers::count(*seconds));
                let Text { en, zh } = attempt.as_ref().map_or_else(
                    || both!("that was not confirmed", "未经确认"),
                    |attempt| {
                        let Text { en, zh } = attempt.sentence();
                        both!("a longer run did not confirm it: {en}", "更长的运行未能确认：{zh}")
                    },
                );
                both!(
                    "for {seconds} s in a closed loop with {threads} in flight; {en}",
                    "闭环在途 {threads}，持续 {seconds} 秒；{zh}"
                )
            }
            Self::EqualRate => {
                both!("at a rate that was chosen to compare latency", "该速率仅用于对比时延")
            }
            Self::Backlog => both!("before its backlog only", "但仅为堆积之前的数据"),
            Self::Failover => both!("before its fault only", "但仅为故障之前的数据"),
        }
    }
}

impl Sentence for Attempt {
    fn sentence(&self) -> Text {
        match self {
            Self::Broken(guards) => joined(guards).unwrap_or_default(),
            Self::Invalid(reasons) => joined(reasons).unwrap_or_default(),
            Self::Messages => both!("not every message arrived", "消息不完整"),
        }
    }
}
