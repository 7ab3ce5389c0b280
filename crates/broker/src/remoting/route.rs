//! Routes in the responses of the proxy's port.

use std::net::SocketAddr;

use wire::body::{BrokerData, QueueData, TopicRouteData};
use wire::codes::{VERSION_4_9_4, response};
use wire::frame::Command;
use wire::json::Dialect;

use super::answer::Answer;
use super::incoming::Request;
use super::port::Port;
use crate::{Refusal, Result};

/// Form of a route (105) on the port of a proxy. Each broker has the address by which the client connected, in JSON
/// that the client reads (`GetTopicRouteActivity`).
pub struct RouteForm {
    address: String,
    dialect: Dialect,
}

impl RouteForm {
    /// Makes the form for the response to `command` on a connection to the address `local`. If `address` is set, it
    /// replaces `local`.
    pub fn new(command: &Command<'_>, address: Option<&str>, local: SocketAddr) -> Self {
        let is_standard =
            command.version >= VERSION_4_9_4 || command.fields.flag_or("acceptStandardJsonOnly", false);
        Self {
            address: address.map_or_else(|| local.to_string(), str::to_owned),
            dialect: if is_standard { Dialect::Standard } else { Dialect::Plain },
        }
    }

    /// Returns the body of the response. The brokers of static topics' logical queues are left out.
    pub fn body(&self, mut route: TopicRouteData) -> Vec<u8> {
        let addresses = route.broker_datas.iter_mut().flat_map(|broker| broker.broker_addrs.values_mut());
        addresses.for_each(|address| address.clone_from(&self.address));
        route.topic_queue_mapping_by_broker = None;
        route.encode(self.dialect)
    }
}

/// The refusal of a request for the route of a topic that does not exist.
pub fn no_route(topic: &str) -> Refusal {
    let remark = format!("No topic route info in name server for the topic: {topic}");
    Refusal::new(response::TOPIC_NOT_EXIST, remark)
}

/// The route of a topic on this broker.
pub(super) fn route(request: &Request<'_>) -> Result<Answer> {
    let Request { broker, peer, command, port, .. } = *request;
    let name = command.fields.need("topic")?;
    let topic = broker.tables.topics.find(name).ok_or_else(|| no_route(name))?;
    let address = match port {
        Port::Proxy(address) => address.as_deref(),
        _ => None,
    };
    let (topic, own) = (&topic.config, &broker.runtime.config);
    let route = TopicRouteData {
        broker_datas: vec![BrokerData {
            broker_addrs: [(broker.replication.role.id(), String::new())].into(),
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
    Ok(Answer::success().body(RouteForm::new(command, address, peer.local()).body(route)))
}
