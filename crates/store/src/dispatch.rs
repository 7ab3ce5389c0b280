//! Queue units of a record with a position in the log (`DispatchRequest`, `CommitLogDispatcher`). Append, following a
//! master, recovery, and the rebuild of lost queues share this definition. [`crate::index`] handles the keys of a
//! record.

mod multi_dispatch;
pub(crate) mod tags;

use crate::queue::registry::Queues;
use crate::queue::{Unit, batched, is_schedule};
pub(crate) use multi_dispatch::names;
use tags::{Delays, Tags};
use wire::record::{RecordView, sys_flag};
use wire::units::LogOffset;

/// Units of a record in a queue: `count` equal units, at the queue offsets from `first` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatch<Q> {
    pub(crate) queue: Q,
    pub(crate) first: u64,
    pub(crate) count: u16,
    pub(crate) unit: Unit,
}

/// A record and its log position, with the fields that queues need. `Q` names a queue or is its handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DispatchRequest<Q> {
    pub(crate) at: LogOffset,
    pub(crate) size: u32,
    pub(crate) tags: Tags,
    pub(crate) store_timestamp: i64,
    /// The record's own queue, with its first queue offset and its number of messages.
    pub(crate) own: (Q, u64, u16),
}

impl<Q: Copy> DispatchRequest<Q> {
    /// Returns the units of the record's own queue and of the further queues (multi-dispatch). `further` holds the
    /// further queues with their queue offsets. The units are equal in all queues.
    pub(crate) fn dispatches(
        self,
        further: impl Iterator<Item = (Q, u64)>,
    ) -> impl Iterator<Item = Dispatch<Q>> {
        let unit =
            Unit { log_offset: self.at, size: self.size, tags_code: self.tags.at(self.store_timestamp) };
        let (queue, first, count) = self.own;
        let further = further.map(move |(queue, first)| Dispatch { queue, first, count: 1, unit });
        std::iter::once(Dispatch { queue, first, count, unit }).chain(further)
    }
}

/// Settings that decide which units a record has.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) queues: &'a Queues,
    pub(crate) delays: &'a Delays,
    pub(crate) multi_dispatch: bool,
}

/// A queue by topic and queue id.
pub(crate) type QueueName<'a> = (&'a str, i32);

impl Rules<'_> {
    /// Returns the queue units of a record at log position `at`. A record outside its queue, such as a half message,
    /// has no units.
    pub(crate) fn dispatches_of<'a>(
        &self,
        view: &RecordView<'a>,
        at: u64,
    ) -> impl Iterator<Item = Dispatch<QueueName<'a>>> + use<'a> {
        let stored = self.stored(view, at);
        let has_further = stored.is_some_and(|it| self.multi_dispatch && !self.queues.is_batched(it.own.0.0));
        // Batch consume queues accept no messages of other topics.
        let is_ordinary = |(topic, ..): &(&str, i32, u64)| !self.queues.is_batched(topic);
        let further = if has_further { multi_dispatch::places(view) } else { Vec::new() };
        let mut further: Vec<_> = further.into_iter().filter(is_ordinary).collect();
        let named = |(topic, queue_id, first)| ((topic, queue_id), first);
        let places = move |stored: DispatchRequest<_>| {
            stored.dispatches(std::mem::take(&mut further).into_iter().map(named))
        };
        stored.into_iter().flat_map(places)
    }

    /// Returns the fields of the record that queues need, or `None` if the record is in no queue.
    fn stored<'a>(&self, view: &RecordView<'a>, at: u64) -> Option<DispatchRequest<QueueName<'a>>> {
        let topic = view.topic_str()?;
        let is_batched = self.queues.is_batched(topic);
        if !is_indexed(view.sys_flag(), is_batched) {
            return None;
        }
        let (first, count) = match is_batched {
            true => batched::place_in(view.properties())?,
            false => (view.queue_offset().get(), 1),
        };
        Some(DispatchRequest {
            at: LogOffset::new(at),
            size: u32::try_from(view.size()).expect("a record's size fits its 4-byte field"),
            tags: Tags::of(is_schedule(topic), view.properties(), self.delays),
            store_timestamp: view.store_timestamp(),
            own: ((topic, view.queue_id()), first, count),
        })
    }
}

/// Whether a record with this `sysFlag` gets a unit in its queue: not half or rolled-back messages, and inner batches only in
/// batch consume queues.
pub(crate) fn is_indexed(flags: i32, is_batched: bool) -> bool {
    sys_flag::is_queued(flags) && (is_batched || flags & sys_flag::INNER_BATCH == 0)
}
