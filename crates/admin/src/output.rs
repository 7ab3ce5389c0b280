//! Answers as tables for people, and as JSON, YAML or CSV for programs.

mod cells;
mod layout;

use crate::Lang;
use crate::yaml::yaml;
use cells::{Cell, Level, for_people, plain};
use layout::{Column, fit, lines, width, wrap};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// Least number of columns that tell the rows of a table apart. With fewer columns each row is written as lines.
const COLUMNS_MIN: usize = 3;
/// Least width of a value that is wrapped beside its name.
const VALUE_MIN: usize = 8;

/// Format of an answer.
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

/// Output device of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Columns of the terminal; `None` for a pipe or file, which gets all columns without separators and colours.
    pub width: Option<usize>,
    /// Whether wrong values are coloured.
    pub has_colour: bool,
    /// Language of titles.
    pub lang: Lang,
}

impl Look {
    /// The standard output of this process. `NO_COLOR` and a terminal named `dumb` have no colours.
    pub fn stdout(lang: Lang) -> Self {
        if !std::io::stdout().is_terminal() {
            return Self { lang, ..Self::default() };
        }
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let [width, _] = terminal_size();
        Self { width: Some(width.max(20)), has_colour: !is_set("NO_COLOR") && !is_dumb, lang }
    }

    fn cell(&self, name: &str, value: &Value) -> Cell {
        match self.width {
            Some(_) => for_people(name, value),
            None => Cell { text: plain(value), ..Cell::default() },
        }
    }

    fn title(&self, name: &str) -> String {
        let title = self.lang.title(name);
        if self.width.is_none() {
            return title;
        }
        let title = title.replace("_SECONDS", "_TIME").replace("BYTES_PER_SECOND", "RATE");
        ["_BYTES", "_MS"].into_iter().fold(title, |title, unit| title.replace(unit, "")).replace('_', " ")
    }

