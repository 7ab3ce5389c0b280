//! Operations on brokers: their rows of the table.

mod clean;
mod progress;
mod replication;
mod settings;
mod status;

pub(crate) use settings::{Settings, read as settings_of};

use crate::Argument;
use crate::arguments::{BROKER, BROKERS, optional, place, required, switch};
use crate::operation::{Operation, operations};
use wire::codes::request;

const OLD_CLUSTER: Argument = optional("cluster", ("c", "cluster"), "all brokers of this cluster");

/// The operations on brokers.
pub(crate) const OPERATIONS: &[Operation] = operations! { "broker":
    "status", Look, ["brokerStatus"], "Show the runtime figures of brokers",
        [BROKER, BROKERS], status::status;
    "config", Look, ["getBrokerConfig"], "Show the settings of brokers",
        [BROKER, BROKERS], settings::config;
    "set", Change, ["updateBrokerConfig"],
        "Change a setting of running brokers: of one, or of the masters of a cluster",
        [place("key", ("k", "key"), "name of the setting"), place("value", ("v", "value"), "its new value"),
         BROKER, BROKERS,
         switch("all", ("a", "updateAllBroker"), "also of the slaves of the cluster")], settings::set;
    "progress", Look, ["brokerConsumeStats"], "Show how far all groups of a broker are",
        [required("broker", ("b", "brokerAddr"), "address of a broker, or name of a broker set"),
         optional("level", ("l", "level"), "only queues with at least so many messages left"),
         optional("order", ("o", "order"), "true for only topics with an order configuration"),
         optional("timeout-ms", ("t", "timeoutMillis"), "taken for compatibility, without effect")], progress::progress;
    "replication", Look, ["haStatus"], "Show how far the slaves of a master are, or how far a slave is",
        [BROKER, BROKERS], replication::replication;
    "clean-queues", Change, ["cleanExpiredCQ"], "Remove consume queue files whose messages are gone",
        [BROKER, OLD_CLUSTER],
        |session, arguments| clean::clean(session, arguments, request::CLEAN_EXPIRED_CONSUMEQUEUE);
    "clean-log", Destroy, ["deleteExpiredCommitLog"], "Delete commit log files older than fileReservedTime now",
        [BROKER, OLD_CLUSTER],
        |session, arguments| clean::clean(session, arguments, request::DELETE_EXPIRED_COMMITLOG);
    "clean-topics", Change, ["cleanUnusedTopic"],
        "Remove the consume queues of topics that do not exist any more",
        [BROKER, OLD_CLUSTER],
        |session, arguments| clean::clean(session, arguments, request::CLEAN_UNUSED_TOPIC);
};
