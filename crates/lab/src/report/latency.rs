//! Charts of latency: latency against rate, percentiles, and latency over time.

use super::chart::{Chart, Line, Scale, WIDE};
use super::figure::{Figure, sources};
use super::{says, words};
use crate::judge::conclusion::Conclusion;
use crate::judge::figures::{Spread, histogram};
use crate::judge::{Text, both, numbers, omission};
use hdrhistogram::Histogram;
use maud::{Markup, html};

/// Most lines of the percentile plot.
const LINES_MAX: usize = 6;

/// Pattern for the files with the latencies of every repeat.
const HISTOGRAMS: &str = "cells/*/*/latency.hlog";

/// Columns and rows of the chart of latency over time.
const GRID: (usize, usize) = (72, 28);

/// The chart of latency against rate for each step of the main ladder, with the load at each point.
pub fn curve(run: &Conclusion<'_>) -> Markup {
    let Some(ladder) = run.main_ladder() else { return html! {} };
    let steps = || {
        let steps = ladder.cells.iter().map(|cell| &run.cells[*cell]);
        steps.filter_map(|case| Some((ladder.factor.level(case.factors()), case.judged.figures()?)))
    };
    let line = |name: &str, value: fn(&Spread) -> f64| Line {
        name: Text::same(name),
        points: steps().map(|(_, figures)| (figures.tps.mean, value(&figures.latency) / 1_000.0)).collect(),
        labels: steps().map(|(level, _)| Text::same(level)).collect(),
    };
    let chart = Chart {
        across: Text::same("msg/s"),
        up: Text::same("ms"),
        up_scale: Scale::Log,
        lines: vec![
            line("p50", |spread| spread.p50_us),
            line("p99", |spread| spread.p99_us),
            line("p99.9", |spread| spread.p999_us),
        ],
        dots: true,
        size: (WIDE.0, 300.0),
        ..Chart::default()
    };
    let title = both!("latency.send-latency-against-rate", name = ladder.factor.name());
    Figure::single(title, &[HISTOGRAMS.to_owned()], chart).markup()
}

/// The chart of percentiles for the steps of the main ladder.
pub fn percentiles(run: &Conclusion<'_>) -> Markup {
    let all: Vec<usize> =
        run.main_ladder().map_or_else(|| run.top.into_iter().collect(), |ladder| ladder.cells.clone());
    // The last steps are shown, because the highest loads matter most.
    let shown: Vec<usize> = all.into_iter().rev().take(LINES_MAX).rev().collect();
    let line = |cell: &usize| {
        let judged = &run.cells[*cell].judged;
        let points = histogram(&judged.windows).map(|all| quantiles(&all)).unwrap_or_default();
        Line { name: Text::same(&judged.cell.cell.name), points, labels: Vec::new() }
    };
    let chart = Chart {
        across: Text::same("%"),
        up: Text::same("ms"),
        across_scale: Scale::Nines,
        up_scale: Scale::Log,
        lines: shown.iter().map(line).collect(),
        size: (WIDE.0, 300.0),
        ..Chart::default()
    };
    let title = both!("latency.send-latency-percentile-all");
    let closed = omission(run);
    html! {
        (Figure::single(title, &[HISTOGRAMS.to_owned()], chart).markup())
        @if !closed.is_empty() { p { (says(&omission_says())) } ul { @for cell in &closed { li { (says(cell)) } } } }
    }
}

/// The effect of coordinated omission: for every closed loop its high percentiles as measured, and as they would have
/// been if it had gone on sending while it waited.
pub fn omission(run: &Conclusion<'_>) -> Vec<Text> {
    let cells = run.cells.iter().filter_map(|case| {
        let figures = case.judged.figures()?;
        let all = omission::without_omission(&case.judged.windows)?;
        let [p99, p999] = [0.99, 0.999].map(|share| all.value_at_quantile(share));
        let (seen, seen_999) = (figures.latency.p99_us, figures.latency.p999_us);
        let name = &case.judged.cell.cell.name;
        Some(both!("latency.name-p99-seen-corrected", name, seen, p99, seen_999, p999))
    });
    cells.collect()
}

/// The introduction to the list that [`omission`] returns.
pub fn omission_says() -> Text {
    both!("latency.closed-loop-sends-nothing")
}

fn quantiles(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let known = 1.0 - 1.0 / histogram.len() as f64;
    let places =
        (0..=60).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 10.0)).filter(|share| *share <= known);
    places.map(|share| (share, histogram.value_at_quantile(share) as f64 / 1_000.0)).collect()
}

/// The distribution of latency over time, in the cell with the highest rate.
pub fn over_time(run: &Conclusion<'_>) -> Markup {
    let Some(case) = run.top.map(|top| &run.cells[top]) else { return html! {} };
    let Some(window) = case.judged.windows.first().filter(|window| !window.latency.is_empty()) else {
        return html! {};
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
                b { (words("Send latency over time at the highest rate (repeat 1): the stronger the colour, the more requests",
                    "最高 TPS 用例的时延热力图（第 1 次重复）：颜色越浓请求越多")) }
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
        svg.chart.across viewBox={ "0 0 1000 " (bottom + 40.0) } role="img" xmlns="http://www.w3.org/2000/svg" {
            @for (x, y, strength) in squares {
                rect.heat x={ (format!("{x:.1}")) } y={ (format!("{y:.1}")) } width={ (format!("{wide:.1}")) } height=(tall) fill-opacity=(strength) {}
            }
            @for row in (0..=GRID.1).step_by(7) {
                text.tick x="72" y={ (bottom - row as f64 * tall + 4.0) } text-anchor="end" { (numbers::micros(bound(row))) }
            }
            @for (share, time) in times {
                text.tick x={ (78.0 + share * 900.0) } y={ (bottom + 16.0) } text-anchor="middle" { (numbers::short(time)) }
            }
            text.name x="528" y={ (bottom + 34.0) } text-anchor="middle" { "t, s" }
        }
    }
}
