//! Suspended pop requests, which wait for a message (`PopLongPollingService`).
//!
//! A suspended request is in the list of its topic, by group and queue, and in the table of long polling timeouts.
//! Every append to the topic checks the list. The thread that takes a request out of the list answers the request or
//! puts it back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clients::Subscription;
use crate::reply_sink::PopSink;

/// Kind of a request.
#[derive(Debug)]
pub(crate) enum Want {
    /// Messages: 200050 `POP_MESSAGE`.
    Pop(Pop),
    /// Whether there are messages: 200054 `NOTIFICATION`.
    Notice,
}

/// The parameters of a pop.
#[derive(Debug)]
pub(crate) struct Pop {
    /// Most messages to return.
    pub count_max: i32,
    /// Time for which the messages stay invisible to other consumers of the group.
    pub invisible_ms: i64,
    /// Whether a group without an offset begins with the last message of a queue, not the first (`initMode`).
    pub from_end: bool,
    /// Messages that the pop selects.
    pub filter: Arc<Subscription>,
}

/// A pop or notification request, which may be suspended until a message comes.
pub(crate) struct Ask {
    /// Kind of the request.
    pub(crate) want: Want,
    /// Name of the topic that is popped.
    pub(crate) topic: String,
    /// Suspended requests of the topic, which also distinguish it from a re-created topic of the name.
    pub(crate) waiters: Arc<Waiters>,
    /// Name of the consumer group for which messages are popped.
    pub(crate) group: Arc<str>,
    /// Id of the queue asked for; -1 for all queues of the topic.
    pub(crate) queue_id: i32,
    /// Whether the pop is ordered: further messages of a queue are withheld until the returned messages are
    /// acknowledged.
    pub(crate) ordered: bool,
    /// Id of the client whose lite topics are popped; `None` for a pop of the topic's queues.
    pub(crate) lite: Option<Arc<str>>,
    /// Id that distinguishes a repeated ordered pop from another pop.
    pub(crate) attempt_id: Option<String>,
    /// When to answer without a message, in milliseconds since the epoch; `None` when the request is not to be suspended.
    pub(crate) wait_until_ms: Option<i64>,
    /// Deadline as a plain number, by which the table of long-polling timeouts is sorted.
    pub(crate) deadline_ms: i64,
}

impl Ask {
    /// Whether the request is a notification, whose response contains no messages.
    pub(crate) fn notices(&self) -> bool {
        matches!(self.want, Want::Notice)
    }
}

/// A suspended pop or notification request.
pub(crate) struct SuspendedPop {
    /// Receiver of the response.
    pub(crate) sink: Arc<dyn PopSink>,
    /// The request, to be run again.
    pub(crate) ask: Arc<Ask>,
    /// Distinguishes requests with the same timeout.
    pub(crate) id: u64,
}

impl SuspendedPop {
    fn entry(&self) -> ListEntry {
        let ask = &self.ask;
        ListEntry {
            group: ask.group.clone(),
            queue_id: ask.queue_id,
            notices: ask.notices(),
            at: (ask.deadline_ms, self.id),
        }
    }
}

/// The key of a suspended request in the lists of its topic.
#[derive(Clone)]
struct ListEntry {
    group: Arc<str>,
    queue_id: i32,
    /// Whether the request is a notification. Notifications have lists of their own.
    notices: bool,
    at: (i64, u64),
}

/// Requests of a group for a queue, or for any queue, by timeout in milliseconds and id.
type List = BTreeMap<(i64, u64), SuspendedPop>;

/// The lists of a group: by whether the requests are notifications, and by queue id (-1 for any queue).
type Group = BTreeMap<(bool, i32), List>;

/// Suspended requests of a topic.
#[derive(Default)]
pub(crate) struct Waiters {
    /// Number of suspended requests. An appender that reads 0 after publishing its offset need not wake any request,
    /// because a request is counted before it checks the queues for the last time.
    count: AtomicUsize,
    groups: Mutex<BTreeMap<Arc<str>, Group>>,
}

impl Waiters {
    /// Whether requests may be suspended. Contains the fence that orders this check behind the caller's publication
    /// of new messages.
    pub(crate) fn is_waited_on(&self) -> bool {
        fence(Ordering::SeqCst);
        self.has_count()
    }

