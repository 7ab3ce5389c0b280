//! Received messages that the server keeps invisible while their client consumes them, and those that it gives back because their
//! client is gone (`DefaultReceiptHandleManager`).
//!
//! The table has no clock and does no work itself: [`Renewals::due`] names what is to be done, and [`Renewals::done`] takes the
//! outcome. A message has at most one change under way. Whoever acknowledges a message takes it out of the table; when a change is
//! under way, the newest handle is known only after that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grpc::messages::Code;
use tokio::sync::{Notify, oneshot};

use crate::config::Config;
use crate::failure::Failure;
use crate::receipt::Receipt;
use crate::registry::Client;

/// Invisible times of the first renewal, the second and so on; the last one repeats (`RenewStrategyPolicy`).
const RENEWED_MS: [i64; 6] = [60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000];

/// Most messages that are renewed; a further one comes again after its first invisible time.
const MESSAGES_MAX: usize = 500_000;

/// A received message as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub topic: String,
    pub group: String,
    /// The handle that the client has.
    pub handle: String,
    /// The lite topic that the message was popped from; empty for none.
    pub lite_topic: String,
    /// How often the message was delivered before.
    pub reconsume_times: i32,
}

/// One change of an invisible time that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    id: u64,
    pub topic: String,
    pub group: String,
    /// The newest handle.
    pub handle: String,
    /// The lite topic that the message was popped from; empty for none.
    pub lite_topic: String,
    pub invisible: Invisible,
    /// Whether the client did not get the message, so that this delivery of a message of a lite topic does not count.
    pub suspend: bool,
}

/// How long a message stays invisible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invisible {
    /// For so many milliseconds more, because its client is still at it.
    Renewed(i64),
    /// For so many milliseconds; it then comes again, because its client did not get it or left.
    Cleared(i64),
    /// Until the retry delay of the group for a message with this many earlier deliveries is over; then the message is delivered again.
    Retry(i32),
}

/// The newest handle of a message that was taken out.
pub enum Taken {
    Now(String),
    /// A change is under way; its outcome comes here.
    Later(oneshot::Receiver<String>),
}

/// Who holds a received message.
#[derive(Clone)]
enum Owner {
    Client(Arc<Client>),
    /// The message was not delivered, or its client is gone: it is to come again soon.
    Nobody,
}

impl Owner {
    fn is_gone(&self) -> bool {
        match self {
            Self::Client(client) => client.is_gone(),
            Self::Nobody => true,
        }
    }

    fn link(&self) -> u64 {
        match self {
            Self::Client(client) => client.link(),
            Self::Nobody => NOBODY,
        }
    }
}

struct Entry {
    message: Received,
    /// The newest handle.
    handle: String,
    owner: Owner,
    first_pop_ms: i64,
    renewals: usize,
    failures: u32,
    is_under_way: bool,
    /// Receives the newest handle when the running change is done; the entry is then removed.
    taker: Option<oneshot::Sender<String>>,
}

#[derive(Default)]
struct Table {
    entries: HashMap<u64, Entry>,
    /// By client and by the handle that the client has.
    ids: HashMap<u64, HashMap<String, u64>>,
    next_id: u64,
}

/// The table of messages that are renewed or given back.
pub struct Renewals {
    table: Mutex<Table>,
    /// Told when something is to be done at once.
    pub given_back: Notify,
    is_ending: AtomicBool,
    ahead_ms: i64,
    ms_max: i64,
    retries_max: u32,
    cleared_ms: i64,
}

/// Nobody's messages have no client whose id could be this one.
const NOBODY: u64 = 0;

