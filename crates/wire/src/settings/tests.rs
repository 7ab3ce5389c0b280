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
