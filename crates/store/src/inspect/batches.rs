//! Compares RocketMQ's batch consume queue files with the records of the log.

use super::result::VerifyResult;
use super::survey::{Finding, Survey};
use crate::queue::Extent;
use crate::queue::batched::reader::BatchUnitReader;
use crate::queue::batched::{BatchUnit, JAVA_DIR};
use std::io;
use std::path::PathBuf;

/// Progress of the check of a queue's files.
pub(super) struct BatchCheck {
    pub(super) directory: PathBuf,
    /// `None` when the files cannot be read, and after a finding: later units would differ as well.
    reader: Option<BatchUnitReader>,
    /// Whether the queue's directory is missing.
    is_missing: bool,
    log_min: u64,
    /// The queue's extent in the queue table.
    extent: Extent,
    units: u64,
    finding: Option<String>,
}

impl BatchCheck {
    pub(super) fn of(survey: &Survey, key: &(String, i32)) -> Self {
        let directory = survey.root.join(JAVA_DIR).join(&key.0).join(key.1.to_string());
        // Wrong files are findings of the survey.
        let reader = survey.batches.get(key).map(|(directory, file_bytes)| {
            BatchUnitReader::of(survey.disk.clone(), directory.clone(), *file_bytes).ok()
        });
        Self {
            directory,
            is_missing: reader.is_none(),
            reader: reader.flatten(),
            log_min: survey.log_min(),
            extent: survey.past.extent(&key.0, key.1),
            units: 0,
            finding: None,
        }
    }

    /// Returns the next unit at or behind the queue's minimum offset. Older units stay until their file is removed.
    fn next(&mut self) -> io::Result<Option<BatchUnit>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        while let Some(unit) = reader.next()? {
            let at = unit.unit.log_offset.get();
            if at >= self.log_min && !self.extent.is_past(at, unit.end() - 1) {
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }

    /// Compares the units of a log file's records, which come in log order. `is_new` returns whether the next opening
    /// will index a record.
    pub(super) fn check(&mut self, records: &[BatchUnit], is_new: impl Fn(u64) -> bool) -> io::Result<()> {
        for expected in records {
            let at = expected.unit.log_offset.get();
            if self.reader.is_none() {
                if self.is_missing && !is_new(at) {
                    self.finding =
                        Some(format!("the queue has no files, the record at log offset {at} is in it"));
                }
                continue;
            }
            let found = self.next()?;
            if found == Some(*expected) {
                self.units += 1;
                continue;
            }
            if found.is_some() || !is_new(at) {
                self.finding = Some(format!("expected {expected:?}, found {found:?}"));
            }
            self.reader = None;
        }
        Ok(())
    }

    /// Reports units behind the last record's: they refer to no record.
    pub(super) fn finish(mut self, key: (String, i32), verified: &mut VerifyResult) -> io::Result<()> {
        while let Some(unit) = self.next()? {
            let what = || format!("{unit:?} leads to no record of the queue");
            self.finding.get_or_insert_with(what);
        }
        verified.units += self.units;
        if let Some(what) = self.finding {
            verified.findings.push(Finding::new(&self.directory, None, what));
            if !verified.bad_queues.contains(&key) {
                verified.bad_queues.push(key);
            }
        }
        Ok(())
    }
}
