//! Pops that wait for a message (`PopLongPollingService`).
//!
//! A waiting request stands in the list of its topic, by group and queue, which the next append to the topic looks at,
//! and in the table of deadlines. Whoever takes it out of the list answers it or puts it back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use net::Peer;
use tokio::sync::Notify;

use super::request::Ask;

/// A request that waits.
pub(crate) struct HeldPop {
    /// Connection to answer.
    pub(super) peer: Arc<Peer>,
    /// What to run again.
    pub(super) ask: Arc<Ask>,
    /// Distinguishes requests with the same deadline.
    pub(super) id: u64,
}

impl HeldPop {
    fn place(&self) -> Place {
        let ask = &self.ask;
        Place {
            group: ask.group.clone(),
            queue_id: ask.queue_id,
            notices: ask.notices(),
            at: (ask.deadline_ms, self.id),
        }
    }
}

/// Where a waiting request stands.
#[derive(Clone)]
struct Place {
    group: Arc<str>,
    queue_id: i32,
    /// In the list of those who only want to know.
    notices: bool,
    at: (i64, u64),
}

/// Requests for one queue, or for all, in the order of their deadlines.
type List = BTreeMap<(i64, u64), HeldPop>;

/// Lists of a group: by whether they only want to know, and queue.
type Group = BTreeMap<(bool, i32), List>;

/// The requests that wait at one topic.
#[derive(Default)]
pub(crate) struct Waiters {
    /// Number of them. An appender that reads 0 after publishing its offset may go on: a request is counted before it
    /// looks at the queues for the last time.
    count: AtomicUsize,
    groups: Mutex<HashMap<Arc<str>, Group>>,
}

impl Waiters {
    /// True when somebody may be waiting.
    pub(crate) fn is_waited_on(&self) -> bool {
        fence(Ordering::SeqCst);
        self.has_count()
    }

