use super::*;
use crate::accounts::{merge, policies_of};
use crate::names::{Action, ResourceType};
use crate::resource::Resource;
use crate::testing::{acl, group, ip, topic};
use proptest::prelude::*;

fn policies(entries: &[&str]) -> Policies {
    let mut policies = Policies::default();
    merge(&mut policies, policies_of(&acl(entries)).unwrap());
    policies
}

/// The entry that decides, as text.
fn decide(policies: &Policies, needed: &Permission<'_>, caller: &str) -> String {
    policies
        .decide(needed, ip(caller))
        .map_or_else(|| "none".to_owned(), |(kind, at)| policies.of(kind).entries()[at].to_string())
}

fn check(entries: &[&str], name: &str, expected: &str) {
    let reversed: Vec<_> = entries.iter().rev().copied().collect();
    for entries in [entries, &reversed] {
        let found = decide(&policies(entries), &topic(name, &[Action::Pub]), "10.0.0.1");
        assert_eq!(found, expected, "{entries:?} {name}");
    }
}

#[test]
fn the_most_exact_entry_decides_and_deny_comes_before_allow() {
    check(&["Deny Pub Topic:abc", "Allow Pub Topic:ab*"], "abc", "Deny Pub on Topic:abc");
    check(&["Allow Pub Topic:abc", "Deny Pub Topic:ab*"], "abc", "Allow Pub on Topic:abc");
    check(&["Allow Pub Topic:abc*", "Deny Pub Topic:ab*"], "abcd", "Allow Pub on Topic:abc*");
    check(&["Allow Pub Topic:abc*", "Deny Pub Topic:ab*"], "abd", "Deny Pub on Topic:ab*");
    check(&["Allow Pub Topic:abc*", "Deny Pub Topic:*"], "abc", "Allow Pub on Topic:abc*");
    check(&["Allow Pub Topic:*", "Deny Pub *"], "abc", "Allow Pub on Topic:*");
    check(&["Allow Pub Topic:*", "Deny Pub *"], "", "Allow Pub on Topic:*");
    check(&["Deny Pub *"], "abc", "Deny Pub on *");
    let equal = policies_of(&acl(&["Allow Pub Topic:abc", "Deny Pub,Sub Topic:abc"])).unwrap();
    let mut policies = Policies::default();
    merge(&mut policies, equal);
    assert_eq!(decide(&policies, &topic("abc", &[Action::Pub]), "::1"), "Deny Pub,Sub on Topic:abc");
}

#[test]
fn an_entry_that_does_not_match_leaves_the_decision_to_the_next_one() {
    check(&["Deny Sub Topic:abc", "Allow Pub Topic:ab*"], "abc", "Allow Pub on Topic:ab*");
    check(&["Deny Pub Topic:abc 10.0.0.2", "Allow Pub Topic:*"], "abc", "Allow Pub on Topic:*");
    check(&["Deny Pub Topic:abc*", "Allow Pub Topic:abd*"], "abe", "none");
    check(&["Allow Pub Group:*", "Allow Pub Cluster:abc"], "abc", "none");
    check(&["Allow Pub Topic:ab*"], "ab*", "Allow Pub on Topic:ab*");
    check(&["Allow Pub Topic:**"], "x", "Allow Pub on Topic:*");
}

#[test]
fn a_matching_custom_entry_hides_the_default_policy() {
    check(&["Deny Pub *", "default Allow Pub Topic:abc"], "abc", "Deny Pub on *");
    check(&["Deny Sub *", "default Allow Pub Topic:abc"], "abc", "Allow Pub on Topic:abc");
}

#[test]
fn addresses_and_ranges_match_their_own_family() {
    let check = |source: &str, caller: &str, expected: bool| {
        let entry = format!("Allow Pub Topic:t {source}");
        let found = decide(&policies(&[&entry]), &topic("t", &[Action::Pub]), caller);
        assert_eq!(found != "none", expected, "{source} {caller}");
    };
    check("10.1.2.3", "10.1.2.3", true);
    check("10.1.2.3", "10.1.2.4", false);
    check("10.0.0.0/8", "10.255.1.1", true);
    check("10.0.0.0/8", "11.0.0.1", false);
    check("10.1.2.3/8", "10.9.9.9", true);
    check("1.1.1.1,10.0.0.0/8", "10.0.0.1", true);
    check("0.0.0.0/0", "1.2.3.4", true);
    check("2001:db8::/32", "2001:db8:1::1", true);
    check("2001:db8::/32", "2001:db9::1", false);
    check("::1", "0:0:0:0:0:0:0:1", true);
    check("10.0.0.1", "::ffff:10.0.0.1", true);
    // Java compares ranges as numbers, whatever their family is.
    check("0.0.0.0/0", "::1", false);
    check("0.0.0.0/1", "::1", false);
    check("::/0", "10.0.0.1", false);
}

#[test]
fn what_is_no_address_is_refused() {
    for text in
        ["", "10.0.0", "10.0.0.1/33", "::/129", "10.0.0.1/", "10.0.0.1/+8", "a", "[::1]", "10.0.0.1/8/9"]
    {
        assert_eq!(Source::parse(text), None, "{text}");
    }
}

#[test]
fn one_of_the_needed_actions_is_enough() {
    for (granted, expected) in [("Pub", true), ("Sub", true), ("Get", true), ("List,Delete", false)] {
        let policies = policies(&[&format!("Allow {granted} Topic:t")]);
        let needed = topic("t", &[Action::Pub, Action::Sub, Action::Get]);
        assert_eq!(policies.decide(&needed, ip("::1")).is_some(), expected, "{granted}");
    }
}

