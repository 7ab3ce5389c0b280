use super::*;
use crate::testing::{BOTH, Fixture, acl, root, user};
use std::os::unix::fs::PermissionsExt as _;
use wire::json;

fn text(result: Result<(), AuthError>) -> (i32, String) {
    result.map_or_else(|error| (error.code(), error.to_string()), |()| (0, String::new()))
}

fn with_alice(fixture: &Fixture) -> Auth {
    let auth = fixture.auth(&[]);
    auth.create_user(&root(), "alice", &user("secret", "")).unwrap();
    auth
}

fn alice() -> Subject {
    Subject::User("alice".into())
}

fn bytes<T: serde::Serialize>(value: &T) -> String {
    String::from_utf8(json::to_vec(value)).unwrap()
}

#[test]
fn users_and_acls_have_the_bodies_of_java_and_survive_a_restart() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    let body = br#"{"policies":[{"policyType":"Default","entries":[{"resource":"*","actions":["All"],"decision":"Deny"}]},
        {"entries":[{"resource":"topic:t*","actions":["pub","Sub","Fly"],"sourceIps":["1.1.1.1","10.0.0.0/8"],"decision":"Allow"}]}]}"#;
    auth.change_acl("User:alice", &json::from_slice(body).unwrap()).unwrap();
    drop(auth);
    let auth = fixture.auth(&[]);
    assert_eq!(
        bytes(&auth.user(&root(), "alice").unwrap().unwrap()),
        r#"{"password":"secret","userStatus":"enable","userType":"Normal","username":"alice"}"#
    );
    let expected = r#"{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:t*","sourceIps":["1.1.1.1","10.0.0.0/8"]}],"policyType":"Custom"},{"entries":[{"actions":["All"],"decision":"Deny","resource":"*"}],"policyType":"Default"}],"subject":"User:alice"}"#;
    assert_eq!(bytes(&auth.acl("User:alice").unwrap().unwrap()), expected);
    assert_eq!(bytes(&auth.acls("", "")), format!("[{expected}]"));
    assert_eq!(auth.users(&root(), "lic").len(), 1);
    assert!(auth.users(&root(), "bob").is_empty());
    assert_eq!(auth.user(&root(), "bob"), Ok(None));
    assert_eq!(auth.acl("User:rocketmq2"), Ok(None));
    assert!(auth.acls("User:rocketmq2", "").is_empty() && auth.acls("", "Group").is_empty());
    let found = auth.acls("ali", "Topic");
    assert_eq!(found[0].policies.as_ref().unwrap().len(), 1);
}

#[test]
fn only_the_owner_reads_the_files() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    auth.change_acl("User:alice", &acl(&["Allow Pub Topic:t"])).unwrap();
    auth.delete_user(&root(), "alice").unwrap();
    for name in ["users.json", "users.json.bak", "acls.json", "acls.json.bak"] {
        let mode = std::fs::metadata(fixture.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn users_are_refused_with_javas_texts() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    let create = |name: &str, password: &str| text(auth.create_user(&root(), name, &user(password, "")));
    assert_eq!(create(" ", "p"), (29, "The username is blank".to_owned()));
    assert_eq!(create("alice", "p"), (16, "The user is existed".to_owned()));
    assert_eq!(create("bob", " "), (16, "password can not be blank".to_owned()));
    let update = |name: &str| text(auth.update_user(&root(), name, &user("p", "")));
    assert_eq!(update(""), (29, "The username is blank".to_owned()));
    assert_eq!(update("bob"), (16, "The user is not exist".to_owned()));
    let delete = |name: &str| text(auth.delete_user(&root(), name));
    assert_eq!(delete(" "), (16, "username can not be blank".to_owned()));
    assert_eq!(delete("bob"), (0, String::new()));
    assert_eq!(text(auth.user(&root(), "").map(drop)), (29, "The username is blank".to_owned()));
    assert_eq!(auth.users(&root(), "").len(), 2);
}

#[test]
fn an_update_changes_what_it_names() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    auth.change_acl("User:alice", &acl(&["Allow Pub Topic:t"])).unwrap();
    auth.update_user(&root(), "alice", &user("other", "")).unwrap();
    let info = |auth: &Auth| bytes(&auth.user(&root(), "alice").unwrap().unwrap());
    assert_eq!(
        info(&auth),
        r#"{"password":"other","userStatus":"enable","userType":"Normal","username":"alice"}"#
    );
    auth.update_user(&root(), "alice", &user("", "super")).unwrap();
    assert_eq!(
        info(&auth),
        r#"{"password":"other","userStatus":"enable","userType":"Super","username":"alice"}"#
    );
    assert!(auth.acl("User:alice").unwrap().is_some());
}

