//! What was measured second by second, aligned on one axis of time: the seven trends of seed 004, network in and
//! out, end-to-end latency and pauses, with events as marks.

use super::chart::{Chart, average, largest, thinned};
use super::figure::Figure;
use crate::archive::{BrokerSecond, HostSecond, LoadSecond, Record, RecordedCell, Repeat};
use crate::judge::conclusion::Conclusion;
use crate::judge::figures::broker_host_names;
use crate::judge::{Text, both};
use maud::{Markup, html};

/// Runs shorter than this are shown in seconds.
const SHORT_MS: u64 = 180_000;

/// Most marks in a chart; more would hide the lines.
const MARKS_MAX: usize = 40;

/// Share of the axis that a label takes.
const LABEL_ROOM: f64 = 0.06;

/// Events that every cell has.
fn is_routine(kind: &str) -> bool {
    ["-start", "-stop", "-stopped", "-started"].iter().any(|end| kind.ends_with(end))
        || ["start", "stop", "warmup", "steady"].contains(&kind)
}

/// The repeats that are drawn, on one axis.
pub struct Timeline<'a> {
    repeats: Vec<&'a Repeat>,
    start_ms: u64,
    /// Ends of the axis.
    range: (f64, f64),
    /// Milliseconds of its unit, and what it is called.
    unit: (f64, &'static str),
    marks: Vec<(f64, String)>,
    files: Vec<String>,
    /// Machines with brokers, and brokers.
    hosts: Vec<String>,
    brokers: Vec<String>,
}

impl<'a> Timeline<'a> {
    /// The whole run: every repeat of every cell, where a cell begins marked with its number, and with a cross where
    /// it is invalid.
    #[must_use]
    pub fn of_run(run: &Conclusion<'a>) -> Self {
        let record = run.record;
        let repeats: Vec<&Repeat> = record.cells.iter().flat_map(|cell| &cell.repeats).collect();
        let mut line = Self::new(
            record,
            repeats,
            vec!["cells/*/*/load.csv".to_owned(), "cells/*/*/host-*.csv".to_owned()],
        );
        let begins = run.cells.iter().filter_map(|case| {
            let first = case.judged.cell.repeats.first()?.load.first()?.at_ms.saturating_sub(1_000);
            let cross = if case.judged.figures().is_some() { "" } else { " ×" };
            Some((line.time(first), format!("#{}{cross}", case.judged.cell.cell.number)))
        });
        let begins: Vec<(f64, String)> = begins.collect();
        // Where every cell begins and ends says nothing about the run; what happened in between does.
        line.marks.retain(|(_, kind)| !is_routine(kind));
        line.marks.splice(0..0, begins);
        line.marks.truncate(MARKS_MAX);
        line.space_labels();
        line
    }

    /// The repeats of one cell.
    #[must_use]
    pub fn of_cell(record: &'a Record, cell: &'a RecordedCell) -> Self {
        let name = &cell.cell.name;
        let files = vec![format!("cells/{name}/1/load.csv")];
        let mut line = Self::new(record, cell.repeats.iter().collect(), files);
        line.add_host_file(name);
        line.space_labels();
        line
    }

    fn new(record: &Record, repeats: Vec<&'a Repeat>, files: Vec<String>) -> Self {
        let moments = || repeats.iter().flat_map(|repeat| repeat.load.iter().map(|second| second.at_ms));
        let start_ms = moments().min().unwrap_or(0).saturating_sub(1_000);
        let end = moments().max().unwrap_or(0);
        let hosts = broker_host_names(&record.file).into_iter().map(str::to_owned).collect();
        let mut brokers: Vec<String> =
            repeats.iter().flat_map(|repeat| repeat.brokers.keys().cloned()).collect();
        brokers.sort();
        brokers.dedup();
        let unit =
            if end.saturating_sub(start_ms) < SHORT_MS { (1_000.0, "t, s") } else { (60_000.0, "t, min") };
        let range = (0.0, end.saturating_sub(start_ms) as f64 / unit.0);
        let mut line = Self { repeats, start_ms, range, unit, marks: Vec::new(), files, hosts, brokers };
        let events = line.repeats.iter().flat_map(|repeat| &repeat.events);
        let marks =
            events.map(|event| (line.time(event.at_ms), event.kind.clone())).take(MARKS_MAX).collect();
        line.marks = marks;
        line
    }

    /// Leaves out what is written at marks that stand too close to one that has its words already.
    fn space_labels(&mut self) {
        self.marks.sort_by(|one, other| one.0.total_cmp(&other.0));
        let room = (self.range.1 - self.range.0) * LABEL_ROOM;
        let mut last = f64::NEG_INFINITY;
        for (at, label) in &mut self.marks {
            if *at - last < room {
                label.clear();
            } else {
                last = *at;
            }
        }
    }

