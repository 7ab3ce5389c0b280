use super::*;

#[test]
fn every_property_reads_back_what_it_shows() {
    let default = Config::new(Path::new("/home"));
    let mut read = Config::new(Path::new("/elsewhere"));
    assert_eq!(read.read(default.text().as_bytes()).unwrap(), []);
    assert_eq!(read, default);
}

#[test]
fn a_file_sets_what_it_names() {
    let mut config = Config::new(Path::new("/home"));
    let text = b"# ours\nlistenPort = 19876\nsupportActingMaster=TRUE\nkvConfigPath=/kv.json\n";
    assert_eq!(config.read(text).unwrap(), []);
    assert_eq!((config.listen_port, config.support_acting_master), (19876, true));
    assert_eq!(config.kv_config_path, Path::new("/kv.json"));
    assert_eq!(config.scan_interval_ms, 5000);
}

#[test]
fn odd_keys_and_values_are_warnings() {
    let mut config = Config::new(Path::new("/home"));
    let warnings = config
        .read(b"listenPort=\nnew=1\nclusterTest=true\ndefaultThreadPoolNums=4\nenableTopicList=no\n")
        .unwrap();
    let texts: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "setting clusterTest=true has no effect here",
            "setting enableTopicList is \"no\", expected true or false; it counts as false",
            "setting listenPort is \"\", expected a port number of 0 to 65535; it counts as 9876",
            "unknown setting new: it has no effect",
        ]
    );
    assert_eq!((config.listen_port, config.enable_topic_list), (9876, false));
    assert!(config.text().contains("\nnew=1\n"));
    for (line, expected) in [
        ("listenPort=abc", "setting listenPort is `abc`, expected a port number of 0 to 65535"),
        ("scanNotActiveBrokerInterval=5s", "setting scanNotActiveBrokerInterval is `5s`, expected a number"),
        ("enableAllTopicList=yes", "setting enableAllTopicList is `yes`, expected true or false"),
    ] {
        let error = config.read(line.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(error.key(), line.split_once('=').map(|(key, _)| key));
    }
}

#[test]
fn locked_keys_are_those_of_the_black_list_and_the_home() {
    let mut config = Config::new(Path::new("/home"));
    assert!(!config.is_locked("enableTopicList"));
    config.read(b"configBlackList=enableTopicList").unwrap();
    // Not even the port, which is half of where the server listens.
    for key in [
        "configBlackList",
        "configStorePath",
        "kvConfigPath",
        "rocketmqHome",
        "listenPort",
        "enableTopicList",
    ] {
        assert!(config.is_locked(key), "{key}");
    }
}

#[test]
fn cve_2023_37582_no_setting_changed_while_running_names_a_path_an_address_or_a_command() {
    for property in PROPERTIES.iter() {
        for value in ["/etc/passwd", "10.6.6.6", "../x", "$(id)"] {
            let mut config = Config::new(Path::new("/home"));
            let is_taken = config.set(property.name, value).is_ok() && property.value(&config) == value;
            assert!(!is_taken || config.is_locked(property.name), "{} can be made {value}", property.name);
        }
    }
}
