//! RocketMQ's files of queues of batches against the records of the log.

use super::verify::Verified;
use super::{Finding, Survey};
use crate::queue::batched::reader::Reader;
use crate::queue::batched::{BatchUnit, JAVAS};
use std::io;
use std::path::PathBuf;

/// How far the files of one queue were checked.
pub(super) struct BatchCheck {
    pub(super) directory: PathBuf,
    /// `None` when there is nothing that can be read, and after a finding: what follows is off as well.
    reader: Option<Reader>,
    /// There is no such directory.
    is_missing: bool,
    log_min: u64,
    units: u64,
    finding: Option<String>,
}

impl BatchCheck {
    pub(super) fn of(survey: &Survey, key: &(String, i32)) -> Self {
        let directory = survey.root.join(JAVAS).join(&key.0).join(key.1.to_string());
        // Files that do not fit are a finding of the survey.
        let reader = survey.batches.get(key).map(|(directory, file_bytes)| {
            Reader::of(survey.disk.clone(), directory.clone(), *file_bytes).ok()
        });
        let (is_missing, log_min) = (reader.is_none(), survey.log_min());
        Self { directory, reader: reader.flatten(), is_missing, log_min, units: 0, finding: None }
    }

    /// Compares the units of one log file's records; they come in the order of the log. `is_new` says which records the
    /// next opening would index anyway.
    pub(super) fn check(&mut self, records: &[BatchUnit], is_new: impl Fn(u64) -> bool) -> io::Result<()> {
        for expected in records {
            let at = expected.unit.log_offset.get();
            let Some(reader) = &mut self.reader else {
                if self.is_missing && !is_new(at) {
                    self.finding =
                        Some(format!("the queue has no files, the record at log offset {at} is in it"));
                }
                continue;
            };
            let mut found = reader.next()?;
            while found.is_some_and(|found| found.unit.log_offset.get() < self.log_min) {
                found = reader.next()?;
            }
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

    /// What lies behind the last record's unit leads nowhere.
    pub(super) fn finish(mut self, key: (String, i32), verified: &mut Verified) -> io::Result<()> {
        if let Some(reader) = &mut self.reader {
            while let Some(unit) = reader.next()? {
                if unit.unit.log_offset.get() >= self.log_min && self.finding.is_none() {
                    self.finding = Some(format!("{unit:?} leads to no record of the queue"));
                }
            }
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
