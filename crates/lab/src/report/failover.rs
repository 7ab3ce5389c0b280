//! The chapter about failed masters: the gaps of all rounds on one time axis, and a table of the rounds.

use super::answer::Tile;
use super::words::{says, words};
use crate::judge::conclusion::{Case, Conclusion};
use crate::judge::failover::{Failover, Gap, Outage, Spread};
use crate::judge::{Text, both, numbers};
use crate::sentences::Sentence;
use maud::{Markup, html};

/// Width of the timeline, and the part of it that is left of the axis, in pixels.
const WIDTH: f64 = 1_100.0;
const LEFT: f64 = 60.0;

/// Height of a round in the timeline, in pixels.
const ROW: f64 = 14.0;

/// Seconds before the fault with which the timeline begins.
const BEFORE_S: f64 = 1.0;

/// Most rounds in the timeline; of more rounds those with the longest gaps are drawn.
const ROUNDS_MAX: usize = 100;

/// Columns of `rounds.csv`.
const COLUMNS: &str = "cell,fault,round,service gap ms,longest gap ms,median client gap ms,longest client gap ms,refused,unanswered,\
    lost,doubled,out of order,changed,queues with offset back,offset back messages,offset back age ms,whole,moved";

fn cases<'a>(run: &'a Conclusion<'_>) -> impl Iterator<Item = (&'a Case<'a>, &'a Failover)> {
    run.cells.iter().filter_map(|case| Some((case, case.failover.as_ref()?)))
}

/// The chapter about the failed masters of a run; `None` when it has none.
pub fn failovers(run: &Conclusion<'_>) -> Option<Markup> {
    cases(run).next()?;
    Some(html! {
        @for (case, failover) in cases(run) {
            h3 { code { (case.judged.cell.cell.name) } }
            p { (says(&failover.sentence())) }
            (timeline(failover))
            (table(failover, &case.judged.cell.cell.name))
        }
    })
}

/// The big figures of a failover.
pub(super) fn tiles(failover: &Failover) -> [Tile; 3] {
    let gap = |name: Text, spread: &Spread| {
        let Text { en: value, .. } = spread.median.sentence();
        let notes = vec![spread.sentence(), failover.rounds_text()];
        Tile { name, value, unit: "", notes }
    };
    let kept = failover.worst_back().sentence();
    let (doubled, late) = (failover.sum(|round| round.doubled), failover.sum(|round| round.out_of_order));
    let rest = both!("failover.doubled-doubled-late-out", doubled, late);
    [
        gap(both!("failover.service-gap"), &failover.service),
        gap(both!("failover.gap-client"), &failover.client),
        Tile {
            name: both!("failover.acknowledged-messages-lost"),
            value: numbers::count(failover.lost() as f64),
            unit: "",
            notes: vec![rest, kept],
        },
    ]
}

/// A row for each round, with the times in which no client got an acknowledgement.
fn timeline(failover: &Failover) -> Markup {
    let mut rounds: Vec<&Outage> = failover.rounds.iter().collect();
    let hidden = rounds.len().saturating_sub(ROUNDS_MAX);
    if hidden > 0 {
        rounds.sort_by(|one, other| order(other.longest).total_cmp(&order(one.longest)));
        rounds.truncate(ROUNDS_MAX);
        rounds.sort_by_key(|round| round.number);
    }
    let ends = rounds.iter().flat_map(|round| {
        let gaps = round.spans.iter().filter_map(|span| span.to_ms);
        gaps.chain([round.healed_ms]).collect::<Vec<_>>()
    });
    let end_s = ends.fold(1_000.0, f64::max) / 1_000.0 * 1.05;
    let x = |ms: f64| {
        let seconds = (ms / 1_000.0).clamp(-BEFORE_S, end_s);
        LEFT + (seconds + BEFORE_S) / (end_s + BEFORE_S) * (WIDTH - LEFT)
    };
    let (rows, step) = (rounds.len() as f64 * ROW, (end_s / 10.0).ceil().max(1.0));
    let ticks = (0_u32..).map(|number| f64::from(number) * step).take_while(|tick| *tick <= end_s);
    html! {
        figure {
            figcaption {
                b { (words("Without any acknowledgement, by round", "各轮中没有任何确认的时间")) }
                span.from { "cells/*/*/round.json" }
            }
            svg.chart.across viewBox={ "0 0 " (WIDTH) " " (rows + 34.0) } role="img" {
                @for tick in ticks {
                    path.mesh d={ "M" (place(x(tick * 1_000.0))) " 0V" (rows) } {}
                    text.tick x=(place(x(tick * 1_000.0))) y=(rows + 13.0) text-anchor="middle" { (numbers::short(tick)) }
                }
                @for (index, round) in rounds.iter().enumerate() {
                    @let top = index as f64 * ROW;
                    text.tick x=(LEFT - 6.0) y=(top + ROW - 3.0) text-anchor="end" { (round.number) }
                    @for (from, to) in drawn(round.spans.iter().map(|span| (x(span.from_ms), span.to_ms.map_or(WIDTH, &x)))) {
                        rect.heat x=(place(from)) y=(top + 2.0) width=(place((to - from).max(1.0))) height=(ROW - 4.0) {}
                    }
                    path.limit d={ "M" (place(x(round.healed_ms))) " " (top) "v" (ROW) } {}
                }
                path.mark d={ "M" (place(x(0.0))) " 0V" (rows) } {}
                text.name x=(WIDTH) y=(rows + 29.0) text-anchor="end" { (says_plain()) }
            }
            @if hidden > 0 { p.note { (words("Only the rounds with the longest gaps are drawn.", "仅绘制中断最长的轮次。")) } }
        }
    }
}

