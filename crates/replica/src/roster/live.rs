//! Brokers with recent heartbeats (`DefaultBrokerHeartbeatManager`).
//!
//! Two differences from Java. The newest heartbeat counts even if its offset is smaller, because a broker whose log
//! was cut has a smaller offset. The connection of the newest heartbeat counts, so that the late close of an old
//! connection does not remove a living broker.

use std::collections::{BTreeMap, BTreeSet};
use wire::ha::{BrokerId, Epoch};
use wire::units::LogOffset;

/// Most brokers with stored heartbeats. Heartbeats of further brokers are ignored.
const LIVES_MAX: usize = 100_000;

/// Id of a connection to a controller. The shell chooses the numbers and never uses a number twice.
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
    /// Last epoch of the broker's log. `None` if the log has no epoch.
    pub epoch: Option<Epoch>,
    /// End of the broker's log.
    pub end: LogOffset,
    /// Position up to which the next start finds the log, unless the broker reports a possible loss: the end on disk
    /// with sync flush, else `end`. `None` for Java brokers, which do not send it.
    pub kept: Option<LogOffset>,
    /// Election priority among equal brokers: the smallest number wins (`electionPriority`, `i32::MAX` when missing).
    pub priority: i32,
}

/// The brokers that are alive.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    brokers: BTreeMap<String, BTreeMap<BrokerId, (Heartbeat, u64)>>,
    /// Times in ms at which brokers count as gone without a further heartbeat. Invariant: the same brokers as
    /// in `brokers`.
    deadlines: BTreeSet<(u64, String, BrokerId)>,
    /// Last heartbeat of each broker, including brokers that are gone.
    beats: BTreeMap<(String, BrokerId), Beat>,
}

/// Facts of a heartbeat that outlive the broker.
#[derive(Clone, Copy, Debug)]
struct Beat {
    at_ms: u64,
    end: LogOffset,
    kept: Option<LogOffset>,
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
        if self.beats.len() < LIVES_MAX || self.beats.contains_key(&key) {
            self.beats.insert(key, Beat { at_ms: now_ms, end: heartbeat.end, kept: heartbeat.kept });
        }
        self.brokers.entry(name).or_default().insert(broker, (heartbeat, deadline_ms));
    }

    /// Returns the log end in a broker's last heartbeat, however old.
    pub fn last_end(&self, name: &str, broker: BrokerId) -> Option<LogOffset> {
        self.last_beat(name, broker).map(|beat| beat.end)
    }

    /// Returns [`Heartbeat::kept`] of a broker's last heartbeat, however old.
    pub fn last_kept(&self, name: &str, broker: BrokerId) -> Option<LogOffset> {
        self.last_beat(name, broker)?.kept
    }

    /// Time of a broker's last heartbeat, however long ago.
    pub fn last_beat_ms(&self, name: &str, broker: BrokerId) -> Option<u64> {
        self.last_beat(name, broker).map(|beat| beat.at_ms)
    }

    fn last_beat(&self, name: &str, broker: BrokerId) -> Option<&Beat> {
        self.beats.get(&(name.to_owned(), broker))
    }

    /// Drops the last heartbeats of brokers that are in no table.
    pub fn keep_beats(&mut self, is_kept: impl Fn(&str, BrokerId) -> bool) {
        self.beats.retain(|(name, broker), _| is_kept(name, *broker));
    }

    /// Removes a broker. Returns whether it was known.
    pub fn forget(&mut self, name: &str, broker: BrokerId) -> bool {
        let Some(set) = self.brokers.get_mut(name) else { return false };
        let Some((_, deadline_ms)) = set.remove(&broker) else { return false };
        if set.is_empty() {
            self.brokers.remove(name);
        }
        self.deadlines.remove(&(deadline_ms, name.to_owned(), broker))
    }

    /// Removes the brokers whose heartbeats came on a closed connection.
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

    /// Removes the brokers that were silent for too long.
    pub fn expire(&mut self, now_ms: u64) -> Vec<(String, BrokerId)> {
        let mut gone = Vec::new();
        while let Some((_, name, broker)) = self.deadlines.first().filter(|first| first.0 < now_ms).cloned() {
            self.forget(&name, broker);
            gone.push((name, broker));
        }
        gone
    }

    /// Returns the time at which [`Lives::expire`] finds the next silent broker.
    pub fn wake_at_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|first| first.0.saturating_add(1))
    }

    /// Whether a broker is alive at `now_ms`.
    pub fn is_alive(&self, now_ms: u64, name: &str, broker: BrokerId) -> bool {
        self.last(now_ms, name, broker).is_some()
    }

    /// The newest heartbeat of a broker that is alive at `now_ms`.
    pub fn last(&self, now_ms: u64, name: &str, broker: BrokerId) -> Option<&Heartbeat> {
        let (heartbeat, deadline_ms) = self.brokers.get(name)?.get(&broker)?;
        (*deadline_ms >= now_ms).then_some(heartbeat)
    }

    fn is_known(&self, name: &str, broker: BrokerId) -> bool {
        self.brokers.get(name).is_some_and(|set| set.contains_key(&broker))
    }
}
