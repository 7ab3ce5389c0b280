//! R3: which resource limits the rate.

use super::{Sentence, serialized_as_sentence};
use crate::judge::bottleneck::{
    Bottleneck, Cpu, Disk, Evidence, Network, PRESSURE_FULL, RETRANSMITS_FULL, Reading, Resource,
    THROTTLED_FULL,
};
use crate::judge::numbers::{bytes, count, micros, percent, short};
use crate::judge::validity::{GENERATOR_CPU_MAX, LAG_US_MAX};
use crate::judge::{Text, both};

impl Resource {
    /// The name of the resource as reports print it.
    pub fn name(self) -> Text {
        Text::of(match self {
            Self::Cpu => ("CPU", "CPU"),
            Self::Disk => ("disk", "磁盘"),
            Self::Network => ("network", "网络"),
            Self::Replica => ("replica", "副本"),
            Self::Client => ("client", "客户端"),
            Self::Server => ("server internals", "服务端内部"),
            Self::Unknown => ("not known", "未知"),
        })
    }
}

impl Sentence for Bottleneck {
    fn sentence(&self) -> Text {
        let says = self.evidence.sentence();
        if self.evidence.names_resource() {
            return says;
        }
        let (name, Text { en, zh }) = (self.resource.name(), says);
        let (of, of_zh) = (name.en, name.zh);
        both!("{of}: {en}", "{of_zh}：{zh}")
    }
}

impl Sentence for Evidence {
    fn sentence(&self) -> Text {
        match *self {
            Self::Used(ref reading) => reading.sentence(),
            Self::ShapedNetwork { bytes, variation } => {
                let (bytes, spread) = (self::bytes(bytes), percent(variation));
                both!(
                    "more load gives no more, nothing is busy, and {bytes}/s of bodies flow almost evenly (variation {spread}): \
                     a network shaped below the speed of its cards",
                    "继续加压不再增长，各项资源均不忙，消息体流量稳定在 {bytes}/s（波动 {spread}）：网络被限速"
                )
            }
            Self::NothingBusy { variation } => {
                let spread = percent(variation);
                both!(
                    "more load gives no more and nothing is busy; the rate varies by {spread}: a lock, a partition or a queue \
                     in the server",
                    "继续加压不再增长且各项资源均不忙，TPS 波动 {spread}：服务端内部的锁、分区或队列"
                )
            }
            Self::RoomLeft { round_trip_us, in_flight, observed } => {
                let (time, threads) = (micros(round_trip_us), count(in_flight));
                let (unseen, unseen_zh) = if observed {
                    ("", "")
                } else {
                    ("; no machine of a broker was observed", "；没有观察任何 Broker 主机")
                };
                both!(
                    "client- or RTT-limited: RT {time} × {threads} requests in flight, and nothing above 60 %; repeat with more in \
                     flight or an open loop{unseen}",
                    "受客户端或往返时延限制：RT {time} × 在途 {threads}，各项资源均低于 60 %；请增加并发或改用开环{unseen_zh}"
                )
            }
            Self::Unobserved => both!(
                "more load gives no more, and no machine of a broker was observed: run vostok lab agent there and name it with \
                 --agents",
                "继续加压不再增长，但没有观察任何 Broker 主机：请在其上运行 vostok lab agent 并用 --agents 指定"
            ),
        }
    }
}

impl Sentence for Reading {
    fn sentence(&self) -> Text {
        match self {
            Self::Cpu(reading) => reading.sentence(),
            Self::Disk(reading) => reading.sentence(),
            Self::Network(reading) => reading.sentence(),
            Self::FallsBehind { growth, sent } => {
                let [value, of] = [*growth, *sent].map(bytes);
                both!("replica: falls behind by {value}/s of {of}/s", "副本：每秒落后 {value}，写入 {of}/s")
            }
            Self::Generator(share) => {
                let [value, limit] = [*share, GENERATOR_CPU_MAX].map(percent);
                both!(
                    "client: the generator uses {value} of its processors, limit {limit}",
                    "客户端：压测端 CPU {value}，上限 {limit}"
                )
            }
            Self::SendsLate(lag) => {
                let [value, limit] = [*lag, LAG_US_MAX].map(micros);
                both!(
                    "client: sends up to {value} late, limit {limit}",
                    "客户端：发送滞后 {value}，上限 {limit}"
                )
            }
        }
    }
}

