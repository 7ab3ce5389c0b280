//! Compares the files of queues with the records of the log.

use super::expected::RequiredUnit;
use super::result::MissingMessage;
use super::survey::QueueDir;
use super::survey::{Finding, Survey};
use crate::queue::ext::{Extension, ExtensionLookup};
use crate::queue::{UNIT_BYTES, Unit};
use crate::recover::Restarts;
use std::io;

/// Most listed findings of a queue. Further findings are counted.
const LISTED_MAX: u64 = 20;

/// Progress of the check of a queue.
#[derive(Debug, Default)]
pub(super) struct QueueCheck {
    /// Queue offset of the next record's unit; `None` before the first record.
    next: Option<u64>,
    /// Queue offset behind the largest offset seen.
    end: u64,
    /// State before the queue offsets apparently restarted at 0.
    before: Option<Box<Self>>,
    /// Number of units that agree with their records.
    pub(super) units: u64,
    pub(super) findings: Vec<Finding>,
    pub(super) unlisted: u64,
    pub(super) lost: Vec<MissingMessage>,
}

impl QueueCheck {
    fn find(&mut self, finding: Finding) {
        if self.findings.len() as u64 == LISTED_MAX {
            self.unlisted += 1
        } else {
            self.findings.push(finding)
        }
    }

    /// Sets the current state aside and begins again at queue offset 0.
    fn set_aside(&mut self) {
        let before = std::mem::take(self).whole();
        *self = Self { next: Some(0), end: before.end, before: Some(Box::new(before)), ..Self::default() };
    }

    /// The state as if the queue offsets had never begun again.
    pub(super) fn whole(mut self) -> Self {
        let Some(before) = self.before.take() else { return self };
        let mut all = *before;
        self.findings.into_iter().for_each(|finding| all.find(finding));
        all.lost.append(&mut self.lost);
        (all.units, all.unlisted) = (all.units + self.units, all.unlisted + self.unlisted);
        all.end = all.end.max(self.end);
        all.next = Some(all.end);
        all
    }
}

impl QueueDir {
    /// Returns the units from a queue offset on, fewer where the files end. `None` for empty units.
    fn units(&self, survey: &Survey, from: u64, count: u64) -> io::Result<Vec<Option<Unit>>> {
        let in_file = survey.queue_file_bytes / UNIT_BYTES;
        let mut found = Vec::new();
        let end = from + count;
        let mut next = from;
        while next < end {
            let start = next / in_file * in_file;
            let take = (start + in_file).min(end) - next;
            let mut bytes = vec![0; usize::try_from(take * UNIT_BYTES).map_err(io::Error::other)?];
            if let Some(path) = self.files.get(&start) {
                survey.disk.open(path)?.read_at(&mut bytes, (next - start) * UNIT_BYTES)?;
            }
            for bytes in bytes.chunks_exact(20) {
                let mut unit = Unit::from_bytes(bytes);
                if let Some(unit) = &mut unit
                    && !unit.has_tags_code()
                {
                    let open = |path: &std::path::Path| survey.disk.open(path);
                    let extension = Extension::beside(&*survey.disk, &self.directory)?;
                    if let Ok(ExtensionLookup::TagsCode(code)) =
                        extension.tags_code(unit.tags_code, false, open)
                    {
                        unit.tags_code = code;
                    }
                }
                found.push(unit);
            }
            next += take;
        }
        Ok(found)
    }

    /// Whether no unit refers to a position in the log. Then only these files contain the queue's next
    /// offset.
    pub(super) fn is_idle(&self, survey: &Survey) -> io::Result<bool> {
        for start in self.files.keys().rev() {
            let units = self.units(survey, *start, survey.queue_file_bytes / UNIT_BYTES)?;
            let mut held = units.iter().flatten().filter(|unit| !unit.is_blank());
            if held.any(|unit| unit.log_offset.get() >= survey.log_min()) {
                return Ok(false);
            }
        }
        Ok(!self.files.is_empty())
    }

    /// Queue offset of the first unit that can have a message: the minimum offset in the queue table, or the start
    /// of the first file.
    fn first(&self, survey: &Survey) -> Option<u64> {
        let min = survey.past.extent(&self.topic, self.queue_id).min;
        self.files.keys().next().map(|first| min.max(*first))
    }

    /// The file that holds a unit, and the unit's position in it.
    fn place(&self, survey: &Survey, number: u64) -> (std::path::PathBuf, u64) {
        let in_file = survey.queue_file_bytes / UNIT_BYTES;
        let start = number / in_file * in_file;
        let path = self.files.get(&start).cloned();
        let missing = || self.directory.join(crate::disk::file_name(start * UNIT_BYTES));
        (path.unwrap_or_else(missing), (number - start) * UNIT_BYTES)
    }

