//! Timer wheel, timer log and `timercheck` together, as their single writer uses them.

use super::check::TimerCheck;
use super::log::TimerLog;
use super::rounding::slot_start;
use super::slot::Slot;
use super::unit::{TimerUnit, UNIT_BYTES, magic};
use super::wheel::{DirtyPage, Wheel, adopt_snapshot, write_dirty};
use crate::disk::{Disk, DiskFile};
use crate::error::{OpenError, is_lack};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use wire::units::LogOffset;

/// Bytes of units collected before they are written.
const BLOCK_BYTES: usize = 64 << 10;

/// Configuration of the timer's files.
#[derive(Clone, Debug)]
pub struct TimerConfig {
    /// `storePathRootDir`: root directory of the store.
    pub root: PathBuf,
    /// Half the number of slots in the wheel; RocketMQ's is fixed to a week of seconds.
    pub slots: u64,
    /// `timerPrecisionMs`: length of a slot in ms. Must stay the same for the life of a store.
    pub precision_ms: i64,
    /// `mappedFileSizeTimerLog`: size of a timer log file in bytes. Must stay the same for the life of a store.
    pub log_file_bytes: u64,
    /// `timerRollWindowSlot`: a message that is due in more than this number of slots is put into the timer
    /// queue again before it is due.
    pub roll_window_slots: i64,
    /// `timerWheelSnapshotFlush`: whether the newest snapshot of the wheel counts instead of the plain file.
    pub snapshots: bool,
}

impl TimerConfig {
    /// RocketMQ's defaults for a store at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            slots: 7 * 86_400,
            precision_ms: 1000,
            log_file_bytes: 100 << 20,
            roll_window_slots: 2 * 86_400,
            snapshots: false,
        }
    }

    /// Start of the slot that contains a time, ms since the epoch.
    pub fn slot_of(&self, time_ms: i64) -> i64 {
        slot_start(time_ms, self.precision_ms)
    }

    /// Longest time in ms that a unit waits in the wheel (`TimerMessageStore` keeps 60 slots free).
    pub fn roll_window_ms(&self) -> i64 {
        let most = self.slots.cast_signed() - 60;
        let slots = if (2..=most).contains(&self.roll_window_slots) { self.roll_window_slots } else { most };
        slots * self.precision_ms
    }

    fn check_path(&self) -> PathBuf {
        self.root.join("config").join("timercheck")
    }

    /// Saves on a slave its master's delivery progress of timed messages. If this broker becomes master, it reads the
    /// timer queue again from the beginning, and skips delivered messages. Earlier units and slots of the store are
    /// worthless then, because the log behind them may have been cut. The files must not be open.
    ///
    /// The file is not synced. An older version only causes more duplicate deliveries.
    ///
    /// # Errors
    /// The error of the failed file operation.
    pub fn note_master(&self, disk: &dyn Disk, master: &TimerCheck) -> io::Result<()> {
        disk.create_dir_all(&self.root.join("config"))?;
        TimerCheck { log_position: 0, queue_offset: 0, ..*master }.write(disk, &self.check_path()).map(drop)
    }

    /// Saves durably on a slave, before the end of its log is cut, the delivery progress that the remaining log
    /// proves. With `None`, all messages in the remaining log are delivered again. Does nothing if no progress was
    /// saved. The files must not be open.
    ///
    /// # Errors
    /// The error of the failed file operation.
    pub fn note_cut(&self, disk: &dyn Disk, proven: Option<&TimerCheck>) -> io::Result<()> {
        let Some((check, _)) = TimerCheck::load(disk, &self.check_path())? else { return Ok(()) };
        let none = TimerCheck { read_ms: check.read_ms, ..TimerCheck::default() };
        let proven = proven.copied().unwrap_or(none);
        TimerCheck { log_position: 0, queue_offset: 0, ..proven }.write(disk, &self.check_path())?.sync()
    }
}

/// Writer of the `timercheck` file, if the file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckWriter {
    Nothing,
    Java,
    Ours,
}

/// Errors of a save.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// Space or file descriptors are lacking: pass the save to [`TimerFiles::undo_save`] and save again later.
    #[error(transparent)]
    Lack(io::Error),
    /// A sync failed. Saving must stop, because the kernel may have dropped unwritten pages.
    #[error(transparent)]
    Failed(io::Error),
}

