//! R5: whether a rate fluctuates, and why.

use super::{Sentence, serialized};
use crate::archive::{BROKER_AWAY, BROKER_RESTARTED};
use crate::judge::stability::Stability;
use crate::judge::{Text, both, numbers};

impl Sentence for Stability {
    fn sentence(&self) -> Text {
        let spread = numbers::percent(self.variation);
        match self.causes.first() {
            _ if !self.fluctuates => both!("stability.steady-rate-varies-spread", spread),
            None => both!("stability.rate-fluctuates-spread-nothing", spread),
            Some(cause) => {
                let (kind, zh) = (&cause.kind, name_zh(&cause.kind));
                let (times, share) = (numbers::count(cause.times as f64), numbers::percent(cause.in_low));
                let (why, why_zh) = self.refused_for().map_or_else(Default::default, |why| {
                    let (en, zh) = (&why.kind, name_zh(&why.kind));
                    (format!(", the broker's cause: {en}"), format!("，Broker 给出的原因：{zh}"))
                });
                both!("stability.rate-fluctuates-spread-because", spread, kind, times, share, why, zh, why_zh)
            }
        }
    }
}

serialized!(Stability, |stability| {
    "variation": stability.variation,
    "lowest": stability.lowest,
    "fluctuates": stability.fluctuates,
    "causes": stability.causes,
    "says": stability.sentence(),
});

/// The name of a cause in Chinese; a kind without a translation is returned unchanged.
pub fn name_zh(kind: &str) -> &str {
    match kind {
        "flow-control" => "流控",
        "no-answer" => "请求无应答",
        "refused-by-broker" | "putMessageFailedTimes" => "Broker 写入失败",
        "refusedBehind" => "索引等待磁盘",
        "refusedDiskFull" => "磁盘已满",
        "refusedFenced" => "写盘或刷盘失败",
        "refusedColdReads" => "冷读过多",
        "refusedChanges" => "主题或消费组变更过多",
        "refusedHeldPulls" => "等待消息的拉取过多",
        "refusedOther" => "其他拒绝",
        "flush-stall" => "刷盘滞后",
        "slow-append" => "写入停顿",
        "replica-lag" => "副本滞后",
        "roll" => "文件滚动",
        "clean" => "文件清理",
        "gc" => "GC 停顿",
        "full-gc" => "Full GC",
        "steal" => "虚拟化抢占（steal）",
        "cpu-quota" => "CPU 配额限流",
        "other-programs" => "其他程序占用 CPU",
        "disk" => "磁盘繁忙",
        "swap" => "换页",
        "retransmits" => "网络重传",
        BROKER_AWAY => "Broker 无应答",
        BROKER_RESTARTED => "Broker 重启",
        other => other,
    }
}
