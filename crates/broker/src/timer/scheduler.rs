//! The timer: the engine that adds timed messages to the wheel and delivers them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};

use store::timer::{
    ChainRequest, DueEntries, DueEntry, SaveError, TimerCheck, TimerFiles, TimerProgress, TimerSave,
    TimerUnit, units,
};
use store::{Batch, Unit};
use wire::units::{LogOffset, QueueOffset};

use super::barrier::Barrier;
use super::fetch::{Chain, Fetch, Fetched, Job};
use crate::engine::{Engine, Next};
use crate::names;
use crate::parts::DeliveryParts;
use crate::position_writer::{self, PositionWriter, wait_flushed};
use crate::state::UnreadableSince;
use crate::topics::Queue;

/// The chain of a slot in the timer log is read this many milliseconds before the slot begins.
const LEAD_MS: i64 = 4000;
/// Most entries kept in memory, at about 70 bytes each.
const NEAR_MAX: usize = 400_000;
/// Pause in milliseconds when an entry is due but waits for another engine or the disk.
const WAIT_MS: i64 = 5;
/// Interval in milliseconds at which the read time is saved while no message is added or delivered.
const IDLE_SAVE_MS: i64 = 60_000;
/// Interval in milliseconds between two checks for old files of the timer log that can be removed.
const RETIRE_MS: i64 = 100;
/// A clock that is this many milliseconds behind the read time is taken to have been set back.
const BEHIND_MS: i64 = 1000;

/// The engine that delivers timed messages.
pub(crate) struct Scheduler {
    pub(super) parts: Arc<DeliveryParts>,
    /// Queue 0 of `rmq_sys_wheel_timer`.
    pub(super) queue: Arc<Queue>,
    pub(super) files: TimerFiles,
    /// Entries near the present time, in the order they are due.
    pub(super) due_entries: DueEntries,
    pub(super) fetch: Fetch,
    /// Offset in the timer queue of the next message to add.
    pub(super) next: i64,
    /// Time since which an unreadable message of the timer queue holds up later messages.
    pub(super) patience: UnreadableSince,
    /// Time since which delivery of due entries fails, by position of their unit in the timer log.
    pub(super) stuck: HashMap<u64, UnreadableSince>,
    /// Cancelling messages that must be rolled before later due messages are delivered.
    pub(super) barrier: Barrier,
    /// Copies of all cancelling messages that were rolled lie before this offset of the timer queue.
    pub(super) rolled_end: i64,
    /// Messages before this offset of the timer queue that are due before `first_read_ms` were delivered by an earlier run.
    pub(super) delivered_before: i64,
    pub(super) first_read_ms: i64,
    /// Messages that arrived after their slot was over: the slots in which they wait for delivery, with the timer
    /// queue offset of the first such message.
    late: VecDeque<(i64, i64)>,
    /// Number of timed messages that are not delivered yet.
    pub(super) pending: i64,
    /// Positions of units whose records the fetch engine has just read into memory.
    pub(super) touched: HashSet<u64>,
    pub(super) batch: Batch,
    pub(super) bytes: Vec<u8>,
    pub(super) properties: Vec<u8>,
    /// Whether a message was added or delivered since the last save.
    pub(super) changed: bool,
    saves: Saves,
    retired_ms: i64,
}

/// Result of a save. A failed save returns its data.
type Saved = Result<(), Box<(SaveError, TimerSave)>>;

/// The state of saving the timer's files.
struct Saves {
    position_writer: PositionWriter,
    /// Running save: the position in the timer log up to which it saves, and the channel of its result.
    running: Option<(u64, Receiver<Saved>)>,
    /// The position in the timer log up to which the last successful save went.
    done: u64,
    /// When the last save began, in milliseconds since the epoch.
    began_ms: i64,
    /// Whether a save failed for good, after which no saves are made.
    failed: bool,
}

