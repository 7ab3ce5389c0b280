//! Opens a store. A crash is a normal start: the same steps run after a clean stop and after a power cut, and only
//! begin at another log position.
//!
//! 1. The checkpoint says up to which log position everything is durable. Queue units of records at or behind that position
//!    are dropped. Reading begins behind the last record that still has a unit.
//! 2. The unit journal holds later units; with it, reading begins behind those. From there the log is read, and every whole
//!    record (magic, lengths, checksum, own position) is indexed again.
//! 3. A position without a whole record is the log's end, or damage with records behind it that are kept: [`evidence`]
//!    decides. Bytes behind the end are copied to `vostok/cut` and wiped, and later files are removed: otherwise an old
//!    record could lie exactly behind a new one and be read again.
//!
//! Without a usable checkpoint, the queue files of a cleanly stopped store are trusted, and those of a crashed store
//! are not. All queues are then rebuilt, as they are if the queues' newest record is not in the log. Units of records
//! before the log's start are kept even then. Only such units tell the next queue offset of a queue whose messages
//! are all deleted.

mod aside;
mod behind;
mod digests;
mod evidence;
mod heal;
mod import;
mod known;
mod mounts;
mod numbers;
mod redispatch;
mod replay;
mod restarts;
mod scan;
mod segments;
mod truncate;
pub(crate) mod window;

use crate::checkpoint::Checkpointer;
use crate::checkpoint_file::{Checkpoint, Mark};
use crate::disk::{DirEntry, Space};
use crate::error::OpenError;
use crate::follow::{forget_following, has_followed};
use crate::heal_list::LostQueues;
use crate::queue::{Extent, Unit};
use crate::read::Reader;
use crate::state::State;
use crate::wake::lock;
pub(crate) use digests::{agrees, is_untouched};
pub(crate) use heal::Healer;
pub(crate) use known::is_ours;
use known::{CheckedTable, NewestRecord, crash_mark};
use replay::ReplayResult;
pub(crate) use restarts::Restarts;
pub(crate) use scan::FILLER_TOPIC;
pub use scan::Gap;
use scan::{AmbiguousPosition, LostRecords, Origin, Scan};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use window::{LogContent, Window, find};
use wire::record::RecordView;
use wire::units::LogOffset;

/// Findings and actions of opening a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Whether the store was not closed cleanly.
    pub after_crash: bool,
    /// Log position where reading began.
    pub from: u64,
    /// Log position behind the last whole record, at which the next record is written.
    pub end: u64,
    /// Highest log position in the checkpoint: of the durable log, of the newest record, or the confirm offset.
    /// Higher than `end` when files of the log are gone.
    pub reached_before: u64,
    /// Number of records that were read and indexed again.
    pub records: u64,
    /// Reason why reading ended, if it did not end at empty space.
    pub cut: Option<String>,
    /// Number of lost whole records behind the cut, including records in removed files.
    pub lost_behind_cut: u64,
    /// Number of commit log files that were removed because they lie behind the cut.
    pub removed_files: u64,
    /// Paths of the copies of the cut bytes.
    pub copies: Vec<PathBuf>,
    /// Damaged parts of the log. Records behind them are kept.
    pub gaps: Vec<Gap>,
}

/// Recovery and the parts of the store that it uses. It has no state.
#[derive(Clone, Copy)]
pub(crate) struct Recovery<'a> {
    pub(crate) state: &'a State,
    pub(crate) lost: &'a LostQueues,
    pub(crate) checkpointer: Checkpointer<'a>,
    pub(crate) reader: Reader<'a>,
}

