//! Property table: every setting that has an effect here.

use store::{FlushMode, Unconsumed};

use super::property::{COMMIT_LOG, DELAY_LEVELS, Effect, MESSAGE_SIZE, Property, SCAN, STORE_ROOT};
use super::space::{
    POLICIES, bytes, directories, hours, hours_ms, only_broker, show_bytes, show_directories, show_hours,
    show_hours_ms, show_watermark, watermark,
};
use super::value::{
    address, controllers, exact, flag, host, milliseconds, must, name, number, one_address, one_of,
    optional_addresses, optional_host, proxies, show, show_milliseconds, show_one_of, show_optional,
    show_size, size, topic,
};
use super::{Exporter, Metrics, Mode, Role};

/// The setting with this name.
pub(super) fn property(key: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|property| property.name == key)
}

/// Whether the value of a setting is a secret, which may have any letters and is never printed.
pub(super) fn is_secret(key: &str) -> bool {
    ["initAuthenticationUser", "innerClientAuthenticationCredentials", "metricsGrpcExporterHeader"]
        .contains(&key)
}

/// The text that stands for a secret.
fn show_secret(secret: &str) -> String {
    if secret.is_empty() { String::new() } else { "***".to_owned() }
}

macro_rules! properties {
    ($($name:literal $effect:ident $doc:literal { $($field:ident).+ = $read:expr, $show:expr })*) => {
        /// Every setting that has an effect here.
        pub const PROPERTIES: &[Property] = &[$(Property {
            name: $name,
            doc: $doc,
            effect: Effect::$effect,
            get: |config| $show(&config.$($field).+),
            set: |config, text| {
                let value = $read(text)?;
                config.$($field).+ = value;
                Ok(())
            },
        },)*
        COMMIT_LOG, STORE_ROOT, MESSAGE_SIZE, DELAY_LEVELS, SCAN,
        of_auth!("authenticationEnabled", "requests must be signed by a user"),
        of_auth!("authenticationProvider", "class; only the one of RocketMQ"),
        of_auth!("authenticationMetadataProvider", "class that keeps users, org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider; without it every request fails while authenticationEnabled is on"),
        of_auth!("authenticationStrategy", "class; both of RocketMQ are accepted, and every request is verified"),
        of_auth!("authenticationWhitelist", "request codes and gRPC messages that need no signature, separated by commas"),
        of_auth!("authenticationSealedUsers", "users, separated by commas, whose requests must have a seal: a signed field that names code, receiver and time, which Vostok's own callers send and no client of RocketMQ does (docs/security.md)"),
        of_auth!("initAuthenticationUser", "JSON with username and password of a super user that a start creates when it is missing"),
        of_auth!("innerClientAuthenticationCredentials", "JSON with accessKey and secretKey with which the broker signs its own requests; the user is created like initAuthenticationUser"),
        of_auth!("authorizationEnabled", "users may only do what their acl allows; needs authenticationEnabled"),
        of_auth!("authorizationProvider", "class; only the one of RocketMQ"),
        of_auth!("authorizationMetadataProvider", "class that keeps acls, org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider; without it every request fails while authorizationEnabled is on"),
        of_auth!("authorizationStrategy", "class; both of RocketMQ are accepted, and every request is decided"),
        of_auth!("authorizationWhitelist", "request codes and gRPC messages that every user may send, separated by commas"),
        of_auth!("authorizationStrict", "requests that RocketMQ leaves unchecked need a permission, too (docs/requests.md)"),
        of_auth!("migrateAuthFromV1Enabled", "a start imports the accounts of plain_acl.yml that are not yet users"),
        of_auth!("aclEnable", "ACL 1.0 is on: plain_acl.yml and acl/*.yml beside the file of -c, or in conf below rocketmqHome; not together with authenticationEnabled")];
    };
}