impl Scheduler {
    /// Recovers the timer's state from its files and saves them once.
    pub(crate) fn new(
        parts: Arc<DeliveryParts>,
        mut files: TimerFiles,
        fetch: Fetch,
        position_writer: PositionWriter,
    ) -> io::Result<Self> {
        let queue = parts.tables.log_queue(names::TIMER_TOPIC, 0);
        let queue = queue.ok_or_else(|| io::Error::other("the timer topic has no queue"))?;
        let now_ms = parts.runtime.now_ms();
        let recovered = files.recover(parts.tables.store.appended(), now_ms)?;
        let newest = recovered.newest.and_then(|at| {
            let mut bytes = Vec::new();
            parts.tables.store.record_at(at, &mut bytes).ok()?;
            Some(wire::record::RecordView::parse(&bytes).ok()?.raw_queue_offset())
        });
        let next = recovered.queue_offset(newest);
        let precision_ms = files.config().precision_ms;
        let saves = Saves { position_writer, running: None, done: 0, began_ms: now_ms, failed: false };
        tracing::info!(read_ms = recovered.read_ms, next, pending = recovered.pending, "timers go on");
        let end = queue.index.max().to_i64();
        let mut clock = Self {
            due_entries: DueEntries::new(precision_ms, LEAD_MS, NEAR_MAX, recovered.read_ms),
            next: next.min(end),
            patience: UnreadableSince::default(),
            stuck: HashMap::new(),
            barrier: Barrier::default(),
            rolled_end: 0,
            delivered_before: recovered.delivered_before.min(end),
            first_read_ms: recovered.read_ms,
            late: VecDeque::new(),
            pending: recovered.pending,
            touched: HashSet::new(),
            batch: parts.tables.store.batch(),
            bytes: Vec::new(),
            properties: Vec::new(),
            changed: false,
            saves,
            retired_ms: 0,
            parts,
            queue,
            files,
            fetch,
        };
        clock.parts.delivery.timer.window_ms.store(clock.window_ms(), Ordering::Release);
        // The first save makes the files match the checkpoint on disk. It is waited for: units added before it is done would,
        // after a crash, stand where the checkpoint on disk expects others.
        if let Some(save) = clock.begin_save(now_ms)? {
            let (position, end) = (save.position(), clock.parts.tables.store.appended());
            let done = write(&clock.parts.tables.store, end, save);
            clock.saved(position, done);
        }
        clock.publish();
        Ok(clock)
    }

    /// Does all work that is due at `now_ms`. Returns true if more work may be due at once.
    pub(super) fn advance(&mut self, now_ms: i64) -> bool {
        self.take_fetched();
        self.take_saved();
        if now_ms < self.due_entries.read_ms() - BEHIND_MS
            && let Err(error) = self.go_back(now_ms)
        {
            tracing::error!(%error, "the timer cannot follow a clock that was set back; it is tried again");
        }
        let timers = &self.parts.runtime.config.timers;
        let delivers = !timers.stop_dequeue;
        let (cancels, recalled_end) = {
            let order = self.parts.delivery.timer.recall_order();
            (order.cancels, order.recalled_end)
        };
        // A cancelling message must be known before the message it cancels is delivered. Recalls that were answered with
        // success, and rolled ones, are read whatever `timerStopEnqueue` says.
        let enqueues = !timers.stop_enqueue || self.next < recalled_end.max(self.rolled_end);
        let caught_up = !enqueues || self.enqueue(now_ms);
        if let Err(error) = self.ask(now_ms) {
            tracing::error!(%error, "slots of the timer wheel cannot be looked up; it is tried again");
        }
        let busy = caught_up && delivers && self.deliver(now_ms, cancels);
        self.due_entries.finish(now_ms);
        self.publish();
        self.save(now_ms);
        if !busy && now_ms - self.retired_ms >= RETIRE_MS {
            self.retired_ms = now_ms;
            if let Err(error) = self.files.retire(self.due_entries.read_ms(), self.saves.done) {
                tracing::error!(%error, "an old file of the timer log cannot be removed");
            }
        }
        busy
    }

    /// Moves the read time back after the clock was set back. So new timed messages do not wait until the clock has
    /// caught up with the old read time.
    fn go_back(&mut self, now_ms: i64) -> io::Result<()> {
        let before_ms = self.due_entries.read_ms();
        let read_ms = self.files.forget_future(before_ms, self.files.config().slot_of(now_ms))?;
        tracing::warn!(read_ms, before_ms, "the clock was set back");
        self.due_entries.go_back(read_ms);
        self.barrier.wake();
        (self.saves.began_ms, self.retired_ms) = (now_ms, now_ms);
        Ok(())
    }

    /// Returns the time of the next work, after a round at `now_ms` that left no immediate work. A handler that
    /// stores a timed message wakes the timer earlier, as does the fetch engine with each result.
    fn next(&self, now_ms: i64) -> Next {
        let save_ms =
            if self.changed { self.parts.runtime.config.timers.flush_interval_ms } else { IDLE_SAVE_MS };
        let wake_ms = self.due_entries.wake_ms().min(self.saves.began_ms.saturating_add(save_ms));
        Next::At(if wake_ms > now_ms { wake_ms } else { now_ms + WAIT_MS })
    }

    fn publish(&mut self) {
        let checkpoint = self.checkpoint();
        let timer = &self.parts.delivery.timer;
        // Stored after the copies were appended: a thread that sees this read time can read them.
        timer.read_ms.store(self.due_entries.read_ms(), Ordering::Release);
        timer.queue_offset.store(self.next, Ordering::Release);
        timer.pending.store(self.pending.max(0), Ordering::Relaxed);
        *timer.checkpoint() = Some(checkpoint);
        if self.parts.runtime.config.timers.congest_num != i32::MAX {
            let mut counts = timer.counts();
            *counts = counts.split_off(&self.due_entries.read_ms());
        }
    }