impl From<SaveError> for io::Error {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Lack(error) | SaveError::Failed(error) => error,
        }
    }
}

impl SaveError {
    /// Converts the error of any operation except a sync. A failed sync cannot be retried.
    pub(super) fn of(error: io::Error) -> Self {
        if is_lack(&error) { Self::Lack(error) } else { Self::Failed(error) }
    }
}

/// Progress of the caller, for [`TimerFiles::save`].
#[derive(Clone, Copy, Debug)]
pub struct TimerProgress {
    /// Time in ms since the epoch before which all slots are delivered.
    pub read_ms: i64,
    /// Queue offset of the next message of the timer queue to process.
    pub queue_offset: i64,
    /// Queue offset before which all messages in slots before `read_ms` were delivered, including messages without a
    /// unit.
    pub delivered_before: i64,
    /// Wall clock in ms since the epoch.
    pub now_ms: i64,
}

/// Files of the timer. A single owner changes them. Other threads may read [`Self::log`].
pub struct TimerFiles {
    pub(super) config: TimerConfig,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) wheel: Wheel,
    pub(super) log: Arc<TimerLog>,
    /// The `timercheck` content as last read, or as passed to the last save.
    pub(super) check: TimerCheck,
    /// The read time in the file on the disk is at least this, whether or not the last save is finished.
    saved_read_ms: i64,
    /// The open `timercheck` file, from the first save on.
    check_file: Arc<OnceLock<Arc<dyn DiskFile>>>,
    /// Writer of the `timercheck` file at the time of opening.
    pub(super) writer: CheckWriter,
    /// Position behind the last unit in the timer log.
    pub(super) end: u64,
    /// Units that are not written yet.
    block: Vec<u8>,
    /// Position in the timer log where `block` is written.
    block_at: u64,
    /// Position up to which the oldest timer log file was examined, and the latest slot time found in it.
    looked: (u64, i64),
}

/// Bytes of the oldest file examined at once.
const LOOK_BYTES: usize = UNIT_BYTES as usize * 16_384;

impl TimerFiles {
    /// Opens or creates the files. Call [`Self::recover`] next.
    ///
    /// # Errors
    /// [`OpenError::FileSize`] when a timer log file is longer than configured; [`OpenError::Io`] when a file operation
    /// fails.
    pub fn open(config: TimerConfig, disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let (path, slots) = (config.root.join("timerwheel"), 2 * config.slots);
        disk.create_dir_all(&config.root.join("config")).map_err(OpenError::io(&config.root))?;
        if config.snapshots {
            adopt_snapshot(&*disk, &path, slots).map_err(OpenError::io(&path))?;
        }
        let wheel = Wheel::open(&*disk, &path, slots, config.precision_ms)?;
        let log = TimerLog::open(config.root.join("timerlog"), config.log_file_bytes, disk.clone())?;
        let check =
            TimerCheck::load(&*disk, &config.check_path()).map_err(OpenError::io(config.check_path()))?;
        let writer = match &check {
            None => CheckWriter::Nothing,
            Some((_, true)) => CheckWriter::Ours,
            Some((_, false)) => CheckWriter::Java,
        };
        let mut check = check.unwrap_or_default().0;
        if writer != CheckWriter::Ours {
            // A Java master answers slaves with the read time and offset of a single moment
            // (`TimerMessageStore.prepareTimerCheckPoint`), and writes them to its file. In the file of a Java slave,
            // that method leaves the master's last offset (`SlaveSynchronize.syncTimerCheckPoint`), while the read
            // time may be from an earlier or later response. The slave's own offset is never larger than the
            // master's, so fewer messages count as delivered.
            check.master_queue_offset = check.queue_offset;
        }
        let log = Arc::new(log);
        Ok(Self {
            config,
            disk,
            wheel,
            log,
            check,
            saved_read_ms: check.read_ms,
            check_file: Arc::default(),
            writer,
            end: 0,
            block: Vec::new(),
            block_at: 0,
            looked: (0, i64::MIN),
        })
    }

    /// The configuration of the files.
    pub fn config(&self) -> &TimerConfig {
        &self.config
    }

    /// The timer log, for reading.
    pub fn log(&self) -> &Arc<TimerLog> {
        &self.log
    }

