//! Data as YAML in block style. Text that could be read as anything else is quoted as in JSON, which YAML contains.

use serde_json::Value;

/// Writes a value as a YAML document.
pub(crate) fn yaml(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out.trim_start_matches('\n').to_owned()
}

fn write(out: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (index, (name, member)) in members.iter().enumerate() {
                // The first member of an item of a list stands after the dash.
                let lead = if index == 0 && out.ends_with("- ") { "" } else { &indent };
                out.push_str(&format!("{lead}{}:", scalar(&Value::String(name.clone()))));
                behind(out, member, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("{indent}- "));
                write(out, item, depth + 1);
                if !out.ends_with('\n') {
                    out.push('\n');
                }
            }
        }
        value => out.push_str(&scalar(value)),
    }
}

/// Writes the value after the colon of a name.
fn behind(out: &mut String, value: &Value, depth: usize) {
    let is_block = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        out.push('\n');
        write(out, value, depth + 1);
    } else {
        out.push_str(&format!(" {}\n", scalar(value)));
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a text needs no quotes: it begins with a letter, has no sign of YAML, and is no word with a meaning.
fn is_plain(text: &str) -> bool {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./@".contains(letter))
        && !words.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_in_blocks() {
        let value = json!([
            {"topic": "One", "queues": 4, "brokers": ["a", "127.0.0.1:10911"], "none": null, "empty": []},
            {"topic": "%RETRY%G", "more": {"yes": "no"}}
        ]);
        let expected = "- topic: One\n  queues: 4\n  brokers:\n    - a\n    - \"127.0.0.1:10911\"\n  none: null\n  \
                        empty: []\n- topic: \"%RETRY%G\"\n  more:\n    \"yes\": \"no\"\n";
        assert_eq!(yaml(&value), expected);
        assert_eq!(yaml(&json!([])), "[]\n");
        assert_eq!(yaml(&json!({"a": 1})), "a: 1\n");
    }
}
