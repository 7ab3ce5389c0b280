//! Helpers shared by the modules that read answers of operations.

use admin::Operation;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Text in place of a value that the visitor may not see.
pub(crate) const HIDDEN: &str = "(not shown)";

/// The time in ms since the epoch.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The rows of an answer; none when it is no list.
pub(crate) fn rows(answer: &Value) -> &[Value] {
    answer.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A list as JSON; in an object with the failures of the servers that gave none of it, if there are any.
pub(crate) fn with_failures(list: Value, failures: &[String]) -> Value {
    if failures.is_empty() { list } else { json!({"answer": list, "failures": failures}) }
}

/// Removes secrets from an answer, and also bodies of messages unless the visitor may see bodies.
pub(crate) fn without_hidden(sees_bodies: bool, operation: &Operation, mut answer: Value) -> Value {
    if matches!(operation.noun, "message" | "dlq") && !sees_bodies {
        hide(&mut answer, &["body", "body_hex"]);
    }
    hide(&mut answer, &["password"]);
    if operation.verb == "config" {
        for row in answer.as_array_mut().into_iter().flatten() {
            let (Some(key), Some(value)) = (row["key"].as_str(), row["value"].as_str()) else { continue };
            let kept = admin::without_secrets(BTreeMap::from([(key.to_owned(), value.to_owned())]));
            row["value"] = kept.into_values().next().into();
        }
    }
    answer
}

fn hide(value: &mut Value, names: &[&str]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, names)),
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, value)| match names.contains(&name.as_str()) {
                true => *value = Value::from(HIDDEN),
                false => hide(value, names),
            })
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_not_complete_says_so() {
        assert_eq!(with_failures(json!([1]), &[]), json!([1]));
        let part = with_failures(json!([1]), &["a: timeout".to_owned()]);
        assert_eq!(part, json!({"answer": [1], "failures": ["a: timeout"]}));
    }

    #[test]
    fn bodies_and_secrets_are_hidden() {
        let message = admin::operation("message", "key").unwrap();
        let answer = json!([{"body": "text", "keys": "k"}]);
        assert_eq!(without_hidden(false, message, answer.clone())[0]["body"], HIDDEN);
        assert_eq!(without_hidden(true, message, answer)[0]["body"], "text");
        let config = admin::operation("broker", "config").unwrap();
        let answer =
            json!([{"key": "tlsKeyPassword", "value": "planted"}, {"key": "brokerName", "value": "a"}]);
        let answer = without_hidden(true, config, answer);
        assert!(!answer.to_string().contains("planted") && answer.to_string().contains("\"a\""), "{answer}");
    }
}
