//! The route of one topic, borrowed from the tables and serialized without a copy.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use wire::body::{PERM_WRITE, TopicQueueMapping};
use wire::names::SYNC_MEMBER_PREFIX;

use super::{Group, MASTER, Routes, TopicQueues, member};

/// Options of a route for one client: acting master, zone and order configuration.
#[derive(Debug, Default, Clone, Copy)]
pub struct RouteOptions<'a> {
    /// Whether the smallest slave of a group without master is shown as master.
    pub acting_master: bool,
    /// Restricts the route to groups of this zone and groups without master.
    pub zone: Option<&'a str>,
    /// Order configuration of the topic, to include in the route.
    pub order: Option<&'a str>,
}

/// The addresses of a broker group; serializes like `wire::body::BrokerData`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokerView<'a> {
    /// Address by broker id.
    pub broker_addrs: Cow<'a, BTreeMap<i64, String>>,
    /// Name of the group.
    pub broker_name: &'a str,
    /// The group's cluster.
    pub cluster: &'a str,
    /// Whether a slave may act for a lost master.
    pub enable_acting_master: bool,
    /// The group's zone.
    pub zone_name: Option<&'a str>,
}

impl<'a> BrokerView<'a> {
    pub(super) fn new(name: &'a str, group: &'a Group) -> Self {
        Self {
            broker_addrs: Cow::Borrowed(&group.addresses),
            broker_name: name,
            cluster: &group.cluster,
            enable_acting_master: group.acting_master,
            zone_name: group.zone.as_deref(),
        }
    }

    /// Sets the id of the broker with the smallest id to 0.
    fn promote(&mut self) {
        if let Some(address) = self.broker_addrs.to_mut().pop_first() {
            self.broker_addrs.to_mut().insert(MASTER, address.1);
        }
    }
}

/// The queues of a topic on a broker group; serializes like `wire::body::QueueData`.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct QueueView<'a> {
    /// Name of the group.
    pub broker_name: &'a str,
    /// Permission bits (`PermName`).
    pub perm: i32,
    /// Number of queues that consumers read.
    pub read_queue_nums: i32,
    /// Bit 0: unit topic, bit 1: unit subscription.
    pub topic_sys_flag: i32,
    /// Number of queues that producers write.
    pub write_queue_nums: i32,
}

impl<'a> QueueView<'a> {
    fn new((broker_name, queues): &'a (Arc<str>, TopicQueues)) -> Self {
        let TopicQueues { perm, read_queue_nums, topic_sys_flag, write_queue_nums } = *queues;
        Self { broker_name, perm, read_queue_nums, topic_sys_flag, write_queue_nums }
    }
}

/// The route of a topic; serializes like `wire::body::TopicRouteData`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteView<'a> {
    /// The broker groups with queues of the topic.
    pub broker_datas: Vec<BrokerView<'a>>,
    /// Legacy filter servers by broker address.
    pub filter_server_table: BTreeMap<&'a str, &'a [String]>,
    /// Order configuration of the topic.
    pub order_topic_conf: Option<&'a str>,
    /// The topic's queues by broker group.
    pub queue_datas: Vec<QueueView<'a>>,
    /// Static-topic mappings by broker group.
    pub topic_queue_mapping_by_broker: Option<&'a BTreeMap<String, TopicQueueMapping>>,
}

impl Routes {
    /// Returns the route of a topic, or `None` if no registered broker has it (`pickupTopicRouteData`).
    pub fn route<'a>(&'a self, topic: &str, options: RouteOptions<'a>) -> Option<RouteView<'a>> {
        let shard = self.shard(topic);
        let placement = shard.topics.get(topic)?;
        // A group that leaves loses its queues shard by shard.
        let known = || placement.iter().filter(|(broker, _)| self.groups.contains_key(&**broker));
        let group = |broker: &'a str| self.groups.get(broker).map(|group| BrokerView::new(broker, group));
        let mut route = RouteView {
            broker_datas: known().filter_map(|(broker, _)| group(broker)).collect(),
            filter_server_table: BTreeMap::new(),
            order_topic_conf: options.order,
            queue_datas: known().map(QueueView::new).collect(),
            topic_queue_mapping_by_broker: shard.mappings.get(topic),
        };
        if route.broker_datas.is_empty() {
            return None;
        }
        if options.acting_master && !topic.starts_with(SYNC_MEMBER_PREFIX) {
            route.show_acting_masters();
        }
        if let Some(zone) = options.zone {
            route.keep_zone(zone);
        }
        self.add_filter_servers(&mut route);
        Some(route)
    }

    fn add_filter_servers<'a>(&'a self, route: &mut RouteView<'a>) {
        if self.filters.is_empty() {
            return;
        }
        for broker in &route.broker_datas {
            for address in broker.broker_addrs.values() {
                if let Some(((_, address), servers)) =
                    self.filters.get_key_value(&member(broker.cluster, address))
                {
                    route.filter_server_table.insert(address, servers);
                }
            }
        }
    }
}

impl RouteView<'_> {
    /// Shows the smallest slave as master in groups without a master and with read-only queues.
    fn show_acting_masters(&mut self) {
        for broker in &mut self.broker_datas {
            if broker.broker_addrs.contains_key(&MASTER) || !broker.enable_acting_master {
                continue;
            }
            let queues = self.queue_datas.iter().find(|queues| queues.broker_name == broker.broker_name);
            if queues.is_some_and(|queues| queues.perm & PERM_WRITE == 0) {
                broker.promote();
            }
        }
    }

    /// Removes groups of other zones that have a master (`ZoneRouteRPCHook.filterByZoneName`).
    fn keep_zone(&mut self, zone: &str) {
        let is_near = |broker: &BrokerView<'_>| {
            let is_same = broker.zone_name.is_some_and(|name| name.to_lowercase() == zone.to_lowercase());
            is_same || !broker.broker_addrs.contains_key(&MASTER)
        };
        let far: Vec<&str> = self
            .broker_datas
            .iter()
            .filter(|broker| !is_near(broker))
            .map(|broker| broker.broker_name)
            .collect();
        self.queue_datas.retain(|queues| !far.contains(&queues.broker_name));
        self.broker_datas.retain(is_near);
    }
}
