//! Requests about groups: 200, 201, 225 and 353 (`AdminBrokerProcessor`).

use serde::Deserialize;
use serde_json::json;
use wire::body::SubscriptionGroupConfig;

use super::answer::Answer;
use super::codec::{done, json, strict_json};
use super::incoming::Request;
use crate::groups::{self, ForbidTopic};
use crate::{Refusal, admin};

/// 200 `UPDATE_AND_CREATE_SUBSCRIPTIONGROUP`.
pub(super) fn put(r: &Request<'_>) -> Result<Answer, Refusal> {
    groups::put_group(r.body()?).map(done)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Groups {
    pub group_config_list: Vec<SubscriptionGroupConfig>,
}

/// 225 `UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST`.
pub(super) fn put_list(r: &Request<'_>) -> Result<Answer, Refusal> {
    let Groups { group_config_list } = r.body()?;
    admin::put_groups(group_config_list).map(done)
}

/// 201 `GET_ALL_SUBSCRIPTIONGROUP_CONFIG`: all groups, or one page of them when the request gives a page size.
pub(super) fn all(r: &Request<'_>) -> Result<Answer, Refusal> {
    let (first, count) = r.page("groupSeq", "maxGroupNum")?;
    let (total, table) = groups::page(&r.broker.groups, first, count);
    Ok(json(table).field("totalGroupNum", total))
}

/// 353 `UPDATE_AND_GET_GROUP_FORBIDDEN`.
pub(super) fn forbid(r: &Request<'_>) -> Result<Answer, Refusal> {
    let (group, topic) = (r.need("group")?, r.need("topic")?);
    let request = ForbidTopic { group, topic, readable: r.flag_if("readable") };
    let readable = groups::forbid(&r.broker.groups, &request)?;
    Ok(strict_json(json!({ "group": group, "readable": readable, "topic": topic })))
}
