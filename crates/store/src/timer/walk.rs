//! Walks the chain of a slot, from the newest unit to older units.

use super::due::{ChainRequest, ChainResult, DueEntry};
use super::log::TimerLog;
use super::unit::{TimerUnit, UNIT_BYTES};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

/// Bytes per read while neighbouring units are probably needed too.
const NEAR_BYTES: u64 = 64 << 10;

/// Bytes per read of a single unit.
const ALONE_BYTES: u64 = 4096;

/// A window of the timer log that moves towards older positions.
struct LogWindow<'a> {
    log: &'a TimerLog,
    from: u64,
    bytes: Vec<u8>,
    /// Position from which units are read singly, because a longer read failed there.
    alone_from: u64,
}

impl LogWindow<'_> {
    fn unit(&mut self, at: u64, step: u64) -> io::Result<Option<TimerUnit>> {
        let held = self.from..self.from + self.bytes.len() as u64;
        if at < held.start || at + UNIT_BYTES > held.end {
            self.move_to(at, step)?;
        }
        let start = usize::try_from(at - self.from).expect("inside the window");
        Ok(self.bytes.get(start..).and_then(TimerUnit::from_bytes))
    }

    /// Reads the unit and bytes before it, or only the unit when its neighbours cannot be read.
    fn move_to(&mut self, at: u64, step: u64) -> io::Result<()> {
        let size = if step < NEAR_BYTES / 4 { NEAR_BYTES } else { ALONE_BYTES };
        let from = (at + UNIT_BYTES).saturating_sub(size).max(self.log.base_of(at)).min(at);
        if at >= self.alone_from || from == at {
            return self.fill(at, at);
        }
        match self.fill(from, at) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                self.alone_from = from;
                self.fill(at, at)
            }
            filled => filled,
        }
    }

    /// Reads from `from` to the end of the unit at `at`.
    fn fill(&mut self, from: u64, at: u64) -> io::Result<()> {
        let length = usize::try_from(at + UNIT_BYTES - from).expect("a window");
        self.bytes.resize(length, 0);
        self.from = from;
        let filled = self.log.read_at(&mut self.bytes, from);
        self.bytes.truncate(*filled.as_ref().unwrap_or(&0));
        filled.map(drop)
    }
}

/// A unit that the disk could not read.
#[derive(Debug)]
pub struct UnreadableUnit {
    /// Position of the unit in the timer log.
    pub at: u64,
    /// The error of the read.
    pub error: io::Error,
}

/// Passes the units of the chain that ends at `last` to the callback. Ends early at a unit that is missing or of another
/// slot.
///
/// # Errors
/// The error of reading a unit; all newer units were passed.
pub(super) fn chain(
    log: &TimerLog,
    last: u64,
    in_slot: impl Fn(i64) -> bool,
    mut see: impl FnMut(u64, TimerUnit),
) -> Result<(), UnreadableUnit> {
    let mut window = LogWindow { log, from: 0, bytes: Vec::new(), alone_from: u64::MAX };
    let mut next = Some(last);
    let mut step = 0;
    while let Some(at) = next {
        let unit = match window.unit(at, step) {
            Ok(unit) => unit.filter(|unit| in_slot(unit.time_ms())),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(UnreadableUnit { at, error }),
        };
        let Some(unit) = unit else {
            tracing::error!(at, last, "a chain of the timer log is broken; what was before is lost");
            return Ok(());
        };
        see(at, unit);
        step = at - unit.previous.unwrap_or(at).min(at);
        next = unit.previous.filter(|previous| *previous < at);
    }
    Ok(())
}

/// Reads the chain that a [`ChainRequest`] requests, from the newest unit to older units. Stops at a unit that the disk
/// cannot read, and returns it: older units are only reached through it.
pub fn walk(log: &TimerLog, load: &ChainRequest) -> (ChainResult, Option<UnreadableUnit>) {
    let mut found = BTreeMap::new();
    let mut loaded =
        ChainResult { slot_ms: load.slot_ms, entries: Vec::new(), deletes: Vec::new(), cut: None };
    let in_slot = |time_ms: i64| time_ms.div_euclid(load.precision_ms) * load.precision_ms == load.slot_ms;
    let walked = chain(log, load.last, in_slot, |at, unit| {
        let entry = DueEntry::of(at, &unit, load.slot_ms);
        if unit.deletes() {
            loaded.deletes.push(entry);
            return;
        }
        if load.from.is_some_and(|from| entry.key() < from) {
            return;
        }
        found.insert(entry.key(), entry);
        if found.len() > load.limit {
            let (key, _) = found.pop_last().expect("more than the limit");
            loaded.cut = Some(loaded.cut.map_or(key, |cut| cut.min(key)));
        }
    });
    loaded.entries = found.into_values().collect();
    (loaded, walked.err())
}

/// All units of a chain, oldest first.
///
/// # Errors
/// The error of reading a unit.
pub fn units(log: &TimerLog, load: &ChainRequest) -> io::Result<Vec<(u64, TimerUnit)>> {
    let mut found = Vec::new();
    let in_slot = |time_ms: i64| time_ms.div_euclid(load.precision_ms) * load.precision_ms == load.slot_ms;
    let walked = chain(log, load.last, in_slot, |at, unit| found.push((at, unit)));
    walked.map_err(|refused| refused.error)?;
    found.reverse();
    Ok(found)
}