#[test]
fn super_users_are_made_and_changed_by_super_users_only() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    for caller in [alice(), Subject::Anonymous, Subject::Off, Subject::User("nobody".into())] {
        let made = "The super user can only be create by super user";
        assert_eq!(text(auth.create_user(&caller, "bob", &user("p", "Super"))), (1, made.to_owned()));
        let changed = "The super user can only be update by super user".to_owned();
        let promoted = text(auth.update_user(&caller, "alice", &user("", "Super")));
        assert_eq!(promoted, (1, changed.clone()));
        let touched = text(auth.update_user(&caller, "rocketmq2", &user("p", "")));
        assert_eq!(touched, (16, changed.clone()));
        assert_eq!(text(auth.delete_user(&caller, "rocketmq2")), (16, changed));
    }
    auth.create_user(&alice(), "bob", &user("p", "")).unwrap();
    auth.delete_user(&alice(), "bob").unwrap();
    auth.create_user(&root(), "bob", &user("p", "Super")).unwrap();
    assert!(auth.is_super(&Subject::User("bob".into())));
}

#[test]
fn a_user_goes_with_its_acl() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    auth.change_acl("User:alice", &acl(&["Allow Pub Topic:t"])).unwrap();
    auth.delete_user(&root(), "alice").unwrap();
    assert_eq!(auth.acl("User:alice"), Err(AuthError::Invalid("The subject is not exist.")));
    auth.create_user(&root(), "alice", &user("secret", "")).unwrap();
    drop(auth);
    assert_eq!(fixture.auth(&[]).acl("User:alice"), Ok(None));
}

/// A crash between the two files can leave the acl of a user that was not created.
/// RocketMQ deletes the user and then fails, because there is no authorization provider (`AuthorizationMetadataManagerImpl.deleteAcl`).
#[test]
fn a_user_goes_with_its_acl_also_without_authorization() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    auth.change_acl("User:alice", &acl(&["Allow Pub Topic:t"])).unwrap();
    drop(auth);
    let auth = fixture.open(&BOTH[..2]).unwrap();
    assert_eq!(
        text(auth.change_acl("User:alice", &acl(&["Allow Pub Topic:u"]))).0,
        AuthError::NotStored.code()
    );
    assert_eq!(text(auth.delete_user(&root(), "alice")), (0, String::new()));
    assert_eq!(auth.user(&root(), "alice"), Ok(None));
    drop(auth);
    let auth = with_alice(&fixture);
    assert_eq!(auth.acl("User:alice"), Ok(None), "the acl went from its file, too");
}

#[test]
fn a_new_user_never_inherits_an_acl() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    auth.change_acl("User:alice", &acl(&["Allow Pub Topic:t"])).unwrap();
    let left = std::fs::read(fixture.path("acls.json")).unwrap();
    auth.delete_user(&root(), "alice").unwrap();
    drop(auth);
    std::fs::write(fixture.path("acls.json"), left).unwrap();
    drop(with_alice(&fixture));
    assert_eq!(fixture.auth(&[]).acl("User:alice"), Ok(None));
}

