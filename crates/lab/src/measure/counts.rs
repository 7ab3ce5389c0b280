//! The figures of a machine per second: the difference of procfs counters read twice.

use super::collector::Collector;
use super::process::{ProcessCounts, cpu_ms, kernel_threads};
use crate::archive::HostSecond;
use procfs::{Current, CurrentSI};
use std::collections::BTreeMap;

/// Bytes of a sector in `/proc/diskstats`, whatever the sector size of the device is.
const SECTOR_BYTES: u64 = 512;

/// Counters of a machine at one time. A counter that the system does not provide stays 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Ticks of all cores: user with nice, system with interrupts, idle, waiting for the disk, stolen.
    pub cpu: [u64; 5],
    /// Ticks spent in interrupts, which are part of the system time.
    pub interrupts: u64,
    /// Busy ticks and all ticks of each core.
    pub cores: Vec<(u64, u64)>,
    /// Microseconds in which a CPU quota stopped the watched processes.
    pub throttled_us: u64,
    /// Pages read from swap and written to swap.
    pub swap: (u64, u64),
    /// Counters of the disk that holds the store.
    pub disk: DiskCounts,
    /// Bytes received and sent, loopback included when it counts.
    pub net: (u64, u64),
    /// Bytes over loopback, which are received as soon as they are sent.
    pub loopback: u64,
    /// TCP segments retransmitted.
    pub retransmits: u64,
    /// Counters of the watched process.
    pub process: ProcessCounts,
    /// User and system time of the lab's process, milliseconds.
    pub own_ms: u64,
    /// Processor time in milliseconds, by process, of the other servers under load on this machine and of the kernel's
    /// threads, which work for the processes that write.
    pub beside_ms: BTreeMap<i32, u64>,
    /// Whether all servers under load on this machine are known. Only then is the remaining processor time that of
    /// other programs.
    pub tells_others: bool,
    /// Figures that are not counters, already in a row.
    pub now: HostSecond,
}

/// Counters of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskCounts {
    /// Reads and writes finished.
    pub done: (u64, u64),
    /// Sectors read and written.
    pub sectors: (u64, u64),
    /// Milliseconds spent in reads and writes.
    pub spent_ms: (u64, u64),
    /// Milliseconds in which the device had any work.
    pub busy_ms: u64,
}

/// Reads the figures of a machine once a second.
#[derive(Debug)]
pub struct HostProbe {
    /// Process id of the broker.
    pid: Option<i32>,
    /// Block device that holds the store, as in `/proc/diskstats`.
    device: String,
    /// Whether loopback is counted as network.
    loopback: bool,
    /// Process ids of the other servers under load on this machine; `None` when not all of them are known.
    servers: Option<Vec<i32>>,
    collector: Option<Collector>,
    last: Option<Counts>,
}

impl HostProbe {
    /// Makes a probe of this machine; `device` is named as in `/proc/diskstats`.
    pub fn new(pid: Option<i32>, device: &str, loopback: bool) -> Self {
        Self { pid, device: device.to_owned(), loopback, servers: None, collector: None, last: None }
    }

    /// Adds the other servers under load on this machine; `None` when not all of them are known. With all of them
    /// known, the processor time that neither they, the watched process nor the lab use is that of other programs.
    pub fn with_servers(self, servers: Option<Vec<i32>>) -> Self {
        Self { servers, ..self }
    }

    /// Adds the garbage collection pauses of a Java process.
    pub fn with_collector(self, collector: Option<Collector>) -> Self {
        Self { collector, ..self }
    }

    /// Returns the figures since the last call; `None` for the first call, which has nothing to compare with.
    pub fn sample(&mut self, at_ms: u64) -> Option<HostSecond> {
        let mut counts = Counts::read(self.pid, &self.device, self.loopback);
        counts.now.at_ms = at_ms;
        counts.tells_others = self.servers.is_some();
        let beside = self.servers.iter().flatten().copied().chain(kernel_threads());
        counts.beside_ms = beside.filter_map(|pid| Some((pid, cpu_ms(pid)?))).collect();
        let second = self.last.as_ref().map(|last| last.until(&counts));
        self.last = Some(counts);
        let pauses = self.collector.as_mut().map(Collector::take).unwrap_or_default();
        second.map(|second| HostSecond {
            gc_young: pauses.young,
            gc_full: pauses.full,
            gc_pause_ms: pauses.stopped_ms,
            gc_pause_max_ms: pauses.longest_ms,
            ..second
        })
    }
}

