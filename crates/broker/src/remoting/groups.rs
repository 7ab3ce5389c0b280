//! Requests about groups: 200, 201, 225 and 353 (`AdminBrokerProcessor`).

use serde::Deserialize;
use serde_json::json;
use wire::body::SubscriptionGroupConfig;

use super::answer::Answer;
use super::codec::{done, json, strict_json};
use super::incoming::Request;
use crate::groups::{self, ForbidTopic};
use crate::{Result, admin};

/// 200 `UPDATE_AND_CREATE_SUBSCRIPTIONGROUP`: changes nothing without a body.
pub(super) fn put(r: &Request<'_>) -> Result<Answer> {
    r.body_if()?.map_or(Ok(()), groups::put_group).map(done)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Groups {
    pub group_config_list: Vec<SubscriptionGroupConfig>,
}

/// 225 `UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST`.
pub(super) fn put_list(r: &Request<'_>) -> Result<Answer> {
    let Groups { group_config_list } = r.body()?;
    admin::put_groups(group_config_list).map(done)
}

/// 201 `GET_ALL_SUBSCRIPTIONGROUP_CONFIG`: all groups, or a page of them if the request has a page size.
pub(super) fn all(r: &Request<'_>) -> Result<Answer> {
    let (first, count) = r.page("groupSeq", "maxGroupNum")?;
    let (total, table) = groups::page(&r.broker.tables.groups, first, count);
    Ok(json(table).field("totalGroupNum", total))
}

/// 353 `UPDATE_AND_GET_GROUP_FORBIDDEN`. The topic is needed only for closing or opening it.
pub(super) fn forbid(r: &Request<'_>) -> Result<Answer> {
    let (group, readable) = (r.need("group")?, r.flag_if("readable"));
    let topic = if readable.is_some() { r.need("topic")? } else { r.text_or_empty("topic")? };
    let request = ForbidTopic { group, topic, readable };
    let mut body = json!({ "group": group, "readable": groups::forbid(&r.broker.tables.groups, &request)? });
    if !topic.is_empty() {
        body["topic"] = topic.into();
    }
    Ok(strict_json(body))
}
