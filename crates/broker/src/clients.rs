//! Connected clients: producers and consumers by group, and the subscriptions of consumer groups (`ProducerManager`,
//! `ConsumerManager`, `ConsumerGroupInfo`).
//!
//! A client registers by heartbeats. It is removed when it unregisters, when its connection ends, or after
//! [`SILENCE_MAX_MS`] without a heartbeat. The tables are bounded by the number of connections and by
//! [`GROUPS_PER_CLIENT_MAX`]. A heartbeat that names more groups is refused as a whole. A group's subscriptions are
//! those of its newest heartbeat, bounded by the size of a frame.

mod conflict;
mod handlers;
mod notify;
mod subscription;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use wire::body::{
    Connection, ConsumeFromWhere, ConsumeType, ConsumerData, ConsumerListByGroup, MessageModel,
    SubscriptionData,
};
use wire::codes::Language;
use wire::json;

use crate::client_link::ClientLink;
use conflict::Stated;
pub(crate) use handlers::{
    RequestContext, check_client, consumer_connections, consumer_list, heartbeat, producer_connections,
    unregister,
};
pub(crate) use notify::{Change, notify};
pub(crate) use subscription::Subscription;

/// Milliseconds without a heartbeat after which a client is forgotten and disconnected (`channelExpiredTimeout`).
pub(crate) const SILENCE_MAX_MS: i64 = 120_000;

/// Most producer and consumer groups of one connection, together.
pub(crate) const GROUPS_PER_CLIENT_MAX: usize = 4096;

/// The clients that are connected to a broker.
#[derive(Default)]
pub(crate) struct Clients {
    tables: RwLock<Tables>,
}

#[derive(Default)]
struct Tables {
    consumers: HashMap<String, ConsumerGroup>,
    producers: HashMap<String, Members>,
    /// Groups by connection. Invariant: a connection is a member of exactly these groups.
    joined: HashMap<u64, Joined>,
    /// Connections of producers by client id, the newest of each. Invariant: only of connections in `joined`.
    producers_by_id: HashMap<String, Arc<dyn ClientLink>>,
}

#[derive(Default)]
struct Joined {
    consumers: BTreeSet<String>,
    producers: BTreeSet<String>,
    /// The client id that the connection's producers gave last.
    producer_id: String,
}

/// Members of a group by connection, in the order in which they connected.
type Members = BTreeMap<u64, Member>;

/// A client as its heartbeats describe it.
#[derive(Clone)]
pub struct Member {
    /// The id the client gives itself.
    pub client_id: String,
    /// Language of the client. `None` if the client sends no known language.
    pub language: Option<Language>,
    /// Ordinal of the client's RocketMQ version (`MQVersion`).
    pub version: i32,
    /// Link to the client.
    pub link: Arc<dyn ClientLink>,
    /// Time of the last heartbeat, milliseconds since 1970.
    pub seen_ms: i64,
}

#[derive(Default)]
struct ConsumerGroup {
    members: Members,
    subscriptions: HashMap<String, Arc<Subscription>>,
    consume_type: ConsumeType,
    message_model: MessageModel,
    consume_from_where: ConsumeFromWhere,
    /// The subscriptions that each member stated, to find conflicts.
    stated: Stated,
    /// Fingerprint of the last heartbeat of any member; 0 from clients that send none. `None` before the first heartbeat.
    fingerprint: Option<i32>,
    /// The encoded list of the members' client ids, kept after the first request for it: every member asks every 20 s.
    listed: OnceLock<Arc<[u8]>>,
}

/// State of a consumer group (`GET_CONSUMER_CONNECTION_LIST`).
pub(crate) struct ConsumerView {
    pub members: Vec<Member>,
    pub subscriptions: Vec<Arc<Subscription>>,
    pub consume_type: ConsumeType,
    pub message_model: MessageModel,
    pub consume_from_where: ConsumeFromWhere,
}

/// The part of a heartbeat that tells whether subscriptions changed, and whether the heartbeat contains them.
#[derive(Clone, Copy)]
pub(crate) struct Beat {
    /// Hash of the client's subscriptions; 0 from clients that send none.
    pub fingerprint: i32,
    /// Whether the client left its subscriptions out because the broker has them.
    pub without_subscriptions: bool,
}

