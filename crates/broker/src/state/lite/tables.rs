//! Tables of subscriptions by group and client. Pure.

mod full_dispatch;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::group::{Client, FullDispatch, Group, GroupRules, Subscribers};
use crate::client_link::ClientLink;
use crate::long_polling::Waiters;
use crate::names::lite_parts;

/// A client with events that does not pop for this time loses them to others (`CLIENT_INACTIVE_INTERVAL`).
const IDLE_MS: i64 = 10_000;
/// A client that does not pop for this time loses the events for which another subscriber waits.
const LATE_MS: i64 = 1000;

/// Events that wait for room and that a check hands out.
const CHECKED_MAX: usize = if cfg!(test) { 3 } else { 512 };

/// A full dispatch: group, and client. `None` for all clients of a wildcard group.
pub(crate) type PassKey = (Arc<str>, Option<Arc<str>>);

/// Groups and events for them.
type GroupEvents = Vec<(Arc<str>, Arc<str>)>;

/// A client that must be told that it lost a lite queue.
pub(crate) struct Subscriber {
    /// Id of the client.
    pub client: Arc<str>,
    /// Link to the client.
    pub link: Option<Arc<dyn ClientLink>>,
    /// The lite queue.
    pub queue: Arc<str>,
}

/// Result of a change of subscriptions.
#[derive(Default)]
pub(crate) struct Change {
    /// New subscriptions.
    pub added: Vec<Arc<str>>,
    /// Clients that lost a lite queue to another client.
    pub lost: Vec<Subscriber>,
}

/// Result of offering an event.
pub(crate) enum Offered {
    /// A client has the event. Contains the client's suspended pops.
    To(Arc<Waiters>),
    /// The event sets are full.
    Full,
    /// The group has no subscriber.
    Nobody,
}

/// All groups with clients.
#[derive(Default)]
pub(crate) struct Tables {
    groups: HashMap<Arc<str>, Group>,
    /// Groups by parent topic.
    parents: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Number of subscriptions.
    active: usize,
    /// Number of clients.
    clients: usize,
    /// Queued full dispatches.
    due: VecDeque<PassKey>,
    dice: usize,
}

impl Tables {
    /// Number of subscriptions of all clients. A client of a wildcard group counts as one.
    pub(crate) fn active(&self) -> usize {
        self.active
    }

    /// Number of clients.
    pub(crate) fn clients(&self) -> usize {
        self.clients
    }

    /// A client of a group.
    pub(crate) fn client(&self, group: &str, client: &str) -> Option<&Client> {
        self.groups.get(group)?.clients.get(client)
    }

    #[cfg(test)]
    pub(crate) fn client_mut(&mut self, group: &str, client: &str) -> Option<&mut Client> {
        self.groups.get_mut(group)?.clients.get_mut(client)
    }

    /// Number of listeners in the list of waiting clients of a group.
    #[cfg(test)]
    pub(crate) fn listed(&self, group: &str) -> usize {
        self.groups.get(group).map_or(0, |of_group| of_group.waiting.len())
    }

    /// Groups with a subscriber of a lite queue.
    pub(crate) fn groups_of(&self, name: &str) -> Vec<Arc<str>> {
        let groups = lite_parts(name).and_then(|(parent, _)| self.parents.get(parent));
        let subscribes = |group: &&Arc<str>| {
            self.groups.get(&***group).is_some_and(|group| !group.subscribers(name).is_empty())
        };
        groups.into_iter().flatten().filter(subscribes).cloned().collect()
    }

    /// Group and client id of every subscriber of a lite queue; the client id `*` for a wildcard group.
    pub(crate) fn subscribers(&self, name: &str) -> Vec<(Arc<str>, Arc<str>)> {
        let mut found = Vec::new();
        for group in self.groups_of(name) {
            let of_group = &self.groups[&group];
            match of_group.rules.wildcard {
                true => found.push((group, "*".into())),
                false => {
                    let clients = of_group.subscribers(name).iter();
                    found.extend(clients.map(|client| (group.clone(), client.clone())));
                }
            }
        }
        found
    }

