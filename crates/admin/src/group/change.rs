//! Changes of groups: creation and deletion.

use super::policy_text;
use crate::operation::{Typed, Written, change_each};
use crate::request::Request;
use crate::stats::{self, CreatedConfig};
use crate::{Arguments, Error, Session};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wire::body::SubscriptionGroupConfig;
use wire::codes::request;
use wire::json;
use wire::names::{DLQ_PREFIX, RETRY_PREFIX};

impl Typed for CreatedConfig<SubscriptionGroupConfig> {
    fn mqadmin(&self, _: &Arguments) -> String {
        let created = self.brokers.iter().fold(String::new(), |mut out, broker| {
            let _ = writeln!(out, "create subscription group to {broker} success.");
            out
        });
        format!("{created}{}\n", config_text(&self.config))
    }
}

/// A group as `SubscriptionGroupConfig.toString` writes it.
fn config_text(config: &SubscriptionGroupConfig) -> String {
    let attributes: Vec<_> = config.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!(
        "SubscriptionGroupConfig{{groupName={}, consumeEnable={}, consumeFromMinEnable={}, consumeBroadcastEnable={}, \
         consumeMessageOrderly={}, retryQueueNums={}, retryMaxTimes={}, groupRetryPolicy={}, brokerId={}, \
         whichBrokerWhenConsumeSlowly={}, notifyConsumerIdsChangedEnable={}, groupSysFlag={}, \
         consumeTimeoutMinute={}, subscriptionDataSet=null, attributes={{{}}}}}",
        config.group_name.as_deref().unwrap_or_default(),
        config.consume_enable,
        config.consume_from_min_enable,
        config.consume_broadcast_enable,
        config.consume_message_orderly,
        config.retry_queue_nums,
        config.retry_max_times,
        policy_text(&config.group_retry_policy),
        config.broker_id,
        config.which_broker_when_consume_slowly,
        config.notify_consumer_ids_changed_enable,
        config.group_sys_flag,
        config.consume_timeout_minute,
        attributes.join(", ")
    )
}

/// The settings of a group as the arguments say. Consuming from the minimum offset and in broadcast mode are off unless
/// asked for, unlike on the server (`UpdateSubGroupSubCommand`).
fn config(arguments: &Arguments) -> Result<SubscriptionGroupConfig, Error> {
    let plain = SubscriptionGroupConfig::new(arguments.need("group")?);
    let flag = |name: &str, default: bool| arguments.get(name).map_or(default, |_| arguments.is_on(name));
    let policy = arguments.get("retry-policy").map(|text| {
        let why = |why| Error::Usage(format!("expected the retry policy as JSON: {why}"));
        serde_json::from_str(text).map_err(why)
    });
    Ok(SubscriptionGroupConfig {
        consume_enable: flag("enable", true),
        consume_from_min_enable: flag("from-min", false),
        consume_broadcast_enable: flag("broadcast", false),
        consume_message_orderly: flag("orderly", false),
        retry_queue_nums: arguments.parse("retry-queues")?.unwrap_or(plain.retry_queue_nums),
        retry_max_times: arguments.parse("retry-max")?.unwrap_or(plain.retry_max_times),
        group_retry_policy: policy.transpose()?.unwrap_or(plain.group_retry_policy.clone()),
        broker_id: arguments.parse("broker-id")?.unwrap_or(plain.broker_id),
        which_broker_when_consume_slowly: arguments
            .parse("slow-broker-id")?
            .unwrap_or(plain.which_broker_when_consume_slowly),
        notify_consumer_ids_changed_enable: flag("notify", true),
        group_sys_flag: arguments.parse("sys-flag")?.unwrap_or(plain.group_sys_flag),
        consume_timeout_minute: arguments.parse("consume-timeout")?.unwrap_or(plain.consume_timeout_minute),
        attributes: stats::attributes(arguments.get("attributes"))?,
        ..plain
    })
}

pub(super) async fn create(
    session: &Session,
    arguments: &Arguments,
) -> Result<CreatedConfig<SubscriptionGroupConfig>, Error> {
    let config = config(arguments)?;
    let brokers = session.masters(arguments).await?;
    let ask = Request::new(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).body(json::to_vec(&config));
    session.change_all(&brokers, &ask).await?;
    Ok(CreatedConfig { brokers, config })
}

