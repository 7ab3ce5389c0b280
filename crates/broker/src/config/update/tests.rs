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
const VALUES: [&str; 13] =
    ["true", "false", "7", "11", "55", "77", "1001", "4097", "SYNC_FLUSH", "DROP", "05", "60", "50g"];

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

/// No request from the network may lead to a file or a program of its sender's choice.
#[test]
fn no_setting_that_names_a_path_a_command_or_an_address_can_be_changed() {
    for property in PROPERTIES {
        let shown = property.value(&defaults());
        let telling = ["Path", "Dir", "Addr", "IP", "Port", "Command", "Script"];
        if telling.iter().any(|part| property.name.contains(part)) || shown.contains('/') {
            assert_eq!(property.effect, Effect::Restart, "{}", property.name);
        }
    }
    for key in [
        "storePathRootDir",
        "storePathCommitLog",
        "listenPort",
        "brokerIP1",
        "namesrvAddr",
        "brokerName",
        "tls.server.keyPath",
    ] {
        let result = update(&defaults(), changes(&[(key, "/etc")]));
        assert!(matches!(result, Err(NotChanged::Forbidden(_))), "{key}");
    }
    for key in ["brokerConfigPath", "configBlackList", "rocketmqHome"] {
        refused(&[(key, "/etc")], NotChanged::Forbidden("Can not update config in black list.".to_owned()));
    }
}

#[test]
fn all_changes_of_a_request_are_made_or_none() {
    let list = [("maxMessageSize", "10"), ("traceOn", "false")];
    let text = "traceOn cannot be changed while the broker runs; write it into its file and start it again";
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
    let list = [("sendMessageThreadPoolNums", "8"), ("autoCreateTopicEnabled", "false"), ("traceOn", "true")];
    let update = update(&defaults(), changes(&list)).unwrap();
    assert_eq!(update.written, changes(&[("sendMessageThreadPoolNums", "8")]));
    assert_eq!(update.notes.len(), 2);
    assert!(update.notes[0].contains("did you mean autoCreateTopicEnable?"), "{:?}", update.notes);
    assert_eq!(update.config.shown("sendMessageThreadPoolNums"), "8");
    let missed = self::update(&defaults(), changes(&[("asyncLearner", "true")]));
    assert!(matches!(missed, Err(NotChanged::Forbidden(_))), "its effect would be missed");
    let auth = self::update(&defaults(), changes(&[("enableDLegerCommitLog", "true")]));
    assert!(matches!(auth, Err(NotChanged::Forbidden(_))), "it must not be ignored");
}

#[test]
fn settings_of_authentication_cannot_be_changed_while_running() {
    for key in auth::KEYS {
        let changed = update(&defaults(), changes(&[(key, "true")]));
        assert!(matches!(changed, Err(NotChanged::Forbidden(_))), "{key}: {changed:?}");
    }
}

#[test]
fn cve_2023_33246_no_setting_changed_while_running_names_a_path_an_address_or_a_command() {
    // A name for regions, and compressions that only Java's RocksDB would read: none is opened, resolved or run.
    const WORDS: [&str; 6] = [
        "regionId",
        "bottomMostCompressionTypeForConsumeQueueStore",
        "rocksdbCompressionType",
        "configName",
        "clusterName",
        // A number whose default is empty.
        "clientCallbackExecutorThreads",
    ];
    let is_text = |default: &str| default.parse::<f64>().is_err() && !["true", "false"].contains(&default);
    let effective = table::PROPERTIES.iter().map(|property| property.name.to_owned());
    let without_effect = unknown::defaults().into_iter().filter(|(_, default)| is_text(default));
    for name in effective.chain(without_effect.map(|(name, _)| name)) {
        for value in ["/etc/passwd", "10.6.6.6:9876", "../x", "$(id)"] {
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
