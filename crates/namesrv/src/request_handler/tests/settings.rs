use super::*;

#[test]
fn settings_are_kept_across_a_restart() {
    let office = Office::new();
    let item = |key| json!({"namespace": "ns", "key": key});
    let response = office.ask(101, item("k"), "");
    assert_eq!((response.code, response.remark.as_str()), (22, "No config item, Namespace: ns Key: k"));
    let response = office.ask(219, json!({"namespace": "ns"}), "");
    assert_eq!((response.code, response.remark.as_str()), (22, "No config item, Namespace: ns"));
    for key in ["k", "l"] {
        assert_eq!(office.ask(100, json!({"namespace": "ns", "key": key, "value": "v"}), "").code, 0);
    }
    assert_eq!(office.ask(102, item("l"), "").code, 0);
    assert_eq!(office.ask(102, item("m"), "").code, 0);
    let office = office.reopen();
    assert_eq!(office.ask(101, item("k"), "").fields["value"], "v");
    assert_eq!(office.ask(101, item("l"), "").code, 22);
    assert_eq!(office.ask(219, json!({"namespace": "ns"}), "").body, r#"{"table":{"k":"v"}}"#);
}

#[test]
fn settings_need_namespace_key_and_value() {
    let office = Office::new();
    for fields in [json!({"key": "k", "value": "v"}), json!({"namespace": "n", "value": "v"})] {
        let response = office.ask(100, fields, "");
        assert_eq!((response.code, response.remark.as_str()), (1, "namespace or key is null"));
    }
    let response = office.ask(100, json!({"namespace": "n", "key": "k"}), "");
    assert_eq!(response.remark, "the request header has no field value, which is required");
}

#[test]
fn settings_have_a_bound() {
    let office = Office::with("kvConfigBytesMax=1000");
    let put = |key: &str, value: usize| {
        let fields = json!({"namespace": "n", "key": key, "value": "v".repeat(value)});
        office.ask(100, fields, "")
    };
    assert_eq!(put("a", 400).code, 0);
    let response = put("b", 500);
    let remark =
        "the key-value settings have no room: expected at most 1000 bytes (kvConfigBytesMax), found 1095";
    assert_eq!((response.code, response.remark.as_str()), (1, remark));
    // The value that a key had is not counted, nor are removed keys.
    assert_eq!((put("a", 800).code, put("b", 100).code), (0, 1));
    assert_eq!(office.ask(102, json!({"namespace": "n", "key": "a"}), "").code, 0);
    assert_eq!(put("b", 800).code, 0);
    // Namespaces stay, so that empty namespaces count, too.
    let namespace = json!({"namespace": "m".repeat(200), "key": "k", "value": ""});
    assert_eq!(office.ask(100, namespace, "").code, 1);
}

#[test]
fn changes_that_wait_together_are_judged_in_their_order() {
    let office = Office::with("kvConfigBytesMax=1000");
    let frame = |code: i32, key: &str, value: &str| {
        let fields = json!({"namespace": "n", "key": key, "value": value});
        framed(json!({"code": code, "opaque": 1, "extFields": fields}).to_string().as_bytes(), b"")
    };
    let large = "v".repeat(800);
    let mut frames = [
        frame(100, "a", &large),
        frame(100, "b", &large),
        frame(102, "a", ""),
        frame(100, "c", &large),
        frame(100, "", "1"),
    ];
    let commands: Vec<_> = frames.iter_mut().map(|frame| Command::decode(frame).unwrap()).collect();
    let code = |mut response: Vec<u8>| Command::decode(&mut response).unwrap().code;
    let codes: Vec<_> = office.handler.respond_kv(&commands).into_iter().map(code).collect();
    assert_eq!(codes, [0, 1, 0, 0, 0]);
    let body = office.reopen().ask(219, json!({"namespace": "n"}), "").body;
    assert_eq!(body, format!(r#"{{"table":{{"":"1","c":"{large}"}}}}"#));
}

#[test]
fn settings_that_cannot_be_written_are_refused() {
    let office = Office::new();
    std::fs::write(office.home.path().join("namesrv"), "a file in the way").unwrap();
    let response = office.ask(100, json!({"namespace": "n", "key": "k", "value": "v"}), "");
    assert_eq!(response.code, 1);
    assert_eq!(office.ask(101, json!({"namespace": "n", "key": "k"}), "").code, 22);
    let response = office.ask(318, json!({}), "orderMessageEnable=true");
    assert!(response.remark.starts_with("cannot write "), "{}", response.remark);
    assert!(office.ask(319, json!({}), "").body.contains("\norderMessageEnable=false\n"));
}

#[test]
fn locked_keys_cannot_be_changed() {
    let office = Office::new();
    let before = office.ask(319, json!({}), "").body;
    for key in ["kvConfigPath", "configStorePath", "configBlackList", "rocketmqHome"] {
        let response = office.ask(318, json!({}), &format!("orderMessageEnable=true\n{key}=x"));
        assert_eq!(
            (response.code, response.remark.as_str()),
            (16, "Can not update config in black list."),
            "{key}"
        );
    }
    assert_eq!(office.ask(319, json!({}), "").body, before);
}

#[test]
fn the_configuration_is_changed_in_its_file_too() {
    let office = Office::new();
    let path = office.home.path().join("namesrv/namesrv.properties");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "# ours\nwaitSecondsForService=45\nfuture=1\n").unwrap();
    assert_eq!(
        office.ask(318, json!({}), "waitSecondsForService=9\nenableTopicList=false\nno.such.key=1").code,
        0
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "# ours\nwaitSecondsForService=9\nfuture=1\nenableTopicList=false\n");
    let body = office.ask(319, json!({}), "").body;
    assert!(body.contains("\nwaitSecondsForService=9\n") && !body.contains("no.such.key"), "{body}");
    assert_eq!(office.ask(224, json!({"cluster": "C"}), "").remark, "disable");
}

#[test]
fn changes_that_cannot_be_read_change_nothing() {
    let office = Office::new();
    let response = office.ask(318, json!({}), "a=\\u12");
    assert_eq!((response.code, response.remark.as_str()), (1, "string2Properties error"));
    let response = office.ask(318, json!({}), "enableTopicList=false\nwaitSecondsForService=soon");
    assert_eq!(response.remark, "setting waitSecondsForService is `soon`, expected a number of 0 or more");
    assert_eq!(office.ask(224, json!({"cluster": "C"}), "").code, 0);
    assert_eq!(office.ask(318, json!({}), "").code, 0);
}
