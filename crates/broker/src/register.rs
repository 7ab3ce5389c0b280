//! Registration with name servers (`BrokerOuterAPI.registerBrokerAll`). The whole table of topics is registered after a
//! reconnection, and changed topics at once. Every period the broker asks whether the name server still has this version of
//! the table, and registers the whole table again if not. If it has, some thousands of topics are registered again, the next
//! ones each period: under a version it knows a name server takes over only the topics it lacks, so a topic that was removed
//! from that name server alone comes back. This repeats the whole table of most brokers, and a few percent of one with 60,000
//! topics.
//!
//! A table that is too large for one request is sent in parts, which name servers merge. A name server takes over changed
//! topics only when the version differs from the one it knows. So each part but the last has a made-up version of its own, and
//! the name server has the true version only when all parts have arrived.

mod acks;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::{ConnectionHandle, Reply, Service, Workers};
use serde::Serialize;
use wire::body::KvTable;
use wire::body::queue::DataVersion;
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};
use wire::body::{QueueData, TopicRouteData};
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter};
use wire::{hash, json};

use crate::broker::Broker;
use crate::topics::{Topic, TopicChange};
pub(crate) use acks::RegistrationAcks;

/// Most topics in one registration unless `enableSplitRegistration` asks for fewer, and number of topics registered again
/// each period; about a megabyte.
const TOPICS_PER_REQUEST: usize = 5_000;

/// How long a name server may take to answer (`registerBrokerTimeoutMills` in Java).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(24);

/// Longest `registerNameServerPeriod` that is used, as in Java. Name servers remove brokers they have not heard of for two
/// minutes.
const PERIOD_MAX: Duration = Duration::from_secs(60);

/// Pause before a name server that cannot be reached is tried again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Most changed topics that are registered one by one with `enableSingleTopicRegister`; a larger number is registered in one
/// request.
const SINGLY_MAX: usize = 16;

/// The service on connections to name servers, which ignores all requests: name servers send none that a broker serves.
pub(crate) struct Silent;

impl Service for Silent {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(
        &self,
        _read_batch: &mut (),
        peer: &Arc<ConnectionHandle>,
        command: Command<'_>,
        _out: &mut Vec<u8>,
    ) {
        tracing::debug!(from = %peer.remote(), code = command.code, "a name server's request is ignored");
    }
}

