//! R13: how many masters, slaves, name servers and controllers are needed, how much disk, and is the network fast
//! enough?
//!
//! - A master is planned with 70 % of its highest safe rate, so that it can drain a backlog beside the live load.
//! - There is one more master for every failure that must be survived, because the others carry its share. As many
//!   slaves per master keep its messages, and a send is acknowledged only when all of them have it.
//! - Each master sends every message to every slave and every group, and answers: at most 80 % of its network.
//! - A disk is filled to three quarters. The rest is for files that wait for deletion, the index and recovery.

use super::target::Target;
use crate::judge::balance::properties;
use crate::judge::conclusion::{Case, Conclusion, SUSTAINED_SECONDS};
use crate::judge::figures::{Figures, broker_host_names};
use crate::judge::{Text, both, numbers};
use serde::{Deserialize, Serialize};

/// Share of the safe rate with which a master is planned.
const PLANNED: f64 = 0.7;

/// Share of the network that a plan may use.
const NETWORK: f64 = 0.8;

/// Share of a disk that a plan fills.
const FILLED: f64 = 0.75;

/// Bytes stored per message beside its body (record, properties, queue entry and index), when no run gives a figure.
const STORED_BESIDE: f64 = 180.0;

/// Bytes on the wire per message beside its body.
const WIRE_BESIDE: f64 = 250.0;

/// Share by which a planned message size may exceed the measured size and count as the same. Beyond it the rate is
/// scaled by the bytes, because bytes are the limit then.
const SAME_SIZE: f64 = 0.05;

/// The figures of one master on which a plan is based.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Basis {
    /// Safe messages per second of one master, at the planned message size.
    pub safe_tps: f64,
    /// Bytes stored per message beside its body.
    pub stored_beside: f64,
    /// Number of consumer groups, and of slaves per master, in the run that measured the rate; `None` for a rate that
    /// the user gave.
    pub beside: Option<(u32, u32)>,
    /// Source of the rate.
    pub source: Text,
    /// Reservations about the rate.
    #[serde(default)]
    pub careful: Vec<Text>,
}

/// A topology with the arithmetic behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Number of masters, spares included.
    pub masters: u32,
    /// Number of slaves per master.
    pub slaves: u32,
    /// Number of name servers.
    pub name_servers: u32,
    /// Number of controllers for automatic failover of slaves; the generated files work without.
    pub controllers: u32,
    /// Bytes of disk per broker.
    pub disk_bytes: f64,
    /// Bytes per second that each master sends after as many failures as must be survived.
    pub send_bytes: f64,
    /// Every step of the arithmetic, for people to check.
    pub steps: Vec<Text>,
}

impl Basis {
    /// The basis for a rate that the user gives.
    #[must_use]
    pub fn named(safe_tps: f64, size: f64) -> Self {
        let (rate, size) = (numbers::rate(safe_tps), numbers::count(size));
        let source = both!(
            "safe rate of one master: {rate} at {size} bytes, as named by --safe-tps (not measured here)",
            "单主安全 TPS：{rate}（{size} 字节），由 --safe-tps 指定（非实测）"
        );
        Self { safe_tps, stored_beside: STORED_BESIDE, beside: None, source, careful: Vec::new() }
    }

    /// The basis by the best safe cell of a run; `None` without one. Messages larger than in the run are planned by
    /// their bytes.
    #[must_use]
    pub fn measured(run: &Conclusion<'_>, size: f64) -> Option<Self> {
        let masters =
            run.record.file.target.brokers.iter().filter(|broker| broker.id == 0).count().max(1) as f64;
        let (case, figures) = best(run, size)?;
        let measured = case.factors().size as f64;
        // The lower end of the interval is used, because the plan must hold.
        let tps = figures.tps.low / masters;
        let scaled = if size > measured * (1.0 + SAME_SIZE) { tps * measured / size } else { tps };
        let disk = case.balance.iter().find(|term| term.name.en == "disk written").map(|term| term.beside);
        let stored_beside = disk
            .filter(|beside| (20.0..1_000.0 + properties(case.factors())).contains(beside))
            .unwrap_or(STORED_BESIDE);
        let (rate, planned, from, size, cell) = (
            numbers::rate(tps),
            numbers::rate(scaled),
            numbers::count(measured),
            numbers::count(size),
            &case.judged.cell.cell.name,
        );
        let id = &run.record.file.id;
        let source = both!(
            "safe rate of one master: {rate} at {from} bytes (run {id}, cell {cell}, lower end of CI95); at {size} bytes {planned}",
            "单主安全 TPS：{from} 字节时 {rate}（运行 {id}，用例 {cell}，CI95 下限）；{size} 字节时 {planned}"
        );
        let slaves = run.record.file.target.brokers.iter().filter(|broker| broker.id > 0).count();
        let beside = Some((case.factors().groups, (slaves as f64 / masters) as u32));
        Some(Self { safe_tps: scaled, stored_beside, beside, source, careful: careful(run, case) })
    }
}

