//! R2: what guards read.

use super::{Sentence, serialized};
use crate::judge::conclusion::Case;
use crate::judge::guards::{Guard, Missing, Path, Reading, Watch};
use crate::judge::{Text, both, numbers};

impl Sentence for Guard {
    fn sentence(&self) -> Text {
        match &self.reading {
            Reading::Measured { value, limit } => measured(self.watch, *value, *limit),
            Reading::Processors { busy, others, limit } => {
                let [value, limit] = [*busy, *limit].map(numbers::percent);
                match others.map(numbers::percent) {
                    Some(rest) => both!(
                        "CPU busy {value} (other programs {rest}), limit {limit}",
                        "CPU 使用率 {value}（其他程序 {rest}），上限 {limit}"
                    ),
                    None => both!("CPU busy {value}, limit {limit}", "CPU 使用率 {value}，上限 {limit}"),
                }
            }
            Reading::Network { path, bytes, limit } => network((self.watch, *path), *bytes, *limit),
            Reading::AskedInVain { limit_us } => {
                let ((en, zh), limit) = (latency(self.watch), numbers::micros(*limit_us));
                both!(
                    "{en} was asked to stay below {limit} and was not measured",
                    "要求 {zh} 低于 {limit}，但未测量"
                )
            }
            Reading::NotMeasured(missing) => missing.sentence(),
        }
    }
}

/// A figure and its limit, in the unit of what is watched.
fn measured(watch: Watch, value: f64, limit: f64) -> Text {
    let [count, allowed] = [value, limit].map(|number| format!("{number:.0}"));
    let [short, most] = [value, limit].map(numbers::short);
    let [share, least] = [value, limit].map(numbers::percent);
    match watch {
        Watch::Machine | Watch::CpuBusy | Watch::NetworkIn | Watch::NetworkOut => Text::default(),
        Watch::Load => both!("load {short}, limit {most}", "load {short}，上限 {most}"),
        Watch::Memory => {
            let [used, most] = [1.0 - value, 1.0 - limit].map(numbers::percent);
            both!("memory in use {used}, limit {most}", "内存占用 {used}，上限 {most}")
        }
        Watch::Swap => both!("{count} pages swapped, limit {allowed}", "换页 {count} 页，上限 {allowed}"),
        Watch::DiskUtil => both!("disk busy {share}, limit {least}", "磁盘 util {share}，上限 {least}"),
        Watch::DiskWait => {
            both!("write await p99 {short} ms, limit {most} ms", "写 await p99 {short} ms，上限 {most} ms")
        }
        Watch::IoPressure => both!(
            "everything waits for the disk {short} % of the time, limit {most} %",
            "PSI io.full {short} %，上限 {most} %"
        ),
        Watch::Errors => {
            both!("{count} requests failed, limit {allowed}", "失败请求 {count}，上限 {allowed}")
        }
        Watch::Refusals => {
            both!("{count} requests refused, limit {allowed}", "被拒请求 {count}，上限 {allowed}")
        }
        Watch::Rate => {
            let [missing, most] = [(1.0 - value).max(0.0), 1.0 - limit].map(numbers::percent);
            both!(
                "{missing} of the intended rate is missing, limit {most}",
                "目标速率缺少 {missing}，上限 {most}"
            )
        }
        Watch::Drift => {
            both!("consumers fell behind by {share}, limit {least}", "消费落后 {share}，上限 {least}")
        }
        Watch::SendP99 | Watch::EndToEndP99 => {
            let ((en, zh), [value, limit]) = (latency(watch), [value, limit].map(numbers::micros));
            both!("{en} {value}, limit {limit}", "{zh} {value}，上限 {limit}")
        }
        Watch::FullCollections => {
            both!("{count} full collections, limit {allowed}", "Full GC {count} 次，上限 {allowed}")
        }
        Watch::CollectorPause => both!(
            "longest collector pause {short} ms in 99 of 100 seconds that had one, limit {most} ms",
            "有停顿的秒中，99 % 的最长 GC 停顿不超过 {short} ms，上限 {most} ms"
        ),
    }
}

fn latency(watch: Watch) -> (&'static str, &'static str) {
    if watch == Watch::EndToEndP99 { ("end-to-end p99", "端到端 p99") } else { ("send p99", "发送 p99") }
}

fn network((watch, path): (Watch, Path), bytes: f64, limit: Option<f64>) -> Text {
    let (en, zh) = if watch == Watch::NetworkIn { ("in", "流入") } else { ("out", "流出") };
    let (path, path_zh) = match path {
        Path::Cards => ("network", "网络"),
        Path::Loopback => ("loopback", "本机回环"),
    };
    let value = numbers::bytes(bytes);
    match limit.map(numbers::bytes) {
        Some(limit) => {
            both!("{path} {en} {value}/s, limit {limit}/s", "{path_zh}{zh} {value}/s，上限 {limit}/s")
        }
        None => {
            both!("{path} {en} {value}/s: its speed is not known", "{path_zh}{zh} {value}/s：速率上限未知")
        }
    }
}

impl Sentence for Missing {
    fn sentence(&self) -> Text {
        match self {
            Self::Agent => both!(
                "its machine: run vostok lab agent there and name it with --agents",
                "所在主机：请在其上运行 vostok lab agent 并用 --agents 指定"
            ),
            Self::Disk { filesystem } if filesystem.is_empty() => {
                both!("disk: which one the store is on is not known", "磁盘：不知道存储目录在哪块磁盘上")
            }
            Self::Disk { filesystem } => both!(
                "disk: no block device is under the store ({filesystem})",
                "磁盘：存储目录下没有块设备（{filesystem}）"
            ),
            Self::IdleDisk => both!(
                "write await: no self-test says what the idle disk takes",
                "写 await：没有自测，不知道空闲磁盘的时延"
            ),
            Self::Pressure => both!(
                "how long everything waits for the disk: the kernel does not tell (/proc/pressure)",
                "PSI io.full：内核未提供 /proc/pressure"
            ),
            Self::Delayed => {
                both!("whether consumers keep up: messages are delayed", "消费是否跟上：消息为延时消息")
            }
            Self::Consumers => {
                both!("whether consumers keep up: nothing was consumed", "消费是否跟上：没有消费")
            }
            Self::Collector => both!(
                "collector pauses: none was seen; without a unified log (JDK 8, another user's process) none can be",
                "GC 停顿：未见；没有统一日志（JDK 8、其他用户的进程）时无法观察"
            ),
        }
    }
}

serialized!(Guard, |guard| {
    "watch": guard.watch,
    "node": guard.node,
    "used": guard.used,
    "reading": guard.sentence(),
});

/// Sources that the guards without figures of a cell would have needed, with the machine. Guards that miss the same
/// source give one text.
pub fn unseen(case: &Case<'_>) -> Vec<Text> {
    not_looked_at(case.not_measured())
}

/// Sentences about the quantities that guards without figures did not look at, each sentence once.
pub(super) fn not_looked_at<'a>(guards: impl Iterator<Item = &'a Guard>) -> Vec<Text> {
    let mut parts: Vec<Text> = Vec::new();
    for guard in guards {
        let node = if guard.node.is_empty() { String::new() } else { format!(" [{}]", guard.node) };
        let Text { en, zh } = guard.sentence();
        let part = both!("{en}{node}", "{zh}{node}");
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}
