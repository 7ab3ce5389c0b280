//! Multi-dispatch: a record that is a message of several queues (`MultiDispatchUtils`, `CommitLog.MultiDispatch`).
//!
//! The property `INNER_MULTI_DISPATCH` names further queues, separated by commas. A name that begins with `%LMQ%` is
//! a light queue, which has only queue id 0. Any other name is a topic, and the queue has the message's queue id. The
//! appender assigns the record a queue offset in each queue and writes these offsets, in the order of the names, to
//! `INNER_MULTI_QUEUE_OFFSET`. Recovery reads them there. The units in all the queues are equal.
//!
//! The offsets are text of varying length, so such a record gets its final size only under the appender's lock. Space for the
//! longest text is reserved when the message is pushed, so that this cannot fail. Without [`crate::Config::multi_dispatch`]
//! the properties are ignored.

use super::Batch;
use crate::dispatch::names;
use crate::error::PushError;
use crate::queue::Queue;
use crate::queue::registry::Queues;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use wire::properties::{self, PROPERTIES_BYTES_MAX, key};
use wire::record::{CRC_PROPERTY_BYTES, EncodeError, RecordView};

/// End of a property. Some clients omit it behind the last property.
const SEPARATOR: u8 = 2;
/// Bytes of the longest offset and its separator.
const OFFSET_BYTES_MAX: usize = 20;

/// The further queues of a record that is being encoded.
pub(crate) struct MultiDispatch {
    /// Queues in the order of the names. `None` for an invalid queue name.
    named: Vec<Option<Arc<Queue>>>,
    /// Distinct queues, without the record's own queue.
    queues: Vec<Arc<Queue>>,
    /// Size in bytes of the offsets property in the record.
    text_bytes: usize,
}

impl MultiDispatch {
    /// The further queues that a message's properties name; `None` for ordinary messages.
    pub(crate) fn of(own: &Arc<Queue>, stored: &[u8], queues: &Queues) -> Option<Self> {
        let resolve = |(topic, queue_id): (&str, i32)| {
            // Batch consume queues accept no messages of other topics (`BatchConsumeQueue.putMessagePositionInfoWrapper`).
            queues.find_or_create(topic, queue_id).ok().filter(|queue| !queue.is_batched())
        };
        let named: Vec<_> = names(own.topic(), own.queue_id(), stored)?.map(resolve).collect();
        let mut queues: Vec<Arc<Queue>> = Vec::with_capacity(named.len());
        let mut known = HashSet::from([Arc::as_ptr(own)]);
        queues.extend(named.iter().flatten().filter(|queue| known.insert(Arc::as_ptr(queue))).cloned());
        Some(Self { named, queues, text_bytes: 0 })
    }

    /// The queues besides its own that receive the record.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.queues.iter()
    }

    /// Returns the size in bytes of the space to reserve for the offsets of `queues` further queues.
    /// `found` is the size of the record without that space, `limit` the largest size of a record,
    /// and `properties` the length of the record's properties.
    ///
    /// # Errors
    ///
    /// [`PushError::Encode`] if the properties might become too long, [`PushError::TooLarge`] if
    /// the record might become too large.
    pub(crate) fn reserve(
        queues: usize,
        found: usize,
        limit: usize,
        properties: usize,
    ) -> Result<usize, PushError> {
        let bytes = key::INNER_MULTI_QUEUE_OFFSET.len() + 3 + queues * OFFSET_BYTES_MAX;
        if properties + bytes > PROPERTIES_BYTES_MAX {
            return Err(PushError::Encode(EncodeError::Properties { found: properties + bytes }));
        }
        if found + bytes > limit {
            return Err(PushError::TooLarge { found: found + bytes, limit });
        }
        Ok(bytes)
    }
}

/// Queue offsets that earlier records of the batch will take, counted per queue before any is assigned.
#[derive(Default)]
struct ReservedOffsets(HashMap<*const Queue, u64>);

impl ReservedOffsets {
    fn next(&mut self, queue: &Arc<Queue>) -> u64 {
        let count = self.0.entry(Arc::as_ptr(queue)).or_default();
        *count += 1;
        queue.next() + *count - 1
    }
}

/// Writes the queue offsets into each record of the batch. The caller holds the appender's lock, and no offset has been
/// assigned yet. May be called again after a failed append.
pub(super) fn write_offsets(batch: &mut Batch) {
    let mut taken = ReservedOffsets::default();
    let mut bytes = Vec::with_capacity(batch.bytes.len());
    let crc_bytes = if batch.crc_property { CRC_PROPERTY_BYTES } else { 0 };
    for item in &mut batch.items {
        let start = bytes.len();
        let record = &batch.bytes[item.start..item.start + item.size as usize];
        let own = if item.queued { taken.next(&item.queue) } else { 0 };
        match &mut item.multi {
            Some(multi) => {
                let (kept, crc) = record.split_at(record.len() - crc_bytes);
                bytes.extend_from_slice(&kept[..kept.len() - multi.text_bytes]);
                let mut text = multi.text((&item.queue, own), &mut taken);
                if bytes.last() != Some(&SEPARATOR) {
                    text.insert(0, SEPARATOR);
                }
                bytes.extend_from_slice(&text);
                bytes.extend_from_slice(crc);
                let stored =
                    RecordView::parse(record).expect("encoded when it was pushed").properties().len();
                set_lengths(&mut bytes[start..], stored - multi.text_bytes + text.len());
                multi.text_bytes = text.len();
            }
            None => bytes.extend_from_slice(record),
        }
        item.start = start;
        item.size = u32::try_from(bytes.len() - start).expect("room was kept when it was pushed");
    }
    batch.bytes = bytes;
}

impl MultiDispatch {
    /// Returns the offsets property of the next record. A repeated queue gets the record once, at a single offset.
    fn text(&self, own: (&Arc<Queue>, u64), taken: &mut ReservedOffsets) -> Vec<u8> {
        let mut offsets = HashMap::from([(Arc::as_ptr(own.0), own.1)]);
        offsets.extend(self.queues.iter().map(|queue| (Arc::as_ptr(queue), taken.next(queue))));
        let offset =
            |queue: &Option<Arc<Queue>>| queue.as_ref().map_or(0, |queue| offsets[&Arc::as_ptr(queue)]);
        let words: Vec<String> = self.named.iter().map(|queue| offset(queue).to_string()).collect();
        let mut text = Vec::new();
        properties::append(&mut text, key::INNER_MULTI_QUEUE_OFFSET, words.join(",").as_bytes());
        text
    }
}

/// Updates the length fields of a record whose properties changed their length.
fn set_lengths(record: &mut [u8], properties: usize) {
    let size = i32::try_from(record.len()).expect("room was kept when it was pushed");
    record[..4].copy_from_slice(&size.to_be_bytes());
    let field = record.len() - properties - 2;
    let properties = i16::try_from(properties).expect("room was kept when it was pushed");
    record[field..field + 2].copy_from_slice(&properties.to_be_bytes());
}
