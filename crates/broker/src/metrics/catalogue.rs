//! Single list of metrics: names, types, labels and meanings. The scrape and docs/metrics.md are made from it.

/// The type of a metric in Prometheus' text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// The word of the text format.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Debug)]
pub(super) struct Metric {
    /// Name with unit and suffix.
    pub name: &'static str,
    pub kind: Kind,
    /// Labels beside the labels of every series.
    pub labels: &'static [&'static str],
    /// Meaning of the metric, for its `HELP` line and the documentation.
    pub doc: &'static str,
}

/// Labels of every series, beside those of `metricsLabel`.
#[cfg(test)]
pub(super) const COMMON_LABELS: [&str; 4] = ["cluster", "node_id", "node_type", "otel_scope_name"];

macro_rules! metrics {
    ($($id:ident $kind:ident $name:literal [$($label:literal)*] $doc:literal)*) => {
        $(pub(super) const $id: Metric =
            Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], doc: $doc };)*
        /// All metrics, in the order of the documentation.
        #[cfg(test)]
        pub(super) const METRICS: &[Metric] = &[$($id),*];
    };
}

metrics! {
    TARGET_INFO Gauge "target_info" ["service_name" "service_version"] "1, with the version of Vostok"
    PROCESSOR_WATERMARK Gauge "rocketmq_processor_watermark" ["processor"] "requests that wait for a thread of the disk pool: pulls and pops, searches and others that read the disk, and those of operators"
    BROKER_PERMISSION Gauge "rocketmq_broker_permission" [] "2 clients may write, 4 they may read, 6 both"
    TOPICS Gauge "rocketmq_topic_number" [] "configured topics"
    GROUPS Gauge "rocketmq_consumer_group_number" [] "configured consumer groups"
    STOPPED_THREADS Gauge "vostok_stopped_threads" [] "threads and tasks that ended before they were told to; above 0 the broker needs a restart"
    REFUSED Counter "vostok_refused_requests_total" ["cause"] "valid requests that were refused, by cause"
    MESSAGES_IN Counter "rocketmq_messages_in_total" ["topic" "message_type" "is_system"] "messages stored, except those of retry and dead letter topics"
    THROUGHPUT_IN Counter "rocketmq_throughput_in_total" ["topic" "message_type" "is_system"] "bytes of the stored records of these messages"
    MESSAGE_SIZE Histogram "rocketmq_message_size" ["topic" "message_type" "is_system"] "bytes of the stored record of each of these messages"
    MESSAGES_OUT Counter "rocketmq_messages_out_total" ["topic" "consumer_group" "is_system" "is_retry"] "messages delivered to a group"
    THROUGHPUT_OUT Counter "rocketmq_throughput_out_total" ["topic" "consumer_group" "is_system" "is_retry"] "bytes of the records of these messages"
    DEAD_LETTERS Counter "rocketmq_send_to_dlq_messages_total" ["consumer_group" "topic" "is_system"] "messages that went to a dead letter topic"
    PRODUCERS Gauge "rocketmq_producer_connections" ["language" "version" "protocol_type"] "connections of producers"
    CONSUMERS Gauge "rocketmq_consumer_connections" ["consumer_group" "language" "version" "consume_mode" "protocol_type" "is_system"] "connections of consumers"
    LAG Gauge "rocketmq_consumer_lag_messages" ["consumer_group" "topic" "is_retry" "is_system"] "messages that the group has not consumed"
    LAG_LATENCY Gauge "rocketmq_consumer_lag_latency_milliseconds" ["consumer_group" "topic" "is_retry" "is_system"] "how long the oldest message is stored that the group has not consumed"
    IN_FLIGHT Gauge "rocketmq_consumer_inflight_messages" ["consumer_group" "topic" "is_retry" "is_system"] "messages between the offset the group committed and the one it reads next"
    QUEUEING_LATENCY Gauge "rocketmq_consumer_queueing_latency_milliseconds" ["consumer_group" "topic" "is_retry" "is_system"] "how long the oldest message is stored that the group has not read"
    READY Gauge "rocketmq_consumer_ready_messages" ["consumer_group" "topic" "is_retry" "is_system"] "messages that the group has not read"
    COMMITS Counter "rocketmq_commit_messages_total" ["topic"] "half messages that producers committed"
    ROLLBACKS Counter "rocketmq_rollback_messages_total" ["topic"] "half messages that producers rolled back"
    FINISH_LATENCY Histogram "rocketmq_finish_message_latency_milliseconds" ["topic"] "age of half messages when they were committed; in seconds, RocketMQ's name says milliseconds"
    RPC_LATENCY Histogram "rocketmq_rpc_latency_milliseconds" ["protocol_type" "request_code" "response_code" "is_long_polling" "result"] "how long requests took until they were answered, but those that were refused for who sent them or passed on to a master"
    TOPIC_CREATION Histogram "rocketmq_topic_create_execution_time_milliseconds" ["invocation_status" "is_system"] "how long requests of operators to make or change topics took"
    GROUP_CREATION Histogram "rocketmq_consumer_group_create_execution_time_milliseconds" ["invocation_status"] "how long requests of operators to make or change groups took"
    REVIVE_LATENCY Gauge "rocketmq_pop_revive_latency_milliseconds" ["queue_id"] "how long the oldest record of a revive queue is stored that was not processed"
    REVIVE_LAG Gauge "rocketmq_pop_revive_lag_milliseconds" ["queue_id"] "records of a revive queue that were not processed; a number, RocketMQ's name says milliseconds"
    CHECKPOINTS Gauge "rocketmq_pop_checkpoint_buffer_size" [] "pops whose checkpoint is in memory only"
    STORAGE_SIZE Gauge "rocketmq_storage_size_bytes" ["storage_type" "storage_medium"] "bytes in use on the disks of the commit log"
    FLUSH_BEHIND Gauge "rocketmq_storage_flush_behind_bytes" ["storage_type" "storage_medium"] "bytes of the log that are not flushed"
    DISPATCH_BEHIND Gauge "rocketmq_storage_dispatch_behind_bytes" ["storage_type" "storage_medium"] "bytes of the log whose queue units are still being rebuilt; 0 but for a while after damage"
    RESERVE_TIME Gauge "rocketmq_storage_message_reserve_time_milliseconds" ["storage_type" "storage_medium"] "age of the oldest message of the log"
    TIMER_ENQUEUE_LAG Gauge "rocketmq_timer_enqueue_lag" ["storage_type" "storage_medium"] "timed messages that are stored and not in the wheel"
    TIMER_ENQUEUE_LATENCY Gauge "rocketmq_timer_enqueue_latency_milliseconds" ["storage_type" "storage_medium"] "how long the oldest timed message is stored that is not in the wheel"
    TIMER_DEQUEUE_LATENCY Gauge "rocketmq_timer_dequeue_latency_milliseconds" ["storage_type" "storage_medium"] "how far the delivery of timed messages is behind the clock"
}
