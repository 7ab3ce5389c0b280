//! What was measured second by second, aligned on one axis of time: the seven trends of seed 004, network in and
//! out, end-to-end latency and pauses, with events as marks.

mod marks;

use self::marks::{Mark, is_routine, marks};
use super::chart::{Chart, average, largest, thinned};
use super::figure::Figure;
use crate::archive::{BrokerSecond, HostSecond, LoadSecond, Record, RecordedCell, Repeat};
use crate::judge::conclusion::Conclusion;
use crate::judge::figures::broker_host_names;
use crate::judge::{Text, both};
use maud::{Markup, html};

/// Runs shorter than this are shown in seconds.
const SHORT_MS: u64 = 180_000;

/// The repeats that are drawn, on one axis.
pub struct Timeline<'a> {
    repeats: Vec<&'a Repeat>,
    start_ms: u64,
    /// Ends of the axis.
    range: (f64, f64),
    /// Milliseconds of its unit, and what it is called.
    unit: (f64, &'static str),
    marks: Vec<Mark>,
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
        // Where every cell begins and ends says nothing about the run; what happened in between does.
        let events = line.events(|kind| !is_routine(kind));
        line.marks = marks(events, begins.collect(), line.range.1);
        line
    }

    /// The repeats of one cell.
    #[must_use]
    pub fn of_cell(record: &'a Record, cell: &'a RecordedCell) -> Self {
        let name = &cell.cell.name;
        let files = vec![format!("cells/{name}/1/load.csv")];
        let mut line = Self::new(record, cell.repeats.iter().collect(), files);
        line.add_host_file(name);
        let events = line.events(|kind| !is_routine(kind));
        line.marks = marks(events, line.events(is_routine), line.range.1);
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
        Self { repeats, start_ms, range, unit, marks: Vec::new(), files, hosts, brokers }
    }

    /// Events of some kinds, at their moments on the axis.
    fn events(&self, only: impl Fn(&str) -> bool) -> Vec<Mark> {
        let events = self.repeats.iter().flat_map(|repeat| &repeat.events).filter(|event| only(&event.kind));
        events.map(|event| (self.time(event.at_ms), event.kind.clone())).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Event;
    use crate::judge::fixture;
    use crate::judge::guards::Limits;

    #[test]
    fn what_happened_late_in_a_long_run_is_marked() {
        let cells = [(10, 9_000.0), (60, 20_000.0)].map(|(threads, tps)| (fixture::factors(threads), tps));
        let mut record = fixture::record(&cells);
        let event = |at_ms, kind: &str| Event { at_ms, kind: kind.to_owned(), ..Event::default() };
        for repeat in record.cells.iter_mut().flat_map(|cell| &mut cell.repeats) {
            let seconds = repeat.load.iter().map(|second| second.at_ms);
            repeat.events = seconds.map(|at_ms| event(at_ms, "producers-start")).collect();
        }
        let last = record.cells[1].repeats[2].load[50].at_ms;
        record.cells[1].repeats[2].events.push(event(last, "agent-lost"));
        let has = |line: &Timeline<'_>, kind: &str| line.marks.iter().any(|(_, label)| label == kind);
        let run = Conclusion::new(&record, &Limits::default());
        let whole = Timeline::of_run(&run);
        assert!(has(&whole, "agent-lost") && !has(&whole, "producers-start"), "{:?}", whole.marks);
        let cell = Timeline::of_cell(&record, &record.cells[1]);
        assert!(has(&cell, "agent-lost") && has(&cell, "producers-start"), "{:?}", cell.marks);
    }
}
