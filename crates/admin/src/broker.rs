//! Operations on brokers: their rows of the table.

mod clean;
mod progress;
mod replication;
mod settings;
mod status;
mod tune;

pub use progress::{BrokerProgress, GroupQueue};
pub use replication::{ReplicaStatus, Replicas, slave_behind};
pub use settings::{Setting, Settings};
pub(crate) use settings::{read as settings_of, set_on, told as told_settings};
pub use status::Figure;

use crate::Argument;
use crate::arguments::{BROKER, BROKERS, INTERVAL, MASTERS, optional, place, required, switch};
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
        [BROKER, BROKERS, INTERVAL], replication::replication;
    "clean-queues", Change, ["cleanExpiredCQ"], "Remove consume queue files whose messages are gone",
        [BROKER, OLD_CLUSTER],
        |session, arguments| clean::clean(session, arguments, request::CLEAN_EXPIRED_CONSUMEQUEUE);
    "clean-log", Destroy, ["deleteExpiredCommitLog"], "Delete commit log files older than fileReservedTime now",
        [BROKER, OLD_CLUSTER],
        clean::clean_log;
    "clean-topics", Change, ["cleanUnusedTopic"],
        "Remove the consume queues of topics that do not exist any more",
        [BROKER, OLD_CLUSTER],
        |session, arguments| clean::clean(session, arguments, request::CLEAN_UNUSED_TOPIC);
    "reset-flush-offset", Change, ["resetMasterFlushOffset"],
        "Set how far a slave believes its master's log to be on disk",
        [BROKER, place("offset", ("o", "offset"), "the offset in the log")], tune::flush_offset;
    "cold-reads", Look, ["getColdDataFlowCtrInfo"], "Show which groups read cold messages, and how much they may",
        [BROKER, BROKERS], tune::cold_flow;
    "limit-cold-reads", Change, ["updateColdDataFlowCtrGroupConfig"], "Limit the cold reads of a group",
        [place("group", ("g", "consumerGroup"), "name of the consumer group"),
         place("threshold", ("v", "threshold"), "bytes of cold messages"), BROKER, MASTERS], tune::set_cold_flow;
    "free-cold-reads", Change, ["removeColdDataFlowCtrGroupConfig"], "Remove the limit of a group's cold reads",
        [place("group", ("g", "consumerGroup"), "name of the consumer group"), BROKER, MASTERS],
        tune::remove_cold_flow;
    "read-ahead", Change, ["setCommitLogReadAheadMode"], "Set how the system reads ahead in the commit log",
        [place("mode", ("m", "commitLogReadAheadMode"), "0 for the system's own way, 1 for none"), BROKER,
         BROKERS], tune::read_ahead;
    "timer-engine", Change, ["switchTimerEngine"], "Choose what keeps timed messages",
        [place("engine", ("e", "engineType"), "R for RocksDB, F for the file of the timer wheel"), BROKER, MASTERS],
        tune::timer_engine;
    "export-pop", Change, ["exportPopRecord"], "Let brokers write the checkpoints of pop from RocksDB to their topic",
        [BROKER, BROKERS, optional("dry", ("d", "dryRun"), "true to send nothing")], tune::pop_records;
};
