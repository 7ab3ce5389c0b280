//! Registration with name servers (`BrokerOuterAPI.registerBrokerAll`). The broker registers the whole table of
//! topics after a reconnection, and changed topics at once. Every period it asks whether the name server has this
//! version of the table. If not, it registers the whole table again. If so, it registers some thousands of topics
//! again, the next ones each period. Under a known version, a name server takes over only missing topics, so a topic
//! that was removed from that name server alone returns. Each period thus repeats the whole table of most brokers,
//! and a few percent of a table with 60,000 topics.
//!
//! A table that is too large for one request is sent in parts, which name servers merge. A name server takes over
//! changed topics only if the version differs from its own. So each part except the last has an artificial version of
//! its own, and the name server has the true version only after all parts have arrived.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use net::Silent;
use net::{ConnectionHandle, Response, Workers};
use serde::Serialize;
use tokio::task::JoinSet;
use wire::body::queue::DataVersion;
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};
use wire::body::{KvTable, PART_OF_TABLE, QueueData, TopicRouteData};
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::{hash, json};

use crate::change::TopicChange;
use crate::clock::pause;
use crate::engine::{BLOCKING, Every};
use crate::parts::{GroupParts, Identity, Replication, Runtime, Tables};
use crate::role::BrokerRole;
use crate::topics::{Topic, Topics};

/// Most topics in a registration unless `enableSplitRegistration` sets another number, and number
/// of topics registered again each period. About a megabyte.
const TOPICS_PER_REQUEST: usize = if cfg!(test) { 5 } else { 5_000 };

/// Timeout of a name server's response (`registerBrokerTimeoutMills` in Java).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 24 });

/// Longest `registerNameServerPeriod` that is used, in milliseconds, as in Java. Name servers remove brokers they have not heard of for two
/// minutes.
const PERIOD_MAX_MS: u64 = 60_000;

/// Pause before the next attempt to reach a name server. In tests the pause never ends, so that only other events
/// cause an attempt.
const RECONNECT_PAUSE: Duration = if cfg!(test) { Duration::from_secs(3600) } else { Duration::from_secs(1) };

/// Pause before a slave asks again for the address of a master that was elected and is not registered yet.
const MASTER_PAUSE: Duration = Duration::from_millis(50);

/// Most changed topics that are registered singly with `enableSingleTopicRegister`. A larger number is registered in
/// one request.
const SINGLY_MAX: usize = 16;

