//! Topics: one configuration, the table in `topics.json`, and the compact text form.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{DataVersion, Extra, TopicQueueMapping};
use crate::json;

/// Permission bit: consumers may read.
pub const PERM_READ: i32 = 4;
/// Permission bit: producers may write.
pub const PERM_WRITE: i32 = 2;
/// Permission bit: the topic serves as a template for topics created on first send.
pub const PERM_INHERIT: i32 = 1;

/// Configuration of a topic on a broker (`org.apache.rocketmq.common.TopicConfig`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfig {
    /// Attributes by name, without the `+` prefix of requests; for example `message.type` = `FIFO`.
    pub attributes: BTreeMap<String, String>,
    /// Whether the topic has an order configuration at the name server.
    pub order: bool,
    /// Permission bits: [`PERM_READ`], [`PERM_WRITE`], [`PERM_INHERIT`].
    pub perm: i32,
    /// Number of queues that consumers read.
    pub read_queue_nums: i32,
    /// Filter type, `SINGLE_TAG` or `MULTI_TAG`.
    pub topic_filter_type: String,
    /// Topic name.
    pub topic_name: String,
    /// Bit 0: unit topic, bit 1: unit subscription.
    pub topic_sys_flag: i32,
    /// Number of queues that producers write.
    pub write_queue_nums: i32,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            order: false,
            perm: PERM_READ | PERM_WRITE,
            read_queue_nums: 16,
            topic_filter_type: "SINGLE_TAG".to_owned(),
            topic_name: String::new(),
            topic_sys_flag: 0,
            write_queue_nums: 16,
            extra: Extra::new(),
        }
    }
}

impl TopicConfig {
    /// A topic with as many write as read queues and no flags.
    pub fn new(topic_name: impl Into<String>, queue_nums: i32, perm: i32) -> Self {
        Self {
            topic_name: topic_name.into(),
            read_queue_nums: queue_nums,
            write_queue_nums: queue_nums,
            perm,
            ..Self::default()
        }
    }

    /// Parses the space-separated text in compressed registrations (`TopicConfig.decode`); `None` with fewer than five words.
    ///
    /// The text contains neither `topicSysFlag` nor `order`.
    pub fn from_words(text: &str) -> Option<Self> {
        let mut words = text.splitn(6, ' ');
        let topic_name = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        let (read_queue_nums, write_queue_nums, perm) = (number()?, number()?, number()?);
        let topic_filter_type = words.next()?.to_owned();
        // RocketMQ ignores attributes that it cannot parse.
        let attributes = words.next().and_then(|text| json::from_str(text).ok()).unwrap_or_default();
        Some(Self {
            attributes,
            perm,
            read_queue_nums,
            topic_filter_type,
            topic_name,
            write_queue_nums,
            ..Self::default()
        })
    }
}

/// Writes the text used in compressed registrations (`TopicConfig.encode`).
impl fmt::Display for TopicConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            topic_name, read_queue_nums, write_queue_nums, perm, topic_filter_type, attributes, ..
        } = self;
        let attributes = String::from_utf8(json::to_vec(attributes)).map_err(|_| fmt::Error)?;
        write!(
            formatter,
            "{topic_name} {read_queue_nums} {write_queue_nums} {perm} {topic_filter_type} {attributes}"
        )
    }
}

/// The file `topics.json` (`TopicConfigSerializeWrapper` without the static-topic tables).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicTable {
    /// Data version of the table.
    pub data_version: DataVersion,
    /// Topics by name.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Topics and static-topic mappings (`TopicConfigAndMappingSerializeWrapper`): the response to
/// `GET_ALL_TOPIC_CONFIG` and the core of a registration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigSerializeWrapper {
    /// Data version of the topics.
    pub data_version: DataVersion,
    /// Data version of the static-topic mappings.
    pub mapping_data_version: DataVersion,
    /// Topics by name.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
    /// Static topics on this broker, with the mapping items of each queue.
    pub topic_queue_mapping_detail_map: BTreeMap<String, serde_json::Value>,
    /// Static topics on this broker, as clients see them.
    pub topic_queue_mapping_info_map: BTreeMap<String, TopicQueueMapping>,
}
