//! Checks timer log and wheel: valid units, and slots that refer to units of their time.

use super::dump::Selection;
use super::result::VerifyResult;
use super::row::{Row, TakeRow};
use super::survey::{Finding, Survey};
use crate::disk::DiskFile;
use crate::timer::slot::{SLOT_BYTES, Slot};
use crate::timer::unit::{BLANK_BYTES, TimerContent, TimerUnit, UNIT_BYTES, look};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `timerPrecisionMs`, which is not stored in the files.
const PRECISION_MS: i64 = 1000;
/// Bytes read at once.
const STEP_BYTES: usize = 1 << 20;
/// Most listed findings of a kind.
const LISTED_MAX: usize = 20;

/// The files of the timer log.
struct TimerLogFiles {
    file_bytes: u64,
    files: Vec<(u64, PathBuf, Arc<dyn DiskFile>)>,
}

impl TimerLogFiles {
    fn of(survey: &Survey, findings: &mut Vec<Finding>) -> io::Result<Self> {
        let directory = survey.root.join("timerlog");
        let mut log = Self { file_bytes: 0, files: Vec::new() };
        for entry in survey.disk.list(&directory)?.iter().filter(|entry| !entry.is_dir && entry.length > 0) {
            let path = directory.join(&entry.name);
            log.file_bytes = if log.file_bytes == 0 { entry.length } else { log.file_bytes };
            let start = entry.name.parse::<u64>().ok().filter(|start| start.is_multiple_of(log.file_bytes));
            match start.filter(|_| entry.length == log.file_bytes) {
                Some(start) => log.files.push((start, path.clone(), survey.disk.open(&path)?)),
                None => {
                    let (length, expected) = (entry.length, log.file_bytes);
                    let what = format!(
                        "its name or its length ({length} bytes, the first file {expected}) is none of a timer log file"
                    );
                    findings.push(Finding::new(&path, None, what));
                }
            }
        }
        Ok(log)
    }

    /// Calls `each` with every unit and its position, up to the end of the written part.
    fn units(&self, mut each: impl FnMut(u64, &Path, TimerUnit) -> ControlFlow<()>) -> io::Result<u64> {
        let mut end = self.files.first().map_or(0, |file| file.0);
        for (base, path, file) in &self.files {
            let mut at = 0;
            while self.file_bytes - at >= UNIT_BYTES + BLANK_BYTES {
                let mut bytes =
                    vec![0; STEP_BYTES.min(usize::try_from(self.file_bytes - at).unwrap_or(STEP_BYTES))];
                file.read_at(&mut bytes, at)?;
                let mut used = 0;
                while bytes.len() - used >= UNIT_BYTES as usize
                    && self.file_bytes - at - used as u64 >= UNIT_BYTES + BLANK_BYTES
                {
                    match look(&bytes[used..]) {
                        TimerContent::Unit(unit) => {
                            let place = base + at + used as u64;
                            end = place + UNIT_BYTES;
                            if each(place, path, unit).is_break() {
                                return Ok(end);
                            }
                            used += UNIT_BYTES as usize;
                        }
                        TimerContent::Blank => break,
                        TimerContent::Nothing => return Ok(end),
                    }
                }
                if used == 0 || matches!(look(&bytes[used..]), TimerContent::Blank) {
                    break;
                }
                at += used as u64;
            }
        }
        Ok(end)
    }

    fn unit_at(&self, at: u64) -> io::Result<Option<TimerUnit>> {
        let file = self.files.iter().rev().find(|(base, ..)| *base <= at && at - base < self.file_bytes);
        let Some((base, _, file)) = file.filter(|(base, ..)| at - base + UNIT_BYTES <= self.file_bytes)
        else {
            return Ok(None);
        };
        let mut bytes = [0; UNIT_BYTES as usize];
        file.read_at(&mut bytes, at - base)?;
        Ok(TimerUnit::from_bytes(&bytes))
    }
}

impl Survey {
    /// The wheel's file that counts: the newest snapshot, or the plain file.
    fn wheel(&self) -> io::Result<Option<PathBuf>> {
        let entries = self.disk.list(&self.root)?;
        let number = |name: &str| name.strip_prefix("timerwheel.").and_then(|end| end.parse::<u64>().ok());
        let snapshot = entries.iter().filter(|entry| number(&entry.name).is_some());
        let newest = snapshot.max_by_key(|entry| number(&entry.name));
        let plain = entries.iter().find(|entry| entry.name == "timerwheel");
        Ok(newest.or(plain).map(|entry| self.root.join(&entry.name)))
    }

