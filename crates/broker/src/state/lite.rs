//! Lite topics: subscriptions of clients by group, and the event set of each client (`LiteSubscriptionRegistryImpl`,
//! `LiteEventDispatcher`). The tables are pure; this module adds the lock and the wake-up of the engine.
//!
//! An *event* is the name of a lite queue with a message for a group. It stands in the event set of one client of the
//! group. A client whose set is full *overflows*: as soon as its set has room, the engine searches the lite queues of the
//! client for messages (*full dispatch*). All state is in memory, because clients repeat their subscriptions.

mod events;
mod group;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::engine::Wakeup;
use crate::long_polling::Waiters;
pub(crate) use group::GroupRules;
pub(crate) use tables::{Offered, PassKey, Subscriber, Tables};

/// State of lite topics.
#[derive(Default)]
pub(crate) struct Lite {
    tables: Mutex<Tables>,
    /// Whether a client ever subscribed or popped, so that other brokers pay nothing for an append.
    is_used: AtomicBool,
    wakeup: Arc<Wakeup>,
}

impl Lite {
    /// Locks the tables. The lock is held for short sections.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }

    /// Returns the wake-up of the engine, which runs full dispatches.
    pub(crate) fn wakeup(&self) -> &Arc<Wakeup> {
        &self.wakeup
    }

    /// Records that the tables have clients from now on.
    pub(crate) fn begin_use(&self) {
        self.is_used.store(true, Ordering::Release);
    }

    /// Groups with a client that subscribes to a lite queue.
    pub(crate) fn groups_of(&self, name: &str) -> Vec<Arc<str>> {
        if !self.is_used.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.tables().groups_of(name)
    }

    /// Whether a client whose pop is suspended has events.
    pub(crate) fn awaits(&self, group: &str, client: &str) -> bool {
        self.tables().awaits(group, client)
    }

    /// Takes the next event of a client that pops. Wakes the engine if the client overflowed and has room now.
    pub(crate) fn take_event(&self, group: &str, client: &str, now_ms: i64) -> Option<Arc<str>> {
        let (event, is_due) = self.tables().take_event(group, client, now_ms);
        if is_due {
            self.wakeup.wake();
        }
        event
    }

    /// Returns an event that a pop took and did not handle to the front of the client's set. Returns false if the
    /// client is gone, or no longer has the lite queue.
    pub(crate) fn put_back(&self, group: &str, client: &str, event: &Arc<str>) -> bool {
        self.tables().put_back(group, client, event)
    }

    /// Records that a client lacks an event, so that a full dispatch follows.
    pub(crate) fn overflow(&self, group: &str, client: Option<&str>) {
        if let Some(client) = client {
            self.tables().overflow(group, client);
        }
    }

    /// Records that a client pops, and returns its list of suspended pops. Registers an unknown client; `None` if there
    /// are `clients_max` clients.
    pub(crate) fn note_pop(
        &self,
        (group, rules): (&str, &GroupRules),
        client: &str,
        now_ms: i64,
        clients_max: usize,
    ) -> Option<Arc<Waiters>> {
        self.begin_use();
        let mut tables = self.tables();
        if tables.client(group, client).is_none() && tables.clients() >= clients_max {
            return None;
        }
        let (waiters, is_due) = tables.note_pop(group, rules, client, now_ms);
        drop(tables);
        if is_due {
            self.wakeup.wake();
        }
        Some(waiters)
    }
}
