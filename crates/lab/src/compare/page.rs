//! The comparison as a page, and as a chapter of a report.

use super::{Comparison, aspect_name, cell_name, figure};
use crate::judge::Text;
use crate::judge::conclusion::Conclusion;
use crate::judge::versus::{Verdict, ratio_text};
use crate::judge::{Language, both};
use crate::pages::chart::{Chart, Scale};
use crate::pages::figure::Figure;
use crate::pages::{environment, says, words};
use maud::{Markup, html};

/// The comparison alone, whose figures are in the file `data` beside the page; `places` lead from the page to the
/// directories of the runs, each empty or ending in a slash.
#[must_use]
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
        ("comparison", words("1 Comparison", "1 对比"), chapter(comparison)),
        ("curve", words("2 Rate and latency", "2 TPS 与时延"), curves(comparison, runs, data)),
        ("environment", words("3 Environment", "3 环境"), machines),
        ("origin", words("4 Origin", "4 来源与复现"), origin),
    ];
    crate::pages::page(&format!("{} · {}", comparison.second, comparison.first), language, &chapters)
}

/// The comparison as a chapter.
#[must_use]
pub fn chapter(comparison: &Comparison) -> Markup {
    let versus = &comparison.versus;
    html! {
        p { (words("B is judged against A. Better or worse only where the 95 % interval excludes no difference and it is more than 2 %.",
            "以 A 为基准评判 B。仅当 95 % 区间排除“无差异”且差异大于 2 % 时判为更优或更差。")) }
        dl.verdict {
            dt { "A" } dd { (comparison.first) }
            dt { "B" } dd { (comparison.second) }
            @for line in comparison.summary() { dt { "·" } dd { (says(&line)) } }
        }
        table {
            tr { th { (words("cell", "用例")) } th { (words("compared", "对比项")) } th { (comparison.first) } th { (comparison.second) }
                th { (words("difference, CI95", "差异，CI95")) } th { (words("B is", "B")) } }
            @for pairing in &versus.pairings {
                tr { td { code { (cell_name(&pairing.factors)) } } td { (says(&aspect_name(pairing))) }
                    td.number { (figure(pairing.aspect, pairing.first)) } td.number { (figure(pairing.aspect, pairing.second)) }
                    td.number { (ratio_text(&pairing.ratio)) } td class=(class(pairing.verdict)) { b { (says(&pairing.verdict.name())) } } }
            }
            @for (factors, why) in &versus.left_out {
                tr { td { code { (cell_name(factors)) } } td.none colspan="5" { (says(why)) } }
            }
        }
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "good",
        Verdict::Equal => "none",
        Verdict::Worse => "bad",
    }
}

fn curves(
    comparison: &Comparison,
    (first, second): (&Conclusion<'_>, &Conclusion<'_>),
    data: &str,
) -> Markup {
    let line = |run: &Conclusion<'_>| {
        let cells = run.main_ladder().map(|ladder| ladder.cells.clone()).unwrap_or_default();
        let figures = cells.into_iter().filter_map(|cell| run.cells[cell].judged.figures());
        figures.map(|figures| (figures.tps.mean, figures.latency.p99_us / 1_000.0)).collect::<Vec<_>>()
    };
    let chart = Chart {
        across: "msg/s",
        up: "p99, ms",
        up_scale: Scale::Log,
        lines: vec![line(first), line(second)],
        dots: true,
        taller: 1.5,
        ..Chart::default()
    };
    let legend = vec![Text::same(&comparison.first), Text::same(&comparison.second)];
    let title = both!("Send p99 against rate, main ladder of each", "TPS 与发送 p99（各自主负载阶梯）");
    let files = [data.to_owned()];
    Figure { title, legend, files: &files, chart }.markup()
}
