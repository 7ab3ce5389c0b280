//! Counts of producers' messages in a queue, per request. Statistics sample these counts, and metrics are summed from
//! them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Kind of a producer's message in metrics (`TopicMessageType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Normal,
    /// The message has a sharding key, by which its producer chose the queue.
    Fifo,
    /// The message has a delay level or a delivery time.
    Delay,
    /// A half message.
    Transaction,
}

impl MessageKind {
    /// All kinds with the names they have in metrics, in the order of the enum.
    pub(crate) const NAMES: [(Self, &str); 4] = [
        (Self::Normal, "normal"),
        (Self::Fifo, "fifo"),
        (Self::Delay, "delay"),
        (Self::Transaction, "transaction"),
    ];
}

/// Upper bounds in bytes of the ranges in which records are counted by size (`BrokerMetricsManager`); a last range has no bound.
pub(crate) const SIZE_BOUNDS: [u64; 6] = [1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// Counts of producers' messages in a queue since the queue was opened.
#[derive(Default)]
pub(crate) struct SendCounts {
    /// Counts by kind of message, each allocated on first use, because most queues get messages of a single kind.
    kinds: [OnceLock<Box<KindCounts>>; MessageKind::NAMES.len()],
    /// Whether the topic is in the list for the next sample of statistics.
    noted: AtomicBool,
    /// Number of requests.
    pub requests: AtomicU64,
    /// Milliseconds of storing the messages, summed over requests that took at least one millisecond.
    pub ms: AtomicU64,
}

/// Counts of the messages of a kind, in a cache line of their own.
#[derive(Default)]
#[repr(align(64))]
struct KindCounts {
    /// Bytes of the stored records.
    bytes: AtomicU64,
    /// Messages by the size of their record. Each message of a record with many messages counts with an equal
    /// part of the record's bytes.
    sizes: [AtomicU64; SIZE_BOUNDS.len() + 1],
}

/// Copy of the counts of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentOfKind {
    pub bytes: u64,
    /// Messages by the size of their record, in the ranges of [`SIZE_BOUNDS`].
    pub sizes: [u64; SIZE_BOUNDS.len() + 1],
}

impl SentOfKind {
    /// Number of messages.
    pub(crate) fn messages(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Adds the counts of another queue.
    pub(crate) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.sizes.iter_mut().zip(other.sizes).for_each(|(sum, count)| *sum += count);
    }
}

impl SendCounts {
    /// Counts a request with records of these sizes in bytes, of `messages` messages each. Returns true for the first
    /// request since the last sample, which must be reported to statistics ([`crate::state::Stats::note_sent_to`]).
    pub(crate) fn count(&self, kind: MessageKind, sizes: impl Iterator<Item = u64>, messages: u64) -> bool {
        let counts = self.kinds[kind as usize].get_or_init(Box::default);
        let messages = messages.max(1);
        let mut bytes = 0;
        for size in sizes {
            bytes += size;
            let range = SIZE_BOUNDS.partition_point(|bound| *bound < size / messages);
            counts.sizes[range].fetch_add(messages, Ordering::Relaxed);
        }
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        !self.noted.load(Ordering::Relaxed) && !self.noted.swap(true, Ordering::Relaxed)
    }

    /// Makes the next request report to statistics again.
    pub(crate) fn take_noted(&self) {
        self.noted.store(false, Ordering::Relaxed);
    }

    /// Adds the duration of storing the messages of a request.
    pub(crate) fn took(&self, time: Duration) {
        self.ms.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The counts of the kinds of which there were messages.
    pub(crate) fn by_kind(&self) -> impl Iterator<Item = (MessageKind, SentOfKind)> + '_ {
        MessageKind::NAMES.iter().filter_map(move |(kind, _)| {
            let counts = self.kinds[*kind as usize].get()?;
            let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
            Some((*kind, SentOfKind { bytes: load(&counts.bytes), sizes: counts.sizes.each_ref().map(load) }))
        })
    }

    /// Bytes of all stored records.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_kind().map(|(_, counts)| counts.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_by_kind_and_size() {
        let sent = SendCounts::default();
        sent.count(MessageKind::Normal, [1024, 1025, 5 << 20].into_iter(), 1);
        sent.count(MessageKind::Delay, [3000].into_iter(), 3);
        let counts: Vec<_> = sent.by_kind().collect();
        assert_eq!(
            counts,
            [
                (MessageKind::Normal, SentOfKind { bytes: 2049 + (5 << 20), sizes: [1, 1, 0, 0, 0, 0, 1] }),
                (MessageKind::Delay, SentOfKind { bytes: 3000, sizes: [3, 0, 0, 0, 0, 0, 0] }),
            ]
        );
        assert_eq!((counts[0].1.messages(), counts[1].1.messages()), (3, 3));
        assert_eq!((sent.bytes(), sent.requests.load(Ordering::Relaxed)), (5049 + (5 << 20), 2));
    }

    #[test]
    fn every_kind_has_its_place() {
        assert!(MessageKind::NAMES.iter().enumerate().all(|(index, (kind, _))| *kind as usize == index));
    }
}
