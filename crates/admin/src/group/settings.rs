//! The settings of groups.

use super::policy_text;
use crate::operation::Typed;
use crate::request::{Request, body};
use crate::{Arguments, Error, Session};
use serde::Serialize;
use serde_json::Value;
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
