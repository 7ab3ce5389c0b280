use super::*;
use crate::names::Action;
use crate::testing::{
    BOTH, Fixture, HASHED_BYTES, VECTOR, acl, decide, group, ip, root, topic, user, with_request,
};
use wire::frame::Encoding;

/// The answer to a request with these fields: the name of the user, or code and text.
fn verify(auth: &Auth, fields: &[(&'static str, &str)]) -> Result<Subject, (i32, String)> {
    with_request(Encoding::Binary, fields, b"", |signed| auth.verify(&signed))
        .map_err(|error| (error.code(), error.to_string()))
}

fn refused(auth: &Auth, fields: &[(&'static str, &str)], expected: &str) {
    assert_eq!(verify(auth, fields), Err((16, expected.to_owned())), "{fields:?}");
}

#[test]
fn every_failure_has_its_text() {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[]);
    assert_eq!(verify(&auth, &VECTOR), Ok(root()));
    refused(&auth, &[], "username cannot be null.");
    refused(&auth, &VECTOR[..1], "username cannot be null.");
    refused(&auth, &[("AccessKey", " "), VECTOR[2]], "username cannot be null.");
    refused(&auth, &VECTOR[..2], "check signature failed.");
    refused(&auth, &[VECTOR[0], VECTOR[1], ("Signature", "====")], "check signature failed.");
    refused(&auth, &VECTOR[1..], "check signature failed.");
    refused(&auth, &[VECTOR[0], ("AccessKey", "other"), VECTOR[2]], "User:other is not found.");
    let disabled = wire::body::UserInfo { user_status: Some("disable".to_owned()), ..user("", "") };
    auth.update_user(&root(), "rocketmq2", &disabled).unwrap();
    refused(&auth, &VECTOR, "User:rocketmq2 is disabled.");
}

#[test]
fn a_name_of_a_mebibyte_is_an_error_with_a_short_text() {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[]);
    let name = "x".repeat(1 << 20);
    let error = verify(&auth, &[("AccessKey", &name), VECTOR[2]]).unwrap_err();
    assert!(error.1.starts_with("User:xxx") && error.1.len() < 300, "{}", error.1.len());
    let error = auth.create_user(&root(), &name, &user("secret", "")).unwrap_err();
    assert_eq!(error.to_string(), "the username has 1048576 bytes, at most 255 are accepted");
    let error = auth.create_user(&root(), "u", &user(&name, "")).unwrap_err();
    assert_eq!(error.to_string(), "the password has 1048576 bytes, at most 1024 are accepted");
    assert_eq!(auth.users(&root(), "").len(), 1);
}

#[test]
fn the_first_user_is_created_once_as_super() {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[]);
    assert_eq!(auth.users(&root(), "")[0].user_type.as_deref(), Some("Super"));
    drop(auth);
    let auth = fixture.auth(&[("initAuthenticationUser", r#"{"username":"rocketmq2","password":"other"}"#)]);
    assert_eq!(verify(&auth, &VECTOR), Ok(root()));
    drop(auth);
    let inner = ("innerClientAuthenticationCredentials", r#"{"accessKey":"inner","secretKey":"s"}"#);
    let auth = fixture.auth(&[inner]);
    let names: Vec<_> = auth.users(&root(), "").into_iter().map(|it| it.username.unwrap()).collect();
    assert_eq!(names, ["inner", "rocketmq2"]);
    assert!(auth.is_super(&Subject::User("inner".into())));
    assert_eq!(auth.settings().inner_user.as_ref().unwrap().secret, "s");
}

#[test]
fn changes_count_for_the_next_request() {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[]);
    auth.create_user(&root(), "alice", &user("secret", "")).unwrap();
    let needed = [topic("t", &[Action::Pub])];
    let none = "User:alice has no permission to access Topic:t from 10.0.0.1, no matched policies.";
    assert_eq!(decide(&auth, "alice", "10.0.0.1", &needed), none);
    auth.change_acl("User:alice", &acl(&["Allow Pub Topic:t"])).unwrap();
    assert_eq!(decide(&auth, "alice", "10.0.0.1", &needed), "served by Custom Allow Pub on Topic:t");
    auth.change_acl("User:alice", &acl(&["Deny Pub Topic:t"])).unwrap();
    let denied = "User:alice has no permission to access Topic:t from 10.0.0.1, the decision is deny.";
    assert_eq!(decide(&auth, "alice", "10.0.0.1", &needed), denied);
    let disabled = wire::body::UserInfo { user_status: Some("disable".to_owned()), ..user("", "") };
    auth.update_user(&root(), "alice", &disabled).unwrap();
    assert_eq!(decide(&auth, "alice", "10.0.0.1", &needed), "User:alice is disabled.");
    auth.delete_user(&root(), "alice").unwrap();
    assert_eq!(decide(&auth, "alice", "10.0.0.1", &needed), "User:alice not found.");
}

#[test]
fn all_that_is_needed_must_be_allowed() {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[]);
    auth.create_user(&root(), "alice", &user("secret", "")).unwrap();
    auth.change_acl("User:alice", &acl(&["Allow Sub Topic:t", "Allow Sub Group:g"])).unwrap();
    let (topic_t, group_g) = (topic("t", &[Action::Sub]), group("g", &[Action::Sub]));
    assert_eq!(
        decide(&auth, "alice", "::1", &[topic_t.clone(), group_g]),
        "served by Custom Allow Sub on Group:g"
    );
    let refused = "User:alice has no permission to access Group:h from ::1, no matched policies.";
    assert_eq!(decide(&auth, "alice", "::1", &[topic_t.clone(), group("h", &[Action::Sub])]), refused);
    assert_eq!(decide(&auth, "alice", "::1", &[group("h", &[Action::Sub]), topic_t]), refused);
    assert_eq!(decide(&auth, "alice", "::1", &[]), "served by nothing needed");
    assert_eq!(decide(&auth, "rocketmq2", "::1", &[group("h", &[Action::Sub])]), "served by super user");
}

#[test]
fn white_lists_name_codes_and_messages() {
    let fixture = Fixture::new();
    let list = "310 , apache.rocketmq.v2.QueryRouteRequest,105";
    let auth = fixture.auth(&[("authenticationWhitelist", list), ("authorizationWhitelist", list)]);
    assert_eq!(verify(&auth, &VECTOR[..1]), Ok(Subject::Anonymous));
    assert_eq!(verify(&auth, &VECTOR), Ok(root()));
    let grpc = |message| {
        auth.verify_grpc(&Metadata { message, authorization: None, date_time: None })
            .map_err(|error| error.to_string())
    };
    assert_eq!(grpc("apache.rocketmq.v2.QueryRouteRequest"), Ok(Subject::Anonymous));
    assert_eq!(grpc("apache.rocketmq.v2.SendMessageRequest"), Err("username cannot be null.".to_owned()));
    let decide = |request| {
        auth.decide(&Subject::Anonymous, request, ip("::1"), &[topic("t", &[Action::Pub])])
            .refusal
            .map(|it| it.to_string())
    };
    assert_eq!(decide(Request::Code(310)), None);
    assert_eq!(decide(Request::Message("apache.rocketmq.v2.QueryRouteRequest")), None);
    let generic = "Authorization failed. Please verify your access rights and try again.";
    assert_eq!(decide(Request::Code(11)).as_deref(), Some(generic));
}

/// Java caches the first verdict of a connection for a minute when the strategy is stateful, also of a white-listed request.
#[test]
fn hole_every_request_is_verified_with_the_stateful_strategy_too() {
    let fixture = Fixture::new();
    let strategy = |kind: &str| format!("org.apache.rocketmq.auth.{kind}Strategy");
    let (one, other) = (
        strategy("authentication.strategy.StatefulAuthentication"),
        strategy("authorization.strategy.StatefulAuthorization"),
    );
    let auth = fixture.auth(&[
        ("authenticationStrategy", &one),
        ("authorizationStrategy", &other),
        ("authenticationWhitelist", "310"),
        ("authorizationWhitelist", "310"),
    ]);
    assert_eq!(verify(&auth, &VECTOR), Ok(root()));
    refused(&auth, &VECTOR[..2], "check signature failed.");
    let needed = [topic("t", &[Action::Pub])];
    assert!(auth.decide(&Subject::Anonymous, Request::Code(310), ip("::1"), &needed).is_allowed());
    assert!(!auth.decide(&Subject::Anonymous, Request::Code(10), ip("::1"), &needed).is_allowed());
}

/// Java takes the name in the request for the caller when only authorization is on, or when the request needs no signature.
#[test]
fn hole_no_name_counts_that_was_not_verified() {
    let fixture = Fixture::new();
    let error = fixture.open(&BOTH[2..]).unwrap_err();
    assert!(error.to_string().starts_with("authorizationEnabled needs authenticationEnabled"), "{error}");
    let auth = fixture.auth(&[("authenticationWhitelist", "105")]);
    let identity = verify(&auth, &VECTOR[..2]).unwrap();
    assert_eq!(identity, Subject::Anonymous);
    let ruling = auth.decide(&identity, Request::Code(105), ip("::1"), &[topic("t", &[Action::Get])]);
    assert_eq!(ruling.refusal, Some(AuthError::NoSubject));
}

#[test]
fn without_a_provider_every_request_fails() {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[("authenticationMetadataProvider", "")]);
    refused(&auth, &VECTOR, "The authenticationMetadataProvider is not configured");
    let auth = fixture.auth(&[("authorizationMetadataProvider", "")]);
    assert_eq!(
        decide(&auth, "rocketmq2", "::1", &[topic("t", &[Action::Pub])]),
        "The authorizationMetadataProvider is not configured"
    );
}

#[test]
fn while_all_is_off_everybody_may_do_everything_and_nothing_is_written() {
    let fixture = Fixture::new();
    let auth = fixture.open(&[]).unwrap();
    assert_eq!(verify(&auth, &[]), Ok(Subject::Off));
    let ruling = auth.decide(&Subject::Off, Request::Code(310), ip("::1"), &[topic("t", &[Action::Pub])]);
    assert!(ruling.is_allowed());
    assert_eq!(std::fs::read_dir(fixture.home.path()).unwrap().count(), 0);
}

#[test]
fn users_can_be_created_before_authentication_is_switched_on() {
    let fixture = Fixture::new();
    let auth = fixture.open(&BOTH[1..2]).unwrap();
    auth.create_user(&Subject::Off, "root", &user("secret", "Super")).unwrap();
    assert_eq!(auth.user(&Subject::Off, "root").unwrap().unwrap().password.as_deref(), Some("secret"));
    drop(auth);
    assert!(fixture.auth(&[]).is_super(&Subject::User("root".into())));
}

#[test]
fn accounts_of_acl_1_become_users_once() {
    let fixture = Fixture::new();
    let text = "accounts:\n- {accessKey: adminuser, secretKey: 12345678, admin: true}\n\
        - accessKey: normaluser\n  secretKey: 12345678\n  whiteRemoteAddress: 10.0.0.1\n  defaultTopicPerm: DENY\n  \
        defaultGroupPerm: SUB\n  topicPerms: [a=PUB|SUB, b=PUB, c=DENY, d=ANY, e*=PUB]\n  groupPerms: [g=SUB]\n\
        - {accessKey: rocketmq2, secretKey: other-secret}\n";
    std::fs::write(fixture.path("plain_acl.yml"), text).unwrap();
    let auth = fixture.auth(&[("migrateAuthFromV1Enabled", "true")]);
    assert!(auth.is_super(&Subject::User("adminuser".into())));
    assert_eq!(verify(&auth, &VECTOR), Ok(root()));
    let rule = |needed| {
        let user = Subject::User("normaluser".into());
        auth.decide(&user, Request::Code(310), ip("10.0.0.1"), &[needed]).rule.to_string()
    };
    assert_eq!(rule(topic("a", &[Action::Pub])), "Custom Allow Pub,Sub on Topic:a");
    assert_eq!(rule(topic("c", &[Action::Pub])), "Custom Deny All on Topic:c");
    assert_eq!(rule(topic("d", &[Action::Pub])), "Custom Deny All on Topic:d");
    assert_eq!(rule(topic("ex", &[Action::Pub])), "Default Deny All on Topic:*");
    assert_eq!(rule(group("h", &[Action::Sub])), "Default Allow Sub on Group:*");
    assert_eq!(rule(group("g", &[Action::Sub])), "Custom Allow Sub on Group:g");
    auth.delete_acl("User:normaluser", "", "").unwrap();
    drop(auth);
    let auth = fixture.auth(&[("migrateAuthFromV1Enabled", "true")]);
    assert_eq!(auth.acl("User:normaluser"), Ok(None));
}

#[test]
fn a_broken_file_of_acl_1_stops_the_migration() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("plain_acl.yml"), "accounts:\n- [").unwrap();
    let error = fixture.open(&[&BOTH[..], &[("migrateAuthFromV1Enabled", "true")]].concat()).unwrap_err();
    assert!(matches!(error, StartError::Plain(PlainError::Content { .. })), "{error}");
}

