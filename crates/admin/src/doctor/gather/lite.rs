//! Gathers the progress of consumer groups in lite topics.

use super::masters;
use crate::Session;
use crate::doctor::bundle::{Broker, Bundle, LiteProgress};
use crate::request::{Request, body};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use wire::codes::request;

/// Lite topics with lag that are looked at, for each broker and group.
const TOP: usize = 20;

/// The answer to `GET_BROKER_LITE_INFO` (`GetBrokerLiteInfoResponseBody`).
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct BrokerInfo {
    group_meta: BTreeMap<String, BTreeSet<String>>,
}

/// The answer to `GET_LITE_GROUP_INFO` (`GetLiteGroupInfoResponseBody`).
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GroupInfo {
    lag_count_top_k: Vec<Lag>,
    lag_timestamp_top_k: Vec<Lag>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Lag {
    lite_topic: String,
    lag_count: i64,
    earliest_unconsumed_timestamp: i64,
}

/// The answer to `GET_LITE_TOPIC_INFO` (`GetLiteTopicInfoResponseBody`).
#[derive(Deserialize, Default)]
#[serde(default)]
struct TopicInfo {
    subscriber: Vec<Subscriber>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Subscriber {
    group: String,
}

/// The lite topics with the most lag of each group at each master. `None` if no master serves lite topics.
pub(super) async fn gather(session: &Session, bundle: &Bundle) -> Option<Vec<LiteProgress>> {
    let mut rows = None;
    for broker in masters(bundle) {
        let about = ask::<BrokerInfo>(session, broker, Request::new(request::GET_BROKER_LITE_INFO)).await;
        let Some(about) = about else { continue };
        let rows = rows.get_or_insert_with(Vec::new);
        for (parent, group) in
            about.group_meta.iter().flat_map(|(parent, groups)| groups.iter().map(move |it| (parent, it)))
        {
            rows.extend(progress(session, broker, parent, group).await);
        }
    }
    rows
}

/// The lite topics of a group with the most lag at a broker.
async fn progress(session: &Session, broker: &Broker, parent: &str, group: &str) -> Vec<LiteProgress> {
    let most = Request::new(request::GET_LITE_GROUP_INFO).with("group", group).with("topK", TOP);
    let about: GroupInfo = ask(session, broker, most).await.unwrap_or_default();
    let lags = about.lag_count_top_k.into_iter().chain(about.lag_timestamp_top_k);
    let lags: BTreeMap<String, Lag> = lags.map(|lag| (lag.lite_topic.clone(), lag)).collect();
    let mut rows = Vec::new();
    for (lite_topic, lag) in lags {
        let of_topic = Request::new(request::GET_LITE_TOPIC_INFO)
            .with("parentTopic", parent)
            .with("liteTopic", &lite_topic);
        let about: Option<TopicInfo> = ask(session, broker, of_topic).await;
        rows.push(LiteProgress {
            broker: broker.name.clone(),
            parent: parent.to_owned(),
            group: group.to_owned(),
            lite_topic,
            lag: lag.lag_count,
            first_ms: Some(lag.earliest_unconsumed_timestamp).filter(|ms| *ms > 0),
            is_subscribed: about.map(|about| about.subscriber.iter().any(|it| it.group == group)),
        });
    }
    rows
}

async fn ask<T: DeserializeOwned>(session: &Session, broker: &Broker, request: Request) -> Option<T> {
    body(&broker.address, &session.look(&broker.address, &request).await.ok()?).ok()
}
