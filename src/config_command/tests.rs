use super::*;

fn found(text: &str) -> Vec<(Severity, String)> {
    let lines = of_broker(text.as_bytes(), text.as_bytes()).unwrap().into_iter();
    lines.map(|line| (line.severity, line.finding)).collect()
}

fn has(text: &str, severity: Severity, part: &str) {
    let lines = found(text);
    assert!(lines.iter().any(|line| line.0 == severity && line.1.contains(part)), "{part}: {lines:?}");
}

#[test]
fn each_kind_of_finding_is_named() {
    has("fileReservdTime=4\n", Severity::Warning, "did you mean fileReservedTime?");
    has(
        "# size\nmaxMessageSize=none\n",
        Severity::Error,
        "line 2: the start refuses: setting maxMessageSize=none",
    );
    has("traceOn=no\n", Severity::Warning, "it counts as false");
    has("traceOn=yes\n", Severity::Error, "expected true or false");
    has("namesrvAddr=host:Port\n", Severity::Error, "found \"host:Port\"");
    has("enableRemoteEscape=true\n", Severity::Warning, "wait for their master");
    has("transferMsgByHeap=false\n", Severity::Note, "not needed");
    has("mapedFileSizeCommitLog=1048576\n", Severity::Warning, "present name");
    has("enableDLegerCommitLog=true\n", Severity::Error, "DLedger");
    has("brokerRole=SLAVE\n", Severity::Error, "an id above 0");
    has(
        "",
        Severity::Note,
        "controllerHeartBeatTimeoutMills is not in the file: 2500 here, 10000 in RocketMQ",
    );
}

#[test]
fn an_ordinary_file_has_notes_only() {
    let text = "brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\ndeleteWhen=04\nfileReservedTime=48\nbrokerRole=ASYNC_MASTER\nflushDiskType=ASYNC_FLUSH\n";
    let lines = found(text);
    assert!(lines.iter().all(|line| line.0 == Severity::Note), "{lines:?}");
}

#[test]
fn a_secret_is_named_and_never_shown() {
    let check = |mode, severity| {
        let given = [("tls.server.keyPassword", "s3same"), ("brokerName", "a")];
        let given = given.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let lines = secrets(&given, mode);
        assert!(lines.len() == 1 && lines[0].severity == severity, "{lines:?}");
        assert!(lines[0].finding.contains("keyPassword") && !lines[0].finding.contains("s3same"));
    };
    check(0o100_600, Severity::Note);
    check(0o100_644, Severity::Warning);
}

#[test]
fn differences_are_changed_missing_and_added_settings() {
    let map = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let found =
        differences(&map(&[("a", "1"), ("b", "2"), ("c", "3")]), &map(&[("a", "1"), ("b", "5"), ("d", "4")]));
    let found: Vec<_> =
        found.iter().map(|it| (it.setting.as_str(), it.first.as_deref(), it.second.as_deref())).collect();
    assert_eq!(found, [("b", Some("2"), Some("5")), ("c", Some("3"), None), ("d", None, Some("4"))]);
}

#[test]
fn what_stops_a_controller_is_found() {
    for (text, part) in [
        (
            "controllerDLegerSelfId=n0\ncontrollerDLegerPeers=n0-a:1,n1-b:1\n",
            "line 2: the start refuses: controllerDLegerPeers holds",
        ),
        ("controllerDLegerPeers=n0-a:1\n", "controllerDLegerSelfId is ``"),
        ("controllerStorePath=${HOME}/c\n", "line 1: the start refuses: setting controllerStorePath is"),
    ] {
        let lines = of_controller(text.as_bytes(), text.as_bytes());
        assert!(lines.len() == 1 && lines[0].finding.contains(part), "{text}: {lines:?}");
        assert!(lines[0].severity == Severity::Error);
    }
}