    /// Records a subscription request of a client, with the link for notices. Returns the number of earlier additions.
    pub(crate) fn note_request(
        &mut self,
        (group, rules): (&str, &GroupRules),
        client: &str,
        link: &Arc<dyn ClientLink>,
        now_ms: i64,
    ) -> usize {
        let entry = self.enter(group, rules, client, now_ms);
        entry.seen_ms = now_ms;
        entry.link = Some(link.clone());
        let additions = entry.additions;
        if rules.wildcard {
            self.listen(group, client);
        }
        additions
    }

    /// Records that a client pops. Returns its suspended pops, and whether a full dispatch became due.
    pub(crate) fn note_pop(
        &mut self,
        group: &str,
        rules: &GroupRules,
        client: &str,
        now_ms: i64,
    ) -> (Arc<Waiters>, bool) {
        let entry = self.enter(group, rules, client, now_ms);
        entry.popped_ms = now_ms;
        entry.is_muted = false;
        let waiters = entry.waiters.clone();
        let is_new = rules.wildcard && self.listen(group, client);
        self.groups.get_mut(group).into_iter().for_each(|of_group| of_group.refill(client));
        (waiters, is_new)
    }

    /// Finds a client, or makes an entry for it.
    fn enter(&mut self, group: &str, rules: &GroupRules, client: &str, now_ms: i64) -> &mut Client {
        let is_other = self
            .groups
            .get(group)
            .is_some_and(|it| (&it.rules.topic, it.rules.wildcard) != (&rules.topic, rules.wildcard));
        if is_other {
            // The group was bound to another topic, or became a wildcard group.
            self.forget_group(group);
        }
        if !self.groups.contains_key(group) {
            let name: Arc<str> = group.into();
            self.parents.entry(rules.topic.clone()).or_default().push(name.clone());
            self.groups.insert(name, Group::new(rules.clone()));
        }
        let of_group = self.groups.get_mut(group).expect("inserted above");
        of_group.rules = rules.clone();
        of_group.is_full = false;
        if !of_group.clients.contains_key(client) {
            of_group.clients.insert(client.into(), Client::new(now_ms));
            self.clients += 1;
        }
        of_group.clients.get_mut(client).expect("inserted above")
    }

    /// Makes a client a listener of its wildcard group, and queues a full dispatch. Returns false if it listens already.
    fn listen(&mut self, group: &str, client: &str) -> bool {
        let Some(of_group) = self.groups.get_mut(group) else { return false };
        let Some((id, _)) = of_group.clients.get_key_value(client) else { return false };
        let id = id.clone();
        if of_group.clients.get_mut(&id).is_none_or(|client| std::mem::replace(&mut client.listens, true)) {
            return false;
        }
        of_group.listeners.push(id);
        self.active += 1;
        self.demand((group.into(), None));
        true
    }

    /// Adds subscriptions of a client, which [`Self::note_request`] recorded. In an exclusive group other clients lose
    /// these lite queues.
    pub(crate) fn add(&mut self, group: &str, client: &str, names: &[Arc<str>]) -> Change {
        let mut change = Change::default();
        let Some(of_group) = self.groups.get_mut(group).filter(|it| !it.rules.wildcard) else {
            return change;
        };
        let Some((id, _)) = of_group.clients.get_key_value(client) else { return change };
        let id = id.clone();
        of_group.clients.get_mut(&id).into_iter().for_each(|it| it.additions += 1);
        for name in names {
            if of_group.rules.exclusive {
                let others = of_group.subscribers(name).iter().filter(|other| **other != id);
                for other in others.cloned().collect::<Vec<_>>() {
                    self.active -= usize::from(of_group.drop_subscription(&other, name));
                    let link = of_group.clients.get(&other).and_then(|it| it.link.clone());
                    change.lost.push(Subscriber { client: other, link, queue: name.clone() });
                }
            }
            if of_group.subscribe(&id, name) {
                self.active += 1;
                change.added.push(name.clone());
            }
        }
        change
    }