/// Setting of authentication or authorization. Its value is checked together with the other settings of its kind.
macro_rules! of_auth {
    ($name:literal, $doc:literal) => {
        Property {
            name: $name,
            doc: $doc,
            effect: Effect::Restart,
            get: |config| config.auth.shown($name).to_owned(),
            set: |config, text| {
                config.auth.set($name, text);
                Ok(())
            },
        }
    };
}

/// Longest interval that a setting may have: a day in milliseconds.
const DAY_MS: i64 = 86_400_000;

properties! {
    "brokerClusterName" Restart "cluster the broker belongs to" { broker_cluster_name = name, show }
    "brokerName" Restart "name of the broker; masters and slaves of one group have the same" { broker_name = name, show }
    "brokerId" Restart "0 for a master; a slave has a number above 0 of its own" { broker_id = |text| exact(text, -1..=i64::MAX), show }
    "brokerIP1" Restart "address clients are told to use, or a name they can resolve" { broker_ip1 = host, show }
    "brokerRole" Restart "ASYNC_MASTER; SYNC_MASTER answers when inSyncReplicas brokers have a message; SLAVE copies the log of the master with its brokerName" {
        replication.role = |text| must(one_of(text, &Role::WORDS)), |role: &Role| show_one_of(*role, &Role::WORDS)
    }
    "brokerIP2" Restart "address that slaves of this broker connect to; brokerIP1 when empty" { replication.ip = optional_host, show }
    "haListenPort" Restart "port that slaves connect to; 0 is the one behind listenPort" {
        replication.port = |text| exact(text, 0..=65_535), show
    }
    "haMasterAddress" Restart "where a slave connects to, host:port; when empty, where the name servers say" { replication.master = one_address, show }
    "haSendHeartbeatInterval" Restart "milliseconds after which master and slave send each other something" {
        replication.heartbeat_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "haHousekeepingInterval" Restart "milliseconds of silence after which master and slave close their connection" {
        replication.housekeeping_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "haTransferBatchSize" Restart "most bytes of the log in one frame to a slave" {
        replication.batch_bytes = |text| number(text, 1..=i64::from(i32::MAX)), show
    }
    "haFlowControlEnable" Restart "maxHaTransferByteInSecond applies" { replication.is_limited = flag, show }
    "maxHaTransferByteInSecond" Restart "most bytes that one slave gets in a second, with haFlowControlEnable" {
        replication.bytes_per_second = |text| number(text, 1..=i64::MAX), show
    }
    "inSyncReplicas" Restart "brokers that have a message before a SYNC_MASTER answers, itself included; 1 waits for no slave" {
        replication.in_sync_replicas = |text| must(number(text, 0..=64)), show
    }
    "slaveTimeout" Restart "milliseconds an answer of a SYNC_MASTER waits for slaves before it says FLUSH_SLAVE_TIMEOUT" {
        replication.slave_timeout_ms = |text| number(text, 1..=DAY_MS), show
    }
    "haMaxGapNotInSync" Restart "bytes by which a slave that counts as in sync may be behind" {
        replication.max_gap_bytes = |text| number(text, 0..=i64::MAX), show
    }
    "enableControllerMode" Restart "controllers elect the master of the group; brokerRole and brokerId are theirs to decide" {
        replication.controller.is_enabled = |text| must(flag(text)), show
    }
    "controllerAddr" Restart "controllers, host:port separated by ;" { replication.controller.controllers = controllers, show }
    "allAckInSyncStateSet" Restart "in controller mode: an answer waits for every member of the in-sync set" {
        replication.controller.is_all_ack = |text| must(flag(text)), show
    }
    "minInSyncReplicas" Restart "in controller mode, and with enableAutoInSyncReplicas: fewest brokers in sync, this one included, with which messages are taken" {
        replication.controller.min_in_sync_replicas = |text| must(number(text, 0..=64)), show
    }
    "diskStallTimeoutMillis" Restart "milliseconds that the disk may take for a write or flush of the log: after this time a master gives up its role, or without controllers logs a warning; 0 for no limit" {
        replication.controller.disk_stall_timeout_ms = |text| number(text, 0..=DAY_MS), show
    }
    "haMaxTimeSlaveNotCatchup" Restart "milliseconds that a slave may be behind before it leaves the in-sync set" {
        replication.controller.not_caught_up_max_ms = |text| number(text, 1..=DAY_MS), show
    }
    "checkSyncStateSetPeriod" Restart "milliseconds before a refused change of the in-sync set is proposed again" {
        replication.controller.retry_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "asyncLearner" Restart "this broker never comes into the in-sync set" { replication.controller.is_learner = flag, show }
    "syncFromLastFile" Restart "in controller mode: an empty slave begins with the master's newest log file" {
        replication.controller.is_from_last_file = flag, show
    }
    "enableSlaveActingMaster" Restart "the slave with the smallest brokerId acts for a master that is gone; a master that returns takes the offsets of its slaves over first" {
        replication.acting.is_enabled = flag, show
    }
    "skipPreOnline" Restart "with enableSlaveActingMaster: serve at once, without an exchange with the other brokers of the group" {
        replication.acting.skips_pre_online = flag, show
    }
    "syncBrokerMemberGroupPeriod" Restart "with enableSlaveActingMaster: milliseconds between questions to the name servers for the brokers of the group" {
        replication.acting.members_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "brokerNotActiveTimeoutMillis" Restart "with enableSlaveActingMaster: milliseconds without a heartbeat after which name servers take the broker for gone" {
        replication.acting.not_active_timeout_ms = |text| number(text, 1..=DAY_MS), show
    }
    "enableAutoInSyncReplicas" Restart "with enableSlaveActingMaster: a SYNC_MASTER waits for fewer slaves when fewer are in sync" {
        replication.acting.is_auto = flag, show
    }
    "brokerHeartbeatInterval" Restart "milliseconds between heartbeats to the controllers, and with enableSlaveActingMaster to the name servers" {
        replication.controller.heartbeat_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "controllerHeartBeatTimeoutMills" Restart "milliseconds without a heartbeat after which the controllers elect another master" {
        replication.controller.heartbeat_timeout_ms = |text| number(text, 1..=DAY_MS), show
    }
    "syncBrokerMetadataPeriod" Restart "milliseconds between questions to the controllers who is master" {
        replication.controller.poll_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "syncControllerMetadataPeriod" Restart "milliseconds between questions which controller leads" {
        replication.controller.leader_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "brokerElectionPriority" Restart "of brokers with equal logs the one with the smallest number becomes master" {
        replication.controller.election_priority = |text| number(text, 0..=i64::from(i32::MAX)), show
    }
    "bindAddress" Restart "address to listen on; also for the name server of the same process" { bind_address = address, show }
    "proxyProtocolTrustedAddresses" Restart "addresses and networks, separated by ;, whose PROXY preambles are believed; a connection of others that begins with one is closed" {
        trusted_proxies = proxies, show
    }
    "connectionBufferBytes" Restart "most bytes that all connections hold of unfinished requests and of answers not taken, such as 1g; 0 is a sixteenth of the memory, 512m at most" {
        connection_bytes_max = size, show_size
    }
    "connectionsMax" Restart "most connections that are accepted by the process; further ones are closed at once" {
        connection_limits.total = |text| number(text, 1..=i64::from(u32::MAX)), show
    }
    "connectionsPerAddressMax" Restart "most connections that are accepted from one address, in IPv6 from a network of 64 bits; proxies of proxyProtocolTrustedAddresses are left out" {
        connection_limits.per_address = |text| number(text, 1..=i64::from(u32::MAX)), show
    }
    "tlsHandshakesPerSecondMax" Restart "TLS handshakes that may begin in a second, a quarter of them from one address; further ones wait up to two seconds, then their connections are closed" {
        connection_limits.handshakes_per_second = |text| number(text, 1..=i64::from(u32::MAX)), show
    }
    "listenPort" Restart "port to listen on; the port two below is the second one" {
        listen_port = |text| exact(text, 1..=65_535), show
    }
    "namesrvAddr" Live "name servers, host:port separated by ;" { namesrv_addr = optional_addresses, show_optional }
    "registerNameServerPeriod" Live "milliseconds between registrations with the name servers; a minute at most" {
        register_name_server_period_ms = |text| number(text, 1000..=DAY_MS), show
    }
    "enablePropertyFilter" Live "consumers may filter by SQL92" { enable_property_filter = flag, show }
    "enableLmq" Restart "light queues are served (%LMQ%...), with enableMultiDispatch" { light.lmq = flag, show }
    "enableMultiDispatch" Restart "messages may name further queues they belong to, with enableLmq" {
        light.multi_dispatch = flag, show
    }
    "enableLmqQuota" Live "more light queues than maxLmqConsumeQueueNum are refused" { light.quota = flag, show }
    "maxLmqConsumeQueueNum" Live "most light queues with enableLmqQuota" {
        light.queues_max = |text| number(text, 0..=i64::from(i32::MAX)), show
    }
    "maxLiteSubscriptionCount" Live "most subscriptions to lite topics, and most clients of lite topics" {
        lite.subscriptions_max = |text| number(text, 0..=i64::from(i32::MAX)), show
    }
    "maxClientEventCount" Live "most lite topics with new messages that a client has at a time, unless its group says lite.sub.client.max.event.cnt" {
        lite.events_max = |text| number(text, 1..=100_000), show
    }
    "liteSubscriptionCheckTimeoutMills" Live "milliseconds without a request about its lite topics after which a client loses them" {
        lite.client_timeout_ms = |text| number(text, 1000..=DAY_MS), show
    }
    "liteTtlCheckInterval" Live "milliseconds between two searches for expired lite topics" {
        lite.expiry_interval_ms = |text| number(text, 1000..=DAY_MS), show
    }
    "minLiteTTl" Live "milliseconds that a lite topic lives at least after its last message, and after the start" {
        lite.life_min_ms = |text| number(text, 0..=DAY_MS), show
    }
    "forceRegister" Live "name servers are told again of 5000 topics every period, so that one they lost comes back" {
        force_register = flag, show
    }
    "enableSingleTopicRegister" Live "name servers are told of a changed topic alone, and of the whole table with the next period" {
        single_topic_register = flag, show
    }
    "enableSplitRegistration" Live "registrations have at most splitRegistrationSize topics instead of 5000" {
        split_registration = flag, show
    }
    "splitRegistrationSize" Live "topics in one registration with enableSplitRegistration" {
        split_registration_size = |text| number(text, 2..=50_000), show
    }
    "transactionTimeOut" Live "milliseconds before a producer is asked about a transaction it left undecided" {
        transaction.timeout_ms = |text| number(text, 0..=DAY_MS), show
    }
    "transactionCheckMax" Live "times a producer is asked about a half message before it is given up" {
        transaction.check_max = |text| number(text, 0..=i64::from(i32::MAX)), show
    }
    "transactionCheckInterval" Live "milliseconds between looks at undecided transactions" {
        transaction.check_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "rejectTransactionMessage" Live "transaction messages are refused" { transaction.rejects = flag, show }
    "brokerPermission" Live "4 clients may read, 2 they may write, 6 both" {
        broker_permission = |text| exact(text, 0..=7), show
    }
    "regionId" Restart "region written into messages" { region_id = |text: &str| Ok(text.to_owned()), show }
    "metricsExporterType" Restart "PROM serves metrics to Prometheus at metricsPromExporterPort, OTLP_GRPC sends them to the collector metricsGrpcExporterTarget, LOG writes them to the log, DISABLE does none of it" {
        metrics.exporter = Exporter::parse, |exporter: &Exporter| show_one_of(*exporter, &Exporter::WORDS)
    }
    "metricsPromExporterHost" Restart "address of the metrics port; by default bindAddress if that is one address, otherwise the address of brokerIP1" {
        metrics.host = Metrics::parse_host, show
    }
    "metricsPromExporterPort" Restart "port of /metrics, /healthz and /readyz; 0 takes a free one" {
        metrics.port = |text| exact(text, 0..=65_535), show
    }
    "metricsLabel" Restart "labels of every metric, name:value separated by commas" {
        metrics.labels = Metrics::parse_labels, show
    }
    "metricsOtelCardinalityLimit" Restart "most series of one metric; further ones are summed up in one with the label otel_metric_overflow" {
        metrics.series_max = Metrics::parse_series, show
    }
    "metricsGrpcExporterTarget" Restart "http://HOST:PORT or https://HOST:PORT of an OpenTelemetry collector; without it OTLP_GRPC exports nothing" {
        metrics.otlp_target = Metrics::parse_target, show
    }
    "metricsGrpcExporterHeader" Restart "headers of every export to the collector, name:value separated by commas" {
        metrics.otlp_headers = Metrics::parse_headers, |headers: &str| show_secret(headers)
    }
    "metricGrpcExporterTimeOutInMills" Restart "longest time for an export to the collector" {
        metrics.otlp_timeout = |text| milliseconds(text, 1..=600_000), show_milliseconds
    }
    "metricGrpcExporterIntervalInMills" Restart "time between two exports to the collector" {
        metrics.otlp_interval = |text| milliseconds(text, 100..=86_400_000), show_milliseconds
    }
    "metricLoggingExporterIntervalInMills" Restart "time between two exports to the log" {
        metrics.log_interval = |text| milliseconds(text, 100..=86_400_000), show_milliseconds
    }
    "metricsInDelta" Restart "OTLP_GRPC and LOG export counts as what was added since the export before" {
        metrics.is_delta = flag, show
    }
    "metricsExportBatchMaxDataPoints" Restart "most series in one request to the collector" {
        metrics.batch_max = |text| number(text, 1..=i64::from(i32::MAX)), show
    }
    "traceOn" Restart "clients may write message traces" { trace_on = flag, show }
    "traceTopicEnable" Restart "the topic of message traces exists from the start" { trace_topic_enable = flag, show }
    "msgTraceTopicName" Restart "topic of message traces that traceTopicEnable makes" {
        trace_topic = topic, show
    }
    "storeReplyMessageEnable" Live "replies between applications are stored, not only passed on" {
        store_reply_message_enable = flag, show
    }
    "autoCreateTopicEnable" Live "the first message to an unknown topic creates it" {
        auto_create_topic_enable = flag, show
    }
    "defaultTopicQueueNums" Live "most queues of a topic created by its first message; a start keeps those that TBW102 has in the store" {
        default_topic_queue_nums = |text| number(text, 1..=65_535), show
    }
    "autoCreateSubscriptionGroup" Live "the first heartbeat, pull or pop of an unknown group creates it" {
        auto_create_subscription_group = flag, show
    }
    "longPollingEnable" Live "pulls of empty queues wait as long as the client says" { long_polling_enable = flag, show }
    "shortPollingTimeMills" Live "milliseconds a pull that found nothing waits without longPollingEnable, or when its client names no time" {
        short_polling_time_ms = |text| number(text, 1..=DAY_MS), show
    }
    "litePullMessageEnable" Live "lite pull consumers are served" { lite_pull_message_enable = flag, show }
    "notifyConsumerIdsChangedEnable" Live "members of a group are told when it changes" {
        notify_consumer_ids_changed_enable = flag, show
    }
    "useServerSideResetOffset" Live "offsets are reset at the broker; false tells connected consumers to do it" {
        server_side_reset = flag, show
    }
    "flushConsumerOffsetInterval" Live "milliseconds between writes of consumer offsets" {
        flush_consumer_offset_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "maxTransferCountOnMessageInMemory" Live "most messages of one pull" {
        transfer.count_max = |text| number(text, 1..=65_535), show
    }
    "maxTransferBytesOnMessageInMemory" Live "most bytes of one pull; the first message always fits" {
        transfer.bytes_max = |text| number(text, 1..=128 << 20), show
    }
    "maxTransferCountOnMessageInDisk" Live "most messages of one pull far behind the end of the log that nobody has read ahead" {
        transfer.disk_count_max = |text| number(text, 1..=65_535), show
    }
    "maxTransferBytesOnMessageInDisk" Live "most bytes of a pull that reads from the disk; the first message always fits" {
        transfer.disk_bytes_max = |text| number(text, 1..=128 << 20), show
    }
    "accessMessageInMemoryMaxRatio" Live "percentage of the memory; messages further behind count as being on the disk" {
        transfer.memory_ratio = |text| number(text, 0..=100), show
    }
    "slaveReadEnable" Live "consumers far behind are told to read from the broker their group names" {
        slave_read_enable = flag, show
    }
    "timerWheelEnable" Restart "messages for a point in time are taken and delivered" { timers.enabled = flag, show }
    "timerMaxDelaySec" Live "longest time a message may wait, in seconds" {
        timers.delay_max_s = |text| number(text, 0..=i64::MAX / 1000), show
    }
    "timerPrecisionMs" Restart "milliseconds of a slot of the timer wheel; must stay as it is for the life of a store" {
        timers.precision_ms = |text| one_of(text, &PRECISIONS), show
    }
    "timerRollWindowSlot" Restart "messages further away than so many slots are looked at again before they are due" {
        timers.roll_window_slots = |text| number(text, i64::from(i32::MIN)..=i64::from(i32::MAX)), show
    }
    "timerCongestNumEachSlot" Restart "messages of one slot above which some are refused, above twice of it all; 2147483647 is no limit" {
        timers.congest_num = |text| number(text, 0..=i64::from(i32::MAX)), show
    }
    "timerFlushIntervalMs" Restart "milliseconds between writes of the timer's files; a crash delivers again what was delivered in between" {
        timers.flush_interval_ms = |text| number(text, 1..=DAY_MS), show
    }
    "mappedFileSizeTimerLog" Restart "bytes of a timer log file of a new store; the files of an existing store keep their size" {
        timers.log_file_bytes = |text| number(text, 68..=1 << 31), show
    }
    "timerWheelSnapshotFlush" Restart "the newest snapshot of the timer wheel counts, as Java writes them with this setting" {
        timers.snapshots = flag, show
    }
    "timerStopEnqueue" Live "messages for a point in time are stored and not added to the wheel" {
        timers.stop_enqueue = flag, show
    }
    "timerStopDequeue" Live "messages for a point in time are not delivered" { timers.stop_dequeue = flag, show }
    "reviveQueueNum" Restart "queues of the topic that checkpoints of pops are delivered to" {
        pop.revive_queues = |text| number(text, 1..=512), show
    }
    "enablePopBufferMerge" Live "checkpoints of pops stay in memory for a while, and what is acknowledged until then is not stored" {
        pop.buffer_merge = flag, show
    }
    "popCkStayBufferTime" Live "milliseconds checkpoints of pops stay in memory at most" {
        pop.stay_ms = |text| number(text, 1..=DAY_MS), show
    }
    "popCkStayBufferTimeOut" Live "milliseconds before their messages are visible again at which checkpoints of pops leave memory" {
        pop.rest_ms = |text| number(text, 0..=DAY_MS), show
    }
    "popCkMaxBufferSize" Live "most checkpoints in memory" {
        pop.held_max = |text| number(text, 0..=i64::from(i32::MAX)), show
    }
    "popCkOffsetMaxQueueSize" Live "most checkpoints of pops in memory of one queue and group" {
        pop.in_flight_max = |text| number(text, 0..=i64::from(i32::MAX)), show
    }
    "popFromRetryProbability" Live "percentage of pops that look at the retry topic first; the others look at it last" {
        pop.retry_probability = |text| number(text, 0..=100), show
    }
    "popFromRetryProbabilityForPriority" Live "percentage of pops of topics with message.type=PRIORITY that look at the retry topic first" {
        pop.retry_probability_for_priority = |text| number(text, 0..=100), show
    }
    "priorityOrderAsc" Live "of the priorities of messages larger numbers are delivered first" {
        pop.priority_ascends = flag, show
    }
    "enableRetryTopicV2" Live "messages that come back to a group go to %RETRY%group+topic instead of %RETRY%group_topic" {
        pop.retry_v2 = flag, show
    }
    "retrieveMessageFromPopRetryTopicV1" Live "with retry topics of version 2, those of version 1 are read as well" {
        pop.retry_v1_too = flag, show
    }
    "popResponseReturnActualRetryTopic" Live "messages of a retry topic are returned as they lie there" {
        pop.actual_retry_topic = flag, show
    }
    "maxPopPollingSize" Live "most pops that wait for messages" {
        pop.waiting_max = |text| number(text, 0..=i64::from(i32::MAX)), show
    }
    "popPollingSize" Live "most pops that wait at one topic, group and queue" {
        pop.list_waiting_max = |text| number(text, 0..=i64::from(i32::MAX)), show
    }
    "initPopOffsetByCheckMsgInMem" Live "a new group on a young queue pops from its first message" {
        pop.start_in_memory = flag, show
    }
    "skipWhenCKRePutReachMaxTimes" Live "a popped message that cannot be brought back is given up after 17 attempts" {
        pop.gives_up = flag, show
    }
    "serverLoadBalancerEnable" Live "queues are shared out among the clients that ask the broker for theirs" {
        pop.balances = flag, show
    }
    "defaultMessageRequestMode" Live "how groups consume unless setConsumeMode says otherwise: PULL or POP" {
        pop.default_mode = |text| one_of(text, &Mode::WORDS), |mode: &Mode| mode.word().to_owned()
    }
    "defaultPopShareQueueNum" Live "of how many further clients a client pops the queues; -1 is all" {
        pop.default_share = |text| number(text, i64::from(i32::MIN)..=i64::from(i32::MAX)), show
    }
    "recallMessageEnable" Live "producers may take back messages for a point in time" { timers.recall = flag, show }
    "allowRecallWhenBrokerNotWriteable" Live "recalls are served while brokerPermission forbids writing" {
        timers.recall_when_read_only = flag, show
    }
    "appendTopicForTimerDeleteKey" Live "a recall names the topic before the key of the message, as Java 5.3 reads it" {
        timers.recall_names_topic = flag, show
    }
    "maxMsgsNumBatch" Live "most messages of an answer to a query by key" {
        query.count_max = |text| number(text, 1..=65_535), show
    }
    "defaultQueryMaxNum" Live "most messages of an answer to a query by unique key" {
        query.unique_max = |text| number(text, 1..=65_535), show
    }
    "messageIndexEnable" Restart "messages are found by their keys" { store.key_index = flag, show }
    "maxHashSlotNum" Restart "slots of a key index file; files of other sizes are made anew from the log" {
        store.index_slots = |text| number(text, 1..=500_000_000), show
    }
    "maxIndexNum" Restart "places for keys in a key index file; files of other sizes are made anew from the log" {
        store.index_items = |text| number(text, 2..=i64::from(i32::MAX)), show
    }
    "mappedFileSizeCommitLog" Restart "bytes of a commit log file of a new store; the files of an existing store keep their size" {
        store.segment_bytes = |text| number(text, 4096..=1 << 31), show
    }
    "mappedFileSizeConsumeQueue" Restart "bytes of a queue file of a new store; the files of an existing store keep their size" {
        store.queue_file_bytes = |text| number(text, 20..=1 << 31), show
    }
    "mapperFileSizeBatchConsumeQueue" Restart "bytes of a file of a queue of batches of a new store; the files of an existing store keep their size" {
        store.batch_file_bytes = |text| number(text, 46..=1 << 31), show
    }
    "flushDiskType" Live "ASYNC_FLUSH answers before the disk has a message, SYNC_FLUSH after" {
        store.flush = |text| must(one_of(text, &FLUSH_MODES)), |mode: &FlushMode| show_one_of(*mode, &FLUSH_MODES)
    }
    "flushIntervalCommitLog" Restart "milliseconds a message stays off the disk at most, with ASYNC_FLUSH" {
        store.flush_interval = |text| milliseconds(text, 1..=DAY_MS), show_milliseconds
    }
    "syncFlushTimeout" Restart "milliseconds a sender waits for the disk, with SYNC_FLUSH" {
        store.flush_timeout = |text| milliseconds(text, 1..=DAY_MS), show_milliseconds
    }
    "flushIntervalConsumeQueue" Restart "milliseconds between checkpoints, to which a restart goes back" {
        store.checkpoint_interval = |text| milliseconds(text, 1..=DAY_MS), show_milliseconds
    }
    "fileReservedTime" Live "hours a commit log file is kept after it was written last" {
        retention.reserved_ms = hours_ms, show_hours_ms
    }
    "deleteWhen" Live "local hours at which files older than fileReservedTime are deleted, such as 04 or 02;14" {
        retention.delete_hours = hours, show_hours
    }
    "diskMaxUsedSpaceRatio" Live "percent in use, or free bytes such as 50g, from which expired files are deleted at any hour" {
        retention.expire_at = |text| watermark(text, 10, 95), show_watermark
    }
    "diskSpaceCleanForciblyRatio" Live "percent in use, or free bytes, from which the oldest files are deleted at any age" {
        retention.clean_at = |text| watermark(text, 30, 85), show_watermark
    }
    "diskSpaceWarningLevelRatio" Live "percent in use, or free bytes, from which sends are refused" {
        retention.refuse_at = |text| watermark(text, 35, 90), show_watermark
    }
    "cleanFileForciblyEnable" Live "files are deleted before their time when the disk gets full" {
        retention.cleans_forcibly = flag, show
    }
    "deleteFileBatchMax" Live "most commit log files deleted in one round" {
        retention.batch_max = |text| number(text, 1..=65_535), show
    }
    "commitLogRetentionBytes" Live "most bytes the commit log holds, such as 500g; 0 for no limit" {
        retention.log_bytes_max = bytes, show_bytes
    }
    "unconsumedDataPolicy" Live "old messages a group has not consumed: PROTECT until the disk gets full, DROP, or REJECT sends instead" {
        retention.unconsumed = |text| must(one_of(text, &POLICIES)), |policy: &Unconsumed| show_one_of(*policy, &POLICIES)
    }
    "cleanResourceInterval" Live "milliseconds between two looks for files to delete" {
        clean_resource_interval_ms = |text| number(text, 100..=DAY_MS), show
    }
    "deleteCommitLogFilesInterval" Live "milliseconds between giving back the space of two deleted files" {
        delete_files_interval_ms = |text| number(text, 0..=DAY_MS), show
    }
    "replicasPerDiskPartition" Restart "brokers that share the disk; 1 here" {
        replicas_per_disk_partition = only_broker, show
    }
    "readOnlyCommitLogStorePaths" Restart "further directories of the commit log, separated by commas, that get no new files" {
        store.commit_log_read_only = |text| Ok(directories(text)), show_directories
    }
    "enabledAppendPropCRC" Restart "messages get a checksum of their whole record" { store.crc_property = |text| must(flag(text)), show }
}

/// The values of `timerPrecisionMs` that Java accepts.
const PRECISIONS: [(&str, i64); 4] = [("1000", 1000), ("500", 500), ("200", 200), ("100", 100)];

const FLUSH_MODES: [(&str, FlushMode); 2] =
    [("ASYNC_FLUSH", FlushMode::Async), ("SYNC_FLUSH", FlushMode::Sync)];
