//! Requests about groups: 200, 201, 207, 352 (`AdminBrokerProcessor`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use wire::body::SubscriptionGroupConfig;
use wire::codes::response;
use wire::frame::Command;
use wire::json;

use super::{GroupChange, Groups};
use crate::{Answer, Refusal, names};

/// 200 `UPDATE_AND_CREATE_SUBSCRIPTIONGROUP`.
pub(crate) fn update_group(command: &Command<'_>) -> Result<Answer, Refusal> {
    let config: SubscriptionGroupConfig = json::from_slice(command.body)?;
    check_group(&config)?;
    Err(Refusal::answer_after(GroupChange::Put(Box::new(config)), Answer::success()))
}

/// 352 `GET_SUBSCRIPTIONGROUP_CONFIG`. Proxies ask before the first client of a group comes, so `find` creates the group where
/// the first use of a group may create it (`AdminBrokerProcessor.getSubscriptionGroup`).
pub(crate) fn get_group(
    find: impl FnOnce(&str) -> Result<Option<Arc<SubscriptionGroupConfig>>, Refusal>,
    command: &Command<'_>,
) -> Result<Answer, Refusal> {
    let config = find(command.fields.need("group")?)?
        .ok_or_else(|| Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker"))?;
    Ok(Answer::success().body(json::to_vec(&*config)))
}

/// 201 `GET_ALL_SUBSCRIPTIONGROUP_CONFIG`: all groups, or one page of them when the request gives a page size.
pub(crate) fn all_groups(groups: &Groups, command: &Command<'_>) -> Result<Answer, Refusal> {
    let first: usize = command.fields.number_or("groupSeq", 0)?;
    let count: i64 = command.fields.number_or("maxGroupNum", -1)?;
    let mut table = groups.snapshot();
    let total = table.subscription_group_table.len();
    if let Ok(count) = usize::try_from(count) {
        let all = std::mem::take(&mut table.subscription_group_table);
        table.subscription_group_table = all.into_iter().skip(first).take(count).collect();
        table.forbidden_table.retain(|group, _| table.subscription_group_table.contains_key(group));
    }
    Ok(Answer::success().field("totalGroupNum", total).body(json::to_vec(&table)))
}

/// 207 `DELETE_SUBSCRIPTIONGROUP`: served also for a group that does not exist, whose offsets may still be there.
pub(crate) fn delete_group(command: &Command<'_>) -> Result<Answer, Refusal> {
    let group = command.fields.need("groupName")?.to_owned();
    let clean_offsets = command.fields.flag_or("cleanOffset", false);
    Err(Refusal::answer_after(GroupChange::Remove { group, clean_offsets }, Answer::success()))
}

/// 353 `UPDATE_AND_GET_GROUP_FORBIDDEN`: closes a topic for a group, opens it, or only reports. Unlike in Java, the group must
/// exist, and opening one topic leaves the group's other topics as they are (`SubscriptionGroupManager.updateForbidden`).
pub(crate) fn forbid(groups: &Groups, command: &Command<'_>) -> Result<Answer, Refusal> {
    let (group, topic) = (command.fields.need("group")?, command.fields.need("topic")?);
    names::check_length("topic", topic, names::DERIVED_TOPIC_LENGTH_MAX)?;
    if groups.find(group).is_none() {
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker"));
    }
    let readable = !groups.is_read_forbidden(group, topic);
    let wanted = command.fields.flag_or("readable", readable);
    if wanted != readable {
        let (group, topic) = (group.to_owned(), topic.to_owned());
        return Err(Refusal::after(GroupChange::Forbid { group, topic, readable: wanted }));
    }
    let body = json!({ "group": group, "readable": readable, "topic": topic });
    Ok(Answer::success().body(body.to_string().into_bytes()))
}

/// Checks that a group may be created with, or changed to, this configuration.
pub(crate) fn check_group(config: &SubscriptionGroupConfig) -> Result<(), Refusal> {
    let name = config.group_name.as_deref().unwrap_or_default();
    names::check_group(name)?;
    check_numbers(name, config)
}

fn check_numbers(name: &str, config: &SubscriptionGroupConfig) -> Result<(), Refusal> {
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

/// The attributes after the alterations of a request: `+name` sets, `-name` removes (`AttributeUtil.alterCurrentAttributes`). A
/// name without a sign sets as well, because the files hold names in this form; Java refuses it.
pub(super) fn altered(
    mut known: BTreeMap<String, String>,
    changes: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Refusal> {
    for (change, value) in changes {
        let name = change.strip_prefix(['+', '-']).unwrap_or(change);
        if name.is_empty() {
            let remark = format!("attribute name {change:?} is empty, expected +name or -name");
            return Err(Refusal::new(response::INVALID_PARAMETER, remark));
        }
        if change.starts_with('-') {
            known.remove(name);
        } else {
            known.insert(name.to_owned(), value.clone());
        }
    }
    Ok(known)
}