#[test]
fn acls_are_merged_and_removed_by_resource() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    let change = |entries: &[&str]| auth.change_acl("User:alice", &acl(entries)).unwrap();
    change(&["Allow Pub Topic:a", "Allow Pub Topic:b", "default Deny All *"]);
    change(&["Deny Sub Topic:a", "Allow Get Group:g"]);
    let entries = |auth: &Auth| {
        let policies = auth.acl("User:alice").unwrap().unwrap().policies.unwrap();
        let entries = policies.into_iter().flat_map(|it| it.entries.unwrap());
        entries.map(|it| format!("{} {}", it.decision.unwrap(), it.resource.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(entries(&auth), ["Deny Topic:a", "Allow Topic:b", "Allow Group:g", "Deny *"]);
    auth.delete_acl("User:alice", "", "Topic:a").unwrap();
    auth.delete_acl("User:alice", "Default", "Topic:b").unwrap();
    assert_eq!(entries(&auth), ["Allow Topic:b", "Allow Group:g", "Deny *"]);
    auth.delete_acl("User:alice", "default", "*").unwrap();
    auth.delete_acl("User:alice", "Custom", "Topic:b").unwrap();
    auth.delete_acl("User:alice", "Custom", "Group:g").unwrap();
    assert_eq!(auth.acl("User:alice"), Ok(None));
    change(&["Allow Pub Topic:a", "default Deny All *"]);
    auth.delete_acl("User:alice", "", "").unwrap();
    assert_eq!(auth.acl("User:alice"), Ok(None));
}

#[test]
fn acls_are_refused_with_javas_texts_and_nothing_is_stored() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    let check = |code: i32, body: &str, expected: &str| {
        let body = json::from_str(body).unwrap();
        let (found, text) = text(auth.change_acl("User:alice", &body));
        assert_eq!((found, text.as_str()), (code, expected), "{body:?}");
    };
    check(1, "{}", "The body of acl is null");
    check(1, r#"{"policies":[]}"#, "The body of acl is null");
    check(16, r#"{"policies":[{"policyType":"Custom"}]}"#, "The policies is empty.");
    let check = |entry: &str, expected: &str| {
        let good = r#"{"resource":"Topic:good","actions":["Pub"],"decision":"Allow"}"#;
        check(16, &format!(r#"{{"policies":[{{"entries":[{good},{entry}]}}]}}"#), expected);
    };
    check(r#"{"actions":["Pub"],"decision":"Allow"}"#, "The resource is null.");
    check(r#"{"resource":"Queue:t","actions":["Pub"],"decision":"Allow"}"#, "The resource is null.");
    check(r#"{"resource":"Topic:t","decision":"Allow"}"#, "The actions is empty.");
    check(r#"{"resource":"Topic:t","actions":["Fly"],"decision":"Allow"}"#, "The actions is empty.");
    check(
        r#"{"resource":"Topic:t","actions":["Pub","Any"],"decision":"Allow"}"#,
        "The actions can not be Any.",
    );
    check(
        r#"{"resource":"Topic:t","actions":["Pub"],"decision":"Perhaps"}"#,
        "The decision is null or illegal.",
    );
    for (source, expected) in [(" ", "The source ip is empty."), ("10.0.0.256", "The source ip is invalid.")]
    {
        check(
            &format!(
                r#"{{"resource":"Topic:t","actions":["Pub"],"decision":"Allow","sourceIps":["::1","{source}"]}}"#
            ),
            expected,
        );
    }
    assert_eq!(auth.acl("User:alice"), Ok(None));
    assert_eq!(std::fs::read(fixture.path("acls.json")).unwrap(), b"[]");
    let good = acl(&["Allow Pub Topic:t"]);
    let change = |subject: &str| text(auth.change_acl(subject, &good));
    assert_eq!(change("User:bob"), (16, "The subject of User:bob is not exist.".to_owned()));
    assert_eq!(change("alice"), (16, "The subject is null.".to_owned()));
    let delete = |subject: &str| text(auth.delete_acl(subject, "", ""));
    assert_eq!(delete("User:bob"), (16, "The subject is not exist.".to_owned()));
    assert_eq!(delete("User:alice"), (16, "The acl is not exist.".to_owned()));
    assert_eq!(delete(" "), (16, "The subject is null.".to_owned()));
    assert_eq!(text(auth.acl("User:bob").map(drop)), (16, "The subject is not exist.".to_owned()));
    assert_eq!(text(auth.acl("").map(drop)), (16, "The subject is null.".to_owned()));
}

/// Java gives passwords to every user with permission to list users.
#[test]
fn hole_passwords_are_for_super_users_only() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    for caller in [alice(), Subject::Anonymous, Subject::Off] {
        assert_eq!(auth.user(&caller, "alice").unwrap().unwrap().password, None);
        assert!(auth.users(&caller, "").iter().all(|it| it.password.is_none()));
    }
    assert!(auth.users(&root(), "").iter().all(|it| it.password.is_some()));
}

#[test]
fn what_cannot_be_stored_does_not_count() {
    let fixture = Fixture::new();
    let auth = with_alice(&fixture);
    let blocked = [fixture.path("users.json.tmp"), fixture.path("acls.json.tmp")];
    blocked.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let system = (1, "An system error occurred, please try again later.".to_owned());
    assert_eq!(text(auth.create_user(&root(), "bob", &user("p", ""))), system);
    assert_eq!(text(auth.delete_user(&root(), "alice")), system);
    assert_eq!(text(auth.change_acl("User:alice", &acl(&["Allow Pub Topic:t"]))), system);
    assert_eq!(auth.users(&root(), "").len(), 2);
    assert_eq!(auth.acl("User:alice"), Ok(None));
    blocked.iter().for_each(|path| std::fs::remove_dir(path).unwrap());
    auth.create_user(&root(), "bob", &user("p", "")).unwrap();
    let without = Fixture::new().open(&[]).unwrap();
    assert_eq!(text(without.create_user(&Subject::Off, "bob", &user("p", ""))), system);
    let users_only = Fixture::new().open(&BOTH[1..2]).unwrap();
    users_only.create_user(&Subject::Off, "bob", &user("p", "")).unwrap();
    assert_eq!(text(users_only.change_acl("User:bob", &acl(&["Allow Pub Topic:t"]))), system);
}
