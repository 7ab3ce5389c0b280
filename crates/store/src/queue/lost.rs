//! Wrong units in the queue files: how they are found, taken out of service, and rewritten.

use super::{Extent, Queue, Unit, files};
use crate::wake::lock;
use std::io;

impl Queue {
    /// First queue offset of the first bad file, not below the queue's minimum offset. Checks only
    /// the size, the first unit and the last unit of each file. `None` if no file is bad.
    pub(crate) fn first_bad(&self) -> io::Result<Option<u64>> {
        self.files.first_bad(self.in_files())
    }

    /// Like [`Self::first_bad`], but checks every unit. The result may lie a few thousand units
    /// before the first wrong unit.
    pub(crate) fn first_bad_of_all(&self) -> io::Result<Option<u64>> {
        let extent = self.in_files();
        let bad = self.files.first_bad(extent)?;
        let hole = self.files.first_hole(Extent { max: bad.unwrap_or(extent.max), ..extent })?;
        Ok(hole.or(bad))
    }

    /// The units that the files should hold.
    pub(crate) fn in_files(&self) -> Extent {
        let tail = lock(&self.tail);
        Extent { min: self.min().get(), max: tail.written, last: tail.last }
    }

    /// Takes the units `from..until` of the files out of service; `false` when the files hold no unit of this range.
    pub(crate) fn mark_lost(&self, from: u64, until: u64) -> bool {
        let mut tail = lock(&self.tail);
        let (from, until) = (from.max(self.min().get()), until.min(tail.written));
        if from >= until {
            return false;
        }
        let (first, last) = tail.lost.unwrap_or((from, until));
        tail.lost = Some((first.min(from), last.max(until)));
        true
    }

    /// Returns the unit in the files at a queue offset, in service or not. `None` if the unit is unreadable or blank.
    pub(crate) fn unit_in_files(&self, offset: u64) -> Option<Unit> {
        if offset >= lock(&self.tail).written {
            return None;
        }
        let mut unit = Vec::with_capacity(1);
        let _ = self.files.read(offset, offset + 1, &mut unit, false).ok()?;
        unit.pop().filter(|unit| !unit.is_blank())
    }

    /// The range of queue offsets that is out of service.
    pub(crate) fn lost_range(&self) -> Option<(u64, u64)> {
        lock(&self.tail).lost
    }

    /// Puts a rebuilt range back into service. Adjacent units that were lost meanwhile stay out of service.
    pub(crate) fn restore_range(&self, from: u64, until: u64) {
        let mut tail = lock(&self.tail);
        tail.lost = tail.lost.and_then(|(first, end)| match (first < from, end > until) {
            (false, false) => None,
            (true, false) => Some((first, end.min(from))),
            (false, true) => Some((first.max(until), end)),
            (true, true) => Some((first, end)),
        });
    }

    pub(crate) fn is_lost(&self) -> bool {
        lock(&self.tail).lost.is_some()
    }

    /// Empties a range of units in the files and keeps those around it.
    pub(crate) fn empty(&self, from: u64, until: u64, touched: &mut files::SyncList) -> io::Result<()> {
        self.files.empty(from, until, touched)
    }

    /// Writes units of a lost range.
    pub(crate) fn rewrite(&self, from: u64, units: &[Unit], touched: &mut files::SyncList) -> io::Result<()> {
        self.files.write(from, units, self.min().get(), touched)
    }
}
