//! Names of topics and groups that RocketMQ fixes, and prefixes of the names that contain a group's or cluster's name
//! (`TopicValidator`, `MixAll`, `PopAckConstants`).

/// Prefix of the name of a group's retry topic; the group's name follows.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Prefix of the name of a group's dead letter topic; the group's name follows.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Prefix of the names of system topics.
pub const SYSTEM_TOPIC_PREFIX: &str = "rmq_sys_";
/// Prefix of the names of system groups.
pub const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";

/// Topic whose configuration is the template of automatically created topics.
pub const DEFAULT_TOPIC: &str = "TBW102";
/// The topic of delayed messages, with one queue per delay level.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Topic of Java's benchmark scripts.
pub const BENCHMARK_TOPIC: &str = "BenchmarkTest";
/// Topic of RocketMQ's self tests.
pub const SELF_TEST_TOPIC: &str = "SELF_TEST_TOPIC";
/// Topic to which older RocketMQ brokers wrote corrections of offsets.
pub const OFFSET_MOVED_TOPIC: &str = "OFFSET_MOVED_EVENT";
/// Topic to which clients write message traces unless configured otherwise.
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Topic of half messages: transaction messages that are neither committed nor rolled back yet.
pub const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// Topic of op messages: the decisions about half messages.
pub const OP_HALF_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Topic of half messages that stay undecided after the configured number of check-backs.
pub const CHECK_MAX_TIME_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// Topic of timed messages that are not delivered yet.
pub const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";
/// Prefix of the name of the revive topic, to which checkpoints of pops are delivered; the cluster's name follows.
pub const REVIVE_PREFIX: &str = "rmq_sys_REVIVE_LOG_";
/// Prefix of the names of light queues (`MixAll.LMQ_PREFIX`).
pub const LIGHT_PREFIX: &str = "%LMQ%";
/// Prefix of the topics in whose routes the brokers of a group find each other. The name of the broker group follows.
pub const SYNC_MEMBER_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";
