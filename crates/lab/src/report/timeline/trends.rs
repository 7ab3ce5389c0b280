//! The trends of a step: those of the earlier report 004 (docs/lab.md), plus network in both directions,
//! end-to-end latency and pauses.

use super::Timeline;
use crate::archive::{BrokerSecond, HostSecond, LoadSecond};
use crate::judge::{Text, both};
use crate::report::chart::{Line, Mark, average, largest};

/// A trend that is drawn over time; some are about a single machine or broker.
#[derive(Clone, Debug, Default)]
pub struct Trend {
    /// Title of the trend.
    pub title: Text,
    /// Unit of the vertical axis.
    pub up: Text,
    /// Lines of the trend; the same ones in the same order for every step of a run.
    pub lines: Vec<Line>,
    /// Limit with which the values are compared.
    pub limit: Option<Mark>,
}

fn line(name: Text, points: Vec<(f64, f64)>) -> Line {
    Line { name, points, labels: Vec::new() }
}

/// A title with the name of the machine or broker, if there are several.
fn titled(title: Text, name: &str, all: &[String]) -> Text {
    if all.len() < 2 {
        return title;
    }
    both!("trends.name", title, name)
}

impl Timeline<'_> {
    /// The trends of rate, latency and processors, for the details of a cell.
    pub fn essentials(&self) -> Vec<Trend> {
        let mut trends = vec![self.rate(), self.latency()];
        trends.extend(self.hosts.iter().map(|host| self.processors(host)));
        trends
    }

    /// Every trend, separately for each machine and broker.
    pub fn trends(&self) -> Vec<Trend> {
        let mut trends = vec![self.rate(), self.latency(), self.end_to_end()];
        for host in &self.hosts {
            trends.extend([
                self.processors(host),
                self.load_average(host),
                self.cores(host),
                self.memory(host),
                self.swap(host),
                self.disk_bytes(host),
                self.disk_requests(host),
                self.disk_busy(host),
                self.network(host),
            ]);
        }
        trends.push(self.pauses());
        trends.extend(self.brokers.iter().map(|broker| self.behind(broker)));
        trends
    }

    fn rate(&self) -> Trend {
        let lines = vec![
            line(both!("trends.sent"), self.rate_of(LoadSecond::sent_rate, average)),
            line(both!("trends.consumed"), self.rate_of(LoadSecond::consumed_rate, average)),
            line(both!("trends.refused-or-failed"), self.rate_of(LoadSecond::unstored_rate, largest)),
        ];
        Trend { title: both!("trends.rate"), up: Text::same("msg/s"), lines, limit: None }
    }

    fn latency(&self) -> Trend {
        let of = |name: &str, value: fn(&LoadSecond) -> u64| {
            line(Text::same(name), self.load(move |row| value(row) as f64 / 1_000.0, largest))
        };
        let lines =
            vec![of("p50", |row| row.p50_us), of("p99", |row| row.p99_us), of("p99.9", |row| row.p999_us)];
        Trend { title: both!("trends.send-latency"), up: Text::same("ms"), lines, limit: None }
    }

    fn end_to_end(&self) -> Trend {
        let of = |name: &str, value: fn(&LoadSecond) -> u64| {
            line(Text::same(name), self.load(move |row| value(row) as f64 / 1_000.0, largest))
        };
        let lines = vec![of("p50", |row| row.end_to_end_p50_us), of("p99", |row| row.end_to_end_p99_us)];
        let title = both!("trends.end-end-latency-from");
        Trend { title, up: Text::same("ms"), lines, limit: None }
    }

    fn of_host(&self, host: &str, (title, up): (Text, &str), lines: Vec<Line>) -> Trend {
        Trend { title: titled(title, host, &self.hosts), up: Text::same(up), lines, limit: None }
    }

    fn processors(&self, host: &str) -> Trend {
        let of = |name: Text, value: fn(&HostSecond) -> f64| {
            line(name, self.host(host, move |row| value(row) * 100.0))
        };
        let lines = vec![
            of(Text::same("us"), |row| row.cpu_user),
            of(Text::same("sy"), |row| row.cpu_system),
            of(Text::same("wa"), |row| row.cpu_iowait),
            of(Text::same("st"), |row| row.cpu_steal),
            of(both!("trends.stopped-quota"), |row| row.cpu_throttled),
        ];
        let title = both!("trends.cpu-broker-s-machine");
        self.of_host(host, (title, "%"), lines)
    }

    fn load_average(&self, host: &str) -> Trend {
        let points = self.host(host, |row| row.load1);
        let highest = largest(&points);
        let lines = vec![line(Text::same("load1"), points)];
        let trend = self.of_host(host, (both!("trends.load-average-one-minute"), "load1"), lines);
        let cores = self.cores_of(host).filter(|cores| highest > 0.4 * cores);
        let limit = cores.map(|at| Mark { at, name: both!("trends.cores", at) });
        Trend { limit, ..trend }
    }

    fn cores(&self, host: &str) -> Trend {
        let lines = vec![line(both!("trends.cores-used-broker"), self.host(host, |row| row.process_cores))];
        let title = both!("trends.cores-used-broker-s");
        Trend { up: both!("trends.cores-2"), ..self.of_host(host, (title, ""), lines) }
    }

    fn memory(&self, host: &str) -> Trend {
        let of = |name: Text, value: fn(&HostSecond) -> u64| {
            line(name, self.host(host, move |row| value(row) as f64 / 1e9))
        };
        let lines = vec![
            of(both!("trends.available"), |row| row.memory_available),
            of(both!("trends.page-cache"), |row| row.memory_cached),
            of(both!("trends.dirty"), |row| row.memory_dirty),
            of(both!("trends.anonymous-broker"), |row| row.process_anonymous),
        ];
        self.of_host(host, (both!("trends.memory"), "GB"), lines)
    }

    fn swap(&self, host: &str) -> Trend {
        let of = |name: Text, value: fn(&HostSecond) -> u64| {
            line(name, self.host(host, move |row| (value(row) * 4_096) as f64 / 1e6))
        };
        let lines = vec![
            of(both!("trends.swapped"), |row| row.swap_in),
            of(both!("trends.swapped-out"), |row| row.swap_out),
        ];
        self.of_host(host, (both!("trends.swapping"), "MB/s"), lines)
    }

    fn disk_bytes(&self, host: &str) -> Trend {
        let lines = vec![
            line(both!("trends.read"), self.host(host, |row| row.disk_read as f64 / 1e6)),
            line(both!("trends.written"), self.host(host, |row| row.disk_written as f64 / 1e6)),
        ];
        self.of_host(host, (both!("trends.disk-throughput"), "MB/s"), lines)
    }

    fn disk_requests(&self, host: &str) -> Trend {
        let lines = vec![
            line(both!("trends.reads"), self.host(host, |row| row.disk_reads as f64)),
            line(both!("trends.writes"), self.host(host, |row| row.disk_writes as f64)),
        ];
        self.of_host(host, (both!("trends.disk-requests"), "1/s"), lines)
    }

    fn disk_busy(&self, host: &str) -> Trend {
        let lines = vec![
            line(Text::same("util"), self.host(host, |row| row.disk_util * 100.0)),
            line(Text::same("PSI io.full"), self.host(host, |row| row.io_pressure)),
        ];
        self.of_host(host, (both!("trends.disk-busy"), "%"), lines)
    }

    fn network(&self, host: &str) -> Trend {
        let lines = vec![
            line(Text::same("NETIN"), self.host(host, |row| row.net_in as f64 / 1e6)),
            line(Text::same("NETOUT"), self.host(host, |row| row.net_out as f64 / 1e6)),
        ];
        self.of_host(host, (both!("trends.network-each-direction"), "MB/s"), lines)
    }

    fn pauses(&self) -> Trend {
        let hosts = self.hosts.iter().map(|host| {
            let title = titled(both!("trends.collector-pauses"), host, &self.hosts);
            line(title, self.host(host, |row| row.gc_pause_ms))
        });
        let brokers = self.brokers.iter().map(|broker| {
            let title = titled(both!("trends.longest-append"), broker, &self.brokers);
            line(title, self.broker(broker, |row| row.put_max_ms))
        });
        let lines = hosts.chain(brokers).collect();
        Trend { title: both!("trends.pauses"), up: Text::same("ms"), lines, limit: None }
    }

    fn behind(&self, broker: &str) -> Trend {
        let of = |name: Text, value: fn(&BrokerSecond) -> u64| {
            line(name, self.broker(broker, move |row| value(row) as f64 / 1e6))
        };
        let lines = vec![
            of(both!("trends.not-flushed"), |row| row.flush_behind),
            of(both!("trends.not-replicated"), |row| row.replica_behind),
            of(both!("trends.not-indexed"), |row| row.dispatch_behind),
        ];
        let title = titled(both!("trends.bytes-behind"), broker, &self.brokers);
        Trend { title, up: Text::same("MB"), lines, limit: None }
    }
}
