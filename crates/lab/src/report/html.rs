//! The HTML page: its frame, and its chapters in reading order. A chapter without content is left out.

use super::timeline::{Timeline, figures};
use super::{answer, backlog, cases, curves, environment, failover, latency, matrix, moment, says, words};
use crate::archive::RunFile;
use crate::judge::balance::Term;
use crate::judge::conclusion::{Case, Conclusion};
use crate::judge::{Language, Text, both, numbers};
use crate::sentences::{Sentence, joined};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Most steps whose trends are shown side by side.
const STEPS_MAX: usize = 8;

/// Chapters that do not come from the run itself: a comparison and a plan.
#[derive(Debug, Default)]
pub struct Additions {
    /// The comparison with another run.
    pub comparison: Option<Markup>,
    /// The plan of a cluster.
    pub plan: Option<Markup>,
}

/// The report of a run as a page. It opens in `language` and can be switched.
pub fn report(run: &Conclusion<'_>, additions: Additions, language: Language) -> String {
    let file = &run.record.file;
    let nothing = || html! {};
    let chapters = [
        ("verdict", words("Answer", "结论"), answer::answer(run)),
        ("backlog", words("Backlog", "堆积"), backlog::backlogs(run).unwrap_or_else(nothing)),
        ("failover", words("Failover", "故障切换"), failover::failovers(run).unwrap_or_else(nothing)),
        ("cases", words("All cases", "全部用例"), html! { (cases::cases(run)) (matrix::left_out(file)) }),
        ("matrix", words("Matrix", "矩阵"), matrix::heat_maps(run)),
        ("factors", words("Factors", "各因素"), html! { (curves::curves(run)) (curves::effects(run)) }),
        ("curve", words("Rate and latency", "TPS 与时延"), latency::curve(run)),
        (
            "latency",
            words("Latency", "时延分布"),
            html! { (latency::percentiles(run)) (latency::over_time(run)) },
        ),
        ("trends", words("Trends", "趋势"), trends(run)),
        ("balance", words("Byte balance", "字节平衡"), balance(run)),
        (
            "comparison",
            words("Comparison and cost", "对比与成本"),
            additions.comparison.unwrap_or_else(nothing),
        ),
        ("plan", words("Plan", "规划"), additions.plan.unwrap_or_else(nothing)),
        ("cells", words("Every cell", "各用例详情"), matrix::drill_downs(run)),
        ("environment", words("Environment", "环境"), environment::environment(file, "")),
        ("origin", words("Origin", "来源与复现"), environment::origin(file, "")),
    ];
    page((&title(file), about(file)), language, &chapters)
}

/// The title of the report of a run: date, scenario and target.
pub(super) fn title(file: &RunFile) -> String {
    let day = (file.started_ms > 0).then(|| numbers::day(file.started_ms));
    let at = format!("{} @ {}", file.target.name, file.target.namesrv);
    let at = at.trim_end_matches(['@', ' ']).to_owned();
    day.into_iter().chain([file.scenario.clone(), at]).collect::<Vec<_>>().join(" · ")
}

/// The line below the title of a run: its directory, when it began, and how long it took.
fn about(file: &RunFile) -> Markup {
    let took = file.ended_ms.map(|ended| ended.saturating_sub(file.started_ms) as f64 / 1_000.0);
    html! {
        p.about {
            code { (file.id) } " · " (moment(file.started_ms)) " · "
            @match took { Some(seconds) => (says(&numbers::span(seconds))), None => span.bad { (words("not finished", "未完成")) } }
        }
    }
}

