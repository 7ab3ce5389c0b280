//! Chapters 4 and 6: rate against latency, percentiles, and latency over time.

use super::chart::{Chart, Scale};
use super::figure::{Figure, sources};
use super::words::{says, words};
use crate::judge::conclusion::{Conclusion, Ladder};
use crate::judge::figures::histogram;
use crate::judge::{Text, both, numbers, omission};
use hdrhistogram::Histogram;
use maud::{Markup, html};

/// Lines of the percentile plot.
const LINES_MAX: usize = 6;

/// Columns and rows of latency over time.
const GRID: (usize, usize) = (72, 28);

/// Chapter 4: what each step of the main ladder reached.
#[must_use]
pub fn curve(run: &Conclusion<'_>) -> Markup {
    let Some(ladder) = run.main_ladder() else {
        return html! { p.none { (words("no cells that differ in their load alone", "没有仅负载不同的用例")) } };
    };
    let line = |value: fn(&crate::judge::figures::Spread) -> f64| {
        let steps = ladder.cells.iter().filter_map(|cell| run.cells[*cell].judged.figures());
        steps.map(|figures| (figures.tps.mean, value(&figures.latency) / 1_000.0)).collect::<Vec<_>>()
    };
    let chart = Chart {
        across: "msg/s",
        up: "ms",
        up_scale: Scale::Log,
        lines: vec![
            line(|spread| spread.p50_us),
            line(|spread| spread.p99_us),
            line(|spread| spread.p999_us),
        ],
        dots: true,
        taller: 1.5,
        ..Chart::default()
    };
    let steps: Vec<String> =
        ladder.cells.iter().map(|cell| ladder.factor.level(run.cells[*cell].factors())).collect();
    let (steps, name) = (steps.join(", "), ladder.factor.name());
    let (en, zh) = (name.en, name.zh);
    let title = both!("Latency against rate; {en} {steps}", "TPS 与时延；{zh} {steps}");
    let legend = ["p50", "p99", "p99.9"].map(Text::same).to_vec();
    Figure { title, legend, files: &files(run, ladder), chart }.markup()
}

fn files(run: &Conclusion<'_>, ladder: &Ladder) -> Vec<String> {
    let names = ladder.cells.iter().take(LINES_MAX).map(|cell| &run.cells[*cell].judged.cell.cell.name);
    names.map(|name| format!("cells/{name}/1/latency.hlog")).collect()
}

/// Chapter 6: percentiles of the main ladder's steps.
#[must_use]
pub fn percentiles(run: &Conclusion<'_>) -> Markup {
    let all: Vec<usize> =
        run.main_ladder().map_or_else(|| run.top.into_iter().collect(), |ladder| ladder.cells.clone());
    // The last steps: the load that matters.
    let shown: Vec<usize> = all.into_iter().rev().take(LINES_MAX).rev().collect();
    let line = |cell: &usize| {
        let all = histogram(&run.cells[*cell].judged.windows);
        all.map(|all| quantiles(&all)).unwrap_or_default()
    };
    let names = shown.iter().map(|cell| &run.cells[*cell].judged.cell.cell.name);
    let files: Vec<String> = names.clone().map(|name| format!("cells/{name}/1/latency.hlog")).collect();
    let chart = Chart {
        across: "%",
        up: "ms",
        across_scale: Scale::Nines,
        up_scale: Scale::Log,
        lines: shown.iter().map(line).collect(),
        taller: 1.5,
        ..Chart::default()
    };
    let legend = names.map(Text::same).collect();
    let title = both!("Send latency by percentile, all repeats", "发送时延百分位分布（全部重复）");
    let closed = omission(run);
    html! {
        (Figure { title, legend, files: &files, chart }.markup())
        @if !closed.is_empty() { p { (says(&omission_says())) } ul { @for cell in &closed { li { (says(cell)) } } } }
    }
}

/// What closed loops hide: for every one its high percentiles as measured, and had it gone on sending while it waited.
#[must_use]
pub fn omission(run: &Conclusion<'_>) -> Vec<Text> {
    let cells = run.cells.iter().filter_map(|case| {
        let figures = case.judged.figures()?;
        let all = omission::without_omission(&case.judged.windows)?;
        let [p99, p999] = [0.99, 0.999].map(|share| numbers::micros(all.value_at_quantile(share) as f64));
        let [seen, seen_999] = [figures.latency.p99_us, figures.latency.p999_us].map(numbers::micros);
        let name = &case.judged.cell.cell.name;
        Some(both!(
            "{name}: p99 {seen}, corrected {p99}; p99.9 {seen_999}, corrected {p999}",
            "{name}：p99 {seen}，修正后 {p99}；p99.9 {seen_999}，修正后 {p999}"
        ))
    });
    cells.collect()
}

