//! Operators' requests about groups (`AdminBrokerProcessor`).

use std::sync::Arc;

use wire::body::{SubscriptionGroupConfig, SubscriptionGroupTable};
use wire::codes::response;

use super::{GroupChange, Groups};
use crate::{Refusal, Result, names};

/// Creates a group, or changes it to `config`.
pub(crate) fn put_group(config: SubscriptionGroupConfig) -> Result<()> {
    check_group(&config)?;
    Err(Refusal::done_after(GroupChange::Put(Box::new(config))))
}

/// Returns the configuration of a group, or refuses the request if the group does not exist.
pub(crate) fn found(group: Option<Arc<SubscriptionGroupConfig>>) -> Result<Arc<SubscriptionGroupConfig>> {
    group.ok_or_else(|| Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker"))
}

/// The number of all groups, and at most `count` of them behind the first `first`; with `None` all.
pub(crate) fn page(groups: &Groups, first: usize, count: Option<usize>) -> (usize, SubscriptionGroupTable) {
    let mut table = groups.snapshot();
    let total = table.subscription_group_table.len();
    if let Some(count) = count {
        let all = std::mem::take(&mut table.subscription_group_table);
        table.subscription_group_table = all.into_iter().skip(first).take(count).collect();
        table.forbidden_table.retain(|group, _| table.subscription_group_table.contains_key(group));
    }
    (total, table)
}

/// Deletes a group, or the remaining offsets of a group that does not exist.
pub(crate) fn delete_group(group: &str, clean_offsets: bool) -> Result<()> {
    let group = group.to_owned();
    Err(Refusal::done_after(GroupChange::Remove { group, clean_offsets }))
}

/// Whether a group may read a topic.
pub(crate) struct ForbidTopic<'a> {
    pub group: &'a str,
    pub topic: &'a str,
    /// Whether the group may read the topic from now on. `None` leaves the permission unchanged.
    pub readable: Option<bool>,
}

/// Closes a topic for a group, opens it, or only returns whether the group may read it. Unlike in Java, the group
/// must exist, and opening a topic leaves the group's other topics unchanged
/// (`SubscriptionGroupManager.updateForbidden`).
pub(crate) fn forbid(groups: &Groups, request: &ForbidTopic<'_>) -> Result<bool> {
    let ForbidTopic { group, topic, .. } = *request;
    names::check_length("topic", topic, names::DERIVED_TOPIC_LENGTH_MAX)?;
    found(groups.find(group))?;
    let readable = !groups.is_read_forbidden(group, topic);
    let wanted = request.readable.unwrap_or(readable);
    if wanted != readable {
        let (group, topic) = (group.to_owned(), topic.to_owned());
        return Err(Refusal::after(GroupChange::Forbid { group, topic, readable: wanted }));
    }
    Ok(readable)
}

/// Checks that a group may be created with, or changed to, this configuration.
pub(crate) fn check_group(config: &SubscriptionGroupConfig) -> Result<()> {
    let name = config.group_name.as_deref().unwrap_or_default();
    names::check_group(name)?;
    check_numbers(name, config)
}

fn check_numbers(name: &str, config: &SubscriptionGroupConfig) -> Result<()> {
    const QUEUES_MAX: i32 = 65_535;
    let refuse = |member: &str, value: i32, range: &str| {
        let remark = format!("group[{name}] {member} is {value}, expected {range}");
        Err(Refusal::new(response::INVALID_PARAMETER, remark))
    };
    if !(0..=QUEUES_MAX).contains(&config.retry_queue_nums) {
        return refuse("retryQueueNums", config.retry_queue_nums, "0 to 65535");
    }
    // Java takes -1 for the default of its clients.
    if config.retry_max_times < -1 {
        return refuse("retryMaxTimes", config.retry_max_times, "-1 or more");
    }
    Ok(())
}