impl Clients {
    /// Whether the connection may join these groups besides its present groups.
    pub(crate) fn has_room<'a>(
        &self,
        link_id: u64,
        consumers: impl Iterator<Item = &'a str>,
        producers: impl Iterator<Item = &'a str>,
    ) -> bool {
        let tables = self.tables.read();
        let joined = tables.joined.get(&link_id);
        let is_new = |known: fn(&Joined) -> &BTreeSet<String>, group: &str| {
            !joined.is_some_and(|joined| known(joined).contains(group))
        };
        let known = joined.map_or(0, |joined| joined.consumers.len() + joined.producers.len());
        let more = consumers.filter(|group| is_new(|joined| &joined.consumers, group)).count()
            + producers.filter(|group| is_new(|joined| &joined.producers, group)).count();
        known + more <= GROUPS_PER_CLIENT_MAX
    }

    /// Registers a producer (`ProducerManager.registerProducer`).
    pub(crate) fn join_producer(&self, group: &str, member: Member) {
        let mut tables = self.tables.write();
        let tables = &mut *tables;
        let joined = tables.joined.entry(member.link.id()).or_default();
        joined.producers.insert(group.to_owned());
        if joined.producer_id != member.client_id {
            let former = std::mem::replace(&mut joined.producer_id, member.client_id.clone());
            forget_id(&mut tables.producers_by_id, &former, member.link.id());
        }
        tables.producers_by_id.insert(member.client_id.clone(), member.link.clone());
        entry(&mut tables.producers, group).insert(member.link.id(), member);
    }

    /// Registers a consumer. Its subscriptions replace those of the group (`ConsumerManager.registerConsumer`,
    /// `registerConsumerWithoutSub`). Returns the change of members or topics, and whether the client must send its
    /// subscriptions with the next heartbeat.
    pub(crate) fn join_consumer(
        &self,
        data: &ConsumerData,
        member: Member,
        beat: Beat,
    ) -> (Option<Change>, bool) {
        let mut tables = self.tables.write();
        let group = tables.admit(&data.group_name, member.link.id());
        group.consume_type = data.consume_type;
        group.message_model = data.message_model;
        group.consume_from_where = data.consume_from_where;
        if !beat.without_subscriptions {
            group.stated.note(&data.group_name, &member, &data.subscription_data_set);
        }
        let is_new = group.meet(member);
        let topics_changed = !beat.without_subscriptions && group.subscribe(&data.subscription_data_set);
        let known = group.fingerprint.replace(beat.fingerprint);
        let differs = known.is_some_and(|known| known != beat.fingerprint);
        // After its own restart Java does not notice that the subscriptions are missing, and refuses the pulls of such clients.
        let lost = beat.without_subscriptions && group.subscriptions.is_empty();
        ((is_new || topics_changed).then(|| group.change(&data.group_name)), differs || lost)
    }

    /// Removes a producer from a group.
    pub(crate) fn leave_producer(&self, group: &str, link_id: u64) {
        self.tables.write().leave_producer(group, link_id);
    }

    /// Removes a consumer from a group.
    pub(crate) fn leave_consumer(&self, group: &str, link_id: u64) -> Option<Change> {
        self.tables.write().leave_consumer(group, link_id)
    }

    /// Removes an ended connection. Returns the consumer groups that changed.
    pub(crate) fn closed(&self, link_id: u64) -> Vec<Change> {
        self.tables.write().leave_all(link_id)
    }

    /// Removes and disconnects clients that were silent for [`SILENCE_MAX_MS`]. Runs every 10 s
    /// (`ClientHousekeepingService`).
    pub(crate) fn expire(&self, now_ms: i64) -> Vec<Change> {
        let mut tables = self.tables.write();
        let oldest_ms = now_ms.saturating_sub(SILENCE_MAX_MS);
        let members = tables.consumers.values().map(|group| &group.members).chain(tables.producers.values());
        let mut heard: BTreeMap<u64, (i64, Arc<dyn ClientLink>)> = BTreeMap::new();
        for member in members.flat_map(BTreeMap::values) {
            let (seen_ms, _) = heard.entry(member.link.id()).or_insert((i64::MIN, member.link.clone()));
            *seen_ms = member.seen_ms.max(*seen_ms);
        }
        let mut changes = Vec::new();
        for (link_id, (_, link)) in heard.iter().filter(|(_, (seen_ms, _))| *seen_ms < oldest_ms) {
            tracing::info!(client = %link.remote(), "a client without heartbeat is disconnected");
            changes.extend(tables.leave_all(*link_id));
            link.close();
        }
        // A live connection may have stopped sending heartbeats for one of its groups.
        changes.extend(tables.leave_silent(oldest_ms));
        changes
    }

    /// Whether a group consumes in a cluster or by broadcast; `None` when no member is connected.
    pub(crate) fn message_model(&self, group: &str) -> Option<MessageModel> {
        self.tables.read().consumers.get(group).map(|group| group.message_model)
    }

    /// The subscription of a group to a topic.
    pub(crate) fn subscription(&self, group: &str, topic: &str) -> Option<Arc<Subscription>> {
        self.tables.read().consumers.get(group)?.subscriptions.get(topic).cloned()
    }

    /// Whether a group may still read a topic: the group subscribes to the topic, or no member of the group is connected.
    pub(crate) fn is_current(&self, group: &str, topic: &str) -> bool {
        let tables = self.tables.read();
        let online = tables.consumers.get(group).map(|group| &group.subscriptions);
        online.is_none_or(|wanted| wanted.is_empty() || wanted.contains_key(topic))
    }

    /// Returns the groups whose members have different subscriptions, sorted.
    pub(crate) fn conflicts(&self) -> Vec<String> {
        let tables = self.tables.read();
        let groups = tables.consumers.iter().filter(|(_, group)| group.stated.is_conflict());
        let mut names: Vec<String> = groups.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// The groups that subscribe to a topic, sorted.
    pub(crate) fn subscribers(&self, topic: &str) -> Vec<String> {
        let tables = self.tables.read();
        let groups = tables.consumers.iter().filter(|(_, group)| group.subscriptions.contains_key(topic));
        let mut names: Vec<String> = groups.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// A consumer, by its group and client id.
    pub(crate) fn member(&self, group: &str, client_id: &str) -> Option<Member> {
        let tables = self.tables.read();
        tables.consumers.get(group)?.members.values().find(|member| member.client_id == client_id).cloned()
    }

    /// The members of all producer groups.
    pub(crate) fn all_producers(&self) -> BTreeMap<String, Vec<Member>> {
        let tables = self.tables.read();
        let members = |members: &Members| members.values().cloned().collect();
        tables.producers.iter().map(|(group, known)| (group.clone(), members(known))).collect()
    }

    /// The members of all consumer groups, and how each group consumes.
    pub(crate) fn all_consumers(&self) -> BTreeMap<String, (ConsumeType, Vec<Member>)> {
        let tables = self.tables.read();
        let members = |group: &ConsumerGroup| group.members.values().cloned().collect();
        let each = tables.consumers.iter();
        each.map(|(name, group)| (name.clone(), (group.consume_type, members(group)))).collect()
    }

    /// The topics that a group's members subscribe to, sorted.
    pub(crate) fn subscribed_topics(&self, group: &str) -> Vec<String> {
        let tables = self.tables.read();
        let topics = tables.consumers.get(group).into_iter().flat_map(|group| group.subscriptions.keys());
        let mut topics: Vec<String> = topics.cloned().collect();
        topics.sort_unstable();
        topics
    }

    /// The client ids of a consumer group, sorted and without duplicates.
    pub(crate) fn client_ids(&self, group: &str) -> Vec<String> {
        self.tables.read().consumers.get(group).map(ConsumerGroup::client_ids).unwrap_or_default()
    }

    /// The client ids of a consumer group as an encoded body; `None` when no member is connected.
    pub(crate) fn client_list(&self, group: &str) -> Option<Arc<[u8]>> {
        let tables = self.tables.read();
        let group = tables.consumers.get(group)?;
        let list = || json::to_vec(&ConsumerListByGroup { consumer_id_list: group.client_ids() }).into();
        Some(group.listed.get_or_init(list).clone())
    }

    /// Returns the state of a consumer group, or `None` if no member is connected.
    pub(crate) fn consumers(&self, group: &str) -> Option<ConsumerView> {
        self.tables.read().consumers.get(group).map(|group| {
            let subscriptions: BTreeMap<_, _> = group.subscriptions.iter().collect();
            ConsumerView {
                members: group.members.values().cloned().collect(),
                subscriptions: subscriptions.into_values().cloned().collect(),
                consume_type: group.consume_type,
                message_model: group.message_model,
                consume_from_where: group.consume_from_where,
            }
        })
    }

    /// The members of a producer group; `None` when no member is connected.
    pub(crate) fn producers(&self, group: &str) -> Option<Vec<Member>> {
        self.tables.read().producers.get(group).map(|members| members.values().cloned().collect())
    }

    /// Returns the newest connection of a producer with this client id, whatever its group
    /// (`ProducerManager.findChannel`).
    pub(crate) fn producer_by_id(&self, client_id: &str) -> Option<Arc<dyn ClientLink>> {
        self.tables.read().producers_by_id.get(client_id).filter(|link| !link.is_closed()).cloned()
    }
}

impl Member {
    /// The client as answers to administrators show it.
    pub(crate) fn connection(&self) -> Connection {
        Connection {
            client_addr: self.link.remote().to_string(),
            client_id: self.client_id.clone(),
            language: self.language.unwrap_or(Language::Other).name().to_owned(),
            version: self.version,
        }
    }
}

impl ConsumerGroup {
    /// Records a heartbeat of a member. Returns true if its connection is new to the group.
    fn meet(&mut self, member: Member) -> bool {
        let id = member.link.id();
        if self.members.get(&id).is_none_or(|known| known.client_id != member.client_id) {
            self.listed.take();
        }
        self.members.insert(id, member).is_none()
    }

    /// The client ids of the members, sorted and without duplicates.
    fn client_ids(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.members.values().map(|member| member.client_id.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Takes over the subscriptions of a heartbeat; true when a topic was added or removed
    /// (`ConsumerGroupInfo.updateSubscription`).
    fn subscribe(&mut self, wanted: &[SubscriptionData]) -> bool {
        let mut changed = false;
        for data in wanted {
            match self.subscriptions.get_mut(&data.topic) {
                Some(known) if data.sub_version <= known.sub_version => {}
                Some(known) => *known = Arc::new(Subscription::from_heartbeat(data)),
                None => {
                    let subscription = Arc::new(Subscription::from_heartbeat(data));
                    self.subscriptions.insert(data.topic.clone(), subscription);
                    changed = true;
                }
            }
        }
        let topics: HashSet<&str> = wanted.iter().map(|data| data.topic.as_str()).collect();
        let known = self.subscriptions.len();
        self.subscriptions.retain(|topic, _| topics.contains(topic.as_str()));
        changed || self.subscriptions.len() != known
    }

    fn change(&self, name: &str) -> Change {
        Change {
            group: name.to_owned(),
            message_model: self.message_model,
            links: self.members.values().map(|member| member.link.clone()).collect(),
        }
    }
}

impl Tables {
    /// Returns the group that a connection joins. Creates a new group.
    fn admit(&mut self, group: &str, link_id: u64) -> &mut ConsumerGroup {
        self.joined.entry(link_id).or_default().consumers.insert(group.to_owned());
        entry(&mut self.consumers, group)
    }

    fn leave_all(&mut self, link_id: u64) -> Vec<Change> {
        let Some(joined) = self.joined.remove(&link_id) else { return Vec::new() };
        forget_id(&mut self.producers_by_id, &joined.producer_id, link_id);
        for group in &joined.producers {
            self.leave_producer(group, link_id);
        }
        joined.consumers.iter().filter_map(|group| self.leave_consumer(group, link_id)).collect()
    }

    fn leave_silent(&mut self, oldest_ms: i64) -> Vec<Change> {
        let silent = |name: &String, members: &Members| {
            let silent = members.values().filter(|member| member.seen_ms < oldest_ms);
            silent.map(|member| (name.clone(), member.link.id())).collect::<Vec<_>>()
        };
        let producers: Vec<_> =
            self.producers.iter().flat_map(|(name, members)| silent(name, members)).collect();
        let mut consumers: Vec<_> =
            self.consumers.iter().flat_map(|(name, group)| silent(name, &group.members)).collect();
        // Clients get the notices of changes in this order.
        consumers.sort_unstable();
        for (group, link_id) in producers {
            self.leave_producer(&group, link_id);
        }
        consumers.iter().filter_map(|(group, link_id)| self.leave_consumer(group, *link_id)).collect()
    }

    fn leave_producer(&mut self, group: &str, link_id: u64) {
        if let Some(members) = self.producers.get_mut(group) {
            members.remove(&link_id);
            if members.is_empty() {
                self.producers.remove(group);
            }
        }
        self.left(link_id, |joined| {
            joined.producers.remove(group);
        });
    }

    /// Removes a connection from a consumer group. Returns `None` if the connection was no member.
    fn leave_consumer(&mut self, name: &str, link_id: u64) -> Option<Change> {
        let group = self.consumers.get_mut(name)?;
        group.members.remove(&link_id)?;
        group.listed.take();
        let change = group.change(name);
        group.stated.forget(name, link_id);
        if group.members.is_empty() {
            self.consumers.remove(name);
        }
        self.left(link_id, |joined| {
            joined.consumers.remove(name);
        });
        Some(change)
    }

    fn left(&mut self, link_id: u64, forget: impl FnOnce(&mut Joined)) {
        if let Some(joined) = self.joined.get_mut(&link_id) {
            forget(joined);
            if joined.producers.is_empty() {
                forget_id(&mut self.producers_by_id, &joined.producer_id, link_id);
                joined.producer_id.clear();
            }
            if joined.consumers.is_empty() && joined.producers.is_empty() {
                self.joined.remove(&link_id);
            }
        }
    }
}

/// Removes the connection of a client id, unless the client has reconnected.
fn forget_id(producers: &mut HashMap<String, Arc<dyn ClientLink>>, client_id: &str, link_id: u64) {
    if producers.get(client_id).is_some_and(|link| link.id() == link_id) {
        producers.remove(client_id);
    }
}

/// Returns the value of `key`. Creates a missing value, and copies the key only then.
fn entry<'t, V: Default>(table: &'t mut HashMap<String, V>, key: &str) -> &'t mut V {
    if !table.contains_key(key) {
        table.insert(key.to_owned(), V::default());
    }
    table.get_mut(key).expect("inserted on the line above when it was missing")
}

#[cfg(test)]
mod tests;