    /// Calls `each` with every used slot and its position in the file.
    fn slots(
        &self,
        path: &Path,
        mut each: impl FnMut(u64, Slot) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<()> {
        let file = self.disk.open(path)?;
        let length = file.length()?;
        let mut at = 0;
        while at < length {
            let mut bytes = vec![0; STEP_BYTES.min(usize::try_from(length - at).unwrap_or(STEP_BYTES))];
            file.read_at(&mut bytes, at)?;
            for (index, slot) in bytes.as_chunks::<32>().0.iter().enumerate() {
                if slot == &[0; 32] {
                    continue;
                }
                if each(at + index as u64 * SLOT_BYTES, Slot::from_bytes(slot, PRECISION_MS))?.is_break() {
                    return Ok(());
                }
            }
            at += bytes.len() as u64;
        }
        Ok(())
    }

    pub(super) fn dump_timers(&self, wanted: &Selection, give: TakeRow<'_>) -> io::Result<()> {
        let mut flow = ControlFlow::Continue(());
        TimerLogFiles::of(self, &mut Vec::new())?.units(|place, _, unit| {
            if !(wanted.from..wanted.to).contains(&unit.log_offset.get()) {
                return ControlFlow::Continue(());
            }
            let row = Row::new("timer")
                .with("place", place)
                .with("previous", unit.previous.map_or(-1, u64::cast_signed))
                .with("magic", unit.magic)
                .with("due", unit.time_ms())
                .with("written", unit.written_ms)
                .with("at", unit.log_offset.get())
                .with("size", unit.size);
            flow = give(row);
            flow
        })?;
        let Some(path) = self.wheel()?.filter(|_| flow.is_continue()) else { return Ok(()) };
        self.slots(&path, |_, slot| {
            let row = Row::new("slot")
                .with("time", slot.time_ms)
                .with("first", slot.first.map_or(-1, u64::cast_signed))
                .with("last", slot.last.map_or(-1, u64::cast_signed))
                .with("messages", slot.count);
            Ok(give(row))
        })
    }
}

/// Checks units and slots. A store in use or after a crash has unfinished units.
pub(super) fn check_timers(survey: &Survey, verified: &mut VerifyResult) -> io::Result<()> {
    let mut findings = Vec::new();
    let log = TimerLogFiles::of(survey, &mut findings)?;
    let end = log.units(|place, path, unit| {
        let at = place % log.file_bytes;
        verified.timer_units += 1;
        if unit.previous.is_some_and(|previous| previous >= place) {
            findings.push(Finding::new(path, at, "the unit's predecessor lies behind it"));
        }
        if unit.size > 0 && unit.end().get() > verified.log_end {
            let what = format!("the unit leads to {}, the log ends at {}", unit.log_offset, verified.log_end);
            findings.push(Finding::new(path, at, what));
        }
        ControlFlow::Continue(())
    })?;
    if let Some(path) = survey.wheel()? {
        let length = survey.disk.open(&path)?.length()?;
        if !length.is_multiple_of(SLOT_BYTES) || length == 0 {
            findings.push(Finding::new(
                &path,
                None,
                format!("it is {length} bytes long, which are no whole slots"),
            ));
        }
        let min = log.files.first().map_or(0, |file| file.0);
        survey.slots(&path, |at, slot| {
            let Some(last) = slot.last.filter(|last| *last >= min) else {
                return Ok(ControlFlow::Continue(()));
            };
            let unit = if last < end { log.unit_at(last)? } else { None };
            let what = match unit {
                None => format!(
                    "the slot's newest unit should be at {last} of the timer log, where there is none"
                ),
                Some(unit) if unit.time_ms().div_euclid(PRECISION_MS) * PRECISION_MS != slot.time_ms => {
                    format!(
                        "the slot is that of {}, its newest unit that of {}",
                        slot.time_ms,
                        unit.time_ms()
                    )
                }
                Some(_) => return Ok(ControlFlow::Continue(())),
            };
            findings.push(Finding::new(&path, at, what));
            Ok(ControlFlow::Continue(()))
        })?;
    }
    if survey.is_running {
        verified.notes.extend(findings.into_iter().take(LISTED_MAX));
    } else {
        verified.unlisted += findings.len().saturating_sub(LISTED_MAX) as u64;
        verified.findings.extend(findings.into_iter().take(LISTED_MAX));
    }
    Ok(())
}
