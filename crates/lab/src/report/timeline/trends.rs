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
    let (en, zh) = (title.en, title.zh);
    both!("{en}: {name}", "{zh}：{name}")
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
            line(both!("sent", "发送"), self.rate_of(LoadSecond::sent_rate, average)),
            line(both!("consumed", "消费"), self.rate_of(LoadSecond::consumed_rate, average)),
            line(both!("refused or failed", "拒绝或失败"), self.rate_of(LoadSecond::unstored_rate, largest)),
        ];
        Trend { title: both!("Rate", "TPS"), up: Text::same("msg/s"), lines, limit: None }
    }

    fn latency(&self) -> Trend {
        let of = |name: &str, value: fn(&LoadSecond) -> u64| {
            line(Text::same(name), self.load(move |row| value(row) as f64 / 1_000.0, largest))
        };
        let lines =
            vec![of("p50", |row| row.p50_us), of("p99", |row| row.p99_us), of("p99.9", |row| row.p999_us)];
        Trend { title: both!("Send latency", "发送时延"), up: Text::same("ms"), lines, limit: None }
    }

    fn end_to_end(&self) -> Trend {
        let of = |name: &str, value: fn(&LoadSecond) -> u64| {
            line(Text::same(name), self.load(move |row| value(row) as f64 / 1_000.0, largest))
        };
        let lines = vec![of("p50", |row| row.end_to_end_p50_us), of("p99", |row| row.end_to_end_p99_us)];
        let title = both!("End-to-end latency (from send to consume)", "端到端时延（发送到消费）");
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
            of(both!("stopped by quota", "配额限流"), |row| row.cpu_throttled),
        ];
        let title = both!("CPU of the broker's machine, share of all cores", "Broker 主机 CPU（占全部核）");
        self.of_host(host, (title, "%"), lines)
    }

    fn load_average(&self, host: &str) -> Trend {
        let points = self.host(host, |row| row.load1);
        let highest = largest(&points);
        let lines = vec![line(Text::same("load1"), points)];
        let trend =
            self.of_host(host, (both!("Load average of one minute", "Load（1 分钟）"), "load1"), lines);
        let cores = self.cores_of(host).filter(|cores| highest > 0.4 * cores);
        let limit = cores.map(|at| Mark { at, name: both!("{at} cores", "{at} 核") });
        Trend { limit, ..trend }
    }

    fn cores(&self, host: &str) -> Trend {
        let lines = vec![line(
            both!("cores used by the broker", "Broker 使用的核数"),
            self.host(host, |row| row.process_cores),
        )];
        let title = both!("Cores used by the broker's process", "Broker 进程使用的核数");
        Trend { up: both!("cores", "核"), ..self.of_host(host, (title, ""), lines) }
    }

    fn memory(&self, host: &str) -> Trend {
        let of = |name: Text, value: fn(&HostSecond) -> u64| {
            line(name, self.host(host, move |row| value(row) as f64 / 1e9))
        };
        let lines = vec![
            of(both!("available", "可用"), |row| row.memory_available),
            of(both!("page cache", "页缓存"), |row| row.memory_cached),
            of(both!("dirty", "脏页"), |row| row.memory_dirty),
            of(both!("anonymous, broker", "Broker 匿名内存"), |row| row.process_anonymous),
        ];
        self.of_host(host, (both!("Memory", "内存"), "GB"), lines)
    }

    fn swap(&self, host: &str) -> Trend {
        let of = |name: Text, value: fn(&HostSecond) -> u64| {
            line(name, self.host(host, move |row| (value(row) * 4_096) as f64 / 1e6))
        };
        let lines = vec![
            of(both!("swapped in", "换入"), |row| row.swap_in),
            of(both!("swapped out", "换出"), |row| row.swap_out),
        ];
        self.of_host(host, (both!("Swapping", "换页"), "MB/s"), lines)
    }

    fn disk_bytes(&self, host: &str) -> Trend {
        let lines = vec![
            line(both!("read", "读"), self.host(host, |row| row.disk_read as f64 / 1e6)),
            line(both!("written", "写"), self.host(host, |row| row.disk_written as f64 / 1e6)),
        ];
        self.of_host(host, (both!("Disk throughput", "磁盘吞吐量"), "MB/s"), lines)
    }

    fn disk_requests(&self, host: &str) -> Trend {
        let lines = vec![
            line(both!("reads", "读"), self.host(host, |row| row.disk_reads as f64)),
            line(both!("writes", "写"), self.host(host, |row| row.disk_writes as f64)),
        ];
        self.of_host(host, (both!("Disk requests", "磁盘 IOPS"), "1/s"), lines)
    }

    fn disk_busy(&self, host: &str) -> Trend {
        let lines = vec![
            line(Text::same("util"), self.host(host, |row| row.disk_util * 100.0)),
            line(Text::same("PSI io.full"), self.host(host, |row| row.io_pressure)),
        ];
        self.of_host(host, (both!("Disk busy", "IO 百分比"), "%"), lines)
    }

    fn network(&self, host: &str) -> Trend {
        let lines = vec![
            line(Text::same("NETIN"), self.host(host, |row| row.net_in as f64 / 1e6)),
            line(Text::same("NETOUT"), self.host(host, |row| row.net_out as f64 / 1e6)),
        ];
        self.of_host(host, (both!("Network, each direction", "网络（分方向）"), "MB/s"), lines)
    }

    fn pauses(&self) -> Trend {
        let hosts = self.hosts.iter().map(|host| {
            let title = titled(both!("collector pauses", "GC 停顿"), host, &self.hosts);
            line(title, self.host(host, |row| row.gc_pause_ms))
        });
        let brokers = self.brokers.iter().map(|broker| {
            let title = titled(both!("longest append", "最长写入"), broker, &self.brokers);
            line(title, self.broker(broker, |row| row.put_max_ms))
        });
        let lines = hosts.chain(brokers).collect();
        Trend { title: both!("Pauses", "停顿"), up: Text::same("ms"), lines, limit: None }
    }

    fn behind(&self, broker: &str) -> Trend {
        let of = |name: Text, value: fn(&BrokerSecond) -> u64| {
            line(name, self.broker(broker, move |row| value(row) as f64 / 1e6))
        };
        let lines = vec![
            of(both!("not flushed", "未刷盘"), |row| row.flush_behind),
            of(both!("not replicated", "未复制"), |row| row.replica_behind),
            of(both!("not indexed", "未分发"), |row| row.dispatch_behind),
        ];
        let title = titled(both!("Bytes behind", "落后字节数"), broker, &self.brokers);
        Trend { title, up: Text::same("MB"), lines, limit: None }
    }
}
