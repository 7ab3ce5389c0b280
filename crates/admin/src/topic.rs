//! Operations on topics: their rows of the table.

mod change;
mod look;
mod rates;

use crate::Argument;
use crate::operation::{Effect, Operation, answer};

const TOPIC: Argument = Argument::place("topic", ("t", "topic"), "name of the topic");
const BROKER: Argument =
    Argument::optional("broker", ("b", "brokerAddr"), "address of a broker, or name of a broker set");
const CLUSTER: Argument = Argument::optional("cluster", ("c", "clusterName"), "all masters of this cluster");

/// The operations on topics.
pub(crate) const OPERATIONS: [Operation; 8] = [
    Operation {
        noun: "topic",
        verb: "list",
        mqadmin: &["topicList"],
        effect: Effect::Look,
        about: "List the topics that the name server knows",
        arguments: &[Argument::switch(
            "consumers",
            ("c", "clusterModel"),
            "with the cluster of each topic and the groups that consume it, without retry and dead letter topics",
        )],
        call: |session, arguments| answer(look::list(session, arguments)),
    },
    Operation {
        noun: "topic",
        verb: "status",
        mqadmin: &["topicStatus"],
        effect: Effect::Look,
        about: "Show the offsets of each queue and the time of its last message",
        arguments: &[TOPIC],
        call: |session, arguments| answer(look::status(session, arguments)),
    },
    Operation {
        noun: "topic",
        verb: "route",
        mqadmin: &["topicRoute"],
        effect: Effect::Look,
        about: "Show the brokers of a topic and how many queues each has",
        arguments: &[TOPIC, Argument::switch("list", ("l", "list"), "as a table; only counts for mqadmin")],
        call: |session, arguments| answer(look::route(session, arguments)),
    },
    Operation {
        noun: "topic",
        verb: "clusters",
        mqadmin: &["topicClusterList"],
        effect: Effect::Look,
        about: "List the clusters whose brokers have queues of a topic",
        arguments: &[TOPIC],
        call: |session, arguments| answer(look::clusters(session, arguments)),
    },
    Operation {
        noun: "topic",
        verb: "rates",
        mqadmin: &["statsAll"],
        effect: Effect::Look,
        about: "Show how much is sent to topics and consumed from them, per second and in 24 hours",
        arguments: &[
            Argument::optional("topic", ("t", "topic"), "only this topic"),
            Argument::switch("active", ("a", "activeTopic"), "only topics with messages in 24 hours"),
        ],
        call: |session, arguments| answer(rates::rates(session, arguments)),
    },
    Operation {
        noun: "topic",
        verb: "create",
        mqadmin: &["updateTopic"],
        effect: Effect::Change,
        about: "Create a topic, or change its queues, permission and attributes",
        arguments: &[
            TOPIC,
            BROKER,
            CLUSTER,
            Argument::optional(
                "read-queues",
                ("r", "readQueueNums"),
                "queues that consumers read; 8 if left out",
            ),
            Argument::optional(
                "write-queues",
                ("w", "writeQueueNums"),
                "queues that producers write; 8 if left out",
            ),
            Argument::optional("perm", ("p", "perm"), "2 to write, 4 to read, 6 for both; 6 if left out"),
            Argument::optional("attributes", ("a", "attributes"), "changes of attributes: +key=value,-key"),
            Argument::optional("unit", ("u", "unit"), "true for a unit topic"),
            Argument::optional(
                "unit-subscription",
                ("s", "hasUnitSub"),
                "true if units subscribe to the topic",
            ),
        ],
        call: |session, arguments| answer(change::create(session, arguments)),
    },
    Operation {
        noun: "topic",
        verb: "perm",
        mqadmin: &["updateTopicPerm"],
        effect: Effect::Change,
        about: "Change the permission of a topic and keep its queues",
        arguments: &[
            TOPIC,
            Argument::place("perm", ("p", "perm"), "2 to write, 4 to read, 6 for both"),
            BROKER,
            CLUSTER,
        ],
        call: |session, arguments| answer(change::permission(session, arguments)),
    },
    Operation {
        noun: "topic",
        verb: "delete",
        mqadmin: &["deleteTopic"],
        effect: Effect::Destroy,
        about: "Delete a topic with its messages from the masters of a cluster and from the name servers",
        arguments: &[TOPIC, Argument::required("cluster", ("c", "clusterName"), "name of the cluster")],
        call: |session, arguments| answer(change::delete(session, arguments)),
    },
];
