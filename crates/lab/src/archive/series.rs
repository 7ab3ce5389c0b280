//! The rows of a run, one per second: load, machines and brokers. The field names are the columns of the CSV files. A
//! count covers the interval of `lasted_ms` milliseconds, so counts can be summed. A field that is a rate says so.

use serde::{Deserialize, Serialize};

/// Second of load, summed over all load generators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadSecond {
    /// End of the interval, milliseconds since 1970.
    pub at_ms: u64,
    /// Length of the interval in milliseconds; 0 in runs of earlier versions of the lab, whose counts are rates per
    /// second.
    pub lasted_ms: u64,
    /// Messages acknowledged.
    pub sent: u64,
    /// Bytes of the bodies of acknowledged messages, before compression.
    pub sent_bytes: u64,
    /// Requests that got no answer.
    pub failed: u64,
    /// Requests that were answered with an error code.
    pub refused: u64,
    /// Messages consumed by all groups together.
    pub consumed: u64,
    /// Bytes of the bodies of consumed messages.
    pub consumed_bytes: u64,
    /// Requests in flight at the end of the interval.
    pub in_flight: u64,
    /// Mean send latency in microseconds; in an open loop measured from the intended send time.
    pub mean_us: f64,
    /// Median send latency, microseconds.
    pub p50_us: u64,
    /// 99th percentile of the send latency, microseconds.
    pub p99_us: u64,
    /// 99.9th percentile of the send latency, microseconds.
    pub p999_us: u64,
    /// Largest send latency, microseconds.
    pub max_us: u64,
    /// Median time from send to consumption, microseconds.
    pub end_to_end_p50_us: u64,
    /// 99th percentile of the time from send to consumption, microseconds.
    pub end_to_end_p99_us: u64,
    /// Largest time from send to consumption, microseconds.
    pub end_to_end_max_us: u64,
    /// 99th percentile of the delay that the generator itself added, microseconds; 0 in a closed loop.
    pub lag_p99_us: u64,
    /// Cores that the load generator used; with several machines those of the machine that used most.
    pub lab_cores: f64,
}

impl LoadSecond {
    /// Messages acknowledged per second.
    pub fn sent_rate(&self) -> f64 {
        self.per_second(self.sent)
    }

    /// Bytes of the bodies of acknowledged messages per second.
    pub fn sent_bytes_rate(&self) -> f64 {
        self.per_second(self.sent_bytes)
    }

    /// Messages consumed per second by all groups together.
    pub fn consumed_rate(&self) -> f64 {
        self.per_second(self.consumed)
    }

    /// Bytes of the bodies of consumed messages per second.
    pub fn consumed_bytes_rate(&self) -> f64 {
        self.per_second(self.consumed_bytes)
    }

    /// Requests per second that were refused or not answered.
    pub fn unstored_rate(&self) -> f64 {
        self.per_second(self.refused + self.failed)
    }

    fn per_second(&self, count: u64) -> f64 {
        match self.lasted_ms {
            0 => count as f64,
            lasted_ms => count as f64 * 1000.0 / lasted_ms as f64,
        }
    }
}

