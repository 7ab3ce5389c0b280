use super::*;
use crate::names::Action;
use crate::testing::{Fixture, acl, ip, root, topic, user};

#[test]
fn lines_have_javas_text_and_no_signature() {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[]);
    auth.create_user(&root(), "alice", &user("secret", "")).unwrap();
    auth.change_acl("User:alice", &acl(&["Allow Pub Topic:ab* 10.0.0.0/8"])).unwrap();
    let origin = Origin { address: ip("10.0.0.1"), connection: 7 };
    let alice = Subject::User("alice".into());
    assert_eq!(
        authentication("alice", origin, Ok(&alice)),
        "[AUTHENTICATION] User:alice is authenticated success with Signature = ***. address = 10.0.0.1, connection = 7, rule = verified"
    );
    assert_eq!(
        authentication("a\nb", origin, Err(&AuthError::Signature)),
        "[AUTHENTICATION] User:a?b is authenticated failed with Signature = ***. address = 10.0.0.1, connection = 7, rule = check signature failed."
    );
    let line = |name: &str, request: Request<'_>| {
        let needed = topic(name, &[Action::Pub, Action::Sub]);
        let ruling = auth.decide(&alice, request, origin.address, std::slice::from_ref(&needed));
        authorization(&alice, origin, request, &needed, &ruling)
    };
    assert_eq!(
        line("abc", Request::Code(310)),
        "[AUTHORIZATION] Subject = User:alice is Allow Action = Pub,Sub from sourceIp = 10.0.0.1 on resource = Topic:abc for \
         request = 310. connection = 7, rule = Custom Allow Pub on Topic:ab* from 10.0.0.0/8"
    );
    auth.change_acl("User:alice", &acl(&["Deny All Topic:z\n[AUTHORIZATION]*"])).unwrap();
    assert!(
        line("z\n[AUTHORIZATION]", Request::Code(310))
            .ends_with("rule = Custom Deny All on Topic:z?[AUTHORIZATION]*")
    );
    assert_eq!(
        line("x\n", Request::Message("m")),
        "[AUTHORIZATION] Subject = User:alice is Deny Action = Pub,Sub from sourceIp = 10.0.0.1 on resource = Topic:x? for \
         request = m. connection = 7, rule = no entry"
    );
    assert_eq!(
        refusal(&alice, origin, Request::Code(34), "parse authorization context error."),
        "[AUTHORIZATION] Subject = User:alice is Deny Action = null from sourceIp = 10.0.0.1 on resource = null for request = 34. \
         connection = 7, rule = parse authorization context error."
    );
}

#[test]
fn nothing_that_can_be_printed_shows_a_secret() {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[]);
    let config = crate::config::AuthConfig::default();
    let shown = format!("{auth:?} {:?} {config:?} {:?}", auth.settings(), auth.users(&root(), ""));
    assert!(!shown.contains("12345678"), "{shown}");
}