/// A page of chapters, each given by anchor, title and content, below a title and a line about it. Chapters without
/// content are left out.
pub fn page(
    (title, about): (&str, Markup),
    language: Language,
    chapters: &[(&str, Markup, Markup)],
) -> String {
    let chapters: Vec<_> = chapters.iter().filter(|(_, _, content)| !content.0.is_empty()).collect();
    let (show, lang) = match language {
        Language::En => ("en", "en"),
        Language::Zh => ("zh", "zh-CN"),
    };
    let page = html! {
        (DOCTYPE)
        html lang=(lang) data-show=(show) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Without an icon, the browser asks for a favicon in the page's directory.
                link rel="icon" href="data:,";
                title { (title) }
                meta name="color-scheme" content="light dark";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    button id="switch" type="button" { span.en { "中文" } span.zh { "English" } }
                    (about)
                    nav { @for (anchor, name, _) in &chapters { a href={ "#" (anchor) } { (name) } } }
                }
                main { @for (anchor, name, content) in &chapters { section id=(anchor) { h2 { (name) } (content) } } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// The trends of the steps of the main ladder side by side; in a run without a ladder those of the valid cells. When no
/// cell is valid, those of all cells, because they may show why.
fn trends(run: &Conclusion<'_>) -> Markup {
    let is_valid = |case: &&Case<'_>| case.judged.figures().is_some() && !case.is_probe();
    let of_ladder =
        run.main_ladder().map(|ladder| ladder.cells.iter().map(|cell| &run.cells[*cell]).collect());
    let valid: Vec<&Case<'_>> = of_ladder.unwrap_or_else(|| run.cells.iter().filter(is_valid).collect());
    let all: Vec<&Case<'_>> = if valid.is_empty() { run.cells.iter().collect() } else { valid };
    // The trends of a backlog are in its own chapter.
    let all: Vec<&Case<'_>> = all.into_iter().filter(|case| case.backlog.is_none()).collect();
    let each = all.len().div_ceil(STEPS_MAX).max(1);
    // The last step is the most important one and is always shown.
    let shown = all.iter().rev().step_by(each).rev();
    let steps: Vec<(Text, Timeline<'_>)> = shown.map(|case| step(run, case)).collect();
    if steps.is_empty() {
        return html! {};
    }
    html! {
        p.bands {
            span.band.idle { (words("warm-up and rest", "预热与静置")) } span.band.counts { (words("what is judged", "参与评判")) }
            @if all.len() > steps.len() { (words("Some steps; every other one is under “Every cell”.", "仅显示部分步骤，其余见“各用例详情”。")) }
        }
        (figures(&steps, Timeline::trends))
    }
}

/// A step with its name and, when it is invalid, the reason.
fn step<'a>(run: &Conclusion<'a>, case: &Case<'a>) -> (Text, Timeline<'a>) {
    let cell = &case.judged.cell.cell.name;
    let name = match case.judged.outcome.as_ref().err().and_then(|reasons| joined(reasons)) {
        Some(reasons) => both!("html.cell-invalid", cell, reasons),
        None => Text::same(cell),
    };
    (name, Timeline::of_cell(run.record, case.judged.cell))
}

fn balance(run: &Conclusion<'_>) -> Markup {
    let with: Vec<_> = run.cells.iter().filter(|case| !case.balance.is_empty()).collect();
    // In another cell another machine may be the busiest one, whose disk was not observed.
    let Some(head) = with.iter().map(|case| &case.balance).max_by_key(|terms| terms.len()) else {
        return html! {};
    };
    html! {
        p { (words("Bodies per second that should be there against bytes found; marked where it is off by more than 10 % beyond 512 bytes of overhead per message.",
            "应有的消息体字节与实测字节；超出 10 %（每条消息另计 512 字节开销）时标红。")) }
        div.wide { table {
            tr { th { (words("cell", "用例")) } @for term in head { th { (says(&term.quantity.name())) } } th { (words("data", "数据")) } }
            @for case in &with {
                tr { td { code { (case.judged.cell.cell.name) } }
                    @for term in head { @match case.balance.iter().find(|own| own.quantity == term.quantity) { Some(own) => (balance_term(own)), None => td { "–" } } }
                    td.from { a href={ "cells/" (case.judged.cell.cell.name) "/1/load.csv" } { "load.csv" } } }
            }
        } }
        ul { @for limit in &run.bandwidth_limits { li.bad { (says(&limit.sentence())) } } }
    }
}

fn balance_term(term: &Term) -> Markup {
    html! {
        td class=(if term.off { "bad" } else { "" }) {
            (numbers::bytes(term.expected)) "/s → " (numbers::bytes(term.found)) "/s"
            @if term.expected > 0.0 { small { " (" (format!("{:+.0}", term.beside)) " B/msg)" } }
        }
    }
}