    /// Returns the chain of the slot that contains a time, if the slot has units. The units are readable after
    /// [`Self::write`].
    ///
    /// # Errors
    /// The error of reading the wheel.
    pub fn slot(&mut self, time_ms: i64) -> io::Result<Option<Slot>> {
        Ok(self.wheel.slot(time_ms)?.filter(|slot| slot.last.is_some()))
    }

    /// Returns the first slot at or after `time_ms` that may have units. Reads the whole wheel, for a caller so far
    /// behind that a lookup of every slot would take minutes.
    ///
    /// # Errors
    /// The error of reading the wheel.
    pub fn first_slot_from(&self, time_ms: i64) -> io::Result<Option<i64>> {
        self.wheel.first_from(time_ms)
    }

    /// Whether the slot of the wheel for a time holds undelivered units of another time.
    ///
    /// # Errors
    /// The error of reading the wheel.
    pub fn is_taken(&mut self, time_ms: i64, read_ms: i64) -> io::Result<bool> {
        let slot = self.wheel.raw(time_ms)?;
        Ok(slot.last.is_some() && slot.time_ms >= read_ms && slot.time_ms != self.config.slot_of(time_ms))
    }

    /// Adds a unit to the slot that contains its time, and fills in `previous`. Returns the unit's position.
    ///
    /// # Errors
    /// The error of the failed file operation; the unit is then not added.
    pub fn add(&mut self, unit: TimerUnit) -> io::Result<u64> {
        let at = self.log.place(self.end);
        if at != self.end || self.block.len() >= BLOCK_BYTES {
            self.write()?;
        }
        self.log.ensure(at)?;
        if at != self.end {
            self.log.write_blank(self.end)?;
        }
        let time_ms = self.config.slot_of(unit.time_ms());
        let mut slot = self.wheel.slot(time_ms)?.unwrap_or(Slot { time_ms, ..Slot::default() });
        let unit = TimerUnit { previous: slot.last, ..unit };
        slot.first = slot.first.or(Some(at));
        slot.last = Some(at);
        slot.count += if unit.magic & magic::DELETE == 0 { 1 } else { -1 };
        self.wheel.put(slot)?;
        if self.block.is_empty() {
            self.block_at = at;
        }
        self.block.extend_from_slice(&unit.to_bytes());
        self.end = at + UNIT_BYTES;
        Ok(at)
    }