/// Second of a machine, and of the broker process on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSecond {
    /// End of the interval, milliseconds since 1970.
    pub at_ms: u64,
    /// Length of the interval in milliseconds; 0 in runs of earlier versions of the lab.
    pub lasted_ms: u64,
    /// User time as a share of all cores, 0 to 1.
    pub cpu_user: f64,
    /// Kernel time, interrupts included, as a share of all cores.
    pub cpu_system: f64,
    /// Time in which cores were idle while the disk worked, as a share of all cores.
    pub cpu_iowait: f64,
    /// Time taken by the hypervisor, as a share of all cores.
    pub cpu_steal: f64,
    /// Busy share of the busiest core.
    pub cpu_core_max: f64,
    /// Share of the time in which a CPU quota stopped the processes (cgroup `throttled_usec`).
    pub cpu_throttled: f64,
    /// Cores used by programs that are neither the watched process nor the lab.
    pub others_cores: f64,
    /// One-minute load average.
    pub load1: f64,
    /// Bytes of memory available without swapping (`MemAvailable`).
    pub memory_available: u64,
    /// Bytes of page cache.
    pub memory_cached: u64,
    /// Bytes of page cache that wait for write-back.
    pub memory_dirty: u64,
    /// Pages read from swap per second.
    #[serde(rename = "swap_in_per_s", alias = "swap_in")]
    pub swap_in: u64,
    /// Pages written to swap per second.
    #[serde(rename = "swap_out_per_s", alias = "swap_out")]
    pub swap_out: u64,
    /// I/O pressure: percent of time in which all tasks waited for the disk (`/proc/pressure/io`, full, avg10).
    pub io_pressure: f64,
    /// Bytes read per second from the disk that holds the store.
    #[serde(rename = "disk_read_bytes_per_s", alias = "disk_read")]
    pub disk_read: u64,
    /// Bytes written per second to the disk that holds the store.
    #[serde(rename = "disk_written_bytes_per_s", alias = "disk_written")]
    pub disk_written: u64,
    /// Reads finished per second by the disk that holds the store.
    #[serde(rename = "disk_reads_per_s", alias = "disk_reads")]
    pub disk_reads: u64,
    /// Writes finished per second by the disk that holds the store.
    #[serde(rename = "disk_writes_per_s", alias = "disk_writes")]
    pub disk_writes: u64,
    /// Mean time of a read from that disk, milliseconds.
    pub disk_read_await_ms: f64,
    /// Mean time of a write to that disk, milliseconds.
    pub disk_write_await_ms: f64,
    /// Share of the time in which that disk had work, 0 to 1.
    pub disk_util: f64,
    /// Bytes received per second. Loopback is included only when the lab drives the broker over it.
    #[serde(rename = "net_in_bytes_per_s", alias = "net_in")]
    pub net_in: u64,
    /// Bytes sent per second. Loopback is included only when the lab drives the broker over it.
    #[serde(rename = "net_out_bytes_per_s", alias = "net_out")]
    pub net_out: u64,
    /// Bytes per second over loopback in each direction, included in `net_in` and `net_out`.
    #[serde(rename = "net_loopback_bytes_per_s", alias = "net_loopback")]
    pub net_loopback: u64,
    /// TCP segments retransmitted per second.
    #[serde(rename = "net_retransmits_per_s", alias = "net_retransmits")]
    pub net_retransmits: u64,
    /// Bytes sent to other machines that were not acknowledged by TCP at the end of the interval.
    pub net_unacked: u64,
    /// Cores used by the watched process.
    pub process_cores: f64,
    /// Cores that the watched process could have used in addition: its threads were ready to run but had no processor.
    pub process_waiting: f64,
    /// Threads of the watched process that waited for the disk at the end of the interval.
    pub process_blocked: u64,
    /// Resident bytes of the watched process.
    pub process_memory: u64,
    /// Anonymous resident bytes of the watched process.
    pub process_anonymous: u64,
    /// Number of threads of the watched process.
    pub process_threads: u64,
    /// Context switches of the watched process per second.
    #[serde(rename = "process_switches_per_s", alias = "process_switches")]
    pub process_switches: u64,
    /// Open file descriptors of the watched process.
    pub process_files: u64,
    /// Young garbage collections (Java).
    pub gc_young: u64,
    /// Full garbage collections (Java).
    pub gc_full: u64,
    /// Milliseconds in which garbage collection or another safepoint stopped all threads (Java).
    pub gc_pause_ms: f64,
    /// The longest of these pauses, milliseconds (Java).
    pub gc_pause_max_ms: f64,
}

/// Second of a broker by its own figures (request code 28, `GET_BROKER_RUNTIME_INFO`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerSecond {
    /// End of the interval, milliseconds since 1970.
    pub at_ms: u64,
    /// Length of the interval in milliseconds; 0 for the first row, and in runs of earlier versions of the lab.
    pub lasted_ms: u64,
    /// Messages stored per second.
    pub put_tps: f64,
    /// Messages delivered to consumers per second.
    pub get_tps: f64,
    /// Milliseconds for which the running append has held its lock (`pageCacheLockTimeMills`); at least the time of the
    /// interval's longest append, if that took longer than all before it (`putMessageEntireTimeMax`).
    pub put_max_ms: f64,
    /// Bytes of the commit log that are not indexed yet (`dispatchBehindBytes`).
    pub dispatch_behind: u64,
    /// Bytes of the commit log that the slowest slave has not replicated yet.
    pub replica_behind: u64,
    /// Bytes of the commit log that are not flushed yet.
    pub flush_behind: u64,
    /// Requests that wait in the send queue (`sendThreadPoolQueueSize`).
    pub send_queue: u64,
    /// Requests that the broker has refused so far, for any cause.
    pub refused_total: u64,
    /// Requests refused so far by cause, in the broker's words: `refusedBehind=12 refusedDiskFull=3`.
    pub refused_causes: String,
    /// Number of commit log files that were begun.
    pub rolls: u64,
    /// Bytes of the commit log that were removed.
    pub removed: u64,
    /// Start of the broker by its own clock, milliseconds since 1970; 0 when the broker does not report it.
    pub started_ms: u64,
}

impl BrokerSecond {
    /// Requests refused so far by cause, as far as the broker counts causes separately.
    pub fn refused(&self) -> impl Iterator<Item = (&str, u64)> {
        let causes = self.refused_causes.split(' ').filter_map(|cause| cause.split_once('='));
        causes.filter_map(|(cause, count)| Some((cause, count.parse().ok()?)))
    }
}

/// Event kind: a broker answers, but as another process than before.
pub const BROKER_RESTARTED: &str = "broker-restarted";
/// Event kind: a broker does not answer any more.
pub const BROKER_AWAY: &str = "broker-away";
/// Event kind: a broker that was away answers again.
pub const BROKER_BACK: &str = "broker-back";

/// An event for the time axis of the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Begin of the event, milliseconds since 1970.
    pub at_ms: u64,
    /// Machine or broker of the event; empty for the lab itself.
    pub node: String,
    /// Kind of event: `flow-control`, `no-answer`, `steal`, `agent-lost`, `broker-away`, `consumers-start`, `drain`, …
    pub kind: String,
    /// Description of the event for people.
    pub detail: String,
    /// Length of the event in milliseconds; 0 for an event without duration.
    pub lasted_ms: u64,
}