    /// Whether requests may be suspended, for callers that have executed a sequentially consistent fence themselves.
    pub(crate) fn has_count(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Removes and returns up to four requests of each group: a pop and a notification that wait for any queue, and a
    /// pop and a notification that wait for queue `queue_id`.
    pub(crate) fn take(&self, queue_id: i32) -> Vec<SuspendedPop> {
        let mut groups = self.groups.lock();
        let mut taken = Vec::new();
        for group in groups.values_mut() {
            for key in [(false, -1), (false, queue_id), (true, -1), (true, queue_id)] {
                taken.extend(group.get_mut(&key).and_then(first));
            }
        }
        self.count.fetch_sub(taken.len(), Ordering::SeqCst);
        taken
    }

    /// Removes and returns a pop of a group that waits for queue `queue_id`, or for any queue if that is -1.
    pub(crate) fn take_of(&self, group: &str, queue_id: i32) -> Option<SuspendedPop> {
        let taken = self.groups.lock().get_mut(group)?.get_mut(&(false, queue_id)).and_then(first)?;
        self.count.fetch_sub(1, Ordering::SeqCst);
        Some(taken)
    }

    /// Takes the first request of each list of a group. Called when messages were brought back to the group.
    pub(crate) fn take_group(&self, group: &str) -> Vec<SuspendedPop> {
        let mut groups = self.groups.lock();
        let lists = groups.get_mut(group).into_iter().flat_map(BTreeMap::values_mut);
        let taken: Vec<SuspendedPop> = lists.filter_map(first).collect();
        self.count.fetch_sub(taken.len(), Ordering::SeqCst);
        taken
    }

    /// Takes all suspended requests of the topic.
    pub(crate) fn take_all(&self) -> Vec<SuspendedPop> {
        let groups = std::mem::take(&mut *self.groups.lock());
        let lists = groups.into_values().flat_map(BTreeMap::into_values);
        let taken: Vec<SuspendedPop> = lists.flat_map(BTreeMap::into_values).collect();
        self.count.fetch_sub(taken.len(), Ordering::SeqCst);
        taken
    }

    /// Number of pops of a group that wait for `queue_id`.
    pub(crate) fn count_of(&self, group: &str, queue_id: i32) -> usize {
        self.groups.lock().get(group).and_then(|lists| lists.get(&(false, queue_id))).map_or(0, List::len)
    }

    /// Adds a request to its list. The caller must check the queues afterwards, because messages may have arrived in
    /// between.
    pub(crate) fn add(&self, held: SuspendedPop) {
        let place = held.entry();
        let mut groups = self.groups.lock();
        self.count.fetch_add(1, Ordering::SeqCst);
        let lists = groups.entry(place.group).or_default();
        lists.entry((place.notices, place.queue_id)).or_default().insert(place.at, held);
        fence(Ordering::SeqCst);
    }

    fn take_at(&self, place: &ListEntry) -> Option<SuspendedPop> {
        let mut groups = self.groups.lock();
        let lists = groups.get_mut(&place.group)?;
        let list = lists.get_mut(&(place.notices, place.queue_id))?;
        let taken = list.remove(&place.at)?;
        if list.is_empty() {
            lists.remove(&(place.notices, place.queue_id));
        }
        if lists.is_empty() {
            groups.remove(&place.group);
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
        Some(taken)
    }
}

fn first(list: &mut List) -> Option<SuspendedPop> {
    loop {
        let (_, held) = list.pop_first()?;
        // The entry in the table of timeouts is removed when it is due; only the count is corrected here.
        if !held.sink.is_closed() {
            return Some(held);
        }
        held.ask.waiters.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reasons why a request is not suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoWait {
    /// The client asked not to wait, or the polling time is over.
    TimedOut,
    /// The number of suspended requests is at its limit.
    Full,
}

/// Timeout (milliseconds since the epoch) and id of a request.
type At = (i64, u64);

struct Entry {
    waiters: Weak<Waiters>,
    place: ListEntry,
    /// Id of the sink ([`ReplySink::id`](crate::reply_sink::ReplySink::id)).
    sink: u64,
}

#[derive(Default)]
struct Table {
    by_deadline: BTreeMap<At, Entry>,
    /// Suspended requests by the id of their sink, which is the id of the connection.
    by_sink: HashMap<u64, BTreeSet<At>>,
    next_id: u64,
}

impl Table {
    fn insert(&mut self, at: At, entry: Entry) {
        self.by_sink.entry(entry.sink).or_default().insert(at);
        self.by_deadline.insert(at, entry);
    }

    fn forget(&mut self, at: At, sink: u64) {
        if let Some(of_sink) = self.by_sink.get_mut(&sink) {
            of_sink.remove(&at);
            if of_sink.is_empty() {
                self.by_sink.remove(&sink);
            }
        }
    }
}

/// Long polling timeouts of all suspended pops of the broker.
#[derive(Default)]
pub(crate) struct PopTimeouts {
    table: Mutex<Table>,
    /// Signalled when a timeout, or the check of an in-flight queue, is due earlier than all before.
    pub earlier: Notify,
}

/// Most suspended requests, in total and per list.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// `maxPopPollingSize`: most suspended requests of the broker.
    pub all: usize,
    /// `popPollingSize`: number of suspended pops of a topic, group and queue above which a further
    /// request is refused. Suspended notifications do not count.
    pub list: usize,
}

impl PopTimeouts {
    /// Suspends a request and returns its id. The caller must check the queues afterwards, because messages may have
    /// arrived in between.
    ///
    /// # Errors
    /// [`NoWait::Full`] when too many requests are suspended.
    pub(crate) fn hold(
        &self,
        sink: &Arc<dyn PopSink>,
        ask: &Arc<Ask>,
        bounds: Bounds,
    ) -> Result<u64, NoWait> {
        let waiters = &ask.waiters;
        if waiters.count_of(&ask.group, ask.queue_id) > bounds.list {
            return Err(NoWait::Full);
        }
        let id = {
            let mut table = self.table.lock();
            if table.by_deadline.len() >= bounds.all {
                return Err(NoWait::Full);
            }
            table.next_id += 1;
            table.next_id
        };
        let held = SuspendedPop { sink: sink.clone(), ask: ask.clone(), id };
        let place = held.entry();
        // The list comes first: if the table came first, a sweep could take the timeout out and leave the request in the list.
        waiters.add(held);
        let mut table = self.table.lock();
        let at = place.at;
        table.insert(at, Entry { waiters: Arc::downgrade(waiters), place, sink: sink.id() });
        if table.by_deadline.first_key_value().is_some_and(|(first, _)| *first == at) {
            self.earlier.notify_one();
        }
        drop(table);
        if sink.is_closed() {
            // The end of the connection may have been handled before the request was in the table.
            drop(self.closed(sink.id()));
        }
        Ok(id)
    }

    /// Drops the suspended requests whose sinks have this id, and returns them. They were cancelled, or their connection
    /// has ended.
    pub(crate) fn closed(&self, sink: u64) -> Vec<Arc<Ask>> {
        let gone: Vec<Entry> = {
            let mut table = self.table.lock();
            let of_sink = table.by_sink.remove(&sink).unwrap_or_default();
            of_sink.iter().filter_map(|at| table.by_deadline.remove(at)).collect()
        };
        // A request that is not in its list is being run by a thread, which sees that the connection ended.
        let take = |Entry { waiters, place, .. }: Entry| Some(waiters.upgrade()?.take_at(&place)?.ask);
        gone.into_iter().filter_map(take).collect()
    }

    /// Takes a request out of its list; `None` when another thread has taken it already.
    pub(crate) fn take(&self, ask: &Arc<Ask>, id: u64) -> Option<SuspendedPop> {
        let at = (ask.deadline_ms, id);
        let place =
            ListEntry { group: ask.group.clone(), queue_id: ask.queue_id, notices: ask.notices(), at };
        ask.waiters.take_at(&place)
    }

    /// Removes the timeout of a request that was taken out of its list for good.
    pub(crate) fn forget(&self, deadline_ms: i64, id: u64) {
        let mut table = self.table.lock();
        if let Some(entry) = table.by_deadline.remove(&(deadline_ms, id)) {
            table.forget((deadline_ms, id), entry.sink);
        }
    }

    /// Removes and returns the requests whose timeout has passed.
    pub(crate) fn expired(&self, now_ms: i64) -> Vec<SuspendedPop> {
        let due = {
            let mut table = self.table.lock();
            let later = table.by_deadline.split_off(&(now_ms + 1, 0));
            let due = std::mem::replace(&mut table.by_deadline, later);
            due.iter().for_each(|(at, entry)| table.forget(*at, entry.sink));
            due
        };
        due.into_values()
            .filter_map(|Entry { waiters, place, .. }| waiters.upgrade()?.take_at(&place))
            .collect()
    }

    /// The earliest timeout, in milliseconds since the epoch.
    pub(crate) fn earliest(&self) -> Option<i64> {
        self.table.lock().by_deadline.first_key_value().map(|((deadline_ms, _), _)| *deadline_ms)
    }
}