    /// Writes the added units to the file, so that readers find them.
    ///
    /// # Errors
    /// The error of the write; a later call tries again.
    pub fn write(&mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.log.write_at(&self.block, self.block_at)?;
            self.block.clear();
        }
        Ok(())
    }

    /// Replaces the chain of a time's slot by these units, or by an empty chain. After a crash, a reader of the old
    /// units sees that these are newer. `record` is the log position and size of the newest processed message, for
    /// [`Self::mark`] if `units` is empty.
    ///
    /// # Errors
    /// The error of the failed file operation.
    pub fn replace(&mut self, time_ms: i64, units: &[TimerUnit], record: (LogOffset, u32)) -> io::Result<()> {
        let time_ms = self.config.slot_of(time_ms);
        // Keep the first unit of the old chain: recovery may have to go back to it.
        let first = self.wheel.slot(time_ms)?.and_then(|slot| slot.first);
        self.wheel.put(Slot { time_ms, first, ..Slot::default() })?;
        for unit in units {
            self.add(*unit)?;
        }
        if units.is_empty() { self.mark(time_ms, record) } else { Ok(()) }
    }

    /// Adds a unit without effect: a cancelling unit whose record names no message to cancel. RocketMQ looks for the
    /// queue's next message behind the record of the last unit.
    ///
    /// # Errors
    /// The error of the failed file operation.
    pub fn mark(&mut self, time_ms: i64, (log_offset, size): (LogOffset, u32)) -> io::Result<()> {
        let magic = magic::DEFAULT | magic::DELETE;
        let written_ms = self.config.slot_of(time_ms);
        let unit =
            TimerUnit { previous: None, magic, written_ms, delay_ms: 0, log_offset, size, topic_hash: 0 };
        self.add(unit).map(drop)
    }

    /// Collects the data to write now. [`TimerSave::write`] writes it, on any thread. The previous save must be
    /// finished.
    ///
    /// # Errors
    /// The error of writing units.
    pub fn save(&mut self, progress: TimerProgress) -> io::Result<TimerSave> {
        self.write()?;
        let mut check = TimerCheck {
            read_ms: progress.read_ms,
            log_position: self.end.cast_signed(),
            queue_offset: progress.queue_offset,
            master_queue_offset: progress.delivered_before,
            version: self.check.version,
        };
        let changed = check != self.check;
        if changed {
            check.version[1] = progress.now_ms;
            check.version[2] += 1;
        }
        let from = self.check.log_position.cast_unsigned().min(self.end);
        let dirty = self.wheel.take_dirty();
        let before = std::mem::replace(&mut self.check, check);
        self.saved_read_ms = before.read_ms.min(check.read_ms);
        Ok(TimerSave {
            disk: self.disk.clone(),
            log: self.log.clone(),
            log_range: from..self.end,
            wheel: self.wheel.file(),
            dirty,
            before,
            check: changed.then_some(check),
            check_path: self.config.check_path(),
            check_file: self.check_file.clone(),
        })
    }

    /// Takes back a save that failed for lack of space or file descriptors: the next save includes its changes.
    pub fn undo_save(&mut self, save: TimerSave) {
        self.check = save.before;
        self.wheel.mark_dirty(&save.dirty);
    }

    /// Examines a part of the oldest timer log file. Removes the file if all its units are in slots before `read_ms`
    /// and before the saved read time, because recovery needs the whole chain of every unfinished slot. `saved` is
    /// the position of a finished save. Recovery also reads the file before it. Returns whether more work may remain.
    ///
    /// # Errors
    /// The error of reading or removing the file.
    pub fn retire(&mut self, read_ms: i64, saved: u64) -> io::Result<bool> {
        let base = self.log.min();
        let file_end = base + self.log.file_bytes();
        let limit = self.log.base_of(saved.saturating_sub(self.log.file_bytes()));
        if file_end > limit {
            return Ok(false);
        }
        if !(base..=file_end).contains(&self.looked.0) {
            self.looked = (base, i64::MIN);
        }
        let (at, mut latest_ms) = self.looked;
        if at < file_end {
            let mut bytes = vec![0; LOOK_BYTES];
            let filled = self.log.read_at(&mut bytes, at)?;
            let units = bytes[..filled].chunks_exact(UNIT_BYTES as usize).map_while(TimerUnit::from_bytes);
            latest_ms = units.map(|unit| unit.time_ms()).fold(latest_ms, i64::max);
            self.looked = (at + filled as u64, latest_ms);
            return Ok(true);
        }
        let over = latest_ms < read_ms.min(self.saved_read_ms) && self.log.remove_first(limit)?;
        if over {
            self.looked = (0, i64::MIN);
        }
        Ok(over)
    }
}

/// A save of the timer's files that is not written yet.
pub struct TimerSave {
    disk: Arc<dyn Disk>,
    log: Arc<TimerLog>,
    log_range: std::ops::Range<u64>,
    wheel: Arc<dyn DiskFile>,
    dirty: Vec<DirtyPage>,
    before: TimerCheck,
    check: Option<TimerCheck>,
    check_path: PathBuf,
    check_file: Arc<OnceLock<Arc<dyn DiskFile>>>,
}

impl TimerSave {
    /// Position in the timer log that the save covers.
    pub fn position(&self) -> u64 {
        self.log_range.end
    }

    /// Whether the save has no data to write.
    pub fn is_empty(&self) -> bool {
        self.check.is_none() && self.dirty.is_empty()
    }

    /// Makes the units durable, then the slots, then the `timercheck` file that relies on both.
    ///
    /// # Errors
    /// [`SaveError::Lack`] for lack of space or file descriptors, otherwise [`SaveError::Failed`]. The previous save stays
    /// valid.
    pub fn write(&self) -> Result<(), SaveError> {
        if !self.log_range.is_empty() {
            self.log.sync(self.log_range.start, self.log_range.end).map_err(SaveError::Failed)?;
        }
        write_dirty(&*self.wheel, &self.dirty)?;
        match self.check {
            Some(check) => check.save(&*self.disk, &self.check_path, &self.check_file),
            None => Ok(()),
        }
    }
}
