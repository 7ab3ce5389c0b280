//! R10: whether a system lasts.

use super::{Sentence, serialized_as_sentence};
use crate::judge::soak::{Drift, Drifting, Fault, FaultKind, Soak, Unread};
use crate::judge::{Text, both, numbers};

serialized_as_sentence!(Fault, Drift, Unread);

impl Sentence for Fault {
    fn sentence(&self) -> Text {
        let count = numbers::count(self.count as f64);
        match self.kind {
            FaultKind::Missing => both!("{count} messages are missing", "{count} 条消息丢失"),
            FaultKind::Doubled => both!("{count} messages came twice", "{count} 条消息重复"),
            FaultKind::Changed => both!("{count} messages came changed", "{count} 条消息内容改变"),
            FaultKind::OutOfOrder => both!("{count} messages came out of order", "{count} 条消息乱序"),
        }
    }
}

impl Sentence for Unread {
    fn sentence(&self) -> Text {
        let count = numbers::count(self.count as f64);
        match self.seconds {
            None => both!(
                "{count} messages were not read yet when the run was ended early: whether any is lost is not known",
                "运行提前结束时仍有 {count} 条消息未读完：无法判断是否丢失"
            ),
            Some(seconds) => both!(
                "{count} messages were not read yet {seconds} s after the load ended: whether any is lost is not known",
                "负载结束 {seconds} 秒后仍有 {count} 条消息未读完：无法判断是否丢失"
            ),
        }
    }
}

impl Sentence for Drift {
    fn sentence(&self) -> Text {
        let (en, zh) = match self.figure {
            Drifting::Rate => ("the rate", "TPS"),
            Drifting::SendP99 => ("send p99", "发送 p99"),
            Drifting::Memory => ("anonymous memory", "匿名内存"),
            Drifting::Files => ("open files", "打开的文件数"),
            Drifting::Threads => ("threads", "线程数"),
        };
        let value = numbers::change(self.per_hour);
        both!("{en} drifts by {value} per hour", "{zh} 每小时漂移 {value}")
    }
}

/// The parts of an interrupted soak: the first one ends where the list of the others begins.
fn together(parts: &[Text]) -> Text {
    let [first, rest @ ..] = parts else { return Text::default() };
    let Text { en, zh } = Text::joined(rest).unwrap_or_default();
    let (begin, begin_zh) = (&first.en, &first.zh);
    both!("{begin} {en}", "{begin_zh}{zh}")
}

impl Sentence for Soak {
    fn sentence(&self) -> Text {
        let sentences = self.broken.iter().map(Sentence::sentence);
        let sentences = sentences.chain(self.undecided.iter().map(Sentence::sentence));
        let mut parts: Vec<Text> = sentences.chain(self.drifts.iter().map(Sentence::sentence)).collect();
        if parts.is_empty() || (self.checked && self.broken.is_empty() && self.undecided.is_none()) {
            let whole = match self.checked {
                true => both!("nothing lost, doubled, changed or out of order", "无丢失、重复、改变、乱序"),
                false => both!("nothing drifts", "无漂移"),
            };
            parts.insert(0, whole);
        }
        let done = numbers::span(self.hours * 3_600.0);
        let planned = self.planned_hours.map(|hours| numbers::span(hours * 3_600.0));
        let (planned, planned_zh) = planned
            .map_or_else(Default::default, |Text { en, zh }| (format!(" of {en}"), format!("（计划 {zh}）")));
        let Text { en, zh } = done;
        if self.interrupted {
            parts.insert(
                0,
                both!("interrupted after {en}{planned}; until then", "运行 {zh}{planned_zh}后中断；此前"),
            );
            return together(&parts);
        }
        parts.push(both!("watched for {en}{planned}", "观察 {zh}{planned_zh}"));
        Text::joined(&parts).unwrap_or_default()
    }
}