/// Keeps the broker registered with the name servers of `namesrvAddr`, which may change, until the workers stop.
pub(crate) async fn run_all(parts: Arc<GroupParts>, workers: Workers) {
    let mut changes = parts.replication.registration_acks.name_servers();
    let (mut tasks, mut running) = (JoinSet::new(), BTreeSet::new());
    loop {
        for name_server in parts.runtime.config.name_servers() {
            if running.insert(name_server.clone()) {
                let (parts, workers) = (parts.clone(), workers.clone());
                tasks.spawn_local(async move {
                    run(parts, workers, name_server.clone()).await;
                    name_server
                });
            }
        }
        tokio::select! {
            _ = changes.changed() => {}
            Some(ended) = tasks.join_next() => match ended {
                Ok(name_server) => drop(running.remove(&name_server)),
                // The supervisor reports it.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
        }
    }
}

/// Keeps the broker registered with a name server until `namesrvAddr` no longer names it, or the workers stop.
async fn run(parts: Arc<GroupParts>, workers: Workers, name_server: String) {
    let mut roles = parts.replication.role.changes();
    let mut changes = parts.replication.registration_acks.name_servers();
    while parts.runtime.config.name_servers().contains(&name_server) {
        // A broker without a role from the controllers serves no client.
        while parts.replication.role.current() == BrokerRole::Fenced {
            let _ = roles.changed().await;
        }
        match workers.dial_name(&name_server, Arc::new(Silent)).await {
            Ok(peer) => {
                let link = Link { parts: &parts, peer: &peer, tasks: &workers };
                keep_registered(&link, &name_server).await;
                parts.replication.registration_acks.lose(&name_server);
            }
            Err(error) => {
                tracing::warn!(%name_server, %error, "the name server cannot be reached; trying again");
            }
        }
        tokio::select! {
            () = pause(RECONNECT_PAUSE) => {}
            _ = changes.changed() => {}
        }
    }
}

/// Keeps the broker registered over a connection, until the connection ends or a registration fails.
async fn keep_registered(link: &Link<'_>, name_server: &str) {
    let Link { parts, peer, .. } = link;
    let mut changes = parts.tables.topics.changes();
    let mut roles = parts.replication.role.changes();
    let mut masters = parts.replication.replicas.master();
    let mut name_servers = parts.replication.registration_acks.name_servers();
    let mut registered = None;
    let mut reminder = Reminder::default();
    let mut periods = Every::at_once();
    let mut heartbeats = Every::at_once();
    let heartbeat_ms = parts.runtime.config.replication.controller.heartbeat_interval_ms;
    while !peer.is_closed() {
        if !parts.runtime.config.name_servers().iter().any(|named| named == name_server) {
            return unregister_from(parts, peer, name_server).await;
        }
        if roles.has_changed().unwrap_or(false) {
            roles.mark_unchanged();
            registered = None;
        }
        // Only the answer to a registration says where the master's slaves connect to.
        masters.mark_unchanged();
        let lacks_master = parts.runtime.config.is_controlled()
            && parts.replication.role.current() == BrokerRole::Slave
            && parts.replication.replicas.lacks_master();
        if lacks_master {
            registered = None;
        }
        let generation = *changes.borrow_and_update();
        let period_ms = parts.runtime.config.register_name_server_period_ms.min(PERIOD_MAX_MS);
        let is_due = periods.is_due(parts.runtime.now_ms(), period_ms.cast_signed());
        let reminder = is_due.then_some(&mut reminder);
        let known = || parts.replication.registration_acks.note(name_server, generation);
        if let Err(error) = bring_up_to_date(link, registered, known, reminder).await {
            tracing::warn!(%name_server, %error, "the registration failed; it is repeated");
            return peer.close();
        }
        registered = Some(generation);
        let mut rest = if lacks_master { MASTER_PAUSE } else { RECONNECT_PAUSE };
        if parts.runtime.config.has_acting_master() {
            rest = rest.min(Duration::from_millis(heartbeat_ms));
            if heartbeats.is_due(parts.runtime.now_ms(), heartbeat_ms.cast_signed()) {
                let write = |writer: FrameWriter<'_>| {
                    identify(&parts.identity, &parts.replication, &parts.runtime, writer).finish(b"")
                };
                // A connection that has ended is noticed above.
                let _ = parts.sessions.send_one_way(peer, request::BROKER_HEARTBEAT, write);
            }
        }
        // The end of the connection is noticed at the latest after one pause.
        tokio::select! {
            () = pause(rest) => {}
            _ = changes.changed() => {}
            _ = roles.changed() => registered = None,
            // A slave that stays one gets another master without a change of its role.
            _ = masters.changed() => {}
            _ = name_servers.changed() => {}
        }
    }
}

/// Connection to a name server, and the state for registering over it.
struct Link<'a> {
    parts: &'a Arc<GroupParts>,
    peer: &'a ConnectionHandle,
    /// The task threads of the broker, for work that may wait for the disk.
    tasks: &'a Workers,
}