impl Renewals {
    pub fn new(config: &Config) -> Self {
        Self {
            table: Mutex::default(),
            given_back: Notify::new(),
            is_ending: AtomicBool::new(false),
            ahead_ms: config.renew_ahead_ms,
            ms_max: config.renew_ms_max,
            retries_max: config.renew_retries_max,
            cleared_ms: config.cleared_invisible_ms,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a message invisible that a client received.
    pub fn renew(&self, client: &Arc<Client>, message: Received) {
        self.table().add(message, Owner::Client(client.clone()));
    }

    /// Makes a message visible soon that its client did not receive.
    pub fn give_back(&self, message: Received) {
        self.table().add(message, Owner::Nobody);
        self.given_back.notify_one();
    }

    /// Takes a message out that its client acknowledges, changes or gives up; `None` when it is not renewed.
    pub fn take(&self, client: &Client, handle: &str) -> Option<Taken> {
        let mut table = self.table();
        let id = table.forget(client.link(), handle)?;
        let entry = table.entries.get_mut(&id)?;
        if entry.is_under_way {
            let (sender, receiver) = oneshot::channel();
            entry.taker = Some(sender);
            return Some(Taken::Later(receiver));
        }
        table.entries.remove(&id).map(|entry| Taken::Now(entry.handle))
    }

    /// How many messages a client has that it did not acknowledge yet.
    pub fn unacked(&self, client: &Client) -> usize {
        self.table().ids.get(&client.link()).map_or(0, HashMap::len)
    }

    /// Gives back from now on what was renewed, because the server stops: the client has an older handle, which acknowledges nothing
    /// elsewhere (`DefaultReceiptHandleManager.clearAllHandle`). What was not renewed its client can still acknowledge.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// What is to be done now, each change once until its outcome is told.
    pub fn due(&self, now_ms: i64) -> Vec<Change> {
        let mut table = self.table();
        let mut changes = Vec::new();
        for (id, entry) in &mut table.entries {
            if !entry.is_under_way
                && let Some(invisible) = self.invisible(entry, now_ms)
            {
                entry.is_under_way = true;
                let Received { topic, group, lite_topic, .. } = entry.message.clone();
                let suspend = matches!(entry.owner, Owner::Nobody);
                let handle = entry.handle.clone();
                changes.push(Change { id: *id, topic, group, handle, lite_topic, invisible, suspend });
            }
        }
        changes
    }

    fn invisible(&self, entry: &Entry, now_ms: i64) -> Option<Invisible> {
        let is_ending = self.is_ending.load(Ordering::Relaxed);
        if entry.owner.is_gone() || is_ending && entry.renewals > 0 {
            return Some(Invisible::Cleared(self.cleared_ms));
        }
        // Nothing is renewed at the end: its client would not know the new handle.
        if is_ending {
            return None;
        }
        if visible_ms(&entry.handle).saturating_sub(self.ahead_ms) > now_ms {
            return None;
        }
        if now_ms.saturating_sub(entry.first_pop_ms) >= self.ms_max {
            return Some(Invisible::Retry(entry.message.reconsume_times));
        }
        Some(Invisible::Renewed(RENEWED_MS[entry.renewals.min(RENEWED_MS.len() - 1)]))
    }

    /// Takes the outcome of a change: the new handle, or why there is none.
    pub fn done(&self, change: &Change, outcome: Result<String, Failure>, now_ms: i64) {
        let mut table = self.table();
        let Some(entry) = table.entries.get_mut(&change.id) else { return };
        entry.is_under_way = false;
        let is_over = match outcome {
            Ok(handle) => {
                entry.handle = handle;
                (entry.renewals, entry.failures) = (entry.renewals + 1, 0);
                // A message whose client left while it was renewed is given back next.
                !matches!(change.invisible, Invisible::Renewed(_))
            }
            Err(failure) => {
                entry.failures += 1;
                let is_visible = visible_ms(&entry.handle) <= now_ms;
                // What is given back is tried until it is visible without that.
                let is_tried_enough = entry.failures >= self.retries_max && !entry.owner.is_gone();
                is_visible || is_tried_enough || failure.code == Code::InvalidReceiptHandle
            }
        };
        if let Some(taker) = entry.taker.take() {
            // The caller may have stopped waiting; the message then comes again.
            let _ = taker.send(entry.handle.clone());
            table.remove(change.id);
        } else if is_over {
            table.remove(change.id);
        }
    }

    /// Number of messages in the table.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.table().entries.len()
    }
}

impl Table {
    fn add(&mut self, message: Received, owner: Owner) {
        let Ok(receipt) = Receipt::parse(&message.handle) else { return };
        if self.entries.len() >= MESSAGES_MAX {
            return;
        }
        let first_pop_ms = receipt.handle.pop_ms;
        self.next_id += 1;
        self.ids.entry(owner.link()).or_default().insert(message.handle.clone(), self.next_id);
        let handle = message.handle.clone();
        let entry = Entry {
            message,
            handle,
            owner,
            first_pop_ms,
            renewals: 0,
            failures: 0,
            is_under_way: false,
            taker: None,
        };
        self.entries.insert(self.next_id, entry);
    }

    fn remove(&mut self, id: u64) {
        let Some(entry) = self.entries.remove(&id) else { return };
        self.forget(entry.owner.link(), &entry.message.handle);
    }

    /// Forgets under which handle a client has a message; the id of the message.
    fn forget(&mut self, link: u64, handle: &str) -> Option<u64> {
        let handles = self.ids.get_mut(&link)?;
        let id = handles.remove(handle);
        if handles.is_empty() {
            self.ids.remove(&link);
        }
        id
    }
}

/// When the message of a handle becomes visible.
fn visible_ms(handle: &str) -> i64 {
    Receipt::parse(handle).map_or(0, |receipt| receipt.visible_ms())
}

#[cfg(test)]
mod tests;
