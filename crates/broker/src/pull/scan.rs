//! Which messages of a queue a pull returns, decided by the queue's index alone (`DefaultMessageStore.getMessage`). Only SQL
//! filters need the records themselves.

use store::{CqUnit, Read, ReadError, Store, Unit};
use wire::codes::response;
use wire::record::RecordView;
use wire::units::QueueOffset;

use super::{Pull, Source};
use crate::parts::{PullParts, Replication, Runtime};

/// Most index units read in a step.
const STEP: usize = 256;
/// Bytes of an index unit.
const UNIT_BYTES: u64 = 20;

/// The result of looking for messages.
pub(crate) struct Scan {
    /// Response code of the answer.
    pub code: i32,
    /// Name of the status in `GetMessageStatus`, which is the remark of the answer.
    pub status: &'static str,
    /// Offset at which the client pulls next.
    pub next: i64,
    /// First offset of the queue.
    pub min: i64,
    /// Offset behind the last message consumers may see.
    pub max: i64,
    /// Whether the examined messages lie so far behind the end of the log that a slave may serve the next pull.
    pub is_far_behind: bool,
    /// Bytes of index units and records that were read to find the messages.
    pub bytes_read: u64,
}

impl Scan {
    /// Makes the result that directs the client to offset `next`.
    pub(super) fn moved(replication: &Replication, pull: &Pull, next: i64, status: &'static str) -> Self {
        let (min, max) = (pull.queue.index.min().to_i64(), replication.visible_end(&pull.queue));
        Self {
            code: response::PULL_OFFSET_MOVED,
            status,
            next,
            min,
            max,
            is_far_behind: false,
            bytes_read: 0,
        }
    }

