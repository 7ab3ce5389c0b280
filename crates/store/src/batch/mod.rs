//! Messages to be appended: encoded once into a reusable buffer before the appender's lock is taken. Under the lock only log
//! positions, queue offsets and the store time are filled in.

mod multi;

use crate::config::Config;
use crate::digest::sum;
use crate::dispatch::tags::{Delays, Tags};
use crate::dispatch::{Dispatch, DispatchRequest, is_indexed, names};
use crate::error::PushError;
use crate::keys::{KeyEntry, Keys, is_keyed};
use crate::queue::Queue;
use crate::queue::batched::{self, BatchProperties};
use crate::queue::registry::Queues;
use multi::MultiDispatch;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use wire::record::{self, CRC_PROPERTY_BYTES, RecordFields, sys_flag};
use wire::units::{LogOffset, QueueOffset};

/// [`Batch::clear`] frees a buffer that grew beyond this size in bytes.
const KEPT_BYTES: usize = 1 << 20;

/// RecordFields of a message that its sender chooses. Topic and queue come from the queue handle.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The body as it will be stored.
    pub body: &'a [u8],
    /// The properties string as it will be stored.
    pub properties: &'a [u8],
    /// [`sys_flag`] bits; the two host bits are set from the addresses.
    pub sys_flag: i32,
    /// The user-defined flag.
    pub flag: i32,
    /// The sender's clock, in ms since the epoch.
    pub born_timestamp: i64,
    /// The sender's address.
    pub born_host: SocketAddr,
    /// Address of this broker.
    pub store_host: SocketAddr,
    /// Number of earlier delivery retries of the message.
    pub reconsume_times: i32,
    /// Log position of the half message, for a committed transactional message; otherwise zero.
    pub prepared_transaction_offset: i64,
}

/// Position of a message after its batch was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendResult {
    /// Log position of the message's record.
    pub log_offset: LogOffset,
    /// Queue offset of the message. Zero for a message in no queue (half and rolled-back messages).
    pub queue_offset: QueueOffset,
    /// Size of the message's record in bytes.
    pub size: u32,
}

impl AppendResult {
    /// Log position behind the message's record.
    pub fn end(&self) -> LogOffset {
        self.log_offset + u64::from(self.size)
    }
}

/// Encoded record of a batch.
pub(crate) struct Item {
    pub(crate) queue: Arc<Queue>,
    /// Position of the record in the batch's buffer.
    pub(crate) start: usize,
    pub(crate) size: u32,
    pub(crate) tags: Tags,
    /// Whether the record gets a unit in its queue.
    pub(crate) queued: bool,
    /// Index in `Batch::hashes` behind the last hash of the record's keys. The hashes begin at the `keys_end` of the
    /// preceding record.
    pub(crate) keys_end: usize,
    /// Whether the record must directly follow the preceding record, in the same file.
    pub(crate) joined: bool,
    pub(crate) log_offset: LogOffset,
    pub(crate) queue_offset: QueueOffset,
    /// Message count and position of the base offset, for a record of a batch consume queue.
    pub(crate) numbered: Option<BatchProperties>,
    /// Further queues that receive the record (multi-dispatch).
    pub(crate) multi: Option<MultiDispatch>,
    /// [`sum::unplaced`] of the record, and its digest after the position is known. `None` if no digests are kept, or
    /// if more than the position is filled in under the appender's lock.
    pub(crate) digest: Option<u32>,
}

impl Item {
    /// Number of queue offsets that the record takes in its queue.
    pub(crate) fn count(&self) -> u16 {
        self.numbered.map_or(1, |numbered| numbered.count)
    }

    /// Returns the queue units of the appended record, before they are pushed.
    pub(crate) fn dispatches(&self, store_timestamp: i64) -> impl Iterator<Item = Dispatch<&Arc<Queue>>> {
        let own = (&self.queue, self.queue_offset.get(), self.count());
        let Self { log_offset: at, size, tags, .. } = *self;
        let further =
            self.multi.iter().flat_map(MultiDispatch::queues).map(|queue| (queue, queue.max().get()));
        DispatchRequest { at, size, tags, store_timestamp, own }.dispatches(further)
    }

    /// All queues that receive the record.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        std::iter::once(&self.queue).chain(self.multi.iter().flat_map(MultiDispatch::queues))
    }
}

/// A reusable collection of messages that are appended together. Created by [`crate::Store::batch`].
pub struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) items: Vec<Item>,
    /// Hashes of the keys of all records, for the key index.
    pub(crate) hashes: Vec<u32>,
    pub(crate) end: LogOffset,
    pub(crate) store_timestamp: i64,
    pub(crate) appended: bool,
    delays: Arc<Delays>,
    record_bytes_max: usize,
    group_bytes_max: usize,
    pub(crate) crc_property: bool,
    digests: bool,
    key_index: bool,
    /// Registry for further queues. `None` without multi-dispatch.
    multi: Option<Arc<Queues>>,
    /// Whether a record has further queues.
    pub(crate) has_multi: bool,
    /// Bytes reserved for the offsets of further queues.
    reserved: usize,
}