    /// Repeats subscriptions of a client. In an exclusive group the client does not get a lite queue that another client
    /// has; `lost` of the result lists the client with each such queue.
    pub(crate) fn repeat(&mut self, group: &str, client: &str, names: &[Arc<str>]) -> Change {
        let mut change = Change::default();
        let Some(of_group) = self.groups.get_mut(group).filter(|it| !it.rules.wildcard) else {
            return change;
        };
        let Some((id, entry)) = of_group.clients.get_key_value(client) else { return change };
        let (id, link) = (id.clone(), entry.link.clone());
        of_group.clients.get_mut(&id).into_iter().for_each(|it| it.additions += 1);
        for name in names {
            let is_taken = of_group.rules.exclusive && of_group.subscribers(name).iter().any(|it| *it != id);
            if is_taken {
                let (client, link) = (id.clone(), link.clone());
                change.lost.push(Subscriber { client, link, queue: name.clone() });
            } else if of_group.subscribe(&id, name) {
                self.active += 1;
                change.added.push(name.clone());
            }
        }
        change
    }

    /// Lite queues of a client, if it has more than `count`. Empty if the client has another number of additions: a
    /// request that came meanwhile added lite queues.
    pub(crate) fn queues_above(
        &self,
        count: usize,
        additions: usize,
        (group, client): (&str, &str),
    ) -> Vec<Arc<str>> {
        let client = self.client(group, client).filter(|client| client.additions == additions);
        let queues = client.map(|client| &client.queues);
        queues.filter(|queues| queues.len() > count).into_iter().flatten().cloned().collect()
    }

    /// Removes subscriptions of a client. Returns the subscriptions that it had.
    pub(crate) fn remove(&mut self, group: &str, client: &str, names: &[Arc<str>]) -> Vec<Arc<str>> {
        let Some(of_group) = self.groups.get_mut(group) else { return Vec::new() };
        let ended = names.iter().filter(|name| of_group.drop_subscription(client, name));
        let ended: Vec<_> = ended.cloned().collect();
        self.active -= ended.len();
        ended
    }

    /// Removes a client. Returns its events, which other clients of the group get, and its suspended pops.
    pub(crate) fn remove_client(
        &mut self,
        group: &str,
        client: &str,
    ) -> (Vec<Arc<str>>, Option<Arc<Waiters>>) {
        let Some(of_group) = self.groups.get_mut(group) else { return (Vec::new(), None) };
        let Some(entry) = of_group.clients.get_mut(client) else { return (Vec::new(), None) };
        let events = entry.events.take_all();
        of_group.is_full = false;
        // A full dispatch that is queued may be for lite queues that other clients have as well.
        let lacks_events = entry.dispatch.is_open() || entry.dispatch.is_due;
        let is_due = entry.dispatch.is_due;
        entry.dispatch = FullDispatch { is_due, ..FullDispatch::default() };
        let waiters = entry.waiters.clone();
        for name in entry.queues.iter().cloned().collect::<Vec<_>>() {
            self.active -= usize::from(of_group.drop_subscription(client, &name));
        }
        let listened = of_group.clients.get_mut(client).is_some_and(|it| std::mem::take(&mut it.listens));
        if listened {
            of_group.listeners.retain(|listener| **listener != *client);
            of_group.waiting.retain(|waiting| **waiting != *client);
            of_group.clients.get_mut(client).into_iter().for_each(|it| it.is_listed = false);
            self.active -= 1;
        }
        // A suspended pop is found by the client's next subscription. The check removes the entry later.
        if !waiters.has_count() {
            of_group.clients.remove(client);
            self.clients -= 1;
        }
        if of_group.clients.is_empty() {
            self.forget_group(group);
        } else if lacks_events {
            self.demand_group(group);
        }
        (events, Some(waiters))
    }

    /// Removes a group with its clients.
    pub(crate) fn forget_group(&mut self, group: &str) {
        let Some(removed) = self.groups.remove(group) else { return };
        let subscriptions: usize = removed.clients.values().map(|client| client.queues.len()).sum();
        self.active -= subscriptions + removed.listeners.len();
        self.clients -= removed.clients.len();
        if let Some(groups) = self.parents.get_mut(&removed.rules.topic) {
            groups.retain(|it| **it != *group);
            if groups.is_empty() {
                self.parents.remove(&removed.rules.topic);
            }
        }
    }

    /// Removes the events for a lite queue that expired.
    pub(crate) fn forget_queue(&mut self, name: &str) {
        for group in self.groups_of(name) {
            let Some(of_group) = self.groups.get_mut(&group) else { continue };
            of_group.is_full = false;
            of_group.waiting_events.remove(name);
            for id in of_group.subscribers(name).to_vec() {
                of_group.clients.get_mut(&id).into_iter().for_each(|client| client.events.remove(name));
            }
        }
    }

