//! Who has sent heartbeats lately (`DefaultBrokerHeartbeatManager`).
//!
//! Two things differ from Java. The newest heartbeat counts, also when its offset is smaller: a broker that was cut does not
//! keep the offset it had. And the connection of the newest heartbeat counts, so that the close of an old one, noticed late,
//! does not take a living broker away.

use std::collections::{BTreeMap, BTreeSet};
use wire::ha::{BrokerId, Epoch};
use wire::units::LogOffset;

/// Most brokers whose heartbeats are kept; those of further ones are ignored.
const LIVES_MAX: usize = 100_000;

/// Names a connection to a controller. The shell chooses the numbers and never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// A heartbeat of a broker (request 904).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Name of the broker set.
    pub name: String,
    /// The broker.
    pub broker: BrokerId,
    /// The connection that the heartbeat came on.
    pub connection: ConnectionId,
    /// The broker is gone when no heartbeat came for longer, in milliseconds (`heartbeatTimeoutMills`, 10,000 when missing).
    pub timeout_ms: u64,
    /// Last epoch of the broker's log; `None` when it has none.
    pub epoch: Option<Epoch>,
    /// End of the broker's log.
    pub end: LogOffset,
    /// Which of equal brokers is elected: the one with the smallest number (`electionPriority`, `i32::MAX` when missing).
    pub priority: i32,
}

/// The brokers that are alive.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    brokers: BTreeMap<String, BTreeMap<BrokerId, (Heartbeat, u64)>>,
    /// The last moment of each broker. Invariant: the same brokers as in `brokers`.
    deadlines: BTreeSet<(u64, String, BrokerId)>,
    /// Time of each broker's last heartbeat and the end of its log then, also of brokers that are gone.
    ends: BTreeMap<(String, BrokerId), (u64, LogOffset)>,
}

impl Lives {
    /// Takes in a heartbeat that came at `now_ms`.
    pub fn beat(&mut self, now_ms: u64, heartbeat: Heartbeat) {
        let (name, broker) = (heartbeat.name.clone(), heartbeat.broker);
        if !self.is_known(&name, broker) && self.deadlines.len() >= LIVES_MAX {
            return;
        }
        self.forget(&name, broker);
        let deadline_ms = now_ms.saturating_add(heartbeat.timeout_ms);
        self.deadlines.insert((deadline_ms, name.clone(), broker));
        let key = (name.clone(), broker);
        if self.ends.len() < LIVES_MAX || self.ends.contains_key(&key) {
            self.ends.insert(key, (now_ms, heartbeat.end));
        }
        self.brokers.entry(name).or_default().insert(broker, (heartbeat, deadline_ms));
    }

    /// Where a broker's log ended when it was last heard of, however long ago.
    #[must_use]
    pub fn last_end(&self, name: &str, broker: BrokerId) -> Option<LogOffset> {
        self.ends.get(&(name.to_owned(), broker)).map(|(_, end)| *end)
    }

    /// Time of a broker's last heartbeat, however long ago.
    #[must_use]
    pub fn last_beat_ms(&self, name: &str, broker: BrokerId) -> Option<u64> {
        self.ends.get(&(name.to_owned(), broker)).map(|(beat_ms, _)| *beat_ms)
    }

    /// Drops what is known of brokers that no table has any more.
    pub fn keep_ends(&mut self, is_kept: impl Fn(&str, BrokerId) -> bool) {
        self.ends.retain(|(name, broker), _| is_kept(name, *broker));
    }

    /// Forgets a broker; whether it was known.
    pub fn forget(&mut self, name: &str, broker: BrokerId) -> bool {
        let Some(set) = self.brokers.get_mut(name) else { return false };
        let Some((_, deadline_ms)) = set.remove(&broker) else { return false };
        if set.is_empty() {
            self.brokers.remove(name);
        }
        self.deadlines.remove(&(deadline_ms, name.to_owned(), broker))
    }

    /// Takes out the brokers whose heartbeats came on a connection that has ended.
    pub fn disconnect(&mut self, connection: ConnectionId) -> Vec<(String, BrokerId)> {
        let on_it = |(heartbeat, _): &&(Heartbeat, u64)| heartbeat.connection == connection;
        let gone: Vec<(String, BrokerId)> = self
            .brokers
            .values()
            .flat_map(BTreeMap::values)
            .filter(on_it)
            .map(|(heartbeat, _)| (heartbeat.name.clone(), heartbeat.broker))
            .collect();
        for (name, broker) in &gone {
            self.forget(name, *broker);
        }
        gone
    }

    /// Takes out the brokers that were silent for too long.
    pub fn expire(&mut self, now_ms: u64) -> Vec<(String, BrokerId)> {
        let mut gone = Vec::new();
        while let Some((_, name, broker)) = self.deadlines.first().filter(|first| first.0 < now_ms).cloned() {
            self.forget(&name, broker);
            gone.push((name, broker));
        }
        gone
    }

    /// When [`Lives::expire`] finds the next one.
    #[must_use]
    pub fn wake_at_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|first| first.0.saturating_add(1))
    }

    /// Whether a broker is alive at `now_ms`.
    #[must_use]
    pub fn is_alive(&self, now_ms: u64, name: &str, broker: BrokerId) -> bool {
        self.last(now_ms, name, broker).is_some()
    }

    /// The newest heartbeat of a broker that is alive at `now_ms`.
    #[must_use]
    pub fn last(&self, now_ms: u64, name: &str, broker: BrokerId) -> Option<&Heartbeat> {
        let (heartbeat, deadline_ms) = self.brokers.get(name)?.get(&broker)?;
        (*deadline_ms >= now_ms).then_some(heartbeat)
    }

    fn is_known(&self, name: &str, broker: BrokerId) -> bool {
        self.brokers.get(name).is_some_and(|set| set.contains_key(&broker))
    }
}
