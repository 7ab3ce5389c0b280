//! Checks records before they are served: every record that may have come from the disk.
//!
//! | check | what it verifies |
//! |---|---|
//! | layout, position, size | the queue's unit leads to a record that begins there and has that size |
//! | body checksum | the body |
//! | digest, or the checksum property where there is no digest | everything but the body |
//! | topic, queue, queue offset | the unit leads to the message at this queue offset |
//!
//! Records that this process wrote and that never left memory need no check: [`crate::read_ahead::ReadAhead`] compares with the log
//! position below which that is not certain. It starts at the end of the recovered log and rises whenever bytes are read from
//! the disk or read ahead. Behind the fence every record is checked, because after a failed write or flush the pages in memory may
//! be zeros.

use super::Reader;
use crate::digest::sum;
use crate::error::Damage;
use crate::planted::{self, Bug};
use crate::queue::{Queue, Unit, batched};
use crate::wake::lock;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::properties::{self, key};
use wire::record::{RecordView, sys_flag};
use wire::units::{LogOffset, QueueOffset};

/// Number of damaged records remembered, so that each is logged once.
const REMEMBERED_MAX: usize = 4096;

/// A message of a queue: its queue offset and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqUnit {
    /// Queue offset of the message.
    pub offset: QueueOffset,
    /// Queue unit with log position and size of the message's record.
    pub unit: Unit,
}

/// Damaged records found since the store was opened.
#[derive(Default)]
pub(crate) struct DamagedRecords {
    count: AtomicU64,
    known: Mutex<BTreeSet<(LogOffset, Option<QueueOffset>)>>,
    /// Messages whose unit was rebuilt because it did not lead to the message's record.
    suspected: Mutex<BTreeSet<(LogOffset, QueueOffset)>>,
    /// Beginning of the last record that was checked for a slave, and the number of truncations of the log before. The next piece
    /// of the log begins there or later.
    pub(super) boundary: Mutex<(u64, LogOffset)>,
}

impl DamagedRecords {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether this damaged record, or message of a queue, is met for the first time; counts it then.
    fn is_new(&self, at: LogOffset, offset: Option<QueueOffset>) -> bool {
        let mut known = lock(&self.known);
        let is_new = known.len() < REMEMBERED_MAX && known.insert((at, offset));
        if is_new {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        is_new
    }
}

impl Reader<'_> {
    /// Logs, once per message, that a damaged message is not served.
    pub(crate) fn log_damage(&self, queue: &Queue, offset: QueueOffset, damage: &Damage) {
        if self.damaged.is_new(damage.at, Some(offset)) {
            let (topic, queue_id) = (queue.topic(), queue.queue_id());
            tracing::error!(
                topic, queue_id, %offset, log_offset = %damage.at, what = damage.what,
                "a damaged message is not served, its consumers go on behind it; see what else is damaged with: vostok store verify"
            );
        }
    }

    /// Schedules a rebuild of a unit that does not lead to its record. Returns `false` after an earlier rebuild,
    /// because then the record itself is damaged, and behind the fence, where no unit is rebuilt.
    pub(crate) fn lose_unit(&self, queue: &Queue, message: CqUnit) -> bool {
        if self.state.fence.is_up() {
            return false;
        }
        let Some(queue) = self.state.queues.find(queue.topic(), queue.queue_id()) else { return false };
        let mut suspected = lock(&self.damaged.suspected);
        let CqUnit { offset, unit } = message;
        if suspected.len() == REMEMBERED_MAX || !suspected.insert((unit.log_offset, offset)) {
            return false;
        }
        drop(suspected);
        self.lost.mark_lost(&queue, offset.get(), offset.get() + 1);
        true
    }

    /// Whether recovery reads a record that differs from the stored record by its digest. Such a record must not be
    /// indexed, because its topic, queue or queue offset may be damaged.
    pub(crate) fn is_altered(&self, view: &RecordView<'_>, at: u64) -> bool {
        let at = LogOffset::new(at);
        if !self.state.config.digests || !self.state.digests.covers(at) {
            return false;
        }
        let expected = self.state.digests.find(at);
        let is_altered = expected.is_some_and(|expected| expected != sum::of(view));
        if is_altered {
            let what = "the checksum of all but its body is not the one kept when it was stored".to_owned();
            self.log_damaged_record(&Damage { index: 0, at, what });
        }
        is_altered
    }

    /// Like [`Self::log_damage`], for a record read by its log position.
    pub(crate) fn log_damaged_record(&self, damage: &Damage) {
        if self.damaged.is_new(damage.at, None) {
            tracing::error!(
                log_offset = %damage.at, what = damage.what,
                "a damaged record is not served; see what else is damaged with: vostok store verify"
            );
        }
    }

