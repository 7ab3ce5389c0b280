use std::time::Duration;

use replica::acks;
use store::FlushMode;

use super::*;

fn defaults() -> Config {
    Config::new("host-1", IpAddr::from([10, 1, 2, 3]))
}

/// Reads a text and compares its findings, of which warnings begin with `!`.
fn check(text: &str, expected: &[&str]) -> Config {
    let mut config = defaults();
    let found = config.read(text.as_bytes()).unwrap();
    let found: Vec<_> =
        found.iter().map(|it| format!("{}{it}", if it.is_warning() { "! " } else { "" })).collect();
    assert_eq!(found, expected);
    config
}

fn refused(text: &str, part: &str) {
    let error = defaults().read(text.as_bytes()).unwrap_err();
    assert!(error.to_string().contains(part), "{error}");
}

#[test]
fn a_new_broker_has_the_defaults_of_java() {
    let text = defaults().to_properties();
    for line in [
        "brokerName=host-1",
        "brokerIP1=10.1.2.3",
        "listenPort=10911",
        "maxMessageSize=4194304",
        "messageDelayLevel=1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "flushDiskType=ASYNC_FLUSH",
        "flushIntervalCommitLog=500",
        "syncFlushTimeout=5000",
        "flushIntervalConsumeQueue=1000",
        "mappedFileSizeCommitLog=1073741824",
        "mappedFileSizeConsumeQueue=6000000",
        "maxFilterMessageSize=16000",
        "maxTransferBytesOnMessageInMemory=262144",
        "brokerRole=ASYNC_MASTER",
        "fileReservedTime=72",
        "ackMessageThreadPoolNums=16",
        "popPollingSize=1024",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    assert!(text.lines().count() > 500 && text.lines().is_sorted());
}

#[test]
fn what_a_broker_shows_is_read_back_the_same() {
    let shown = defaults().to_properties();
    let mut other = Config::new("elsewhere", IpAddr::from([127, 0, 0, 1]));
    let findings = other.read(shown.as_bytes()).unwrap();
    assert_eq!(findings, []);
    assert_eq!(other.to_properties(), shown);
}

#[test]
fn a_file_sets_what_it_names() {
    let text = "# a broker\n! of ours\nlistenPort = 10921\nbrokerName: b\\\n  roker-x\nautoCreateTopicEnable=FALSE\n\
        namesrvAddr=10.0.0.1:9876; 10.0.0.2:9876;\nflushDiskType=SYNC_FLUSH\nstorePathRootDir=/s\nmaxMessageSize=1024\n\
        messageDelayLevel=1s 2m 1d\nmaxFilterMessageSize=2000\nsyncFlushTimeout=70\nregionId=\\u4e2d\n";
    let config = check(text, &[]);
    assert_eq!((config.listen_port, config.broker_name.as_str()), (10921, "broker-x"));
    assert!(!config.auto_create_topic_enable && config.has_store_path());
    assert_eq!(config.name_servers(), ["10.0.0.1:9876", "10.0.0.2:9876"]);
    assert_eq!(config.store.flush, FlushMode::Sync);
    assert_eq!(config.store.commit_log, Path::new("/s/commitlog"));
    assert_eq!(config.max_message_size, 1024);
    assert_eq!(config.store.delay_levels_ms, [1000, 120_000, 86_400_000]);
    assert_eq!((config.transfer.scan_units, config.store.flush_timeout), (100, Duration::from_millis(70)));
    assert_eq!(config.region_id, "中");
}

#[test]
fn the_commit_log_stays_where_the_file_puts_it() {
    let mut config = check("storePathCommitLog=/fast/log\nstorePathRootDir=/s\n", &[]);
    assert_eq!(config.store.commit_log, Path::new("/fast/log"));
    config.set_store_root(Path::new("/t"));
    assert_eq!(
        (config.store.root.as_path(), config.store.commit_log.as_path()),
        (Path::new("/t"), Path::new("/fast/log"))
    );
}

#[test]
fn the_commit_log_may_lie_in_several_directories() {
    let config = check("storePathCommitLog=/b, /a,/c\nreadOnlyCommitLogStorePaths=/old,/older\n", &[]);
    let paths = |list: &[&str]| list.iter().map(std::path::PathBuf::from).collect::<Vec<_>>();
    assert_eq!(config.store.commit_log, Path::new("/b"));
    assert_eq!(config.store.commit_log_more, paths(&["/a", "/c"]));
    assert_eq!(config.store.commit_log_read_only, paths(&["/old", "/older"]));
    assert!(config.to_properties().contains("\nstorePathCommitLog=/b,/a,/c\n"));
}

#[test]
fn limits_of_a_disk_are_percent_or_free_bytes() {
    use store::{UnconsumedPolicy, UsageLimit};
    let text = "diskMaxUsedSpaceRatio=70\ndiskSpaceCleanForciblyRatio=99\ndiskSpaceWarningLevelRatio=20g\n\
        commitLogRetentionBytes=500g\nunconsumedDataPolicy=REJECT\ndeleteWhen=02;14\n";
    let retention = check(text, &[]).retention;
    assert_eq!(retention.expire_at, UsageLimit::Percent(70));
    assert_eq!(retention.clean_at, UsageLimit::Percent(85), "Java's bounds");
    assert_eq!(retention.refuse_at, UsageLimit::FreeBytes(20 << 30));
    assert_eq!((retention.log_bytes_max, retention.unconsumed), (500 << 30, UnconsumedPolicy::Reject));
    assert_eq!(retention.delete_hours, 1 << 2 | 1 << 14);
}

#[test]
fn sample_files_of_the_distribution_start() {
    let sample = "brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\ndeleteWhen=04\nfileReservedTime=48\n";
    for role in ["ASYNC_MASTER", "SYNC_MASTER"] {
        let config = check(&format!("{sample}brokerRole={role}\nflushDiskType=ASYNC_FLUSH\n"), &[]);
        assert_eq!((config.retention.reserved_ms, config.retention.delete_hours), (48 * 3_600_000, 1 << 4));
    }
    refused(
        &format!("{sample}brokerRole=SLAVE\n"),
        "brokerId=0 cannot be used: a slave (brokerRole=SLAVE) has an id above 0",
    );
    let slave = check("brokerRole=SLAVE\nbrokerId=1\nhaMaxGapNotInSync=5\n", &[]);
    assert!(slave.is_slave() && slave.broker_id == 1 && slave.replication.max_gap_bytes == 5);
}

#[test]
fn unknown_settings_are_named_and_kept() {
    let config = check(
        "autoCreateTopicEnabled=false\nfileReserveTime=1\nzzz=1\nrx.new=2\n",
        &[
            "! unknown setting autoCreateTopicEnabled: it has no effect; did you mean autoCreateTopicEnable?",
            "! unknown setting fileReserveTime: it has no effect; did you mean fileReservedTime?",
            "! unknown setting rx.new: it has no effect",
            "! unknown setting zzz: it has no effect",
        ],
    );
    assert!(config.to_properties().contains("\nzzz=1\n") && config.to_properties().contains("\nrx.new=2\n"));
}

#[test]
fn values_that_cannot_be_read_stop_the_start() {
    for (line, expected) in [
        ("listenPort=abc", "expected a number of 1 to 65535"),
        ("listenPort=70000", "expected a number of 1 to 65535"),
        ("brokerPermission=8", "expected a number of 0 to 7"),
        ("fileReservedTime=48h", "expected a number of 0 to"),
        // No number below the bound means the bound: 0 hours would delete all messages.
        ("fileReservedTime=-1", "expected a number of 0 to"),
        ("connectionsMax=0", "expected a number of 1 to"),
        ("maxHaTransferByteInSecond=0", "expected a number of 1 to"),
        ("maxMessageSize=0", "expected a number of 1 to"),
        ("maxMessageSize=-1", "expected a number of 1 to"),
        ("flushConsumerOffsetInterval=0", "expected a number of 1 to"),
        ("maxMessageSize=4m", "expected a number of 1 to 134217728"),
        ("maxMessageSize=4,194,304", "expected a number of 1 to"),
        ("commitLogRetentionBytes=20gb", "expected a number of bytes such as 1073741824, 500m or 20g"),
        ("diskMaxUsedSpaceRatio=75%", "expected percent in use"),
        ("deleteWhen=04:00", "expected hours of the day such as 04 or 02;14"),
        ("defaultMessageRequestMode=POPS", "expected PULL or POP"),
        ("traceOn=yes", "expected true or false"),
        ("traceOn=1", "expected true or false"),
        ("traceOn=ture", "expected true or false"),
        ("brokerName=${BROKER_NAME}", "expected a value, found the variable ${BROKER_NAME} of a template"),
        ("storePathRootDir=/data/${NODE}/store", "found the variable ${NODE} of a template"),
    ] {
        let (key, value) = line.split_once('=').unwrap();
        refused(&format!("{line}\n"), &format!("setting {key}={value} cannot be used: "));
        refused(&format!("{line}\n"), expected);
    }
}

#[test]
fn a_switch_that_is_not_true_is_off_as_in_java() {
    let config = check(
        "autoCreateTopicEnable=no\nautoCreateSubscriptionGroup=0\ntraceOn=off\nlongPollingEnable=flase\nenablePropertyFilter = true   \n",
        &[
            "! setting autoCreateSubscriptionGroup is \"0\", expected true or false; it counts as false",
            "! setting autoCreateTopicEnable is \"no\", expected true or false; it counts as false",
            "! setting longPollingEnable is \"flase\", expected true or false; it counts as false",
            "! setting traceOn is \"off\", expected true or false; it counts as false",
        ],
    );
    assert!(!config.auto_create_topic_enable && !config.auto_create_subscription_group && !config.trace_on);
    assert!(!config.long_polling_enable && config.enable_property_filter);
    check("enableDLegerCommitLog=no\nlockInStrictMode=0\n", &[]);
}

#[test]
fn numbers_above_their_bound_count_as_the_bound_and_empty_values_as_the_default() {
    let config = check(
        "fileReservedTime=99999999999\nmaxMessageSize=1073741824\nbrokerName=\ndeleteWhen=\n",
        &[
            "! setting brokerName is \"\", expected a name; it counts as host-1",
            "! setting deleteWhen is \"\", expected hours of the day such as 04 or 02;14; it counts as 04",
            "! setting fileReservedTime is \"99999999999\", expected a number of 0 to 2147483647; it counts as 2147483647",
            "! setting maxMessageSize is \"1073741824\", expected a number of 1 to 134217728; it counts as 134217728",
        ],
    );
    assert_eq!(config.max_message_size, 128 << 20);
}

#[test]
fn the_defaults_that_java_prints_are_taken() {
    let lines = wire::defaults::BROKER.lines().filter(|line| !line.ends_with("=*"));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    assert!(Config::from_properties(text.as_bytes()).is_ok());
}

#[test]
fn settings_without_effect_say_why() {
    check(
        "useReentrantLockWhenPutMessage=false\nsendMessageThreadPoolNums=64\nlockInStrictMode=true\nfilterSupportRetry=false\n",
        &[
            "! setting lockInStrictMode=true has no effect: one broker of a group gives the locks of ordered consumers: the master, or the slave that acts for it",
            "setting sendMessageThreadPoolNums=64 is not needed: threads, queues and pools of the JVM have no counterpart here",
            "setting useReentrantLockWhenPutMessage=false is not needed: threads, queues and pools of the JVM have no counterpart here",
        ],
    );
    let config = check(
        "brokerId=3\n",
        &["! setting brokerId=3 has no effect: a master has id 0; a slave needs brokerRole=SLAVE"],
    );
    assert_eq!(config.broker_id, 0);
}

#[test]
fn in_controller_mode_the_controllers_decide_about_role_and_id() {
    let config = check(
        "enableControllerMode=true\ncontrollerAddr= h1:1; h2:2;\nbrokerRole=SLAVE\nbrokerId=-1\nallAckInSyncStateSet=true\n",
        &[],
    );
    assert!(config.is_controlled() && !config.is_slave() && config.store.controller_mode);
    assert_eq!(config.replication.controller.controllers(), ["h1:1", "h2:2"]);
    assert!(config.replication.of_elected(&config.store).acks.is_all_ack);
    let error = Config::from_properties(b"enableControllerMode=true\n").unwrap_err().to_string();
    assert!(error.contains("controllerAddr"), "{error}");
}

#[test]
fn a_group_has_acting_masters_or_controllers() {
    let config = check("enableSlaveActingMaster=true\nbrokerRole=SYNC_MASTER\nminInSyncReplicas=2\n", &[]);
    assert!(config.has_acting_master() && config.waits_for_group() && !config.begins_as_copy());
    let wanted = config.replication.of_master(&config.store).acks;
    assert_eq!(
        (wanted.mode, wanted.min_in_sync_replicas, wanted.is_auto),
        (acks::Mode::ActingMaster, 2, false)
    );
    let config =
        check("enableSlaveActingMaster=true\nskipPreOnline=true\nbrokerRole=SLAVE\nbrokerId=1\n", &[]);
    assert!(config.has_acting_master() && !config.waits_for_group() && config.begins_as_copy());
    assert_eq!(config.replication.of_master(&config.store).acks.mode, acks::Mode::Classic);
    let config = check(
        "enableControllerMode=true\ncontrollerAddr=h1:1\nenableSlaveActingMaster=true\n",
        &[
            "! setting enableSlaveActingMaster=true has no effect: the controllers elect another master (enableControllerMode)",
        ],
    );
    assert!(!config.has_acting_master());
}

#[test]
fn names_of_old_releases_have_no_effect() {
    let text = "mapedFileSizeCommitLog=8192\nmapedFileSizeConsumeQueue=300000\nmapedFileSizeLogicsQueue=300000\n\
        flushIntervalLogicsQueue=77\nflushLogicsQueueLeastPages=1\nflushLogicsQueueThoroughInterval=1\n\
        flushPhysicQueueLeastPages=1\nhaSlaveFallbehindMax=1\n";
    let (config, findings) = Config::from_properties(text.as_bytes()).unwrap();
    assert_eq!(findings.len(), 8, "{findings:?}");
    let ignored = "has no effect: RocketMQ 5.5.0 ignores this name, too; its present name is";
    for finding in &findings {
        assert!(finding.is_warning() && finding.to_string().contains(ignored), "{finding}");
    }
    let none = Config::from_properties(b"").unwrap().0;
    let sizes = |config: &Config| {
        let Config { store, replication, .. } = config;
        (store.segment_bytes, store.queue_file_bytes, store.checkpoint_interval, replication.max_gap_bytes)
    };
    assert_eq!(sizes(&config), sizes(&none));
    assert!(config.to_properties().contains("mapedFileSizeCommitLog=8192\n"));
    // Java prints these names and reads others.
    check(
        "isInBrokerContainer=false\n",
        &["setting isInBrokerContainer is read as inBrokerContainer, its present name"],
    );
}

#[test]
fn what_must_not_be_ignored_stops_the_start_and_names_the_setting() {
    for key in refused::names() {
        refused(&format!("{key}=other\n"), &format!("setting {key}=other cannot be used: "));
    }
    refused("messageDelayLevel=1s 5x\n", "messageDelayLevel=1s 5x cannot be used: expected delays");
    refused("messageDelayLevel=\n", "expected delays");
    refused("brokerIP1=10.0.0\n", "brokerIP1=10.0.0 cannot be used: expected an IP address or the name");
    refused("brokerIP1=a b\n", "expected an IP address or the name of a machine");
    refused("replicasPerDiskPartition=2\n", "limit each one with commitLogRetentionBytes instead");
    refused("unconsumedDataPolicy=KEEP\n", "expected PROTECT or DROP or REJECT");
    refused("a=\\u12\n", "line 1: expected four hexadecimal digits");
    check("enableDLegerCommitLog=FALSE\nauthenticationEnabled=false\n", &[]);
}

#[test]
fn every_setting_has_a_text_for_people() {
    for property in PROPERTIES.iter() {
        assert!(property.doc.len() > 8 && !property.doc.ends_with('.'), "{}", property.name);
        assert!(matches!(property.effect, Effect::Live | Effect::Restart));
    }
}

#[test]
fn settings_of_authentication_are_checked_together() {
    let check =
        |text: &str| Config::from_properties(text.as_bytes()).map(drop).map_err(|error| error.to_string());
    assert!(check("authenticationEnabled=true").is_ok());
    assert!(check("authorizationEnabled=true").unwrap_err().contains("needs authenticationEnabled"));
    assert!(check("aclEnable=true\nauthenticationEnabled=true").unwrap_err().contains("both on"));
    assert!(
        check("authenticationMetadataProvider=com.example.Mine").unwrap_err().contains("com.example.Mine")
    );
}

#[test]
fn a_secret_may_look_like_a_variable_and_is_never_printed() {
    let user = r#"{"username":"u","password":"p${x}q"}"#;
    let keys = r#"{"accessKey":"u","secretKey":"p${x}q"}"#;
    let config = check(
        &format!(
            "initAuthenticationUser={user}\ninnerClientAuthenticationCredentials={keys}\nmetricsGrpcExporterHeader=a:p${{x}}q\n"
        ),
        &[],
    );
    assert_eq!(config.auth.check().unwrap().first_user.unwrap().secret, "p${x}q");
    assert_eq!(config.metrics.otlp_headers().collect::<Vec<_>>(), [("a", "p${x}q")]);
    assert!(!config.to_properties().contains("p${x}q"), "{}", config.to_properties());
    refused(
        "metricsGrpcExporterHeader=hidden\n",
        "setting metricsGrpcExporterHeader=*** cannot be used: expected name:value",
    );
}

#[test]
fn secrets_are_not_shown() {
    let secret = "{\"username\":\"root\",\"password\":\"hidden\"}";
    let (config, _) = Config::from_properties(format!("initAuthenticationUser={secret}").as_bytes()).unwrap();
    assert!(config.to_properties().contains("initAuthenticationUser=***"), "{}", config.to_properties());
    assert!(!config.to_properties().contains("hidden") && !format!("{config:?}").contains("hidden"));
}
