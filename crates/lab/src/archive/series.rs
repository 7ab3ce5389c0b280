//! One row a second of what was sent, of each machine and of each broker. The field names are the CSV's columns. Counts are
//! those of the interval that `lasted_ms` tells, so that their sum is what was done; what is a rate is called so.

use serde::{Deserialize, Serialize};

/// A second of the load, summed over all load generators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadSecond {
    /// End of the interval.
    pub at_ms: u64,
    /// Its length; 0 in runs of older labs, whose counts are rates per second.
    pub lasted_ms: u64,
    /// Messages acknowledged.
    pub sent: u64,
    /// Bytes of their bodies, as the application gave them.
    pub sent_bytes: u64,
    /// Requests without an answer.
    pub failed: u64,
    /// Requests answered with an error code.
    pub refused: u64,
    /// Messages consumed, all groups.
    pub consumed: u64,
    /// Bytes of their bodies.
    pub consumed_bytes: u64,
    /// Requests in flight at the end of the second.
    pub in_flight: u64,
    /// Mean send latency, from the intended time where there is one.
    pub mean_us: f64,
    /// Percentiles of the same.
    pub p50_us: u64,
    /// 99 of 100.
    pub p99_us: u64,
    /// 999 of 1,000.
    pub p999_us: u64,
    /// The largest.
    pub max_us: u64,
    /// From being sent to being consumed.
    pub end_to_end_p50_us: u64,
    /// 99 of 100.
    pub end_to_end_p99_us: u64,
    /// The largest.
    pub end_to_end_max_us: u64,
    /// How late the generator itself was, 99 of 100; 0 in a closed loop.
    pub lag_p99_us: u64,
    /// Cores the load generator used; of several machines the one that used most.
    pub lab_cores: f64,
}

impl LoadSecond {
    /// Messages acknowledged per second.
    #[must_use]
    pub fn sent_rate(&self) -> f64 {
        self.per_second(self.sent)
    }

    /// Bytes of their bodies per second.
    #[must_use]
    pub fn sent_bytes_rate(&self) -> f64 {
        self.per_second(self.sent_bytes)
    }

    /// Messages consumed per second, all groups.
    #[must_use]
    pub fn consumed_rate(&self) -> f64 {
        self.per_second(self.consumed)
    }

    /// Bytes of their bodies per second.
    #[must_use]
    pub fn consumed_bytes_rate(&self) -> f64 {
        self.per_second(self.consumed_bytes)
    }

    fn per_second(&self, count: u64) -> f64 {
        match self.lasted_ms {
            0 => count as f64,
            lasted_ms => count as f64 * 1000.0 / lasted_ms as f64,
        }
    }
}