impl Sentence for Cpu {
    fn sentence(&self) -> Text {
        match *self {
            Self::Busy { busy, cores } => {
                let (value, of) = (percent(busy), short(cores));
                both!("CPU: {value} of {of} cores busy", "CPU：{of} 核使用 {value}")
            }
            Self::Waiting { used, waiting, others, cores } => {
                let [used, wait, rest, of] = [used, waiting, others, cores].map(short);
                both!(
                    "CPU: the broker used {used} cores and waited for {wait} more, of {of}; other programs used {rest}",
                    "CPU：Broker 使用 {used} 核，另有 {wait} 核在等待（可用 {of} 核）；其他程序使用 {rest} 核"
                )
            }
            Self::Quota(stopped) => {
                let [value, limit] = [stopped, THROTTLED_FULL].map(percent);
                both!(
                    "CPU: a quota stopped the processes {value} of the time, limit {limit}",
                    "CPU：配额限流占 {value} 的时间，上限 {limit}"
                )
            }
            Self::BusiestCore(busy) => {
                let value = percent(busy);
                both!("CPU: the busiest core is {value} busy", "CPU：最忙的核 {value}")
            }
        }
    }
}

impl Sentence for Disk {
    fn sentence(&self) -> Text {
        match *self {
            Self::Busy(busy) => {
                let value = percent(busy);
                both!("disk: busy {value} of the time", "磁盘：util {value}")
            }
            Self::Pressure { percent, iowait, written } => {
                let [value, limit] = [percent, PRESSURE_FULL].map(short);
                let (wait, written) = (self::percent(iowait), bytes(written));
                both!(
                    "disk: everything waits for it {value} % of the time, limit {limit} % (iowait {wait}), while {written}/s are \
                     written",
                    "磁盘：全部任务等待 I/O 占 {value} %，上限 {limit} %（iowait {wait}），写入 {written}/s"
                )
            }
            Self::Awaited(share) => {
                let value = percent(share);
                both!(
                    "disk: a thread of the broker waited for it in {value} of the seconds",
                    "磁盘：{value} 的采样中 Broker 有线程在等待"
                )
            }
            Self::Written { bytes, most } => {
                let [value, limit] = [bytes, most].map(self::bytes);
                both!("disk: {value}/s written of {limit}/s", "磁盘：写入 {value}/s，能力 {limit}/s")
            }
            Self::Requests { done, most } => {
                let [value, limit] = [done, most].map(count);
                both!("disk: {value} IOPS of {limit}", "磁盘：IOPS {value}，能力 {limit}")
            }
            Self::Flushes { writes, most } => {
                let [value, limit] = [writes, most].map(count);
                both!(
                    "disk: {value} writes/s of {limit} flushes/s",
                    "磁盘：写 {value} 次/s，flush 能力 {limit} 次/s"
                )
            }
        }
    }
}

impl Sentence for Network {
    fn sentence(&self) -> Text {
        match *self {
            Self::In { bytes, most } => {
                let [value, limit] = [bytes, most].map(self::bytes);
                both!("network: {value}/s in of {limit}/s", "网络：流入 {value}/s，能力 {limit}/s")
            }
            Self::Out { bytes, most } => {
                let [value, limit] = [bytes, most].map(self::bytes);
                both!("network: {value}/s out of {limit}/s", "网络：流出 {value}/s，能力 {limit}/s")
            }
            Self::Loopback { bytes, most } => {
                let [value, limit] = [bytes, most].map(self::bytes);
                both!(
                    "network: {value}/s over loopback of {limit}/s",
                    "网络：本机回环 {value}/s，能力 {limit}/s"
                )
            }
            Self::SentAgain(share) => {
                let [value, limit] = [share, RETRANSMITS_FULL].map(percent);
                both!(
                    "network: {value} of the segments were sent again, limit {limit}",
                    "网络：重传 {value}，上限 {limit}"
                )
            }
            Self::OnTheWay(share) => {
                let value = percent(share);
                both!(
                    "network: {value} of the bytes in flight were not yet confirmed by the other machine",
                    "网络：在途字节的 {value} 尚未被对端确认"
                )
            }
        }
    }
}

serialized_as_sentence!(Reading, Evidence);
