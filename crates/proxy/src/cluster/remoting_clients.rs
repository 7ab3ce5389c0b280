//! The clients of the remoting port by the groups that their heartbeats name (`ClientManagerActivity`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use broker::Refusal;
use broker::api::{CLIENT_ID_BYTES_MAX, DERIVED_TOPIC_LENGTH_MAX, Notice, check_length, link};
use net::ConnectionHandle;
use parking_lot::Mutex;
use wire::body::HeartbeatData;
use wire::codes::response;

/// Most groups that one connection may name.
const GROUPS_MAX: usize = 1000;

/// Most remembered producer groups of transactions. Groups without a connected producer make room for others.
const TRANSACTIONAL_MAX: usize = 10_000;

/// Kind of a client in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Consumer,
    Producer,
}

/// The clients of the remoting port. The limit of accepted connections bounds the number of
/// clients, and [`GROUPS_MAX`] bounds the groups of a client.
#[derive(Default)]
pub struct RemotingClients(Mutex<State>);

#[derive(Default)]
struct State {
    /// Members of a group by the id of their connection.
    groups: HashMap<(Kind, String), BTreeMap<u64, Member>>,
    /// Groups that a connection is a member of, by its id.
    connections: HashMap<u64, BTreeSet<(Kind, String)>>,
    /// Producer groups that have sent half messages.
    transactional: HashSet<String>,
}

struct Member {
    client_id: String,
    connection: Arc<ConnectionHandle>,
}

impl State {
    fn enter(&mut self, connection: &Arc<ConnectionHandle>, client_id: &str, place: (Kind, String)) -> bool {
        let places = self.connections.entry(connection.id()).or_default();
        if places.len() >= GROUPS_MAX && !places.contains(&place) {
            return false;
        }
        places.insert(place.clone());
        let member = Member { client_id: client_id.to_owned(), connection: connection.clone() };
        self.groups.entry(place).or_default().insert(connection.id(), member);
        true
    }

    /// The client id of a member that left a group; `None` when there is another connection of the same client in it.
    fn leave(&mut self, connection: u64, place: (Kind, String)) -> Option<String> {
        let group = self.groups.get_mut(&place)?;
        let left = group.remove(&connection)?.client_id;
        let is_last = group.values().all(|member| member.client_id != left);
        if group.is_empty() {
            self.groups.remove(&place);
        }
        is_last.then_some(left)
    }
}

impl RemotingClients {
    /// Records the groups of a client, all or none.
    ///
    /// # Errors
    /// `SYSTEM_ERROR` when a name is too long, or the connection names too many groups.
    pub fn enter(&self, connection: &Arc<ConnectionHandle>, data: &HeartbeatData) -> Result<(), Refusal> {
        check_length("client id", &data.client_id, CLIENT_ID_BYTES_MAX)?;
        let consumers = data.consumer_data_set.iter().map(|it| (Kind::Consumer, &it.group_name));
        let producers = data.producer_data_set.iter().map(|it| (Kind::Producer, &it.group_name));
        let named: BTreeSet<_> = consumers.chain(producers).collect();
        for (_, group) in &named {
            check_length("group name", group, DERIVED_TOPIC_LENGTH_MAX)?;
        }
        let mut state = self.0.lock();
        let places = state.connections.get(&connection.id());
        let is_new = |(kind, group): &&(Kind, &String)| {
            places.is_none_or(|places| !places.contains(&(*kind, String::clone(group))))
        };
        if places.map_or(0, BTreeSet::len) + named.iter().filter(is_new).count() > GROUPS_MAX {
            let text = format!("one connection may be in {GROUPS_MAX} groups, and names more");
            return Err(Refusal::new(response::SYSTEM_ERROR, text));
        }
        for (kind, group) in named {
            state.enter(connection, &data.client_id, (kind, group.clone()));
        }
        Ok(())
    }

    /// Records that a producer sent a half message. Returns true if brokers must learn its group.
    pub fn half_sent(&self, connection: &Arc<ConnectionHandle>, group: &str) -> bool {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        let place = (Kind::Producer, group.to_owned());
        let is_member = state.groups.get(&place).is_some_and(|group| group.contains_key(&connection.id()));
        if !is_member && !state.enter(connection, "", place) {
            return false;
        }
        if state.transactional.len() >= TRANSACTIONAL_MAX {
            let groups = &state.groups;
            state.transactional.retain(|group| groups.contains_key(&(Kind::Producer, group.clone())));
        }
        state.transactional.len() < TRANSACTIONAL_MAX && state.transactional.insert(group.to_owned())
    }

    /// Records that a client left a group. Returns the client's id, unless another connection of the client is in the
    /// group.
    pub fn left(&self, connection: u64, kind: Kind, group: &str) -> Option<String> {
        let (mut state, place) = (self.0.lock(), (kind, group.to_owned()));
        if let Some(places) = state.connections.get_mut(&connection) {
            places.remove(&place);
        }
        state.leave(connection, place)
    }

    /// Removes an ended connection. Returns the group and client id of each consumer that left with it.
    pub fn closed(&self, connection: u64) -> Vec<(String, String)> {
        let mut state = self.0.lock();
        let mut gone = Vec::new();
        for (kind, group) in state.connections.remove(&connection).unwrap_or_default() {
            let left = state.leave(connection, (kind, group.clone()));
            gone.extend(left.filter(|_| kind == Kind::Consumer).map(|client| (group, client)));
        }
        gone
    }

