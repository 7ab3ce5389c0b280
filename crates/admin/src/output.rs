//! Answers as tables for people, and as JSON, YAML or CSV for programs.

use crate::yaml::yaml;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Columns for people.
    Table,
    /// JSON, indented.
    Json,
    /// YAML.
    Yaml,
    /// Comma-separated values with a line of names (RFC 4180).
    Csv,
}

/// Writes an answer.
pub fn render(answer: &Value, format: Format) -> String {
    match format {
        Format::Table => text(answer),
        Format::Json => serde_json::to_string_pretty(answer).expect("a value has text as keys") + "\n",
        Format::Yaml => yaml(answer),
        Format::Csv => csv(&rows(answer)),
    }
}

/// An answer for people: names and values, then lists as tables.
fn text(answer: &Value) -> String {
    let Value::Object(members) = answer else { return table(&rows(answer)) };
    let is_table = |value: &Value| value.as_array().is_some_and(|list| list.iter().any(Value::is_object));
    let (tables, single): (Vec<_>, Vec<_>) = members.iter().partition(|(_, value)| is_table(value));
    let width = single.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let mut out = String::new();
    for (name, value) in single {
        let _ = writeln!(out, "{name:<width$}  {}", cell(value));
    }
    for (name, value) in tables {
        if !out.is_empty() {
            let _ = writeln!(out, "\n{name}:");
        }
        out.push_str(&table(&rows(value)));
    }
    out
}

/// The rows of an answer: its items, or the items of its only list of objects, or itself.
fn rows(answer: &Value) -> Vec<Map<String, Value>> {
    let object = |value: &Value| match value {
        Value::Object(members) => members.clone(),
        other => Map::from_iter([("value".to_owned(), other.clone())]),
    };
    match answer {
        Value::Array(items) => items.iter().map(object).collect(),
        Value::Object(members) => {
            let mut lists = members.values().filter_map(Value::as_array);
            let list = lists.find(|list| list.iter().any(Value::is_object));
            list.map_or_else(|| vec![members.clone()], |list| list.iter().map(object).collect())
        }
        other => vec![object(other)],
    }
}

/// Names of the columns, in the order of their first occurrence.
fn columns(rows: &[Map<String, Value>]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(Map::keys) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// A value on one line.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.replace(['\n', '\r', '\t'], " "),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn table(rows: &[Map<String, Value>]) -> String {
    let names = columns(rows);
    let head: Vec<String> = names.iter().map(|name| name.to_uppercase()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head)
        .chain(
            rows.iter()
                .map(|row| names.iter().map(|name| row.get(*name).map_or_else(String::new, cell)).collect()),
        )
        .collect();
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

fn csv(rows: &[Map<String, Value>]) -> String {
    let names = columns(rows);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let plain = |value: &Value| value.as_str().map_or_else(|| cell(value), str::to_owned);
    let lines = rows
        .iter()
        .map(|row| names.iter().map(|name| row.get(*name).map_or_else(String::new, plain)).collect());
    let head = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for line in std::iter::once(head).chain(lines).filter(|line: &Vec<String>| !line.is_empty()) {
        writer.write_record(&line).expect("memory takes everything");
    }
    let bytes = writer.into_inner().expect("memory takes everything");
    String::from_utf8(bytes).expect("text was written")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_become_columns() {
        let answer = json!([{"topic": "One", "queues": 4}, {"topic": "Longer", "group": "G, \"1\""}]);
        let expected = "TOPIC   QUEUES  GROUP\nOne     4\nLonger          G, \"1\"\n";
        assert_eq!(render(&answer, Format::Table), expected);
        let expected = "topic,queues,group\nOne,4,\nLonger,,\"G, \"\"1\"\"\"\n";
        assert_eq!(render(&answer, Format::Csv), expected);
        assert_eq!(render(&json!([]), Format::Csv), "");
    }

    #[test]
    fn an_object_shows_its_list_below() {
        let answer = json!({"tps": 0.5, "brokers": ["a", "b"], "queues": [{"queue": 0}]});
        let expected = "tps      0.5\nbrokers  a, b\n\nqueues:\nQUEUE\n0\n";
        assert_eq!(render(&answer, Format::Table), expected);
        assert_eq!(render(&answer, Format::Csv), "queue\n0\n");
        assert_eq!(render(&json!({"a": 1, "b": null}), Format::Csv), "a,b\n1,\n");
    }
}
