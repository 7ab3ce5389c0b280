//! Operations on topics: their rows of the table.

mod change;
mod look;
mod queue;
mod rates;
mod static_topic;

pub use look::{QueueStatus, Route, RouteRow, TopicFigures, TopicRow, TopicStatus};
pub use rates::TopicRates;
pub(crate) use rates::sum;

use crate::arguments::{BROKER, CLUSTER, MASTERS, optional, place, switch};
use crate::operation::{Operation, operations};
use crate::{Argument, pages};

const MAP_FILE: Argument = optional("map-file", ("mf", "mapFile"), "taken for compatibility, without effect");
const FORCE: Argument = optional("force", ("fr", "forceReplace"), "taken for compatibility, without effect");
const TOPIC: Argument = place("topic", ("t", "topic"), "name of the topic");

/// The operations on topics.
pub(crate) const OPERATIONS: &[Operation] = operations! { "topic":
    "list", Look, ["topicList"], "List the topics that the name server knows",
        [switch("consumers", ("c", "clusterModel"), "with the cluster of each topic and the groups that consume it, without retry and dead letter topics"),
         pages::CONTAINS, pages::AFTER, pages::LIMIT,
         optional("sort", ("", ""), "name, or messages on brokers of Vostok")], look::list;
    "status", Look, ["topicStatus"], "Show the offsets of each queue and the time of its last message",
        [TOPIC, CLUSTER], look::status;
    "route", Look, ["topicRoute"], "Show the brokers of a topic and how many queues each has",
        [TOPIC, switch("list", ("l", "list"), "as a table; only counts for mqadmin")], look::route;
    "clusters", Look, ["topicClusterList"], "List the clusters whose brokers have queues of a topic",
        [TOPIC], look::clusters;
    "rates", Look, ["statsAll"],
        "Show how much is sent to topics and consumed from them, per second and in 24 hours",
        [optional("topic", ("t", "topic"), "only this topic"),
         switch("active", ("a", "activeTopic"), "only topics with messages in 24 hours")], rates::rates;
    "create", Change, ["updateTopic"], "Create a topic, or change its queues, permission and attributes",
        [TOPIC, BROKER, MASTERS,
         optional("read-queues", ("r", "readQueueNums"), "queues that consumers read; 8 if left out"),
         optional("write-queues", ("w", "writeQueueNums"), "queues that producers write; 8 if left out"),
         optional("perm", ("p", "perm"), "2 to write, 4 to read, 6 for both; 6 if left out"),
         optional("type", ("", ""), "NORMAL, FIFO, DELAY, TRANSACTION, LITE or PRIORITY; NORMAL if left out"),
         optional("attributes", ("a", "attributes"), "changes of attributes: +key=value,-key"),
         optional("order", ("o", "order"), "true for an ordered topic, which also gets its order configuration on the name servers"),
         optional("unit", ("u", "unit"), "true for a unit topic"),
         optional("unit-subscription", ("s", "hasUnitSub"), "true if units subscribe to the topic")], change::create;
    "perm", Change, ["updateTopicPerm"], "Change the permission of a topic and keep its queues",
        [TOPIC, place("perm", ("p", "perm"), "2 to write, 4 to read, 6 for both"), BROKER,
         MASTERS], change::permission;
    "delete", Destroy, ["deleteTopic"],
        "Delete a topic with its messages from the masters of a cluster and from the name servers",
        [TOPIC, optional("cluster", ("c", "clusterName"), "name of the cluster; the only cluster if left out")],
        change::delete;
    "create-list", Change, ["updateTopicList"], "Create or change the topics that a file lists",
        [place("file", ("f", "filename"), "file with a list of TopicConfig as JSON"), BROKER, MASTERS],
        change::create_list;
    "allocate", Look, ["allocateMQ"], "Show how the queues of a topic are shared out to that many consumers",
        [TOPIC, place("clients", ("i", "ipList"), "names of the consumers, separated by commas")], look::allocate;
    "static", Change, ["updateStaticTopic"], "Create a static topic, whose number of queues is fixed, or give it more",
        [TOPIC, place("queues", ("qn", "totalQueueNum"), "number of queues, of all brokers"),
         optional("brokers", ("b", "brokers"), "broker sets, separated by commas"),
         optional("clusters", ("c", "clusters"), "clusters, separated by commas"), MAP_FILE, FORCE],
        static_topic::create;
    "remap", Change, ["remappingStaticTopic"], "Move queues of a static topic; only says whether there is such a topic",
        [TOPIC, optional("brokers", ("b", "brokers"), "broker sets, separated by commas"),
         optional("clusters", ("c", "clusters"), "clusters, separated by commas"), MAP_FILE, FORCE],
        static_topic::remap;
    "queue", Look, ["queryCq"], "Show entries of a consume queue, and what a group's filter makes of them",
        [TOPIC, place("queue", ("q", "queue"), "id of the queue"),
         place("index", ("i", "index"), "offset in the queue from which on"),
         optional("count", ("c", "count"), "most entries; 10 if left out"),
         optional("broker", ("b", "broker"), "address of the broker; the first of the topic if left out"),
         optional("group", ("g", "consumer"), "name of a consumer group")], queue::queue;
};
