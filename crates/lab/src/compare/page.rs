//! The comparison as a page, and as a chapter of a report.

use super::{Comparison, aspect_name, cell_name, figure};
use crate::archive::RunFile;
use crate::judge::conclusion::Conclusion;
use crate::judge::stats::Estimate;
use crate::judge::versus::Verdict;
use crate::judge::{Language, Text, both, numbers};
use crate::report::answer::{Tile, row};
use crate::report::chart::{Chart, Line, Scale, WIDE};
use crate::report::figure::Figure;
use crate::report::{environment, moment, says, words};
use crate::sentences::{Sentence, ratio_text, verdict};
use maud::{Markup, html};

/// The page with only the comparison. Its figures are also in the file `data` beside the page. `places` are the
/// relative links from the page to the directories of the runs, each empty or ending in a slash.
pub fn page(
    comparison: &Comparison,
    runs: (&Conclusion<'_>, &Conclusion<'_>),
    (places, data): ((&str, &str), &str),
    language: Language,
) -> String {
    let (first, second) = (&runs.0.record.file, &runs.1.record.file);
    let machines = html! {
        h3 { (comparison.first) } (environment::environment(first, places.0))
        h3 { (comparison.second) } (environment::environment(second, places.1))
    };
    let origin = html! {
        h3 { (comparison.first) } (environment::origin(first, places.0))
        h3 { (comparison.second) } (environment::origin(second, places.1))
    };
    let chapters = [
        ("comparison", words("Comparison", "对比"), chapter(comparison)),
        ("curve", words("Rate and latency", "TPS 与时延"), curves(comparison, runs, data)),
        ("environment", words("Environment", "环境"), machines),
        ("origin", words("Origin", "来源与复现"), origin),
    ];
    let title = format!("{} / {}", comparison.second, comparison.first);
    let day = |file: &RunFile| moment(file.started_ms);
    let about = html! { p.about { "A " code { (first.id) } " " (day(first)) " · B " code { (second.id) } " " (day(second)) } };
    crate::report::page((&title, about), language, &chapters)
}

/// The comparison as a chapter of a report.
pub fn chapter(comparison: &Comparison) -> Markup {
    let versus = &comparison.versus;
    let widest = widest(comparison);
    html! {
        p { (words("B is judged against A by the 95 % interval of the difference. Better or worse: the interval excludes no difference, and it is more than 2 %. Equal: the whole interval is within 5 %. Otherwise it cannot be told.",
            "以 A 为基准，按差异的 95 % 区间评判 B。更优或更差：区间排除“无差异”且差异大于 2 %；相当：整个区间在 5 % 以内；其余为无法判定。")) }
        (row(&tiles(comparison)))
        ul { @for line in comparison.summary() { li { (says(&line)) } } }
        div.wide { table {
            thead { tr { th { (words("cell", "用例")) } th { (words("compared", "对比项")) } th { (comparison.first) } th { (comparison.second) }
                th { (words("difference, CI95", "差异，CI95")) } th { (words("less … equal … more", "更低 … 相当 … 更高")) } th { (words("B is", "B")) } } }
            @for pairing in &versus.pairings {
                tr { td { code { (cell_name(&pairing.factors)) } } td { (says(&aspect_name(pairing))) }
                    td.number { (figure(pairing.aspect, pairing.first)) } td.number { (figure(pairing.aspect, pairing.second)) }
                    td.number { (ratio_text(&pairing.ratio)) } td { (interval(&pairing.ratio, widest, class(pairing.verdict))) } td class=(class(pairing.verdict)) { b { (says(&verdict(pairing))) } } }
            }
            @for (factors, why) in &versus.left_out {
                tr { td { code { (cell_name(factors)) } } td.none colspan="6" { (says(&why.sentence())) } }
            }
        } }
    }
}

