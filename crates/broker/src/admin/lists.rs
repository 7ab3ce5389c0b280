//! Requests 18 and 225, which create or change many topics or groups. The whole list is stored with one write, or not at all.
//! Java changes nothing when one entry already is as requested; here that entry is left alone and the others are changed.

use serde::Deserialize;
use wire::body::{SubscriptionGroupConfig, TopicConfig};
use wire::frame::Command;
use wire::json;

use super::check_topic;
use crate::broker::Broker;
use crate::groups::{GroupChange, check_group};
use crate::metadata_writer::Change;
use crate::topics::{TopicChange, attributes};
use crate::{Answer, Refusal};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Topics {
    topic_config_list: Vec<TopicConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Groups {
    group_config_list: Vec<SubscriptionGroupConfig>,
}

/// 18 `UPDATE_AND_CREATE_TOPIC_LIST`: creates or changes the listed topics.
pub(crate) fn put_topics(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let Topics { topic_config_list } = json::from_slice(command.body)?;
    let mut topics = Vec::new();
    for mut config in topic_config_list {
        check_topic(broker, &config)?;
        // The attribute names of the body begin with the sign of an alteration: `+` sets, `-` removes.
        let text = |(name, value): (&String, &String)| match name.strip_prefix('-') {
            Some(_) => name.clone(),
            None => format!("{name}={value}"),
        };
        let text: Vec<String> = config.attributes.iter().map(text).collect();
        config.attributes.clear();
        let alterations = attributes::parse(&text.join(","))?;
        tracing::info!(topic = config.topic_name, "topic created or changed");
        topics.push(TopicChange::Put(config, alterations));
    }
    answer(Change { topics, groups: Vec::new() })
}

/// 225 `UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST`: creates or changes the listed groups.
pub(crate) fn put_groups(command: &Command<'_>) -> Result<Answer, Refusal> {
    let Groups { group_config_list } = json::from_slice(command.body)?;
    for config in &group_config_list {
        check_group(config)?;
    }
    let groups = group_config_list.into_iter().map(|config| GroupChange::Put(Box::new(config))).collect();
    answer(Change { topics: Vec::new(), groups })
}

fn answer(change: Change) -> Result<Answer, Refusal> {
    if change == Change::default() {
        return Ok(Answer::success());
    }
    Err(Refusal::answer_after(change, Answer::success()))
}