impl Batch {
    pub(crate) fn new(delays: Arc<Delays>, config: &Config, multi: Option<Arc<Queues>>) -> Self {
        let in_segment = config.segment_bytes - record::BLANK_BYTES as u64;
        Self {
            bytes: Vec::new(),
            items: Vec::new(),
            hashes: Vec::new(),
            end: LogOffset::ZERO,
            store_timestamp: 0,
            appended: false,
            delays,
            record_bytes_max: config.record_bytes_max,
            group_bytes_max: usize::try_from(in_segment).unwrap_or(usize::MAX),
            crc_property: config.crc_property,
            digests: config.digests,
            key_index: config.key_index,
            multi,
            has_multi: false,
            reserved: 0,
        }
    }

    /// Adds one message and returns its index.
    ///
    /// # Errors
    /// [`PushError::TooLarge`] or [`PushError::Encode`] when the message is too long. [`PushError::InnerBatch`] when
    /// an inner batch is sent to an ordinary queue. The batch is then unchanged.
    pub fn push(&mut self, queue: &Arc<Queue>, message: &Message<'_>) -> Result<usize, PushError> {
        assert!(!self.appended, "an appended batch is cleared before it is filled again");
        if queue.is_batched() {
            return self.push_numbered(queue, message);
        }
        if message.sys_flag & sys_flag::INNER_BATCH != 0 {
            return Err(PushError::InnerBatch { topic: queue.topic().to_owned() });
        }
        self.push_record(queue, message)
    }

    /// [`Self::push`] for a batch consume queue.
    fn push_numbered(&mut self, queue: &Arc<Queue>, message: &Message<'_>) -> Result<usize, PushError> {
        let (properties, count) = batched::number(message.properties, message.sys_flag)?;
        let index = self.push_record(queue, &Message { properties: &properties, ..*message })?;
        let item = &mut self.items[index];
        let behind = if self.crc_property { CRC_PROPERTY_BYTES } else { 0 };
        let base_at = item.size as usize - behind - batched::missing_base();
        item.numbered = Some(BatchProperties { count, base_at });
        // The base offset is filled in later and changes the digest.
        item.digest = None;
        Ok(index)
    }

    fn fields<'a>(&self, queue: &'a Queue, message: &Message<'a>) -> RecordFields<'a> {
        RecordFields {
            topic: queue.topic(),
            queue_id: queue.queue_id(),
            flag: message.flag,
            sys_flag: message.sys_flag,
            born_timestamp: message.born_timestamp,
            born_host: message.born_host,
            store_host: message.store_host,
            reconsume_times: message.reconsume_times,
            prepared_transaction_offset: message.prepared_transaction_offset,
            body: message.body,
            properties: message.properties,
            crc_property: self.crc_property,
        }
    }

    /// Whether a message may have further queues.
    fn may_have_multi(&self, queue: &Queue, message: &Message<'_>) -> bool {
        self.multi.is_some() && !queue.is_batched() && is_indexed(message.sys_flag, false)
    }

    /// Checks a message with further queues before the queues are created, because queues of a rejected message would stay.
    /// Returns the bytes that the offsets in further queues may take.
    ///
    /// # Errors
    /// Errors of [`Self::push`].
    pub fn check(&self, queue: &Queue, message: &Message<'_>) -> Result<usize, PushError> {
        let found = record::size_of(&self.fields(queue, message));
        let limit = self.record_bytes_max.min(self.group_bytes_max);
        if found > limit {
            return Err(PushError::TooLarge { found, limit });
        }
        if !self.may_have_multi(queue, message) {
            return Ok(0);
        }
        let Some(names) = names(queue.topic(), queue.queue_id(), message.properties) else { return Ok(0) };
        let own = message.properties.len() + if self.crc_property { CRC_PROPERTY_BYTES } else { 0 };
        MultiDispatch::reserve(names.count(), found, limit, own)
    }

    fn push_record(&mut self, queue: &Arc<Queue>, message: &Message<'_>) -> Result<usize, PushError> {
        self.reserved += self.check(queue, message)?;
        let fields = self.fields(queue, message);
        let queued = is_indexed(message.sys_flag, queue.is_batched());
        let multi = match &self.multi {
            Some(queues) if self.may_have_multi(queue, message) => {
                MultiDispatch::of(queue, message.properties, queues)
            }
            _ => None,
        };
        self.has_multi |= multi.is_some();
        let start = self.bytes.len();
        let size = record::encode(&fields, &mut self.bytes)?;
        let head = record::head_size(&fields);
        let behind = start + head + message.body.len();
        let digest = (self.digests && !self.crc_property)
            .then(|| sum::unplaced(&self.bytes[start..start + head], &self.bytes[behind..]));
        let tags = self.look_at_keys(queue, message);
        queue.grows_soon();
        self.items.push(Item {
            queue: queue.clone(), // The record must find its queue when the batch is appended later.
            start,
            size: u32::try_from(size).expect("a record's size fits its 4-byte field"),
            tags,
            queued,
            keys_end: self.hashes.len(),
            joined: false,
            log_offset: LogOffset::ZERO,
            queue_offset: QueueOffset::ZERO,
            numbered: None,
            digest: digest.filter(|_| multi.is_none()),
            multi,
        });
        Ok(self.items.len() - 1)
    }