    fn add_host_file(&mut self, cell: &str) {
        self.files.extend(self.hosts.iter().map(|host| format!("cells/{cell}/1/host-{host}.csv")));
    }

    fn time(&self, at_ms: u64) -> f64 {
        (at_ms as f64 - self.start_ms as f64) / self.unit.0
    }

    fn load(&self, value: impl Fn(&LoadSecond) -> f64, join: fn(&[(f64, f64)]) -> f64) -> Vec<(f64, f64)> {
        let rows = self.repeats.iter().flat_map(|repeat| &repeat.load);
        thinned(&rows.map(|row| (self.time(row.at_ms), value(row))).collect::<Vec<_>>(), join)
    }

    fn host(&self, host: &str, value: impl Fn(&HostSecond) -> f64) -> Vec<(f64, f64)> {
        let rows = self.repeats.iter().filter_map(|repeat| repeat.hosts.get(host)).flatten();
        thinned(&rows.map(|row| (self.time(row.at_ms), value(row))).collect::<Vec<_>>(), average)
    }

    fn broker(&self, broker: &str, value: impl Fn(&BrokerSecond) -> f64) -> Vec<(f64, f64)> {
        let rows = self.repeats.iter().filter_map(|repeat| repeat.brokers.get(broker)).flatten();
        thinned(&rows.map(|row| (self.time(row.at_ms), value(row))).collect::<Vec<_>>(), largest)
    }

    fn figure(&self, title: Text, up: &'static str, lines: Vec<(Text, Vec<(f64, f64)>)>) -> Markup {
        let shown: Vec<(Text, Vec<(f64, f64)>)> =
            lines.into_iter().filter(|line| line.1.iter().any(|point| point.1 != 0.0)).collect();
        let (legend, lines) = shown.into_iter().unzip();
        let (range, marks) = (Some(self.range), self.marks.clone());
        let chart = Chart { across: self.unit.1, up, lines, range, marks, ..Chart::default() };
        Figure { title, legend, files: &self.files, chart }.markup()
    }

    /// Rate, latency and processors: what a drill-down shows.
    #[must_use]
    pub fn essentials(&self) -> Markup {
        html! { (self.rate()) (self.latency()) @for host in &self.hosts { (self.processors(host)) } }
    }

    /// Every trend, those of machines and brokers for each of them.
    #[must_use]
    pub fn trends(&self) -> Markup {
        html! {
            (self.rate()) (self.latency()) (self.end_to_end())
            @for host in &self.hosts {
                (self.processors(host)) (self.load_average(host)) (self.memory(host))
                (self.disk_bytes(host)) (self.disk_requests(host)) (self.disk_busy(host)) (self.network(host))
            }
            (self.pauses())
            @for broker in &self.brokers { (self.behind(broker)) }
        }
    }

    /// A title with the machine or broker it is about, where there are several.
    fn titled(title: Text, name: &str, all: &[String]) -> Text {
        if all.len() < 2 {
            return title;
        }
        let (en, zh) = (title.en, title.zh);
        both!("{en}: {name}", "{zh}：{name}")
    }

    fn rate(&self) -> Markup {
        let sent = (both!("sent", "发送"), self.load(|row| row.sent as f64, average));
        let consumed = (both!("consumed", "消费"), self.load(|row| row.consumed as f64, average));
        let refused = (
            both!("refused or failed", "拒绝或失败"),
            self.load(|row| (row.refused + row.failed) as f64, largest),
        );
        self.figure(both!("Rate", "TPS"), "msg/s", vec![sent, consumed, refused])
    }

    fn latency(&self) -> Markup {
        let of = |name: &str, value: fn(&LoadSecond) -> u64| {
            (Text::same(name), self.load(move |row| value(row) as f64 / 1_000.0, largest))
        };
        let lines =
            vec![of("p50", |row| row.p50_us), of("p99", |row| row.p99_us), of("p99.9", |row| row.p999_us)];
        self.figure(both!("Send latency", "发送时延"), "ms", lines)
    }

    fn end_to_end(&self) -> Markup {
        let of = |name: &str, value: fn(&LoadSecond) -> u64| {
            (Text::same(name), self.load(move |row| value(row) as f64 / 1_000.0, largest))
        };
        let lines = vec![of("p50", |row| row.end_to_end_p50_us), of("p99", |row| row.end_to_end_p99_us)];
        self.figure(
            both!("End-to-end latency (from send to consume)", "端到端时延（发送到消费）"),
            "ms",
            lines,
        )
    }

