//! Registration with name servers: in full every period and after a reconnection, and at once for topics that changed
//! (`BrokerOuterAPI.registerBrokerAll`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::{Peer, Service, Workers};
use wire::body::queue::DataVersion;
use wire::body::register::RegisterBrokerBody;
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig, TopicConfigSerializeWrapper};
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter};
use wire::{hash, json};

use crate::broker::Broker;

/// Topics in one registration; a larger table is sent in parts, which name servers merge.
const TOPICS_PER_REQUEST: usize = 5_000;

/// How long a name server may take to answer (Java: `registerBrokerTimeoutMills`).
const ANSWER_TIMEOUT: Duration = Duration::from_secs(24);

/// How long the name of a name server may take to resolve.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause before a name server that is away is tried again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Name servers ask a broker nothing that it serves.
struct Silent;

impl Service for Silent {
    type Turn = ();

    fn turn(&self) {}

    fn frame(&self, _turn: &mut (), peer: &Arc<Peer>, command: Command<'_>, _out: &mut Vec<u8>) {
        tracing::debug!(from = %peer.remote(), code = command.code, "a name server's request is ignored");
    }
}

/// Keeps the broker registered with one name server until the workers stop.
pub(crate) async fn run(broker: Arc<Broker>, workers: Workers, name_server: String) {
    loop {
        match connect(&workers, &name_server).await {
            Ok(peer) => keep_registered(&broker, &peer, &name_server).await,
            Err(error) => {
                tracing::warn!(%name_server, %error, "the name server cannot be reached; trying again");
            }
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

async fn connect(workers: &Workers, name_server: &str) -> std::io::Result<Arc<Peer>> {
    let no_address = || std::io::Error::other("the name has no address");
    // Not on this thread: a resolver that does not answer would stop the broker's timers.
    let lookup = tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host(name_server));
    let address = lookup.await.map_err(std::io::Error::other)??.next().ok_or_else(no_address)?;
    workers.dial(address, Arc::new(Silent)).await
}

/// Registers until the connection ends or an answer does not come.
async fn keep_registered(broker: &Arc<Broker>, peer: &Peer, name_server: &str) {
    let period = Duration::from_millis(broker.config.register_name_server_period_ms);
    let mut changes = broker.topics.watch();
    let mut registered = 0;
    let mut full_due = tokio::time::Instant::now();
    while !peer.is_closed() {
        let now = tokio::time::Instant::now();
        let generation = *changes.borrow_and_update();
        let changed = broker.topics.changed_after(registered).filter(|_| now < full_due);
        let due = changed.is_none() || generation != registered;
        let (version, topics) = changed.unwrap_or_else(|| {
            full_due = now + period;
            broker.topics.snapshot()
        });
        if due && let Err(error) = register(broker, peer, &version, topics).await {
            tracing::warn!(%name_server, %error, "the registration failed; it is repeated");
            return peer.close();
        }
        registered = generation;
        // A connection that ends is noticed here at the latest after one pause.
        let tick = tokio::time::sleep(RECONNECT_PAUSE);
        tokio::select! {
            () = tick => {}
            _ = changes.changed() => {}
        }
    }
}

/// Why a name server does not list the broker.
#[derive(Debug, thiserror::Error)]
enum RegisterError {
    #[error(transparent)]
    Call(#[from] net::CallError),
    #[error("it answered code {0}: {1}")]
    Refused(i32, String),
}

async fn register(
    broker: &Broker,
    peer: &Peer,
    version: &DataVersion,
    topics: BTreeMap<String, TopicConfig>,
) -> Result<(), RegisterError> {
    let permission = broker.config.broker_permission;
    let masked = |(name, mut config): (String, TopicConfig)| {
        if permission & (PERM_READ | PERM_WRITE) != PERM_READ | PERM_WRITE {
            config.perm &= permission;
        }
        (name, config)
    };
    let mut rest = topics.into_iter().map(masked).peekable();
    loop {
        let part: BTreeMap<_, _> = rest.by_ref().take(TOPICS_PER_REQUEST).collect();
        register_part(broker, peer, version, part).await?;
        if rest.peek().is_none() {
            return Ok(());
        }
    }
}

async fn register_part(
    broker: &Broker,
    peer: &Peer,
    version: &DataVersion,
    topic_config_table: BTreeMap<String, TopicConfig>,
) -> Result<(), RegisterError> {
    let wrapper = TopicConfigSerializeWrapper {
        data_version: *version,
        topic_config_table,
        ..TopicConfigSerializeWrapper::default()
    };
    let body =
        RegisterBrokerBody { topic_config_serialize_wrapper: wrapper, ..RegisterBrokerBody::default() };
    let body = json::to_vec(&body);
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
    let reply = peer.call(Encoding::Json, request::REGISTER_BROKER, ANSWER_TIMEOUT, write).await?;
    if reply.code == response::SUCCESS {
        return Ok(());
    }
    Err(RegisterError::Refused(reply.code, reply.remark.unwrap_or_default()))
}

/// The fields that name the broker in every request to a name server.
fn identify<'b>(broker: &Broker, writer: FrameWriter<'b>) -> FrameWriter<'b> {
    let config = &broker.config;
    writer
        .text("brokerName", &config.broker_name)
        .text("brokerAddr", &broker.store_host.to_string())
        .text("clusterName", &config.broker_cluster_name)
        .number("brokerId", config.broker_id)
}

/// Tells a name server that the broker leaves.
pub(crate) async fn unregister(broker: &Broker, workers: &Workers, name_server: &str) {
    let Ok(peer) = connect(workers, name_server).await else { return };
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