pub(super) async fn create_list(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let list = stats::list_of_file::<SubscriptionGroupConfig>(arguments)?;
    let ask = Request::new(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
        .body(json::to_vec(&BTreeMap::from([("groupConfigList", list)])));
    let line = match arguments.get("broker") {
        Some(_) => "submit batch of group config to {} success, please check the result later.",
        None => "submit batch of subscription group config to {} success, please check the result later.",
    };
    change_each(session, &session.masters(arguments).await?, &ask, line).await
}

pub(super) async fn mode(session: &Session, arguments: &Arguments) -> Result<Written, Error> {
    let (topic, group) = (arguments.need("topic")?, arguments.need("group")?);
    let (mode, share) = (arguments.need("mode")?, arguments.parse::<i32>("share")?.unwrap_or_default());
    if !["PULL", "POP"].contains(&mode) {
        return Err(Error::Usage(format!("expected the mode PULL or POP, found {mode}")));
    }
    let setting =
        serde_json::json!({"consumerGroup": group, "mode": mode, "popShareQueueNum": share, "topic": topic});
    let ask = Request::new(request::SET_MESSAGE_REQUEST_MODE).body(setting.to_string());
    let brokers = session.masters(arguments).await?;
    let mut done = change_each(session, &brokers, &ask, "set consume mode to {} success.").await?;
    done.add(&format!("topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]\n"));
    Ok(done)
}

/// A group that was deleted.
#[derive(Serialize)]
pub(super) struct DeletedGroup {
    group: String,
    brokers: Vec<String>,
}

impl Typed for DeletedGroup {
    fn mqadmin(&self, arguments: &Arguments) -> String {
        let cluster = arguments.get("cluster").filter(|_| arguments.get("broker").is_none());
        let cluster = cluster.map(|cluster| format!(" in cluster [{cluster}]")).unwrap_or_default();
        self.brokers.iter().fold(String::new(), |mut out, broker| {
            let group = &self.group;
            let _ =
                writeln!(out, "delete subscription group [{group}] from broker [{broker}]{cluster} success.");
            out
        })
    }
}

pub(super) async fn delete(session: &Session, arguments: &Arguments) -> Result<DeletedGroup, Error> {
    let group = arguments.need("group")?;
    let cluster = match arguments.get("broker") {
        Some(_) => None,
        None => Some(session.cluster(arguments).await?),
    };
    let brokers = session.masters(arguments).await?;
    let ask = Request::new(request::DELETE_SUBSCRIPTIONGROUP)
        .with("groupName", group)
        .with("cleanOffset", arguments.is_on("offsets"));
    session.change_all(&brokers, &ask).await?;
    if let Some(cluster) = &cluster {
        let topics = delete_topics(session, group, cluster).await;
        topics.map_err(|why| session.partly(&brokers, why))?;
    }
    Ok(DeletedGroup { group: group.to_owned(), brokers })
}

/// Deletes the retry topic and the dead letter topic of a group.
async fn delete_topics(session: &Session, group: &str, cluster: &str) -> Result<(), Error> {
    let members = session.members(Some(cluster)).await?;
    let all: Vec<_> = members.into_iter().map(|member| member.address).collect();
    stats::delete_topic(session, &format!("{RETRY_PREFIX}{group}"), cluster, &all).await?;
    let dead_letters = stats::delete_topic(session, &format!("{DLQ_PREFIX}{group}"), cluster, &all).await;
    dead_letters.map_err(|why| session.partly(&all, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CLUSTER, Received, ServerAnswer, with_cluster};
    use wire::codes::response;

    #[test]
    fn settings_that_are_left_out_get_the_defaults_of_mqadmin() {
        let mut arguments = Arguments::default();
        arguments.set("group", "G");
        arguments.set("retry-max", "5");
        arguments.set("enable", "false");
        arguments.set("consume-timeout", "30");
        let text = config_text(&config(&arguments).unwrap());
        for part in [
            "groupName=G,",
            "retryMaxTimes=5,",
            "consumeEnable=false,",
            "consumeFromMinEnable=false,",
            "groupSysFlag=0,",
            "consumeTimeoutMinute=30,",
        ] {
            assert!(text.contains(part), "{text}");
        }
        arguments.set("retry-policy", "{");
        assert!(config(&arguments).is_err());
    }

    #[test]
    fn a_deletion_that_fails_says_on_which_brokers_it_was_made() {
        let answers = |_: &str, asked: &Received| match asked.code {
            request::DELETE_SUBSCRIPTIONGROUP => ServerAnswer::success(),
            _ => ServerAnswer::refused(response::SYSTEM_ERROR),
        };
        let mut arguments = Arguments::default();
        [("group", "G"), ("cluster", CLUSTER)]
            .into_iter()
            .for_each(|(name, value)| arguments.set(name, value));
        let done = with_cluster(&["a", "b"], answers, async |session: &Session| {
            match delete(session, &arguments).await {
                Err(Error::Partly { done, .. }) => done.len(),
                _ => 0,
            }
        });
        assert_eq!(done, 2);
    }
}
