//! Creation or change of many topics or groups. The whole list is stored with one write, or not at all. Java changes
//! nothing if an entry is already as requested. Here that entry stays and the other entries change.

use wire::body::{SubscriptionGroupConfig, TopicConfig};

use super::check_topic;
use crate::change::Change;
use crate::change::GroupChange;
use crate::change::TopicChange;
use crate::groups::check_group;
use crate::parts::{Delivery, Runtime};
use crate::topics::attributes;
use crate::{Refusal, Result};

/// Creates or changes topics. The attributes of each configuration are alterations: a name begins with `+`, which sets, or `-`,
/// which removes.
pub(crate) fn put_topics(delivery: &Delivery, runtime: &Runtime, list: Vec<TopicConfig>) -> Result<()> {
    let mut topics = Vec::new();
    for mut config in list {
        check_topic(delivery, runtime, &config)?;
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
    make(Change { topics, groups: Vec::new() })
}

/// Creates or changes groups.
pub(crate) fn put_groups(list: Vec<SubscriptionGroupConfig>) -> Result<()> {
    for config in &list {
        check_group(config)?;
    }
    let groups = list.into_iter().map(|config| GroupChange::Put(Box::new(config))).collect();
    make(Change { topics: Vec::new(), groups })
}

fn make(change: Change) -> Result<()> {
    if change == Change::default() {
        return Ok(());
    }
    Err(Refusal::done_after(change))
}
