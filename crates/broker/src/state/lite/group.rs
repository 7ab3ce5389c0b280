//! Clients of a lite group, and the choice of the client that gets an event. Pure.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use wire::body::SubscriptionGroupConfig;

use super::events::{EVENTS_MAX, Events};
use crate::client_link::ClientLink;
use crate::groups::attributes as names;
use crate::long_polling::Waiters;

/// Number of listeners of a wildcard group that are compared for an event if no listener waits. More are compared until one has
/// room.
const COMPARED_MAX: usize = 16;

/// Most events of a client that are searched at a time for events that another subscriber waits for.
const AWAITED_MAX: usize = 64;

/// Events of a wildcard group that wait for room in the set of a listener. A full dispatch finds further lite queues.
const WAITING_EVENTS_MAX: usize = if cfg!(test) { 8 } else { 65_536 };

/// Attributes of a lite group (`SubscriptionGroupAttributes`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRules {
    /// Parent topic whose lite topics the group consumes: `lite.bind.topic`.
    pub topic: Arc<str>,
    /// Whether a lite topic has one client, the newest: `lite.sub.model=Exclusive`.
    pub exclusive: bool,
    /// Whether every client subscribes to all lite topics of the parent: `lite.sub.wildcard`, with
    /// any value. An event still goes to a single client.
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
    /// Whether a full dispatch stopped before its last lite queue, because the event sets were full.
    pub is_stopped: bool,
    /// Whether a full dispatch that stopped has not reached its last lite queue yet, whether or not it goes on at the moment.
    pub is_unfinished: bool,
    /// Whether a full dispatch is queued.
    pub is_due: bool,
}

impl FullDispatch {
    /// Whether a full dispatch must begin or go on when a set has room.
    pub fn is_open(&self) -> bool {
        self.overflows || self.is_stopped
    }

    /// Whether lite queues that no full dispatch has reached may have waited longer than new events.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_open() || self.is_unfinished
    }
}

/// Client of a lite group.
pub(crate) struct Client {
    /// Lite queues that the client subscribes to.
    pub queues: HashSet<Arc<str>>,
    /// Number of calls that added lite queues so far.
    pub(super) additions: usize,
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
    /// Whether other clients come first, because this client left its pop or did not pop its events. Ends with the next
    /// pop.
    pub is_muted: bool,
    /// Whether the client gets the events of a wildcard group.
    pub(super) listens: bool,
    /// Whether the client is in the list of waiting clients of its group.
    pub(super) is_listed: bool,
    /// Full dispatch of the client.
    pub dispatch: FullDispatch,
}

impl Client {
    pub(super) fn new(now_ms: i64) -> Self {
        Self {
            queues: HashSet::new(),
            additions: 0,
            link: None,
            events: Events::default(),
            waiters: Arc::default(),
            seen_ms: now_ms,
            popped_ms: now_ms,
            is_muted: false,
            listens: false,
            is_listed: false,
            dispatch: FullDispatch::default(),
        }
    }

    /// Preference for an event, lower is better: a waiting client, a client that pops, a client that may be gone.
    fn rank(&self) -> u8 {
        match () {
            () if self.is_muted || self.is_closed() => 2,
            () if self.is_waiting() => 0,
            () => 1,
        }
    }

    /// Whether the connection of the client has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_closed())
    }

    /// Whether the client may have a new event. Room in its set is for an unfinished full dispatch, whose lite queues may have
    /// waited longer.
    pub(super) fn takes_new(&self) -> bool {
        !self.dispatch.is_ahead() || self.is_waiting()
    }

    /// Whether a pop of the client is suspended.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiters.has_count()
    }
}

/// Clients of a lite queue. Most lite queues have one client, which takes no allocation of its own.
#[expect(clippy::box_collection, reason = "a thin pointer, so that an entry takes 16 bytes")]
pub(super) enum Subscribers {
    One([Arc<str>; 1]),
    Many(Box<Vec<Arc<str>>>),
}

