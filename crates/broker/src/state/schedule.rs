//! The delivery positions of the delay levels, and their file `delayOffset.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::body::offset::DelayOffsetTable;
use wire::json;

use super::{ClockSetBack, UnreadableSince};
use crate::engine::Wakeup;
use crate::persist::{self, ConfigFile};

/// The delivery position of each delay level, and how to wake the engine that delivers.
pub(crate) struct Schedule {
    path: ConfigFile,
    table: Mutex<Table>,
    wakeup: Arc<Wakeup>,
}

struct Table {
    file: DelayOffsetTable,
    offsets: BTreeMap<i32, i64>,
    dirty: bool,
    /// State of the first undelivered message of each level.
    heads: BTreeMap<i32, Head>,
}

/// The state of the first undelivered message of a level.
#[derive(Default)]
pub(crate) struct Head {
    /// Time since which the message's delivery fails.
    pub patience: UnreadableSince,
    /// Whether the clock was set back behind store times of the level.
    pub set_back: ClockSetBack,
}

impl Schedule {
    /// Loads `delayOffset.json`; starts empty when there is no such file.
    pub(crate) fn load(path: ConfigFile) -> Result<Self, persist::Error> {
        let file: DelayOffsetTable = path.read()?.unwrap_or_default();
        let offsets = file.offset_table.clone();
        let table = Mutex::new(Table { offsets, file, dirty: false, heads: BTreeMap::new() });
        Ok(Self { path, table, wakeup: Arc::default() })
    }

    /// Returns the wake-up of the engine `DelayLevels`, for messages that were stored with a delay level.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    /// The positions, if they changed since the last call. The copies of all messages before them are in the log by then.
    pub(crate) fn changed(&self) -> Option<BTreeMap<i32, i64>> {
        let mut table = self.table.lock();
        std::mem::take(&mut table.dirty).then(|| table.offsets.clone())
    }

    /// Writes positions to the file. The copies of all messages before them must be on disk. After a failure,
    /// the next call of [`Self::changed`] returns all positions again.
    pub(crate) fn write(&self, offsets: BTreeMap<i32, i64>, now_ms: i64) -> Result<(), persist::Error> {
        let file = {
            let mut table = self.table.lock();
            table.file.offset_table = offsets;
            table.file.data_version.advance(0, now_ms);
            table.file.clone()
        };
        let written = self.path.write(&json::to_vec(&file));
        if written.is_err() {
            self.table.lock().dirty = true;
        }
        written
    }

    /// Replaces the positions by those of a master. Waits for the disk if they differ.
    ///
    /// # Errors
    /// When the file cannot be written. The positions stay unchanged then.
    pub(crate) fn adopt(&self, file: DelayOffsetTable) -> Result<(), persist::Error> {
        if self.table.lock().offsets != file.offset_table {
            self.path.write(&json::to_vec(&file))?;
            let mut table = self.table.lock();
            table.offsets = file.offset_table.clone();
            table.file = file;
        }
        Ok(())
    }

    /// Takes over the positions of a slave that are further than these; waits for the disk when there are any.
    ///
    /// # Errors
    /// When the file cannot be written; the positions are then as before.
    pub(crate) fn take_back(&self, theirs: DelayOffsetTable) -> Result<(), persist::Error> {
        let mut file = {
            let table = self.table.lock();
            DelayOffsetTable { offset_table: table.offsets.clone(), ..table.file.clone() }
        };
        for (level, offset) in theirs.offset_table {
            let own = file.offset_table.entry(level).or_default();
            *own = offset.max(*own);
        }
        self.adopt(file)
    }

    /// The delivery positions of all levels.
    pub(crate) fn offsets(&self) -> BTreeMap<i32, i64> {
        self.table.lock().offsets.clone()
    }

    /// Lowers positions to these, and to zero for levels that are missing in `proven`. Waits for the disk if a
    /// position changes.
    ///
    /// # Errors
    /// When the file cannot be written; the positions are then as before.
    pub(crate) fn lower(&self, proven: &BTreeMap<i32, i64>) -> Result<(), persist::Error> {
        let mut file = {
            let table = self.table.lock();
            DelayOffsetTable { offset_table: table.offsets.clone(), ..table.file.clone() }
        };
        for (level, offset) in &mut file.offset_table {
            *offset = proven.get(level).copied().unwrap_or(0).min(*offset);
        }
        self.adopt(file)
    }

    /// Writes the positions if they changed. The whole log must be on disk.
    pub(crate) fn save(&self, now_ms: i64) -> Result<(), persist::Error> {
        self.changed().map_or(Ok(()), |offsets| self.write(offsets, now_ms))
    }

    /// The delivery position of a level: the offset of its first message that is not delivered yet.
    pub(crate) fn offset(&self, level: i32) -> i64 {
        self.table.lock().offsets.get(&level).copied().unwrap_or(0)
    }

    /// Sets the delivery position of a level.
    pub(crate) fn set_offset(&self, level: i32, offset: i64) {
        let mut table = self.table.lock();
        if table.offsets.insert(level, offset) != Some(offset) {
            table.dirty = true;
        }
    }

    /// Calls `ask` with the state of a level's first undelivered message, under the lock of the table.
    pub(crate) fn with_head<T>(&self, level: i32, ask: impl FnOnce(&mut Head) -> T) -> T {
        ask(self.table.lock().heads.entry(level).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_given_once_and_again_after_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        let file = crate::testing::real_files(directory.path()).file("delayOffset.json");
        let written = || Schedule::load(file.clone()).unwrap().offset(3);
        let schedule = Schedule::load(file.clone()).unwrap();
        schedule.set_offset(3, 7);
        let offsets = schedule.changed().unwrap();
        schedule.set_offset(3, 9);
        schedule.write(offsets, 1).unwrap();
        assert_eq!(written(), 7, "not 9: its copies may not be on the disk yet");
        assert!(schedule.changed().is_some());
        assert_eq!(schedule.changed(), None);
        std::fs::create_dir_all(directory.path().join("delayOffset.json.tmp")).unwrap();
        schedule.set_offset(3, 11);
        assert!(schedule.save(2).is_err());
        std::fs::remove_dir(directory.path().join("delayOffset.json.tmp")).unwrap();
        schedule.save(3).unwrap();
        assert_eq!(written(), 11);
    }
}
