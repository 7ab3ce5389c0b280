//! Use of each resource.

use super::reading::{Cpu, Disk, Network, Reading};
use crate::archive::{HostFile, HostSecond, LoadSecond, RunFile, Window};
use crate::judge::figures::{broker_host_names, series};
use crate::judge::guards::{cpu_busy_beside, loopback_bytes, network_bytes};
use crate::judge::stats::{mean, slope};
use crate::judge::validity::{generator_share, lag_p99_us};
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
    /// Use of the resource as a share of its limit ([`Reading::used`]).
    pub used: f64,
    /// The measured figure behind `used`.
    pub reading: Reading,
}

/// Payload bytes of a TCP segment.
const SEGMENT: f64 = 1_448.0;

/// Use of a core, as a share, from which on the core counts as full.
const FULL: f64 = 0.95;

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

    fn uses(&self, reading: Reading) -> Use {
        Use::new(&self.host.name, reading)
    }
}

impl Use {
    fn new(node: &str, reading: Reading) -> Self {
        let resource = match reading {
            Reading::Cpu(_) => Resource::Cpu,
            Reading::Disk(_) => Resource::Disk,
            Reading::Network(_) => Resource::Network,
            Reading::FallsBehind { .. } => Resource::Replica,
            Reading::Generator(_) | Reading::SendsLate(_) => Resource::Client,
        };
        Self { resource, node: node.to_owned(), used: reading.used(), reading }
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

/// Processor use of a broker machine. The use by other programs is left out, because it does not limit a broker that
/// gets a processor whenever it wants one. The time that the broker waits for a processor counts as use.
fn processors(machine: &Machine<'_>, lab: f64) -> Vec<Use> {
    let whole = f64::from(machine.host.cores.max(1));
    let others = machine.mean(|second| second.others_cores);
    let busy = cpu_busy_beside(machine.host, machine.seconds, others);
    let cores = machine.host.cores_allowed.unwrap_or(whole);
    let mut all = vec![machine.uses(Reading::Cpu(Cpu::Busy { busy, cores }))];
    let waiting = machine.mean(|second| second.process_waiting);
    let used = machine.mean(|second| second.process_cores);
    if waiting > 0.0 {
        all.push(machine.uses(Reading::Cpu(Cpu::Waiting { used, waiting, others, cores })));
    }
    let throttled = machine.mean(|second| second.cpu_throttled);
    if throttled > 0.0 {
        all.push(machine.uses(Reading::Cpu(Cpu::Quota(throttled))));
    }
    // No figure says which process fills the busiest core. It counts as a hint when the broker uses at least a core and
    // neither other programs nor the lab do.
    let core = machine.mean(|second| second.cpu_core_max);
    if core > FULL && used >= FULL && others < FULL && lab < FULL {
        all.push(machine.uses(Reading::Cpu(Cpu::BusiestCore(core))));
    }
    all
}

fn disk(machine: &Machine<'_>) -> Vec<Use> {
    let util = machine.mean(|second| second.disk_util);
    // A host without a disk name had no disk observed.
    let is_known = !machine.host.disk.is_empty();
    let mut all: Vec<Use> =
        is_known.then(|| machine.uses(Reading::Disk(Disk::Busy(util)))).into_iter().collect();
    let pressure = machine.mean(|second| second.io_pressure);
    if pressure > 0.0 {
        let iowait = machine.mean(|second| second.cpu_iowait);
        let written = machine.mean(|second| second.disk_written as f64);
        all.push(machine.uses(Reading::Disk(Disk::Pressure { percent: pressure, iowait, written })));
    }
    all.extend(blocked(machine));
    if let Some(most) =
        machine.host.roofline.as_ref().map(|roofline| roofline.disk_write_bytes).filter(|b| *b > 0.0)
    {
        let bytes = machine.mean(|second| second.disk_written as f64);
        all.push(machine.uses(Reading::Disk(Disk::Written { bytes, most })));
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
    Some(machine.uses(Reading::Disk(Disk::Requests { done, most })))
}

/// Share of samples in which a thread of the broker waited for the disk. A throttled disk shows here even while other
/// programs keep the processors busy, which the pressure figure of the whole machine counts as progress.
fn blocked(machine: &Machine<'_>) -> Option<Use> {
    let share = machine.mean(|second| f64::from(u8::from(second.process_blocked > 0)));
    (share > 0.0).then(|| machine.uses(Reading::Disk(Disk::Awaited(share))))
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
    Some(machine.uses(Reading::Disk(Disk::Flushes { writes, most })))
}

fn network(machine: &Machine<'_>) -> Vec<Use> {
    let (inward, outward) =
        (machine.mean(|second| second.net_in as f64), machine.mean(|second| second.net_out as f64));
    let within = machine.mean(|second| second.net_loopback as f64);
    let mut all = Vec::new();
    if let Some(most) = network_bytes(machine.host) {
        let (received, sent) = ((inward - within).max(0.0), (outward - within).max(0.0));
        all.push(machine.uses(Reading::Network(Network::In { bytes: received, most })));
        all.push(machine.uses(Reading::Network(Network::Out { bytes: sent, most })));
    }
    if let Some(most) = loopback_bytes(machine.host).filter(|_| within > 0.0) {
        all.push(machine.uses(Reading::Network(Network::Loopback { bytes: within, most })));
    }
    let segments = (inward + outward) / SEGMENT;
    let again = machine.mean(|second| second.net_retransmits as f64);
    if again > 0.0 && segments > 0.0 {
        all.push(machine.uses(Reading::Network(Network::SentAgain(again / segments))));
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
        (growth > 0.05 * sent && sent > 0.0).then(|| Use::new(name, Reading::FallsBehind { growth, sent }))
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
    Some(Use::new(&host.name, Reading::Network(Network::OnTheWay(share))))
}

fn client(file: &RunFile, windows: &[Window<'_>]) -> Vec<Use> {
    let node = file.hosts.first().map(|host| host.name.clone()).unwrap_or_default();
    let lag_us = Some(lag_p99_us(windows)).filter(|lag_us| *lag_us > 0.0);
    let busy = generator_share(windows, file).map(Reading::Generator);
    busy.into_iter().chain(lag_us.map(Reading::SendsLate)).map(|reading| Use::new(&node, reading)).collect()
}