    /// Computes the tags code. If the message is indexed by key, also adds the hashes of its keys,
    /// in the same pass over the properties.
    fn look_at_keys(&mut self, queue: &Queue, message: &Message<'_>) -> Tags {
        if !self.key_index || !is_keyed(message.sys_flag) {
            return Tags::of(queue.is_schedule(), message.properties, &self.delays);
        }
        let keys = Keys::of(message.properties);
        keys.hash_into(queue.key_seed(), &mut self.hashes);
        Tags::of_tag(queue.is_schedule(), message.properties, keys.tag, &self.delays)
    }

    /// Adds the messages of a client batch: adjacent in one file, with consecutive queue offsets. Returns their
    /// indexes.
    ///
    /// # Errors
    /// Errors of [`Self::push`] for one message, and [`PushError::TooLarge`] when all messages together are too
    /// long. The batch is then unchanged.
    pub fn push_group<'a>(
        &mut self,
        queue: &Arc<Queue>,
        messages: impl IntoIterator<Item = Message<'a>>,
    ) -> Result<Range<usize>, PushError> {
        let (first, start) = (self.items.len(), self.bytes.len());
        for message in messages {
            if let Err(error) = self.push(queue, &message) {
                self.truncate(first, start);
                return Err(error);
            }
        }
        let (found, limit) = (self.bytes.len() - start + self.reserved, self.group_bytes_max);
        if found > limit {
            self.truncate(first, start);
            return Err(PushError::TooLarge { found, limit });
        }
        self.items.iter_mut().skip(first + 1).for_each(|item| item.joined = true);
        Ok(first..self.items.len())
    }

    fn truncate(&mut self, items: usize, bytes: usize) {
        self.items.truncate(items);
        self.hashes.truncate(self.items.last().map_or(0, |item| item.keys_end));
        self.bytes.truncate(bytes);
    }

    /// The keys of all messages, for the key index. The batch was written, and the store time is known.
    pub(crate) fn key_entries(&self) -> impl Iterator<Item = KeyEntry> + '_ {
        let mut first = 0;
        self.items.iter().flat_map(move |item| {
            let hashes = &self.hashes[std::mem::replace(&mut first, item.keys_end)..item.keys_end];
            KeyEntry::all(hashes, item.log_offset.get(), self.store_timestamp)
        })
    }

    /// Writes the queue offsets in further queues into the records. The caller holds the appender's lock, and no offset has been
    /// assigned yet. May be called again after a failed append.
    pub(crate) fn write_offsets(&mut self) {
        multi::write_offsets(self);
    }

    /// Number of messages in the batch.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the batch has no messages.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Size in bytes of the encoded records.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the position of a message. Valid only after a successful append.
    pub fn append_result(&self, index: usize) -> AppendResult {
        assert!(self.appended, "only an appended batch knows where its messages are");
        let Item { log_offset, queue_offset, size, .. } = self.items[index];
        AppendResult { log_offset, queue_offset, size }
    }

    /// The queue of a message, for instance to wake the pulls that wait for it.
    pub fn queue(&self, index: usize) -> &Arc<Queue> {
        &self.items[index].queue
    }

    /// The further queues of a message, named by its property `INNER_MULTI_DISPATCH`.
    pub fn multi_queues(&self, index: usize) -> impl Iterator<Item = &Arc<Queue>> {
        self.items[index].multi.iter().flat_map(MultiDispatch::queues)
    }

    /// The tags code of a message's queue unit. Valid only after a successful append.
    pub fn tags_code(&self, index: usize) -> i64 {
        assert!(self.appended, "only an appended batch knows its store time");
        self.items[index].tags.at(self.store_timestamp)
    }

    /// Log position behind the last record, up to which the log must be flushed for the whole batch. Valid only after a
    /// successful append.
    pub fn end(&self) -> LogOffset {
        assert!(self.appended, "only an appended batch has an end");
        self.end
    }

    /// The store time of all messages, in ms since the epoch. Valid only after a successful append.
    pub fn store_timestamp(&self) -> i64 {
        assert!(self.appended, "only an appended batch has a store time");
        self.store_timestamp
    }

    /// Empties the batch for reuse.
    pub fn clear(&mut self) {
        self.items.clear();
        self.hashes.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.appended = false;
        self.has_multi = false;
        self.reserved = 0;
    }
}
