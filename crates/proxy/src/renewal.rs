//! Received messages that the server keeps invisible while their client consumes them, and messages that it gives
//! back because their client left (`DefaultReceiptHandleManager`).
//!
//! The table has no clock and performs no requests. [`Renewals::due`] returns the due changes, and [`Renewals::done`]
//! takes their results. A message has at most one change in flight. An acknowledgement takes the message out of the
//! table. If a change is in flight, the newest handle is known only after the change.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grpc::messages::Code;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::config::Config;
use crate::failure::Result;
use crate::receipt::Receipt;
use crate::registry::Client;

/// Invisible times of the first renewal, the second and so on. The last time repeats (`RenewStrategyPolicy`).
const RENEWED_MS: [i64; 6] = [60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000];

/// Most renewed messages. Further messages are delivered again after their first invisible time.
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
    /// Number of earlier deliveries of the message.
    pub reconsume_times: i32,
}

/// Due change of an invisible time.
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

/// New invisible time of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invisible {
    /// Milliseconds by which the time is extended, because the client still consumes the message.
    Renewed(i64),
    /// Milliseconds after which the message is delivered again, because its client did not get it or left.
    Cleared(i64),
    /// Number of earlier deliveries, which determines the retry delay of the group. After the delay the message is
    /// delivered again.
    Retry(i32),
}

/// The newest handle of a message that was taken out.
pub enum NewestHandle {
    Now(String),
    /// A change is in flight. The receiver gets the newest handle after it.
    Later(oneshot::Receiver<String>),
}

/// Owner of a received message.
#[derive(Clone)]
enum Owner {
    Client(Arc<Client>),
    /// The message was not delivered, or its client left. It must be delivered again soon.
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
    /// Message ids by client and by the client's handle.
    ids: HashMap<u64, HashMap<String, u64>>,
    next_id: u64,
}

/// The table of messages that are renewed or given back.
pub struct Renewals {
    table: Mutex<Table>,
    /// Notified when a change is due at once.
    pub given_back: Notify,
    is_ending: AtomicBool,
    ahead_ms: i64,
    ms_max: i64,
    retries_max: u32,
    cleared_ms: i64,
}

/// Link id of messages without an owner. No client has this id.
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

    /// Keeps a message invisible that a client received.
    pub fn renew(&self, client: &Arc<Client>, message: Received) {
        self.table.lock().add(message, Owner::Client(client.clone()));
    }

    /// Makes a message visible soon that its client did not receive.
    pub fn give_back(&self, message: Received) {
        self.table.lock().add(message, Owner::Nobody);
        self.given_back.notify_one();
    }

    /// Takes out a message that its client acknowledges, changes or gives up. Returns `None` if it is not renewed.
    pub fn take(&self, client: &Client, handle: &str) -> Option<NewestHandle> {
        let mut table = self.table.lock();
        let id = table.forget(client.link(), handle)?;
        let entry = table.entries.get_mut(&id)?;
        if entry.is_under_way {
            let (sender, receiver) = oneshot::channel();
            entry.taker = Some(sender);
            return Some(NewestHandle::Later(receiver));
        }
        table.entries.remove(&id).map(|entry| NewestHandle::Now(entry.handle))
    }

    /// Returns the number of a client's unacknowledged messages.
    pub fn unacked(&self, client: &Client) -> usize {
        self.table.lock().ids.get(&client.link()).map_or(0, HashMap::len)
    }

    /// Makes renewed messages due to be given back, because the server stops. Their client has an older handle, which
    /// acknowledges nothing elsewhere (`DefaultReceiptHandleManager.clearAllHandle`). The client can still
    /// acknowledge messages that were not renewed.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Returns the due changes. Each change is returned once until its result is known.
    pub fn due(&self, now_ms: i64) -> Vec<Change> {
        let mut table = self.table.lock();
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
        // No message is renewed at the end, because its client would not know the new handle.
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
    pub fn done(&self, change: &Change, outcome: Result<String>, now_ms: i64) {
        let mut table = self.table.lock();
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
                // Giving a message back is tried until the message is visible anyway.
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
        self.table.lock().entries.len()
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

    /// Removes a client's handle of a message. Returns the id of the message.
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
