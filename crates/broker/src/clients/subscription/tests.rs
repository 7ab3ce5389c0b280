use proptest::prelude::*;
use wire::hash::tags_code;

use super::*;

fn code(tag: &str) -> i64 {
    tags_code(Some(tag.as_bytes()))
}

/// Which of the tags a, b, `a b` and "none" an expression lets through; "error" when it is refused.
fn check(expression: &str, expected: &str) {
    let found = match Subscription::parse("T", expression, 1) {
        Err(_) => "error".to_owned(),
        Ok(subscription) => {
            let mut found: Vec<&str> =
                ["a", "b", "a b"].into_iter().filter(|tag| subscription.matches(code(tag))).collect();
            if subscription.matches(0) {
                found.push("none");
            }
            found.join(",")
        }
    };
    assert_eq!(found, expected, "{expression:?}");
}

#[test]
fn tag_expressions_are_parsed_as_in_java() {
    check("", "a,b,a b,none");
    check("*", "a,b,a b,none");
    check("a", "a");
    check(" a ", "a");
    check("a||b", "a,b");
    check("a || b", "a,b");
    check("a b", "a b");
    check("a||", "a");
    check("||a", "a");
    check("a|b", "");
    check("a || * ", "a");
    check(" ", "");
    check("|| ||", "");
    check("||", "error");
    check("||||", "error");
}

#[test]
fn hashes_are_those_of_the_java_client() {
    let subscription = Subscription::parse("T", "TagA || TagB", 7).unwrap();
    let data = subscription.data();
    assert_eq!(data.code_set, BTreeSet::from([2598919, 2598920]));
    assert_eq!(data.tags_set, BTreeSet::from(["TagA".to_owned(), "TagB".to_owned()]));
    assert_eq!(
        (subscription.sub_version, data.sub_version, data.sub_string.as_str()),
        (7, 7, "TagA || TagB")
    );
    assert!(subscription.matches(2598919) && !subscription.matches(2598921));
    // Java compares the low 32 bits.
    assert!(subscription.matches(2598919 + (1 << 32)));
}

#[test]
fn the_codes_of_a_heartbeat_count_and_missing_ones_are_computed() {
    let stated = |sub_string: &str, codes: &[i32], kind: &str| {
        Subscription::from_heartbeat(&SubscriptionData {
            sub_string: sub_string.to_owned(),
            code_set: codes.iter().copied().collect(),
            expression_type: kind.to_owned(),
            ..SubscriptionData::default()
        })
    };
    assert!(stated("a", &[5], "TAG").matches(5) && !stated("a", &[5], "TAG").matches(code("a")));
    assert!(stated("a", &[], "").matches(code("a")));
    assert!(!stated("||", &[], "TAG").matches(0) && !stated("||", &[], "TAG").matches(code("a")));
    assert!(stated("*", &[5], "TAG").matches(6) && stated("", &[], "TAG").matches(6));
    let sql = stated("a > 1", &[], "SQL92");
    assert!(!sql.is_tag() && sql.matches(0) && sql.sql().is_some() && sql.expression_type() == "SQL92");
    for bad in [stated("a >", &[], "SQL92"), stated("a", &[], "XYZ")] {
        assert!(!bad.is_tag() && bad.is_bad() && !bad.matches(0) && bad.sql().is_none());
    }
}

proptest! {
    #[test]
    fn a_tag_matches_when_it_stands_between_separators(
        tags in prop::collection::vec("[a-z]{1,3}", 1..6), probe in "[a-z]{1,3}"
    ) {
        let subscription = Subscription::parse("T", &tags.join(" || "), 1).unwrap();
        let expected = tags.iter().any(|tag| code(tag) == code(&probe));
        prop_assert_eq!(subscription.matches(code(&probe)), expected);
    }
}
