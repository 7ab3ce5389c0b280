//! Answers of operations without a page of their own, as tables with the names that the answers have.

use super::{ago, decimal, labelled, number};
use crate::request::query;
use crate::words::Lang;
use maud::{Markup, html};
use serde_json::Value;

/// Most rows of a table; the JSON beside the page has all.
const ROWS_MAX: usize = 500;
/// Columns whose numbers are names: no separators.
const NAMES: [&str; 4] = ["id", "queue", "flag", "sys_flag"];

/// Members of answers that say which part is missing, and why.
const MISSING: [&str; 2] = ["failures", "tracks_error"];

/// Why an answer is not complete, above what is shown all the same.
pub(crate) fn incomplete(answer: &Value) -> Markup {
    let texts = MISSING.iter().flat_map(|name| as_rows(&answer[*name])).filter_map(Value::as_str);
    html! { @for text in texts { p.failure role="alert" { "✗ " (text) } } }
}

/// An answer: what is missing of it, its single values, then its lists as tables.
pub(crate) fn answer(lang: Lang, value: &Value) -> Markup {
    let Value::Object(members) = value else { return table(lang, as_rows(value)) };
    let is_list = |value: &Value| value.as_array().is_some_and(|list| list.iter().any(Value::is_object));
    let is_single = |(name, value): &(&String, &Value)| !is_list(value) && !MISSING.contains(&name.as_str());
    html! {
        (incomplete(value))
        dl {
            @for (name, value) in members.iter().filter(is_single) {
                dt { (lang.column(name)) } dd { (formatted(lang, name, value)) }
            }
        }
        @for (name, value) in members.iter().filter(|(_, value)| is_list(value)) {
            h2 { (lang.column(name)) }
            (table(lang, as_rows(value)))
        }
    }
}

fn as_rows(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        single => std::slice::from_ref(single),
    }
}

/// Rows as a table with the columns of all of them.
pub(crate) fn table(lang: Lang, rows: &[Value]) -> Markup {
    let mut columns: Vec<&str> = Vec::new();
    for row in rows.iter().take(ROWS_MAX).filter_map(Value::as_object) {
        for name in row.keys() {
            if !columns.contains(&name.as_str()) {
                columns.push(name);
            }
        }
    }
    columns_table(lang, rows, &columns)
}

/// The columns in which at least one row has a value.
pub(crate) fn columns_with_values<'a>(rows: &[Value], columns: &[&'a str]) -> Vec<&'a str> {
    let has_value = |name: &str| rows.iter().any(|row| !cell_text(&row[name]).is_empty());
    columns.iter().copied().filter(|name| has_value(name)).collect()
}

/// Rows as a table with some columns.
pub(crate) fn columns_table(lang: Lang, rows: &[Value], columns: &[&str]) -> Markup {
    if rows.is_empty() {
        return html! { p.small { (lang.say("Nothing to show")) } };
    }
    html! {
        div.scroll tabindex="0" role="group" aria-label=(lang.say("Answer")) {
            table {
                thead { tr { @for name in columns { th.number[rows.iter().any(|row| row[*name].is_number())] scope="col" { (lang.column(name)) } } } }
                tbody {
                    @for row in rows.iter().take(ROWS_MAX) {
                        @if row.is_object() {
                            tr { @for name in columns { (labelled(&lang.column(name), row[*name].is_number(), cell(lang, row, name))) } }
                        } @else {
                            tr { td { (cell_text(row)) } }
                        }
                    }
                }
            }
        }
        @if rows.len() > ROWS_MAX { p { (ROWS_MAX) " / " (rows.len()) } }
    }
}

/// A value with separators between thousands, or as the time that it is.
fn formatted(lang: Lang, name: &str, value: &Value) -> Markup {
    match value {
        Value::Number(_) if NAMES.contains(&name) => html! { (cell_text(value)) },
        Value::Number(count) => {
            html! { (count.as_i64().map_or_else(|| decimal(count.as_f64().unwrap_or_default()), number)) }
        }
        Value::Bool(is_so) => html! { (if *is_so { lang.say("yes") } else { lang.say("no") }) },
        Value::String(text) if text.len() == TIME.len() && text.ends_with('Z') => {
            match admin::parse_time(text) {
                Some(time_ms) => ago(lang, time_ms),
                None => html! { (text) },
            }
        }
        _ => html! { (cell_text(value)) },
    }
}

