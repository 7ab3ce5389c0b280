//! Full dispatches: when they are queued, when they stop and go on. Pure.

use std::sync::Arc;

use super::{PassKey, Tables};
use crate::state::lite::group::{Client, FullDispatch};

impl Tables {
    /// Records that a client lacks an event. The next check queues a full dispatch.
    pub(crate) fn overflow(&mut self, group: &str, client: &str) {
        let is_wildcard = self.groups.get(group).is_some_and(|group| group.rules.wildcard);
        let key = (group.into(), (!is_wildcard).then(|| client.into()));
        if let Some(dispatch) = self.dispatch_mut(&key) {
            dispatch.overflows = true;
        }
    }

    /// Queues full dispatches of all groups, because this broker begins to serve clients.
    pub(crate) fn demand_all(&mut self) {
        for group in self.groups.keys().cloned().collect::<Vec<_>>() {
            self.demand_group(&group);
        }
    }

    /// Queues a full dispatch of all lite queues. Another follows if the last has begun and is not finished. Returns
    /// false if a full dispatch is queued already.
    pub(crate) fn demand(&mut self, key: PassKey) -> bool {
        if let Some(dispatch) = self.dispatch_mut(&key) {
            dispatch.overflows = true;
        }
        self.go_on(key)
    }

    /// Queues a full dispatch, or the rest of the last. Returns false if it is queued already.
    pub(crate) fn go_on(&mut self, key: PassKey) -> bool {
        let Some(dispatch) = self.dispatch_mut(&key) else { return false };
        dispatch.is_stopped = false;
        if std::mem::replace(&mut dispatch.is_due, true) {
            return false;
        }
        self.due.push_back(key);
        true
    }

    fn dispatch_mut(&mut self, key: &PassKey) -> Option<&mut FullDispatch> {
        let of_group = self.groups.get_mut(&key.0)?;
        match &key.1 {
            Some(client) => of_group.clients.get_mut(client).map(|client| &mut client.dispatch),
            None => Some(&mut of_group.dispatch),
        }
    }

    /// Queues full dispatches of all clients of a group.
    pub(crate) fn demand_group(&mut self, group: &str) {
        let Some((name, of_group)) = self.groups.get_key_value(group) else { return };
        let name = name.clone();
        let keys: Vec<PassKey> = match of_group.rules.wildcard {
            true => vec![(name, None)],
            false => of_group.clients.keys().map(|client| (name.clone(), Some(client.clone()))).collect(),
        };
        for key in keys {
            self.demand(key);
        }
    }

    /// Takes a queued full dispatch. Returns the lite queues of the client unless the full dispatch has begun, and the
    /// parent topic. `has_begun` tells the full dispatches that go on where they stopped.
    pub(crate) fn take_due(
        &mut self,
        has_begun: impl Fn(&PassKey) -> bool,
    ) -> Option<(PassKey, Arc<str>, Vec<Arc<str>>)> {
        loop {
            let key = self.due.pop_front()?;
            let Some(dispatch) = self.dispatch_mut(&key) else { continue };
            dispatch.is_due = false;
            // A full dispatch that goes on does not return to the lite queues behind it.
            let has_begun = has_begun(&key);
            dispatch.overflows &= has_begun;
            let Some(of_group) = self.groups.get(&key.0) else { continue };
            let topic = of_group.rules.topic.clone();
            match &key.1 {
                Some(client) => {
                    let Some(client) = of_group.clients.get(client) else { continue };
                    let queues = match has_begun {
                        true => Vec::new(),
                        false => client.queues.iter().cloned().collect(),
                    };
                    return Some((key, topic, queues));
                }
                None => return Some((key, topic, Vec::new())),
            }
        }
    }

    /// Whether a full dispatch still has clients.
    pub(crate) fn has(&self, key: &PassKey) -> bool {
        self.groups
            .get(&key.0)
            .is_some_and(|group| key.1.as_ref().is_none_or(|client| group.clients.contains_key(client)))
    }

    /// Records that a full dispatch is not finished, because the sets are full.
    pub(crate) fn stopped(&mut self, key: &PassKey) {
        if let Some(dispatch) = self.dispatch_mut(key) {
            (dispatch.is_stopped, dispatch.is_unfinished) = (true, true);
        }
    }

    /// Records that a full dispatch has looked at its last lite queue.
    pub(crate) fn finished(&mut self, key: &PassKey) {
        if let Some(dispatch) = self.dispatch_mut(key) {
            dispatch.is_unfinished = false;
        }
    }

    /// Whether the sets of a full dispatch overflowed and have room now, so that another full dispatch is due.
    pub(crate) fn overflows_with_room(&self, key: &PassKey) -> bool {
        let Some(of_group) = self.groups.get(&key.0) else { return false };
        let has_room = |client: &Client| client.events.len() <= of_group.rules.events_max / 2;
        match &key.1 {
            Some(client) => of_group
                .clients
                .get(client)
                .is_some_and(|client| client.dispatch.is_open() && has_room(client)),
            None => of_group.dispatch.is_open() && of_group.has_room(),
        }
    }
}
