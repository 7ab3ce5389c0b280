//! R0: why figures may not be shown.

use super::{Sentence, phase_name, serialized_as_sentence};
use crate::judge::validity::{GENERATOR_CPU_MAX, LAG_US_MAX, LITTLE, REPEATS_MIN, Reason, SLOPE_MAX};
use crate::judge::versus::Side;
use crate::judge::{Text, both, numbers};

serialized_as_sentence!(Reason);

impl Sentence for Reason {
    fn sentence(&self) -> Text {
        match self {
            Self::Probe => both!(
                "a probe: one repeat tells a search where to go on, not what the rate is",
                "搜索试探：单次运行仅用于确定搜索方向，不作为结果"
            ),
            Self::TooFew { count, is_backlog: true } => both!(
                "{count} repeats: the phases of the backlog are told, its ordinary load needs {REPEATS_MIN}",
                "仅运行 {count} 次：可看堆积各阶段，平时负载的结论至少需要 {REPEATS_MIN} 次"
            ),
            Self::TooFew { count, is_backlog: false } => both!(
                "{count} repeats, at least {REPEATS_MIN} are needed",
                "只有 {count} 次重复，至少需要 {REPEATS_MIN} 次"
            ),
            Self::EndedEarly => both!("it ended before anything counted", "在计入结果之前已结束"),
            Self::Silence { answer: None } => both!("no message was acknowledged", "没有任何消息被确认"),
            Self::Silence { answer: Some(why) } => {
                both!("no message was acknowledged: {why}", "没有任何消息被确认：{why}")
            }
            Self::SilentRepeats(count) => both!(
                "repeats without an acknowledged message: {count}",
                "有 {count} 次重复没有任何消息被确认"
            ),
            Self::InPhase(phase, reason) => {
                let (name, Text { en, zh }) = (phase_name(phase), reason.sentence());
                let (phase, phase_zh) = (name.en, name.zh);
                both!("{phase}: {en}", "{phase_zh}：{zh}")
            }
            Self::InRun(side, reason) => {
                let Text { en, zh } = reason.sentence();
                match side {
                    Side::First => both!("invalid in the first: {en}", "前者无效：{zh}"),
                    Side::Second => both!("invalid in the second: {en}", "后者无效：{zh}"),
                }
            }
            Self::Read(text) => text.clone(),
            Self::BrokerRestarted { .. }
            | Self::BrokerAway { .. }
            | Self::MissingSeconds(_)
            | Self::Unobserved { .. }
            | Self::OtherPrograms { .. } => machines(self),
            Self::Little(_) | Self::Unsteady(_) | Self::GeneratorBusy(_) | Self::GeneratorLate(_) => {
                load(self)
            }
        }
    }
}

/// The reasons that lie with machines and brokers.
fn machines(reason: &Reason) -> Text {
    match reason {
        Reason::BrokerRestarted { broker, repeat } => both!(
            "the broker {broker} was started again during repeat {repeat}",
            "第 {repeat} 次重复期间 Broker {broker} 重启"
        ),
        Reason::BrokerAway { broker, repeat } => both!(
            "the broker {broker} did not answer during repeat {repeat}",
            "第 {repeat} 次重复期间 Broker {broker} 无应答"
        ),
        Reason::Unobserved { machine, seconds } => both!(
            "{seconds} seconds of the machine {machine} were not observed",
            "主机 {machine} 有 {seconds} 秒未被观测"
        ),
        Reason::OtherPrograms { machine, share, limit, repeat } => {
            let (value, most) = (numbers::percent(*share), numbers::percent(*limit));
            match repeat {
                Some(repeat) => both!(
                    "other programs used {value} of the processors of {machine} in repeat {repeat}, limit {most}",
                    "第 {repeat} 次重复中其他程序占用主机 {machine} CPU 的 {value}，上限 {most}"
                ),
                None => both!(
                    "other programs use {value} of the processors of {machine}, limit {most}",
                    "其他程序占用主机 {machine} CPU 的 {value}，上限 {most}"
                ),
            }
        }
        Reason::MissingSeconds(missing) => {
            both!("{missing} seconds of the series are missing", "序列缺少 {missing} 秒")
        }
        _ => Text::default(),
    }
}

/// The reasons that lie with the load and its generator.
fn load(reason: &Reason) -> Text {
    match reason {
        Reason::Little(share) => {
            let (value, least, most) = (numbers::short(*share), LITTLE.start(), LITTLE.end());
            both!(
                "rate × latency is {value} times the requests in flight, not {least} to {most}: the two do not belong \
                 together, or the generator lost the time",
                "TPS × 平均 RT 是在途请求数的 {value} 倍，不在 {least} 到 {most} 之间：两者不是同一时刻的数据，或时间耗在压测端"
            )
        }
        Reason::Unsteady(per_minute) => {
            let (value, most) = (numbers::change(*per_minute), numbers::percent(SLOPE_MAX));
            both!(
                "not steady: the rate changes by {value} per minute, limit {most}",
                "未达稳态：TPS 每分钟变化 {value}，上限 {most}"
            )
        }
        Reason::GeneratorBusy(share) => {
            let (value, most) = (numbers::percent(*share), numbers::percent(GENERATOR_CPU_MAX));
            both!(
                "the load generator used {value} of its processors, limit {most}: it was itself the limit",
                "压测端 CPU 使用 {value}，上限 {most}：瓶颈在压测端"
            )
        }
        Reason::GeneratorLate(lag_us) => {
            let (value, most) = (numbers::micros(*lag_us), numbers::micros(LAG_US_MAX));
            both!(
                "the load generator sent up to {value} late (p99), limit {most}",
                "压测端发送滞后 p99 {value}，上限 {most}"
            )
        }
        _ => Text::default(),
    }
}