    /// Gives an event to a subscriber of a group. In a wildcard group it waits for room if the sets are full.
    pub(crate) fn offer(&mut self, group: &str, name: &Arc<str>) -> Offered {
        let offered = self.offer_again(group, name);
        if matches!(offered, Offered::Full)
            && let Some(of_group) = self.groups.get_mut(group)
        {
            of_group.wait_for_room(name);
        }
        offered
    }

    /// Gives an event that [`Self::check`] took to a subscriber of a group. If the sets are full, [`Self::wait_first`] follows.
    pub(crate) fn offer_again(&mut self, group: &str, name: &Arc<str>) -> Offered {
        let earlier = self.groups.get_mut(group).filter(|of_group| of_group.has_earlier_events());
        match earlier.is_some_and(|of_group| !of_group.has_waiting_listener()) {
            true => Offered::Full,
            false => self.offer_to(group, name, Client::takes_new),
        }
    }

    /// Puts events that [`Self::check`] took and that found no room before the events of wildcard groups that wait for room,
    /// because the former are older.
    pub(crate) fn wait_first(&mut self, events: &[(Arc<str>, Arc<str>)]) {
        for (group, name) in events.iter().rev() {
            self.groups.get_mut(group).into_iter().for_each(|of_group| of_group.wait_first(name));
        }
    }

    /// Gives an event to a subscriber of a group during a full dispatch, which stops if the sets are full.
    pub(crate) fn offer_in_pass(&mut self, group: &str, name: &Arc<str>) -> Offered {
        self.offer_to(group, name, |_| true)
    }

    fn offer_to(&mut self, group: &str, name: &Arc<str>, may_have: fn(&Client) -> bool) -> Offered {
        self.dice = self.dice.wrapping_add(7919);
        let Some(of_group) = self.groups.get_mut(group) else { return Offered::Nobody };
        if of_group.subscribers(name).is_empty() {
            return Offered::Nobody;
        }
        match of_group.offer(name, self.dice, may_have) {
            Some(client) => Offered::To(client.waiters.clone()),
            None => Offered::Full,
        }
    }

    /// Takes the next event of a client that pops. Returns also whether a full dispatch became due, because the set
    /// has room again.
    pub(crate) fn take_event(&mut self, group: &str, client: &str, now_ms: i64) -> (Option<Arc<str>>, bool) {
        let Some(of_group) = self.groups.get_mut(group) else { return (None, false) };
        of_group.is_full = false;
        let max = of_group.rules.events_max;
        let Some((id, entry)) = of_group.clients.get_key_value(client) else { return (None, false) };
        let (id, of_wildcard) = (id.clone(), of_group.dispatch.is_open());
        let is_open = entry.dispatch.is_open();
        let Some(entry) = of_group.clients.get_mut(&id) else { return (None, false) };
        let event = entry.events.take();
        entry.popped_ms = now_ms;
        of_group.refill(&id);
        let left = of_group.clients.get(&id).map_or(0, |entry| entry.events.len());
        if left > max / 2 || !(is_open || of_wildcard) {
            return (event, false);
        }
        let key = (group.into(), (!of_wildcard).then_some(id));
        (event, self.go_on(key))
    }

    /// Returns an event to the front of a client's set. Returns false if the client does not get events of the lite
    /// queue.
    pub(crate) fn put_back(&mut self, group: &str, client: &str, event: &Arc<str>) -> bool {
        let Some(of_group) = self.groups.get_mut(group) else { return false };
        let wildcard = of_group.rules.wildcard;
        let Some(client) = of_group.clients.get_mut(client) else { return false };
        if !(if wildcard { client.listens } else { client.queues.contains(event) }) {
            return false;
        }
        client.events.put_back(event.clone());
        true
    }

    /// Whether a client has events. Lists a client without events as a client that waits.
    pub(crate) fn awaits(&mut self, group: &str, client: &str) -> bool {
        let Some(of_group) = self.groups.get_mut(group) else { return false };
        of_group.refill(client);
        if of_group.clients.get(client).is_some_and(|client| client.events.len() > 0) {
            return true;
        }
        of_group.list_waiting(client);
        false
    }