#[test]
fn all_covers_every_action() {
    let policies = policies(&["Allow All Topic:t"]);
    for action in [Action::Pub, Action::Sub, Action::Create, Action::Update, Action::Delete, Action::Get] {
        assert!(policies.decide(&topic("t", &[action]), ip("::1")).is_some(), "{action}");
    }
}

#[test]
fn the_retry_topic_of_a_group_is_the_group() {
    let needed = topic("%RETRY%g", &[Action::Sub]);
    assert_eq!(needed, group("g", &[Action::Sub]));
    assert_eq!(group("%RETRY%g", &[Action::Sub]), needed);
    assert_eq!(needed.resource.to_string(), "Group:g");
    assert_eq!(Resource::topic("%DLQ%g").kind, ResourceType::Topic);
}

#[test]
fn patterns_are_read_as_by_java() {
    for (text, expected) in [
        ("*", Some("*")),
        ("topic:*", Some("Topic:*")),
        ("TOPIC:a", Some("Topic:a")),
        ("Topic:a*", Some("Topic:a*")),
        ("Topic:a*b*", Some("Topic:a*")),
        ("Topic:*a", Some("Topic:*a")),
        ("Topic", Some("Topic:")),
        ("Group:a:b", Some("Group:a:b")),
        ("Namespace:n", Some("Namespace:n")),
        ("Any:a", None),
        ("Unknown:a", None),
        ("", None),
        ("**", None),
    ] {
        assert_eq!(Pattern::parse(text).map(|it| it.to_string()).as_deref(), expected, "{text}");
    }
}

#[test]
fn new_entries_replace_those_of_the_same_resource() {
    let entries = |list: &[&str]| policies(list).custom.entries.clone();
    let merged = policies(&["Allow Pub Topic:a", "Allow Pub Topic:b"])
        .custom
        .merged(entries(&["Deny Sub Topic:c", "Deny Sub Topic:a 10.0.0.1"]));
    let found: Vec<_> = merged.entries().iter().map(PolicyEntry::to_string).collect();
    assert_eq!(found, ["Deny Sub on Topic:a from 10.0.0.1", "Allow Pub on Topic:b", "Deny Sub on Topic:c"]);
}

/// The order of section 5 of the specification, entry by entry and without an index.
fn naive<'a>(policies: &'a Policies, needed: &Permission<'_>, caller: IpAddr) -> Option<&'a PolicyEntry> {
    let matches = |entry: &&PolicyEntry| {
        let granted: Vec<_> = entry.actions.iter().collect();
        let Pattern { kind, names } = &entry.pattern;
        kind.is_none_or(|kind| kind == needed.resource.kind)
            && match names {
                NamePattern::Literal(name) => **name == *needed.resource.name,
                NamePattern::Prefixed(prefix) => needed.resource.name.starts_with(&**prefix),
                NamePattern::Any => true,
            }
            && (granted.contains(&Action::All) || needed.actions.iter().any(|it| granted.contains(&it)))
            && (entry.sources.is_empty() || entry.sources.iter().any(|it| it.matches(caller)))
    };
    let order = |one: &&PolicyEntry, other: &&PolicyEntry| {
        let key = |entry: &PolicyEntry| {
            let (class, length) = match &entry.pattern.names {
                NamePattern::Literal(_) => (0, 0),
                NamePattern::Prefixed(text) => (1, usize::MAX - text.len()),
                NamePattern::Any => (2, 0),
            };
            (entry.pattern.kind.is_none(), class, length, entry.decision == Decision::Allow)
        };
        key(one).cmp(&key(other))
    };
    let first = |policy: &'a Policy| policy.entries.iter().filter(matches).min_by(order);
    first(&policies.custom).or_else(|| first(&policies.default))
}

fn entries() -> impl Strategy<Value = String> {
    let actions = "(All|Pub|Sub|Get)(,Pub|,Sub)?";
    let resource = "(Topic|Group):[ab]{0,4}\\*?|\\*|(Topic|Group):\\*";
    let source = "( 10\\.0\\.0\\.1| 10\\.0\\.0\\.0/31| ::/0| 10\\.0\\.0\\.2)?";
    ("(default )?(Allow|Deny)", actions, resource, source).prop_map(|(a, b, c, d)| format!("{a} {b} {c}{d}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn decisions_are_those_of_a_naive_implementation(
        list in proptest::collection::vec(entries(), 1..24),
        is_group in any::<bool>(),
        name in "[ab]{0,6}",
        wanted in 0..4_usize,
        caller in prop_oneof![Just("10.0.0.1"), Just("10.0.0.2"), Just("::1")],
    ) {
        let list: Vec<_> = list.iter().map(String::as_str).collect();
        let policies = policies(&list);
        let actions: &[Action] =
            [&[Action::Pub][..], &[Action::Sub], &[Action::Pub, Action::Get], &[Action::Update]][wanted];
        let needed = if is_group { group(&name, actions) } else { topic(&name, actions) };
        let found = policies
            .decide(&needed, ip(caller))
            .map(|(kind, at)| &policies.of(kind).entries()[at]);
        let expected = naive(&policies, &needed, ip(caller));
        // Of entries with equal patterns and decisions it does not matter which one decides.
        prop_assert_eq!(
            found.map(|it| (&it.pattern, it.decision)),
            expected.map(|it| (&it.pattern, it.decision))
        );
    }

    #[test]
    fn patterns_and_addresses_are_written_as_they_are_read(text in "(Topic|Group|Cluster):[a-c*]{0,5}|\\*", bits in 0..=32_u8) {
        let pattern = Pattern::parse(&text).unwrap();
        prop_assert_eq!(Pattern::parse(&pattern.to_string()), Some(pattern));
        let source = Source::parse(&format!("10.2.3.4/{bits}")).unwrap();
        prop_assert_eq!(Source::parse(&source.to_string()), Some(source));
    }
}
