//! The listening ports of the remoting protocol and what each serves.

use std::sync::Arc;

use wire::body::{BrokerData, QueueData, TopicRouteData};
use wire::codes::{VERSION_4_9_4, request as code, response};
use wire::json::Dialect;

use super::answer::Answer;
use super::incoming::Request;
use super::request_table::Route;
use crate::Refusal;

/// The port that a request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The broker's own.
    Own,
    /// Two below the broker's own (VIP channel).
    Fast,
    /// That of a proxy in the broker's process. Its routes name the given address, or the address that the connection came to.
    Proxy(Option<Arc<str>>),
}

/// The requests that a proxy serves (`RemotingProtocolServer.registerRemotingServer`), sorted by code.
const OF_PROXY: [i32; 24] = [
    code::SEND_MESSAGE,
    code::PULL_MESSAGE,
    code::QUERY_CONSUMER_OFFSET,
    code::UPDATE_CONSUMER_OFFSET,
    code::SEARCH_OFFSET_BY_TIMESTAMP,
    code::GET_MAX_OFFSET,
    code::GET_MIN_OFFSET,
    code::HEART_BEAT,
    code::UNREGISTER_CLIENT,
    code::CONSUMER_SEND_MSG_BACK,
    code::END_TRANSACTION,
    code::GET_CONSUMER_LIST_BY_GROUP,
    code::LOCK_BATCH_MQ,
    code::UNLOCK_BATCH_MQ,
    code::CHECK_CLIENT_CONFIG,
    code::GET_ROUTEINFO_BY_TOPIC,
    code::GET_CONSUMER_CONNECTION_LIST,
    code::SEND_MESSAGE_V2,
    code::SEND_BATCH_MESSAGE,
    code::LITE_PULL_MESSAGE,
    code::RECALL_MESSAGE,
    code::POP_MESSAGE,
    code::ACK_MESSAGE,
    code::CHANGE_MESSAGE_INVISIBLETIME,
];

impl Port {
    /// Whether the port serves the requests of a row of the route table.
    pub(super) fn serves(&self, route: &Route) -> bool {
        match self {
            Self::Own => route.code != code::GET_ROUTEINFO_BY_TOPIC,
            Self::Fast => route.on_fast_port && route.code != code::GET_ROUTEINFO_BY_TOPIC,
            Self::Proxy(_) => OF_PROXY.binary_search(&route.code).is_ok(),
        }
    }
}

/// The route of a topic on this broker, at the address by which the client came (`GetTopicRouteActivity`).
pub(super) fn route(request: &Request<'_>) -> Result<Answer, Refusal> {
    let Request { broker, peer, command, port, .. } = *request;
    let name = command.fields.need("topic")?;
    let topic = broker.topics.find(name).ok_or_else(|| {
        let remark = format!("No topic route info in name server for the topic: {name}");
        Refusal::new(response::TOPIC_NOT_EXIST, remark)
    })?;
    let told = match port {
        Port::Proxy(Some(told)) => told.to_string(),
        _ => peer.local().to_string(),
    };
    let (topic, own) = (&topic.config, &broker.config);
    let route = TopicRouteData {
        broker_datas: vec![BrokerData {
            broker_addrs: [(broker.role.id(), told)].into(),
            broker_name: own.broker_name.clone(),
            cluster: own.broker_cluster_name.clone(),
            ..BrokerData::default()
        }],
        queue_datas: vec![QueueData {
            broker_name: own.broker_name.clone(),
            perm: topic.perm,
            read_queue_nums: topic.read_queue_nums,
            topic_sys_flag: topic.topic_sys_flag,
            write_queue_nums: topic.write_queue_nums,
        }],
        ..TopicRouteData::default()
    };
    let is_standard =
        command.version >= VERSION_4_9_4 || command.fields.flag_or("acceptStandardJsonOnly", false);
    Ok(Answer::success().body(route.encode(if is_standard { Dialect::Standard } else { Dialect::Plain })))
}

#[cfg(test)]
mod tests;
