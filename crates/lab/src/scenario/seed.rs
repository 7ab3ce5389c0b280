//! `vostok lab seed 000`: the cells of five earlier reports as ready-made runs, scaled to the machine.

use super::backlog;
use super::bench::Bench;
use super::cluster::Cluster;
use super::design::{CellLoad, Design, RunOptions};
use super::soak::soak;
use super::stage::Until;
use crate::Error;
use crate::archive::TargetKind;
use crate::generator::{Compression, Consume, Payload, Sizes};
use crate::judge::validity::SOAK_SECONDS_MIN;
use crate::output::say;
use crate::runtime;
use clap::ValueEnum;
use std::collections::BTreeMap;

/// Seconds in which the last messages of a soak must arrive.
const LAST_SECONDS: u32 = 60;

/// Rows of the reports: report, scales, and lists of values.
const SEEDS: &str = include_str!("seeds.txt");

/// Reason that the rows of [`SEEDS`] can be read.
const ROW: &str = "a test reads all rows";

/// Values of a cell by name.
type Row = BTreeMap<&'static str, &'static str>;

/// Scale of a seed's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// Less than twenty-five minutes.
    Small,
    /// Some hours.
    Medium,
    /// Length as in the original report.
    Full,
}

impl Scale {
    /// Seconds of the warm-up and of the measured stage.
    pub fn seconds(self) -> (u32, u32) {
        match self {
            Self::Small => (2, 8),
            Self::Medium => (10, 60),
            Self::Full => (30, 300),
        }
    }

    /// Bytes of a backlog, and the time limit of filling and draining in seconds.
    fn fill(self) -> (u64, u32) {
        match self {
            Self::Small => (512 << 20, 120),
            Self::Medium => (20 << 30, 3600),
            Self::Full => (200 << 30, 8 * 3600),
        }
    }
}

/// Runs the cells of a report.
///
/// # Errors
/// [`Error::Flag`] when there is no such report, otherwise as for [`super::matrix`].
pub fn run(options: &RunOptions, report: &str, scale: Scale) -> Result<(), Error> {
    runtime::block_on(async {
        let mut cells = cells(options, report, scale)?;
        let cluster = Cluster::look(options).await?;
        keep_possible(&cluster, &mut cells);
        cluster.client.shutdown();
        Bench::open(options, Design::new(format!("seed {report}"), cells)).await?.run().await
    })
}

/// The cells of a report, in the order in which they are run.
///
/// # Errors
/// [`Error::Flag`] when there is no such report.
pub fn cells(options: &RunOptions, report: &str, scale: Scale) -> Result<Vec<CellLoad>, Error> {
    let mut cells: Vec<CellLoad> = Vec::new();
    for line in SEEDS.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let is_meant = words.next() == Some(report);
        let mut scales = words.next().into_iter().flat_map(|scales| scales.split(','));
        if !is_meant || !scales.any(|name| Scale::from_str(name, false) == Ok(scale)) {
            continue;
        }
        for row in combinations(words) {
            let cell = cell(options, scale, &row);
            if !cells.iter().any(|known| known.factors == cell.factors) {
                cells.push(cell);
            }
        }
    }
    if cells.is_empty() {
        let why = format!("expected 000, 001, 002, 003 or 004, found {report}");
        return Err(Error::Flag { flag: "seed", why });
    }
    Ok(cells)
}

/// All combinations of lists of values, such as `queues=1,8`. The first list changes slowest.
fn combinations(lists: impl Iterator<Item = &'static str>) -> Vec<Row> {
    let mut rows = vec![Row::new()];
    for (name, values) in lists.filter_map(|list| list.split_once('=')) {
        let mut more = Vec::new();
        for row in &rows {
            for value in values.split(',') {
                let mut row = row.clone();
                row.insert(name, value);
                more.push(row);
            }
        }
        rows = more;
    }
    rows
}

/// The cell of a row.
fn cell(options: &RunOptions, scale: Scale, row: &Row) -> CellLoad {
    let number = |name: &str, usual: u32| row.get(name).map_or(usual, |text| text.parse().expect(ROW));
    let mut load = options.load.clone();
    load.groups = number("groups", load.groups);
    (load.producers, load.consumers) =
        (number("producers", load.producers), number("consumers", load.consumers));
    if row.get("consume") == Some(&"push") {
        (load.consume, load.consumer_threads) = (Consume::Push, Some(1));
    }
    match row.get("bodies") {
        Some(&"repeat") => (load.compression, load.payload) = (Compression::Zlib, Payload::Repeat(128)),
        Some(&"random") => (load.compression, load.payload) = (Compression::Zlib, Payload::Random),
        _ => {}
    }
    let size = Sizes::one(u64::from(number("size", 0)));
    let (threads, queues) = (number("threads", 0), number("queues", 0));
    let mut cell = RunOptions { load, ..options.clone() }.cell(threads, &size, queues);
    if let Some(seconds) = row.get("soak") {
        let seconds = if *seconds == "min" { SOAK_SECONDS_MIN } else { seconds.parse().expect(ROW) };
        cell = CellLoad { repeats: Some(1), ..soak(cell, seconds, LAST_SECONDS) };
    }
    if row.contains_key("backlog") {
        let (fill, longest) = scale.fill();
        let stages = backlog::stages(options, Until::Sent(fill), (longest, longest));
        cell = CellLoad { stages, repeats: Some(1), ..cell.with("fill", fill.to_string()) };
    }
    cell.flushed(row.get("flush").unwrap_or(&""))
}

/// Removes the flush modes that the brokers cannot change to while they run, and prints that.
fn keep_possible(cluster: &Cluster, cells: &mut Vec<CellLoad>) {
    if cluster.target.kind == TargetKind::Vostok {
        return;
    }
    let master = cluster.target.brokers.iter().find(|broker| broker.id == 0);
    let found = master.and_then(|master| master.settings.get("flushDiskType"));
    let mode = if found.is_some_and(|found| found == "SYNC_FLUSH") { "sync" } else { "async" };
    let before = cells.len();
    cells.retain(|cell| cell.factors.flush.is_empty() || cell.factors.flush == mode);
    if cells.len() < before {
        let left_out = before - cells.len();
        say!("{left_out} cells are left out: the broker flushes {mode} and cannot change while it runs");
    }
}
