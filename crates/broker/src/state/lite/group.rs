//! Clients of a lite group, and the choice of the client that gets an event. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use wire::body::SubscriptionGroupConfig;

use super::events::{EVENTS_MAX, Events};
use crate::client_link::ClientLink;
use crate::groups::attributes as names;
use crate::long_polling::Waiters;

/// Attributes of a lite group (`SubscriptionGroupAttributes`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRules {
    /// Parent topic whose lite topics the group consumes: `lite.bind.topic`.
    pub topic: Arc<str>,
    /// Whether a lite topic has one client, the newest: `lite.sub.model=Exclusive`.
    pub exclusive: bool,
    /// Whether every client gets all lite topics of the parent: `lite.sub.wildcard`, with any value.
    pub wildcard: bool,
    /// Whether a take-over resets the offset: `lite.sub.reset.offset.exclusive`.
    pub resets_on_take_over: bool,
    /// Whether the end of a subscription resets the offset: `lite.sub.reset.offset.unsubscribe`.
    pub resets_on_removal: bool,
    /// Most events of a client: `lite.sub.client.max.event.cnt`.
    pub events_max: usize,
}

impl GroupRules {
    /// The attributes of a group; `None` for a group that consumes no lite topics. `events_max` is the broker's own bound.
    pub(crate) fn of(config: &SubscriptionGroupConfig, events_max: usize) -> Option<Self> {
        let value = |name| config.attributes.get(name).map(String::as_str);
        let topic = value(names::LITE_TOPIC).filter(|topic| !topic.is_empty())?;
        let bound = value(names::LITE_EVENTS_MAX).and_then(|text| text.parse().ok());
        Some(Self {
            topic: topic.into(),
            exclusive: value(names::LITE_MODEL) == Some("Exclusive"),
            wildcard: value(names::LITE_WILDCARD).is_some(),
            resets_on_take_over: value(names::LITE_RESETS_ON_TAKE_OVER) == Some("true"),
            resets_on_removal: value(names::LITE_RESETS_ON_REMOVAL) == Some("true"),
            events_max: bound.filter(|max| *max > 0).unwrap_or(events_max).clamp(1, EVENTS_MAX),
        })
    }
}

/// State of the full dispatches of a client, or of a wildcard group.
#[derive(Default)]
pub(crate) struct FullDispatch {
    /// Whether an event found no room since the last full dispatch began. Another full dispatch must follow, because
    /// the last may have passed the lite queue.
    pub overflows: bool,
    /// Whether a full dispatch waits for room in the middle.
    pub is_stopped: bool,
    /// Whether a full dispatch is queued.
    pub is_due: bool,
}

impl FullDispatch {
    /// Whether a full dispatch must begin or go on when a set has room.
    pub fn is_open(&self) -> bool {
        self.overflows || self.is_stopped
    }
}

/// Client of a lite group.
pub(crate) struct Client {
    /// Lite queues that the client subscribes to.
    pub queues: HashSet<Arc<str>>,
    /// Link for notices; `None` for a client that only popped so far.
    pub link: Option<Arc<dyn ClientLink>>,
    /// Events of the client.
    pub events: Events,
    /// Suspended pops of the client.
    pub waiters: Arc<Waiters>,
    /// Time of the last subscription request, in milliseconds since the epoch.
    pub seen_ms: i64,
    /// Time of the last pop.
    pub popped_ms: i64,
    /// Until this time other clients come first, because this client did not pop its events.
    pub muted_until_ms: i64,
    /// Full dispatch of the client.
    pub dispatch: FullDispatch,
}

impl Client {
    pub(super) fn new(now_ms: i64) -> Self {
        Self {
            queues: HashSet::new(),
            link: None,
            events: Events::default(),
            waiters: Arc::default(),
            seen_ms: now_ms,
            popped_ms: now_ms,
            muted_until_ms: 0,
            dispatch: FullDispatch::default(),
        }
    }

    /// Preference for an event, lower is better: a waiting client, a client that pops, a client that may be gone.
    fn rank(&self, now_ms: i64) -> u8 {
        let is_gone = self.link.as_ref().is_some_and(|link| link.is_closed());
        match () {
            () if self.muted_until_ms > now_ms || is_gone => 2,
            () if self.waiters.has_count() => 0,
            () => 1,
        }
    }
}

/// Clients of a group.
pub(crate) struct Group {
    pub(super) rules: GroupRules,
    pub(super) clients: HashMap<Arc<str>, Client>,
    /// Clients of each lite queue.
    pub(super) queues: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Clients of a wildcard group.
    pub(super) listeners: Vec<Arc<str>>,
    /// Full dispatch of a wildcard group.
    pub(super) dispatch: FullDispatch,
}

impl Group {
    pub(super) fn new(rules: GroupRules) -> Self {
        Self {
            rules,
            clients: HashMap::new(),
            queues: HashMap::new(),
            listeners: Vec::new(),
            dispatch: FullDispatch::default(),
        }
    }

    /// Clients that get events of a lite queue.
    pub(super) fn subscribers(&self, name: &str) -> &[Arc<str>] {
        if self.rules.wildcard {
            return &self.listeners;
        }
        self.queues.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a listener of a wildcard group has room for many events.
    pub(super) fn has_room(&self) -> bool {
        let mut clients = self.listeners.iter().filter_map(|listener| self.clients.get(listener));
        clients.any(|client| client.events.len() <= self.rules.events_max / 2)
    }

    /// Adds an event to the set of a subscriber with room, beginning with number `dice`. Returns the client.
    pub(super) fn offer(&mut self, name: &Arc<str>, dice: usize, now_ms: i64) -> Option<&Client> {
        let count = self.subscribers(name).len();
        let mut ranked: Vec<(u8, Arc<str>)> = Vec::new();
        for index in 0..count {
            let id = &self.subscribers(name)[(dice + index) % count];
            let Some(client) = self.clients.get(id) else { continue };
            let rank = client.rank(now_ms);
            ranked.push((rank, id.clone()));
            if rank == 0 {
                break;
            }
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        let max = self.rules.events_max;
        let mut taker = None;
        for (_, id) in &ranked {
            let Some(client) = self.clients.get_mut(id) else { continue };
            if client.events.offer(name, max) {
                taker = Some(id.clone());
                break;
            }
        }
        // Subscribers behind a waiting client without room were not asked.
        if taker.is_none() && ranked.len() < count {
            let others: Vec<Arc<str>> = self.subscribers(name).to_vec();
            taker = others
                .into_iter()
                .find(|id| self.clients.get_mut(id).is_some_and(|client| client.events.offer(name, max)));
        }
        if taker.is_none() {
            match ranked.first() {
                Some(_) if self.rules.wildcard => self.dispatch.overflows = true,
                Some((_, id)) => {
                    if let Some(client) = self.clients.get_mut(id) {
                        client.dispatch.overflows = true;
                    }
                }
                None => {}
            }
        }
        self.clients.get(&taker?)
    }
}