/// Registers the topics that changed since `registered`, the generation of the table that was last registered over this
/// connection. With a `reminder`, once a period, also repeats topics the name server may have lost. `known` is called as soon
/// as the name server has answered the registration of the changes.
async fn bring_up_to_date(
    link: &Link<'_>,
    registered: Option<u64>,
    known: impl Fn(),
    reminder: Option<&mut Reminder>,
) -> Result<(), RegisterError> {
    let parts = link.parts;
    if let Some((version, topics)) = registered.and_then(|known| parts.tables.topics.changed_after(known)) {
        let is_up_to_date = topics.is_empty() && registered == Some(parts.tables.topics.generation());
        if !is_up_to_date {
            if parts.runtime.config.single_topic_register && (1..=SINGLY_MAX).contains(&topics.len()) {
                register_singly(link, &topics).await?;
            } else {
                // Needed even if topics were only removed, because the version of the table has changed.
                register(link, version, &topics).await?;
            }
        }
        known();
        let Some(reminder) = reminder else { return Ok(()) };
        if has_version(link, version).await? {
            return remind(link, version, reminder).await;
        }
    }
    let (version, topics) = parts.tables.topics.snapshot();
    register(link, version, &topics).await?;
    known();
    Ok(())
}

/// Registers topics singly with `REGISTER_TOPIC_IN_NAMESRV` (217), which does not contain the table's version. So the
/// next query of the version leads to a registration of the whole table (`BrokerController.registerSingleTopicAll`).
async fn register_singly(link: &Link<'_>, topics: &[Arc<Topic>]) -> Result<(), RegisterError> {
    let Link { parts, peer, .. } = link;
    for topic in topics {
        let config = masked(parts.runtime.config.broker_permission, &topic.config);
        let queues = QueueData {
            broker_name: parts.runtime.config.broker_name.clone(),
            perm: config.perm,
            read_queue_nums: config.read_queue_nums,
            topic_sys_flag: config.topic_sys_flag,
            write_queue_nums: config.write_queue_nums,
        };
        let body = json::to_vec(&TopicRouteData { queue_datas: vec![queues], ..TopicRouteData::default() });
        let write = |writer: FrameWriter<'_>| writer.text("topic", topic.name()).finish(&body);
        let code = request::REGISTER_TOPIC_IN_NAMESRV;
        accepted(parts.sessions.call(peer, code, ANSWER_TIMEOUT, write).await?)?;
    }
    Ok(())
}

/// Position in the table of the repeated registration with a name server.
#[derive(Default)]
struct Reminder {
    /// Last topic that was registered again. Empty before the first.
    last: String,
}

impl Reminder {
    /// Returns the version of the table and the topics to register next. Begins again at the first topic after the
    /// last.
    fn take(&mut self, topics: &Topics) -> (DataVersion, Vec<Arc<Topic>>) {
        let mut part = topics.snapshot_after(&self.last, TOPICS_PER_REQUEST);
        if part.1.is_empty() {
            part = topics.snapshot_after("", TOPICS_PER_REQUEST);
        }
        let is_over = part.1.len() < TOPICS_PER_REQUEST;
        self.last = part.1.last().filter(|_| !is_over).map_or(String::new(), |topic| topic.name().to_owned());
        part
    }
}

/// Registers the next topics again with a name server that has `version` of the table. Does nothing
/// without `forceRegister`, or if the table has another version by now.
async fn remind(link: &Link<'_>, version: DataVersion, reminder: &mut Reminder) -> Result<(), RegisterError> {
    let parts = link.parts;
    let (now, topics) = reminder.take(&parts.tables.topics);
    // Under a version that it does not have, the name server would take these topics for all that changed.
    if !parts.runtime.config.force_register || now != version {
        return Ok(());
    }
    for part in topics.chunks(part_size(&parts.runtime)) {
        register_part(link, version, part).await?;
    }
    Ok(())
}

/// Asks a name server whether it has this version of the table (`QUERY_DATA_VERSION`, 322). The request also counts
/// as a heartbeat of the broker.
async fn has_version(link: &Link<'_>, version: DataVersion) -> Result<bool, RegisterError> {
    let Link { parts, peer, .. } = link;
    let body = json::to_vec(&version);
    let write = |writer: FrameWriter<'_>| {
        identify(&parts.identity, &parts.replication, &parts.runtime, writer).finish(&body)
    };
    let reply = parts.sessions.call(peer, request::QUERY_DATA_VERSION, ANSWER_TIMEOUT, write).await?;
    // An answer without `changed` counts as no, so that the whole table is sent.
    Ok(reply.code == response::SUCCESS && reply.text("changed") == Some("false"))
}

