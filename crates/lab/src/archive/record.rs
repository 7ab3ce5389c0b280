//! A run in memory, as it was read from its directory or made by a test.

use super::{
    Archive, BROKER_AWAY, BROKER_RESTARTED, BrokerSecond, Cell, Event, Factors, HostFile, HostSecond,
    LoadSecond, Phase, Round, RunFile, Sparse,
};
use crate::Error;
use std::collections::BTreeMap;
use std::path::Path;

/// Everything that a run measured.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The content of `run.json`.
    pub file: RunFile,
    /// The cells in the order in which they were run. An unfinished cell holds what was recorded.
    pub cells: Vec<RecordedCell>,
}

/// A cell with its recorded series.
#[derive(Clone, Debug, Default)]
pub struct RecordedCell {
    /// The content of `cell.json`.
    pub cell: Cell,
    /// The series of the repeats; index 0 holds repeat 1.
    pub repeats: Vec<Repeat>,
}

/// The recorded series of one repeat.
#[derive(Clone, Debug, Default)]
pub struct Repeat {
    /// Rows of `load.csv`.
    pub load: Vec<LoadSecond>,
    /// `latency.hlog`: end of each interval, and its send latencies in microseconds.
    pub latency: Vec<(u64, Sparse)>,
    /// `end-to-end.hlog`: end of each interval, and its times from send to consumption in microseconds.
    pub end_to_end: Vec<(u64, Sparse)>,
    /// `late.hlog`: end of each interval, and how late the requests of an open loop were sent, in microseconds.
    pub late: Vec<(u64, Sparse)>,
    /// Rows of `host-NAME.csv` by the name of the machine.
    pub hosts: BTreeMap<String, Vec<HostSecond>>,
    /// Rows of `broker-NAME.csv` by the name of the broker.
    pub brokers: BTreeMap<String, Vec<BrokerSecond>>,
    /// Rows of `events.csv`.
    pub events: Vec<Event>,
    /// The content of `round.json`; `None` when the repeat is no round of a failover run.
    pub round: Option<Round>,
}

/// The rows of one repeat between two times, on which rules work.
#[derive(Clone, Debug, Default)]
pub struct Window<'a> {
    /// Factors of the cell.
    pub factors: Option<&'a Factors>,
    /// Rows of the load.
    pub load: &'a [LoadSecond],
    /// Rows of each machine, the lab's own first.
    pub hosts: Vec<(&'a HostFile, &'a [HostSecond])>,
    /// Rows of each broker, with the broker's name.
    pub brokers: Vec<(&'a str, &'a [BrokerSecond])>,
    /// Send latencies of each second, with the end of the second.
    pub latency: &'a [(u64, Sparse)],
    /// Times from send to consumption of each second, with the end of the second.
    pub end_to_end: &'a [(u64, Sparse)],
    /// Lateness of the requests of an open loop in each second, with the end of the second.
    pub late: &'a [(u64, Sparse)],
    /// Events between the two times.
    pub events: &'a [Event],
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Events of brokers that were away or restarted since the repeat began. This includes the warm-up, because a
    /// broker that restarts then loses what the warm-up achieved.
    pub outages: Vec<&'a Event>,
}

impl Record {
    /// Reads a run's directory.
    ///
    /// # Errors
    /// [`Error::File`] when the directory holds no run, or one of its files cannot be read.
    pub fn read(root: &Path) -> Result<Self, Error> {
        Archive::open(root)?.record()
    }

    /// The phase `name` of each repeat. When a repeat has no such phase and `name` is `steady`, the whole repeat.
    pub fn windows<'a>(&'a self, cell: &'a RecordedCell, name: &str) -> Vec<Window<'a>> {
        let repeats = (1_u32..).zip(&cell.repeats);
        repeats.filter_map(|(number, repeat)| self.window(cell, (number, repeat), name)).collect()
    }

    fn window<'a>(
        &'a self,
        cell: &'a RecordedCell,
        (number, repeat): (u32, &'a Repeat),
        name: &str,
    ) -> Option<Window<'a>> {
        let named = |phase: &&Phase| phase.repeat == number && phase.name == name;
        let (from, to) = match cell.cell.phases.iter().find(named) {
            Some(phase) => (phase.from_ms, phase.to_ms),
            None if name == "steady" && cell.cell.phases.iter().all(|phase| phase.repeat != number) => {
                (0, u64::MAX)
            }
            None => return None,
        };
        let hosts = self.file.hosts.iter().filter_map(|host| {
            let seconds = repeat.hosts.get(&host.name)?;
            Some((host, within(seconds, (from, to), |second| second.at_ms)))
        });
        let brokers = repeat
            .brokers
            .iter()
            .map(|(broker, seconds)| (broker.as_str(), within(seconds, (from, to), |second| second.at_ms)));
        Some(Window {
            factors: Some(&cell.cell.factors),
            load: within(&repeat.load, (from, to), |second| second.at_ms),
            hosts: hosts.collect(),
            brokers: brokers.collect(),
            latency: within(&repeat.latency, (from, to), |interval| interval.0),
            end_to_end: within(&repeat.end_to_end, (from, to), |interval| interval.0),
            late: within(&repeat.late, (from, to), |interval| interval.0),
            events: within(&repeat.events, (from, to), |event| event.at_ms + 1),
            repeat: number,
            outages: outages(&repeat.events, to),
        })
    }
}

/// Events before time `to` of brokers that were away or restarted.
fn outages(events: &[Event], to: u64) -> Vec<&Event> {
    let is_outage = |event: &&Event| [BROKER_AWAY, BROKER_RESTARTED].contains(&event.kind.as_str());
    events.iter().take_while(|event| event.at_ms < to).filter(is_outage).collect()
}

/// The rows whose interval ended after `from` and no later than `to`. The rows must be in order of time.
fn within<T>(rows: &[T], (from, to): (u64, u64), end: impl Fn(&T) -> u64) -> &[T] {
    let first = rows.partition_point(|row| end(row) <= from);
    let last = rows.partition_point(|row| end(row) <= to);
    &rows[first..last.max(first)]
}
