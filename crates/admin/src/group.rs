//! Operations on consumer groups: their rows of the table.

mod change;
mod progress;
mod settings;

use crate::Argument;
use crate::operation::{Effect, Operation, answer};
use serde_json::Value;

const GROUP: Argument = Argument::place("group", ("g", "groupName"), "name of the consumer group");
const BROKER: Argument =
    Argument::optional("broker", ("b", "brokerAddr"), "address of a broker, or name of a broker set");
const CLUSTER: Argument = Argument::optional("cluster", ("c", "clusterName"), "all masters of this cluster");

/// The operations on consumer groups.
pub(crate) const OPERATIONS: [Operation; 6] = [
    Operation {
        noun: "group",
        verb: "progress",
        mqadmin: &["consumerProgress"],
        effect: Effect::Look,
        about: "Show the offsets of a group and how many messages are left in each queue",
        arguments: &[
            GROUP,
            Argument::optional("topic", ("t", "topicName"), "only this topic"),
            Argument::optional(
                "client-ip",
                ("s", "showClientIP"),
                "true to show which member has each queue",
            ),
        ],
        call: |session, arguments| answer(progress::progress(session, arguments)),
    },
    Operation {
        noun: "group",
        verb: "list",
        mqadmin: &["consumerProgress"],
        effect: Effect::Look,
        about: "List the groups that have a retry topic, with their members and lag",
        arguments: &[],
        call: |session, _| answer(progress::list(session)),
    },
    Operation {
        noun: "group",
        verb: "names",
        mqadmin: &[],
        effect: Effect::Look,
        about: "List the names of all groups, with one request to each master",
        arguments: &[],
        call: |session, _| answer(settings::names(session)),
    },
    Operation {
        noun: "group",
        verb: "config",
        mqadmin: &["getConsumerConfig"],
        effect: Effect::Look,
        about: "Show the settings of a group on each broker",
        arguments: &[GROUP],
        call: |session, arguments| answer(settings::config(session, arguments)),
    },
    Operation {
        noun: "group",
        verb: "create",
        mqadmin: &["updateSubGroup"],
        effect: Effect::Change,
        about: "Create a group, or replace its settings; what is left out gets its default",
        arguments: &[
            GROUP,
            BROKER,
            CLUSTER,
            Argument::optional(
                "enable",
                ("s", "consumeEnable"),
                "whether the group may consume; true if left out",
            ),
            Argument::optional(
                "from-min",
                ("m", "consumeFromMinEnable"),
                "whether it may begin at the minimum offset",
            ),
            Argument::optional(
                "broadcast",
                ("d", "consumeBroadcastEnable"),
                "whether it may consume in broadcast mode",
            ),
            Argument::optional("orderly", ("o", "consumeMessageOrderly"), "whether retries keep their order"),
            Argument::optional(
                "retry-queues",
                ("q", "retryQueueNums"),
                "queues of the retry topic; 1 if left out",
            ),
            Argument::optional(
                "retry-max",
                ("r", "retryMaxTimes"),
                "retries before the dead letter topic; 16 if left out",
            ),
            Argument::optional("retry-policy", ("p", "groupRetryPolicy"), "delays of retries, as JSON"),
            Argument::optional("broker-id", ("i", "brokerId"), "id of the broker that it reads from"),
            Argument::optional(
                "slow-broker-id",
                ("w", "whichBrokerWhenConsumeSlowly"),
                "id of the broker for slow members",
            ),
            Argument::optional(
                "notify",
                ("a", "notifyConsumerIdsChanged"),
                "whether members learn of changes; true if left out",
            ),
            Argument::optional("attributes", ("", "attributes"), "changes of attributes: +key=value,-key"),
        ],
        call: |session, arguments| answer(change::create(session, arguments)),
    },
    Operation {
        noun: "group",
        verb: "delete",
        mqadmin: &["deleteSubGroup"],
        effect: Effect::Destroy,
        about: "Delete a group; of a whole cluster also its retry and dead letter topics",
        arguments: &[
            GROUP,
            BROKER,
            CLUSTER,
            Argument::optional("offsets", ("r", "removeOffset"), "true to delete its offsets too"),
        ],
        call: |session, arguments| answer(change::delete(session, arguments)),
    },
];

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