impl Recovery<'_> {
    /// Makes files, queues and watermarks consistent.
    pub(crate) fn recover(&self) -> Result<OpenReport, OpenError> {
        let root = &self.state.config.root;
        let after_crash = self.read_checkpoint()?;
        let page = *lock(&self.state.page);
        self.load_segments()?;
        self.refuse_lost_log(&page)?;
        self.complete_truncation()?;
        let page = *lock(&self.state.page);
        let reached = page.logics_physical_offset.max(page.newest_record()).max(page.confirm_phy_offset);
        let reached_before = u64::try_from(reached).unwrap_or(0);
        self.load_digests()?;
        let (mut mounts_before, mut mounts) = (self.mounts_before(), self.mounts_now());
        let known = self.known_queues(&page)?;
        let checkpointed = self.known_durable(&page, after_crash)?;
        let sure = checkpointed.max(mounts_before.durable);
        let kept_pages = !after_crash || mounts.kept_pages(&mounts_before);
        if !after_crash {
            // Before the crash mark is set: a kill in between must not make the next opening forget that the stop was clean.
            mounts.durable = sure;
            self.note_mounts(&mounts_before, mounts.clone());
            mounts_before = mounts.clone();
        }
        // Set the crash mark first: recovery changes files from here on, and a crash in between must be seen as one.
        let is_known = known.is_some();
        if !is_known {
            // Runs before the crash mark is set too, because the mark means that Vostok's files of batch consume
            // queues are the newest.
            self.import_batches()?;
        }
        self.begin(page.mark, is_known)?;
        let (from, newest) = self.take_tables(known.as_ref(), &page, after_crash)?;
        let origin = Origin {
            from,
            checkpointed,
            sure,
            kept_pages,
            has_followed: has_followed(self.state).map_err(OpenError::io(root))?,
            clean_end: u64::try_from(page.logics_physical_offset).ok().filter(|_| !after_crash),
            store_timestamp: newest.store_timestamp,
        };
        let scan = self.read_log(origin, is_known)?;
        let copies = self.end_at(&scan, from, newest, after_crash)?;
        mounts.durable = mounts_before.durable.min(scan.end);
        let Scan { end, records, reason: cut, lost, gaps, .. } = scan;
        if !gaps.is_empty() {
            mounts.durable = end;
        }
        self.note_mounts(&mounts_before, mounts);
        if origin.has_followed {
            // Everything up to the end is durable now.
            forget_following(self.state).map_err(OpenError::io(root))?;
        }
        let LostRecords { records: lost_behind_cut, files: removed_files } = lost;
        let recovered = OpenReport {
            after_crash,
            from,
            end,
            reached_before,
            records,
            cut,
            lost_behind_cut,
            removed_files,
            copies,
            gaps,
        };
        self.report(&recovered);
        Ok(recovered)
    }

    /// Loads the checkpoint. Returns whether the store was not closed cleanly (`abort` exists).
    fn read_checkpoint(&self) -> Result<bool, OpenError> {
        let root = &self.state.config.root;
        let entries = self.state.disk.list(root).map_err(OpenError::io(root))?;
        let path = root.join("checkpoint");
        let page = Checkpoint::load(&*self.state.disk, &path).map_err(OpenError::io(path))?;
        *lock(&self.state.page) = page;
        Ok(entries.iter().any(|entry| entry.name == "abort"))
    }

    /// Loads the queues from the tables. Returns the log position from which the queues do not cover the log, and the
    /// newest record before it.
    fn take_tables(
        &self,
        known: Option<&CheckedTable>,
        page: &Checkpoint,
        after_crash: bool,
    ) -> Result<(u64, NewestRecord), OpenError> {
        if let Some(known) = known {
            return self.take_known(known, page);
        }
        // Remove the journal before the next table is written: it must not be replayed on top of that one.
        self.checkpointer.remove_journal().map_err(OpenError::io(&self.state.config.root))?;
        self.keep_tombstones()?;
        self.load_queues(after_crash)
    }

    /// Reads the log from `origin`, repeatedly until all re-created topics are known.
    fn read_log(&self, origin: Origin, is_known: bool) -> Result<Scan, OpenError> {
        let mut scan = self.scan(origin, Restarts::default())?;
        // A table lists the deleted topics. Without one, a scan of the whole log may find further re-created topics.
        while !is_known && scan.learn() {
            tracing::warn!(
                "topics were deleted and made again; reading the log again without their old messages"
            );
            self.lower_checkpoint(0)?;
            lock(&self.checkpointer.checkpoints.rounds).forget();
            self.load_queues_below(0, true)?;
            let origin = Origin { from: self.state.log.min(), store_timestamp: 0, ..origin };
            scan = self.scan(origin, scan.known)?;
        }
        match &scan.undecided {
            Some(undecided) => Err(self.refusal(scan.end, undecided)),
            None => Ok(scan),
        }
    }

    /// Cuts the log and all derived data at the end of the scan. Returns the paths of copies of the cut bytes.
    fn end_at(
        &self,
        scan: &Scan,
        from: u64,
        newest: NewestRecord,
        after_crash: bool,
    ) -> Result<Vec<PathBuf>, OpenError> {
        let root = &self.state.config.root;
        let copies = self.cut(scan, after_crash)?;
        self.state.digests.cut(scan.end).map_err(OpenError::io(root))?;
        self.reader.ahead.came_from_disk(scan.end);
        if lock(&self.state.page).logics_physical_offset > scan.end.cast_signed() {
            self.lower_checkpoint(from)?;
        }
        // A tombstone that reaches behind the end would hide records that are yet to come.
        self.state.queues.tombstones.lower(scan.end);
        self.set_state(scan, newest);
        self.checkpointer.indexer.index.cut(scan.end).map_err(OpenError::io(root.join("index")))?;
        self.checkpointer.indexer.index.begin_at(scan.end, after_crash);
        Ok(copies)
    }

    /// Makes the error that rejects opening a store whose log ends at an undecided position: damage or a power cut's
    /// loss.
    fn refusal(&self, at: u64, undecided: &AmbiguousPosition) -> OpenError {
        let AmbiguousPosition { what, behind } = undecided;
        let (base, segment) =
            (at / self.state.log.segment_bytes * self.state.log.segment_bytes, self.state.log.segment_of(at));
        let path =
            segment.map_or_else(|| self.state.config.commit_log.clone(), |segment| segment.path.clone());
        let mut store = format!("--data {}", self.state.config.root.display());
        if self.state.config.commit_log != self.state.config.root.join("commitlog")
            || self.state.log.directories.all().count() > 1
        {
            let directories: Vec<_> =
                self.state.log.directories.all().map(|directory| directory.display().to_string()).collect();
            store = format!("{store} --commit-log {}", directories.join(","));
        }
        OpenError::Undecided {
            path,
            position: at - base,
            at,
            what: what.clone(),
            records: behind.records,
            seconds: behind.age_ms().unsigned_abs().div_ceil(1000),
            store,
        }
    }

    /// Takes the queues from the queue table and the unit journal. Returns the log position where reading begins, and the
    /// newest record before it.
    fn take_known(&self, known: &CheckedTable, page: &Checkpoint) -> Result<(u64, NewestRecord), OpenError> {
        let from = page.logics_physical_offset.unsigned_abs().max(self.state.log.min());
        self.insert_known(known);
        match self.replay_journal(from)? {
            ReplayResult::To(end, newest) => return Ok((end, newest)),
            ReplayResult::Nothing => {}
            ReplayResult::Broken => {
                self.state.queues.forget_all();
                self.insert_known(known);
            }
        }
        self.checkpointer.remove_journal().map_err(OpenError::io(&self.state.config.root))?;
        Ok((from, known.newest))
    }

    fn report(&self, recovered: &OpenReport) {
        let OpenReport {
            after_crash, from, end, records, cut, lost_behind_cut, removed_files, copies, ..
        } = recovered;
        tracing::info!(after_crash, from, end, records, "store opened");
        if let Some(reason) = cut {
            tracing::warn!(
                at = end,
                reason,
                lost_behind_cut,
                removed_files,
                ?copies,
                "cut the log behind the last whole record"
            );
        }
    }

    /// Log position before which everything was durable: the checkpoint's, and after a clean stop at least the start of the
    /// last file with records. Damage before it is no consequence of a crash.
    fn known_durable(&self, page: &Checkpoint, after_crash: bool) -> Result<u64, OpenError> {
        // A confirm offset says what replicas have, not what is on this disk.
        let is_confirm = self.state.config.controller_mode && page.newest.is_none();
        let newest = if is_confirm { 0 } else { page.newest_record() };
        let claimed = u64::try_from(page.logics_physical_offset.max(newest)).unwrap_or(0);
        let claimed = claimed.min(self.state.log.capacity_end());
        if after_crash {
            return Ok(claimed);
        }
        for segment in self.state.log.segments_in(claimed, u64::MAX).into_iter().rev() {
            let (base, path) = (segment.base, segment.path.clone());
            let mut window = Window::new(segment, self.state.log.segment_bytes);
            if matches!(find(&mut window, 0).map_err(OpenError::io(path))?, LogContent::Record(_)) {
                return Ok(claimed.max(base));
            }
        }
        Ok(claimed)
    }

    /// Loads the queues from their files, as far as the files are trustworthy. Returns the log position where
    /// reading begins, and the newest record before it.
    fn load_queues(&self, after_crash: bool) -> Result<(u64, NewestRecord), OpenError> {
        let unit = self.load_believed_queues(after_crash)?;
        let from = unit.map_or(0, |unit| unit.end().get()).max(self.state.log.min());
        let Some(unit) = unit else { return Ok((from, NewestRecord::default())) };
        let mut bytes = vec![0; unit.size as usize];
        let at = unit.log_offset.get();
        if let Some(segment) = self.state.log.segment_of(at) {
            segment.file.read_at(&mut bytes, at - segment.base).map_err(OpenError::io(&segment.path))?;
        }
        let store_timestamp = RecordView::parse(&bytes).map_or(0, |view| view.store_timestamp());
        Ok((from, NewestRecord { at, store_timestamp }))
    }

    fn load_believed_queues(&self, after_crash: bool) -> Result<Option<Unit>, OpenError> {
        let held = self.state.log.capacity_end();
        let claimed = u64::try_from(lock(&self.state.page).logics_physical_offset).unwrap_or(0);
        // A clean stop leaves the queues whole. Its checkpoint may name an old position: RocketMQ up to 5.4 did not update
        // it.
        let limit = if after_crash { claimed.min(held) } else { held };
        let Some(unit) = self.load_queues_below(limit, after_crash)? else { return Ok(None) };
        if !self.is_record(unit)? {
            tracing::warn!(at = %unit.log_offset, "the queues' newest record is not in the log; rebuilding all queues");
            self.lower_checkpoint(0)?;
            return self.load_queues_below(0, true);
        }
        if self.is_plausible_start(unit.end().get())? {
            return Ok(Some(unit));
        }
        // Either the next record is torn, or the unit's size is wrong; reading the whole file tells which.
        let base = unit.log_offset.get() / self.state.log.segment_bytes * self.state.log.segment_bytes;
        tracing::warn!(at = %unit.end(), base, "no record begins behind the newest indexed one; reading its file again");
        self.lower_checkpoint(base)?;
        self.load_queues_below(base, true)
    }

    /// Lowers the checkpoint's position and drops its mark, before queues behind the position are wiped and rebuilt.
    /// After a crash in between, the next opening rebuilds them again.
    fn lower_checkpoint(&self, offset: u64) -> Result<(), OpenError> {
        self.save_page_opening(|page| {
            page.logics_physical_offset = offset.cast_signed();
            page.mark = None;
        })
    }

    fn save_page_opening(&self, change: impl FnOnce(&mut Checkpoint)) -> Result<(), OpenError> {
        let mut page = lock(&self.state.page);
        change(&mut page);
        let path = self.state.config.root.join("checkpoint");
        page.save(&*self.state.disk, &path).map_err(OpenError::io(path))
    }

    /// Loads the units of records before log position `limit`. Always loads units of records before the log's start,
    /// because only they tell the next queue offset of a queue whose messages are all deleted. Returns the newest
    /// unit of a record in the log.
    fn load_queues_below(&self, limit: u64, wipe: bool) -> Result<Option<Unit>, OpenError> {
        let limit = limit.max(self.state.log.min());
        self.state.queues.forget_all();
        let ordinary = self.load_queues_of(&self.state.queues.directory, (limit, wipe))?;
        let batched = self.load_queues_of(&self.state.queues.batched_directory, (limit, wipe))?;
        let newest = [ordinary, batched].into_iter().flatten().max_by_key(Unit::end);
        let newest = newest.filter(|unit| unit.log_offset.get() >= self.state.log.min());
        if newest.is_none() && lock(&self.state.page).logics_physical_offset > 0 {
            // All queues are rebuilt from the log. A crash meanwhile must not leave the checkpoint vouching for them.
            self.lower_checkpoint(0)?;
        }
        Ok(newest)
    }

    fn load_queues_of(
        &self,
        directory: &Path,
        (limit, wipe): (u64, bool),
    ) -> Result<Option<Unit>, OpenError> {
        let is_batched = directory == self.state.queues.batched_directory;
        let log_min = LogOffset::new(self.state.log.min());
        let touched = &mut *lock(&self.checkpointer.checkpoints.touched);
        let mut newest: Option<Unit> = None;
        let entries = self.state.disk.list(directory).map_err(OpenError::io(directory))?;
        let is_ours =
            |entry: &&DirEntry| entry.is_dir && self.state.queues.is_batched(&entry.name) == is_batched;
        for topic in entries.iter().filter(is_ours) {
            let directory = directory.join(&topic.name);
            for entry in self.state.disk.list(&directory).map_err(OpenError::io(&directory))? {
                let Some(queue_id) = entry.name.parse::<i32>().ok().filter(|id| *id >= 0 && entry.is_dir)
                else {
                    continue;
                };
                let files = self.state.queues.files_of(&topic.name, queue_id);
                let loaded = files.load(LogOffset::new(limit), wipe, touched)?;
                let queue = self.state.queues.insert(&topic.name, queue_id, loaded.extent);
                if loaded.first.is_some_and(|unit| unit.is_blank() || unit.log_offset < log_min) {
                    queue.correct_min(log_min).map_err(|error| OpenError::Io {
                        path: directory.join(&entry.name),
                        source: std::io::Error::other(error),
                    })?;
                }
                // No queue table holds another minimum for this queue.
                queue.commit(Extent { min: queue.min().get(), ..queue.committed() });
                newest = [newest, loaded.last].into_iter().flatten().max_by_key(Unit::end);
            }
        }
        Ok(newest)
    }

    /// Whether the log holds the record that a unit refers to.
    fn is_record(&self, unit: Unit) -> Result<bool, OpenError> {
        let Some(segment) = self.state.log.segment_of(unit.log_offset.get()) else { return Ok(false) };
        let at = unit.log_offset.get() - segment.base;
        if at + u64::from(unit.size) > self.state.log.segment_bytes {
            return Ok(false);
        }
        let mut bytes = vec![0; unit.size as usize];
        segment.file.read_at(&mut bytes, at).map_err(OpenError::io(&segment.path))?;
        Ok(RecordView::parse(&bytes).is_ok_and(|view| {
            view.log_offset() == Some(unit.log_offset)
                && view.size() == bytes.len()
                && view.check_crc().is_ok()
        }))
    }

    /// Copies and wipes the bytes behind the log's end, and makes everything before it durable. Returns the paths of
    /// the copies.
    fn cut(&self, scan: &Scan, after_crash: bool) -> Result<Vec<PathBuf>, OpenError> {
        let end = scan.end;
        let mut copies = Vec::new();
        if scan.reason.is_some() {
            copies = self.set_aside(end).map_err(OpenError::io(&self.state.config.root))?;
        }
        if let Some(segment) = self.state.log.segment_of(end) {
            let at = end - segment.base;
            let left = self.state.log.segment_bytes - at;
            let mut head = [0; 8];
            let look = usize::try_from(left.min(8)).unwrap_or(8);
            segment.file.read_at(&mut head[..look], at).map_err(OpenError::io(&segment.path))?;
            if after_crash || head != [0; 8] {
                segment.file.zero(at, left).map_err(OpenError::io(&segment.path))?;
                segment.file.sync().map_err(OpenError::io(&segment.path))?;
            }
            if self.state.writes_ahead() {
                segment.written_ahead.store(at, Ordering::Release);
            }
        }
        let directory = &self.state.config.commit_log;
        // After a kill the newest records are in the page cache only.
        self.state.log.sync(scan.origin.from, end).map_err(OpenError::io(directory))?;
        self.state.log.remove_from(end.max(1)).map_err(OpenError::io(directory))?;
        Ok(copies)
    }

    fn set_state(&self, scan: &Scan, newest: NewestRecord) {
        let mut appender = lock(self.checkpointer.appender);
        // When no record was read, the newest indexed record is the newest of all.
        appender.store_timestamp = scan.store_timestamp.max(newest.store_timestamp);
        appender.last_record = scan.last_record.unwrap_or(newest.at);
        self.state.appended.set(scan.end);
        self.state.flushed.set(scan.end);
        if self.state.config.controller_mode {
            // As `BrokerController` and `CommitLog` in controller mode: the confirm offset of the checkpoint, within the log.
            let confirmed = u64::try_from(lock(&self.state.page).confirm_phy_offset).unwrap_or(0);
            self.state.confirmed.set(confirmed.max(self.state.log.min()).min(scan.end));
        }
    }

    /// Creates `abort`, the crash mark for the next start: like RocketMQ's, a file that begins with the process id.
    /// The checkpoint is updated after it, so that a start detects that another program changed one of the two.
    fn begin(&self, mark: Option<Mark>, is_known: bool) -> Result<(), OpenError> {
        let openings = mark.map_or(1, |mark| mark.openings + 1);
        let rounds = &mut *lock(&self.checkpointer.checkpoints.rounds);
        rounds.openings = openings;
        rounds.generation = mark.map_or(0, |mark| mark.generation);
        if !is_known && mark.is_some() {
            // Must precede the new `abort`: together with it the old checkpoint would make an unusable queue table look
            // usable.
            self.save_page_opening(|page| page.mark = None)?;
        }
        let root = &self.state.config.root;
        let path = root.join("abort");
        let text = crash_mark(openings);
        let file = self
            .state
            .disk
            .create(&path, text.len() as u64, Space::Reserved)
            .map_err(OpenError::io(&path))?;
        let written = file.write_at(text.as_bytes(), 0).and_then(|()| file.sync());
        written.and_then(|()| self.state.disk.sync_dir(root)).map_err(OpenError::io(path))?;
        match mark {
            Some(mark) if is_known => {
                self.save_page_opening(|page| page.mark = Some(Mark { openings, running: true, ..mark }))
            }
            _ => Ok(()),
        }
    }
}