/// The safe cell for a plan: the one of the nearest size, then one that was held long enough, then the highest rate.
fn best<'a>(run: &'a Conclusion<'_>, size: f64) -> Option<(&'a Case<'a>, &'a Figures)> {
    let safe = run.cells.iter().filter(|case| case.is_safe());
    let safe = safe.filter_map(|case| Some((case, case.judged.figures()?)));
    let is_short = |case: &Case<'_>| case.seconds() < SUSTAINED_SECONDS;
    let away = |case: &Case<'_>| ((case.factors().size as f64).max(1.0) / size).ln().abs();
    safe.min_by(|(one, of_one), (other, of_other)| {
        let by_time = is_short(one).cmp(&is_short(other));
        away(one).total_cmp(&away(other)).then(by_time).then(of_other.tps.mean.total_cmp(&of_one.tps.mean))
    })
}

/// Reservations about the rate of a safe cell: it was held too briefly, or not every guard was measured.
fn careful(run: &Conclusion<'_>, case: &Case<'_>) -> Vec<Text> {
    let mut steps = Vec::new();
    if case.seconds() < SUSTAINED_SECONDS {
        let (seconds, needed) = (numbers::count(case.seconds()), numbers::count(SUSTAINED_SECONDS));
        steps.push(both!(
            "careful: that rate was held for {seconds} s only; confirm {needed} s with safe-tps",
            "注意：该 TPS 仅持续 {seconds} 秒，请用 safe-tps 确认 {needed} 秒"
        ));
    }
    if broker_host_names(&run.record.file).is_empty() {
        steps.push(both!(
            "careful: CPU, memory, disk and network of the brokers were not looked at; run vostok lab agent on their \
             machines, name it with --agents and measure again",
            "注意：未观察 Broker 主机的 CPU、内存、磁盘与网络；请在其上运行 vostok lab agent，用 --agents 指定后重新测量"
        ));
    }
    steps.extend(Text::joined(&case.unseen()).map(|Text { en, zh }| {
        both!("careful: not looked at while it was measured: {en}", "注意：测量时未观察：{zh}")
    }));
    steps
}

/// Computes the topology.
#[must_use]
pub fn plan(target: &Target, basis: &Basis) -> Plan {
    let mut steps = vec![basis.source.clone()];
    steps.extend(less_than_wanted(target, basis));
    steps.extend(basis.careful.iter().cloned());
    let (peak, size) = (target.peak.0 * (1.0 + target.growth), target.size.0);
    let by_rate = (peak / (basis.safe_tps * PLANNED)).ceil().max(1.0);
    steps.push(by_rate_step(target, basis, by_rate));
    let slaves = target.survive;
    let copies = f64::from(slaves + target.groups);
    let out_of_one = size + WIRE_BESIDE;
    let speed = target.nic * 125_000.0 * NETWORK;
    let by_network = (peak * out_of_one * copies / speed).ceil().max(1.0);
    let carrying = by_rate.max(by_network);
    let send_bytes = peak / carrying * out_of_one * copies;
    steps.push(network_step(target, (peak, out_of_one, copies), (by_network, send_bytes, speed)));
    let masters = carrying as u32 + target.survive;
    let survive = target.survive;
    let carrying_text = numbers::count(carrying);
    steps.push(both!(
        "masters = {carrying_text} + {survive} for {survive} failures survived = {masters}; {slaves} slaves each: {masters} × (1 + {slaves}) brokers",
        "主节点 = {carrying_text} + {survive}（容忍 {survive} 个故障）= {masters}；每主 {slaves} 个从：共 {masters} ×（1 + {slaves}）个 broker"
    ));
    let disk_bytes = disk(target, basis, (carrying, &mut steps));
    let (name_servers, controllers) = ((survive + 1).max(2), if slaves > 0 { 2 * survive + 1 } else { 0 });
    steps.push(both!(
        "name servers = {survive} + 1, at least 2 = {name_servers}; controllers = {controllers}, only for automatic failover; the files written here leave that to people",
        "NameServer = {survive} + 1，至少 2 = {name_servers}；Controller = {controllers}，仅自动切换需要；生成的配置文件不含自动切换"
    ));
    Plan { masters, slaves, name_servers, controllers, disk_bytes, send_bytes, steps }
}

