//! Requests about topics and their routes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::body::{
    DEPARTED_BROKERS, QueueData, REPLACED_BROKERS, WITH_DEPARTED_BROKERS, WITH_REPLACED_BROKERS,
};
use wire::codes::{VERSION_4_9_4, request, response};
use wire::json::{self, Dialect};

use super::{Refusal, RequestContext, RequestHandler};
use crate::kv::ORDER_TOPIC_CONFIG;
use crate::routes::TopicFilter;
use crate::{RouteOptions, Units};

/// A list of topic names; serializes like `wire::body::TopicList`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TopicNames {
    topic_list: Vec<String>,
}

/// Body of `REGISTER_TOPIC_IN_NAMESRV`: of a `TopicRouteData`, only the queues are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QueuesBody {
    queue_datas: Vec<QueueData>,
}

/// Body of the response to `GET_BROKER_MEMBER_GROUP`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MembersBody<'a> {
    broker_member_group: crate::MemberView<'a>,
}

impl RequestHandler {
    /// Serves `GET_ROUTEINFO_BY_TOPIC`.
    pub(super) fn route(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let command = context.command;
        let fields = &command.fields;
        let topic = fields.need("topic")?;
        let (acting_master, with_order) = {
            let config = self.config.read();
            let wait = Duration::from_secs(config.wait_seconds_for_service);
            if config.need_wait_for_service && context.now.saturating_duration_since(self.started) < wait {
                return Err(Refusal::error("name server not ready"));
            }
            (config.support_acting_master, config.order_message_enable)
        };
        let zone = fields.text("__ZONE_NAME").filter(|zone| !zone.trim().is_empty());
        let zone = zone.filter(|_| fields.flag_or("__ZONE_MODE", false));
        // RocketMQ's zone filter re-encodes the body whatever the client's version is.
        let wants_standard =
            command.version >= VERSION_4_9_4 || fields.flag_or("acceptStandardJsonOnly", false);
        let dialect = if wants_standard && zone.is_none() { Dialect::Standard } else { Dialect::Plain };
        let order =
            if with_order { self.kv.read().get(ORDER_TOPIC_CONFIG, topic).map(str::to_owned) } else { None };
        let body = {
            let routes = self.routes.read();
            let route = routes.route(topic, RouteOptions { acting_master, zone, order: order.as_deref() });
            route.map(|route| json::to_vec_as(&route, dialect))
        };
        match body {
            Some(body) => context.finish(&body),
            None => Err(Refusal::new(
                response::TOPIC_NOT_EXIST,
                format!(
                    "No topic route info in name server for the topic: {topic}\n\
                     See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
                ),
            )),
        }
    }

    /// Serves `GET_BROKER_CLUSTER_INFO`. On request the response also has brokers whose name and id another address
    /// took over, and brokers that left.
    pub(super) fn clusters(&self, mut context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let wants_replaced = context.command.fields.flag_or(WITH_REPLACED_BROKERS, false);
        let wants_departed = context.command.fields.flag_or(WITH_DEPARTED_BROKERS, false);
        let now = context.now;
        let (body, replaced, departed) = {
            let routes = self.routes.read();
            let replaced = wants_replaced.then(|| routes.replaced());
            (json::to_vec(&routes.clusters()), replaced, wants_departed.then(|| routes.departed(now)))
        };
        let mut response = context.response();
        if let Some(replaced) = replaced {
            response = response.bytes(REPLACED_BROKERS, &json::to_vec(&replaced));
        }
        if let Some(departed) = departed {
            response = response.bytes(DEPARTED_BROKERS, &json::to_vec(&departed));
        }
        response.finish(&body);
        Ok(())
    }

    /// Serves `GET_BROKER_MEMBER_GROUP`.
    pub(super) fn members(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let fields = &context.command.fields;
        let (cluster, broker) = (fields.need("clusterName")?, fields.need("brokerName")?);
        let body =
            json::to_vec(&MembersBody { broker_member_group: self.routes.read().members(cluster, broker) });
        context.finish(&body)
    }

    /// Serves `GET_ALL_TOPIC_LIST_FROM_NAMESERVER`.
    pub(super) fn all_topics(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        if !self.config.read().enable_all_topic_list {
            return Err(Refusal::error("disable"));
        }
        let body = json::to_vec(&TopicNames { topic_list: self.routes.topics(&TopicFilter::All) });
        context.finish(&body)
    }

    /// Serves `GET_SYSTEM_TOPIC_LIST_FROM_NS`, which no setting turns off.
    pub(super) fn system_topics(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let body = json::to_vec(&self.routes.read().system_topics());
        context.finish(&body)
    }

    /// Serves the requests for lists of some topics, by cluster or unit flags.
    pub(super) fn some_topics(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        if !self.config.read().enable_topic_list {
            return Err(Refusal::error("disable"));
        }
        let listed = match context.command.code {
            request::GET_TOPICS_BY_CLUSTER => {
                TopicFilter::Cluster(context.command.fields.text("cluster").unwrap_or_default())
            }
            request::GET_UNIT_TOPIC_LIST => TopicFilter::Units(Units::Unit),
            request::GET_HAS_UNIT_SUB_TOPIC_LIST => TopicFilter::Units(Units::Subscribed),
            _ => TopicFilter::Units(Units::SubscribedOnly),
        };
        let topic_list = self.routes.topics(&listed);
        let body = json::to_vec(&TopicNames { topic_list });
        context.finish(&body)
    }

    /// Serves `WIPE_WRITE_PERM_OF_BROKER`. A request without a broker name changes no topic and is no error.
    pub(super) fn wipe_write_perm(&self, mut context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let count = self.routes.wipe_write_perm(context.command.fields.text_or_empty("brokerName")?);
        context.response().number("wipeTopicCount", count).finish(&[]);
        Ok(())
    }

    /// Serves `ADD_WRITE_PERM_OF_BROKER`. A request without a broker name changes no topic and is no error.
    pub(super) fn add_write_perm(&self, mut context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let count = self.routes.add_write_perm(context.command.fields.text_or_empty("brokerName")?);
        context.response().number("addTopicCount", count).finish(&[]);
        Ok(())
    }

    /// Serves `DELETE_TOPIC_IN_NAMESRV`. A request without a topic name deletes no topic and is no error.
    pub(super) fn delete_topic(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let fields = &context.command.fields;
        let cluster = fields.text("clusterName").filter(|cluster| !cluster.is_empty());
        self.routes.delete_topic(fields.text_or_empty("topic")?, cluster);
        context.finish(&[])
    }

    /// Serves `REGISTER_TOPIC_IN_NAMESRV`.
    pub(super) fn add_topic(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        let topic = context.command.fields.need("topic")?;
        if !context.command.body.is_empty() {
            let bounds = self.config.read().bounds();
            let route: QueuesBody = json::from_slice_within(context.command.body, bounds.topics_per_broker)
                .map_err(|error| Refusal::error(error.to_string()))?;
            if !self.routes.add_topic(topic, &route.queue_datas, &bounds) {
                let remark = format!(
                    "the routes have no room: expected at most {} bytes (routeBytesMax)",
                    bounds.bytes
                );
                return Err(Refusal::error(remark));
            }
        }
        context.finish(&[])
    }
}
