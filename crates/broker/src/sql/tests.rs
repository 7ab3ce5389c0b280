//! Filters must have the outcomes that Apache RocketMQ 5.5.0 gave for the same expressions and properties.

use super::*;

const PROPERTIES: [(&str, &str); 5] = [("a", "5"), ("s", "abc"), ("t", "true"), ("e", ""), ("d", "2.5")];

fn evaluate(text: &str) -> Result<Value<'static>, eval::Incomparable> {
    let filter = Box::leak(Box::new(Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))));
    let get =
        |name: &str| PROPERTIES.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes());
    eval::evaluate(&filter.0, &get)
}

fn check(expected: Result<Value<'static>, eval::Incomparable>, expressions: &[&str]) {
    for text in expressions {
        assert_eq!(evaluate(text), expected, "{text}");
    }
}

#[test]
fn expressions_that_are_true() {
    let expressions = [
        "a > 3",
        "a >= 5",
        "a = 5",
        "a = '5'",
        "a = 5.0",
        "5 = a",
        "6 <> a",
        "a > d",
        "d = 2.5",
        "a IN ('5','6')",
        "n IS NULL",
        "5 <> n",
        "n = m",
        "t = TRUE",
        "t = 'true'",
        "NOT t",
        "s CONTAINS 'b'",
        "s NOT CONTAINS 'z'",
        "a > 3 OR n = 1",
        "a > -1",
        "a = 5L",
        "e = ''",
        "a=5 = TRUE",
        "TRUE OR bad > 1",
        "s startswith 'ab'",
        "s ENDSWITH 'c'",
        "a between 5 and 5",
        "a NOT BETWEEN 6 AND 7",
        "a NOT BETWEEN 10 AND 1",
        "a IS NOT NULL",
        "NOT (a < 3)",
        "(a) = ((5))",
        "a > 3 /* why */ AND -- because\n s = 'abc'",
        "s <> 'it''s'",
        "a + 1 > 3 OR TRUE = FALSE AND a = 5",
    ];
    // The last expression ends after `a`, which is false.
    check(Ok(Value::Bool(true)), &expressions[..expressions.len() - 1]);
    check(Ok(Value::Bool(false)), &expressions[expressions.len() - 1..]);
}

#[test]
fn expressions_that_are_false() {
    let expressions = [
        "a < 5",
        "a NOT IN ('5')",
        "5 = n",
        "t",
        "a",
        "a = TRUE",
        "n CONTAINS 'b'",
        "n NOT CONTAINS 'b'",
        "s CONTAINS ''",
        "a > 1e2",
        "e IS NULL",
        "1 = TRUE",
        "a > 3 AND s = 'x'",
    ];
    check(Ok(Value::Bool(false)), &expressions);
}

#[test]
fn expressions_that_are_null() {
    let expressions = [
        "n = 5",
        "n <> 5",
        "n IN ('5')",
        "n NOT IN ('5')",
        "a > 3 AND n = 1",
        "NOT (n = 1)",
        "A > 3",
        "n",
        "a > -s",
    ];
    check(Ok(Value::Null), &expressions);
}

#[test]
fn expressions_that_fail_when_evaluated() {
    check(Err(eval::Incomparable), &["s > 3", "s = 3", "d > 2", "TRUE = t", "s > 1 OR TRUE"]);
}

#[test]
fn expressions_that_are_refused() {
    let deep = format!("{}a{}", "(".repeat(1000), ")".repeat(1000));
    let minus = "-".repeat(100_000);
    let long = vec!["a = 1"; 20_000].join(" OR ");
    for text in [
        "a > '3'",
        "a BETWEEN 10 AND 1",
        "a BETWEEN '1' AND '9'",
        "a = NULL",
        "a > 0.0",
        "a IN (5)",
        "a != 5",
        "a == 5",
        "a.b = 1",
        "NOT a > 3",
        "TRUE = 1",
        "",
        "*",
        "a = 'open",
        "a IN ()",
        "5 IN ('5')",
        "a IS 5",
        "a > TRUE",
        "NULL = a",
        "a = 99999999999999999999",
        "a = 1;",
        "a CONTAINS 5",
        "a BETWEEN 1",
        "(a = 1",
        &deep,
        &minus,
        &long,
        "a > 1e999",
        "a = 5 & b",
        "日本 = 1",
        "a NOT LIKE 'x'",
        "a not like 'x' AND a = 5",
        "a = 5 NOT LIKE 'x'",
        "a > 3 NOT",
        "a NOT NULL",
    ] {
        assert!(Filter::parse(text).is_err(), "{text:.40}");
    }
    let error = Filter::parse("a > 3 AND b > '3'").unwrap_err();
    assert_eq!(error.to_string(), "at character 13: only numbers and properties can be compared by size");
}

