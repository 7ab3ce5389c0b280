//! Changes of topics: creation, permission, deletion.

use crate::operation::{Typed, Written, change_each};
use crate::request::Request;
use crate::stats::{self, CreatedConfig};
use crate::{Arguments, Error, Session, kv, text};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::body::{PERM_READ, PERM_WRITE, TopicConfig};
use wire::codes::request;
use wire::json;
use wire::names::DEFAULT_TOPIC;

/// Queues of a topic that is created without a number of them (`UpdateTopicSubCommand`).
const QUEUES: i32 = 8;

/// Types of messages that a topic may be made for (`TopicMessageType`).
const TYPES: [&str; 7] = ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "LITE", "PRIORITY"];

/// A topic that was created or changed, and its order configuration if it got one.
#[derive(Serialize)]
pub(super) struct CreatedTopic {
    #[serde(flatten)]
    created: CreatedConfig<TopicConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order_conf: Option<String>,
}

impl Typed for CreatedTopic {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let CreatedConfig { brokers, config } = &self.created;
        let mut out: String =
            brokers.iter().map(|broker| format!("create topic to {broker} success.\n")).collect();
        if let Some(order) = &self.order_conf {
            let place = if arguments.get("broker").is_some() { "broker" } else { "cluster" };
            let _ = writeln!(out, "set {place} orderConf. isOrder=true, orderConf=[{order}]");
        }
        out + &config_text(config) + "\n"
    }
}

/// A topic as `TopicConfig.toString` writes it.
fn config_text(config: &TopicConfig) -> String {
    let attributes: Vec<_> = config.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!(
        "TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, perm={}, topicFilterType={}, topicSysFlag={}, \
         order={}, attributes={{{}}}]",
        config.topic_name,
        config.read_queue_nums,
        config.write_queue_nums,
        text::permission(config.perm),
        config.topic_filter_type,
        config.topic_sys_flag,
        config.order,
        attributes.join(", ")
    )
}

/// The request that creates a topic or changes it.
fn creation(config: &TopicConfig) -> Request {
    creation_by(request::UPDATE_AND_CREATE_TOPIC, config)
}

/// A request that has a topic's settings in its header.
pub(super) fn creation_by(code: i32, config: &TopicConfig) -> Request {
    let changes = config.attributes.iter().map(|(key, value)| match key.starts_with('-') {
        true => key.clone(),
        false => format!("{key}={value}"),
    });
    let changes = changes.collect::<Vec<_>>().join(",");
    Request::new(code)
        .with("topic", &config.topic_name)
        .with("defaultTopic", DEFAULT_TOPIC)
        .with("readQueueNums", config.read_queue_nums)
        .with("writeQueueNums", config.write_queue_nums)
        .with("perm", config.perm)
        .with("topicFilterType", &config.topic_filter_type)
        .with("topicSysFlag", config.topic_sys_flag)
        .with("order", config.order)
        .maybe("attributes", (!changes.is_empty()).then_some(changes))
}

pub(super) async fn create(session: &Session, arguments: &Arguments) -> Result<CreatedTopic, Error> {
    let mut config = TopicConfig::new(arguments.need("topic")?, QUEUES, PERM_READ | PERM_WRITE);
    config.read_queue_nums = arguments.parse("read-queues")?.unwrap_or(config.read_queue_nums);
    config.write_queue_nums = arguments.parse("write-queues")?.unwrap_or(config.write_queue_nums);
    config.perm = arguments.parse("perm")?.unwrap_or(config.perm);
    config.topic_sys_flag =
        i32::from(arguments.is_on("unit")) | i32::from(arguments.is_on("unit-subscription")) << 1;
    config.attributes = stats::attributes(arguments.get("attributes"))?;
    if let Some(kind) = arguments.get("type") {
        config.attributes.insert("+message.type".to_owned(), message_type(kind)?);
    }
    config.order = arguments.is_on("order");
    let brokers = session.masters(arguments).await?;
    session.change_all(&brokers, &creation(&config)).await?;
    let order_conf = match config.order {
        true => {
            let order = put_order(session, &config, &brokers, arguments.get("broker").is_none()).await;
            Some(order.map_err(|why| session.partly(&brokers, why))?)
        }
        false => None,
    };
    Ok(CreatedTopic { created: CreatedConfig { brokers, config }, order_conf })
}

/// The name of a message type in upper case (`TopicMessageType`).
fn message_type(kind: &str) -> Result<String, Error> {
    let found = TYPES.iter().find(|name| name.eq_ignore_ascii_case(kind.trim()));
    found.map(|name| (*name).to_owned()).ok_or_else(|| {
        Error::Usage(format!("expected the type of a topic as one of {}, found {kind}", TYPES.join(", ")))
    })
}

/// Puts the order configuration of a topic on the brokers at these addresses.
async fn put_order(
    session: &Session,
    config: &TopicConfig,
    brokers: &[String],
    is_whole: bool,
) -> Result<String, Error> {
    let members = session.members(None).await?.into_iter();
    let names: Vec<String> = members.filter(|it| brokers.contains(&it.address)).map(|it| it.name).collect();
    kv::put_order(session, &config.topic_name, (&names, config.write_queue_nums), is_whole).await
}