/// The tiles at the top: which run has the higher rate, which the lower latency, and in how many cells.
fn tiles(comparison: &Comparison) -> [Tile; 3] {
    let versus = &comparison.versus;
    let ratio =
        |name: Text, ratio: Option<&Estimate>, verdict: fn(&Estimate) -> Verdict, why: Text| match ratio {
            Some(ratio) => {
                let value = format!("× {}", numbers::short(ratio.mean));
                Tile {
                    name,
                    value,
                    unit: "",
                    notes: vec![verdict(ratio).name(), Text::same(ratio_text(ratio))],
                }
            }
            None => Tile { name, value: "–".to_owned(), unit: "", notes: vec![why] },
        };
    let count = |verdict| versus.pairings.iter().filter(|pairing| pairing.verdict == verdict).count();
    let [better, equal, worse, open] =
        [Verdict::Better, Verdict::Equal, Verdict::Worse, Verdict::Undecided].map(count);
    let notes = vec![
        both!("page.better-equal-worse-cannot"),
        both!("page.out-invalid-one-unmatched", out = versus.left_out.len(), unmatched = versus.unmatched),
    ];
    let cells = Tile {
        name: both!("page.cells"),
        value: format!("{better} / {equal} / {worse} / {open}"),
        unit: "",
        notes,
    };
    let capacity = both!("page.no-cells-closed-loop");
    let latency = both!("page.no-open-loop-cells");
    [
        ratio(both!("page.capacity-b"), versus.capacity.as_ref(), Verdict::more_is_better, capacity),
        ratio(both!("page.p99-b-equal-rate"), versus.latency.as_ref(), Verdict::less_is_better, latency),
        cells,
    ]
}

/// The largest factor, up or down, that an interval of the table reaches, but at least 1.25.
fn widest(comparison: &Comparison) -> f64 {
    let ends = comparison.versus.pairings.iter().flat_map(|pairing| [pairing.ratio.low, pairing.ratio.high]);
    ends.filter(|end| *end > 0.0).map(|end| end.max(1.0 / end)).fold(1.25, f64::max)
}

/// Draws a ratio with its interval on a logarithmic scale around 1.
fn interval(ratio: &Estimate, widest: f64, class: &str) -> Markup {
    let x = |value: f64| {
        format!("{:.1}", 80.0 + 74.0 * (value.max(1.0 / widest).ln() / widest.ln()).clamp(-1.0, 1.0))
    };
    html! {
        svg.interval.(class) viewBox="0 0 160 16" width="160" height="16" aria-hidden="true" {
            path.one d="M80 0V16" {}
            path.span d=(format!("M{} 8H{}", x(ratio.low), x(ratio.high))) {}
            circle cx=(x(ratio.mean)) cy="8" r="4" {}
        }
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "good",
        Verdict::Equal | Verdict::Undecided | Verdict::NotComparable => "none",
        Verdict::Worse => "bad",
    }
}

fn curves(
    comparison: &Comparison,
    (first, second): (&Conclusion<'_>, &Conclusion<'_>),
    data: &str,
) -> Markup {
    let line = |run: &Conclusion<'_>, name: &str| {
        let ladder = run.main_ladder();
        let cells = ladder.map(|ladder| ladder.cells.clone()).unwrap_or_default();
        let steps = cells.into_iter().map(|cell| &run.cells[cell]);
        let steps: Vec<_> = steps.filter_map(|case| Some((case.factors(), case.judged.figures()?))).collect();
        let level = |of| Text::same(ladder.map_or_else(String::new, |ladder| ladder.factor.level(of)));
        Line {
            name: Text::same(name),
            points: steps
                .iter()
                .map(|(_, figures)| (figures.tps.mean, figures.latency.p99_us / 1_000.0))
                .collect(),
            labels: steps.iter().map(|(of, _)| level(of)).collect(),
        }
    };
    let chart = Chart {
        across: Text::same("msg/s"),
        up: Text::same("p99, ms"),
        up_scale: Scale::Log,
        lines: vec![line(first, &comparison.first), line(second, &comparison.second)],
        dots: true,
        size: (WIDE.0, 320.0),
        ..Chart::default()
    };
    let title = both!("page.send-p99-against-rate");
    let files = [data.to_owned()];
    Figure::single(title, &files, chart).markup()
}
