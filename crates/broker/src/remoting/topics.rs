//! Requests about topics: 17, 18 and 21 (`AdminBrokerProcessor`).

use std::borrow::Cow;

use serde::Deserialize;
use wire::body::topic::TopicConfig;

use super::answer::Answer;
use super::codec::{done, json};
use super::incoming::Request;
use crate::register::TopicsBody;
use crate::topics::attributes;
use crate::{Result, admin};

/// 17 `UPDATE_AND_CREATE_TOPIC`.
pub(super) fn put(r: &Request<'_>) -> Result<Answer> {
    let name = r.need("topic")?;
    let alterations = attributes::parse(r.text("attributes").unwrap_or_default())?;
    let config = TopicConfig {
        topic_name: name.to_owned(),
        read_queue_nums: r.number("readQueueNums")?,
        write_queue_nums: r.number("writeQueueNums")?,
        perm: r.number("perm")?,
        topic_filter_type: r.text("topicFilterType").unwrap_or("SINGLE_TAG").to_owned(),
        topic_sys_flag: r.number_or("topicSysFlag", 0)?,
        order: r.flag_or("order", false),
        ..TopicConfig::default()
    };
    admin::put_topic(&r.broker.delivery, &r.broker.runtime, config, alterations).map(done)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Topics {
    pub topic_config_list: Vec<TopicConfig>,
}

/// 18 `UPDATE_AND_CREATE_TOPIC_LIST`.
pub(super) fn put_list(r: &Request<'_>) -> Result<Answer> {
    let Topics { topic_config_list } = r.body()?;
    admin::put_topics(&r.broker.delivery, &r.broker.runtime, topic_config_list).map(done)
}

/// 21 `GET_ALL_TOPIC_CONFIG`: all topics, or a page of them if the request has a page size.
pub(super) fn all(r: &Request<'_>) -> Result<Answer> {
    let (first, count) = r.page("topicSeq", "maxTopicNum")?;
    let (data_version, topics) = r.broker.tables.topics.snapshot_page(first, count.unwrap_or(usize::MAX));
    let table = topics.iter().map(|topic| (topic.name(), Cow::Borrowed(&topic.config))).collect();
    let body = TopicsBody { data_version, topic_config_table: table, ..Default::default() };
    Ok(json(body).field("totalTopicNum", r.broker.tables.topics.count()))
}
