//! Operations on brokers: their rows of the table.

mod clean;
mod progress;
mod replication;
mod settings;
mod status;

pub(crate) use settings::{Settings, read as settings_of};

use crate::Argument;
use crate::operation::{Effect, Operation, answer};
use wire::codes::request;

const BROKER: Argument =
    Argument::optional("broker", ("b", "brokerAddr"), "address of a broker, or name of a broker set");
const CLUSTER: Argument = Argument::optional("cluster", ("c", "clusterName"), "all brokers of this cluster");
const OLD_CLUSTER: Argument = Argument::optional("cluster", ("c", "cluster"), "all brokers of this cluster");

/// The operations on brokers.
pub(crate) const OPERATIONS: [Operation; 8] = [
    Operation {
        noun: "broker",
        verb: "status",
        mqadmin: &["brokerStatus"],
        effect: Effect::Look,
        about: "Show the runtime figures of brokers",
        arguments: &[BROKER, CLUSTER],
        call: |session, arguments| answer(status::status(session, arguments)),
    },
    Operation {
        noun: "broker",
        verb: "config",
        mqadmin: &["getBrokerConfig"],
        effect: Effect::Look,
        about: "Show the settings of brokers",
        arguments: &[BROKER, CLUSTER],
        call: |session, arguments| answer(settings::config(session, arguments)),
    },
    Operation {
        noun: "broker",
        verb: "set",
        mqadmin: &["updateBrokerConfig"],
        effect: Effect::Change,
        about: "Change a setting of running brokers: of one, or of the masters of a cluster",
        arguments: &[
            Argument::place("key", ("k", "key"), "name of the setting"),
            Argument::place("value", ("v", "value"), "its new value"),
            BROKER,
            CLUSTER,
            Argument::switch("all", ("a", "updateAllBroker"), "also of the slaves of the cluster"),
        ],
        call: |session, arguments| answer(settings::set(session, arguments)),
    },
    Operation {
        noun: "broker",
        verb: "progress",
        mqadmin: &["brokerConsumeStats"],
        effect: Effect::Look,
        about: "Show how far all groups of a broker are",
        arguments: &[
            Argument::required("broker", ("b", "brokerAddr"), "address of a broker, or name of a broker set"),
            Argument::optional("level", ("l", "level"), "only queues with at least so many messages left"),
            Argument::optional("order", ("o", "order"), "true for only topics with an order configuration"),
            Argument::optional(
                "timeout-ms",
                ("t", "timeoutMillis"),
                "taken for compatibility, without effect",
            ),
        ],
        call: |session, arguments| answer(progress::progress(session, arguments)),
    },
    Operation {
        noun: "broker",
        verb: "replication",
        mqadmin: &["haStatus"],
        effect: Effect::Look,
        about: "Show how far the slaves of a master are, or how far a slave is",
        arguments: &[BROKER, CLUSTER],
        call: |session, arguments| answer(replication::replication(session, arguments)),
    },
    Operation {
        noun: "broker",
        verb: "clean-queues",
        mqadmin: &["cleanExpiredCQ"],
        effect: Effect::Change,
        about: "Remove consume queue files whose messages are gone",
        arguments: &[BROKER, OLD_CLUSTER],
        call: |session, arguments| {
            answer(clean::clean(session, arguments, request::CLEAN_EXPIRED_CONSUMEQUEUE))
        },
    },
    Operation {
        noun: "broker",
        verb: "clean-log",
        mqadmin: &["deleteExpiredCommitLog"],
        effect: Effect::Destroy,
        about: "Delete commit log files older than fileReservedTime now",
        arguments: &[BROKER, OLD_CLUSTER],
        call: |session, arguments| {
            answer(clean::clean(session, arguments, request::DELETE_EXPIRED_COMMITLOG))
        },
    },
    Operation {
        noun: "broker",
        verb: "clean-topics",
        mqadmin: &["cleanUnusedTopic"],
        effect: Effect::Change,
        about: "Remove the consume queues of topics that do not exist any more",
        arguments: &[BROKER, OLD_CLUSTER],
        call: |session, arguments| answer(clean::clean(session, arguments, request::CLEAN_UNUSED_TOPIC)),
    },
];
