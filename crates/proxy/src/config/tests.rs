use super::*;

#[test]
fn a_file_of_java_is_taken_as_it_is() {
    let text = br#"{"grpcServerPort": 9000, "maxMessageSize": "1024", "enableProxyAutoRenew": false, "proxyMode": "LOCAL", "enableBatchAck": true, "longPollingReserveTimeInMillis": 500, "transactionHeartbeatPeriodSecond": 3, "x": 1}"#;
    let (config, notes) = Config::from_json(text).unwrap();
    assert_eq!((config.port, config.body_bytes_max, config.renews), (9000, 1024, false));
    assert_eq!(config.producers_told_s, 3);
    let without_effect = ["proxyMode", "enableBatchAck", "longPollingReserveTimeInMillis"];
    let mut expected: Vec<String> =
        without_effect.iter().map(|it| format!("{it} has no effect here")).collect();
    expected.push("x is unknown".to_owned());
    assert_eq!(notes, expected);
}

#[test]
fn a_file_of_people_is_taken_as_it_is() {
    let text = "\u{feff}{\n  // ports of this machine\n  \"rocketMQClusterName\": \"DefaultCluster\", /* the only one */\n\
        'grpcServerPort': \"18081\",\n  \"enableProxyAutoRenew\": \"no\"\n}";
    let (config, notes) = Config::from_json(text.as_bytes()).unwrap();
    assert_eq!((config.port, config.renews), (18081, false));
    assert_eq!(notes, ["enableProxyAutoRenew is \"no\" and counts as false; write true or false"]);
    let error = Config::from_json(b"{\n  \"grpcServerPort\": 1,\n}").unwrap_err().to_string();
    assert_eq!(error, "line 3: expected another element, found `}`");
}

#[test]
fn a_value_that_does_not_fit_is_refused() {
    let check = |text: &str, expected: &str| {
        assert_eq!(Config::from_json(text.as_bytes()).unwrap_err().to_string(), expected);
    };
    check(r#"{"grpcServerPort": 70000}"#, "grpcServerPort: expected a number that fits, found 70000");
    check(r#"{"enableProxyAutoRenew": 1}"#, "enableProxyAutoRenew: expected true or false, found 1");
    let expected = "rocketMQClusterName: expected a value, found the variable ${C} of a template";
    check(r#"{"rocketMQClusterName": "${C}"}"#, expected);
    check("[]", "expected a JSON object");
}

#[test]
fn only_the_word_false_turns_users_off() {
    for key in ["authenticationEnabled", "authorizationEnabled"] {
        for word in ["flase", "off", "no", "none", "0", "on"] {
            let error = Config::from_json(format!("{{\"{key}\": \"{word}\"}}").as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), format!("{key}: expected true or false, found \"{word}\""));
        }
        for value in ["false", "\"\"", "\"False\""] {
            let (config, notes) = Config::from_json(format!("{{\"{key}\": {value}}}").as_bytes()).unwrap();
            assert!(!config.authenticates && !config.authorizes && notes.is_empty(), "{notes:?}");
        }
    }
}

/// Checks the page. `VOSTOK_WRITE_DOCS=1` writes the page after a change of the table.
#[test]
fn the_page_in_docs_is_made_from_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proxy-settings.md");
    if std::env::var_os("VOSTOK_WRITE_DOCS").is_some() {
        std::fs::write(path, Config::page()).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == Config::page(),
        "run with VOSTOK_WRITE_DOCS=1 to write it"
    );
}

/// The Chinese page explains the same settings; it is written by hand.
#[test]
fn the_chinese_page_names_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proxy-settings.zh-CN.md");
    let text = std::fs::read_to_string(path).unwrap();
    for setting in PROPERTIES.iter() {
        let (name, default) = (setting.name, setting.value(&Config::default()));
        assert!(text.contains(&format!("| `{name}` | {default} |")), "{name}");
    }
}
