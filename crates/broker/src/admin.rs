//! Administrators' requests about topics, settings and the runtime table: 17, 18, 21, 25, 26, 28, 215, 225 and 351.

mod cold;
mod lists;
mod settings;
mod tables;

use std::borrow::Cow;

use wire::body::topic::{PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig};
use wire::codes::response;
use wire::frame::Command;
use wire::json;
use wire::pop::Kind;

use crate::broker::Broker;
use crate::metadata_writer::Change;
use crate::register::TopicsBody;
use crate::topics::{QUEUES_MAX, TopicChange, attributes, is_system_topic};
use crate::{Answer, FAQ, Refusal, names, retention, stats};

pub(crate) use cold::{bounds, put_bounds, set_read_ahead};
pub(crate) use lists::{put_groups, put_topics};
pub(crate) use settings::{config, update_config};
pub(crate) use tables::{
    consumer_offsets, delay_offsets, epochs, replication, reset_master_flush, system_topics,
};

/// All permission bits a topic may have: read, write, inherit.
const PERM_MAX: i32 = PERM_READ | PERM_WRITE | PERM_INHERIT;

/// Names of Java's `TopicFilterType`, the values `topicFilterType` may have.
const FILTER_TYPES: [&str; 2] = ["SINGLE_TAG", "MULTI_TAG"];

/// 17 `UPDATE_AND_CREATE_TOPIC`.
pub(crate) fn put_topic(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let fields = &command.fields;
    let name = fields.need("topic")?;
    let alterations = attributes::parse(fields.text("attributes").unwrap_or_default())?;
    let config = TopicConfig {
        topic_name: name.to_owned(),
        read_queue_nums: fields.need_number("readQueueNums")?,
        write_queue_nums: fields.need_number("writeQueueNums")?,
        perm: fields.need_number("perm")?,
        topic_filter_type: fields.text("topicFilterType").unwrap_or("SINGLE_TAG").to_owned(),
        topic_sys_flag: fields.number_or("topicSysFlag", 0)?,
        order: fields.flag_or("order", false),
        ..TopicConfig::default()
    };
    check_topic(broker, &config)?;
    tracing::info!(topic = name, "topic created or changed");
    Err(Refusal::answer_after(TopicChange::Put(config, alterations), Answer::success()))
}

/// Whether a topic may be created with, or changed to, this configuration.
fn check_topic(broker: &Broker, config: &TopicConfig) -> Result<(), Refusal> {
    let name = &config.topic_name;
    let invalid = |remark| Err(Refusal::new(response::INVALID_PARAMETER, remark));
    names::check_topic(name)?;
    refuse_system_topic(broker, name)?;
    for (key, count) in
        [("readQueueNums", config.read_queue_nums), ("writeQueueNums", config.write_queue_nums)]
    {
        if !(0..=QUEUES_MAX).contains(&count) {
            return invalid(format!("{key} is {count}, expected 0 to {QUEUES_MAX}"));
        }
    }
    let perm = config.perm;
    if !(0..=PERM_MAX).contains(&perm) {
        return invalid(format!("perm is {perm}, expected 0 to {PERM_MAX} (4 read, 2 write, 1 inherit)"));
    }
    let filter_type = config.topic_filter_type.as_str();
    if !FILTER_TYPES.contains(&filter_type) {
        // Code 1, because Java fails to decode the value (`CreateTopicRequestHeader.getTopicFilterTypeEnum`).
        let expected = FILTER_TYPES.join(" or ");
        return Err(Refusal::error(format!("topicFilterType is {filter_type:?}, expected {expected}")));
    }
    Ok(())
}

fn refuse_system_topic(broker: &Broker, name: &str) -> Result<(), Refusal> {
    if !is_system_topic(broker, name) {
        return Ok(());
    }
    let remark = format!("The topic[{name}] is conflict with system topic.");
    Err(Refusal::new(response::INVALID_PARAMETER, remark))
}

/// 215 `DELETE_TOPIC_IN_BROKER`: removes the topic, its queues, the pop retry topics of its groups and the groups' offsets in it.
/// The topic's messages stay in the commit log until their files expire.
pub(crate) fn delete_topic(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let name = command.fields.need("topic")?;
    refuse_system_topic(broker, name)?;
    let groups = broker.offsets.groups_of(name);
    // Offsets of groups in a topic that does not exist: a crash interrupted an earlier deletion of the topic.
    if broker.topics.find(name).is_none() && groups.is_empty() {
        return Ok(Answer::success());
    }
    let retries = groups.iter().flat_map(|group| pop_retry_topics(broker, name, group));
    let names = std::iter::once(name.to_owned()).chain(retries);
    let change = Change { topics: names.map(TopicChange::Remove).collect(), groups: Vec::new() };
    // The request is answered, not served again: a topic made under the name meanwhile is another topic.
    Err(Refusal::answer_after(change, Answer::success()))
}

/// The retry topics by which popped messages of `topic` come back to `group`. The name of the older form may also be the retry
/// topic of a group called `<group>_<topic>`; when that group exists, its topic is kept, unlike in Java.
fn pop_retry_topics(broker: &Broker, topic: &str, group: &str) -> impl Iterator<Item = String> {
    let is_shared = broker.groups.find(&format!("{group}_{topic}")).is_some();
    let older = (!is_shared).then(|| Kind::RetryV1.topic(topic, group));
    let names = [Some(Kind::RetryV2.topic(topic, group)), older];
    names.into_iter().flatten().filter(move |name| broker.topics.find(name).is_some())
}

/// 21 `GET_ALL_TOPIC_CONFIG`: all topics, or one page of them when the request gives a page size (`maxTopicNum`).
pub(crate) fn all_topics(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let first: usize = command.fields.number_or("topicSeq", 0)?;
    let count: i64 = command.fields.number_or("maxTopicNum", -1)?;
    let (data_version, topics) = broker.topics.snapshot();
    let page = match usize::try_from(count) {
        Ok(count) => topics.iter().skip(first).take(count).collect::<Vec<_>>(),
        Err(_) => topics.iter().collect(),
    };
    let topic_config_table = page.iter().map(|topic| (topic.name(), Cow::Borrowed(&topic.config))).collect();
    let body = TopicsBody { data_version, topic_config_table, ..Default::default() };
    Ok(Answer::success().field("totalTopicNum", topics.len()).body(json::to_vec(&body)))
}

/// 351 `GET_TOPIC_CONFIG`: the configuration of one topic.
pub(crate) fn topic(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let name = command.fields.need("topic")?;
    match broker.topics.find(name) {
        Some(topic) => Ok(Answer::success().body(json::to_vec(&topic.config))),
        None => {
            let remark = format!("No topic in this broker. topic: {name}{FAQ}");
            Err(Refusal::new(response::TOPIC_NOT_EXIST, remark))
        }
    }
}

/// 28 `GET_BROKER_RUNTIME_INFO`: the runtime table.
pub(crate) fn runtime(broker: &Broker) -> Result<Answer, Refusal> {
    let mut table = stats::table(broker);
    table.extend(retention::status(broker));
    table.extend(broker.status().into_iter().map(|(key, value)| (key.to_owned(), value)));
    let body = serde_json::json!({ "table": table });
    Ok(Answer::success().body(body.to_string().into_bytes()))
}

#[cfg(test)]
mod tests;