impl Subscribers {
    fn all(&self) -> &[Arc<str>] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }

    pub(super) fn push(&mut self, client: Arc<str>) {
        match self {
            Self::One([first]) => *self = Self::Many(Box::new(vec![first.clone(), client])),
            Self::Many(many) => many.push(client),
        }
    }

    /// Removes a client. Returns false if no client is left.
    pub(super) fn remove(&mut self, client: &str) -> bool {
        match self {
            Self::One([first]) => **first != *client,
            Self::Many(many) => {
                many.retain(|it| **it != *client);
                if let [last] = &many[..] {
                    *self = Self::One([last.clone()]);
                }
                true
            }
        }
    }
}

/// Clients of a group.
pub(crate) struct Group {
    pub(super) rules: GroupRules,
    pub(super) clients: HashMap<Arc<str>, Client>,
    /// Clients of each lite queue.
    pub(super) queues: HashMap<Arc<str>, Subscribers>,
    /// Clients of a wildcard group.
    pub(super) listeners: Vec<Arc<str>>,
    /// Clients whose pops were suspended, in this order. Some of them no longer wait.
    pub(super) waiting: VecDeque<Arc<str>>,
    /// Whether no listener had room for the last event, so that no listener is compared for the next events. Cleared as
    /// soon as an event leaves a set. A full dispatch waits for [`Self::has_room`] instead, because with this flag a full
    /// dispatch would begin after each event.
    pub(super) is_full: bool,
    /// Events of a wildcard group for which no listener had room.
    pub(super) waiting_events: Events,
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
            waiting: VecDeque::new(),
            is_full: false,
            waiting_events: Events::default(),
            dispatch: FullDispatch::default(),
        }
    }

    /// Clients that get events of a lite queue.
    pub(super) fn subscribers(&self, name: &str) -> &[Arc<str>] {
        if self.rules.wildcard {
            return &self.listeners;
        }
        self.queues.get(name).map(Subscribers::all).unwrap_or_default()
    }

    /// Whether a listener of a wildcard group has room for many events.
    pub(super) fn has_room(&self) -> bool {
        let mut clients = self.listeners.iter().filter_map(|listener| self.clients.get(listener));
        clients.any(|client| client.events.len() <= self.rules.events_max / 2)
    }

    /// Adds an event to the set of a subscriber with room for which `may_have` returns true, and returns the client. `dice`
    /// is a number that differs from event to event. Modulo the number of subscribers, it is the index of the subscriber
    /// that is compared first.
    pub(super) fn offer(
        &mut self,
        name: &Arc<str>,
        dice: usize,
        may_have: fn(&Client) -> bool,
    ) -> Option<&Client> {
        let max = self.rules.events_max;
        if self.rules.wildcard
            && let Some(id) = self.waiting_listener(name)
        {
            return self.clients.get(&id);
        }
        let (best, chosen) = if self.is_full { (None, None) } else { self.choose(name, dice, may_have) };
        if let Some(id) = chosen {
            let client = self.clients.get_mut(&id)?;
            client.events.offer(name, max);
            return Some(client);
        }
        if self.rules.wildcard {
            self.is_full = true;
        } else if let Some(client) = best.and_then(|id| self.clients.get_mut(&id)) {
            client.dispatch.overflows = true;
        }
        None
    }

    /// Records an event of a wildcard group for which no listener has room. The next listener with room gets it: a full
    /// dispatch would look at all lite queues of the parent before.
    pub(super) fn wait_for_room(&mut self, name: &Arc<str>) {
        if self.rules.wildcard && !self.waiting_events.offer(name, WAITING_EVENTS_MAX) {
            self.dispatch.overflows = true;
        }
    }

    /// Records an event for which no listener has room before the other events that wait.
    pub(super) fn wait_first(&mut self, name: &Arc<str>) {
        if self.rules.wildcard && self.waiting_events.takes(name, WAITING_EVENTS_MAX) {
            self.waiting_events.put_back(name.clone());
        } else {
            self.dispatch.overflows |= self.rules.wildcard;
        }
    }

    /// Whether new events come behind others of a wildcard group: events that wait for room, or lite queues that a full
    /// dispatch has not reached. Without this order the others would wait as long as new events come.
    pub(super) fn has_earlier_events(&self) -> bool {
        self.rules.wildcard && (self.dispatch.is_ahead() || self.waiting_events.len() > 0)
    }

    /// Fills the set of a listener with the events that wait for room. Half of the room is for an unfinished full
    /// dispatch, whose lite queues may have waited longer.
    pub(super) fn refill(&mut self, client: &str) {
        let max = self.rules.events_max;
        let max = if self.dispatch.is_ahead() { (max / 2).max(1) } else { max };
        let Some(client) = self.clients.get_mut(client).filter(|client| client.listens) else { return };
        while client.events.len() < max
            && let Some(name) = self.waiting_events.take()
        {
            client.events.offer(&name, self.rules.events_max);
        }
    }

    /// Gives an event to the listener of a wildcard group that has waited longest.
    fn waiting_listener(&mut self, name: &Arc<str>) -> Option<Arc<str>> {
        while let Some(id) = self.waiting.pop_front() {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            client.is_listed = false;
            if client.listens && client.rank() == 0 && client.events.offer(name, self.rules.events_max) {
                return Some(id);
            }
        }
        None
    }

    /// Whether a listener of a wildcard group waits. Removes the listeners before it that no longer wait from the list, so
    /// that the next call does not look at them again.
    pub(super) fn has_waiting_listener(&mut self) -> bool {
        while let Some(id) = self.waiting.front() {
            if let Some(client) = self.clients.get_mut(id) {
                if client.listens && client.rank() == 0 {
                    return true;
                }
                client.is_listed = false;
            }
            self.waiting.pop_front();
        }
        false
    }

    /// The subscriber with the best rank, and the subscriber with room for an event that has the best rank. `dice` tells which
    /// subscriber is compared first, see [`offer`](Self::offer). Not all listeners of a large wildcard group are compared.
    fn choose(
        &self,
        name: &str,
        dice: usize,
        may_have: fn(&Client) -> bool,
    ) -> (Option<Arc<str>>, Option<Arc<str>>) {
        let subscribers = self.subscribers(name);
        let count = subscribers.len();
        let compared_max = if self.rules.wildcard { COMPARED_MAX } else { count };
        let mut best: Option<(u8, &Arc<str>)> = None;
        let mut chosen: Option<(u8, &Arc<str>)> = None;
        for index in 0..count {
            if index >= compared_max && chosen.is_some() {
                break;
            }
            let id = &subscribers[(dice + index) % count];
            let Some(client) = self.clients.get(id) else { continue };
            let rank = client.rank();
            if best.is_none_or(|(other, _)| rank < other) {
                best = Some((rank, id));
            }
            if chosen.is_none_or(|(other, _)| rank < other)
                && client.events.takes(name, self.rules.events_max)
                && may_have(client)
            {
                chosen = Some((rank, id));
                if rank == 0 {
                    break;
                }
            }
        }
        (best.map(|(_, id)| id.clone()), chosen.map(|(_, id)| id.clone()))
    }

    /// Lists a client that waits, for the choice of a listener.
    pub(super) fn list_waiting(&mut self, client: &str) {
        let Some((id, _)) = self.clients.get_key_value(client) else { return };
        let id = id.clone();
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.listens && !std::mem::replace(&mut client.is_listed, true) {
            self.waiting.push_back(id);
        }
    }

    /// Takes the events of a client that another subscriber waits for.
    pub(super) fn take_awaited(&mut self, client: &str) -> Vec<Arc<str>> {
        if self.rules.wildcard && !self.has_waiting_listener() {
            return Vec::new();
        }
        let is_awaited = |name: &Arc<str>| {
            let mut others = self.subscribers(name).iter().filter(|other| ***other != *client);
            let waits = |other: &Arc<str>| self.clients.get(other).is_some_and(|it| it.rank() == 0);
            self.rules.wildcard || others.any(waits)
        };
        let Some(entry) = self.clients.get(client) else { return Vec::new() };
        let awaited: Vec<_> =
            entry.events.iter().take(AWAITED_MAX).filter(|name| is_awaited(name)).cloned().collect();
        let Some(entry) = self.clients.get_mut(client) else { return Vec::new() };
        awaited.iter().for_each(|name| entry.events.remove(name));
        awaited
    }
}