#[derive(Debug, thiserror::Error)]
enum RegisterError {
    #[error(transparent)]
    Call(#[from] net::CallError),
    #[error("it answered code {0}: {1}")]
    Refused(i32, String),
}

fn accepted(reply: Response) -> Result<Response, RegisterError> {
    match reply.code {
        response::SUCCESS => Ok(reply),
        code => Err(RegisterError::Refused(code, reply.remark.unwrap_or_default())),
    }
}

async fn register(link: &Link<'_>, version: DataVersion, topics: &[Arc<Topic>]) -> Result<(), RegisterError> {
    let parts = link.parts;
    let size = part_size(&parts.runtime);
    // At least one part, so that an empty table is registered as well.
    let count = topics.len().div_ceil(size).max(1);
    for (index, part_version) in part_versions(version, count).enumerate() {
        let first = index * size;
        let part = &topics[first..topics.len().min(first + size)];
        register_part(link, part_version, part).await?;
    }
    Ok(())
}

/// Returns the most topics in a registration request.
fn part_size(runtime: &Runtime) -> usize {
    let config = &runtime.config;
    if config.split_registration { config.split_registration_size } else { TOPICS_PER_REQUEST }
}

/// Returns the versions of the parts of a table. All differ, and the last version is that of the table.
fn part_versions(version: DataVersion, count: usize) -> impl Iterator<Item = DataVersion> {
    (1..=count as i64)
        .rev()
        .map(move |left| DataVersion { timestamp: version.timestamp - (left - 1), ..version })
}

/// The body of a registration (`RegisterBrokerBody`), which borrows the topics from the table.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    topic_config_serialize_wrapper: TopicsBody<'a>,
}

/// Topics and the version of the table, as sent to name servers and tools (`TopicConfigAndMappingSerializeWrapper`).
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopicsBody<'a> {
    pub data_version: DataVersion,
    pub mapping_data_version: DataVersion,
    pub topic_config_table: BTreeMap<&'a str, Cow<'a, TopicConfig>>,
    /// Always empty, since static topics are not supported.
    pub topic_queue_mapping_detail_map: BTreeMap<String, ()>,
    pub topic_queue_mapping_info_map: BTreeMap<String, ()>,
}

/// The configuration of a topic without the permissions that the broker's own `permission` lacks.
fn masked(permission: i32, config: &TopicConfig) -> Cow<'_, TopicConfig> {
    const BOTH: i32 = PERM_READ | PERM_WRITE;
    if permission & BOTH == BOTH {
        return Cow::Borrowed(config);
    }
    Cow::Owned(TopicConfig { perm: config.perm & permission, ..config.clone() })
}

async fn register_part(
    link: &Link<'_>,
    data_version: DataVersion,
    topics: &[Arc<Topic>],
) -> Result<(), RegisterError> {
    let Link { parts, peer, .. } = link;
    let permission = parts.runtime.config.broker_permission;
    let table = topics.iter().map(|topic| (topic.name(), masked(permission, &topic.config))).collect();
    let wrapper = TopicsBody { data_version, topic_config_table: table, ..TopicsBody::default() };
    let body = json::to_vec(&Body { topic_config_serialize_wrapper: wrapper });
    let acting = &parts.runtime.config.replication.acting;
    let write = |writer: FrameWriter<'_>| {
        let writer = identify(&parts.identity, &parts.replication, &parts.runtime, writer)
            .text("haServerAddr", &parts.identity.ha_address())
            .flag("enableActingMaster", parts.runtime.config.has_acting_master())
            .flag("compressed", false)
            .flag(PART_OF_TABLE, topics.len() < parts.tables.topics.count())
            .number("bodyCrc32", hash::crc32(&body));
        // Without it name servers wait for two minutes until they take a silent broker for gone.
        match parts.runtime.config.has_acting_master() {
            true => writer.number("heartbeatTimeoutMillis", acting.not_active_timeout_ms).finish(&body),
            false => writer.finish(&body),
        }
    };
    let reply = accepted(parts.sessions.call(peer, request::REGISTER_BROKER, ANSWER_TIMEOUT, write).await?)?;
    if parts.replication.role.is_slave() {
        learn_master(&parts.replication, &parts.runtime, &reply);
    }
    if !reply.body.is_empty() {
        let (parts, body) = (Arc::clone(parts), reply.body);
        // On the thread that may block: the table of topics may be written, and this task must not wait for the disk. The
        // threads end only when the broker stops.
        let _ = link.tasks.spawn(BLOCKING, move || async move {
            take_order(&parts.tables, &parts.replication, &parts.runtime, &body)
        });
    }
    Ok(())
}

