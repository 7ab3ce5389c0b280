//! Suspended pulls: pulls that wait for the next message of their queue (long polling).
//!
//! A suspended pull is in the list of its queue, which the next append to the queue takes, and in the table of
//! long-polling timeouts, which a task of the broker works off. The code that removes a pull from the list answers it
//! or puts it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use parking_lot::Mutex;
use wire::body::group::SubscriptionGroupConfig;

use crate::clients::Subscription;
use crate::offsets::Reader;
use crate::reply_sink::PullSink;

/// Most suspended pulls of a broker: twenty groups that wait at 50,000 queues. A further pull is answered as
/// busy; Java has no bound. Suspended pulls are not charged to their connections, so that the connections are
/// still read.
pub const SUSPENDED_MAX: usize = 1_000_000;
/// All suspended pulls together take at most 256 MiB, not counting filters that pulls bring.
const _: () = assert!(size_of::<SuspendedPull>() * SUSPENDED_MAX <= 256 << 20);

/// Range and filter of a pull that passed its checks.
#[derive(Clone)]
pub(crate) struct PullAsk {
    /// The entry of group and topic in which deliveries are counted.
    pub reader: Reader,
    /// Messages that the pull selects.
    pub filter: Arc<Subscription>,
    /// System flags of the topic (`topicSysFlag`), for the answer.
    pub topic_sys_flag: i32,
    /// System flags of the group (`groupSysFlag`), for the answer.
    pub group_sys_flag: i32,
    /// Settings `brokerId` and `whichBrokerWhenConsumeSlowly` of the group: the broker suggested for the next pull, usually and
    /// when the group is far behind.
    pub read_from: (i64, i64),
    /// Queue offset of the first message to read.
    pub offset: i64,
    /// Offset the client asked for. Less than `offset` when the pull was suspended and has already examined messages.
    pub asked: i64,
    /// Most messages to return.
    pub max_messages: i32,
}

/// Suspended pull. The code that takes the pull from a queue's list knows the queue.
pub struct SuspendedPull {
    /// Receiver of the response.
    pub(crate) sink: Arc<dyn PullSink>,
    /// The pull to run again; its offset moves past messages that did not match.
    pub(crate) ask: PullAsk,
    /// Configuration of the pull's group at the time of the pull.
    pub(crate) group: Arc<SubscriptionGroupConfig>,
    /// Whether the pull has its own filter, so that the group's present subscription does not replace it.
    pub(crate) brings_filter: bool,
    /// Long polling timeout: when to answer without a message, milliseconds since 1970.
    pub(crate) deadline_ms: i64,
    /// Id that distinguishes pulls with equal timeouts.
    pub(crate) id: u64,
}

/// Suspended pulls of a queue.
#[derive(Default)]
pub struct SuspendedPulls {
    /// Number of suspended pulls. An appender that reads 0 after publishing the queue's new end need not wake any
    /// pull, because a pull is counted before it checks the queue's end for the last time.
    waiting: AtomicUsize,
    pulls: Mutex<Vec<SuspendedPull>>,
}

impl SuspendedPulls {
    /// Whether a pull may be suspended at the queue.
    pub fn is_waited_on(&self) -> bool {
        fence(Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Takes all suspended pulls out of the list.
    pub fn take(&self) -> Vec<SuspendedPull> {
        let mut pulls = self.pulls.lock();
        self.waiting.fetch_sub(pulls.len(), Ordering::SeqCst);
        std::mem::take(&mut *pulls)
    }

    /// Adds a pull to the list. The caller must check the queue's end afterwards.
    pub(crate) fn add(&self, pull: SuspendedPull) {
        let mut pulls = self.pulls.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        pulls.push(pull);
        fence(Ordering::SeqCst);
    }

    /// Removes and returns the pull with this id, or `None` if another thread took it.
    pub(crate) fn take_one(&self, id: u64) -> Option<SuspendedPull> {
        let mut pulls = self.pulls.lock();
        let position = pulls.iter().position(|pull| pull.id == id)?;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Some(pulls.swap_remove(position))
    }
}