/// The permission of a topic on one broker, before and after.
#[derive(Serialize)]
pub(super) struct PermissionChange {
    broker: String,
    before: String,
    after: String,
    #[serde(skip)]
    bits: (i32, i32),
    #[serde(skip)]
    config: TopicConfig,
}

impl Typed for Vec<PermissionChange> {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut out = String::new();
        for PermissionChange { broker, bits: (before, after), config, .. } in self {
            if before == after {
                out.push_str("new perm equals to the old one!\n");
                continue;
            }
            let _ = writeln!(out, "update topic perm from {before} to {after} in {broker} success.");
            let _ = writeln!(out, "{}", config_text(config));
        }
        out
    }
}

pub(super) async fn permission(
    session: &Session,
    arguments: &Arguments,
) -> Result<Vec<PermissionChange>, Error> {
    let topic = arguments.need("topic")?;
    let perm: i32 = arguments.parse("perm")?.unwrap_or_default();
    let route = session.route(topic).await?;
    let (mut changes, mut done) = (Vec::new(), Vec::new());
    for address in session.masters(arguments).await? {
        let set = route.broker_datas.iter().find(|set| set.broker_addrs.get(&0) == Some(&address));
        let queues =
            set.and_then(|set| route.queue_datas.iter().find(|queues| queues.broker_name == set.broker_name));
        let Some(queues) = queues else {
            if arguments.get("broker").is_some() {
                return Err(Error::NotFound(format!(
                    "the topic {topic} has no queues on a master {address}"
                )));
            }
            continue;
        };
        let config = TopicConfig {
            topic_name: topic.to_owned(),
            read_queue_nums: queues.read_queue_nums,
            write_queue_nums: queues.write_queue_nums,
            topic_sys_flag: queues.topic_sys_flag,
            perm,
            ..TopicConfig::default()
        };
        if queues.perm != perm {
            let changed = session.change(&address, &creation(&config)).await;
            changed.map_err(|why| session.partly(&done, why))?;
            done.push(address.clone());
        }
        let (before, after) = (text::permission(queues.perm), text::permission(perm));
        changes.push(PermissionChange { broker: address, before, after, bits: (queues.perm, perm), config });
    }
    Ok(changes)
}

pub(super) async fn create_list(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let list = stats::list_of_file::<TopicConfig>(arguments)?;
    let ask = Request::new(request::UPDATE_AND_CREATE_TOPIC_LIST)
        .body(json::to_vec(&BTreeMap::from([("topicConfigList", list)])));
    let line = "submit batch of topic config to {} success, please check the result later.";
    change_each(session, &session.masters(arguments).await?, &ask, line).await
}

/// A topic that was deleted.
#[derive(Serialize)]
pub(super) struct DeletedTopic {
    topic: String,
    cluster: String,
    brokers: Vec<String>,
}

impl Typed for DeletedTopic {
    fn mqadmin(&self, _: &Arguments) -> String {
        let Self { topic, cluster, .. } = self;
        format!(
            "delete topic [{topic}] from cluster [{cluster}] success.\ndelete topic [{topic}] from NameServer success.\n"
        )
    }
}

pub(super) async fn delete(session: &Session, arguments: &Arguments) -> Result<DeletedTopic, Error> {
    let (topic, cluster) = (arguments.need("topic")?, session.cluster(arguments).await?);
    let mut of_cluster = Arguments::default();
    of_cluster.set("cluster", cluster.as_str());
    let brokers = session.masters(&of_cluster).await?;
    stats::delete_topic(session, topic, &cluster, &brokers).await?;
    Ok(DeletedTopic { topic: topic.to_owned(), cluster, brokers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CLUSTER, Received, ServerAnswer, with_cluster};
    use wire::codes::response;

    #[test]
    fn a_topic_is_written_as_in_java() {
        let mut config = TopicConfig::new("One", 4, 6);
        config.attributes = stats::attributes(Some("+message.type=NORMAL")).unwrap();
        let expected = "TopicConfig [topicName=One, readQueueNums=4, writeQueueNums=4, perm=RW-, \
                        topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, \
                        attributes={+message.type=NORMAL}]";
        assert_eq!(config_text(&config), expected);
        let content = creation(&config).content();
        assert!(content.contains("attributes=+message.type=NORMAL"), "{content}");
    }

    fn given(more: &[(&'static str, &str)]) -> Arguments {
        let mut arguments = Arguments::default();
        let all = [("topic", "T"), ("cluster", CLUSTER)].into_iter().chain(more.iter().copied());
        all.for_each(|(name, value)| arguments.set(name, value));
        arguments
    }

    fn done(error: Error) -> usize {
        if let Error::Partly { done, .. } = error { done.len() } else { 0 }
    }

    #[test]
    fn a_change_that_fails_says_on_which_brokers_it_was_made() {
        let answers = |server: &str, asked: &Received| match (asked.code, server) {
            (request::DELETE_TOPIC_IN_BROKER, _) | (_, "a") => ServerAnswer::success(),
            _ => ServerAnswer::refused(response::SYSTEM_ERROR),
        };
        with_cluster(&["a", "b"], answers, async |session: &Session| {
            let failure = permission(session, &given(&[("perm", "4")])).await.map(drop).unwrap_err();
            assert_eq!(done(failure), 1, "b refuses");
            let failure = delete(session, &given(&[])).await.map(drop).unwrap_err();
            assert_eq!(done(failure), 2, "the name server refuses");
        });
    }
}