/// A second of one machine, and of the broker's process on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSecond {
    /// End of the interval.
    pub at_ms: u64,
    /// Its length; 0 in runs of older labs.
    pub lasted_ms: u64,
    /// Share of all cores, 0 to 1.
    pub cpu_user: f64,
    /// Kernel, interrupts included.
    pub cpu_system: f64,
    /// Idle while the disk worked.
    pub cpu_iowait: f64,
    /// Taken by the hypervisor.
    pub cpu_steal: f64,
    /// Busy share of the busiest core.
    pub cpu_core_max: f64,
    /// Share of a second in which a quota stopped the processes (cgroup `throttled_usec`).
    pub cpu_throttled: f64,
    /// Cores used by programs that are neither the watched process nor the lab.
    pub others_cores: f64,
    /// Load average of one minute.
    pub load1: f64,
    /// Bytes available without swapping (`MemAvailable`).
    pub memory_available: u64,
    /// Bytes of page cache.
    pub memory_cached: u64,
    /// Bytes to be written back.
    pub memory_dirty: u64,
    /// Pages read from swap per second.
    #[serde(rename = "swap_in_per_s", alias = "swap_in")]
    pub swap_in: u64,
    /// Pages written to swap per second.
    #[serde(rename = "swap_out_per_s", alias = "swap_out")]
    pub swap_out: u64,
    /// Percent of time in which everything waited for the disk (`/proc/pressure/io`, full, 10 s).
    pub io_pressure: f64,
    /// Bytes read from the store's device per second.
    #[serde(rename = "disk_read_bytes_per_s", alias = "disk_read")]
    pub disk_read: u64,
    /// Bytes written to it per second.
    #[serde(rename = "disk_written_bytes_per_s", alias = "disk_written")]
    pub disk_written: u64,
    /// Reads finished per second.
    #[serde(rename = "disk_reads_per_s", alias = "disk_reads")]
    pub disk_reads: u64,
    /// Writes finished per second.
    #[serde(rename = "disk_writes_per_s", alias = "disk_writes")]
    pub disk_writes: u64,
    /// Mean time of a read, milliseconds.
    pub disk_read_await_ms: f64,
    /// Mean time of a write, milliseconds.
    pub disk_write_await_ms: f64,
    /// Share of the second in which it had work, 0 to 1.
    pub disk_util: f64,
    /// Bytes received per second, loopback included only where the lab drives over it.
    #[serde(rename = "net_in_bytes_per_s", alias = "net_in")]
    pub net_in: u64,
    /// Bytes sent per second.
    #[serde(rename = "net_out_bytes_per_s", alias = "net_out")]
    pub net_out: u64,
    /// Those of them over loopback, in each direction.
    #[serde(rename = "net_loopback_bytes_per_s", alias = "net_loopback")]
    pub net_loopback: u64,
    /// TCP segments sent again per second.
    #[serde(rename = "net_retransmits_per_s", alias = "net_retransmits")]
    pub net_retransmits: u64,
    /// Bytes to other machines that those had not confirmed at the end of the second.
    pub net_unacked: u64,
    /// Cores used by the watched process.
    pub process_cores: f64,
    /// Cores it could have used more: its threads were ready and had no processor.
    pub process_waiting: f64,
    /// Its threads that waited for the disk at the end of the second.
    pub process_blocked: u64,
    /// Its resident bytes.
    pub process_memory: u64,
    /// Its anonymous resident bytes.
    pub process_anonymous: u64,
    /// Its threads.
    pub process_threads: u64,
    /// Its context switches per second.
    #[serde(rename = "process_switches_per_s", alias = "process_switches")]
    pub process_switches: u64,
    /// Its open descriptors.
    pub process_files: u64,
    /// Young collections (Java).
    pub gc_young: u64,
    /// Full collections (Java).
    pub gc_full: u64,
    /// Milliseconds in which the collector or a safepoint stopped everything (Java).
    pub gc_pause_ms: f64,
    /// The longest of these pauses.
    pub gc_pause_max_ms: f64,
}

/// A second of one broker, by its own figures (request 28).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerSecond {
    /// End of the interval.
    pub at_ms: u64,
    /// Its length; 0 for the first, and in runs of older labs.
    pub lasted_ms: u64,
    /// Messages stored per second.
    pub put_tps: f64,
    /// Messages given to consumers per second.
    pub get_tps: f64,
    /// How long an append has held the page cache, or took where none since the start took longer, milliseconds.
    pub put_max_ms: f64,
    /// Bytes not yet indexed (`dispatchBehindBytes`).
    pub dispatch_behind: u64,
    /// Bytes the furthest slave is behind.
    pub replica_behind: u64,
    /// Bytes not yet flushed.
    pub flush_behind: u64,
    /// Requests waiting to be sent (`sendThreadPoolQueueSize`).
    pub send_queue: u64,
    /// Requests refused so far, all causes.
    pub refused_total: u64,
    /// Those of each cause, in the broker's words: `refusedBehind=12 refusedDiskFull=3`.
    pub refused_causes: String,
    /// Files of the log that were begun.
    pub rolls: u64,
    /// Bytes of the log that were removed.
    pub removed: u64,
    /// When the broker started by its own clock, milliseconds since 1970; 0 where it does not say.
    pub started_ms: u64,
}

impl BrokerSecond {
    /// Requests refused so far by cause, as far as the broker tells them apart.
    pub fn refused(&self) -> impl Iterator<Item = (&str, u64)> {
        let causes = self.refused_causes.split(' ').filter_map(|cause| cause.split_once('='));
        causes.filter_map(|(cause, count)| Some((cause, count.parse().ok()?)))
    }
}

/// Kind of the event that a broker answers as another process than before.
pub const BROKER_RESTARTED: &str = "broker-restarted";
/// Kind of the event that a broker does not answer any more.
pub const BROKER_AWAY: &str = "broker-away";
/// Kind of the event that a broker which was away answers again.
pub const BROKER_BACK: &str = "broker-back";

/// Something that happened at a moment, for the report's time axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// When it began.
    pub at_ms: u64,
    /// Host or broker; empty for the lab itself.
    pub node: String,
    /// `flow-control`, `no-answer`, `steal`, `agent-lost`, `broker-away`, `consumers-start`, `drain`, …
    pub kind: String,
    /// What it was, for people.
    pub detail: String,
    /// How long, milliseconds; 0 for a moment.
    pub lasted_ms: u64,
}