    fn processors(&self, host: &str) -> Markup {
        let of = |name: Text, value: fn(&HostSecond) -> f64| {
            (name, self.host(host, move |row| value(row) * 100.0))
        };
        let lines = vec![
            of(Text::same("us"), |row| row.cpu_user),
            of(Text::same("sy"), |row| row.cpu_system),
            of(Text::same("wa"), |row| row.cpu_iowait),
            of(Text::same("st"), |row| row.cpu_steal),
            of(both!("stopped by quota", "配额限流"), |row| row.cpu_throttled),
        ];
        self.figure(
            Self::titled(
                both!("CPU of the broker's machine, share of all cores", "Broker 主机 CPU（占全部核）"),
                host,
                &self.hosts,
            ),
            "%",
            lines,
        )
    }

    fn load_average(&self, host: &str) -> Markup {
        let lines = vec![
            (Text::same("load1"), self.host(host, |row| row.load1)),
            (
                both!("cores used by the broker", "Broker 使用的核数"),
                self.host(host, |row| row.process_cores),
            ),
        ];
        self.figure(
            Self::titled(
                both!("Load average, and cores of the process", "Load 与进程使用核数"),
                host,
                &self.hosts,
            ),
            "CPU",
            lines,
        )
    }

    fn memory(&self, host: &str) -> Markup {
        let of = |name: Text, value: fn(&HostSecond) -> u64| {
            (name, self.host(host, move |row| value(row) as f64 / 1e9))
        };
        let lines = vec![
            of(both!("available", "可用"), |row| row.memory_available),
            of(both!("page cache", "cached"), |row| row.memory_cached),
            of(both!("dirty", "脏页"), |row| row.memory_dirty),
            of(both!("anonymous, broker", "Broker 匿名内存"), |row| row.process_anonymous),
            of(both!("swapped pages × 4 kB", "换页"), |row| (row.swap_in + row.swap_out) * 4_096),
        ];
        self.figure(Self::titled(both!("Memory", "内存"), host, &self.hosts), "GB", lines)
    }

    fn disk_bytes(&self, host: &str) -> Markup {
        let lines = vec![
            (both!("read", "读"), self.host(host, |row| row.disk_read as f64 / 1e6)),
            (both!("written", "写"), self.host(host, |row| row.disk_written as f64 / 1e6)),
        ];
        self.figure(Self::titled(both!("Disk throughput", "磁盘吞吐量"), host, &self.hosts), "MB/s", lines)
    }

    fn disk_requests(&self, host: &str) -> Markup {
        let lines = vec![
            (both!("reads", "读"), self.host(host, |row| row.disk_reads as f64)),
            (both!("writes", "写"), self.host(host, |row| row.disk_writes as f64)),
        ];
        self.figure(Self::titled(both!("Disk requests", "磁盘 IOPS"), host, &self.hosts), "1/s", lines)
    }

    fn disk_busy(&self, host: &str) -> Markup {
        let lines = vec![
            (Text::same("util"), self.host(host, |row| row.disk_util * 100.0)),
            (Text::same("PSI io.full"), self.host(host, |row| row.io_pressure)),
        ];
        self.figure(Self::titled(both!("Disk busy", "IO 百分比"), host, &self.hosts), "%", lines)
    }

    fn network(&self, host: &str) -> Markup {
        let lines = vec![
            (both!("NETIN", "NETIN"), self.host(host, |row| row.net_in as f64 / 1e6)),
            (both!("NETOUT", "NETOUT"), self.host(host, |row| row.net_out as f64 / 1e6)),
        ];
        self.figure(
            Self::titled(both!("Network, each direction", "网络（分方向）"), host, &self.hosts),
            "MB/s",
            lines,
        )
    }

    fn pauses(&self) -> Markup {
        let hosts = self.hosts.iter().map(|host| {
            let title = Self::titled(both!("collector pauses", "GC 停顿"), host, &self.hosts);
            (title, self.host(host, |row| row.gc_pause_ms))
        });
        let brokers = self.brokers.iter().map(|broker| {
            let title = Self::titled(both!("longest append", "最长写入"), broker, &self.brokers);
            (title, self.broker(broker, |row| row.put_max_ms))
        });
        self.figure(both!("Pauses", "停顿"), "ms", hosts.chain(brokers).collect())
    }

    fn behind(&self, broker: &str) -> Markup {
        let of = |name: Text, value: fn(&BrokerSecond) -> u64| {
            (name, self.broker(broker, move |row| value(row) as f64 / 1e6))
        };
        let lines = vec![
            of(both!("not flushed", "未刷盘"), |row| row.flush_behind),
            of(both!("not replicated", "未复制"), |row| row.replica_behind),
            of(both!("not indexed", "未分发"), |row| row.dispatch_behind),
        ];
        self.figure(Self::titled(both!("Bytes behind", "落后字节数"), broker, &self.brokers), "MB", lines)
    }
}
