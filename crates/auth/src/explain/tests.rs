use proptest::prelude::*;

use super::*;
use crate::names::Action;
use crate::testing::{Fixture, acl, ip, root, topic, user};

/// Returns the explanation of a send of alice to a topic.
fn explained(entries: &[&str], name: &str, from: &str) -> String {
    let fixture = Fixture::new();
    let auth = fixture.auth(&[]);
    auth.create_user(&root(), "alice", &user("secret", "Normal")).unwrap();
    if !entries.is_empty() {
        auth.change_acl("User:alice", &acl(entries)).unwrap();
    }
    auth.explain("alice", Request::Code(310), ip(from), &[topic(name, &[Action::Pub])]).to_string()
}

#[test]
fn the_entries_are_shown_in_the_order_in_which_they_decide() {
    let entries = [
        "Allow Pub,Sub Topic:orders*",
        "Deny Pub Topic:orders 10.1.0.0/16",
        "Allow Sub Topic:orders-eu*",
        "Deny Pub Topic:ord*",
        "default Allow Pub Topic:*",
        "Allow Pub Group:orders",
    ];
    assert_eq!(
        explained(&entries, "orders", "10.1.2.3"),
        "needs Pub on Topic:orders\n  \
         Custom Deny Pub on Topic:orders from 10.1.0.0/16: decides\n\
         Deny, because of: Custom Deny Pub on Topic:orders from 10.1.0.0/16. \
         The answer is code 16: User:alice has no permission to access Topic:orders from 10.1.2.3, the decision is deny."
    );
    assert_eq!(
        explained(&entries, "orders-eu-1", "10.2.0.1"),
        "needs Pub on Topic:orders-eu-1\n  \
         Custom Allow Sub on Topic:orders-eu*: other actions\n  \
         Custom Allow Pub,Sub on Topic:orders*: decides\n\
         Allow, because of: Custom Allow Pub,Sub on Topic:orders*"
    );
    assert_eq!(
        explained(&entries, "orders", "10.2.0.1").lines().nth(1).unwrap(),
        "  Custom Deny Pub on Topic:orders from 10.1.0.0/16: other addresses"
    );
}

#[test]
fn what_no_entry_decides_is_explained_too() {
    assert_eq!(
        explained(&[], "orders", "10.2.0.1"),
        "needs Pub on Topic:orders\n  no entry matches\n\
         Deny, because of: no entry. The answer is code 16: User:alice has no permission to access Topic:orders from 10.2.0.1, no matched policies."
    );
    let auth = Fixture::new().auth(&[("authorizationWhitelist", "105")]);
    let needed = [topic("t", &[Action::Pub])];
    let explain = |user: &str, code| auth.explain(user, Request::Code(code), ip("::1"), &needed).to_string();
    assert_eq!(explain("rocketmq2", 310), "Allow, because of: super user");
    assert_eq!(explain("rocketmq2", 105), "Allow, because of: authorizationWhitelist");
    // As the server answers, whatever the request needs.
    for code in [310, 105] {
        assert_eq!(
            explain("bob", code),
            "Deny, because of: no user. The answer is code 16: User:bob is not found."
        );
    }
    auth.create_user(&root(), "carol", &user("secret", "Super")).unwrap();
    let disabled = wire::body::UserInfo { user_status: Some("disable".to_owned()), ..Default::default() };
    auth.update_user(&root(), "carol", &disabled).unwrap();
    assert_eq!(
        explain("carol", 310),
        "Deny, because of: no user. The answer is code 16: User:carol is disabled."
    );
}

proptest! {
    /// The explanation is another implementation of the order; it names the entry that decides.
    #[test]
    fn the_entry_that_is_said_to_decide_does(
        entries in proptest::collection::vec(
            ("(default )?(Allow|Deny) (Pub|Sub|All)", "(Topic:[ab]{0,2}\\*?|\\*|Group:a)", "( 10\\.0\\.0\\.[12])?"), 1..8),
        name in "[ab]{1,3}",
        from in "10\\.0\\.0\\.[12]",
    ) {
        let entries: Vec<_> = entries.iter().map(|(what, on, from)| format!("{what} {on}{from}")).collect();
        let entries: Vec<_> = entries.iter().map(String::as_str).collect();
        let fixture = Fixture::new();
        let auth = fixture.auth(&[]);
        auth.create_user(&root(), "alice", &user("secret", "Normal")).unwrap();
        auth.change_acl("User:alice", &acl(&entries)).unwrap();
        let explained = auth.explain("alice", Request::Code(310), ip(&from), &[topic(&name, &[Action::Pub])]);
        let said = explained.looks.lines().last().and_then(|line| line.trim().strip_suffix(": decides"));
        prop_assert_eq!(said.unwrap_or("no entry"), explained.ruling.rule.to_string());
    }
}
