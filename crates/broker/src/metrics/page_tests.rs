//! The table of metrics in docs/metrics.md, made from the catalogue.

use std::fmt::Write;

use super::catalogue::{COMMON_LABELS, METRICS};

/// Line of the page before the table.
const BEGIN: &str = "<!-- the table of metrics -->\n";
/// Line of the page behind the table.
const END: &str = "<!-- end of the table -->\n";

const ENGLISH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
const CHINESE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.zh-CN.md");

fn table() -> String {
    let mut text = "| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let labels = if metric.labels.is_empty() { "-".to_owned() } else { metric.labels.join(", ") };
        let _ = writeln!(text, "| `{}` | {} | {labels} | {} |", metric.name, metric.kind.word(), metric.doc);
    }
    text
}

/// The page around its table, and the table.
fn parts(page: &str) -> (&str, &str, &str) {
    let (head, rest) = page.split_once(BEGIN).expect("the page marks the table's begin");
    let (table, tail) = rest.split_once(END).expect("the page marks the table's end");
    (head, table, tail)
}

/// Checks the table. `VOSTOK_WRITE_DOCS=1` writes the table after a change of the catalogue.
#[test]
fn the_table_in_docs_is_made_from_the_catalogue() {
    let page = std::fs::read_to_string(ENGLISH).unwrap();
    let (head, found, tail) = parts(&page);
    if std::env::var_os("VOSTOK_WRITE_DOCS").is_some() {
        return std::fs::write(ENGLISH, [head, BEGIN, &table(), END, tail].concat()).unwrap();
    }
    assert!(found == table(), "docs/metrics.md is not what the catalogue says; run with VOSTOK_WRITE_DOCS=1");
    assert!(COMMON_LABELS.iter().all(|label| head.contains(label)), "the page names the common labels");
}

#[test]
fn the_chinese_page_has_the_same_metrics() {
    let page = std::fs::read_to_string(CHINESE).unwrap();
    // The meaning is translated.
    let facts = |table: &str| {
        let rows = table.lines().filter(|line| line.starts_with("| `"));
        rows.map(|row| row.split(" | ").take(3).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(facts(parts(&page).1), facts(&table()));
}

#[test]
fn names_follow_the_rules_of_prometheus() {
    for metric in METRICS {
        let is_counter = metric.kind == super::catalogue::Kind::Counter;
        assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
        assert!(!metric.doc.is_empty() && !metric.doc.contains('|'), "{}", metric.name);
        let names = METRICS.iter().filter(|other| other.name == metric.name).count();
        assert_eq!(names, 1, "{}", metric.name);
        assert!(metric.labels.iter().all(|label| !COMMON_LABELS.contains(label)), "{}", metric.name);
    }
}

/// The words of a text that begin like names of metrics.
fn used(text: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    words.filter(|word| word.starts_with("rocketmq_") || word.starts_with("vostok_")).collect()
}

#[test]
fn alerts_and_dashboard_use_metrics_that_exist() {
    for file in ["alerts.yml", "grafana-broker.json"] {
        let path = format!("{}/../../ops/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let names = used(&text);
        assert!(names.len() > 5, "{file}: {names:?}");
        for name in names {
            let is_known = |metric: &&super::catalogue::Metric| {
                metric.name == name.strip_suffix("_bucket").unwrap_or(name)
            };
            assert!(METRICS.iter().any(|metric| is_known(&metric)), "{file} uses {name}");
        }
    }
}