impl Counts {
    /// Reads the current counters of this machine.
    pub fn read(pid: Option<i32>, device: &str, loopback: bool) -> Self {
        let mut counts = Self::default();
        counts.read_cpu();
        counts.read_memory();
        counts.now.io_pressure =
            procfs::IoPressure::current().map_or(0.0, |pressure| f64::from(pressure.full.avg10));
        if let Ok(load) = procfs::LoadAverage::current() {
            counts.now.load1 = f64::from(load.one);
        }
        counts.disk = disk(device);
        (counts.net, counts.loopback) = network(loopback);
        counts.now.net_unacked = unacked();
        counts.retransmits = procfs::net::snmp().map_or(0, |snmp| snmp.tcp_retrans_segs);
        if let Some(pid) = pid {
            counts.process = ProcessCounts::read(pid, &mut counts.now);
            counts.throttled_us = super::process::throttled_us(pid);
        }
        let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        counts.own_ms = own.tv_sec.unsigned_abs() * 1000 + own.tv_nsec.unsigned_abs() / 1_000_000;
        counts
    }

    fn read_cpu(&mut self) {
        let Ok(stat) = procfs::KernelStats::current() else { return };
        let split = |time: &procfs::CpuTime| {
            let interrupts = interrupts(time);
            let waits = (time.iowait.unwrap_or(0), time.steal.unwrap_or(0));
            [time.user + time.nice, time.system + interrupts, time.idle, waits.0, waits.1]
        };
        self.cpu = split(&stat.total);
        self.interrupts = interrupts(&stat.total);
        let core = |time| {
            let [user, system, idle, iowait, steal] = split(time);
            (user + system + steal, user + system + idle + iowait + steal)
        };
        self.cores = stat.cpu_time.iter().map(core).collect();
    }

    fn read_memory(&mut self) {
        if let Ok(memory) = procfs::Meminfo::current() {
            self.now.memory_available = memory.mem_available.unwrap_or(memory.mem_free);
            self.now.memory_cached = memory.cached;
            self.now.memory_dirty = memory.dirty;
        }
        if let Ok(statistics) = procfs::vmstat() {
            let get = |name| statistics.get(name).map_or(0, |value| value.unsigned_abs());
            self.swap = (get("pswpin"), get("pswpout"));
        }
    }

