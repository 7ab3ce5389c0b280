//! R13: the arithmetic of a plan.

use super::{Sentence, guards::not_looked_at, serialized_as_sentence};
use crate::judge::numbers::{self, bytes, count, percent};
use crate::judge::planned::{FILLED, NETWORK, PLANNED, Reservation, Source, Step};
use crate::judge::{Text, both};

impl Sentence for Source {
    fn sentence(&self) -> Text {
        match self {
            Self::Named { tps, size } => {
                let (rate, size) = (numbers::rate(*tps), count(*size));
                both!(
                    "safe rate of one master: {rate} at {size} bytes, as named by --safe-tps (not measured here)",
                    "单主安全 TPS：{rate}（{size} 字节），由 --safe-tps 指定（非实测）"
                )
            }
            Self::Measured { run, cell, tps, measured, planned, size } => {
                let [rate, planned] = [*tps, *planned].map(numbers::rate);
                let [from, size] = [*measured, *size].map(count);
                both!(
                    "safe rate of one master: {rate} at {from} bytes (run {run}, cell {cell}, lower end of CI95); at {size} bytes {planned}",
                    "单主安全 TPS：{from} 字节时 {rate}（运行 {run}，用例 {cell}，CI95 下限）；{size} 字节时 {planned}"
                )
            }
        }
    }
}

impl Sentence for Reservation {
    fn sentence(&self) -> Text {
        match self {
            Self::HeldBriefly { seconds, needed } => {
                let [seconds, needed] = [*seconds, *needed].map(count);
                both!(
                    "careful: that rate was held for {seconds} s only; confirm {needed} s with safe-tps",
                    "注意：该 TPS 仅持续 {seconds} 秒，请用 safe-tps 确认 {needed} 秒"
                )
            }
            Self::BrokersUnseen => both!(
                "careful: CPU, memory, disk and network of the brokers were not looked at; run vostok lab agent on their \
                 machines, name it with --agents and measure again",
                "注意：未观察 Broker 主机的 CPU、内存、磁盘与网络；请在其上运行 vostok lab agent，用 --agents 指定后重新测量"
            ),
            Self::NotLookedAt(guards) => {
                let Text { en, zh } = Text::joined(&not_looked_at(guards.iter())).unwrap_or_default();
                both!("careful: not looked at while it was measured: {en}", "注意：测量时未观察：{zh}")
            }
            Self::FewerReaders { measured: (groups, slaves), wanted: (wanted, copies) } => both!(
                "careful: that rate was measured with {groups} groups and {slaves} slaves, wanted are {wanted} and {copies}: what \
                 they read costs processor and disk, so measure again with them (--groups {wanted})",
                "注意：该 TPS 在 {groups} 个消费组、{slaves} 个从节点下测得，目标为 {wanted} 与 {copies}：其读取会占用 CPU 与磁盘，\
                 请按目标重新测量（--groups {wanted}）"
            ),
        }
    }
}

impl Sentence for Step {
    fn sentence(&self) -> Text {
        match *self {
            Self::SafeRate(ref source) => source.sentence(),
            Self::Careful(ref reservation) => reservation.sentence(),
            Self::ByRate { peak, growth, safe, masters } => {
                let [peak, safe, masters] = [peak, safe, masters].map(count);
                let [growth, planned] = [growth, PLANNED].map(percent);
                both!(
                    "by rate: ⌈{peak} × (1 + {growth}) / ({safe} × {planned})⌉ = {masters} masters",
                    "按 TPS：⌈{peak} ×（1 + {growth}）÷（{safe} × {planned}）⌉ = {masters} 主"
                )
            }
            Self::ByNetwork { peak, each, slaves, groups, nic, most, masters, sends } => {
                let copies = slaves + groups;
                let [peak, each, nic, masters] = [peak, each, nic, masters].map(count);
                let ([sends, most], share) = ([sends, most].map(bytes), percent(NETWORK));
                both!(
                    "by network: {peak} msg/s × {each} bytes × ({slaves} slaves + {groups} groups = {copies}) / ({nic} Mb/s × {share} = {most}/s) \
                     = {masters} masters; each sends {sends}/s",
                    "按网络：{peak} msg/s × {each} 字节 ×（{slaves} 从 + {groups} 组 = {copies}）÷（{nic} Mb/s × {share} = {most}/s）= {masters} 主；每主发送 {sends}/s"
                )
            }
            Self::Masters { carrying, survive, masters, slaves } => {
                let carrying = count(carrying);
                both!(
                    "masters = {carrying} + {survive} for {survive} failures survived = {masters}; {slaves} slaves each: {masters} × (1 + {slaves}) brokers",
                    "主节点 = {carrying} + {survive}（容忍 {survive} 个故障）= {masters}；每主 {slaves} 个从：共 {masters} ×（1 + {slaves}）个 broker"
                )
            }
            Self::Disk { rate, stored, hours, masters, each, total } => {
                let [rate, stored, hours, masters] = [rate, stored, hours, masters].map(count);
                let ([each, all], share) = ([each, total].map(bytes), percent(FILLED));
                both!(
                    "disk of each broker: {rate} msg/s × {stored} bytes × {hours} h × 3,600 / {masters} masters / {share} = {each}; all brokers {all}",
                    "每个 broker 磁盘：{rate} msg/s × {stored} 字节 × {hours} h × 3,600 ÷ {masters} 主 ÷ {share} = {each}；全部 {all}"
                )
            }
            Self::NameServers { survive, name_servers, controllers } => both!(
                "name servers = {survive} + 1, at least 2 = {name_servers}; controllers = {controllers}, only for automatic failover; the files written here leave that to people",
                "NameServer = {survive} + 1，至少 2 = {name_servers}；Controller = {controllers}，仅自动切换需要；生成的配置文件不含自动切换"
            ),
        }
    }
}

serialized_as_sentence!(Step);
