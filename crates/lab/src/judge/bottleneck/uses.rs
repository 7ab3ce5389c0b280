//! How much of each resource is used, with the words to say it.

use crate::archive::{HostFile, HostSecond, LoadSecond, RunFile, Window};
use crate::judge::figures::{broker_host_names, series};
use crate::judge::guards::{cpu_busy_beside, loopback_bytes, network_bytes};
use crate::judge::stats::{mean, slope};
use crate::judge::validity::{GENERATOR_CPU_MAX, generator_share, lag_p99_us};
use crate::judge::{Text, both, numbers};
use serde::{Deserialize, Serialize};

/// What can be the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Processors, or a quota of them.
    Cpu,
    /// Bandwidth, requests or flushes of the store's device.
    Disk,
    /// Either direction.
    Network,
    /// Followers.
    Replica,
    /// The load generator, or too few requests in flight.
    Client,
    /// Something inside the server that no figure shows.
    Server,
    /// No machine of a broker was observed.
    Unknown,
}

impl Resource {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> Text {
        let (en, zh) = match self {
            Self::Cpu => ("CPU", "CPU"),
            Self::Disk => ("disk", "磁盘"),
            Self::Network => ("network", "网络"),
            Self::Replica => ("replica", "副本"),
            Self::Client => ("client", "客户端"),
            Self::Server => ("server internals", "服务端内部"),
            Self::Unknown => ("not known", "未知"),
        };
        Text { en: en.to_owned(), zh: zh.to_owned() }
    }
}

/// One resource of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Which.
    pub resource: Resource,
    /// Where; empty for the load itself.
    pub node: String,
    /// 1 is all of it.
    pub used: f64,
    /// The figure behind it.
    pub reading: Text,
}

/// Percent of time in which everything waits for the disk that counts as three quarters used.
const PRESSURE_HIGH: f64 = 10.0;

/// Share of segments sent again that counts as a full network.
const RETRANSMITS_HIGH: f64 = 0.01;

/// Bytes of a TCP segment.
const SEGMENT: f64 = 1_448.0;

/// Share of a core that counts as all of it.
const FULL: f64 = 0.95;

/// Share of a second lost to a quota that counts as all of it.
const THROTTLED_HIGH: f64 = 0.25;

/// Every resource the windows have figures for.
#[must_use]
pub fn uses(file: &RunFile, windows: &[Window<'_>]) -> Vec<Use> {
    let names = broker_host_names(file);
    let mut all: Vec<Use> = Vec::new();
    for host in file.hosts.iter().filter(|host| names.contains(&host.name.as_str())) {
        let on_host = windows.iter().flat_map(|window| &window.hosts).filter(|(of, _)| of.name == host.name);
        let seconds: Vec<HostSecond> = on_host.flat_map(|(_, seconds)| seconds.iter().cloned()).collect();
        if !seconds.is_empty() {
            let is_lab = file.hosts.first().is_some_and(|first| first.name == host.name);
            let lab =
                mean(&series(windows, |second| second.lab_cores).concat()) * f64::from(u8::from(is_lab));
            all.extend(machine(host, &seconds, (file, windows), lab));
        }
    }
    all.extend(replicas(windows));
    all.extend(client(file, windows));
    all
}

struct Machine<'a> {
    host: &'a HostFile,
    seconds: &'a [HostSecond],
}

impl Machine<'_> {
    fn mean(&self, value: impl Fn(&HostSecond) -> f64) -> f64 {
        mean(&self.seconds.iter().map(value).collect::<Vec<_>>())
    }

    fn uses(&self, resource: Resource, used: f64, reading: Text) -> Use {
        Use { resource, node: self.host.name.clone(), used, reading }
    }
}