/// What [`omission`] lists.
#[must_use]
pub fn omission_says() -> Text {
    both!(
        "A closed loop sends nothing while a server pauses, so its percentiles leave out what would have waited. \
         Corrected for that:",
        "闭环压测在服务端停顿时不再发送，其百分位数遗漏了本应等待的请求。修正后："
    )
}

fn quantiles(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let known = 1.0 - 1.0 / histogram.len() as f64;
    let places =
        (0..=60).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 10.0)).filter(|share| *share <= known);
    places.map(|share| (share, histogram.value_at_quantile(share) as f64 / 1_000.0)).collect()
}

/// Chapter 6: how latency was distributed over time, at the highest rate.
#[must_use]
pub fn over_time(run: &Conclusion<'_>) -> Markup {
    let Some(case) = run.top.map(|top| &run.cells[top]) else { return html! {} };
    let Some(window) = case.judged.windows.first().filter(|window| !window.latency.is_empty()) else {
        return html! { p.none { (words("no histograms in this run", "本次没有直方图")) } };
    };
    let each = window.latency.len().div_ceil(GRID.0);
    let columns: Vec<Histogram<u64>> = window
        .latency
        .chunks(each)
        .map(|chunk| {
            let mut sum = Histogram::new(3).expect("three digits are valid");
            chunk.iter().for_each(|(_, second)| second.add_to(&mut sum));
            sum
        })
        .collect();
    let low = columns.iter().map(|column| column.min().max(1)).min().unwrap_or(1) as f64;
    let high = columns.iter().map(Histogram::max).max().unwrap_or(1).max(10) as f64;
    let file = vec![format!("cells/{}/1/latency.hlog", case.judged.cell.cell.name)];
    html! {
        figure {
            figcaption {
                b { (words("Send latency over time at the highest rate (repeat 1): darker is more requests",
                    "最高 TPS 用例的时延热力图（第 1 次重复）：颜色越深请求越多")) }
                (sources(&file))
            }
            (grid(&columns, (low, high), window.latency.len() as f64 / columns.len() as f64))
        }
    }
}

fn grid(columns: &[Histogram<u64>], (low, high): (f64, f64), seconds: f64) -> Markup {
    let (wide, tall) = (900.0 / columns.len() as f64, 8.0);
    let bound = |row: usize| low * (high / low).powf(row as f64 / GRID.1 as f64);
    let bottom = tall * GRID.1 as f64 + 6.0;
    let squares = columns.iter().enumerate().flat_map(|(x, column)| {
        let most = column.len().max(1) as f64;
        (0..GRID.1).filter_map(move |row| {
            let count = column.count_between(
                bound(row) as u64,
                (bound(row + 1) as u64).saturating_sub(1).max(bound(row) as u64),
            );
            let strength = (1.0 + count as f64).log10() / (1.0 + most).log10();
            (count > 0).then(|| {
                (78.0 + x as f64 * wide, bottom - (row + 1) as f64 * tall, (strength * 100.0).round() / 100.0)
            })
        })
    });
    let times = (0..=6).map(|tick| (tick as f64 / 6.0, tick as f64 / 6.0 * columns.len() as f64 * seconds));
    html! {
        svg viewBox={ "0 0 1000 " (bottom + 40.0) } xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="13" {
            @for (x, y, strength) in squares {
                rect x={ (format!("{x:.1}")) } y={ (format!("{y:.1}")) } width={ (format!("{wide:.1}")) } height=(tall) fill="#08519c" fill-opacity=(strength) {}
            }
            @for row in (0..=GRID.1).step_by(7) {
                text x="72" y={ (bottom - row as f64 * tall + 4.0) } text-anchor="end" { (numbers::micros(bound(row))) }
            }
            @for (share, time) in times {
                text x={ (78.0 + share * 900.0) } y={ (bottom + 16.0) } text-anchor="middle" { (numbers::short(time)) }
            }
            text x="528" y={ (bottom + 34.0) } text-anchor="middle" { "t, s" }
        }
    }
}