    /// Records that the connection of a suspended pop ended. Returns the events of the client, which other clients get.
    pub(crate) fn abandon(&mut self, group: &str, client: &str) -> Vec<Arc<str>> {
        let Some(of_group) = self.groups.get_mut(group) else { return Vec::new() };
        let Some(entry) = of_group.clients.get_mut(client).filter(|it| !it.is_waiting()) else {
            return Vec::new();
        };
        entry.is_muted = true;
        of_group.is_full = false;
        entry.events.take_all()
    }

    /// Removes clients that are silent for `timeout_ms`. Takes the events of clients that do not
    /// pop, and events of wildcard groups that wait for room. Returns all these events with their
    /// groups, and the suspended pops of the removed clients.
    pub(crate) fn check(&mut self, now_ms: i64, timeout_ms: i64) -> (GroupEvents, Vec<Arc<Waiters>>) {
        let (mut events, mut silent, mut late, mut waiters) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut lacking = Vec::new();
        for (group, of_group) in &mut self.groups {
            let wildcard = of_group.rules.wildcard;
            of_group.is_full = false;
            if of_group.has_room() {
                let waiting = (0..CHECKED_MAX).map_while(|_| of_group.waiting_events.take());
                events.extend(waiting.map(|event| (group.clone(), event)));
                lacking.extend(of_group.dispatch.is_open().then(|| group.clone()));
            }
            for (id, client) in &mut of_group.clients {
                let seen_ms = if wildcard || client.queues.is_empty() {
                    client.seen_ms.max(client.popped_ms)
                } else {
                    client.seen_ms
                };
                let since_pop_ms = now_ms.saturating_sub(client.popped_ms);
                let pops_nothing = !client.is_waiting() && client.events.len() > 0;
                if now_ms.saturating_sub(seen_ms) > timeout_ms && !client.is_waiting() {
                    silent.push((group.clone(), id.clone()));
                } else if pops_nothing && (since_pop_ms > IDLE_MS || client.is_closed()) {
                    client.is_muted = true;
                    let taken = client.events.take_all();
                    events.extend(taken.into_iter().map(|event| (group.clone(), event)));
                    if client.dispatch.is_open() {
                        lacking.push(group.clone());
                    }
                } else if pops_nothing && since_pop_ms > LATE_MS {
                    late.push((group.clone(), id.clone()));
                }
                if client.dispatch.is_open() && client.events.len() == 0 {
                    lacking.push(group.clone());
                }
            }
        }
        lacking.dedup();
        lacking.iter().for_each(|group| self.demand_group(group));
        for (group, client) in late {
            let awaited = self.groups.get_mut(&group).map(|of_group| of_group.take_awaited(&client));
            events.extend(awaited.into_iter().flatten().map(|event| (group.clone(), event)));
        }
        for (group, client) in silent {
            let (left, suspended) = self.remove_client(&group, &client);
            events.extend(left.into_iter().map(|event| (group.clone(), event)));
            waiters.extend(suspended);
        }
        (events, waiters)
    }

    /// Number of clients with events in all groups.
    pub(crate) fn with_events(&self) -> usize {
        let clients = self.groups.values().flat_map(|group| group.clients.values());
        clients.filter(|client| client.events.len() > 0).count()
    }
}

impl Group {
    /// Subscribes a client to a lite queue. Returns false if it subscribed before.
    fn subscribe(&mut self, client: &Arc<str>, name: &Arc<str>) -> bool {
        let Some(entry) = self.clients.get_mut(client) else { return false };
        if entry.queues.contains(name) {
            return false;
        }
        let name = self.queues.get_key_value(name).map_or(name, |(name, _)| name).clone();
        entry.queues.insert(name.clone());
        let clients = self.queues.entry(name);
        clients
            .and_modify(|all| all.push(client.clone()))
            .or_insert_with(|| Subscribers::One([client.clone()]));
        true
    }

    /// Ends a subscription. Returns false if there was none.
    fn drop_subscription(&mut self, client: &str, name: &str) -> bool {
        let Some(entry) = self.clients.get_mut(client) else { return false };
        if !entry.queues.remove(name) {
            return false;
        }
        entry.events.remove(name);
        if self.queues.get_mut(name).is_some_and(|clients| !clients.remove(client)) {
            self.queues.remove(name);
        }
        true
    }
}
