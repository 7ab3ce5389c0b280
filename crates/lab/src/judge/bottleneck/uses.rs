//! How much of each resource is used, with the words that describe it.

use crate::archive::{HostFile, HostSecond, LoadSecond, RunFile, Window};
use crate::judge::figures::{broker_host_names, series};
use crate::judge::guards::{cpu_busy_beside, loopback_bytes, network_bytes};
use crate::judge::stats::{mean, slope};
use crate::judge::validity::{GENERATOR_CPU_MAX, generator_share, lag_p99_us};
use crate::judge::{Text, both, numbers};
use serde::{Deserialize, Serialize};

/// A kind of resource that can limit the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Processors, or a CPU quota.
    Cpu,
    /// Bandwidth, requests per second or flushes per second of the disk that holds the store.
    Disk,
    /// Network bandwidth in either direction.
    Network,
    /// Replication to slaves.
    Replica,
    /// The load generator, or too few requests in flight.
    Client,
    /// Something inside the server that no recorded figure shows, such as a lock.
    Server,
    /// Unknown, because no broker machine was observed.
    Unknown,
}

impl Resource {
    /// The name of the resource as reports print it.
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

/// The use of one resource of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// The resource.
    pub resource: Resource,
    /// Name of the machine; empty for the load itself.
    pub node: String,
    /// Use of the resource, where 1 means fully used.
    pub used: f64,
    /// The measured figure behind `used`, as text.
    pub reading: Text,
}

/// I/O pressure (percent of time in which all tasks waited for the disk) that counts as a use of three quarters.
const PRESSURE_HIGH: f64 = 10.0;

/// Share of retransmitted TCP segments that counts as a full network.
const RETRANSMITS_HIGH: f64 = 0.01;

/// Payload bytes of a TCP segment.
const SEGMENT: f64 = 1_448.0;

/// Use of a core, as a share, from which on the core counts as full.
const FULL: f64 = 0.95;

/// Share of the time that a CPU quota stopped the processes which counts as full use of the quota.
const THROTTLED_HIGH: f64 = 0.25;

/// Returns the use of every resource for which the windows hold figures.
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

/// Returns the uses of one machine; `lab` is the number of this machine's cores that the load generator uses.
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

/// Processor use of a broker machine. What other programs use does not limit the broker as long as it gets a processor
/// when it wants one, so it is left out; the time that the broker waits for a processor counts as use.
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
    // No figure says which process fills the busiest core. It counts as a hint when the broker uses at least a core and
    // neither other programs nor the lab do.
    let core = machine.mean(|second| second.cpu_core_max);
    if core > FULL && used >= FULL && others < FULL && lab < FULL {
        let value = numbers::percent(core);
        let text = both!("CPU: the busiest core is {value} busy", "CPU：最忙的核 {value}");
        // Ranked below the use of the whole machine, which tells more when both are full.
        all.push(machine.uses(Resource::Cpu, core * 0.8, text));
    }
    all
}

fn disk(machine: &Machine<'_>) -> Vec<Use> {
    let util = machine.mean(|second| second.disk_util);
    let value = numbers::percent(util);
    let text = both!("disk: busy {value} of the time", "磁盘：util {value}");
    // A host without a disk name had no disk observed.
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

/// Reads and writes per second against the random writes of the self-test. A cloud volume may be limited in requests
/// while it is neither busy nor full. A spinning disk does far more sequential requests than random ones; its limit
/// shows as busy time.
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

/// How often a sampled thread of the broker waited for the disk. A throttled disk shows here even while other programs
/// keep the processors busy, which the pressure figure of the whole machine counts as progress.
fn blocked(machine: &Machine<'_>) -> Option<Use> {
    let share = machine.mean(|second| f64::from(u8::from(second.process_blocked > 0)));
    let value = numbers::percent(share);
    let text = both!(
        "disk: a thread of the broker waited for it in {value} of the seconds",
        "磁盘：{value} 的采样中 Broker 有线程在等待"
    );
    (share > 0.0).then(|| machine.uses(Resource::Disk, share, text))
}

/// Whether acknowledgements wait for a flush: as the factors of the cell say, otherwise as the brokers are configured.
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

/// Slaves whose replication lag grows by more than 5 % of the bytes sent.
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

/// Share of the bytes in flight that left the lab but were not acknowledged by TCP on the other machine: nearly all
/// when the network is too slow, hardly any when the server is. Only meaningful at a ceiling, because a long round trip
/// has the same effect on few requests.
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
        // R0 accepts a generator up to `GENERATOR_CPU_MAX`; from there on the generator itself is the bottleneck.
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