    /// Makes the result that makes the client repeat its pull.
    pub(super) fn again(replication: &Replication, pull: &Pull) -> Self {
        let (min, max) = (pull.queue.index.min().to_i64(), replication.visible_end(&pull.queue));
        let (code, status) = (response::PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE");
        Self { code, status, next: pull.ask.asked, min, max, is_far_behind: false, bytes_read: 0 }
    }

    /// Searches messages from the pull's offset on, and collects the index units of the matching messages in `units`.
    /// Returns `None` if the index is not in memory and `source` forbids reading the disk.
    pub(crate) fn find_messages(
        parts: &PullParts,
        pull: &Pull,
        source: Source,
        units: &mut Vec<CqUnit>,
    ) -> Option<Self> {
        units.clear();
        let min = pull.queue.index.min().to_i64();
        let max = parts.replication.visible_end(&pull.queue);
        let offset = pull.ask.offset;
        let found = |code, status, next| {
            Some(Self { code, status, next, min, max, is_far_behind: false, bytes_read: 0 })
        };
        if parts.replication.role.is_slave() && offset >= max {
            // The master may have more: a slave sets no group back, and sends consumers to the master while it follows it
            // (`PullMessageProcessor`, without `offsetCheckInSlave`). When it has just acted for its master, their routes still show it
            // as the master, and they would come again at once: they wait here instead.
            let follows = parts.replication.replicas.follows() && !parts.runtime.config.has_acting_master();
            let code = if follows { response::PULL_RETRY_IMMEDIATELY } else { response::PULL_NOT_FOUND };
            return found(code, "OFFSET_OVERFLOW_ONE", offset);
        }
        let end = pull.queue.index.max().to_i64();
        if end == 0 {
            let code = if offset == 0 { response::PULL_NOT_FOUND } else { response::PULL_OFFSET_MOVED };
            return found(code, "NO_MESSAGE_IN_QUEUE", 0);
        }
        if offset < min {
            return found(response::PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", min);
        }
        if offset == max {
            // A suspended pull that examined messages without a match tells the client how far it has got.
            let code = if pull.ask.asked < offset {
                response::PULL_RETRY_IMMEDIATELY
            } else {
                response::PULL_NOT_FOUND
            };
            return found(code, "OFFSET_OVERFLOW_ONE", offset);
        }
        if offset > end {
            return found(response::PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", end);
        }
        if offset > max {
            // Stored and not confirmed: a new master learns the confirm offset from its slaves. Consumers may have seen these
            // messages at the former master. A reset would repeat messages, and a Java client drops a queue for half a minute after
            // a reset.
            return found(response::PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset);
        }
        match collect_units(parts, pull, max, source, units) {
            Ok(None) => None,
            Ok(Some(Walked { next, is_far_behind, record_bytes })) if next > offset => {
                let (code, status) = match units.is_empty() {
                    true => (response::PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"),
                    false => (response::SUCCESS, "FOUND"),
                };
                let bytes_read = (next - offset).unsigned_abs() * UNIT_BYTES + record_bytes;
                Some(Self { code, status, next, min, max, is_far_behind, bytes_read })
            }
            // The messages from the pull's offset on were deleted in the meantime.
            _ if pull.queue.index.min().to_i64() > offset => Some(Self::moved(
                &parts.replication,
                pull,
                pull.queue.index.min().to_i64(),
                "OFFSET_TOO_SMALL",
            )),
            unreadable => {
                let error = unreadable.err().map(|error| error.to_string());
                tracing::error!(
                    topic = pull.queue.index.topic(),
                    offset,
                    error,
                    "the queue index cannot be read"
                );
                found(response::SYSTEM_ERROR, "the queue index cannot be read", offset)
            }
        }
    }
}

/// Progress of [`collect_units`].
struct Walked {
    /// Offset behind the last examined unit.
    next: i64,
    is_far_behind: bool,
    /// Bytes of the records that an SQL filter examined.
    record_bytes: u64,
}

/// Collects matching index units in `units`. Returns `None` if the disk would have to be read.
fn collect_units(
    parts: &PullParts,
    pull: &Pull,
    max: i64,
    source: Source,
    units: &mut Vec<CqUnit>,
) -> Result<Option<Walked>, ReadError> {
    let limits = &parts.runtime.config.transfer;
    let span = limits.scan_units.max(pull.ask.max_messages.max(0) as i64);
    let end = max.min(pull.ask.offset.saturating_add(span));
    // A record that holds several messages is taken as a whole; otherwise the client would get it again.
    let is_batched = pull.queue.index.is_batched();
    let last = if is_batched { max } else { end };
    // The first step reads one unit more than a full answer holds: where every message matches, no second step is needed.
    let full = pull.ask.max_messages.clamp(1, limits.count_max.clamp(1, STEP as i32)) as usize;
    let mut most = if is_batched { STEP } else { full + 1 };
    let mut collector = Collector::new(&parts.tables.store, &parts.runtime, pull, source, units);
    let mut known: Option<Unit> = None;
    let mut next = pull.ask.offset;
    let mut step = Vec::new();
    while next < last {
        step.clear();
        let wanted = most.min((last - next) as usize);
        most = STEP;
        let from = QueueOffset::from_i64(next).unwrap_or_default();
        match source {
            Source::Memory if pull.queue.index.units(from, wanted, &mut step)? == Read::NotResident => {
                return Ok(None);
            }
            Source::Memory => {}
            Source::Disk => pull.queue.index.units_blocking(from, wanted, &mut step)?,
        }
        if step.is_empty() {
            break;
        }
        for (index, unit) in step.iter().enumerate() {
            let mut alike = 1;
            if is_batched {
                if known == Some(*unit) {
                    next += 1;
                    continue;
                }
                if next >= end {
                    return Ok(Some(collector.walked(next)));
                }
                known = Some(*unit).filter(|unit| !unit.is_blank());
                alike = step[index..].iter().take_while(|other| *other == unit).count();
            }
            match collector.look_at(next, unit, alike)? {
                Looked::Done => next += 1,
                Looked::Full => return Ok(Some(collector.walked(next))),
                Looked::NotResident => return Ok(None),
            }
        }
    }
    Ok(Some(collector.walked(next)))
}

/// Result of examining an index unit.
enum Looked {
    /// The unit was collected, or does not match.
    Done,
    /// The unit does not fit into the response.
    Full,
    /// The record of the unit is not in memory.
    NotResident,
}

/// Collects the units of a response within its limits.
struct Collector<'a> {
    store: &'a Store,
    runtime: &'a Runtime,
    pull: &'a Pull,
    source: Source,
    units: &'a mut Vec<CqUnit>,
    /// Number of messages of `units`.
    count: usize,
    /// Bytes of the records of `units`.
    bytes: usize,
    /// Log offset of the end of the log.
    appended: u64,
    /// Bytes before the end of the log within which messages count as being in memory.
    memory: u64,
    /// Whether the last examined unit lies more than `memory` bytes before the end of the log.
    is_far_behind: bool,
    /// Buffer for the record whose properties a filter reads.
    record: Vec<u8>,
    /// Bytes of the records that a filter examined.
    record_bytes: u64,
}

impl<'a> Collector<'a> {
    fn new(
        store: &'a Store,
        runtime: &'a Runtime,
        pull: &'a Pull,
        source: Source,
        units: &'a mut Vec<CqUnit>,
    ) -> Self {
        let limits = &runtime.config.transfer;
        let memory = limits.memory_bytes / 100 * limits.memory_ratio.unsigned_abs();
        let appended = store.appended().get();
        let (count, bytes, is_far_behind, record, record_bytes) = (0, 0, false, Vec::new(), 0);
        Self {
            store,
            runtime,
            pull,
            source,
            units,
            count,
            bytes,
            appended,
            memory,
            is_far_behind,
            record,
            record_bytes,
        }
    }

    /// Returns the progress of the walk. `next` is the offset behind the last examined unit.
    fn walked(&self, next: i64) -> Walked {
        Walked { next, is_far_behind: self.is_far_behind, record_bytes: self.record_bytes }
    }

    /// Collects the unit at a queue offset if the unit matches. `alike` is the number of units of
    /// the same record. The record counts as this number of messages.
    fn look_at(&mut self, offset: i64, unit: &Unit, alike: usize) -> Result<Looked, ReadError> {
        let limits = &self.runtime.config.transfer;
        let ask = &self.pull.ask;
        let is_far = !unit.is_blank() && self.appended.saturating_sub(unit.log_offset.get()) > self.memory;
        // As in `DefaultMessageStore.isTheBatchFull`, messages far behind the end of the log count as being on the
        // disk, except messages that were read ahead.
        let (count_max, bytes_max) = match is_far && !self.store.is_read_ahead(unit.log_offset) {
            true => (limits.disk_count_max, limits.disk_bytes_max),
            false => (limits.count_max, limits.bytes_max),
        };
        if self.count > 0 && self.count + alike > ask.max_messages.clamp(1, count_max) as usize {
            return Ok(Looked::Full);
        }
        // A unit whose tags code is not known, and a record that cannot be read, count as matching: reading the answer shows
        // what is wrong with them.
        if !unit.is_blank() && (!unit.has_tags_code() || ask.filter.matches(unit.tags_code)) {
            let has_properties = has_properties(self.store, self.pull, unit, self.source, &mut self.record)?;
            self.record_bytes += self.record.len() as u64;
            match has_properties {
                None => return Ok(Looked::NotResident),
                Some(false) => {}
                Some(true) => {
                    let size = unit.size as usize;
                    // The first message is returned whatever its size.
                    if !self.units.is_empty() && self.bytes + size > bytes_max {
                        return Ok(Looked::Full);
                    }
                    self.bytes += size;
                    self.count += alike;
                    let offset = QueueOffset::from_i64(offset).unwrap_or_default();
                    self.units.push(CqUnit { offset, unit: *unit });
                }
            }
        }
        self.is_far_behind = is_far;
        Ok(Looked::Done)
    }
}

/// Whether a message's properties match the SQL filter. `None` if the disk would have to be read.
fn has_properties(
    store: &Store,
    pull: &Pull,
    unit: &Unit,
    source: Source,
    record: &mut Vec<u8>,
) -> Result<Option<bool>, ReadError> {
    let Some(filter) = pull.ask.filter.sql() else { return Ok(Some(true)) };
    record.clear();
    let unit = std::slice::from_ref(unit);
    let read = match source {
        Source::Memory => store.read_units(unit, record),
        Source::Disk => store.read_units_blocking(unit, record).map(|()| Read::Done),
    };
    match read {
        Ok(Read::NotResident) => Ok(None),
        Ok(Read::Done) => {
            Ok(Some(RecordView::parse(record).is_ok_and(|view| filter.matches(view.properties()))))
        }
        // The record is damaged or was just deleted. It counts as a match here, and is skipped when the answer is read.
        Err(ReadError::Range { .. } | ReadError::Damaged(_)) => Ok(Some(true)),
        Err(error) => Err(error),
    }
}
