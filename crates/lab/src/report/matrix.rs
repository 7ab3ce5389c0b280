//! Heat maps of the matrix, and details of every cell.

use super::cases;
use super::timeline::{Timeline, figures};
use super::words::{says, words};
use crate::archive::RunFile;
use crate::judge::conclusion::{Case, Conclusion};
use crate::judge::factor::Factor;
use crate::judge::figures::Figures;
use crate::judge::validity::Reason;
use crate::judge::{Text, both, numbers};
use crate::sentences::{Sentence, joined};
use maud::{Markup, html};

/// A figure that a heat map shows for every cell.
struct Layer {
    title: Text,
    more_is_better: bool,
    value: fn(&Figures) -> Option<f64>,
    shown: fn(f64) -> String,
}

fn layers() -> [Layer; 4] {
    [
        Layer {
            title: both!("matrix.send-tps-msg-s"),
            more_is_better: true,
            value: |figures| Some(figures.tps.mean),
            shown: numbers::count,
        },
        Layer {
            title: both!("matrix.send-latency-p99-ms"),
            more_is_better: false,
            value: |figures| (figures.latency.p99_us > 0.0).then_some(figures.latency.p99_us / 1_000.0),
            shown: numbers::short,
        },
        Layer {
            title: both!("matrix.bodies-sent-mb-s"),
            more_is_better: true,
            value: |figures| Some(figures.payload_bytes / 1e6),
            shown: numbers::short,
        },
        Layer {
            title: both!("matrix.broker-cpu-per-message"),
            more_is_better: false,
            value: |figures| figures.cpu_us_per_message,
            shown: numbers::short,
        },
    ]
}

/// Most columns of a heat map that fit a page.
const COLUMNS_MAX: usize = 12;

/// Number of columns from which on a heat map takes the whole width of the page.
const COLUMNS_BESIDE: usize = 5;

/// The heat maps of the measured figures, and the reasons why cells have none; empty when there is nothing to compare.
pub fn heat_maps(run: &Conclusion<'_>) -> Markup {
    let factors: Vec<_> = run.cells.iter().filter(|case| !case.is_probe()).map(Case::factors).collect();
    let mut varied = Factor::varied(&factors);
    if varied.is_empty() || run.valid() == 0 {
        return html! {};
    }
    let levels = |factor: &Factor| {
        let mut levels: Vec<String> = factors.iter().map(|of| factor.level(of)).collect();
        levels.sort();
        levels.dedup();
        levels.len()
    };
    let fits = varied.iter().position(|factor| levels(factor) <= COLUMNS_MAX).unwrap_or(0);
    let across = varied.remove(fits);
    let mut columns: Vec<(f64, String)> =
        factors.iter().map(|of| (across.number(of).unwrap_or(0.0), across.level(of))).collect();
    columns.sort_by(|one, other| one.0.total_cmp(&other.0));
    columns.dedup_by(|one, other| one.1 == other.1);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for of in &factors {
        let row: Vec<String> = varied.iter().map(|factor| factor.level(of)).collect();
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let names: Vec<String> = columns.into_iter().map(|column| column.1).collect();
    let class = if names.len() + varied.len() > COLUMNS_BESIDE { "maps full" } else { "maps" };
    let grid = Grid { run, across, varied, columns: names, rows };
    html! { div class=(class) { @for layer in layers() { (grid.map(&layer)) } } (reasons(run)) }
}

/// The reasons why cells have no figures, by the number in the heat maps.
fn reasons(run: &Conclusion<'_>) -> Markup {
    let shown = run.cells.iter().filter(|case| !case.is_probe());
    let without = shown.filter_map(|case| Some((case, case.judged.outcome.as_ref().err()?)));
    let without: Vec<_> = without.collect();
    html! {
        @if !without.is_empty() {
            ul.reasons {
                @for (case, reasons) in without {
                    li { a href=(link(case)) { "× " (case.judged.cell.cell.number) } " " code { (case.judged.cell.cell.name) } " " (why(case, reasons)) }
                }
            }
        }
    }
}

/// The name and the reasons of a cell without figures.
fn why(case: &Case<'_>, reasons: &[Reason]) -> Markup {
    if case.is_probe() {
        return html! { (words("probe", "试探")) ": " (says(&cases::result(case))) };
    }
    let all = joined(reasons).unwrap_or_default();
    html! { span.bad { (words("invalid", "无效")) } ": " (says(&all)) }
}

fn link(case: &Case<'_>) -> String {
    format!("#cell-{}", case.judged.cell.cell.number)
}

/// The cells that were not run, and why.
pub fn left_out(run: &RunFile) -> Markup {
    html! { @if let Some(says_so) = left_out_says(run) { p { (says(&says_so)) } } }
}

/// The cells that were not run, as text; `None` when all were run.
pub(super) fn left_out_says(run: &RunFile) -> Option<Text> {
    let (left, all) = (run.left_out.len(), run.cells.len());
    (left > 0).then(|| both!("matrix.left-all-cells-left", left, all))
}

struct Grid<'a> {
    run: &'a Conclusion<'a>,
    across: Factor,
    varied: Vec<Factor>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid<'_> {
    fn case(&self, row: &[String], column: &str) -> Option<&Case<'_>> {
        self.run.cells.iter().find(|case| {
            let of = case.factors();
            self.across.level(of) == column
                && self.varied.iter().zip(row).all(|(factor, level)| factor.level(of) == *level)
        })
    }

    fn map(&self, layer: &Layer) -> Markup {
        let values = self.run.cells.iter().filter_map(|case| (layer.value)(case.judged.figures()?));
        let (low, high) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if high <= 0.0 {
            return html! {};
        }
        html! {
            table.map {
                caption { (says(&layer.title)) }
                thead {
                    tr {
                        @for factor in &self.varied { th rowspan="2" { (says(&factor.name())) } }
                        th.across colspan=(self.columns.len()) { (says(&self.across.name())) }
                    }
                    tr { @for column in &self.columns { th.level { (column) } } }
                }
                @for row in &self.rows {
                    tr {
                        @for level in row { th { (level) } }
                        @for column in &self.columns { (square(self.case(row, column), layer, (low, high))) }
                    }
                }
            }
        }
    }
}

