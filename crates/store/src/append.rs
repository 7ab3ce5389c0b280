//! Appends a batch: the only code that assigns log positions, queue offsets and store times.

use crate::batch::{Batch, Item};
use crate::digest::{NewDigests, RecordDigest, sum};
use crate::disk::PAGE_BYTES;
use crate::dispatch::Dispatch;
use crate::error::AppendError;
use crate::index::KeyIndex;
use crate::log::Segment;
use crate::planted::{self, Bug};
use crate::preallocation::Preallocator;
use crate::queue::{Unit, batched};
use crate::state::State;
use crate::wake::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use wire::record::{self, BLANK_BYTES, Placement, RecordView};
use wire::units::{LogOffset, QueueOffset};

/// State that only the holder of the appender's lock may access.
#[derive(Default)]
pub(crate) struct Appender {
    /// Store time of the newest record in ms since the epoch: store times never go back.
    pub(crate) store_timestamp: i64,
    /// Log position of the newest record.
    pub(crate) last_record: u64,
    pub(crate) closed: bool,
    /// Digests of the records since the last checkpoint or entry of the unit journal.
    pub(crate) fresh: NewDigests,
    /// Set while the store takes the log of a master instead of appends.
    pub(crate) following: Option<FollowState>,
    /// The commit log file of the last write, kept to avoid a lookup.
    segment: Option<Arc<Segment>>,
}

/// State of a store that follows a master; see [`crate::follow`].
#[derive(Default)]
pub(crate) struct FollowState {
    /// Bytes from the master behind `appended`: the beginning of a record whose rest has not arrived. They are in
    /// memory only.
    pub(crate) unfinished: Vec<u8>,
}

/// Whether appends are refused because the disk is over the warning level. Set by retention.
#[derive(Default)]
pub(crate) struct DiskFull {
    refuses: AtomicBool,
    /// Percentages in use of the log's disk and of the queues' disk.
    percents: Mutex<(u64, u64)>,
}

impl DiskFull {
    /// Refuses or accepts appends from now on. Returns whether they were refused before.
    pub(crate) fn set(&self, refuses: bool, percents: (u64, u64)) -> bool {
        *lock(&self.percents) = percents;
        self.refuses.swap(refuses, Ordering::Relaxed)
    }
}

/// The appender and the parts of the store that it uses.
#[derive(Clone, Copy)]
pub(crate) struct AppenderParts<'a> {
    pub(crate) state: &'a State,
    pub(crate) appender: &'a Mutex<Appender>,
    pub(crate) disk_full: &'a DiskFull,
    pub(crate) index: &'a KeyIndex,
}

impl Appender {
    /// Sets the bytes of the unfinished record at the end of a master's log.
    pub(crate) fn keep_unfinished(&mut self, bytes: Vec<u8>) {
        if let Some(following) = &mut self.following {
            following.unfinished = bytes;
        }
    }

    /// Returns to the newest record that remains after a truncation of the log.
    pub(crate) fn cut_to(&mut self, last_record: u64, store_timestamp: i64) {
        (self.last_record, self.store_timestamp) = (last_record, store_timestamp);
        self.segment = None;
    }
}

/// Contiguous part of the batch that is written to a single commit log file.
struct LogWrite {
    /// Range of the batch's buffer, `from..end`.
    from: usize,
    end: usize,
    /// Log position where the bytes go.
    at: u64,
    /// Log position of the blank record that ends the previous file, in which this part did not fit.
    blank: Option<u64>,
}

