//! The table of all cells in the page: the columns of the earlier reports 003 and 000 (docs/lab.md), and further ones
//! needed to read them. A note has its own row below its cell, to leave room for figures. The probes of a search are
//! folded away, because they are neither results nor faults.

use super::columns;
use super::words::{says, words};
use crate::judge::conclusion::{Case, Conclusion};
use crate::judge::validity::Reason;
use crate::judge::{Language, Text, both, numbers};
use crate::sentences::Sentence;
use maud::{Markup, html};

/// A column of the page's table.
struct Column {
    /// Name of the column in `cells.csv`.
    name: &'static str,
    /// Heading of the column.
    title: Text,
    /// Whether the column is shown even if no cell has a value, because the earlier reports 003 and
    /// 000 have the column.
    always: bool,
    /// Whether its numbers are written with a thousands separator.
    has_separators: bool,
    /// Whether the column is a figure, which an invalid cell does not have.
    is_figure: bool,
}

impl Column {
    /// Whether the values are numbers, which are aligned to the right.
    fn is_number(&self) -> bool {
        self.is_figure || self.has_separators
    }
}

/// Columns in order, a line each: name, heading in English and in Chinese, and kinds, separated by tabs. Kinds may be absent: `factor` is no
/// figure, `counted` has separators, `if-known` is shown only with values.
const COLUMNS: &str = include_str!("cases.tsv");

fn shown() -> Vec<Column> {
    let column = |line: &'static str| {
        let mut fields = line.split('\t').chain([""]);
        let mut field = || fields.next().expect("a row has three fields");
        let (name, title, kinds) = (field(), Text::of((field(), field())), field());
        let is = |kind: &str| kinds.contains(kind);
        Column {
            name,
            title,
            always: !is("if-known"),
            has_separators: is("counted"),
            is_figure: !is("factor"),
        }
    };
    COLUMNS.lines().map(column).collect()
}

/// Names in `cells.csv` of the columns that are shown, the note last. Columns without values are
/// left out, unless the earlier reports have them (`Column::always`).
pub fn names(rows: &[Vec<String>]) -> Vec<&'static str> {
    shown_of(rows).into_iter().map(|column| column.name).chain(["note"]).collect()
}

/// Index of a column in the rows.
pub fn place(name: &str) -> usize {
    columns::names().iter().position(|known| *known == name).expect("a column of the table")
}

fn shown_of(rows: &[Vec<String>]) -> Vec<Column> {
    let is_known = |column: &Column| rows.iter().any(|row| !row[place(column.name)].is_empty());
    shown().into_iter().filter(|column| column.always || is_known(column)).collect()
}

/// The table of all cells; every row links to the figures of its cell.
pub fn cases(run: &Conclusion<'_>) -> Markup {
    let rows = columns::rows_without_probes(run, Language::En);
    let zh = columns::rows_without_probes(run, Language::Zh);
    let shown = shown_of(&rows);
    let figures = shown.iter().filter(|column| column.is_figure).count();
    let note = place("note");
    html! {
        div.wide {
            table.cases {
                thead { tr { @for column in &shown { th.number[column.is_number()] { (says(&column.title)) } } } }
                tbody {
                    @for (row, row_zh) in rows.iter().zip(&zh) {
                        @let is_valid = row[place("valid")] == "true" || !row[place("send TPS")].is_empty();
                        tr {
                            @for column in shown.iter().filter(|column| is_valid || !column.is_figure) {
                                @let (value, value_zh) = (&row[place(column.name)], &row_zh[place(column.name)]);
                                @if column.name == "case" { td { (number(&both!("cases.value", value, value_zh))) } }
                                @else { td.number[column.is_number()] { (cell_text(value, column)) } }
                            }
                            @if !is_valid { td.bad colspan=(figures) { (says(&Text::of((&row[note], &row_zh[note])))) } }
                        }
                        @if is_valid && !row[note].is_empty() {
                            tr.remark { td {} td colspan=(shown.len() - 1) { b { (words("note", "备注")) } " " (says(&Text::of((&row[note], &row_zh[note])))) } }
                        }
                    }
                }
            }
        }
        (probes(run))
    }
}

/// The probes of a search, folded: the rate and the result of each.
fn probes(run: &Conclusion<'_>) -> Markup {
    let probes: Vec<&Case<'_>> = run.cells.iter().filter(|case| case.is_probe()).collect();
    html! {
        @if !probes.is_empty() {
            details.probes {
                summary { (says(&probes_text(probes.len()))) }
                div.wide { table {
                    thead { tr { th { (words("case", "用例")) } th { (words("rate given", "给定速率")) } th { (words("result", "结果")) } } }
                    @for case in probes {
                        @let name = Text::same(case.judged.cell.cell.number.to_string());
                        tr { td { (number(&name)) } td.number { (numbers::count(case.factors().rate.unwrap_or_default())) } td { (says(&result(case))) } }
                    }
                } }
            }
        }
    }
}

/// The headline of the probes of a search.
pub(super) fn probes_text(count: usize) -> Text {
    both!("cases.count-probes-search-each", count)
}

/// Result of a probe: the guards that broke, and reasons for which its rate tells nothing.
pub(super) fn result(case: &Case<'_>) -> Text {
    let reasons = case.judged.outcome.as_ref().err().into_iter().flatten();
    let reasons = reasons.filter(|reason| **reason != Reason::Probe).map(Sentence::sentence);
    let broken = case.guards.iter().filter(|guard| guard.is_broken()).map(Sentence::sentence);
    let parts: Vec<Text> = broken.chain(reasons).collect();
    Text::joined(&parts).unwrap_or_else(|| both!("answer.every-guard-held"))
}

/// The number of a cell, which may be followed by the name of a phase.
fn number(name: &Text) -> Markup {
    let cell = name.en.split(' ').next().unwrap_or_default();
    html! { a href={ "#cell-" (cell) } { (says(name)) } }
}

/// The text of a table cell: a dash for no value, and a count with separators.
fn cell_text(value: &str, column: &Column) -> String {
    match value.parse::<f64>() {
        _ if value.is_empty() => "–".to_owned(),
        Ok(count) if column.has_separators => numbers::count(count),
        _ => value.to_owned(),
    }
}
