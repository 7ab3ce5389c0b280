//! How much of each resource is used.

use super::reading::{Cpu, Disk, Network, Reading};
use crate::archive::{HostFile, HostSecond, LoadSecond, RunFile, Window};
use crate::judge::figures::{broker_host_names, series};
use crate::judge::guards::{cpu_busy_beside, loopback_bytes, network_bytes};
use crate::judge::stats::{mean, slope};
use crate::judge::validity::{GENERATOR_CPU_MAX, generator_share, lag_p99_us};
use serde::Serialize;

/// A kind of resource that can limit the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

/// The use of one resource of one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Use {
    /// The resource.
    pub resource: Resource,
    /// Name of the machine; empty for the load itself.
    pub node: String,
    /// Use of the resource, where 1 means fully used.
    pub used: f64,
    /// The measured figure behind `used`.
    pub reading: Reading,
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

    fn uses(&self, used: f64, reading: Reading) -> Use {
        let resource = match reading {
            Reading::Cpu(_) => Resource::Cpu,
            Reading::Disk(_) => Resource::Disk,
            Reading::Network(_) => Resource::Network,
            Reading::FallsBehind(_) => Resource::Replica,
            Reading::Generator(_) | Reading::SendsLate(_) => Resource::Client,
        };
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
    let mut all = vec![machine.uses(busy, Reading::Cpu(Cpu::Busy { busy, cores }))];
    let waiting = machine.mean(|second| second.process_waiting);
    let used = machine.mean(|second| second.process_cores);
    if waiting > 0.0 {
        let reading = Reading::Cpu(Cpu::Waiting { used, waiting, others, cores: whole });
        all.push(machine.uses(((used + waiting) / cores).min(1.0), reading));
    }
    let throttled = machine.mean(|second| second.cpu_throttled);
    if throttled > 0.0 {
        all.push(machine.uses((throttled / THROTTLED_HIGH).min(1.0), Reading::Cpu(Cpu::Quota(throttled))));
    }
    // No figure says which process fills the busiest core. It counts as a hint when the broker uses at least a core and
    // neither other programs nor the lab do.
    let core = machine.mean(|second| second.cpu_core_max);
    if core > FULL && used >= FULL && others < FULL && lab < FULL {
        // Ranked below the use of the whole machine, which tells more when both are full.
        all.push(machine.uses(core * 0.8, Reading::Cpu(Cpu::BusiestCore(core))));
    }
    all
}

fn disk(machine: &Machine<'_>) -> Vec<Use> {
    let util = machine.mean(|second| second.disk_util);
    // A host without a disk name had no disk observed.
    let is_known = !machine.host.disk.is_empty();
    let mut all: Vec<Use> =
        is_known.then(|| machine.uses(util, Reading::Disk(Disk::Busy(util)))).into_iter().collect();
    let pressure = machine.mean(|second| second.io_pressure);
    if pressure > 0.0 {
        let iowait = machine.mean(|second| second.cpu_iowait);
        let written = machine.mean(|second| second.disk_written as f64);
        let reading = Reading::Disk(Disk::Pressure { percent: pressure, iowait, written });
        all.push(machine.uses((pressure / PRESSURE_HIGH * 0.75).min(1.0), reading));
    }
    all.extend(blocked(machine));
    if let Some(most) =
        machine.host.roofline.as_ref().map(|roofline| roofline.disk_write_bytes).filter(|b| *b > 0.0)
    {
        let bytes = machine.mean(|second| second.disk_written as f64);
        all.push(machine.uses(bytes / most, Reading::Disk(Disk::Written { bytes, most })));
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
    Some(machine.uses((done / most).min(1.0), Reading::Disk(Disk::Requests { done, most })))
}

/// How often a sampled thread of the broker waited for the disk. A throttled disk shows here even while other programs
/// keep the processors busy, which the pressure figure of the whole machine counts as progress.
fn blocked(machine: &Machine<'_>) -> Option<Use> {
    let share = machine.mean(|second| f64::from(u8::from(second.process_blocked > 0)));
    (share > 0.0).then(|| machine.uses(share, Reading::Disk(Disk::Awaited(share))))
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
    Some(machine.uses(writes / most, Reading::Disk(Disk::Flushes { writes, most })))
}

fn network(machine: &Machine<'_>) -> Vec<Use> {
    let (inward, outward) =
        (machine.mean(|second| second.net_in as f64), machine.mean(|second| second.net_out as f64));
    let within = machine.mean(|second| second.net_loopback as f64);
    let mut all = Vec::new();
    if let Some(most) = network_bytes(machine.host) {
        let (received, sent) = ((inward - within).max(0.0), (outward - within).max(0.0));
        all.push(machine.uses(received / most, Reading::Network(Network::In { bytes: received, most })));
        all.push(machine.uses(sent / most, Reading::Network(Network::Out { bytes: sent, most })));
    }
    if let Some(most) = loopback_bytes(machine.host).filter(|_| within > 0.0) {
        all.push(machine.uses(within / most, Reading::Network(Network::Loopback { bytes: within, most })));
    }
    let segments = (inward + outward) / SEGMENT;
    let again = machine.mean(|second| second.net_retransmits as f64);
    if again > 0.0 && segments > 0.0 {
        let share = again / segments;
        let reading = Reading::Network(Network::SentAgain(share));
        all.push(machine.uses((share / RETRANSMITS_HIGH * 0.75).min(1.0), reading));
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
        (growth > 0.05 * sent && sent > 0.0).then(|| Use {
            resource: Resource::Replica,
            node: (*name).to_owned(),
            used: 0.75 + growth / sent / 4.0,
            reading: Reading::FallsBehind(growth),
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
    let reading = Reading::Network(Network::OnTheWay(share));
    Some(Use { resource: Resource::Network, node: host.name.clone(), used: share, reading })
}

fn client(file: &RunFile, windows: &[Window<'_>]) -> Vec<Use> {
    let mut all = Vec::new();
    let node = file.hosts.first().map(|host| host.name.clone()).unwrap_or_default();
    let mut add =
        |used, reading| all.push(Use { resource: Resource::Client, node: node.clone(), used, reading });
    if let Some(share) = generator_share(windows, file) {
        // R0 accepts a generator up to `GENERATOR_CPU_MAX`; from there on the generator itself is the bottleneck.
        add(share / GENERATOR_CPU_MAX, Reading::Generator(share));
    }
    let lag = lag_p99_us(windows);
    if lag > 0.0 {
        add((lag / 1_000.0).min(1.0), Reading::SendsLate(lag));
    }
    all
}
