//! Last positions of delayed and timed messages, each with the end of the log that contains the delivered copies
//! before the position (`vostok/deliveryNotes`).
//!
//! A broker of a group with controllers may have to cut the end of its log, because a new master does not have it.
//! Positions whose copies were cut would skip undelivered messages for ever. The notes tell the positions that the
//! rest of the log proves: the newest positions whose end is still in the log.
//!
//! The file may be older than memory. Older positions only cause more duplicate deliveries.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use store::timer::TimerCheck;
use wire::json;
use wire::units::LogOffset;

use crate::persist::{self, ConfigFile};

/// Most notes that are kept. A further note replaces the oldest.
const NOTES_MAX: usize = 32;

/// Time in milliseconds between two notes that stay. Newer notes replace the last note.
const SPACING_MS: i64 = 5000;

/// Positions of delayed and timed messages that are proven by every log that reaches to `end`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryNote {
    /// Log position behind the copies of all messages before these positions.
    pub end: u64,
    /// When the note was made, in milliseconds since 1970.
    pub noted_ms: i64,
    /// The timer's read time, and the offset in its queue before which everything due before that time was
    /// delivered; `None` without a timer.
    pub timers: Option<(i64, i64)>,
    /// Offset of the first undelivered message, by delay level.
    pub delays: BTreeMap<i32, i64>,
}

impl DeliveryNote {
    pub(crate) fn new(
        end: LogOffset,
        noted_ms: i64,
        timers: Option<TimerCheck>,
        delays: BTreeMap<i32, i64>,
    ) -> Self {
        let timers = timers.map(|check| (check.read_ms, check.master_queue_offset));
        Self { end: end.get(), noted_ms, timers, delays }
    }

    /// Returns the content of the timer's file by this note.
    pub(crate) fn timer_check(&self) -> Option<TimerCheck> {
        self.timers.map(|(read_ms, master_queue_offset)| TimerCheck {
            read_ms,
            master_queue_offset,
            ..TimerCheck::default()
        })
    }
}

/// The notes of a broker.
pub(crate) struct DeliveryNotes {
    file: ConfigFile,
    noted: Mutex<Noted>,
}

/// The notes, under their lock.
#[derive(Default)]
pub(crate) struct Noted {
    /// Invariant: in the order in which the notes were made, which is that of their ends.
    notes: Vec<DeliveryNote>,
    /// Number of times that the log was cut since this broker started.
    cuts: u64,
}

impl DeliveryNotes {
    /// Loads the notes that the log proves, which ends at `log_end`. A file that cannot be read counts as none: then a cut has more
    /// messages delivered again.
    pub(crate) fn load(file: ConfigFile, log_end: LogOffset) -> Self {
        let mut notes: Vec<DeliveryNote> = match file.read() {
            Ok(notes) => notes.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "earlier positions of delayed and timed messages are not known");
                Vec::new()
            }
        };
        notes.retain(|note| note.end <= log_end.get());
        Self { file, noted: Mutex::new(Noted { notes, cuts: 0 }) }
    }

    /// Locks the notes, and the files of positions of a broker that is not master. The lock is held while these files
    /// are written, and while the timer's files are opened, so that open files are not overwritten. Code that answers
    /// clients must not wait for this lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock()
    }

    /// Adds positions. The log must be on disk up to their end.
    ///
    /// # Errors
    /// The file cannot be written; the note counts until this broker stops.
    pub(crate) fn add(&self, noted: &mut Noted, note: DeliveryNote) -> Result<(), persist::Error> {
        if noted.add(note) { self.write(noted) } else { Ok(()) }
    }

    /// Drops the notes that a log with the end `to` does not prove, and returns the newest remaining note. Runs
    /// before the log is cut.
    ///
    /// # Errors
    /// The file cannot be written. The notes are dropped anyway.
    pub(crate) fn cut(
        &self,
        noted: &mut Noted,
        to: LogOffset,
    ) -> Result<Option<DeliveryNote>, persist::Error> {
        noted.cuts += 1;
        noted.notes.retain(|note| note.end <= to.get());
        self.write(noted)?;
        Ok(noted.notes.last().cloned())
    }

    fn write(&self, noted: &Noted) -> Result<(), persist::Error> {
        self.file.write(&json::to_vec(&noted.notes))
    }
}

impl Noted {
    /// Number of times that the log was cut since this broker started.
    pub(crate) fn cuts(&self) -> u64 {
        self.cuts
    }

    /// Adds a note. Returns whether the number of notes grew.
    fn add(&mut self, note: DeliveryNote) -> bool {
        // Invariant of `notes`.
        self.notes.retain(|earlier| earlier.end <= note.end);
        if let [.., before, last] = self.notes.as_mut_slice()
            && (last.noted_ms - before.noted_ms).abs() < SPACING_MS
        {
            *last = note;
            return false;
        }
        if self.notes.len() == NOTES_MAX {
            self.notes.remove(0);
        }
        self.notes.push(note);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::FakeDisk;

    use super::*;
    use crate::persist::ConfigFiles;

    fn note(end: u64, noted_ms: i64) -> DeliveryNote {
        DeliveryNote { end, noted_ms, timers: Some((noted_ms, 7)), ..DeliveryNote::default() }
    }

    #[test]
    fn a_log_proves_the_newest_note_that_it_has_the_end_of() {
        let disk = Arc::new(FakeDisk::new(512));
        let file = || ConfigFiles::new(disk.clone(), "/config".into()).file("deliveryNotes");
        let load = |end| DeliveryNotes::load(file(), LogOffset::new(end));
        let notes = load(0);
        let add = |number: i64| {
            let note = note(number.cast_unsigned() * 10, number * 1000);
            notes.add(&mut notes.lock(), note).unwrap();
        };
        (1..=8).for_each(add);
        let ends =
            |notes: &DeliveryNotes| -> Vec<u64> { notes.lock().notes.iter().map(|note| note.end).collect() };
        assert_eq!(ends(&notes), [10, 60, 80], "five seconds apart, and the newest");
        assert_eq!(ends(&load(1000)), [10, 60, 70], "the file is not written every second");
        assert_eq!(ends(&load(69)), [10, 60]);
        let cut = |to| notes.cut(&mut notes.lock(), LogOffset::new(to)).unwrap().map(|note| note.end);
        assert_eq!([cut(80), cut(79), cut(9)], [Some(80), Some(60), None]);
        assert_eq!((ends(&load(1000)), notes.lock().cuts()), (vec![], 3));
        (0..1000).for_each(|number| add(number * 5));
        assert_eq!(ends(&notes).len(), NOTES_MAX);
        assert_eq!(ends(&notes).last(), Some(&49_950));
    }
}