    /// Checks the units of a log file's records, which come in log order.
    pub(super) fn check(
        &self,
        survey: &Survey,
        checked: &mut QueueCheck,
        restarts: &mut Restarts,
        records: &[RequiredUnit],
    ) -> io::Result<()> {
        let mut rest = records;
        while let Some(first) = rest.first() {
            // Compare consecutive queue offsets with one read.
            let follows = |pair: &[RequiredUnit]| pair[0].number + 1 == pair[1].number;
            let count = 1 + rest.windows(2).take_while(|pair| follows(pair)).count().min(1 << 16);
            let (stretch, later) = rest.split_at(count);
            rest = later;
            let begin = self.begin_with(restarts, checked.end, stretch);
            self.check_order(survey, checked, first, begin)?;
            let units = self.units(survey, first.number, stretch.len() as u64)?;
            for (expected, unit) in stretch.iter().zip(units) {
                if let Some(what) = difference(expected, unit)
                    && !(unit.is_none() && survey.is_new(expected.unit.log_offset.get()))
                {
                    let (file, at) = self.place(survey, expected.number);
                    checked.find(Finding::new(&file, at, format!("unit {}: {what}", expected.number)));
                } else {
                    checked.units += 1;
                }
            }
            checked.next = stretch.last().map(|last| last.number + 1);
            checked.end = checked.end.max(first.number + stretch.len() as u64);
        }
        Ok(())
    }

    /// Passes the records of `stretch` to `restarts`. Returns the log position where the queue was re-created, if
    /// `restarts` has seen that. `end` is the queue offset behind all earlier records of the queue.
    fn begin_with(&self, restarts: &mut Restarts, mut end: u64, stretch: &[RequiredUnit]) -> Option<u64> {
        let key = (self.topic.as_str(), self.queue_id);
        for record in stretch.chunk_by(|one, other| one.unit.log_offset == other.unit.log_offset) {
            let (first, next) = (record[0].number, record[0].number + record.len() as u64);
            restarts.repeats(key, first..next, record[0].unit.log_offset.get(), end);
            end = end.max(next);
        }
        restarts.begin_of(key)
    }

    fn check_order(
        &self,
        survey: &Survey,
        checked: &mut QueueCheck,
        record: &RequiredUnit,
        begin: Option<u64>,
    ) -> io::Result<()> {
        if begin.is_none() {
            *checked = std::mem::take(checked).whole();
        }
        let Some(next) = checked.next else {
            return self.find_phantoms_before(survey, checked, record.number);
        };
        if record.number < next {
            let (number, at) = (record.number, record.unit.log_offset);
            let what = format!(
                "the record at {at} of the log has number {number}, which another one has already; expected {next}"
            );
            checked.find(Finding::new(&self.directory, None, what));
        }
        if begin == Some(record.unit.log_offset.get()) {
            checked.set_aside();
        }
        for number in next..record.number.min(next + 100_000) {
            let unit = self.units(survey, number, 1)?[0].filter(|unit| !unit.is_blank());
            let log_offset = unit.map(|unit| unit.log_offset.get());
            checked.lost.push(MissingMessage {
                topic: self.topic.clone(),
                queue_id: self.queue_id,
                number,
                log_offset,
            });
        }
        Ok(())
    }

    /// Finds units before the first record's unit that refer to positions in the log nevertheless.
    fn find_phantoms_before(&self, survey: &Survey, checked: &mut QueueCheck, first: u64) -> io::Result<()> {
        let start = self.first(survey).unwrap_or(first).max(first.saturating_sub(1 << 20));
        for (number, unit) in (start..first).zip(self.units(survey, start, first.saturating_sub(start))?) {
            let Some(unit) = unit.filter(|unit| !unit.is_blank()) else { continue };
            if unit.log_offset.get() >= survey.log_min() {
                let (topic, log_offset) = (self.topic.clone(), Some(unit.log_offset.get()));
                checked.lost.push(MissingMessage { topic, queue_id: self.queue_id, number, log_offset });
            }
        }
        Ok(())
    }

    /// Checks the units behind the last record's.
    pub(super) fn check_end(&self, survey: &Survey, checked: &mut QueueCheck) -> io::Result<()> {
        let in_file = survey.queue_file_bytes / UNIT_BYTES;
        let Some(end) = self.files.keys().last().map(|start| start + in_file) else { return Ok(()) };
        let mut number = checked.next.or(self.first(survey)).unwrap_or(0);
        while number < end {
            let units = self.units(survey, number, (end - number).min(4096))?;
            if units.iter().all(Option::is_none) {
                // No broker reads behind an empty place.
                break;
            }
            for unit in units {
                let known = unit.filter(|unit| !unit.is_blank() && unit.log_offset.get() >= survey.log_min());
                if let Some(unit) = known {
                    let (topic, log_offset) = (self.topic.clone(), Some(unit.log_offset.get()));
                    checked.lost.push(MissingMessage { topic, queue_id: self.queue_id, number, log_offset });
                }
                number += 1;
            }
        }
        Ok(())
    }
}

/// The difference between a record and its unit, in words.
fn difference(expected: &RequiredUnit, unit: Option<Unit>) -> Option<String> {
    let wanted = expected.unit;
    let Some(found) = unit else {
        return Some(format!(
            "it is none, expected the record at {} of {} bytes",
            wanted.log_offset, wanted.size
        ));
    };
    if (found.log_offset, found.size) != (wanted.log_offset, wanted.size) {
        return Some(format!(
            "it leads to {} of {} bytes, expected the record at {} of {} bytes",
            found.log_offset, found.size, wanted.log_offset, wanted.size
        ));
    }
    if expected.has_tags && !found.has_tags_code() {
        return Some("its tags code is to be found in consumequeue_ext and is not there".to_owned());
    }
    (expected.has_tags && found.tags_code != wanted.tags_code)
        .then(|| format!("its tags code is {}, expected {}", found.tags_code, wanted.tags_code))
}