    /// Returns the figures between these counters and `later`. A counter that went back, such as that of a restarted
    /// process, counts as unchanged.
    pub fn until(&self, later: &Self) -> HostSecond {
        let since = |before: u64, after: u64| after.saturating_sub(before);
        let seconds = (since(self.now.at_ms, later.now.at_ms).max(1)) as f64 / 1000.0;
        let ticks: Vec<_> = self.cpu.iter().zip(&later.cpu).map(|(old, new)| since(*old, *new)).collect();
        let all = ticks.iter().sum::<u64>().max(1) as f64;
        let share = |index: usize| ticks[index] as f64 / all;
        let busy = self
            .cores
            .iter()
            .zip(&later.cores)
            .map(|(old, new)| since(old.0, new.0) as f64 / since(old.1, new.1).max(1) as f64);
        let (old, new) = (&self.disk, &later.disk);
        let done = (since(old.done.0, new.done.0), since(old.done.1, new.done.1));
        let mean = |spent_ms: u64, count: u64| if count == 0 { 0.0 } else { spent_ms as f64 / count as f64 };
        let rate = |count: u64| (count as f64 / seconds).round() as u64;
        let cores = |before: u64, after: u64| since(before, after) as f64 / 1000.0 / seconds;
        let process_cores = cores(self.process.cpu_ms, later.process.cpu_ms);
        let others_cores = if later.tells_others {
            // The kernel handles the network traffic of the watched process in interrupts, outside of the process's
            // time.
            let interrupts = since(self.interrupts, later.interrupts) as f64 / all;
            let busy = (share(0) + share(1) - interrupts) * self.cores.len() as f64;
            let ours = process_cores + cores(self.own_ms, later.own_ms) + cores(0, self.beside_until(later));
            (busy - ours).max(0.0)
        } else {
            0.0
        };
        HostSecond {
            lasted_ms: since(self.now.at_ms, later.now.at_ms),
            cpu_user: share(0),
            cpu_system: share(1),
            cpu_iowait: share(3),
            cpu_steal: share(4),
            cpu_core_max: busy.fold(0.0, f64::max),
            cpu_throttled: since(self.throttled_us, later.throttled_us) as f64 / 1e6 / seconds,
            swap_in: rate(since(self.swap.0, later.swap.0)),
            swap_out: rate(since(self.swap.1, later.swap.1)),
            disk_read: rate(since(old.sectors.0, new.sectors.0) * SECTOR_BYTES),
            disk_written: rate(since(old.sectors.1, new.sectors.1) * SECTOR_BYTES),
            disk_reads: rate(done.0),
            disk_writes: rate(done.1),
            disk_read_await_ms: mean(since(old.spent_ms.0, new.spent_ms.0), done.0),
            disk_write_await_ms: mean(since(old.spent_ms.1, new.spent_ms.1), done.1),
            disk_util: (since(old.busy_ms, new.busy_ms) as f64 / 1000.0 / seconds).min(1.0),
            net_in: rate(since(self.net.0, later.net.0)),
            net_out: rate(since(self.net.1, later.net.1)),
            net_loopback: rate(since(self.loopback, later.loopback)),
            net_retransmits: rate(since(self.retransmits, later.retransmits)),
            process_cores,
            process_waiting: cores(self.process.waited_ms, later.process.waited_ms),
            others_cores,
            process_switches: rate(since(self.process.switches, later.process.switches)),
            ..later.now.clone()
        }
    }
}

impl Counts {
    /// Milliseconds of processor time that the processes beside the watched one used between these counters and
    /// `later`. A process that is new, such as a kernel thread, began in between.
    fn beside_until(&self, later: &Self) -> u64 {
        let before = |pid| self.beside_ms.get(pid).copied().unwrap_or_default();
        later.beside_ms.iter().map(|(pid, ms)| ms.saturating_sub(before(pid))).sum()
    }
}

fn interrupts(time: &procfs::CpuTime) -> u64 {
    time.irq.unwrap_or(0) + time.softirq.unwrap_or(0)
}

fn disk(device: &str) -> DiskCounts {
    let Ok(all) = procfs::diskstats() else { return DiskCounts::default() };
    all.iter().find(|disk| disk.name == device).map_or_else(DiskCounts::default, |disk| DiskCounts {
        done: (disk.reads, disk.writes),
        sectors: (disk.sectors_read, disk.sectors_written),
        spent_ms: (disk.time_reading, disk.time_writing),
        busy_ms: disk.time_in_progress,
    })
}

/// Bytes received and sent by the network cards, plus loopback when it counts; and the bytes over loopback alone.
fn network(loopback: bool) -> ((u64, u64), u64) {
    let interfaces = procfs::net::dev_status().unwrap_or_default();
    let bytes =
        |name: &str| interfaces.get(name).map_or((0, 0), |found| (found.recv_bytes, found.sent_bytes));
    let within = if loopback { bytes("lo").1 } else { 0 };
    let cards = super::environment::cards(interfaces.keys().map(String::as_str));
    let add = |sum: (u64, u64), name: &String| (sum.0 + bytes(name).0, sum.1 + bytes(name).1);
    (cards.iter().fold((within, within), add), within)
}

/// Bytes that are sent to other machines, or queued for sending, and not acknowledged by TCP. Connections within the
/// machine are left out: their acknowledgements are always late, since TCP waits for two segments, which are 64 KiB
/// there.
fn unacked() -> u64 {
    let sockets = procfs::net::tcp().into_iter().chain(procfs::net::tcp6()).flatten();
    let is_open = |socket: &procfs::net::TcpNetEntry| socket.state == procfs::net::TcpState::Established;
    let leaves = |socket: &procfs::net::TcpNetEntry| socket.local_address.ip() != socket.remote_address.ip();
    let open = sockets.filter(|socket| is_open(socket) && leaves(socket));
    open.map(|socket| u64::from(socket.tx_queue)).sum()
}
