//! Following a master: the slave writes the bytes of the master's log to the same log position, independent of the
//! frames that carried them. Every whole record is then added to queues and key index, like its append on the master.
//!
//! A frame may end anywhere. The beginning of a record stays in memory until the rest arrives. Only the next report
//! to the master counts it. The store does not write it, because a flush could make it durable without the rest.
//! Recovery could not distinguish such a record from a whole record, because RocketMQ's checksum covers the body
//! only.
//!
//! The empty file `vostok/following` marks a store that follows. Recovery normally distinguishes bytes lost in a
//! power cut from damage by the store times of later records, because old records were flushed. A slave that catches
//! up writes hours of the master's records within one flush interval, so these times prove nothing. If the file
//! exists, recovery ends the log at the first missing bytes behind the checkpoint, and the master sends them again.
//!
//! A blank record ends a file here as on the master, so the files of both have the same content at the same positions.

use crate::append::{Appender, AppenderParts, FollowState};
use crate::checkpoint::Checkpointer;
use crate::digest::{RecordDigest, sum};
use crate::disk::{PAGE_BYTES, Space};
use crate::dispatch::{Dispatch, QueueName};
use crate::error::{AppendError, FollowError};
use crate::flusher::Flusher;
use crate::keys::{KeyEntry, hashes_of};
use crate::queue::table;
use crate::state::State;
use crate::wake::lock;
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use wire::record::{MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, RecordView, peek};
use wire::units::LogOffset;

/// Largest accepted record in bytes, even if the configured limit is lower, because the master's limit may be higher.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Follower of a master and the parts of the store that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Follower<'a> {
    pub(crate) state: &'a State,
    pub(crate) appending: AppenderParts<'a>,
    pub(crate) checkpointer: Checkpointer<'a>,
    pub(crate) flusher: Flusher<'a>,
}

/// Records in a master's bytes from the log's end on.
struct MasterRecords<'a> {
    /// The whole records with their log positions.
    records: Vec<(u64, RecordView<'a>)>,
    /// Queue units of these records.
    dispatches: Vec<Dispatch<QueueName<'a>>>,
    /// Log position behind the last whole record, or behind the blank record that follows it.
    end: u64,
    /// The re-created topic that begins with the next record. The queues of the deleted topic must be removed
    /// first.
    restarted: Option<String>,
}

/// Reason why bytes cannot belong to a master's log: the log position, and the fault there.
type LogMismatch = (u64, String);

