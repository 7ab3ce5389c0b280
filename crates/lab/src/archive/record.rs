//! A run in memory, as it was read from its directory or made by a test.

use super::{
    Archive, BROKER_AWAY, BROKER_RESTARTED, BrokerSecond, Cell, Event, Factors, HostFile, HostSecond,
    LoadSecond, Phase, RunFile, Sparse,
};
use crate::Error;
use std::collections::BTreeMap;
use std::path::Path;

/// Everything a run measured.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// `run.json`.
    pub file: RunFile,
    /// The cells, in the order of running; of one that is not finished what there is of it.
    pub cells: Vec<RecordedCell>,
}

/// A cell with its series.
#[derive(Clone, Debug, Default)]
pub struct RecordedCell {
    /// `cell.json`.
    pub cell: Cell,
    /// The series of each repeat, the first at 0.
    pub repeats: Vec<Repeat>,
}

/// The series of one repeat.
#[derive(Clone, Debug, Default)]
pub struct Repeat {
    /// `load.csv`.
    pub load: Vec<LoadSecond>,
    /// `latency.hlog`: end of each interval, and its send latencies in microseconds.
    pub latency: Vec<(u64, Sparse)>,
    /// `end-to-end.hlog`: the same from being sent to being consumed.
    pub end_to_end: Vec<(u64, Sparse)>,
    /// `late.hlog`: the same of how late requests of an open loop left.
    pub late: Vec<(u64, Sparse)>,
    /// `host-NAME.csv` by name.
    pub hosts: BTreeMap<String, Vec<HostSecond>>,
    /// `broker-NAME.csv` by name.
    pub brokers: BTreeMap<String, Vec<BrokerSecond>>,
    /// `events.csv`.
    pub events: Vec<Event>,
}

/// The rows of one repeat between two moments: what the rules look at.
#[derive(Clone, Debug, Default)]
pub struct Window<'a> {
    /// What was run.
    pub factors: Option<&'a Factors>,
    /// Seconds of load.
    pub load: &'a [LoadSecond],
    /// Seconds of each machine, the lab's own first.
    pub hosts: Vec<(&'a HostFile, &'a [HostSecond])>,
    /// Seconds of each broker.
    pub brokers: Vec<(&'a str, &'a [BrokerSecond])>,
    /// Send latencies of each second.
    pub latency: &'a [(u64, Sparse)],
    /// Times from being sent to being consumed of each second.
    pub end_to_end: &'a [(u64, Sparse)],
    /// How late requests of an open loop left, of each second.
    pub late: &'a [(u64, Sparse)],
    /// What happened in between.
    pub events: &'a [Event],
    /// Which repeat, from 1.
    pub repeat: u32,
    /// Brokers that were away or started again, from the beginning of the repeat on: a broker that was lost in the warm-up
    /// is not the one that was warmed up.
    pub outages: Vec<&'a Event>,
}

impl Record {
    /// Reads a run's directory.
    ///
    /// # Errors
    /// It is no run, or one of its files cannot be read.
    pub fn read(root: &Path) -> Result<Self, Error> {
        Archive::open(root)?.record()
    }

    /// The phase `name` of each repeat; where a repeat has no such phase, the whole repeat if `name` is `steady`.
    #[must_use]
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

/// Brokers that were away or started again before a moment.
fn outages(events: &[Event], to: u64) -> Vec<&Event> {
    let is_outage = |event: &&Event| [BROKER_AWAY, BROKER_RESTARTED].contains(&event.kind.as_str());
    events.iter().take_while(|event| event.at_ms < to).filter(is_outage).collect()
}

/// Rows whose second ended after `from` and no later than `to`; the rows are in order of time.
fn within<T>(rows: &[T], (from, to): (u64, u64), end: impl Fn(&T) -> u64) -> &[T] {
    let first = rows.partition_point(|row| end(row) <= from);
    let last = rows.partition_point(|row| end(row) <= to);
    &rows[first..last.max(first)]
}