/// The reservation that the measured master had fewer groups or slaves than planned, so its rate is too high for the
/// plan.
fn less_than_wanted(target: &Target, basis: &Basis) -> Option<Text> {
    let (groups, slaves) = basis.beside?;
    let (wanted, copies) = (target.groups, target.survive);
    (groups < wanted || slaves < copies).then(|| {
        both!(
            "careful: that rate was measured with {groups} groups and {slaves} slaves, wanted are {wanted} and {copies}: what \
             they read costs processor and disk, so measure again with them (--groups {wanted})",
            "注意：该 TPS 在 {groups} 个消费组、{slaves} 个从节点下测得，目标为 {wanted} 与 {copies}：其读取会占用 CPU 与磁盘，\
             请按目标重新测量（--groups {wanted}）"
        )
    })
}

fn by_rate_step(target: &Target, basis: &Basis, by_rate: f64) -> Text {
    let (peak, growth) = (numbers::count(target.peak.0), numbers::percent(target.growth));
    let (safe, planned, count) =
        (numbers::count(basis.safe_tps), numbers::percent(PLANNED), numbers::count(by_rate));
    both!(
        "by rate: ⌈{peak} × (1 + {growth}) / ({safe} × {planned})⌉ = {count} masters",
        "按 TPS：⌈{peak} ×（1 + {growth}）÷（{safe} × {planned}）⌉ = {count} 主"
    )
}

fn network_step(
    target: &Target,
    (peak, out_of_one, copies): (f64, f64, f64),
    (by_network, send_bytes, speed): (f64, f64, f64),
) -> Text {
    let (peak, each, copies, groups, slaves) = (
        numbers::count(peak),
        numbers::count(out_of_one),
        numbers::count(copies),
        target.groups,
        target.survive,
    );
    let (count, sends, most, nic) = (
        numbers::count(by_network),
        numbers::bytes(send_bytes),
        numbers::bytes(speed),
        numbers::count(target.nic),
    );
    let share = numbers::percent(NETWORK);
    both!(
        "by network: {peak} msg/s × {each} bytes × ({slaves} slaves + {groups} groups = {copies}) / ({nic} Mb/s × {share} = {most}/s) \
         = {count} masters; each sends {sends}/s",
        "按网络：{peak} msg/s × {each} 字节 ×（{slaves} 从 + {groups} 组 = {copies}）÷（{nic} Mb/s × {share} = {most}/s）= {count} 主；每主发送 {sends}/s"
    )
}

/// Bytes of disk per broker. After failures, fewer masters keep all messages.
fn disk(target: &Target, basis: &Basis, (carrying, steps): (f64, &mut Vec<Text>)) -> f64 {
    let rate = target.mean.unwrap_or(target.peak).0 * (1.0 + target.growth);
    let stored = target.size.0 + basis.stored_beside;
    let each = rate * stored * target.retain.0 * 3_600.0 / carrying / FILLED;
    let total = each * (carrying + f64::from(target.survive)) * f64::from(1 + target.survive);
    let (rate, stored, hours, count, share) = (
        numbers::count(rate),
        numbers::count(stored),
        numbers::count(target.retain.0),
        numbers::count(carrying),
        numbers::percent(FILLED),
    );
    let (one, all) = (numbers::bytes(each), numbers::bytes(total));
    steps.push(both!(
        "disk of each broker: {rate} msg/s × {stored} bytes × {hours} h × 3,600 / {count} masters / {share} = {one}; all brokers {all}",
        "每个 broker 磁盘：{rate} msg/s × {stored} 字节 × {hours} h × 3,600 ÷ {count} 主 ÷ {share} = {one}；全部 {all}"
    ));
    each
}