/// Shape of the times that `admin::time` writes.
const TIME: &str = "1970-01-01T00:00:00.000Z";

/// A cell; names of things lead to their pages.
fn cell(lang: Lang, row: &Value, column: &str) -> Markup {
    let text = cell_text(&row[column]);
    if text.is_empty() {
        return html! {};
    }
    let link = match column {
        "topic" => Some(format!("/topic{}", query([("name", text.as_str())]))),
        "group" => Some(format!("/group{}", query([("name", text.as_str())]))),
        "broker" if !text.contains(':') => {
            Some(format!("/broker{}", query([("name", slave_address(row).unwrap_or(&text))])))
        }
        "run" => Some(format!("/run{}", query([("id", text.as_str())]))),
        "client_id" => row["group"].as_str().map(|group| {
            let group_and_id = [("group", group), ("id", text.as_str())];
            format!("/client{}", query(group_and_id))
        }),
        "message_id" => row["topic"].as_str().map(|topic| {
            let topic_and_id = [("topic", topic), ("id", text.as_str())];
            format!("/message{}", query(topic_and_id))
        }),
        _ => None,
    };
    html! { @match link { Some(link) => a href=(link) { (text) }, None => (formatted(lang, column, &row[column])) } }
}

/// The address of a row's broker if it is no master: the name of its broker set leads to the master.
fn slave_address(row: &Value) -> Option<&str> {
    let is_slave = row["id"].as_i64().is_some_and(|id| id != 0);
    row["address"].as_str().filter(|address| is_slave && !address.is_empty())
}

/// A value as text.
pub(crate) fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell_text).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{name}={}", cell_text(value)));
            members.collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => format!("{value:.2}"),
            _ => number.to_string(),
        },
        Value::Bool(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_begins_with_what_is_missing_of_it() {
        let part =
            json!({"queues": [{"queue": 1}], "failures": ["a: silent"], "tracks_error": "b: <silent>"});
        let text = answer(Lang::En, &part).into_string();
        assert!(text.starts_with("<p class=\"failure\" role=\"alert\">✗ a: silent</p>"), "{text}");
        assert!(text.contains("✗ b: &lt;silent&gt;</p>") && !text.contains("<dt>"), "{text}");
    }

    #[test]
    fn numbers_and_times_are_formatted() {
        let rows = [
            json!({"diff": 1_234_567, "id": 10911, "last_time": "2026-01-02T03:04:05.006Z", "active": true, "note": "2026"}),
        ];
        let text = table(Lang::En, &rows).into_string();
        for part in ["1,234,567", ">10911<", "datetime=\"2026-01-02T03:04:05.006Z\"", ">yes<", ">2026<"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_slave_leads_to_its_own_page() {
        let shown = |row: Value| cell(Lang::En, &row, "broker").into_string();
        let broker = |id: i64| json!({"broker": "a", "id": id, "address": "h:1"});
        assert_eq!(shown(broker(1)), "<a href=\"/broker?name=h%3A1\">a</a>");
        assert_eq!(shown(broker(0)), "<a href=\"/broker?name=a\">a</a>");
        // The address of a client that is connected to a broker.
        let client = json!({"broker": "a", "address": "c:2"});
        assert_eq!(shown(client), "<a href=\"/broker?name=a\">a</a>");
    }

    #[test]
    fn what_others_wrote_is_inert() {
        let evil = "<script>alert(1)</script>\"'";
        let rows = json!([{"topic": evil, "message_id": evil, "body": {"a": [evil]}, "n": 1.005}, evil]);
        let text = answer(Lang::Zh, &json!({"rows": rows, evil: evil})).into_string();
        assert!(!text.contains("<script"), "{text}");
        assert!(text.contains("/topic?name=%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27"), "{text}");
        assert!(text.contains("1.0<") && text.contains("主题"), "{text}");
    }
}