    fn paint(&self, text: &str, level: Level) -> String {
        match level {
            Level::Wrong if self.has_colour => format!("\x1b[31m{text}\x1b[0m"),
            Level::Warning if self.has_colour => format!("\x1b[33m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// Columns and rows of the terminal. A terminal that does not know its size, as in some containers, counts as 80 by 24.
pub(crate) fn terminal_size() -> [usize; 2] {
    let (width, height) = ratatui::crossterm::terminal::size().unwrap_or_default();
    [(width, 80), (height, 24)].map(|(size, usual)| if size == 0 { usual } else { usize::from(size) })
}

/// Writes an answer for a pipe or a file.
pub fn render(answer: &Value, format: Format) -> String {
    render_for(answer, format, &Look::default())
}

/// Writes an answer for a terminal, a pipe or a file. Only tables depend on where the answer is shown.
pub fn render_for(answer: &Value, format: Format, look: &Look) -> String {
    match format {
        Format::Table => text(answer, look),
        Format::Json => serde_json::to_string_pretty(answer).expect("a value has text as keys") + "\n",
        Format::Yaml => yaml(answer),
        Format::Csv => csv(&rows(answer)),
    }
}

/// Whether an answer has nothing in it.
pub(crate) fn is_empty(answer: &Value) -> bool {
    match answer {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// An answer for people: names and values, then lists as tables.
fn text(answer: &Value, look: &Look) -> String {
    let Value::Object(members) = answer else { return table(&rows(answer), look) };
    let is_table = |value: &Value| value.as_array().is_some_and(|list| list.iter().any(Value::is_object));
    let (tables, single): (Vec<_>, Vec<_>) = members.iter().partition(|(_, value)| is_table(value));
    let mut out = fields(&single, look);
    for (name, value) in tables {
        if !out.is_empty() {
            let title = if look.lang == Lang::En { name.clone() } else { look.title(name) };
            let _ = writeln!(out, "\n{title}{}", look.lang.pick(":", "："));
        }
        out.push_str(&table(&rows(value), look));
    }
    out
}

/// Names and values, each on a line of its own or wrapped beside its name.
fn fields(members: &[(&String, &Value)], look: &Look) -> String {
    let title = |name: &str| match (look.lang, look.width) {
        (Lang::En, None) => name.to_owned(),
        (Lang::En, Some(_)) => look.title(name).to_lowercase(),
        (Lang::Zh, _) => look.title(name),
    };
    let first = members.iter().map(|(name, _)| width(&title(name))).max().unwrap_or_default();
    let mut out = String::new();
    for (name, value) in members {
        let (title, cell) = (title(name), look.cell(name, value));
        let pad = " ".repeat(first - width(&title));
        // Beside long names a narrow terminal breaks lines itself: words of a few letters are not readable.
        let room =
            look.width.and_then(|width| width.checked_sub(first + 2)).filter(|room| *room >= VALUE_MIN);
        let room = room.unwrap_or(usize::MAX);
        let lines = if width(&cell.text) <= room { vec![cell.text] } else { wrap(&cell.text, room) };
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { format!("{title}{pad}") } else { " ".repeat(first) };
            let _ = writeln!(out, "{lead}  {}", look.paint(line, cell.level));
        }
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

fn table(rows: &[Map<String, Value>], look: &Look) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let column = |name: &str| Column {
        name: name.to_owned(),
        title: look.title(name),
        cells: rows
            .iter()
            .map(|row| row.get(name).map_or_else(Cell::default, |value| look.cell(name, value)))
            .collect(),
    };
    let columns: Vec<Column> = columns(rows).into_iter().map(column).collect();
    let (shown, left_out) = fit(&columns, look.width.unwrap_or(usize::MAX));
    let is_lost = shown.len() < COLUMNS_MIN && left_out.len() > 1;
    if !left_out.is_empty() && (rows.len() == 1 || is_lost) {
        let rows = rows.iter().map(|row| fields(&row.iter().collect::<Vec<_>>(), look));
        return rows.collect::<Vec<_>>().join("\n");
    }
    let mut out = String::new();
    for line in lines(&columns, &shown, |text, level| look.paint(text, level)) {
        let _ = writeln!(out, "{line}");
    }
    if !left_out.is_empty() {
        // In JSON the columns have their English names.
        let names = left_out.join(look.lang.pick(", ", "、"));
        let note =
            format!("Columns left out: {names}. A wider terminal, a pipe or -o json shows all columns.");
        let _ = writeln!(out, "\n{}", look.lang.error(&note));
    }
    out
}

/// A value on one line with all of its digits.
fn exact(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        other => plain(other),
    }
}

fn csv(rows: &[Map<String, Value>]) -> String {
    let names = columns(rows);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let plain = |value: &Value| value.as_str().map_or_else(|| exact(value), str::to_owned);
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

    #[test]
    fn a_terminal_gets_what_fits_with_units_and_colours() {
        let look = |width, has_colour| Look { width: Some(width), has_colour, lang: Lang::En };
        let answer = json!([
            {"group": "payments", "messages": 1_234_567, "lag_seconds": 471, "version": "V5_5_0"},
            {"group": "mailer", "messages": 5, "lag_seconds": 4000, "version": "V5_5_0"}
        ]);
        let wide = "GROUP      MESSAGES  LAG TIME  VERSION\npayments  1,234,567    7m 51s  V5_5_0\n\
                    mailer            5     1h 6m  V5_5_0\n";
        assert_eq!(render_for(&answer, Format::Table, &look(80, false)), wide);
        let coloured = render_for(&answer, Format::Table, &look(80, true));
        assert!(coloured.contains("\x1b[33m7m 51s\x1b[0m") && coloured.contains("\x1b[31m1h 6m\x1b[0m"));
        let narrow = render_for(&answer, Format::Table, &look(31, false));
        assert!(!narrow.contains("VERSION") && narrow.contains("Columns left out: version."), "{narrow}");
        let look = Look { width: None, has_colour: false, lang: Lang::Zh };
        let piped = render_for(&answer, Format::Table, &look);
        assert!(piped.starts_with("消费组") && piped.contains("1234567  471"), "{piped}");
        for format in [Format::Json, Format::Yaml, Format::Csv] {
            assert_eq!(render_for(&answer, format, &look), render(&answer, format), "{format:?}");
        }
    }

    #[test]
    fn a_row_that_is_too_wide_is_written_as_lines() {
        let answer = json!([{"name": "a", "first_figure_of_many": 1, "second_figure_of_many": 2, "third_figure_of_many": 3}]);
        let look = Look { width: Some(50), has_colour: false, lang: Lang::En };
        let expected = "name                   a\nfirst figure of many   1\nsecond figure of many  2\nthird figure of many   3\n";
        assert_eq!(render_for(&answer, Format::Table, &look), expected);
        let look = Look { width: Some(20), ..look };
        let narrow =
            render_for(&json!({"second_figure_of_many": "one two three four"}), Format::Table, &look);
        assert_eq!(narrow, "second figure of many  one two three four\n");
    }

    #[test]
    fn rows_of_a_narrow_terminal_are_told_apart() {
        let row = |id| json!({"cluster": "DefaultCluster", "broker": "broker-a", "id": id, "address": "127.0.0.1:1"});
        let look = Look { width: Some(20), has_colour: false, lang: Lang::En };
        let narrow = render_for(&json!([row(0), row(2)]), Format::Table, &look);
        assert!(narrow.contains("id       0\n") && narrow.contains("\n\ncluster  Default"), "{narrow}");
        assert!(narrow.lines().all(|line| width(line) <= 20) && !narrow.contains("left out"), "{narrow}");
    }

    #[test]
    fn texts_of_clients_do_not_control_the_terminal() {
        let answer = json!([{"topic": "One", "tags": "a\u{1b}[2Jb\u{9b}31m"}]);
        let look = Look { width: Some(80), has_colour: false, lang: Lang::En };
        assert_eq!(render_for(&answer, Format::Table, &look), "TOPIC  TAGS\nOne    a [2Jb 31m\n");
        assert!(render(&answer, Format::Csv).contains('\u{1b}'), "programs get what is stored");
    }
}