#[test]
fn an_operand_of_logic_is_a_condition_or_a_property() {
    for text in [
        "'x'",
        "5",
        "1.5",
        "-5",
        "-a",
        "('x')",
        "-'x'",
        "- TRUE",
        "-(a = 1)",
        "+5",
        "-NULL",
        "NOT 'x'",
        "NOT 5",
        "NOT -a",
        "'x' AND a = 1",
        "a = 1 AND 'x'",
        "a = 1 OR 5",
        "a OR 'y'",
        "(5) OR a=1",
        "a AND (b OR 5)",
        "(a) = 1 AND (-b)",
    ] {
        assert!(Filter::parse(text).is_err(), "{text}");
    }
    for text in [
        "a",
        "+a",
        "(a)",
        "+(a)",
        "NOT a",
        "TRUE",
        "+TRUE",
        "NULL",
        "NOT NULL",
        "NULL OR a",
        "a AND b",
        "-a = 5",
        "(-a) = 5",
        "'x' = 'x'",
        "5 = 5 AND a",
        "-a IS NULL",
    ] {
        assert!(Filter::parse(text).is_ok(), "{text}");
    }
    let error = Filter::parse("a = 1 OR  5").unwrap_err();
    assert_eq!(error.to_string(), "at character 11: expected a condition, found a number or text");
}

/// Random expressions, each with its outcome: the result of `SqlFilter.compile` of rocketmq-filter 5.5.0, and the value of the
/// compiled expression.
const GENERATED: &str = include_str!("../golden/sql-5.5.0.tsv");

#[test]
fn generated_expressions_have_the_outcomes_of_java() {
    for line in GENERATED.lines() {
        let (expected, text) = line.split_once('\t').unwrap();
        let outcome = match Filter::parse(text) {
            Err(_) => "refused",
            Ok(_) => match evaluate(text) {
                Ok(Value::Bool(true)) => "true",
                Ok(Value::Bool(false)) => "false",
                Ok(Value::Null) => "null",
                Ok(value) => panic!("{text} is {value:?}"),
                Err(eval::Incomparable) => "error",
            },
        };
        assert_eq!(outcome, expected, "{text}");
    }
}

#[test]
fn what_follows_a_complete_expression_is_ignored() {
    for (text, same) in [
        ("a > 3 garbage", "a > 3"),
        ("a LIKE 'x'", "a"),
        ("a IS NULL NOT LIKE 'x'", "a IS NULL"),
        ("a + 1 > 3", "a"),
        ("a = 007", "a = 0"),
        ("a-b = 1", "a"),
    ] {
        assert_eq!(Filter::parse(text), Filter::parse(same), "{text}");
        assert!(Filter::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn stored_properties_are_read_in_place() {
    let filter = Filter::parse("region = 'north' AND size BETWEEN 10 AND 20").unwrap();
    assert!(filter.matches(b"TAGS\x01x\x02region\x01north\x02size\x0115\x02"));
    assert!(!filter.matches(b"region\x01north\x02size\x0125\x02"));
    assert!(!filter.matches(b"region\x01north\x02"));
}

#[test]
fn numbers_are_read_as_java_reads_them() {
    for (text, expected) in [
        ("1.5f", Some(1.5)),
        (" 7 ", Some(7.0)),
        ("-Infinity", Some(f64::NEG_INFINITY)),
        ("inf", None),
        ("", None),
        ("0x1", None),
    ] {
        let filter = Filter::parse("x = 1.5 OR x = 7.0 OR x < -1.0").unwrap();
        let stored = format!("x\x01{text}\x02");
        assert_eq!(filter.matches(stored.as_bytes()), expected.is_some(), "{text:?}");
    }
}