#[test]
fn a_damaged_file_stops_the_start_and_is_kept() {
    for (name, text, reason) in [
        ("users.json", r#"[{"username":"a","#, "bad json"),
        ("users.json", "", "bad json"),
        (
            "users.json",
            r#"[{"username":"a","password":"b","userType":"Root","userStatus":"enable"}]"#,
            "userType",
        ),
        (
            "users.json",
            r#"[{"username":"a","password":"b","userType":"Super","userStatus":"x"}]"#,
            "userStatus",
        ),
        (
            "users.json",
            r#"[{"username":"a","password":"","userType":"Super","userStatus":"enable"}]"#,
            "password",
        ),
        ("acls.json", r#"[{"subject":"alice","policies":[]}]"#, "the subject is not a user"),
        ("acls.json", r#"[{"subject":"User:rocketmq2","policies":[{}]}]"#, "it has no entry"),
        ("acls.json", r#"{"a":1}"#, "bad json"),
    ] {
        let fixture = Fixture::new();
        let auth = fixture.auth(&[]);
        let start = || {
            std::fs::write(fixture.path(name), text).unwrap();
            fixture.open(&BOTH).unwrap_err().to_string()
        };
        assert!(!start().contains(".bak"), "a file that was written once has no copy");
        for name in ["alice", "bob"] {
            auth.create_user(&root(), name, &user("secret", "")).unwrap();
        }
        let error = start();
        assert!(error.contains(reason) && error.contains(&format!("{name}.bak")), "{text}: {error}");
        assert!(!error.contains("12345678"), "{error}");
        assert_eq!(std::fs::read_to_string(fixture.path(name)).unwrap(), text);
    }
}

#[test]
fn users_of_a_java_broker_stop_the_start_with_what_to_do() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("users")).unwrap();
    drop(fixture.auth(&[]));
    std::fs::remove_file(fixture.path("users.json")).unwrap();
    std::fs::write(fixture.path("users/CURRENT"), "MANIFEST-000004\n").unwrap();
    let error = fixture.open(&BOTH).unwrap_err().to_string();
    assert!(
        error.contains("/users holds the users of a Java broker")
            && error.contains("vostok auth import --from HOST:PORT --out /"),
        "{error}"
    );
    assert!(!fixture.path("users.json").exists());
    std::fs::rename(fixture.path("users"), fixture.path("users-of-java")).unwrap();
    drop(fixture.auth(&[]));
}

#[test]
fn an_unknown_user_has_as_much_hashed_as_a_wrong_secret() {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[]);
    let body = vec![0; 1 << 20];
    let hashed = |name: &'static str| {
        let fields = [("AccessKey", name), ("Signature", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=")];
        with_request(Encoding::Binary, &fields, &body, |signed| {
            let before = HASHED_BYTES.get();
            assert!(auth.verify(&signed).is_err());
            HASHED_BYTES.get() - before - name.len()
        })
    };
    let known = hashed("rocketmq2");
    assert!(known >= body.len(), "{known}");
    assert_eq!(hashed("nobody"), known, "the time of an answer would tell which users there are");
}

/// A name server asks for a permission only before changes, and refuses everything without a provider.
#[test]
fn a_refusal_of_a_request_without_needs_has_an_audit_line() {
    let fixture = Fixture::new();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let auth = fixture.auth(&[("authorizationEnabled", "true"), ("authorizationMetadataProvider", "")]);
    let auth = auth.logging_to(move |_, line| kept.lock().push(line.to_owned()));
    let origin = Origin { address: ip("10.0.0.1"), connection: 7 };
    for needs in [vec![], vec![topic("t", &[Action::Pub])]] {
        auth.authorize(0, (&root(), Request::Code(105)), origin, || Ok(needs)).unwrap_err();
    }
    let lines = lines.lock();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("User:rocketmq2 is Deny Action = null"), "{lines:?}");
    assert!(lines[1].contains("is Deny Action = Pub"), "{lines:?}");
}
