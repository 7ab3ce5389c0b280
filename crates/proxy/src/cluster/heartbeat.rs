//! Brokers ask producers of this proxy for decisions, and tell consumers that they lost a lite topic (`ClusterTransactionService`,
//! `ProxyClientRemotingProcessor`).

use std::sync::{Arc, Weak};

use broker::api::Notice;
use wire::body::{HeartbeatData, ProducerData};
use wire::codes::request;
use wire::frame::{Command, FrameWriter};
use wire::id::OffsetId;
use wire::json;
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::{LogOffset, QueueOffset};

use super::{Cluster, TIMEOUT, preferred};
use crate::registry::Registry;

/// The name under which brokers know the producers of all proxies (`TRANS_HEARTBEAT_CLIENT_ID`).
const CLIENT_ID: &str = "rmq-proxy-producer-client";

/// Most groups of one heartbeat (`transactionHeartbeatBatchNum`).
const GROUPS_MAX: usize = 100;

impl Cluster {
    /// Relays brokers' requests to producers, and notices to consumers of lite topics, to the clients of a registry.
    pub(crate) fn relay_requests(self: &Arc<Self>, registry: &Arc<Registry>) {
        let (cluster, registry) = (Arc::downgrade(self), Arc::downgrade(registry));
        self.client.on_request_to_relay(move |command| match command.code {
            request::NOTIFY_UNSUBSCRIBE_LITE => unsubscribed(&registry, command),
            _ => check(&cluster, &registry, command),
        });
    }

    /// Sends the groups of transaction producers to all masters except `own`, the broker of this process. Groups of
    /// remoting clients are sent as they are. For gRPC clients the group has the name of the topic.
    pub(crate) async fn heartbeat(self: &Arc<Self>, registry: &Registry, own: Option<&str>) {
        let Ok(brokers) = self.brokers().await else { return };
        let others = || brokers.values().filter(|broker| Some(broker.broker_name.as_str()) != own);
        if others().next().is_none() {
            return;
        }
        let transactional = self.remoting.transactional().into_iter();
        let mut groups: Vec<_> = transactional.map(|group_name| ProducerData { group_name }).collect();
        for topic in registry.published() {
            let known = self.topic(&topic).await;
            let takes = |kind: &str| matches!(kind, "TRANSACTION" | "MIXED");
            if matches!(known, Ok(Some(known)) if takes(&known.message_type)) {
                groups.push(ProducerData { group_name: topic });
            }
        }
        for groups in groups.chunks(GROUPS_MAX) {
            let data = HeartbeatData {
                client_id: CLIENT_ID.to_owned(),
                producer_data_set: groups.to_vec(),
                ..HeartbeatData::default()
            };
            let body = json::to_vec(&data);
            for address in others().filter_map(preferred) {
                let write = |frame: FrameWriter<'_>| frame.finish(&body);
                let answered = self.client.call(address, request::HEART_BEAT, TIMEOUT, write).await;
                if let Err(error) = answered {
                    tracing::warn!(%error, "a broker does not know the producers of transactions of this proxy");
                }
            }
        }
    }
}

/// Asks a producer of the message's group for its decision. Without a response, the broker asks again.
fn check(cluster: &Weak<Cluster>, registry: &Weak<Registry>, command: &Command<'_>) {
    let asked = || {
        let cluster = cluster.upgrade()?;
        let registry = registry.upgrade()?;
        let number = |name: &str| command.fields.text(name)?.parse::<i64>().ok();
        let record = RecordView::parse(command.body).ok()?;
        let group = properties::get_str(record.properties(), key::PRODUCER_GROUP)?;
        let broker_name = command.fields.text("bname")?;
        let log_offset = LogOffset::from_i64(number("commitLogOffset")?)?;
        let notice = Notice::CheckTransaction {
            broker_name,
            unique_key: command.fields.text("transactionId").or(command.fields.text("msgId"))?,
            queue_offset: QueueOffset::from_i64(number("tranStateTableOffset")?)?,
            id: OffsetId { store_host: record.store_host(), log_offset },
            record: command.body,
        };
        let turn = usize::try_from(command.opaque).unwrap_or_default();
        let is_notified = cluster.remoting.notify_producer(group, turn, &notice)
            || registry.notify_producer(group, &notice);
        if !is_notified {
            tracing::debug!(group, "no producer of this proxy can be asked for its decision");
        }
        Some(())
    };
    if asked().is_none() {
        tracing::warn!("a transaction to check cannot be read");
    }
}

/// Notifies a consumer that a broker removed a lite topic from it, for example because another member of its group
/// has it exclusively.
fn unsubscribed(registry: &Weak<Registry>, command: &Command<'_>) {
    let text = |name: &str| command.fields.text(name).unwrap_or_default();
    let (client, group, lite_topic) = (text("clientId"), text("consumerGroup"), text("liteTopic"));
    let is_sent =
        registry.upgrade().is_some_and(|registry| registry.notify_unsubscribed(client, group, lite_topic));
    if !is_sent {
        tracing::debug!(
            client,
            group,
            lite_topic,
            "no such consumer of this proxy can be told that it lost a lite topic"
        );
    }
}
