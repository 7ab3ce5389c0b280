//! Credentials of both protocols: whatever bytes come, nobody is taken for a user without the user's secret, and names in answers are
//! short and without control characters.
#![no_main]

use std::sync::LazyLock;

use auth::{Auth, AuthConfig, Subject, Metadata, PlainFiles, Signable};
use libfuzzer_sys::fuzz_target;
use wire::frame::Command;

static AUTH: LazyLock<Auth> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("vostok-fuzz-credentials-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let mut config = AuthConfig::default();
    for (key, value) in [
        ("authenticationEnabled", "true"),
        (
            "authenticationMetadataProvider",
            "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
        ),
        ("initAuthenticationUser", r#"{"username":"rocketmq2","password":"a secret that no input holds"}"#),
    ] {
        assert!(config.set(key, value));
    }
    let plain = PlainFiles { file: directory.join("none"), directory: directory.join("none") };
    Auth::open(&config, &directory, &plain).expect("a start")
});

fn check(verified: Result<Subject, auth::AuthError>) {
    let text = verified.expect_err("no input is signed with the secret").to_string();
    assert!(text.len() < 2000 && !text.contains(char::is_control), "{text:?}");
}

fuzz_target!(|data: &[u8]| {
    let mut frame = data.to_vec();
    if let Ok(command) = Command::decode(&mut frame) {
        check(AUTH.verify(&Signable::from(&command)));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let (authorization, date_time) = text.split_once('\n').unwrap_or((text, "20240101T000000Z"));
        let message = "apache.rocketmq.v2.QueryRouteRequest";
        check(AUTH.verify_grpc(&Metadata {
            message,
            authorization: Some(authorization),
            date_time: Some(date_time),
        }));
    }
});
