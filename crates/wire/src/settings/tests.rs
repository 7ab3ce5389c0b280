use super::*;

#[test]
fn a_switch_is_off_for_words_of_false_and_refused_for_others() {
    for text in ["true", "TRUE", "True"] {
        assert_eq!(switch(text), Some(true), "{text}");
    }
    for text in
        ["false", "FALSE", "no", "No", "0", "off", "OFF", "flase", "fasle", "fals", "falsee", "f", "n", ""]
    {
        assert_eq!(switch(text), Some(false), "{text}");
    }
    for text in ["yes", "on", "1", "ture", "treu", "t", "y", "enable", "maybe", "2", "true;", "fantastic"] {
        assert_eq!(switch(text), None, "{text}");
    }
}

#[test]
fn addresses_have_a_host_and_a_port() {
    for (text, expected) in [
        ("", ""),
        ("10.0.0.1:9876", "10.0.0.1:9876"),
        (" h1:9876; h2:9876 ;", "h1:9876;h2:9876"),
        (":9876", "127.0.0.1:9876"),
        (":9876;:9877", "127.0.0.1:9876;127.0.0.1:9877"),
        ("rmq_namesrv:9876", "rmq_namesrv:9876"),
        ("[::1]:9876", "[::1]:9876"),
        ("::1:9876", "[::1]:9876"),
        ("[fe80::1%eth0]:9876", "[fe80::1%eth0]:9876"),
        ("localhost", "localhost:9876"),
        ("10.0.0.1; h2:9877;[::1]", "10.0.0.1:9876;h2:9877;[::1]:9876"),
    ] {
        assert_eq!(name_servers(text).as_deref(), Ok(expected), "{text}");
    }
    for text in [
        "127.0.0.1:9876 # the name server",
        "host:Port",
        "http://127.0.0.1:9876",
        "127.0.0.1:9876,127.0.0.1:9877",
        "127.0.0.1:9876 127.0.0.1:9877",
        "127.0.0.1,10.0.0.1",
        "10.0.0",
        "h:0",
        "h:99999",
        "h:-1",
        "a b:9876",
        "10.0.0:9876",
        "${NAMESRV}:9876",
        "h1:9876;h 2",
        "[h]:9876",
    ] {
        let error = name_servers(text).unwrap_err();
        assert!(error.starts_with("expected host:port, as 10.0.0.1:9876"), "{text}: {error}");
    }
}

#[test]
fn variables_of_templates_are_seen() {
    for (text, expected) in [
        ("${BROKER_IP}", Some("${BROKER_IP}")),
        ("/data/${user.home}/store", Some("${user.home}")),
        ("${IP:-10.0.0.1}", Some("${IP:-10.0.0.1}")),
        ("{{ .Values.ip }}", Some("{{ .Values.ip }}")),
        ("a$b", None),
        ("${", None),
        ("{\"password\":\"a${\"}", None),
        ("plain", None),
    ] {
        assert_eq!(variable(text), expected, "{text}");
    }
}

crate::settings! {
    /// Settings of a timer.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Timer {
        "precision" Restart precision_ms: u32 = 1000, [[("1000", 1000), ("500", 500)]], "milliseconds of a slot";
        "delayMax" Live delay_max_s: i64 = 60, [0..=100], "longest delay, in seconds";
    }
}

crate::settings! {
    /// Settings of a role.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Role {
        "name" Restart name: String = "a".to_owned(), "name of the role";
        "port" Restart port: u16 = 9, [Exact(1..=99)], "port to listen on";
        "isOn" Live is_on: bool = true, "whether the role serves";
        "test" Unsupported test: bool = false, "whether names are looked up elsewhere";
    }
    parts {
        /// Timer.
        timer: Timer;
    }
    fields {
        /// Names without a setting.
        unknown: BTreeMap<String, String> = BTreeMap::new();
    }
}

static ROLE: std::sync::LazyLock<Vec<Property<Role>>> = std::sync::LazyLock::new(Role::properties);

impl FileSettings for Role {
    fn table() -> &'static [Property<Self>] {
        &ROLE
    }

    fn unknown(&self) -> &BTreeMap<String, String> {
        &self.unknown
    }

    fn unknown_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.unknown
    }
}

#[test]
fn a_row_declares_default_name_and_bounds() {
    let mut role = Role::default();
    assert_eq!(role.text(), "delayMax=60\nisOn=true\nname=a\nport=9\nprecision=1000\ntest=false\n");
    let text = "name= b \nport=10\nisOn=off\ndelayMax=101\nprecision=\ntest=true\nother=1\n";
    let findings = role.read(text.as_bytes()).unwrap();
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        findings,
        [
            "setting delayMax is \"101\", expected a number of 0 to 100; it counts as 100",
            "setting isOn is \"off\", expected true or false; it counts as false",
            "unknown setting other: it has no effect",
            "setting precision is \"\", expected 1000 or 500; it counts as 1000",
            "setting test=true has no effect here",
        ]
    );
    assert_eq!((role.name.as_str(), role.port, role.timer.delay_max_s), ("b", 10, 100));
    assert!(role.text().contains("\nother=1\n"));
}

#[test]
fn a_value_that_cannot_be_read_is_refused_and_changes_nothing() {
    for (line, expected) in [
        ("port=100", "setting port is `100`, expected a number of 1 to 99"),
        ("delayMax=-1", "setting delayMax is `-1`, expected a number of 0 to 100"),
        ("precision=200", "setting precision is `200`, expected 1000 or 500"),
        ("isOn=yes", "setting isOn is `yes`, expected true or false"),
        ("name=a-${N}", "setting name is `a-${N}`, expected a value without the variable ${N} of a template"),
    ] {
        let mut role = Role::default();
        let error = role.read(line.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(role, Role::default());
    }
    let mut role = Role::default();
    assert_eq!((role.set("port", "7"), role.set("nobody", "7")), (Ok(true), Ok(false)));
    assert_eq!(role.port, 7);
}