/// Spans in pixels, in order of their begin; those less than a pixel apart are joined.
fn drawn(spans: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut all: Vec<(f64, f64)> = spans.collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for (from, to) in all {
        match joined.last_mut().filter(|last| from < last.1 + 1.0) {
            Some(last) => last.1 = last.1.max(to),
            None => joined.push((from, to)),
        }
    }
    joined
}

/// The name of the time axis. Inside SVG both languages are `tspan` elements, because SVG text takes no HTML.
fn says_plain() -> Markup {
    html! {
        tspan.en { "seconds after the fault (dashed red); dashed green: the fault ended" }
        tspan.zh { "故障（红色虚线）后的秒数；绿色虚线：故障解除" }
    }
}

fn place(pixels: f64) -> String {
    format!("{pixels:.1}")
}

/// A number by which gaps can be sorted.
fn order(gap: Gap) -> f64 {
    gap.ms().unwrap_or(f64::INFINITY)
}

fn table(failover: &Failover, cell: &str) -> Markup {
    let count = |count: u64| numbers::count(count as f64);
    html! {
        div.wide { table {
            thead { tr {
                th { (words("round", "轮次")) } th { (words("service gap", "服务中断")) } th { (words("longest", "最长")) }
                th { (words("clients: median, longest", "客户端：中位数、最长")) } th.number { (words("refused", "拒绝")) }
                th.number { (words("no answer", "无应答")) } th.number { (words("lost", "丢失")) } th.number { (words("doubled", "重复")) }
                th.number { (words("out of order", "乱序")) } th { (words("committed offsets", "已提交位点")) } th { (words("data", "数据")) }
            } }
            @for round in &failover.rounds {
                tr {
                    td { (round.number) } td { (says(&round.service.sentence())) } td { (says(&round.longest.sentence())) }
                    td { @for (index, gap) in middle(round).into_iter().enumerate() { @if index > 0 { ", " } (says(&gap.sentence())) } }
                    td.number { (count(round.refused)) } td.number { (count(round.failed)) }
                    @let is_bad = round.lost.is_some_and(|lost| lost > 0);
                    td.number.bad[is_bad] { @match round.lost { Some(lost) => { (count(lost)) } None => "?" } }
                    td.number { (count(round.doubled)) } td.number { (count(round.out_of_order)) } td { (says(&round.back.sentence())) }
                    td.from { a href={ "cells/" (cell) "/" (round.number) "/round.json" } { "round.json" } }
                }
            }
        } }
    }
}

/// The median and the longest gap of the clients of a round.
fn middle(round: &Outage) -> Vec<Gap> {
    let median = round.clients.get(round.clients.len().saturating_sub(1) / 2);
    median.into_iter().chain(round.clients.last()).copied().collect()
}

/// The rounds of a run as CSV, in English; `None` when it has none. A gap without an end is empty.
///
/// # Panics
/// Never: writing into memory does not fail.
pub fn csv(run: &Conclusion<'_>) -> Option<String> {
    cases(run).next()?;
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS.split(',')).expect("memory takes all");
    for (case, failover) in cases(run) {
        for round in &failover.rounds {
            writer.write_record(row(case, failover, round)).expect("memory takes all");
        }
    }
    Some(String::from_utf8(writer.into_inner().expect("memory takes all")).expect("made of texts"))
}

fn row(case: &Case<'_>, failover: &Failover, round: &Outage) -> [String; 18] {
    let ms =
        |gap: Option<&Gap>| gap.and_then(|gap| gap.ms()).map(|ms| format!("{ms:.3}")).unwrap_or_default();
    let clients = middle(round);
    [
        case.judged.cell.cell.name.clone(),
        failover.fault.clone(),
        round.number.to_string(),
        ms(Some(&round.service)),
        ms(Some(&round.longest)),
        ms(clients.first()),
        ms(clients.last()),
        round.refused.to_string(),
        round.failed.to_string(),
        round.lost.map(|lost| lost.to_string()).unwrap_or_default(),
        round.doubled.to_string(),
        round.out_of_order.to_string(),
        round.changed.to_string(),
        round.back.queues.to_string(),
        round.back.messages.to_string(),
        round.back.age_ms.to_string(),
        round.is_whole.to_string(),
        round.moved.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_no_pixel_parts_are_one() {
        let spans = [(10.0, 12.0), (20.0, 21.0), (12.5, 15.0), (21.9, 30.0), (31.0, 31.2)];
        assert_eq!(drawn(spans.into_iter()), [(10.0, 15.0), (20.0, 30.0), (31.0, 31.2)]);
    }
}
