//! The settings of groups.

use super::policy_text;
use crate::operation::Typed;
use crate::request::{Request, body};
use crate::{Arguments, Error, Session};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::body::SubscriptionGroupTable;
use wire::codes::request;

/// A setting of a group on a broker.
#[derive(Serialize)]
pub(super) struct Setting {
    cluster: String,
    broker: String,
    key: String,
    value: Value,
}

impl Typed for Vec<Setting> {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut out = String::new();
        let mut shown = ("", "");
        for Setting { cluster, broker, key, value } in self {
            if shown != (cluster.as_str(), broker.as_str()) {
                shown = (cluster, broker);
                let rule = "=".repeat(29);
                let _ = writeln!(out, "{rule}{cluster}:{broker}{rule}");
            }
            let value = match (key.as_str(), value) {
                ("groupRetryPolicy", policy) => policy_text(policy),
                (_, Value::Null) => String::new(),
                (_, Value::String(text)) => text.clone(),
                (_, other) => other.to_string(),
            };
            let _ = writeln!(out, "{key:<40}=  {value}");
        }
        out
    }
}

/// A group and the broker sets that have its settings.
#[derive(Serialize)]
pub(super) struct GroupName {
    group: String,
    brokers: Vec<String>,
}

impl Typed for Vec<GroupName> {
    fn mqadmin(&self, _: &Arguments) -> String {
        self.iter().map(|row| row.group.clone() + "\n").collect()
    }
}

/// The groups of all masters. A master that does not answer is passed over unless none answers.
pub(super) async fn names(session: &Session) -> Result<Vec<GroupName>, Error> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut is_known, mut failure) = (false, None);
    for member in session.members(None).await?.into_iter().filter(|member| member.id == 0) {
        let ask = Request::new(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG);
        let reply = session.look(&member.address, &ask).await;
        match reply.and_then(|reply| body::<SubscriptionGroupTable>(&member.address, &reply)) {
            Ok(table) => {
                is_known = true;
                for group in table.subscription_group_table.into_keys() {
                    groups.entry(group).or_default().push(member.name.clone());
                }
            }
            Err(why) => failure = Some(why),
        }
    }
    match failure {
        Some(why) if !is_known => Err(why),
        _ => Ok(groups.into_iter().map(|(group, brokers)| GroupName { group, brokers }).collect()),
    }
}

pub(super) async fn config(session: &Session, arguments: &Arguments) -> Result<Vec<Setting>, Error> {
    let group = arguments.need("group")?;
    let mut settings = Vec::new();
    for member in session.members(None).await?.into_iter().filter(|member| member.id == 0) {
        let address = &member.address;
        // Not request 352, which may create a group that does not exist.
        let ask = Request::new(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG);
        let mut table: SubscriptionGroupTable = body(address, &session.look(address, &ask).await?)?;
        let Some(config) = table.subscription_group_table.remove(group) else { continue };
        let Ok(Value::Object(values)) = serde_json::to_value(config) else { continue };
        settings.extend(values.into_iter().map(|(key, value)| Setting {
            cluster: member.cluster.clone(),
            broker: member.name.clone(),
            key,
            value,
        }));
    }
    Ok(settings)
}