/// `lab` is what the load generator uses of this machine's cores.
fn machine(
    host: &HostFile,
    seconds: &[HostSecond],
    (file, windows): (&RunFile, &[Window<'_>]),
    lab: f64,
) -> Vec<Use> {
    let machine = Machine { host, seconds };
    let mut all = processors(&machine, lab);
    all.extend(disk(&machine));
    if is_sync(file, windows) {
        all.extend(flushes(&machine));
    }
    all.extend(network(&machine));
    all
}

/// What other programs use is not the broker's limit as long as the broker gets a processor when it wants one; when it
/// waits for one, that is.
fn processors(machine: &Machine<'_>, lab: f64) -> Vec<Use> {
    let whole = f64::from(machine.host.cores.max(1));
    let others = machine.mean(|second| second.others_cores);
    let busy = cpu_busy_beside(machine.host, machine.seconds, others);
    let cores = machine.host.cores_allowed.unwrap_or(whole);
    let (value, of) = (numbers::percent(busy), numbers::short(cores));
    let text = both!("CPU: {value} of {of} cores busy", "CPU：{of} 核使用 {value}");
    let mut all = vec![machine.uses(Resource::Cpu, busy, text)];
    let waiting = machine.mean(|second| second.process_waiting);
    let used = machine.mean(|second| second.process_cores);
    if waiting > 0.0 {
        let [used_text, wait, rest, of] = [used, waiting, others, whole].map(numbers::short);
        let text = both!(
            "CPU: the broker used {used_text} cores and waited for {wait} more; other programs used {rest} of {of}",
            "CPU：Broker 使用 {used_text} 核，另有 {wait} 核在等待；其他程序使用 {rest} 核（共 {of} 核）"
        );
        all.push(machine.uses(Resource::Cpu, ((used + waiting) / cores).min(1.0), text));
    }
    let throttled = machine.mean(|second| second.cpu_throttled);
    if throttled > 0.0 {
        let value = numbers::percent(throttled);
        let text =
            both!("CPU: a quota stopped the processes {value} of the time", "CPU：配额限流占 {value} 的时间");
        all.push(machine.uses(Resource::Cpu, (throttled / THROTTLED_HIGH).min(1.0), text));
    }
    // A hint, because nobody says who fills it: the broker uses as much, and nobody else does.
    let core = machine.mean(|second| second.cpu_core_max);
    if core > FULL && used >= FULL && others < FULL && lab < FULL {
        let value = numbers::percent(core);
        let text = both!("CPU: the busiest core is {value} busy", "CPU：最忙的核 {value}");
        // Below the whole machine's use, which says more when both are full.
        all.push(machine.uses(Resource::Cpu, core * 0.8, text));
    }
    all
}

fn disk(machine: &Machine<'_>) -> Vec<Use> {
    let util = machine.mean(|second| second.disk_util);
    let value = numbers::percent(util);
    let text = both!("disk: busy {value} of the time", "磁盘：util {value}");
    // Where nobody knows which one it is, none was looked at.
    let is_known = !machine.host.disk.is_empty();
    let mut all: Vec<Use> = is_known.then(|| machine.uses(Resource::Disk, util, text)).into_iter().collect();
    let pressure = machine.mean(|second| second.io_pressure);
    if pressure > 0.0 {
        let wait = machine.mean(|second| second.cpu_iowait);
        let written = machine.mean(|second| second.disk_written as f64);
        let (value, wait, written) =
            (numbers::short(pressure), numbers::percent(wait), numbers::bytes(written));
        let text = both!(
            "disk: everything waits for it {value} % of the time (iowait {wait}) while {written}/s are written",
            "磁盘：全部任务等待 I/O 占 {value} %（iowait {wait}），写入 {written}/s"
        );
        all.push(machine.uses(Resource::Disk, (pressure / PRESSURE_HIGH * 0.75).min(1.0), text));
    }
    all.extend(blocked(machine));
    if let Some(most) =
        machine.host.roofline.as_ref().map(|roofline| roofline.disk_write_bytes).filter(|b| *b > 0.0)
    {
        let bytes = machine.mean(|second| second.disk_written as f64);
        let (value, limit) = (numbers::bytes(bytes), numbers::bytes(most));
        let text = both!("disk: {value}/s written of {limit}/s", "磁盘：写入 {value}/s，能力 {limit}/s");
        all.push(machine.uses(Resource::Disk, bytes / most, text));
    }
    all.extend(requests(machine));
    all
}

/// Reads and writes against the scattered writes of the self-test: a disk in a cloud may have few of them and be neither
/// busy nor full. One that spins does far more of those that follow each other, and shows when it is busy.
fn requests(machine: &Machine<'_>) -> Option<Use> {
    let most = machine.host.roofline.as_ref()?.disk_random_writes;
    if most <= 0.0 || machine.host.disk_spins() == Some(true) {
        return None;
    }
    let done = machine.mean(|second| (second.disk_reads + second.disk_writes) as f64);
    let (value, limit) = (numbers::count(done), numbers::count(most));
    let text = both!("disk: {value} IOPS of {limit}", "磁盘：IOPS {value}，能力 {limit}");
    Some(machine.uses(Resource::Disk, (done / most).min(1.0), text))
}

/// How often a thread of the broker waited for the disk when it was looked at. A throttled disk shows here even while
/// other programs keep the processors busy, which the pressure of the whole machine takes for progress.
fn blocked(machine: &Machine<'_>) -> Option<Use> {
    let share = machine.mean(|second| f64::from(u8::from(second.process_blocked > 0)));
    let value = numbers::percent(share);
    let text = both!(
        "disk: a thread of the broker waited for it in {value} of the seconds",
        "磁盘：{value} 的采样中 Broker 有线程在等待"
    );
    (share > 0.0).then(|| machine.uses(Resource::Disk, share, text))
}

/// Whether every acknowledgement waits for a flush: as the cell says, else as the brokers do.
fn is_sync(file: &RunFile, windows: &[Window<'_>]) -> bool {
    let factors = windows.first().and_then(|window| window.factors);
    factors.is_some_and(|factors| file.flush(factors) == "sync")
}

fn flushes(machine: &Machine<'_>) -> Option<Use> {
    let most = machine.host.roofline.as_ref()?.disk_flushes;
    if most <= 0.0 {
        return None;
    }
    let writes = machine.mean(|second| second.disk_writes as f64);
    let (value, limit) = (numbers::count(writes), numbers::count(most));
    let text = both!(
        "disk: {value} writes/s of {limit} flushes/s",
        "磁盘：写 {value} 次/s，flush 能力 {limit} 次/s"
    );
    Some(machine.uses(Resource::Disk, writes / most, text))
}

fn network(machine: &Machine<'_>) -> Vec<Use> {
    let (inward, outward) =
        (machine.mean(|second| second.net_in as f64), machine.mean(|second| second.net_out as f64));
    let within = machine.mean(|second| second.net_loopback as f64);
    let mut all = Vec::new();
    if let Some(speed) = network_bytes(machine.host) {
        let limit = numbers::bytes(speed);
        for (bytes, en, zh) in [(inward, "in", "流入"), (outward, "out", "流出")] {
            let bytes = (bytes - within).max(0.0);
            let value = numbers::bytes(bytes);
            let text = both!("network: {value}/s {en} of {limit}/s", "网络：{zh} {value}/s，能力 {limit}/s");
            all.push(machine.uses(Resource::Network, bytes / speed, text));
        }
    }
    if let Some(speed) = loopback_bytes(machine.host).filter(|_| within > 0.0) {
        let (value, limit) = (numbers::bytes(within), numbers::bytes(speed));
        let text = both!(
            "network: {value}/s over loopback of {limit}/s",
            "网络：本机回环 {value}/s，能力 {limit}/s"
        );
        all.push(machine.uses(Resource::Network, within / speed, text));
    }
    let segments = (inward + outward) / SEGMENT;
    let again = machine.mean(|second| second.net_retransmits as f64);
    if again > 0.0 && segments > 0.0 {
        let share = again / segments;
        let value = numbers::percent(share);
        let text = both!("network: {value} of the segments were sent again", "网络：重传 {value}");
        all.push(machine.uses(Resource::Network, (share / RETRANSMITS_HIGH * 0.75).min(1.0), text));
    }
    all
}

/// Followers that fall behind by more than a twentieth of what is sent.
fn replicas(windows: &[Window<'_>]) -> Vec<Use> {
    let sent = mean(&series(windows, LoadSecond::sent_bytes_rate).concat());
    let brokers = windows.iter().flat_map(|window| &window.brokers);
    let falls = |(name, seconds): &(&str, &[crate::archive::BrokerSecond])| {
        let behind: Vec<f64> = seconds.iter().map(|second| second.replica_behind as f64).collect();
        let growth = slope(&behind).per_step;
        (growth > 0.05 * sent && sent > 0.0).then(|| {
            let value = numbers::bytes(growth);
            let reading = both!("replica: falls behind by {value}/s", "副本：每秒落后 {value}");
            Use {
                resource: Resource::Replica,
                node: (*name).to_owned(),
                used: 0.75 + growth / sent / 4.0,
                reading,
            }
        })
    };
    brokers.filter_map(falls).collect()
}

/// Bytes of requests that left the lab's process and that the other machine has not confirmed, of those in flight: all
/// of them where the network is too slow, hardly any where the server is. Only at a ceiling, because a long way does
/// the same to a few requests.
pub(super) fn on_the_way(file: &RunFile, windows: &[Window<'_>]) -> Option<Use> {
    let host = file.hosts.first()?;
    let seconds = windows.iter().flat_map(|window| &window.hosts).filter(|(of, _)| of.name == host.name);
    let unacked: Vec<f64> =
        seconds.flat_map(|(_, seconds)| seconds.iter()).map(|second| second.net_unacked as f64).collect();
    let rows = || windows.iter().flat_map(|window| window.load);
    let sent: u64 = rows().map(|second| second.sent).sum();
    let each = rows().map(|second| second.sent_bytes).sum::<u64>() as f64 / sent.max(1) as f64;
    let in_flight = mean(&rows().map(|second| second.in_flight as f64).collect::<Vec<_>>()) * each;
    let share =
        (in_flight > 0.0).then(|| (mean(&unacked) / in_flight).min(1.0)).filter(|share| *share > 0.0)?;
    let value = numbers::percent(share);
    let reading = both!(
        "network: {value} of the bytes in flight were not yet confirmed by the other machine",
        "网络：在途字节的 {value} 尚未被对端确认"
    );
    Some(Use { resource: Resource::Network, node: host.name.clone(), used: share, reading })
}

fn client(file: &RunFile, windows: &[Window<'_>]) -> Vec<Use> {
    let mut all = Vec::new();
    let node = file.hosts.first().map(|host| host.name.clone()).unwrap_or_default();
    let mut add =
        |used, reading| all.push(Use { resource: Resource::Client, node: node.clone(), used, reading });
    if let Some(share) = generator_share(windows, file) {
        let value = numbers::percent(share);
        let text =
            both!("client: the generator uses {value} of its processors", "客户端：压测端 CPU {value}");
        // At the limit of R0 the generator is what is measured.
        add(share / GENERATOR_CPU_MAX, text);
    }
    let lag = lag_p99_us(windows);
    if lag > 0.0 {
        let value = numbers::micros(lag);
        let text = both!("client: sends up to {value} late", "客户端：发送滞后 {value}");
        add((lag / 1_000.0).min(1.0), text);
    }
    all
}
