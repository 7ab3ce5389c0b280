use std::net::Ipv4Addr;

use super::*;
use crate::config::PROPERTIES;

fn defaults() -> Config {
    Config::new("host", Ipv4Addr::LOCALHOST.into())
}

fn changes(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn refused(list: &[(&str, &str)], expected: NotChanged) {
    assert_eq!(update(&defaults(), changes(list)).unwrap_err(), expected);
}

/// Texts of every kind of value a setting may have.
const VALUES: [&str; 15] = [
    "true",
    "false",
    "7",
    "11",
    "55",
    "77",
    "1001",
    "4097",
    "SYNC_FLUSH",
    "DROP",
    "05",
    "60",
    "50g",
    "h:1",
    "POP",
];

#[test]
fn every_live_setting_can_be_changed_and_is_shown_and_written() {
    for property in PROPERTIES.iter().filter(|property| property.effect == Effect::Live) {
        let before = property.value(&defaults());
        let changed = VALUES.iter().find_map(|value| {
            let update = update(&defaults(), changes(&[(property.name, value)])).ok()?;
            (property.value(&update.config) != before).then_some((update, value))
        });
        let (update, value) = changed.unwrap_or_else(|| panic!("no value changes {}", property.name));
        assert_eq!(update.written, changes(&[(property.name, value)]));
        assert_eq!(update.notes, [] as [String; 0]);
    }
}

#[test]
fn no_live_setting_takes_nonsense_and_the_expected_type_is_told() {
    for property in PROPERTIES.iter().filter(|property| property.effect == Effect::Live) {
        match update(&defaults(), changes(&[(property.name, "\u{201c}nonsense")])) {
            Err(NotChanged::Invalid(text)) => {
                assert!(text.contains("expected ") && text.contains(property.name), "{text}");
            }
            other => panic!("{}: {other:?}", property.name),
        }
    }
}

/// Checks that no request from the network can select a file or a program.
#[test]
fn no_setting_that_names_a_path_or_decides_who_is_believed_can_be_changed() {
    for property in PROPERTIES.iter() {
        let shown = property.value(&defaults());
        let is_path = ["Path", "Dir", "Command", "Script"].iter().any(|part| property.name.contains(part));
        if is_path || shown.contains('/') {
            assert!(is_file_only(property.name), "{}", property.name);
        }
    }
    let keys = [
        "storePathRootDir",
        "storePathCommitLog",
        "bindAddress",
        "metricsGrpcExporterHeader",
        "metricsGrpcExporterTarget",
        "metricsPromExporterHost",
        "proxyProtocolTrustedAddresses",
        "tls.server.keyPath",
    ];
    for key in keys {
        let text = format!("{key} cannot be set by a request; write it into its file and start it again");
        refused(&[(key, "/etc")], NotChanged::Forbidden(text));
    }
    for key in ["brokerConfigPath", "configBlackList", "rocketmqHome"] {
        refused(&[(key, "/etc")], NotChanged::Forbidden("Can not update config in black list.".to_owned()));
    }
}

/// Operators set such settings before a planned restart, as they do with RocketMQ.
#[test]
fn settings_that_need_a_restart_are_kept_for_the_next_start() {
    let list =
        [("traceTopicEnable", "true"), ("brokerIP2", "127.0.0.1"), ("mappedFileSizeCommitLog", "1048576")];
    let update = update(&defaults(), changes(&list)).unwrap();
    assert_eq!(update.written, changes(&list));
    // Such a change is what its sender wants: nothing to warn of.
    assert_eq!((update.notes.len(), update.planned.len()), (0, 3));
    assert_eq!(update.planned[0], "brokerIP2 is set and counts after the next start of the broker");
    let config = &update.config;
    assert!(!config.trace_topic_enable && config.replication.ip.is_empty(), "they do not count yet");
    assert_eq!(config.store.segment_bytes, 1 << 30);
    let shown = config.to_properties();
    for line in [
        "brokerIP2=127.0.0.1",
        "traceTopicEnable=true",
        "countsAfterRestart=brokerIP2;mappedFileSizeCommitLog;traceTopicEnable",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    // Set again, and back to the value that counts.
    let list = changes(&[("brokerIP2", "127.0.0.1"), ("traceTopicEnable", "false")]);
    let again = self::update(config, list.clone()).unwrap();
    assert_eq!((again.written, again.notes), (list, Vec::new()));
    assert!(again.config.to_properties().contains("countsAfterRestart=brokerIP2;mappedFileSizeCommitLog\n"));
}

#[test]
fn what_the_next_start_would_refuse_is_not_kept() {
    let next_start = |text: &str, list: &[(&str, &str)]| {
        let update = update(&defaults(), changes(list)).unwrap();
        match update.check_next_start(&merged(text, &update.written)) {
            Err(NotChanged::Invalid(text)) => {
                text.strip_prefix("the next start would refuse it: ").unwrap().to_owned()
            }
            taken => format!("{taken:?}"),
        }
    };
    let text = "setting brokerId=0 cannot be used: a slave (brokerRole=SLAVE) has an id above 0, which no other slave of its master has";
    assert_eq!(next_start("", &[("brokerRole", "SLAVE")]), text);
    assert_eq!(next_start("brokerId=1\n", &[("brokerRole", "SLAVE")]), "Ok(())");
    assert_eq!(next_start("brokerRole=SLAVE\nbrokerId=1\n", &[("brokerId", "0")]), text);
    let found = next_start("", &[("regionId", "${REGION}")]);
    assert!(found.ends_with("expected a value, found the variable ${REGION} of a template"), "{found}");
    let found = next_start("", &[("brokerIP1", "no-such-host.invalid")]);
    assert!(found.starts_with("brokerIP1=no-such-host.invalid does not resolve"), "{found}");
    assert_eq!(next_start("", &[("brokerIP1", "10.0.0.1")]), "Ok(())");
    for (text, list, is_taken) in [
        ("", [("haListenPort", "10911")], false),
        ("", [("haListenPort", "10909")], false),
        ("", [("haListenPort", "10912")], true),
        ("haListenPort=10921\n", [("listenPort", "10921")], false),
        ("haListenPort=10921\n", [("listenPort", "10923")], false),
        ("haListenPort=10921\n", [("listenPort", "10924")], true),
        ("metricsPromExporterPort=10911\n", [("metricsExporterType", "PROM")], false),
        ("metricsExporterType=PROM\n", [("metricsPromExporterPort", "10912")], false),
        ("metricsExporterType=PROM\n", [("metricsPromExporterPort", "5558")], true),
        ("", [("metricsPromExporterPort", "10912")], true),
    ] {
        let found = next_start(text, &list);
        let expected = if is_taken { "Ok(())" } else { "expected different ports" };
        assert!(found.ends_with(expected), "{text} {list:?}: {found}");
    }
    let both = update(&defaults(), changes(&[("brokerRole", "SLAVE"), ("brokerId", "1")])).unwrap();
    assert_eq!(
        both.config.to_properties().lines().filter(|line| line.starts_with("brokerRole=SLAVE")).count(),
        1
    );
    for (key, value) in
        [("listenPort", "x"), ("brokerRole", "BOSS"), ("namesrvAddr", "host:Port"), ("brokerIP1", "a b")]
    {
        assert!(
            matches!(update(&defaults(), changes(&[(key, value)])), Err(NotChanged::Invalid(_))),
            "{key}"
        );
    }
}

#[test]
fn the_name_server_of_the_process_stays_when_others_change() {
    let running = Config { own_name_server: Some("127.0.0.1:9876".to_owned()), ..defaults() };
    let update = update(&running, changes(&[("namesrvAddr", "a:1;:2")])).unwrap();
    assert_eq!(update.config.name_servers(), ["127.0.0.1:9876", "a:1", "127.0.0.1:2"]);
    assert_eq!(update.written, changes(&[("namesrvAddr", "a:1;:2")]));
}

#[test]
fn a_running_broker_does_not_lose_its_last_name_server_by_a_request() {
    let running = Config { namesrv_addr: Some("a:1".to_owned()), ..defaults() };
    for value in ["", " ", ";"] {
        let refused = update(&running, changes(&[("namesrvAddr", value)]));
        let is_named = |text: &str| text.contains("name servers; it stays a:1");
        assert!(
            matches!(&refused, Err(NotChanged::Invalid(text)) if is_named(text)),
            "{value:?}: {refused:?}"
        );
    }
    // Without a name server before, and with the name server of the process, an empty list changes nothing.
    assert!(update(&defaults(), changes(&[("namesrvAddr", "")])).is_ok());
    let own = Config { own_name_server: Some("127.0.0.1:9876".to_owned()), ..running };
    let update = update(&own, changes(&[("namesrvAddr", "")])).unwrap();
    assert_eq!(update.config.name_servers(), ["127.0.0.1:9876"]);
}

/// Addresses that are found automatically, or that other settings replace, may be empty.
#[test]
fn an_empty_address_is_refused_if_the_next_start_needs_it() {
    let check = |text: &str, key: &str| {
        let (running, _) = Config::from_properties(text.as_bytes()).unwrap();
        let list = changes(&[(key, "")]);
        let update = update(&running, list.clone()).unwrap();
        update.check_next_start(&merged(text, &list))
    };
    let controlled = "enableControllerMode=true\ncontrollerAddr=127.0.0.1:1\n";
    assert!(matches!(check(controlled, "controllerAddr"), Err(NotChanged::Invalid(_))));
    assert_eq!(check("controllerAddr=127.0.0.1:1\n", "controllerAddr"), Ok(()));
    assert_eq!(check("brokerIP2=127.0.0.1\n", "brokerIP2"), Ok(()));
    assert_eq!(check("haMasterAddress=127.0.0.1:1\n", "haMasterAddress"), Ok(()));
}

#[test]
fn all_changes_of_a_request_are_made_or_none() {
    let list = [("maxMessageSize", "10"), ("bindAddress", "10.0.0.1")];
    let text = "bindAddress cannot be set by a request; write it into its file and start it again";
    refused(&list, NotChanged::Forbidden(text.to_owned()));
    let text = "setting longPollingEnable is \"maybe\", expected true or false; it stays true";
    refused(&[("longPollingEnable", "maybe")], NotChanged::Invalid(text.to_owned()));
    let text = "setting maxMessageSize is \"4m\", expected a number of 1 to 134217728; it stays 4194304";
    refused(&[("maxMessageSize", "4m")], NotChanged::Invalid(text.to_owned()));
    refused(
        &[("regionId", "a\nstorePathRootDir=/etc")],
        NotChanged::Invalid(
            "setting regionId has a control character in its value, expected one line of text".to_owned(),
        ),
    );
}

#[test]
fn settings_of_java_that_nobody_misses_are_taken_and_unknown_ones_left_out() {
    let unknown = changes(&[("fileReservedTime", "24"), ("autoCreateTopicEnabled", "false")]);
    let unknown = self::update(&defaults(), unknown).unwrap();
    assert_eq!(unknown.written, changes(&[("fileReservedTime", "24")]));
    let text = "autoCreateTopicEnabled is no setting and is left out; did you mean autoCreateTopicEnable?";
    assert_eq!(unknown.notes, [text]);
    let list = [("sendMessageThreadPoolNums", "8"), ("traceOn", "true")];
    let update = update(&defaults(), changes(&list)).unwrap();
    assert_eq!(update.written, changes(&[("sendMessageThreadPoolNums", "8"), ("traceOn", "true")]));
    assert_eq!(update.notes.len(), 1);
    assert_eq!(update.config.sources(), "sendMessageThreadPoolNums=run-time");
    assert_eq!(update.config.shown("sendMessageThreadPoolNums"), "8");
    let dropped = changes(&[("filterServerNums", "0"), ("maxDelayTime", "40"), ("fileReservedTime", "24")]);
    let dropped = self::update(&defaults(), dropped).unwrap();
    assert_eq!(dropped.written, changes(&[("fileReservedTime", "24")]));
    assert_eq!(dropped.notes.len(), 2, "tools for RocketMQ 4 set them: {:?}", dropped.notes);
    let missed = self::update(&defaults(), changes(&[("lockInStrictMode", "true")])).unwrap();
    assert!(missed.notes[0].starts_with("lockInStrictMode has no effect: "), "{:?}", missed.notes);
    assert_eq!(missed.written, changes(&[("lockInStrictMode", "true")]));
    let auth = self::update(&defaults(), changes(&[("enableDLegerCommitLog", "true")]));
    assert!(matches!(auth, Err(NotChanged::Forbidden(_))), "it must not be ignored");
}

#[test]
fn settings_of_authentication_cannot_be_changed_while_running() {
    for key in auth::AuthConfig::names() {
        let changed = update(&defaults(), changes(&[(key, "true")]));
        assert!(matches!(changed, Err(NotChanged::Forbidden(_))), "{key}: {changed:?}");
    }
}

/// Operators send back the settings that they were shown.
#[test]
fn a_secret_as_it_is_shown_is_not_written_to_the_file() {
    let mut config = defaults();
    config.auth.set("initAuthenticationUser", r#"{"username":"a","password":"hidden"}"#);
    let list = [("initAuthenticationUser", "***"), ("maxMessageSize", "4194304")];
    let update = update(&config, changes(&list)).unwrap();
    assert_eq!(update.written, changes(&list[1..]));
}

#[test]
fn cve_2023_33246_no_setting_changed_while_running_names_a_path_or_a_command() {
    // Names and labels, which are neither opened nor run, and compressions that only Java's RocksDB would read.
    const WORDS: [&str; 9] = [
        "regionId",
        "brokerName",
        "brokerClusterName",
        "metricsLabel",
        "bottomMostCompressionTypeForConsumeQueueStore",
        "rocksdbCompressionType",
        "configName",
        "clusterName",
        // A number whose default is empty.
        "clientCallbackExecutorThreads",
    ];
    let effective = PROPERTIES.iter().map(|property| property.name.to_owned());
    let without_effect = unknown::defaults().into_iter().filter(|(_, default)| is_text(default));
    for name in effective.chain(without_effect.map(|(name, _)| name)) {
        for value in ["/etc/passwd", "../x", "$(id)"] {
            let changed = update(&defaults(), changes(&[(&name, value)]));
            assert!(changed.is_err() || WORDS.contains(&name.as_str()), "{name} can be made {value}");
        }
    }
}

#[test]
fn a_file_keeps_everything_but_the_changed_values() {
    let text = "# ours\nbrokerName = b\\\n  1\n! note\nmaxMessageSize : 1\n\nmapedFileSizeCommitLog=9\nmaxMessageSize=2\nx\\=y=1";
    let list = [("maxMessageSize", "77"), ("mappedFileSizeCommitLog", "8"), ("regionId", "a\\b")];
    let expected = "# ours\nbrokerName = b\\\n  1\n! note\nmaxMessageSize=77\n\nmapedFileSizeCommitLog=9\nx\\=y=1\nmappedFileSizeCommitLog=8\nregionId=a\\\\b\n";
    assert_eq!(merged(text, &changes(&list)), expected);
    assert_eq!(merged("", &changes(&[("a", "1")])), "a=1\n");
    let read = wire::body::parse_key_values(expected.as_bytes()).unwrap();
    assert!(read.iter().any(|(key, value)| key == "regionId" && value == "a\\b"));
}