/// Takes the master from a name server's response. In controller mode a name server may still name the former master.
fn learn_master(replication: &Replication, runtime: &Runtime, reply: &Response) {
    let (address, ha) = (reply.text("masterAddr"), reply.text("haServerAddr"));
    if runtime.config.has_acting_master() {
        // The task `acting-master` says from when on the master's tables are taken.
        return replication.replicas.learn(None, ha);
    }
    match runtime.config.is_controlled() {
        true => replication.replicas.learn_of_elected(address, ha),
        false => replication.replicas.learn(address, ha),
    }
}

/// Marks topics as ordered for which a name server has an order configuration (`TopicConfigManager.updateOrderTopicConfig`).
fn take_order(tables: &Tables, replication: &Replication, runtime: &Runtime, body: &[u8]) {
    if replication.role.is_slave() {
        // A slave takes its topics from its master.
        return;
    }
    let KvTable { table } = match json::from_slice(body) {
        Ok(table) => table,
        Err(error) => {
            return tracing::warn!(%error, "the order configuration of a name server cannot be read");
        }
    };
    let is_new = |name: &String| tables.topics.find(name).is_some_and(|topic| !topic.config.order);
    let changes: Vec<_> = table.into_keys().filter(is_new).map(TopicChange::Order).collect();
    if changes.is_empty() {
        return;
    }
    tracing::info!(?changes, "topics are ordered from now on");
    if let Err(error) = tables.topics.commit(vec![changes], runtime.now_ms()).remove(0) {
        tracing::error!(%error, "the order of topics could not be stored; it is tried again");
    }
}

/// Writes the fields that identify the broker in requests to name servers.
fn identify<'b>(
    identity: &Identity,
    replication: &Replication,
    runtime: &Runtime,
    writer: FrameWriter<'b>,
) -> FrameWriter<'b> {
    let config = &runtime.config;
    writer
        .text("brokerName", &config.broker_name)
        .text("brokerAddr", &identity.address())
        .text("clusterName", &config.broker_cluster_name)
        .number("brokerId", replication.role.id())
}

/// Unregisters the broker from a name server.
pub(crate) async fn unregister(parts: &GroupParts, workers: &Workers, name_server: &str) {
    let Ok(peer) = workers.dial_name(name_server, Arc::new(Silent)).await else { return };
    unregister_from(parts, &peer, name_server).await;
}

/// Unregisters the broker over a connection, and closes the connection.
async fn unregister_from(parts: &GroupParts, peer: &ConnectionHandle, name_server: &str) {
    let write = |writer: FrameWriter<'_>| {
        identify(&parts.identity, &parts.replication, &parts.runtime, writer).finish(b"")
    };
    let timeout = Duration::from_secs(3);
    match parts.sessions.call(peer, request::UNREGISTER_BROKER, timeout, write).await {
        Ok(_) => tracing::info!(%name_server, "unregistered"),
        Err(error) => {
            tracing::warn!(%name_server, %error, "the name server was not told that the broker leaves")
        }
    }
    peer.close();
}

#[cfg(test)]
mod tests;