    /// The same behind a fence of the caller's.
    pub(crate) fn has_count(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Takes, for each group, one who waits for any queue and one who waits for this one; of pops and of notices.
    pub(super) fn take(&self, queue_id: i32) -> Vec<HeldPop> {
        let mut groups = self.groups();
        let mut taken = Vec::new();
        for group in groups.values_mut() {
            for key in [(false, -1), (false, queue_id), (true, -1), (true, queue_id)] {
                taken.extend(group.get_mut(&key).and_then(first));
            }
        }
        self.count.fetch_sub(taken.len(), Ordering::SeqCst);
        taken
    }

    /// Takes one of a group who waits for `queue_id`, which is -1 for any.
    pub(super) fn take_of(&self, group: &str, queue_id: i32) -> Option<HeldPop> {
        let taken = self.groups().get_mut(group)?.get_mut(&(false, queue_id)).and_then(first)?;
        self.count.fetch_sub(1, Ordering::SeqCst);
        Some(taken)
    }

    /// Takes one of each kind of a group: something came back to it.
    pub(super) fn take_group(&self, group: &str) -> Vec<HeldPop> {
        let mut groups = self.groups();
        let lists = groups.get_mut(group).into_iter().flat_map(BTreeMap::values_mut);
        let taken: Vec<HeldPop> = lists.filter_map(first).collect();
        self.count.fetch_sub(taken.len(), Ordering::SeqCst);
        taken
    }

    /// Takes all of them.
    pub(super) fn take_all(&self) -> Vec<HeldPop> {
        let groups = std::mem::take(&mut *self.groups());
        let lists = groups.into_values().flat_map(BTreeMap::into_values);
        let taken: Vec<HeldPop> = lists.flat_map(BTreeMap::into_values).collect();
        self.count.fetch_sub(taken.len(), Ordering::SeqCst);
        taken
    }

    /// Number of pops of a group that wait for `queue_id`.
    pub(super) fn count_of(&self, group: &str, queue_id: i32) -> usize {
        self.groups().get(group).and_then(|lists| lists.get(&(false, queue_id))).map_or(0, List::len)
    }

    /// Puts a request into its list. The caller looks at the queues afterwards.
    pub(super) fn add(&self, held: HeldPop) {
        let place = held.place();
        let mut groups = self.groups();
        self.count.fetch_add(1, Ordering::SeqCst);
        let lists = groups.entry(place.group).or_default();
        lists.entry((place.notices, place.queue_id)).or_default().insert(place.at, held);
        fence(Ordering::SeqCst);
    }

    fn take_at(&self, place: &Place) -> Option<HeldPop> {
        let mut groups = self.groups();
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

    fn groups(&self) -> MutexGuard<'_, HashMap<Arc<str>, Group>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first(list: &mut List) -> Option<HeldPop> {
    loop {
        let (_, held) = list.pop_first()?;
        // Its deadline is found stale when it is due; the count is corrected here.
        if !held.peer.is_closed() {
            return Some(held);
        }
        held.ask.topic.waiters.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Why a request does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoWait {
    /// It asked not to, or its time is over.
    TimedOut,
    /// Too many wait.
    Full,
}

/// Deadline and id of a request.
type At = (i64, u64);

struct Entry {
    waiters: Weak<Waiters>,
    place: Place,
    /// Number of its connection.
    peer: u64,
}

#[derive(Default)]
struct Table {
    by_deadline: BTreeMap<At, Entry>,
    /// The requests of each connection.
    by_peer: HashMap<u64, BTreeSet<At>>,
    next_id: u64,
}

impl Table {
    fn insert(&mut self, at: At, entry: Entry) {
        self.by_peer.entry(entry.peer).or_default().insert(at);
        self.by_deadline.insert(at, entry);
    }

    fn forget(&mut self, at: At, peer: u64) {
        if let Some(of_peer) = self.by_peer.get_mut(&peer) {
            of_peer.remove(&at);
            if of_peer.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
    }
}

/// Deadlines of all waiting pops of a broker.
#[derive(Default)]
pub(super) struct Deadlines {
    table: Mutex<Table>,
    /// Signalled when something is due earlier than all before.
    pub earlier: Notify,
}

/// Most requests that wait: of all, and of one list.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// `maxPopPollingSize`.
    pub all: usize,
    /// `popPollingSize`.
    pub list: usize,
}

impl Deadlines {
    /// Puts a request into its list and answers its id. The caller looks at the queues afterwards.
    pub(super) fn hold(&self, peer: &Arc<Peer>, ask: &Arc<Ask>, bounds: Bounds) -> Result<u64, NoWait> {
        let waiters = &ask.topic.waiters;
        if waiters.count_of(&ask.group, ask.queue_id) > bounds.list {
            return Err(NoWait::Full);
        }
        let id = {
            let mut table = self.table();
            if table.by_deadline.len() >= bounds.all {
                return Err(NoWait::Full);
            }
            table.next_id += 1;
            table.next_id
        };
        let held = HeldPop { peer: peer.clone(), ask: ask.clone(), id };
        let place = held.place();
        // The list first: were it the table, a sweep could take the deadline and leave the request behind.
        waiters.add(held);
        let mut table = self.table();
        let at = place.at;
        table.insert(at, Entry { waiters: Arc::downgrade(waiters), place, peer: peer.id() });
        if table.by_deadline.first_key_value().is_some_and(|(first, _)| *first == at) {
            self.earlier.notify_one();
        }
        drop(table);
        if peer.is_closed() {
            // Whoever ended the connection may have looked before the request was there.
            self.closed(peer.id());
        }
        Ok(id)
    }

    /// Forgets what a connection that ended waits for.
    pub(super) fn closed(&self, peer: u64) {
        let gone: Vec<Entry> = {
            let mut table = self.table();
            let of_peer = table.by_peer.remove(&peer).unwrap_or_default();
            of_peer.iter().filter_map(|at| table.by_deadline.remove(at)).collect()
        };
        for Entry { waiters, place, .. } in gone {
            // Whoever has it in hand sees that the connection ended.
            drop(waiters.upgrade().and_then(|waiters| waiters.take_at(&place)));
        }
    }

    /// Takes a request out again, unless somebody else did.
    pub(super) fn take(&self, ask: &Arc<Ask>, id: u64) -> Option<HeldPop> {
        let at = (ask.deadline_ms, id);
        let place = Place { group: ask.group.clone(), queue_id: ask.queue_id, notices: ask.notices(), at };
        ask.topic.waiters.take_at(&place)
    }

    /// Forgets the deadline of a request that was taken out of its list for good.
    pub(super) fn forget(&self, deadline_ms: i64, id: u64) {
        let mut table = self.table();
        if let Some(entry) = table.by_deadline.remove(&(deadline_ms, id)) {
            table.forget((deadline_ms, id), entry.peer);
        }
    }

    /// Takes the requests whose deadline has passed.
    pub(super) fn expired(&self, now_ms: i64) -> Vec<HeldPop> {
        let due = {
            let mut table = self.table();
            let later = table.by_deadline.split_off(&(now_ms + 1, 0));
            let due = std::mem::replace(&mut table.by_deadline, later);
            due.iter().for_each(|(at, entry)| table.forget(*at, entry.peer));
            due
        };
        due.into_values()
            .filter_map(|Entry { waiters, place, .. }| waiters.upgrade()?.take_at(&place))
            .collect()
    }

    /// The earliest deadline.
    pub(super) fn earliest(&self) -> Option<i64> {
        self.table().by_deadline.first_key_value().map(|((deadline_ms, _), _)| *deadline_ms)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
