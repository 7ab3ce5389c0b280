//! Names of topics and groups: names of users, and names of RocketMQ itself.

use super::list::NAMES_MS;
use crate::app::{App, Visitor};
use admin::BrokerRow;
use std::collections::BTreeSet;
use wire::names::{
    BENCHMARK_TOPIC, CHECK_MAX_TIME_TOPIC, DEFAULT_TOPIC, DLQ_PREFIX, OFFSET_MOVED_TOPIC, RETRY_PREFIX,
    SCHEDULE_TOPIC, SELF_TEST_TOPIC, SYSTEM_GROUP_PREFIX, SYSTEM_TOPIC_PREFIX,
};

/// Prefix of the trace topic and of the topics of transactions.
const TRACE_PREFIX: &str = "RMQ_SYS_";
/// Topics with fixed names that RocketMQ itself uses (`TopicValidator`, `TopicConfigManager.init`).
const TOPICS: [&str; 10] = [
    BENCHMARK_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    "CHECKPOINT_TOPIC",
    DEFAULT_TOPIC,
    "DefaultHeartBeatSyncerTopic",
    OFFSET_MOVED_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    "TRANS_CHECK_MAXTIME_TOPIC",
    "rmq_sys_wheel_timer",
];
/// Groups that RocketMQ itself uses, beside groups with a prefix (`MixAll.PREDEFINE_GROUP_SET`).
const GROUPS: [&str; 14] = [
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_OWNER",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_PULL",
    "CLIENT_INNER_PRODUCER",
    "DEFAULT_CONSUMER",
    "DEFAULT_PRODUCER",
    "FILTERSRV_CONSUMER",
    "SCHEDULE_CONSUMER",
    "SELF_TEST_C_GROUP",
    "SELF_TEST_P_GROUP",
    "TOOLS_CONSUMER",
    "__MONITOR_CONSUMER",
    "please_rename_unique_group_name",
];
/// Prefixes of groups that RocketMQ itself uses: also of proxies that tell each other of their clients (`HeartbeatSyncer`).
const GROUP_PREFIXES: [&str; 2] = [SYSTEM_GROUP_PREFIX, "CID_DefaultHeartBeatSyncerTopic"];

/// Owner of a topic, derived from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A user of the cluster.
    User,
    /// A group: the topic has its retries.
    Retry,
    /// A group: the topic has its dead letters.
    DeadLetter,
    /// RocketMQ itself.
    System,
}

/// Names that depend on the cluster: each broker has topics with the name of its cluster and of its set.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// The names of the cluster; only fixed names if no name server answers.
    pub async fn of(app: &App, who: &Visitor) -> Self {
        let brokers = app.typed::<Vec<BrokerRow>>(who, ("cluster", "list"), &[], NAMES_MS).await;
        brokers.map_or_else(|_| Self::default(), |brokers| Self::of_brokers(&brokers))
    }

    /// The names of the clusters and sets of brokers.
    pub fn of_brokers(brokers: &[BrokerRow]) -> Self {
        let names = |row: &BrokerRow| {
            [row.cluster.clone(), row.broker.clone(), format!("{}_REPLY_TOPIC", row.cluster)]
        };
        Self(brokers.iter().flat_map(names).collect())
    }

    /// Beginnings of the names of RocketMQ's own topics, in order. No beginning begins with another.
    pub fn system_begins(&self) -> Vec<&str> {
        let prefixes = [TRACE_PREFIX, SYSTEM_TOPIC_PREFIX];
        let mut begins: Vec<&str> = self.0.iter().map(String::as_str).chain(TOPICS).chain(prefixes).collect();
        begins.sort_unstable();
        begins.dedup_by(|next, before| next.starts_with(&**before));
        begins
    }

    /// The owner of a topic.
    pub fn owner(&self, topic: &str) -> Owner {
        match topic {
            _ if topic.starts_with(RETRY_PREFIX) => Owner::Retry,
            _ if topic.starts_with(DLQ_PREFIX) => Owner::DeadLetter,
            _ if self.0.contains(topic) || TOPICS.contains(&topic) => Owner::System,
            _ if [TRACE_PREFIX, SYSTEM_TOPIC_PREFIX].iter().any(|prefix| topic.starts_with(prefix)) => {
                Owner::System
            }
            _ => Owner::User,
        }
    }
}

/// Whether RocketMQ itself uses a group.
pub(super) fn is_system_group(group: &str) -> bool {
    GROUPS.contains(&group) || GROUP_PREFIXES.iter().any(|prefix| group.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_of_brokers_and_of_rocketmq_are_not_a_users() {
        let mut row = BrokerRow::default();
        (row.cluster, row.broker) = ("DefaultCluster".to_owned(), "vm".to_owned());
        let names = Names::of_brokers(&[row]);
        for topic in [
            "vm",
            "DefaultCluster",
            "DefaultCluster_REPLY_TOPIC",
            "TBW102",
            "SCHEDULE_TOPIC_XXXX",
            "RMQ_SYS_TRACE_TOPIC",
            "rmq_sys_REVIVE_LOG_DefaultCluster",
            "rmq_sys_SYNC_BROKER_MEMBER_vm",
            "TRANS_CHECK_MAX_TIME_TOPIC",
            "OFFSET_MOVED_EVENT",
        ] {
            assert_eq!(names.owner(topic), Owner::System, "{topic}");
        }
        let owners = ["%RETRY%g", "%DLQ%g", "Orders", "rmq_orders", "vm2", "TBW1021", "中文主题名"]
            .map(|it| names.owner(it));
        assert_eq!(owners[..2], [Owner::Retry, Owner::DeadLetter]);
        assert_eq!(owners[2..], [Owner::User; 5]);
    }

    #[test]
    fn every_system_topic_begins_with_a_beginning() {
        let names = Names(["a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"].map(str::to_owned).into());
        let begins = names.system_begins();
        assert!(begins.is_sorted() && begins.contains(&"DefaultCluster"), "{begins:?}");
        assert!(!begins.contains(&"DefaultCluster_REPLY_TOPIC") && !begins.contains(&"rmq_sys_wheel_timer"));
        for topic in TOPICS.into_iter().chain(["RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "a"]) {
            assert!(begins.iter().any(|begin| topic.starts_with(begin)), "{topic}");
        }
    }

    #[test]
    fn groups_of_rocketmq_are_known() {
        for group in ["CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP", "TOOLS_CONSUMER", "CID_ONSAPI_PULL"] {
            assert!(is_system_group(group), "{group}");
        }
        assert!(!is_system_group("mailer") && !is_system_group("CID_orders"));
    }
}
