//! The route that the proxy's port tells.

use wire::body::{BrokerData, QueueData, TopicRouteData};
use wire::codes::{VERSION_4_9_4, response};
use wire::json::Dialect;

use super::answer::Answer;
use super::incoming::Request;
use super::port::Port;
use crate::Refusal;

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