    /// Returns the groups of connected producers that have sent half messages.
    pub fn transactional(&self) -> Vec<String> {
        let state = self.0.lock();
        let is_connected =
            |group: &&String| state.groups.contains_key(&(Kind::Producer, String::clone(group)));
        state.transactional.iter().filter(is_connected).cloned().collect()
    }

    /// Notifies all consumers of a group that its members changed.
    pub fn members_changed(&self, group: &str) {
        let notice = Notice::ConsumerIdsChanged { group };
        self.of(Kind::Consumer, group).iter().for_each(|connection| link(connection).notify(&notice));
    }

    /// Sends a notice to the next producer of a group in turn. Returns false if no producer is connected.
    pub fn notify_producer(&self, group: &str, turn: usize, notice: &Notice<'_>) -> bool {
        let producers = self.of(Kind::Producer, group);
        let chosen = turn.checked_rem(producers.len()).map(|index| link(&producers[index]));
        chosen.inspect(|producer| producer.notify(notice)).is_some()
    }

    fn of(&self, kind: Kind, group: &str) -> Vec<Arc<ConnectionHandle>> {
        let state = self.0.lock();
        let members = state.groups.get(&(kind, group.to_owned())).into_iter().flat_map(BTreeMap::values);
        members.map(|member| member.connection.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use wire::body::{ConsumerData, ProducerData};
    use wire::codes::request;
    use wire::frame::Command;

    use super::*;

    fn connection(id: u64) -> Arc<ConnectionHandle> {
        Arc::new(ConnectionHandle::detached(id, ([10, 0, 0, 9], 1).into()))
    }

    fn heartbeat(client_id: &str) -> HeartbeatData {
        HeartbeatData {
            client_id: client_id.to_owned(),
            consumer_data_set: vec![ConsumerData { group_name: "c".to_owned(), ..Default::default() }],
            producer_data_set: vec![ProducerData { group_name: "p".to_owned() }],
            ..HeartbeatData::default()
        }
    }

    #[test]
    fn a_client_that_reconnects_is_not_lost_with_its_former_connection() {
        let (clients, old, new) = (RemotingClients::default(), connection(1), connection(2));
        assert!(clients.enter(&old, &heartbeat("a")).is_ok() && clients.enter(&new, &heartbeat("a")).is_ok());
        assert_eq!(clients.closed(1), []);
        assert_eq!(clients.closed(2), [("c".to_owned(), "a".to_owned())]);
        assert!(clients.0.lock().groups.is_empty() && clients.0.lock().connections.is_empty());
    }

    #[test]
    fn members_hear_that_their_group_changed_until_they_leave_it() {
        let (clients, one) = (RemotingClients::default(), connection(1));
        assert!(clients.enter(&one, &heartbeat("a")).is_ok());
        clients.members_changed("c");
        clients.members_changed("p");
        let mut pushed = one.pushed();
        let command = Command::decode(&mut pushed).unwrap();
        assert_eq!(command.code, request::NOTIFY_CONSUMER_IDS_CHANGED);
        assert!(command.is_one_way() && command.fields.text("consumerGroup") == Some("c"));
        assert_eq!(clients.left(1, Kind::Consumer, "c").as_deref(), Some("a"));
        clients.members_changed("c");
        assert_eq!(one.pushed(), b"");
    }

    #[test]
    fn a_group_is_transactional_from_its_first_half_message_while_a_producer_is_connected() {
        let (clients, one, two) = (RemotingClients::default(), connection(1), connection(2));
        assert!(clients.enter(&one, &heartbeat("a")).is_ok());
        assert_eq!(clients.transactional(), Vec::<String>::new());
        assert!(clients.half_sent(&one, "p") && !clients.half_sent(&one, "p"));
        assert_eq!(clients.transactional(), ["p"]);
        clients.closed(1);
        assert_eq!(clients.transactional(), Vec::<String>::new());
        assert!(clients.enter(&two, &heartbeat("a")).is_ok());
        assert_eq!(clients.transactional(), ["p"]);
    }

    #[test]
    fn groups_of_a_connection_are_bounded() {
        let (clients, one) = (RemotingClients::default(), connection(1));
        let producer = |number: usize| ProducerData { group_name: number.to_string() };
        let producer_data_set = (0..GROUPS_MAX).map(producer).collect();
        let full = HeartbeatData { producer_data_set, ..HeartbeatData::default() };
        assert!(clients.enter(&one, &full).is_ok() && clients.enter(&one, &full).is_ok());
        assert!(clients.enter(&one, &heartbeat("a")).is_err() && !clients.half_sent(&one, "q"));
        let long = ProducerData { group_name: "x".repeat(DERIVED_TOPIC_LENGTH_MAX + 1) };
        let producer_data_set = vec![producer(1), long];
        let too_long = HeartbeatData { producer_data_set, ..HeartbeatData::default() };
        assert!(clients.enter(&connection(2), &too_long).is_err());
        assert_eq!(clients.0.lock().connections.get(&2), None, "all groups of a heartbeat count, or none");
    }
}
