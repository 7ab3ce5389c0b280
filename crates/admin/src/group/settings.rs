//! The settings of groups.

use super::policy_text;
use crate::operation::Typed;
use crate::pages::Page;
use crate::stats::{GroupTable, group_tables};
use crate::{Arguments, Error, Lag, Session};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A setting of a group on a broker.
#[derive(Serialize)]
pub struct GroupSetting {
    /// Cluster of the broker.
    pub cluster: String,
    /// Name of the broker set.
    pub broker: String,
    /// Name of the setting.
    pub key: String,
    /// Value of the setting.
    pub value: Value,
}

impl Typed for Vec<GroupSetting> {
    fn mqadmin(&self, _: &Arguments) -> String {
        let mut out = String::new();
        let mut shown = ("", "");
        for GroupSetting { cluster, broker, key, value } in self {
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

    fn missing(&self, arguments: &Arguments) -> Option<String> {
        let group = arguments.get("group").unwrap_or_default();
        self.is_empty().then(|| format!("no broker has settings of the group {group}"))
    }
}

/// A group and the broker sets that have its settings.
#[derive(Clone, Debug, Serialize)]
pub struct GroupName {
    /// Name of the group.
    pub group: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    brokers: Vec<String>,
    /// Figures of a page; absent if a broker is not of Vostok.
    #[serde(flatten)]
    pub figures: Option<GroupFigures>,
}

/// Figures of a group in a page of the groups of brokers of Vostok.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct GroupFigures {
    /// Members that are connected.
    pub members: i64,
    /// Topics of which the group has offsets.
    pub topics: i64,
    /// Messages that the group has not consumed.
    pub lag: i64,
    /// Age of the first message that the group has not consumed; absent if the page is in the order of names.
    #[serde(flatten)]
    pub time_behind: Option<Lag>,
}

/// A row of a broker's list of groups.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BrokerGroupRow {
    group: String,
    members: i64,
    topics: i64,
    lag: i64,
    /// Store time of the first message that the group has not consumed, in ms since the epoch; absent if the time is unknown.
    unconsumed_timestamp: Option<i64>,
    #[serde(default)]
    unconsumed_is_bound: bool,
}

/// A page of the groups. Each master has its own part of a group's messages, so the lags are added up. Members are
/// connected to all masters, so the largest number counts.
async fn page(session: &Session, page: Page<'_>) -> Result<Vec<GroupName>, Error> {
    let Some(answered) = page.ask::<BrokerGroupRow>(session, "groups").await? else {
        let names = page.of_names(all_names(session).await?.into_iter().map(|row| row.group))?;
        return Ok(names
            .into_iter()
            .map(|group| GroupName { group, brokers: Vec::new(), figures: None })
            .collect());
    };
    let is_by_lag = !page.is_by_name();
    let mut rows: BTreeMap<String, GroupFigures> = BTreeMap::new();
    for BrokerGroupRow { group, members, topics, lag, unconsumed_timestamp, unconsumed_is_bound } in answered
    {
        let row = rows.entry(group).or_default();
        row.members = row.members.max(members);
        row.topics = row.topics.max(topics);
        row.lag += lag;
        if is_by_lag {
            let of_broker = match unconsumed_timestamp {
                _ if lag <= 0 => Lag::NOTHING,
                Some(stored_ms) => Lag::since(stored_ms, unconsumed_is_bound, session.now_ms),
                None => Lag::default(),
            };
            row.time_behind = Some(Lag::largest(row.time_behind.into_iter().chain([of_broker])));
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    if is_by_lag {
        rows.sort_by_key(|(_, figures)| std::cmp::Reverse(figures.lag));
    }
    rows.truncate(page.limit());
    let row = |(group, figures)| GroupName { group, brokers: Vec::new(), figures: Some(figures) };
    Ok(rows.into_iter().map(row).collect())
}

impl Typed for Vec<GroupName> {}

pub(super) async fn names(session: &Session, arguments: &Arguments) -> Result<Vec<GroupName>, Error> {
    match Page::of(arguments)? {
        Some(wanted) => page(session, wanted).await,
        None => all_names(session).await,
    }
}

/// The groups of all masters that answer.
async fn all_names(session: &Session) -> Result<Vec<GroupName>, Error> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for GroupTable { broker, groups: table, .. } in group_tables(session).await? {
        for group in table.subscription_group_table.into_keys() {
            groups.entry(group).or_default().push(broker.clone());
        }
    }
    Ok(groups.into_iter().map(|(group, brokers)| GroupName { group, brokers, figures: None }).collect())
}

/// Whether a broker's settings of a group forbid it to consume.
pub(super) fn is_disabled(settings: &[GroupSetting]) -> bool {
    settings.iter().any(|row| row.key == "consumeEnable" && row.value == Value::Bool(false))
}

pub(super) async fn config(session: &Session, arguments: &Arguments) -> Result<Vec<GroupSetting>, Error> {
    let group = arguments.need("group")?;
    let mut settings = Vec::new();
    for GroupTable { cluster, broker, mut groups, .. } in group_tables(session).await? {
        let Some(config) = groups.subscription_group_table.remove(group) else { continue };
        let Ok(Value::Object(values)) = serde_json::to_value(config) else { continue };
        settings.extend(values.into_iter().map(|(key, value)| GroupSetting {
            cluster: cluster.clone(),
            broker: broker.clone(),
            key,
            value,
        }));
    }
    Ok(settings)
}