/// Keeps the broker registered with one name server until the workers stop.
pub(crate) async fn run(broker: Arc<Broker>, workers: Workers, name_server: String) {
    loop {
        match workers.dial_name(&name_server, Arc::new(Silent)).await {
            Ok(peer) => {
                keep_registered(&broker, &peer, &name_server).await;
                broker.registration_acks.lose(&name_server);
            }
            Err(error) => {
                tracing::warn!(%name_server, %error, "the name server cannot be reached; trying again");
            }
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

/// Keeps the broker registered over one connection, until the connection ends or a registration fails.
async fn keep_registered(broker: &Arc<Broker>, peer: &ConnectionHandle, name_server: &str) {
    let mut changes = broker.topics.watch();
    let mut registered = None;
    let mut reminder = Reminder::default();
    let mut due = tokio::time::Instant::now();
    while !peer.is_closed() {
        let generation = *changes.borrow_and_update();
        let now = tokio::time::Instant::now();
        let is_due = now >= due;
        if is_due {
            let period = Duration::from_millis(broker.config.register_name_server_period_ms);
            due = now + period.min(PERIOD_MAX);
        }
        let reminder = is_due.then_some(&mut reminder);
        let known = || broker.registration_acks.note(name_server, generation);
        if let Err(error) = bring_up_to_date(broker, peer, registered, known, reminder).await {
            tracing::warn!(%name_server, %error, "the registration failed; it is repeated");
            return peer.close();
        }
        registered = Some(generation);
        // The end of the connection is noticed at the latest after one pause.
        let tick = tokio::time::sleep(RECONNECT_PAUSE);
        tokio::select! {
            () = tick => {}
            _ = changes.changed() => {}
        }
    }
}

/// Registers the topics that changed since `registered`, the generation of the table that was last registered over this
/// connection. With a `reminder`, once a period, also repeats topics the name server may have lost. `known` is called as soon
/// as the name server has answered the registration of the changes.
async fn bring_up_to_date(
    broker: &Arc<Broker>,
    peer: &ConnectionHandle,
    registered: Option<u64>,
    known: impl Fn(),
    reminder: Option<&mut Reminder>,
) -> Result<(), RegisterError> {
    if let Some((version, topics)) = registered.and_then(|known| broker.topics.changed_after(known)) {
        let told = topics.is_empty() && registered == Some(broker.topics.generation());
        if !told {
            if broker.config.single_topic_register && (1..=SINGLY_MAX).contains(&topics.len()) {
                register_singly(broker, peer, &topics).await?;
            } else {
                // Also when topics were only removed, because the version of the table has changed.
                register(broker, peer, version, &topics).await?;
            }
        }
        known();
        let Some(reminder) = reminder else { return Ok(()) };
        if has_version(broker, peer, version).await? {
            return remind(broker, peer, version, reminder).await;
        }
    }
    let (version, topics) = broker.topics.snapshot();
    register(broker, peer, version, &topics).await?;
    known();
    Ok(())
}

/// Registers topics one by one with `REGISTER_TOPIC_IN_NAMESRV` (217), which does not contain the table's version. The next
/// query of the version therefore leads to a registration of the whole table (`BrokerController.registerSingleTopicAll`).
async fn register_singly(
    broker: &Broker,
    peer: &ConnectionHandle,
    topics: &[Arc<Topic>],
) -> Result<(), RegisterError> {
    for topic in topics {
        let config = masked(broker.config.broker_permission, &topic.config);
        let queues = QueueData {
            broker_name: broker.config.broker_name.clone(),
            perm: config.perm,
            read_queue_nums: config.read_queue_nums,
            topic_sys_flag: config.topic_sys_flag,
            write_queue_nums: config.write_queue_nums,
        };
        let body = json::to_vec(&TopicRouteData { queue_datas: vec![queues], ..TopicRouteData::default() });
        let write = |writer: FrameWriter<'_>| writer.text("topic", topic.name()).finish(&body);
        let code = request::REGISTER_TOPIC_IN_NAMESRV;
        accepted(peer.call(Encoding::Json, code, ANSWER_TIMEOUT, write).await?)?;
    }
    Ok(())
}

/// How far in the table the repeated registration with a name server has come.
#[derive(Default)]
struct Reminder {
    next: usize,
}

impl Reminder {
    /// The range of the topics, of `count` in all, to register next; begins again at the first one after the last one.
    fn take(&mut self, count: usize) -> std::ops::Range<usize> {
        let first = if self.next < count { self.next } else { 0 };
        let end = count.min(first + TOPICS_PER_REQUEST);
        self.next = if end < count { end } else { 0 };
        first..end
    }
}

/// Registers the next topics again with a name server that has `version` of the table.
async fn remind(
    broker: &Arc<Broker>,
    peer: &ConnectionHandle,
    version: DataVersion,
    reminder: &mut Reminder,
) -> Result<(), RegisterError> {
    let (now, topics) = broker.topics.snapshot();
    // Under a version that it does not have, the name server would take these topics for all that changed.
    if !broker.config.force_register || now != version {
        return Ok(());
    }
    for part in topics[reminder.take(topics.len())].chunks(part_size(broker)) {
        register_part(broker, peer, version, part).await?;
    }
    Ok(())
}

/// Asks a name server with `QUERY_DATA_VERSION` (322) whether it has this version of the table. The request also counts as a
/// heartbeat of the broker.
async fn has_version(
    broker: &Broker,
    peer: &ConnectionHandle,
    version: DataVersion,
) -> Result<bool, RegisterError> {
    let body = json::to_vec(&version);
    let write = |writer: FrameWriter<'_>| identify(broker, writer).finish(&body);
    let reply = peer.call(Encoding::Json, request::QUERY_DATA_VERSION, ANSWER_TIMEOUT, write).await?;
    // An answer without `changed` counts as no, so that the whole table is sent.
    Ok(reply.code == response::SUCCESS && reply.text("changed") == Some("false"))
}

/// Why a registration failed.
#[derive(Debug, thiserror::Error)]
enum RegisterError {
    #[error(transparent)]
    Call(#[from] net::CallError),
    #[error("it answered code {0}: {1}")]
    Refused(i32, String),
}

fn accepted(reply: Reply) -> Result<Reply, RegisterError> {
    match reply.code {
        response::SUCCESS => Ok(reply),
        code => Err(RegisterError::Refused(code, reply.remark.unwrap_or_default())),
    }
}

async fn register(
    broker: &Arc<Broker>,
    peer: &ConnectionHandle,
    version: DataVersion,
    topics: &[Arc<Topic>],
) -> Result<(), RegisterError> {
    let size = part_size(broker);
    // At least one part, so that an empty table is registered as well.
    let count = topics.len().div_ceil(size).max(1);
    for (index, part_version) in part_versions(version, count).enumerate() {
        let first = index * size;
        let part = &topics[first..topics.len().min(first + size)];
        register_part(broker, peer, part_version, part).await?;
    }
    Ok(())
}

/// Most topics in one registration request.
fn part_size(broker: &Broker) -> usize {
    let config = &broker.config;
    if config.split_registration { config.split_registration_size } else { TOPICS_PER_REQUEST }
}

/// The versions under which the parts of a table are sent: all differ, and the last one is that of the table.
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
    broker: &Arc<Broker>,
    peer: &ConnectionHandle,
    data_version: DataVersion,
    topics: &[Arc<Topic>],
) -> Result<(), RegisterError> {
    let permission = broker.config.broker_permission;
    let table = topics.iter().map(|topic| (topic.name(), masked(permission, &topic.config))).collect();
    let wrapper = TopicsBody { data_version, topic_config_table: table, ..TopicsBody::default() };
    let body = json::to_vec(&Body { topic_config_serialize_wrapper: wrapper });
    let host = broker.store_host;
    let ha = SocketAddr::new(host.ip(), host.port().wrapping_add(1));
    let write = |writer: FrameWriter<'_>| {
        identify(broker, writer)
            .text("haServerAddr", &ha.to_string())
            .flag("enableActingMaster", false)
            .flag("compressed", false)
            .number("bodyCrc32", hash::crc32(&body))
            .finish(&body);
    };
    let reply = accepted(peer.call(Encoding::Json, request::REGISTER_BROKER, ANSWER_TIMEOUT, write).await?)?;
    if !reply.body.is_empty() {
        let (broker, body) = (broker.clone(), reply.body);
        // On a thread that may block: the table of topics may be written, and this task must not wait for the disk.
        drop(tokio::task::spawn_blocking(move || take_order(&broker, &body)));
    }
    Ok(())
}

/// Marks topics as ordered for which a name server has an order configuration (`TopicConfigManager.updateOrderTopicConfig`).
fn take_order(broker: &Broker, body: &[u8]) {
    let KvTable { table } = match json::from_slice(body) {
        Ok(table) => table,
        Err(error) => {
            return tracing::warn!(%error, "the order configuration of a name server cannot be read");
        }
    };
    let is_new = |name: &String| broker.topics.find(name).is_some_and(|topic| !topic.config.order);
    let changes: Vec<_> = table.into_keys().filter(is_new).map(TopicChange::Order).collect();
    if changes.is_empty() {
        return;
    }
    tracing::info!(?changes, "topics are ordered from now on");
    if let Err(error) = broker.topics.commit(vec![changes], broker.now_ms()).remove(0) {
        tracing::error!(%error, "the order of topics could not be stored; it is tried again");
    }
}

/// Writes the fields that identify the broker in requests to name servers.
fn identify<'b>(broker: &Broker, writer: FrameWriter<'b>) -> FrameWriter<'b> {
    let config = &broker.config;
    writer
        .text("brokerName", &config.broker_name)
        .text("brokerAddr", &broker.address())
        .text("clusterName", &config.broker_cluster_name)
        .number("brokerId", config.broker_id)
}

/// Unregisters the broker from a name server.
pub(crate) async fn unregister(broker: &Broker, workers: &Workers, name_server: &str) {
    let Ok(peer) = workers.dial_name(name_server, Arc::new(Silent)).await else { return };
    let write = |writer: FrameWriter<'_>| identify(broker, writer).finish(b"");
    let timeout = Duration::from_secs(1);
    match peer.call(Encoding::Json, request::UNREGISTER_BROKER, timeout, write).await {
        Ok(_) => tracing::info!(%name_server, "unregistered"),
        Err(error) => {
            tracing::warn!(%name_server, %error, "the name server was not told that the broker leaves")
        }
    }
    peer.close();
}

#[cfg(test)]
mod tests;