    /// Asks the fetch engine for the chains of slots that will begin soon.
    fn ask(&mut self, now_ms: i64) -> io::Result<()> {
        let files = &mut self.files;
        // Written first, since a slot may name units that were added and are not in the file yet.
        files.write()?;
        for load in self.due_entries.wanted(now_ms, |slot_ms| files.slot(slot_ms).map(|slot| slot?.last))? {
            self.fetch.ask(Job::Load(Chain::of(load)));
        }
        if let Some(next_ms) = self.due_entries.search_start(now_ms) {
            let first = self.files.first_slot_from(next_ms)?;
            tracing::info!(
                next_ms,
                first,
                "the timer was far behind the clock and goes on with the first slot in use"
            );
            self.due_entries.skip_to(first, now_ms);
        }
        Ok(())
    }

    /// Returns the longest time in milliseconds that a message added now waits before it is delivered or rolled: at
    /// most half of the retention of the commit log by the present settings.
    pub(super) fn window_ms(&self) -> i64 {
        let (config, files) = (&self.parts.runtime.config, self.files.config());
        let kept_slots = config.timers.kept_slots(config.retention.reserved_ms);
        files.roll_window_ms().min(kept_slots.saturating_mul(files.precision_ms))
    }

    pub(super) fn take_fetched(&mut self) {
        while let Ok(fetched) = self.fetch.results.try_recv() {
            match fetched {
                Fetched::Loaded(loaded, keys) => self.due_entries.loaded(loaded, keys),
                Fetched::Touched(entry) => {
                    self.touched.insert(entry.at);
                    self.due_entries.later(entry, entry.due_ms);
                }
            }
        }
    }

    fn take_saved(&mut self) {
        let done = self.saves.running.as_ref().and_then(|(_, receiver)| receiver.try_recv().ok());
        if let Some(done) = done {
            self.take_outcome(done);
        }
    }

    fn take_outcome(&mut self, done: Saved) {
        if let Some((position, _)) = self.saves.running.take() {
            self.saved(position, done);
        }
    }

    /// Records the result of a save up to `position` in the timer log.
    fn saved(&mut self, position: u64, done: Saved) {
        let Err(refused) = done else {
            self.saves.done = position;
            return;
        };
        match *refused {
            (SaveError::Lack(error), save) => {
                tracing::error!(%error, "the timer's files cannot be written now; it is tried again");
                self.files.undo_save(save);
                self.changed = true;
            }
            (SaveError::Failed(error), _) => {
                tracing::error!(%error, "the timer's files cannot be written; after a restart timers are delivered again");
                self.saves.failed = true;
            }
        }
    }

    fn save(&mut self, now_ms: i64) {
        let wait_ms =
            if self.changed { self.parts.runtime.config.timers.flush_interval_ms } else { IDLE_SAVE_MS };
        let is_free = self.saves.running.is_none() && !self.saves.failed;
        if is_free
            && now_ms - self.saves.began_ms >= wait_ms
            && let Err(error) = self.start_save(now_ms)
        {
            tracing::error!(%error, "units of the timer log cannot be written; it is tried again");
        }
    }

    fn progress(&self, now_ms: i64) -> TimerProgress {
        let (queue_offset, read_ms) = (self.next, self.due_entries.read_ms());
        if self.is_behind() {
            let (read_ms, delivered_before) = (self.first_read_ms.min(read_ms), self.delivered_before);
            return TimerProgress { read_ms, queue_offset, delivered_before, now_ms };
        }
        TimerProgress { read_ms, queue_offset, delivered_before: queue_offset, now_ms }
    }

    /// Whether messages that an earlier run, or a former master, has processed must still be read again.
    fn is_behind(&self) -> bool {
        self.next < self.delivered_before
    }

    /// Records that the next message of the timer queue waits in a slot behind its due slot.
    pub(super) fn note_late(&mut self, slot_ms: i64) {
        if self.late.back().is_none_or(|(slot, _)| *slot != slot_ms) {
            self.late.push_back((slot_ms, self.next));
        }
    }

    /// Returns the progress for slaves: messages before this offset of the timer queue that are due before the read
    /// time were delivered.
    fn checkpoint(&mut self) -> TimerCheck {
        let read_ms = self.due_entries.read_ms();
        while self.late.front().is_some_and(|(slot_ms, _)| *slot_ms < read_ms) {
            self.late.pop_front();
        }
        let (read_ms, queue_offset) = match self.late.front() {
            _ if self.is_behind() => (self.first_read_ms.min(read_ms), self.delivered_before),
            Some((_, first)) => (read_ms, *first),
            None => (read_ms, self.next),
        };
        TimerCheck { read_ms, queue_offset, master_queue_offset: queue_offset, ..TimerCheck::default() }
    }

