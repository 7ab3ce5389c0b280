use wire::body::USERS_VERSION;
use wire::codes::{request, response};

use crate::testing::Fixture;

#[test]
fn requests_about_users_are_refused_where_no_users_are_kept() {
    let fixture = Fixture::new();
    let user = [("username", "u"), ("subject", "User:u")];
    for code in request::AUTH_CREATE_USER..=request::AUTH_LIST_ACL {
        let (answered, remark, _) = fixture.ask(code, &user, br#"{"username":"u","password":"p"}"#);
        assert_eq!(answered, response::SYSTEM_ERROR, "{code}");
        assert!(remark.starts_with("An system error occurred, please try again later."), "{code} {remark}");
    }
    for (code, expected) in [
        (request::AUTH_CREATE_USER, (29, "The username is blank")),
        (request::AUTH_UPDATE_USER, (29, "The username is blank")),
        (request::AUTH_DELETE_USER, (16, "username can not be blank")),
        (request::AUTH_GET_USER, (29, "The username is blank")),
        (request::AUTH_DELETE_ACL, (16, "The subject is null.")),
        (request::AUTH_GET_ACL, (16, "The subject is null.")),
    ] {
        let (answered, remark, _) = fixture.ask(code, &[("username", " ")], b"");
        assert_eq!((answered, remark.as_str()), expected, "{code}");
    }
    let (answered, remark, _) =
        fixture.ask(request::AUTH_CREATE_USER, &user, br#"{"username":"u","password":" "}"#);
    assert_eq!((answered, remark.as_str()), (response::NO_PERMISSION, "password can not be blank"));
}

/// Authentication is off and users are kept, so that they can be made before it is switched on.
fn keeping() -> Fixture {
    Fixture::with(|config| {
        for (key, class) in [("authentication", "Authentication"), ("authorization", "Authorization")] {
            let class = format!("org.apache.rocketmq.auth.{key}.provider.Local{class}MetadataProvider");
            assert!(config.auth.set(&format!("{key}MetadataProvider"), &class));
        }
    })
}

fn text(fixture: &Fixture, code: i32, fields: &[(&str, &str)], body: &str) -> String {
    let (code, remark, body) = fixture.ask(code, fields, body.as_bytes());
    if code == 0 { String::from_utf8(body).unwrap() } else { format!("{code} {remark}") }
}

#[test]
fn requests_3001_to_3010_keep_users_and_acls() {
    let fixture = keeping();
    let ask = |code, fields: &[(&str, &str)], body: &str| text(&fixture, code, fields, body);
    let (alice, of_alice) = ([("username", "alice")], [("subject", "User:alice")]);
    assert_eq!(ask(3005, &[], ""), "", "no users, no body");
    assert_eq!(ask(3004, &alice, ""), "");
    assert_eq!(
        ask(3001, &alice, r#"{"username":"bob","password":"secret"}"#),
        "",
        "the header's name counts"
    );
    assert_eq!(ask(3001, &alice, r#"{"password":"other"}"#), "16 The user is existed");
    assert_eq!(ask(3001, &[], r#"{"username":"carol","password":"secret"}"#), "");
    let shown = r#"{"password":"secret","userStatus":"enable","userType":"Normal","username":"alice"}"#;
    assert_eq!(ask(3004, &alice, ""), shown);
    assert_eq!(ask(3005, &[("filter", "lic")], ""), format!("[{shown}]"));
    assert_eq!(ask(3002, &alice, r#"{"userStatus":"disable"}"#), "");
    assert_eq!(ask(3004, &alice, ""), shown.replace("enable", "disable"));
    let acl = r#"{"policies":[{"entries":[{"actions":["Pub"],"decision":"Allow","resource":"Topic:a"}],"policyType":"Custom"}],"subject":"User:alice"}"#;
    assert_eq!(ask(3010, &[], ""), "", "no acls, no body");
    assert_eq!(ask(3006, &of_alice, acl), "");
    assert_eq!(ask(3009, &of_alice, ""), acl);
    assert_eq!(ask(3007, &of_alice, &acl.replace("Pub", "Sub")), "");
    let listed = [("subjectFilter", "User:a"), ("resourceFilter", "Topic:a")];
    assert_eq!(ask(3010, &listed, ""), format!("[{}]", acl.replace("Pub", "Sub")));
    assert_eq!(ask(3008, &[("subject", "User:alice"), ("resource", "Topic:a")], ""), "");
    assert_eq!(ask(3009, &of_alice, ""), "");
    assert_eq!(ask(3003, &alice, ""), "");
    assert_eq!(ask(3003, &alice, ""), "", "an unknown user is gone already");
    assert_eq!(ask(3009, &of_alice, ""), "16 The subject is not exist.");
    assert_eq!(ask(3006, &of_alice, ""), "1 The body of acl is null");
}

#[test]
fn a_list_that_the_caller_has_already_is_not_sent_again() {
    let fixture = keeping();
    let version = || fixture.broker.sessions.gate.auth().version();
    let listed = |known: &str| text(&fixture, 3005, &[(USERS_VERSION, known)], "").contains("alice");
    text(&fixture, 3001, &[("username", "alice")], r#"{"password":"secret"}"#);
    let first = version();
    assert!(listed("") && !listed(&first));
    text(&fixture, 3002, &[("username", "alice")], r#"{"userStatus":"disable"}"#);
    assert!(listed(&first) && !listed(&version()));
    assert!(
        Fixture::with(|_| {}).broker.sessions.gate.auth().version() != first,
        "another start has other names"
    );
}