impl Follower<'_> {
    /// Appends bytes of the master's log; see [`crate::Store::follow`].
    pub(crate) fn follow(
        &self,
        offset: LogOffset,
        bytes: &[u8],
        restarted: &mut dyn FnMut(&str),
    ) -> Result<(), FollowError> {
        let mut next = self.follow_some(offset, bytes)?;
        while let Some(topic) = next {
            // Before the queues are removed: after a later error, no queue shows that the topic began anew.
            restarted(&topic);
            self.restart_topic(&topic)?;
            next = self.follow_some(self.followed(), &[])?;
        }
        Ok(())
    }

    /// Log position behind the last byte from the master, including an unfinished record that is in memory only.
    pub(crate) fn followed(&self) -> LogOffset {
        let appender = lock(self.appending.appender);
        let unfinished = appender.following.as_ref().map_or(0, |following| following.unfinished.len());
        LogOffset::new(self.state.appended.get() + unfinished as u64)
    }

    /// Appends all whole records. Stops before the first record of a re-created topic, and returns the topic.
    fn follow_some(&self, offset: LogOffset, bytes: &[u8]) -> Result<Option<String>, FollowError> {
        let mut appender = lock(self.appending.appender);
        self.appending.refuse(&appender)?;
        let Some(following) = &mut appender.following else { return Err(FollowError::NotFollowing) };
        let appended = self.state.appended.get();
        let before = following.unfinished.len();
        let expected = LogOffset::new(appended + before as u64);
        let begins = expected == LogOffset::ZERO && !bytes.is_empty();
        if offset != expected && !begins {
            // A heartbeat to an empty store says where the master is, not where the log begins.
            let is_heartbeat = expected == LogOffset::ZERO;
            return if is_heartbeat {
                Ok(None)
            } else {
                Err(FollowError::Offset { expected, found: offset })
            };
        }
        let mut held = std::mem::take(&mut following.unfinished);
        let data: Cow<'_, [u8]> = if held.is_empty() {
            Cow::Borrowed(bytes)
        } else {
            held.extend_from_slice(bytes);
            Cow::Owned(held)
        };
        let start = if begins { offset.get() } else { appended };
        let taken = self.take_whole(&mut appender, &data, start);
        // Where bytes are no records, the unfinished one before them may be what is wrong: the master sends it again.
        let kept = match &taken {
            Ok((end, _)) => usize::try_from(end - start).expect("a part of the bytes")..data.len(),
            Err(FollowError::Record { .. }) => 0..0,
            Err(_) => 0..before,
        };
        appender.keep_unfinished(match data {
            Cow::Borrowed(bytes) => bytes[kept].to_vec(),
            // A long record comes in many pieces: do not copy those before each time.
            Cow::Owned(mut held) => {
                held.truncate(kept.end);
                held.drain(..kept.start);
                held
            }
        });
        drop(appender);
        let (end, restarted) = taken?;
        self.appending.after_append(start, end);
        Ok(restarted)
    }

    /// Writes the whole records of `data`, which begins at the log's end, and makes them visible to readers. Returns
    /// the new end, and the re-created topic that begins there.
    fn take_whole(
        &self,
        appender: &mut Appender,
        data: &[u8],
        start: u64,
    ) -> Result<(u64, Option<String>), FollowError> {
        if start != self.state.appended.get() && !start.is_multiple_of(self.state.config.segment_bytes) {
            let (found, segment_bytes) = (LogOffset::new(start), self.state.config.segment_bytes);
            return Err(FollowError::Start { found, segment_bytes });
        }
        let received = self.records_in(data, start);
        let received = received.map_err(|(at, what)| FollowError::Record { at: LogOffset::new(at), what })?;
        if start != self.state.appended.get() {
            self.begin_log_at(start)?;
        }
        let length = usize::try_from(received.end - start).expect("a part of the bytes");
        self.ensure_files(start, length as u64)?;
        self.write_verbatim(appender, start, &data[..length])?;
        self.count_records(appender, &received);
        Ok((received.end, received.restarted))
    }

    /// Makes written records visible: raises `appended`, adds their units to the queues, and passes their keys and
    /// digests on.
    fn count_records(&self, appender: &mut Appender, received: &MasterRecords<'_>) {
        // Published before the units, so that the record of every visible unit is readable.
        self.state.appended.set(received.end);
        let count = received.dispatches.iter().map(|dispatch| self.put_followed(dispatch)).sum();
        let (mut hashes, mut keys) = (Vec::new(), Vec::new());
        for (at, view) in &received.records {
            hashes.clear();
            hashes_of(view, &mut hashes);
            keys.extend(KeyEntry::all(&hashes, *at, view.store_timestamp()));
            if self.state.config.digests {
                appender.fresh.push(RecordDigest { at: LogOffset::new(*at), digest: sum::of(view) });
            }
            appender.last_record = *at;
            appender.store_timestamp = appender.store_timestamp.max(view.store_timestamp());
        }
        self.appending.index.hand_over(received.end, keys.len(), keys.into_iter());
        self.state.note_unwritten(count);
    }

    /// Whether a record is the first message of a queue whose topic was deleted and created again, so that queue
    /// offsets restart at 0. `before` holds the units of earlier records in the same bytes.
    fn begins_anew(&self, dispatch: &Dispatch<QueueName<'_>>, before: &[Dispatch<QueueName<'_>>]) -> bool {
        let (topic, queue_id) = dispatch.queue;
        dispatch.first == 0
            && (self.state.queues.find(topic, queue_id).is_some_and(|queue| queue.max().get() > 0)
                || before.iter().any(|other| other.queue == dispatch.queue))
    }

    /// Adds a record to a queue. Returns the number of units that were added.
    fn put_followed(&self, dispatch: &Dispatch<QueueName<'_>>) -> u64 {
        let Dispatch { queue: (topic, queue_id), first, count, unit } = *dispatch;
        let offset = unit.log_offset;
        let Ok(queue) = self.state.queues.find_or_create(topic, queue_id) else {
            tracing::error!(%offset, queue_id, "a record's topic cannot be a queue; it is passed over");
            return 0;
        };
        let next = queue.max().get();
        let is_empty = queue.min() == queue.max();
        if first + u64::from(count) <= next
            || queue.is_far_ahead(first, if is_empty { offset.get() } else { 0 })
        {
            tracing::error!(%offset, ?queue, first, "a record's queue offset does not continue its queue; it is passed over");
            return 0;
        }
        queue.put(unit, first, count, &self.state.queues).pushed
    }

    /// Removes the queues of a deleted topic, because the topic was re-created and begins behind the log's
    /// end.
    fn restart_topic(&self, topic: &str) -> Result<(), AppendError> {
        let is_batched = self.state.queues.is_batched(topic);
        tracing::warn!(topic, "the master deleted this topic and made it again; its queues begin anew");
        let removed = self.checkpointer.remove_topic(topic);
        if is_batched {
            self.state.queues.add_batched(topic);
        }
        removed.map(|_| ())
    }

    /// Finds the whole records in bytes that begin at log position `start`.
    fn records_in<'a>(&self, data: &'a [u8], start: u64) -> Result<MasterRecords<'a>, LogMismatch> {
        let mut received =
            MasterRecords { records: Vec::new(), dispatches: Vec::new(), end: start, restarted: None };
        let mut rest = data;
        while let Some((size, magic)) = peek(rest) {
            let at = received.end;
            let left = self.state.config.segment_bytes - at % self.state.config.segment_bytes;
            let is_record = matches!(magic, MAGIC_V1 | MAGIC_V2)
                && (RECORD_BYTES_MIN..=self.state.config.record_bytes_max.max(RECORD_BYTES_MAX))
                    .contains(&(size as usize));
            let is_blank = magic == MAGIC_BLANK && u64::from(size) == left;
            if magic == MAGIC_BLANK && !is_blank {
                let (theirs, own) = (at + u64::from(size), at + left);
                let text = "mappedFileSizeCommitLog must be the master's, in a store that begins empty";
                return Err((
                    at,
                    format!(
                        "a file of the master's log ends at {theirs}, and one of this log at {own}: {text}"
                    ),
                ));
            }
            if u64::from(size) > left || !is_record && !is_blank {
                return Err((
                    at,
                    format!("magic {magic:#010x} with size {size} where {left} bytes are left"),
                ));
            }
            let Some(bytes) = rest.split_off(..size as usize) else { break };
            if is_record {
                let view = RecordView::parse(bytes).and_then(|view| view.check_crc().map(|()| view));
                let view = view.map_err(|error| (at, error.to_string()))?;
                if view.log_offset() != Some(LogOffset::new(at)) {
                    return Err((at, format!("the record says it lies at {:?}", view.log_offset())));
                }
                if !self.add_record(&mut received, at, view) {
                    break;
                }
            }
            received.end += u64::from(size);
        }
        Ok(received)
    }

    /// Adds a whole record and its queue units. Returns `false` if the record starts a re-created topic.
    fn add_record<'a>(&self, received: &mut MasterRecords<'a>, at: u64, view: RecordView<'a>) -> bool {
        let before = received.dispatches.len();
        for dispatch in self.state.rules().dispatches_of(&view, at) {
            let (topic, _) = dispatch.queue;
            if self.state.queues.tombstones.covers(topic, at) {
                continue;
            }
            if self.begins_anew(&dispatch, &received.dispatches[..before]) {
                received.restarted = Some(topic.to_owned());
                received.dispatches.truncate(before);
                return false;
            }
            received.dispatches.push(dispatch);
        }
        received.records.push((at, view));
        true
    }

    /// Makes the commit log files for `length` bytes at a log position.
    fn ensure_files(&self, at: u64, length: u64) -> Result<(), AppendError> {
        let segment_bytes = self.state.config.segment_bytes;
        let mut base = at / segment_bytes * segment_bytes;
        while base < at + length {
            self.appending.preallocator().ensure_segment(base)?;
            base += segment_bytes;
        }
        Ok(())
    }

    /// Writes bytes unchanged to the log, across several files if needed.
    fn write_verbatim(&self, appender: &mut Appender, mut at: u64, bytes: &[u8]) -> Result<(), AppendError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let left = self.state.config.segment_bytes - at % self.state.config.segment_bytes;
            let step = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at(step);
            let end = at + step as u64;
            if later.is_empty() && self.state.writes_ahead() {
                let mut filled = Vec::with_capacity(step + PAGE_BYTES as usize);
                filled.extend_from_slice(now);
                filled.resize(step + self.appending.left_in_page(end), 0);
                self.appending.write_at(appender, &filled, at)?;
            } else {
                self.appending.write_at(appender, now, at)?;
            }
            (rest, at) = (later, end);
        }
        Ok(())
    }

    /// Makes the empty log begin at a log position: the master's log begins there, or its newest file does.
    fn begin_log_at(&self, base: u64) -> Result<(), AppendError> {
        // Excludes a flush, which would publish the old end.
        let _alone = lock(&self.flusher.flush.flushing);
        self.appending.preallocator().note_making(base, self.state.log.begin_at(base))?;
        self.state.flushed.set(base);
        self.state.appended.set(base);
        tracing::info!(base, "the log begins where the master's bytes begin");
        Ok(())
    }

    /// Refuses appends from now on and takes the bytes of a master's log.
    pub(crate) fn start_following(&self) -> Result<(), AppendError> {
        let mut appender = lock(self.appending.appender);
        if appender.closed {
            return Err(AppendError::Closed);
        }
        if appender.following.is_none() {
            note_following(self.state)
                .map_err(|error| self.failed_note("noting that the store follows", error))?;
            appender.following = Some(FollowState::default());
        }
        Ok(())
    }

    /// Drops an unfinished record at the end, and returns the log's end. The store keeps following.
    pub(crate) fn drop_unfinished(&self) -> LogOffset {
        let mut appender = lock(self.appending.appender);
        appender.keep_unfinished(Vec::new());
        LogOffset::new(self.state.appended.get())
    }

    /// Takes appends again, and returns the log's end. All records that readers could see are
    /// durable when this returns. An unfinished record is dropped.
    pub(crate) fn stop_following(&self) -> Result<LogOffset, AppendError> {
        loop {
            let end = {
                let mut appender = lock(self.appending.appender);
                appender.keep_unfinished(Vec::new());
                self.state.appended.get()
            };
            self.flusher.wait_flushed(end).map_err(|interrupted| self.state.explain(interrupted))?;
            let mut appender = lock(self.appending.appender);
            let is_over = self.state.appended.get() == end
                && appender.following.as_ref().is_none_or(|following| following.unfinished.is_empty());
            if is_over {
                if appender.following.is_some() {
                    forget_following(self.state)
                        .map_err(|error| self.failed_note("noting that the store does not follow", error))?;
                    appender.following = None;
                }
                return Ok(LogOffset::new(end));
            }
        }
    }

    fn failed_note(&self, what: &str, error: std::io::Error) -> AppendError {
        let interrupted = self.state.failed(what, error);
        self.state.explain(interrupted)
    }
}

fn following_path(state: &State) -> PathBuf {
    table::directory(&state.config.root).join("following")
}

/// Records durably that the store follows a master.
pub(crate) fn note_following(state: &State) -> io::Result<()> {
    let directory = table::directory(&state.config.root);
    state.disk.create_dir_all(&directory)?;
    state.disk.create(&following_path(state), 0, Space::Sparse)?;
    state.disk.sync_dir(&directory)?;
    state.disk.sync_dir(&state.config.root)
}

/// Removes the file `vostok/following`, durably. The log must be durable.
pub(crate) fn forget_following(state: &State) -> io::Result<()> {
    state.disk.remove(&following_path(state))?;
    state.disk.sync_dir(&table::directory(&state.config.root))
}

/// Whether the store followed a master at its last close or crash.
pub(crate) fn has_followed(state: &State) -> io::Result<bool> {
    let entries = state.disk.list(&table::directory(&state.config.root))?;
    Ok(entries.iter().any(|entry| entry.name == "following"))
}