    /// Takes the data for the next save, or `None` without changes.
    fn begin_save(&mut self, now_ms: i64) -> io::Result<Option<TimerSave>> {
        self.saves.began_ms = now_ms;
        let progress = self.progress(now_ms);
        let save = self.files.save(progress)?;
        // Messages delivered in the present slot are delivered again after a kill, until a later read time is saved.
        self.changed = self.parts.delivery.timer.recall_order().delivered_ms >= progress.read_ms;
        Ok(Some(save).filter(|save| !save.is_empty()))
    }

    fn start_save(&mut self, now_ms: i64) -> io::Result<()> {
        let Some(save) = self.begin_save(now_ms)? else { return Ok(()) };
        // The end of the log, behind every copy delivered so far: a saved position must not outlive these copies.
        let note = position_writer::delivered(&self.parts.tables.store, &self.parts.delivery, now_ms);
        let end = LogOffset::new(note.end);
        let (sender, receiver) = channel();
        let parts = self.parts.clone();
        self.saves.running = Some((save.position(), receiver));
        self.saves.position_writer.run(move || {
            // Sending fails when the timer has stopped, which does not matter.
            let _ = sender.send(write(&parts.tables.store, end, save));
            if parts.tables.store.flushed() >= end {
                position_writer::keep(&parts.delivery, &parts.runtime, note);
            }
            parts.delivery.timer.wakeup().wake();
        });
        Ok(())
    }

    fn leave_clean(&mut self) -> io::Result<()> {
        if let Some(newest) = self.newest() {
            if !self.due_entries.is_loading() {
                let open = self.due_entries.open_units();
                for slot_ms in self.due_entries.begun() {
                    self.shorten(slot_ms, &open, newest)?;
                }
            }
            self.files.mark(self.due_entries.read_ms() - self.files.config().precision_ms, newest)?;
        }
        let now_ms = self.parts.runtime.now_ms();
        let save = self.files.save(self.progress(now_ms))?;
        if !wait_flushed(&self.parts.tables.store, self.parts.tables.store.appended()) {
            return Err(io::Error::other("the log cannot be flushed"));
        }
        save.write().map_err(io::Error::other)
    }

    /// Log offset and size in bytes of the record that was last added to the wheel.
    fn newest(&self) -> Option<(LogOffset, u32)> {
        let mut found: Vec<Unit> = Vec::new();
        let offset = QueueOffset::from_i64(self.next - 1)?;
        self.queue.index.units_blocking(offset, 1, &mut found).ok()?;
        found.first().filter(|unit| !unit.is_blank()).map(|unit| (unit.log_offset, unit.size))
    }

    /// Replaces the chain of a slot by a chain that holds only its undelivered messages. `newest` is the result of
    /// [`newest`](Self::newest).
    fn shorten(&mut self, slot_ms: i64, open: &HashSet<u64>, newest: (LogOffset, u32)) -> io::Result<()> {
        let Some(last) = self.files.slot(slot_ms)?.and_then(|slot| slot.last) else { return Ok(()) };
        let precision_ms = self.files.config().precision_ms;
        let load = ChainRequest { slot_ms, precision_ms, last, from: None, limit: usize::MAX };
        self.files.write()?;
        let mut left = units(self.files.log(), &load)?;
        left.retain(|(at, unit)| {
            let entry = DueEntry::of(*at, unit, slot_ms);
            unit.deletes() || open.contains(at) || self.due_entries.is_forgotten(&entry)
        });
        let left: Vec<TimerUnit> = left.into_iter().map(|(_, unit)| unit).collect();
        self.files.replace(slot_ms, &left, newest)
    }
}

impl Engine for Scheduler {
    fn round(&mut self, now_ms: i64) -> Next {
        if self.advance(now_ms) { Next::At(now_ms) } else { self.next(now_ms) }
    }

    /// Saves the files so that the next start, of Vostok or of Java, delivers no message again. The fetch engine and
    /// the position writer must have finished their jobs.
    fn stop(&mut self) {
        self.take_fetched();
        match self.saves.running.as_ref().map(|(_, receiver)| receiver.recv()) {
            Some(Ok(done)) => self.take_outcome(done),
            Some(Err(_)) => self.saves.failed = true,
            None => {}
        }
        if self.saves.failed {
            return;
        }
        if let Err(error) = self.leave_clean() {
            tracing::error!(%error, "the timer's files are left as after a crash");
        }
    }
}

/// Writes the timer's files once the log is on disk up to `end`.
fn write(store: &store::Store, end: LogOffset, save: TimerSave) -> Saved {
    let unflushed = || SaveError::Failed(io::Error::other("the log cannot be flushed"));
    let done = if wait_flushed(store, end) { save.write() } else { Err(unflushed()) };
    done.map_err(|error| Box::new((error, save)))
}
