use std::net::Ipv4Addr;
use std::sync::atomic::AtomicU64;

use tempfile::TempDir;
use wire::frame::{Encoding, FrameWriter, Head};
use wire::settings::FileSettings as _;

use super::*;

const SETTINGS: &str = "authenticationEnabled=true
authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
authorizationEnabled=true
authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider
authenticationWhitelist=101
";

/// A name server with a user of this type and these acls.
fn gate(kind: &str, acls: &str) -> (Gate, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::new(home.path());
    assert_eq!(config.read(SETTINGS.as_bytes()).unwrap(), []);
    let directory = home.path().join("namesrv");
    std::fs::create_dir_all(&directory).unwrap();
    let user = r#"[{"username":"rocketmq2","password":"12345678","userStatus":"enable","userType":"KIND"}]"#;
    std::fs::write(directory.join("users.json"), user.replace("KIND", kind)).unwrap();
    std::fs::write(directory.join("acls.json"), acls).unwrap();
    (Gate::open(&config).unwrap().unwrap(), home)
}

/// Returns the response to a request with fields that RocketMQ's client has signed. The signature does not cover the
/// code.
fn ask(gate: &Gate, code: i32, fields: &[(&str, &str)]) -> String {
    let mut frame = Vec::new();
    let writer = FrameWriter::begin(&mut frame, Head::request(Encoding::Json, code, 7));
    fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(b"");
    let command = Command::decode(&mut frame).unwrap();
    let origin = Origin { address: Ipv4Addr::LOCALHOST.into(), connection: 1 };
    let admitted = gate.admit((0, 0), &command, origin, &AtomicU64::new(0));
    admitted
        .map_or_else(|denied| format!("{} {}", denied.error.code(), denied.error), |()| "served".to_owned())
}

const SIGNED: [(&str, &str); 3] =
    [("topic", "TopicTest"), ("AccessKey", "rocketmq2"), ("Signature", "GeeGoP9mRvDhoVp4PD5omX0prgE=")];

#[test]
fn what_changes_routes_needs_a_super_user_or_an_acl() {
    let acl = r#"[{"subject":"User:rocketmq2","policies":[{"entries":[{"resource":"Cluster:*","actions":["Update"],"decision":"Allow"}]}]}]"#;
    let refused =
        "16 User:rocketmq2 has no permission to access Cluster: from 127.0.0.1, no matched policies.";
    for (kind, acls, expected) in
        [("Normal", "[]", refused), ("Normal", acl, "served"), ("Super", "[]", "served")]
    {
        let (gate, _home) = gate(kind, acls);
        for code in CHANGES {
            assert_eq!(ask(&gate, code, &SIGNED), expected, "{kind} {acls} {code}");
        }
        for code in [request::GET_ROUTEINFO_BY_TOPIC, request::GET_BROKER_CLUSTER_INFO, 9999] {
            assert_eq!(ask(&gate, code, &SIGNED), "served", "{kind} {acls} {code}");
        }
    }
}

#[test]
fn the_white_list_spares_the_signature() {
    let (gate, _home) = gate("Super", "[]");
    assert_eq!(ask(&gate, request::GET_KV_CONFIG, &[]), "served");
    assert_eq!(ask(&gate, request::GET_ROUTEINFO_BY_TOPIC, &[]), "16 username cannot be null.");
}

#[test]
fn nobody_is_asked_by_default_and_settings_that_contradict_each_other_stop_the_start() {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::new(home.path());
    assert!(Gate::open(&config).unwrap().is_none());
    assert!(!home.path().join("namesrv").exists());
    config.read(b"authorizationEnabled=true").unwrap();
    let error = Gate::open(&config).err().unwrap().to_string();
    assert!(error.starts_with("authorizationEnabled needs authenticationEnabled"), "{error}");
}
