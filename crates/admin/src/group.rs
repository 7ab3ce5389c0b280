//! Operations on consumer groups: their rows of the table.

mod change;
mod lag;
mod monitor;
mod owners;
mod progress;
mod settings;

pub use lag::{CauseKind, GroupLag, LagCause, LagMember, LagQueue, LagTopic, QueueState};
pub use owners::QueueOwner;
pub use progress::{GroupProgress, QueueProgress};
pub use settings::{GroupFigures, GroupName, GroupSetting};

use crate::arguments::{BROKER, CLUSTER, INTERVAL, MASTERS, optional, place};
use crate::operation::{Operation, operations};
use crate::{Argument, pages};
use serde_json::Value;

const GROUP: Argument = place("group", ("g", "groupName"), "name of the consumer group");

/// The operations on consumer groups.
pub(crate) const OPERATIONS: &[Operation] = operations! { "group":
    "progress", Look, ["consumerProgress"],
        "Show the offsets of a group and how many messages are left in each queue",
        [GROUP, optional("topic", ("t", "topicName"), "only this topic"),
         optional("client-ip", ("s", "showClientIP"), "true to show which member has each queue"), CLUSTER], progress::progress;
    "lag", Look, [],
        "Show why a group lags: the state, owner and lag of each queue, rates of topics, and where the time of members goes",
        [GROUP, CLUSTER], lag::lag;
    "list", Look, ["consumerProgress"], "List the groups that have a retry topic, with their members and lag",
        [], |session, _| progress::list(session);
    "names", Look, [], "List the names of all groups, with one request to each master",
        [pages::CONTAINS, pages::AFTER, pages::LIMIT,
         optional("sort", ("", ""), "name, or lag on brokers of Vostok")], settings::names;
    "monitor", Look, ["startMonitoring"],
        "Show the lag of all groups with members, differing subscriptions, and queues that stand still",
        [INTERVAL], |session, _| monitor::monitor(session);
    "config", Look, ["getConsumerConfig"], "Show the settings of a group on each broker",
        [GROUP], settings::config;
    "create", Change, ["updateSubGroup"],
        "Create a group, or replace its settings; what is left out gets its default",
        [GROUP, BROKER, MASTERS,
         optional("enable", ("s", "consumeEnable"), "whether the group may consume; true if left out"),
         optional("from-min", ("m", "consumeFromMinEnable"), "whether it may begin at the minimum offset"),
         optional("broadcast", ("d", "consumeBroadcastEnable"), "whether it may consume in broadcast mode"),
         optional("orderly", ("o", "consumeMessageOrderly"), "whether retries keep their order"),
         optional("retry-queues", ("q", "retryQueueNums"), "queues of the retry topic; 1 if left out"),
         optional("retry-max", ("r", "retryMaxTimes"), "retries before the dead letter topic; 16 if left out"),
         optional("retry-policy", ("p", "groupRetryPolicy"), "delays of retries, as JSON"),
         optional("broker-id", ("i", "brokerId"), "id of the broker that it reads from"),
         optional("slow-broker-id", ("w", "whichBrokerWhenConsumeSlowly"), "id of the broker for slow members"),
         optional("notify", ("a", "notifyConsumerIdsChanged"), "whether members learn of changes; true if left out"),
         optional("sys-flag", ("", "groupSysFlag"), "flags of the group; 0 if left out"),
         optional("consume-timeout", ("", "consumeTimeoutMinute"), "minutes a message may take; 15 if left out"),
         optional("attributes", ("", "attributes"), "changes of attributes: +key=value,-key")], change::create;
    "delete", Destroy, ["deleteSubGroup"],
        "Delete a group; of a whole cluster also its retry and dead letter topics",
        [GROUP, BROKER, MASTERS,
         optional("offsets", ("r", "removeOffset"), "true to delete its offsets too")], change::delete;
    "create-list", Change, ["updateSubGroupList"], "Create the groups that a file lists, or replace their settings",
        [place("file", ("f", "filename"), "file with a list of SubscriptionGroupConfig as JSON"), BROKER, MASTERS],
        change::create_list;
    "mode", Change, ["setConsumeMode"], "Choose whether a group pulls a topic or pops its messages",
        [GROUP, place("topic", ("t", "topicName"), "name of the topic"), place("mode", ("m", "mode"), "PULL or POP"),
         BROKER, MASTERS,
         optional("share", ("q", "popShareQueueNum"), "queues that members of a popping group share; all if 0")],
        change::mode;
};

/// Delays of retries as `GroupRetryPolicy.toString` writes them.
fn policy_text(policy: &Value) -> String {
    let member = |name: &str| policy.get(name).filter(|member| !member.is_null());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let kind = member("type").map_or_else(|| "null".to_owned(), text);
    let part = |name: &str, class: &str| {
        let Some(Value::Object(members)) = member(name) else { return "null".to_owned() };
        let members: Vec<_> = members.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
        format!("{class}{{{}}}", members.join(", "))
    };
    let exponential = part("exponentialRetryPolicy", "ExponentialRetryPolicy");
    let customized = part("customizedRetryPolicy", "CustomizedRetryPolicy");
    format!(
        "GroupRetryPolicy{{type={kind}, exponentialRetryPolicy={exponential}, customizedRetryPolicy={customized}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_in_java() {
        let plain = serde_json::json!({"type": "CUSTOMIZED"});
        let expected =
            "GroupRetryPolicy{type=CUSTOMIZED, exponentialRetryPolicy=null, customizedRetryPolicy=null}";
        assert_eq!(policy_text(&plain), expected);
        let policy =
            serde_json::json!({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5, "max": 9}});
        assert!(policy_text(&policy).contains("=ExponentialRetryPolicy{initial=5, max=9}"));
    }
}