impl AppenderParts<'_> {
    pub(crate) fn append(&self, batch: &mut Batch, now_ms: i64) -> Result<(), AppendError> {
        assert!(!batch.appended, "a batch is appended once");
        // Held across the write: log order must be queue offset order. The write goes to the page cache, and early write-back
        // paces it.
        let mut appender = lock(self.appender);
        self.refuse(&appender)?;
        if appender.following.is_some() {
            return Err(AppendError::Following);
        }
        if batch.is_empty() {
            batch.end = LogOffset::new(self.state.appended.get());
            batch.store_timestamp = appender.store_timestamp;
            batch.appended = true;
            return Ok(());
        }
        let start = self.state.appended.get();
        if batch.has_multi {
            batch.write_offsets();
        }
        if let Some(queue) = batch.items.iter().flat_map(Item::queues).find(|queue| queue.is_removed()) {
            return Err(AppendError::Removed { topic: queue.topic().to_owned() });
        }
        let (mut runs, end) = self.lay_out(batch, start)?;
        let store_timestamp = now_ms.max(appender.store_timestamp);
        self.fill_in(batch, store_timestamp);
        let size = batch.bytes.len();
        if self.state.writes_ahead() {
            self.fill_page(&mut runs, batch, end);
        }
        let written = runs.iter().try_for_each(|run| self.write_run(&mut appender, run, &batch.bytes));
        batch.bytes.truncate(size);
        written?;
        appender.store_timestamp = store_timestamp;
        if self.state.config.digests {
            for item in &batch.items {
                let digest = item.digest.expect("filled in with the place");
                appender.fresh.push(RecordDigest { at: item.log_offset, digest });
            }
        }
        appender.last_record = batch.items.last().map_or(0, |item| item.log_offset.get());
        // Published before the index, so that the record of every visible unit is readable. No checkpoint comes in
        // between, because it takes the appender's lock. Sequentially consistent with the idle flags: the check below
        // finds a thread that sets its flag and then sees the old end. A thread that sees the new end does not sleep.
        self.state.appended.set(end);
        self.index(batch, store_timestamp);
        batch.end = LogOffset::new(end);
        batch.store_timestamp = store_timestamp;
        self.index.hand_over(end, batch.hashes.len(), batch.key_entries());
        batch.appended = true;
        drop(appender);
        self.after_append(start, end);
        Ok(())
    }

    pub(crate) fn preallocator(&self) -> Preallocator<'_> {
        Preallocator { state: self.state }
    }

    /// Rejects appends from clients and masters alike while the store could not hold their bytes.
    pub(crate) fn refuse(&self, appender: &Appender) -> Result<(), AppendError> {
        if let Some(reason) = self.state.fence.reason() {
            return Err(AppendError::Fenced(reason));
        }
        if appender.closed {
            return Err(AppendError::Closed);
        }
        if self.disk_full.refuses.load(Ordering::Relaxed) {
            let (log_percent, queue_percent) = *lock(&self.disk_full.percents);
            return Err(AppendError::DiskFull { log_percent, queue_percent });
        }
        let waiting = self.state.queues.unwritten_units.load(Ordering::Relaxed);
        let limit = self.state.config.unwritten_units_max;
        if waiting > limit { Err(AppendError::Busy { waiting, limit }) } else { Ok(()) }
    }

    /// Assigns a log position to each record and creates the files for all records. After an error, files may have
    /// been created, and nothing was written to the log.
    fn lay_out(&self, batch: &mut Batch, start: u64) -> Result<(Vec<LogWrite>, u64), AppendError> {
        let segment_bytes = self.state.config.segment_bytes;
        let mut runs = vec![LogWrite { from: 0, end: 0, at: start, blank: None }];
        let mut at = start;
        let mut index = 0;
        while index < batch.items.len() {
            let mut next = index + 1;
            while batch.items.get(next).is_some_and(|item| item.joined) {
                next += 1;
            }
            let group = &mut batch.items[index..next];
            let bytes: u64 = group.iter().map(|item| u64::from(item.size)).sum();
            let left = segment_bytes - at % segment_bytes;
            if bytes + BLANK_BYTES as u64 > left {
                let blank = Some(at);
                at += left;
                runs.push(LogWrite { from: group[0].start, end: group[0].start, at, blank });
            }
            for item in group {
                item.log_offset = LogOffset::new(at);
                at += u64::from(item.size);
                let run = runs.last_mut().expect("there is one from the start");
                run.end = item.start + item.size as usize;
            }
            index = next;
        }
        for run in &runs {
            self.preallocator().ensure_segment(run.at / segment_bytes * segment_bytes)?;
        }
        Ok((runs, at))
    }

    /// Assigns queue offsets and completes the records.
    fn fill_in(&self, batch: &mut Batch, store_timestamp: i64) {
        let crc_property = batch.crc_property;
        for item in &mut batch.items {
            if item.queued {
                item.queue_offset = item.queue.take_next(item.count());
                if planted::is(Bug::ReuseOffset) && item.queue_offset.get() % 64 == 63 {
                    item.queue_offset = QueueOffset::new(item.queue_offset.get() - 1);
                }
            }
            if let Some(multi) = &item.multi {
                multi.queues().for_each(|queue| {
                    queue.take_next(1);
                });
            }
            let record = &mut batch.bytes[item.start..item.start + item.size as usize];
            let &mut Item { queue_offset, log_offset, .. } = item;
            if let Some(numbered) = item.numbered {
                batched::put_base(record, numbered.base_at, queue_offset.get());
            }
            let placement = Placement { queue_offset, log_offset, store_timestamp };
            record::place(record, &placement);
            if crc_property {
                record::seal_crc_property(record);
            }
            item.digest = match item.digest {
                Some(unplaced) => Some(unplaced ^ sum::placed(&placement)),
                None if self.state.config.digests => {
                    RecordView::parse(record).ok().map(|view| sum::of(&view))
                }
                None => None,
            };
        }
    }

    /// Extends the last write with zeros to the end of its page.
    fn fill_page(&self, runs: &mut [LogWrite], batch: &mut Batch, end: u64) {
        let run = runs.last_mut().expect("there is one from the start");
        run.end += self.left_in_page(end);
        batch.bytes.resize(run.end, 0);
    }

    /// Number of zeros to append to a write that ends at `end`, when files are filled ahead. Preallocation wrote
    /// these zeros past the page cache. A write of a part of a page would make the kernel read the page first.
    pub(crate) fn left_in_page(&self, end: u64) -> usize {
        let segment_bytes = self.state.config.segment_bytes;
        let at = end % segment_bytes;
        let left = at.next_multiple_of(PAGE_BYTES).min(segment_bytes) - at;
        usize::try_from(left).expect("less than a page")
    }

    fn write_run(&self, appender: &mut Appender, run: &LogWrite, bytes: &[u8]) -> Result<(), AppendError> {
        let segment_bytes = self.state.config.segment_bytes;
        if let Some(at) = run.blank {
            let left = segment_bytes - at % segment_bytes;
            let left = u32::try_from(left).expect("less than a record and eight bytes");
            self.write_at(appender, &record::encode_blank(left), at)?;
        }
        self.write_at(appender, &bytes[run.from..run.end], run.at)
    }

    pub(crate) fn write_at(&self, appender: &mut Appender, bytes: &[u8], at: u64) -> Result<(), AppendError> {
        if bytes.is_empty() { Ok(()) } else { self.state.writes.perform(|| self.write(appender, bytes, at)) }
    }

    fn write(&self, appender: &mut Appender, bytes: &[u8], at: u64) -> Result<(), AppendError> {
        let base = at / self.state.config.segment_bytes * self.state.config.segment_bytes;
        let segment = match &appender.segment {
            Some(segment) if segment.base == base => segment,
            _ => {
                let segment = self.state.log.segment_of(at).expect("made while the batch was laid out");
                appender.segment.insert(segment)
            }
        };
        let (from, end) = (at - base, at - base + bytes.len() as u64);
        if self.state.writes_ahead()
            && segment.written_ahead.load(Ordering::Acquire) < end
            && !self.preallocator().wait_written_ahead(segment, end)
        {
            return Err(AppendError::Fenced(self.state.fence.reason().unwrap_or_default()));
        }
        segment.file.write_at(bytes, from).map_err(|error| {
            let reason = format!("writing {} bytes at {at} of the commit log: {error}", bytes.len());
            self.state.put_up_fence(&reason);
            AppendError::Fenced(reason)
        })
    }

    /// Adds the units of a written batch to the in-memory tails of their queues.
    fn index(&self, batch: &Batch, store_timestamp: i64) {
        let mut count = 0;
        for item in batch.items.iter().filter(|item| item.queued) {
            for Dispatch { queue, count: messages, unit, .. } in item.dispatches(store_timestamp) {
                let tags_code = unit.tags_code + i64::from(planted::is(Bug::WrongTags));
                queue.push(Unit { tags_code, ..unit }, messages, &self.state.queues);
                count += u64::from(messages);
            }
        }
        self.state.note_unwritten(count);
    }

    /// Wakes the threads that have work after an append, and answers callers that wait for
    /// `appended`.
    pub(crate) fn after_append(&self, start: u64, end: u64) {
        let passed = |step: u64| start / step != end / step;
        if self.state.signals.flush_idle.load(Ordering::SeqCst)
            || passed(self.state.config.write_back_bytes.max(1))
        {
            self.state.signals.flush_idle.store(false, Ordering::Relaxed);
            self.state.signals.flush.wake();
        }
        if self.state.signals.checkpoint_idle.load(Ordering::SeqCst) {
            self.state.signals.checkpoint_idle.store(false, Ordering::Relaxed);
            self.state.signals.checkpoint.wake();
        }
        if passed((self.state.config.segment_bytes / 4).max(1)) {
            self.state.signals.preallocation.wake();
        }
        self.state.appended.answer();
    }
}