    /// Checks the record at a log position without reference to a queue.
    pub(crate) fn check_record<'a>(&self, bytes: &'a [u8], at: LogOffset) -> Result<RecordView<'a>, String> {
        let view = RecordView::parse(bytes).map_err(|error| error.to_string())?;
        if view.log_offset() != Some(at) {
            return Err(format!("it says it lies at {}", view.log_offset().unwrap_or_default()));
        }
        if view.size() != bytes.len() {
            return Err(format!("it is {} bytes long, its queue says {}", view.size(), bytes.len()));
        }
        if planted::is(Bug::SkipCrc) {
            return Ok(view);
        }
        view.check_crc().map_err(|error| error.to_string())?;
        match self.state.config.digests.then(|| self.state.digests.find(at)).flatten() {
            Some(expected) => {
                let found = sum::of(&view);
                if found != expected {
                    return Err(format!(
                        "the checksum of all but the body is {found:#010x}, when it was stored it was {expected:#010x}"
                    ));
                }
            }
            None => view.check_crc_property().map_err(|error| error.to_string())?,
        }
        Ok(view)
    }

    /// Checks the record of a queue's message, including topic, queue and queue offset.
    pub(crate) fn check_message(&self, queue: &Queue, message: CqUnit, bytes: &[u8]) -> Result<(), String> {
        let view = self.check_record(bytes, message.unit.log_offset)?;
        match claimed_offset(queue, &view, message.offset)? {
            Some(claimed) if claimed != message.offset.to_i64() => {
                if self.is_shifted(queue, message, claimed) {
                    return Ok(());
                }
                let found = message.offset;
                Err(format!("it is number {claimed} of its queue, the queue has it as number {found}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether an adjacent message is shifted by the same distance. RocketMQ appends a message at the end of its
    /// queue even if its queue offset is not the next offset (`ConsumeQueue.putMessagePositionInfo`). That shifts all
    /// later messages too.
    fn is_shifted(&self, queue: &Queue, message: CqUnit, claimed: i64) -> bool {
        let beside = [message.offset.get().checked_sub(1), message.offset.get().checked_add(1)];
        beside.into_iter().flatten().any(|offset| {
            let mut units = Vec::new();
            let offset = QueueOffset::new(offset);
            let mut bytes = Vec::new();
            let read = queue.units_blocking(offset, 1, &mut units).is_ok()
                && units.first().is_some_and(|unit| {
                    !unit.is_blank()
                        && self.read(unit.log_offset, unit.size as usize, &mut bytes, false).is_ok()
                });
            let other = read.then(|| RecordView::parse(&bytes).ok()).flatten();
            let other = other.and_then(|view| claimed_offset(queue, &view, offset).ok().flatten());
            other.is_some_and(|other| other - offset.to_i64() == claimed - message.offset.to_i64())
        })
    }
}

/// Whether a message's unit leads to its record, whether or not the record is whole.
pub(crate) fn leads_to_it(queue: &Queue, message: CqUnit, record: &[u8]) -> bool {
    RecordView::parse(record).is_ok_and(|view| {
        view.log_offset() == Some(message.unit.log_offset)
            && view.size() == record.len()
            && claimed_offset(queue, &view, message.offset)
                .is_ok_and(|claimed| claimed.is_none_or(|claimed| claimed == message.offset.to_i64()))
    })
}

/// Returns the queue offset that a record claims in a queue. For a batch that contains `expected`, returns
/// `expected`. `None` if the record claims no comparable offset.
fn claimed_offset(
    queue: &Queue,
    view: &RecordView<'_>,
    expected: QueueOffset,
) -> Result<Option<i64>, String> {
    if view.topic() == queue.topic().as_bytes() && view.queue_id() == queue.queue_id() {
        if !queue.is_batched() {
            return Ok((view.sys_flag() & sys_flag::INNER_BATCH == 0).then(|| view.raw_queue_offset()));
        }
        let (base, count) = batched::place_in(view.properties())
            .ok_or("it says not how many messages it is (INNER_NUM, INNER_BASE)")?;
        let is_one_of_them = (base..base + u64::from(count)).contains(&expected.get());
        return Ok(Some(if is_one_of_them { expected.to_i64() } else { base.cast_signed() }));
    }
    // The record may be dispatched to this queue besides its own (`INNER_MULTI_DISPATCH`).
    let list = |key| properties::get_str(view.properties(), key).unwrap_or_default().split(',');
    let numbers = list(key::INNER_MULTI_QUEUE_OFFSET);
    let place = list(key::INNER_MULTI_DISPATCH).zip(numbers).find(|(name, _)| *name == queue.topic());
    match place {
        Some((_, number)) => Ok(number.parse().ok()),
        None => {
            let (topic, queue_id) = (String::from_utf8_lossy(view.topic()), view.queue_id());
            Err(format!("it is a message of {topic} queue {queue_id}"))
        }
    }
}