fn square(case: Option<&Case<'_>>, layer: &Layer, ends: (f64, f64)) -> Markup {
    let Some(case) = case else { return html! { td.none { "–" } } };
    let Some(figures) = case.judged.figures() else {
        return html! { td.invalid { a href=(link(case)) { "× " (case.judged.cell.cell.number) } } };
    };
    let class = if layer.more_is_better { "more" } else { "less" };
    match (layer.value)(figures) {
        None => html! { td.none { "–" } },
        Some(value) => html! {
            td.{ (class) } style={ "--p:" (shade(value, ends)) "%" } { a href=(link(case)) { ((layer.shown)(value)) } }
        },
    }
}

/// Strength of the colour for a value in percent, as text from `0` for `low` to `100` for `high`.
/// The scale is logarithmic.
fn shade(value: f64, (low, high): (f64, f64)) -> String {
    let place = if high > low && low > 0.0 { (value / low).ln() / (high / low).ln() } else { 0.0 };
    format!("{:.0}", place.clamp(0.0, 1.0) * 100.0)
}

/// The details of every cell, folded.
pub fn drill_downs(run: &Conclusion<'_>) -> Markup {
    let (probes, cells): (Vec<&Case<'_>>, Vec<_>) = run.cells.iter().partition(|case| case.is_probe());
    html! {
        @for case in cells { (drill_down(run, case)) }
        @if !probes.is_empty() {
            details.probes {
                summary { (says(&cases::probes_text(probes.len()))) }
                @for case in probes { (drill_down(run, case)) }
            }
        }
    }
}

fn drill_down(run: &Conclusion<'_>, case: &Case<'_>) -> Markup {
    let steps = [(Text::default(), Timeline::of_cell(run.record, case.judged.cell))];
    let cell = &case.judged.cell.cell;
    let headline = match case.judged.figures() {
        Some(figures) => numbers::rate(figures.tps.mean),
        None => String::new(),
    };
    html! {
        details id={ "cell-" (cell.number) } {
            summary {
                code { (cell.name) } " " (headline)
                @if let Err(reasons) = &case.judged.outcome { (why(case, reasons)) }
                @if cell.interrupted { " " span.bad { (says(&ended_early())) } }
            }
            @match &case.judged.outcome {
                Ok(figures) => (figures_table(figures)),
                Err(_) => {}
            }
            @if let Some(stability) = &case.stability { p { b { "R5 " } (says(&stability.sentence())) } }
            @if let Some(soak) = &case.soak {
                @let is_bad = !soak.broken.is_empty() || soak.undecided.is_some() || !soak.drifts.is_empty();
                p { b { "R10 " } span class=(if is_bad { "bad" } else { "" }) { (says(&soak.sentence())) } }
            }
            @if let Some(what) = steps[0].1.happened() { p { b { (words("What happened: ", "事件：")) } (says(&what)) } }
            @if case.judged.figures().is_some() { (guard_lines(case)) (figures(&steps, Timeline::essentials)) }
            p.from { a href={ "cells/" (cell.name) "/" } { "cells/" (cell.name) "/" } }
        }
    }
}

/// The note on a cell whose only repeat was ended early.
pub(super) fn ended_early() -> Text {
    both!("backlog.ended-early")
}

fn guard_lines(case: &Case<'_>) -> Markup {
    html! {
        table.guards {
            tr { th { (words("guard, in its worst repeat", "护栏（最差的一次重复）")) } th { (words("machine", "主机")) } th { (words("headroom", "余量")) } }
            @for guard in &case.guards {
                tr class=(if guard.is_broken() { "bad" } else { "" }) {
                    td { (says(&guard.sentence())) } td { (guard.node) }
                    td.number {
                        @match guard.headroom() {
                            Some(room) => (numbers::percent(room)),
                            None if guard.is_broken() => "×",
                            None => (words("not measured", "未测量")),
                        }
                    }
                }
            }
        }
    }
}

fn figures_table(figures: &Figures) -> Markup {
    let latency = &figures.latency;
    // One-way sends have no latency.
    let shown = |us: f64| if latency.max_us > 0.0 { numbers::micros(us) } else { "–".to_owned() };
    let [mean, p50, p99, p999, p9999, max] =
        [latency.mean_us, latency.p50_us, latency.p99_us, latency.p999_us, latency.p9999_us, latency.max_us]
            .map(shown);
    html! {
        table {
            tr { th { "TPS" } th { "CI95" } th { (words("consume TPS", "消费 TPS")) } th { "MB/s" } th { (words("mean", "平均")) } th { "p50" } th { "p99" }
                th { "p99.9" } th { "p99.99" } th { (words("max", "最大")) } th { (words("failed / refused", "失败 / 拒绝")) } }
            tr { td { (numbers::count(figures.tps.mean)) }
                td { (numbers::count(figures.tps.low)) " – " (numbers::count(figures.tps.high)) }
                td { (numbers::count(figures.consume_tps)) } td { (numbers::short(figures.payload_bytes / 1e6)) }
                td { (mean) } td { (p50) } td { (p99) } td { (p999) } td { (p9999) } td { (max) }
                td { (numbers::count(figures.failed as f64)) " / " (numbers::count(figures.refused as f64)) } }
        }
    }
}
