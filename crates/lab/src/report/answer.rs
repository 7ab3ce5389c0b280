//! The top of the page: the answer in three big figures, its limit, and the curve from which it was read.

use super::chart::{Chart, Line, Mark, Scale};
use super::figure::Figure;
use super::timeline::{Timeline, figures};
use super::{failover, says, verdict, words};
use crate::judge::backlog::Backlog;
use crate::judge::ceiling::Ceiling;
use crate::judge::conclusion::{Case, Conclusion, Ladder, SUSTAINED_SECONDS};
use crate::judge::figures::Figures;
use crate::judge::soak::Soak;
use crate::judge::stats::Estimate;
use crate::judge::{Text, both, numbers};
use crate::sentences::{Sentence, phase_name};
use maud::{Markup, html};

/// Share of a ceiling from which on a step has reached the ceiling; the first such step is the knee of the curve.
const REACHED: f64 = 0.9;

/// Width and height in pixels of the charts at the top, two in a row.
const HALF: (f64, f64) = (545.0, 270.0);

/// A big figure with its name.
pub(crate) struct Tile {
    pub name: Text,
    pub value: String,
    pub unit: &'static str,
    /// Notes about the figure.
    pub notes: Vec<Text>,
}

/// The first chapter of the page.
pub fn answer(run: &Conclusion<'_>) -> Markup {
    let alone = run.main_ladder().is_none();
    let backlog = run.cells.iter().find_map(|case| case.backlog.as_ref()).filter(|_| alone);
    let failover = run.cells.iter().find_map(|case| case.failover.as_ref());
    let is_soak = run.cells.iter().all(|case| case.factors().is_soak());
    let soak = run.cells.iter().find_map(|case| case.soak.as_ref()).filter(|_| is_soak);
    let tiles = match (failover, backlog, soak) {
        (Some(failover), ..) => failover::tiles(failover),
        (None, Some(backlog), _) => backlog_tiles(backlog),
        (None, None, Some(soak)) => soak_tiles(run, soak),
        (None, None, None) => tiles(run),
    };
    html! {
        (row(&tiles))
        dl.verdict { @for (name, text) in verdict::limits(run) { dt { (says(&name)) } dd { (says(&text)) } } }
        @match run.main_ladder() {
            Some(ladder) => { (curve(run, ladder)) }
            None => { (over_time(run)) }
        }
        dl.verdict.rest { @for (name, text) in verdict::rest(run) { dt { (says(&name)) } dd { (says(&text)) } } }
        (uses(run))
    }
}

/// A row of big figures.
pub(crate) fn row(tiles: &[Tile]) -> Markup {
    html! { div.tiles { @for tile in tiles { (tile.markup()) } } }
}

impl Tile {
    fn markup(&self) -> Markup {
        html! {
            div.tile {
                p.name { (says(&self.name)) }
                p.value { (self.value) @if !self.unit.is_empty() { " " small { (self.unit) } } }
                @for note in &self.notes { p.note { (says(note)) } }
            }
        }
    }
}

fn tiles(run: &Conclusion<'_>) -> [Tile; 3] {
    let top = run.top.map(|top| &run.cells[top]);
    [safe(run), highest(run, top), latency(run, top)]
}

/// The interval of a rate.
fn interval(tps: &Estimate) -> Text {
    both!("answer.ci95-low-high", low = tps.low, high = tps.high)
}

/// A tile without a figure, with the reason.
fn none(name: Text, why: Text) -> Tile {
    Tile { name, value: "–".to_owned(), unit: "", notes: vec![why] }
}

fn safe(run: &Conclusion<'_>) -> Tile {
    let name = both!("answer.highest-safe-rate-2");
    let above = run.above.as_ref().map(Sentence::sentence);
    let Some(safe) = &run.safe else {
        let why = || both!("answer.no-valid-cell-kept");
        return none(name, above.unwrap_or_else(why));
    };
    let mut notes = vec![interval(&safe.tps), cell_note(&run.cells[safe.cell])];
    if safe.seconds < SUSTAINED_SECONDS {
        notes.push(both!("answer.held-seconds-s-only", seconds = safe.seconds, needed = SUSTAINED_SECONDS));
    }
    notes.extend(above);
    Tile { name, value: numbers::count(safe.tps.mean), unit: "msg/s", notes }
}

fn highest(run: &Conclusion<'_>, top: Option<&Case<'_>>) -> Tile {
    let name = both!("answer.highest-measured-rate");
    let Some((case, figures)) = top.and_then(|case| Some((case, case.judged.figures()?))) else {
        return none(name, both!("answer.no-cell-valid"));
    };
    let mut notes = vec![interval(&figures.tps), cell_note(case)];
    let is_safe = run.safe.as_ref().is_some_and(|safe| Some(safe.cell) == run.top);
    let is_kept = run.above.as_ref().is_some_and(|above| Some(above.cell) == run.top);
    notes.push(if is_safe {
        both!("answer.every-guard-held")
    } else if is_kept {
        both!("answer.every-guard-held-but")
    } else {
        both!("answer.not-safe-rate")
    });
    Tile { name, value: numbers::count(figures.tps.mean), unit: "msg/s", notes }
}

fn latency(run: &Conclusion<'_>, top: Option<&Case<'_>>) -> Tile {
    let name = both!("answer.send-p99-highest-rate");
    let Some(figures) = top.and_then(|case| case.judged.figures()) else {
        return none(name, both!("answer.no-cell-valid"));
    };
    let spread = &figures.latency;
    if spread.max_us <= 0.0 {
        return none(name, both!("answer.what-sent-one-way"));
    }
    let text = numbers::micros(spread.p99_us);
    let (value, unit) = parted(&text);
    let mut notes = vec![both!("answer.p50-p50-p99-9", p50 = spread.p50_us, p999 = spread.p999_us)];
    let safe = run.safe.as_ref().filter(|safe| Some(safe.cell) != run.top);
    if let Some(figures) = safe.and_then(|safe| run.cells[safe.cell].judged.figures()) {
        notes.push(both!("answer.p99-safe-rate-p99", p99 = figures.latency.p99_us));
    }
    Tile { name, value: value.to_owned(), unit, notes }
}

/// Splits a time into its number and its unit.
fn parted(text: &str) -> (&str, &'static str) {
    let (value, unit) = text.split_once(' ').unwrap_or((text, ""));
    (value, ["µs", "ms", "s"].into_iter().find(|known| *known == unit).unwrap_or(""))
}

fn cell_note(case: &Case<'_>) -> Text {
    both!("answer.cell-name", name = &case.judged.cell.cell.name)
}

/// The tiles of a backlog: its cost for producers, and the rate of its drain.
fn backlog_tiles(backlog: &Backlog) -> [Tile; 3] {
    let before = backlog.stages.iter().find(|stage| stage.name == "before");
    let rate = before.map(|stage| &stage.send_tps).filter(|tps| tps.mean > 0.0);
    let worst = backlog.stages.iter().filter_map(|stage| Some((stage, stage.producers.as_ref()?)));
    let worst = worst.min_by(|one, other| one.1.mean.total_cmp(&other.1.mean));
    let name = both!("answer.send-rate-before-backlog");
    let before = match rate {
        Some(tps) => {
            Tile { name, value: numbers::count(tps.mean), unit: "msg/s", notes: vec![interval(tps)] }
        }
        None => none(name, both!("answer.nothing-sent-before")),
    };
    let name = both!("answer.largest-change-producers");
    let cost = match worst {
        Some((stage, ratio)) => {
            let [value, low, high] = ratio.changes();
            let mut notes = vec![both!("answer.phase-low-high", phase = phase_name(&stage.name), low, high)];
            if ratio.low <= 1.0 && ratio.high >= 1.0 {
                notes.push(both!("answer.not-certain-interval-holds"));
            }
            Tile { name, value, unit: "", notes }
        }
        None => none(name, both!("answer.nothing-produced-meanwhile")),
    };
    let name = both!("answer.read-while-draining");
    let seconds = backlog.drain.seconds;
    let ended = match backlog.drain.met {
        Some(false) => both!("answer.not-drained-after-seconds", seconds),
        _ => both!("answer.drained-seconds-s", seconds),
    };
    let cold = backlog.drain.cold_ratio.map(|ratio| ratio.min(1.0));
    let cold = cold.map(|share| both!("answer.share-read-from-disk", share));
    let notes = [Some(ended), cold].into_iter().flatten().collect();
    [before, cost, Tile { name, value: numbers::count(backlog.drain.tps), unit: "msg/s", notes }]
}

/// The tiles of a soak: the fate of its messages, the time of observation, and its rate.
fn soak_tiles(run: &Conclusion<'_>, soak: &Soak) -> [Tile; 3] {
    let faults: u64 = soak.broken.iter().map(|fault| fault.count).sum();
    let value = if soak.undecided.is_some() { "?".to_owned() } else { numbers::count(faults as f64) };
    let found =
        soak.broken.iter().map(Sentence::sentence).chain(soak.undecided.iter().map(Sentence::sentence));
    let notes = match found.collect::<Vec<_>>() {
        none if none.is_empty() => {
            vec![both!("answer.lost-doubled-changed-or")]
        }
        found => found,
    };
    let messages = Tile { name: both!("answer.faults-messages"), value, unit: "", notes };
    let [done, planned] = [Some(soak.hours), soak.planned_hours]
        .map(|hours| numbers::span(hours.unwrap_or_default() * 3_600.0));
    let mut notes = vec![both!("answer.planned", planned)];
    notes.extend(soak.interrupted.then(|| both!("answer.interrupted")));
    let watched = Tile { name: both!("answer.watched"), value: done.en, unit: "", notes };
    let top = run.top.map(|top| &run.cells[top]);
    [messages, watched, highest(run, top)]
}

/// The first step of a ladder from which on more load gives almost no more; `None` when its ceiling is unknown.
fn knee(run: &Conclusion<'_>, ladder: &Ladder) -> Option<usize> {
    let Ceiling::Found { tps, .. } = &ladder.ceiling else { return None };
    let rate = |cell: &usize| run.cells[*cell].judged.figures().map_or(0.0, |figures| figures.tps.mean);
    ladder.cells.iter().copied().find(|cell| rate(cell) >= tps * REACHED)
}

/// The chart of rate and latency over the load of the main ladder, with the knee, the ceiling and the safe rate.
fn curve(run: &Conclusion<'_>, ladder: &Ladder) -> Markup {
    let points = |value: fn(&Figures) -> f64, shown: fn(f64) -> String| {
        let steps = ladder.cells.iter().filter_map(|cell| {
            let case = &run.cells[*cell];
            Some((ladder.factor.number(case.factors())?, value(case.judged.figures()?)))
        });
        let points: Vec<(f64, f64)> = steps.collect();
        let labels = points.iter().map(|(_, y)| Text::same(shown(*y))).collect();
        (points, labels)
    };
    let line = |name: Text, (points, labels)| Line { name, points, labels };
    let knee = knee(run, ladder).and_then(|cell| ladder.factor.number(run.cells[cell].factors()));
    let marks: Vec<Mark> = knee.into_iter().map(|at| Mark { at, name: knee_name(at) }).collect();
    let mut limits = Vec::new();
    if let Ceiling::Found { tps, .. } = &ladder.ceiling {
        limits.push(Mark { at: *tps, name: both!("answer.ceiling-rate", rate = tps) });
    }
    // The rate of cells with another message size does not belong on this axis.
    if let Some(safe) = run.safe.as_ref().filter(|safe| verdict::sends_the_same(run, ladder, safe.cell)) {
        let at = safe.tps.mean;
        limits.push(Mark { at, name: both!("answer.highest-safe-rate", rate = at) });
    }
    let across = ladder.factor.name();
    let name = across.clone();
    let level = |cell: &usize| {
        let of = run.cells[*cell].factors();
        Some((ladder.factor.number(of)?, ladder.factor.level(of)))
    };
    let levels = ladder.cells.iter().filter_map(level).collect();
    let base = Chart { across, dots: true, levels, marks, size: HALF, ..Chart::default() };
    let rate = Chart {
        up: Text::same("msg/s"),
        lines: vec![line(both!("answer.rate"), points(|figures| figures.tps.mean, numbers::count))],
        limits,
        ..base.clone()
    };
    let of = |name: &str, value: fn(&Figures) -> f64| line(Text::same(name), points(value, numbers::short));
    let p50 = of("p50, ms", |figures| figures.latency.p50_us / 1_000.0);
    let p99 = of("p99, ms", |figures| figures.latency.p99_us / 1_000.0);
    let latency = Chart { up: Text::same("ms"), up_scale: Scale::Log, lines: vec![p99, p50], ..base };
    let files = ["cells/*/*/load.csv".to_owned()];
    html! {
        div.halves {
            (Figure::single(both!("answer.rate-over", name), &files, rate).markup())
            (Figure::single(both!("answer.send-latency-over", name), &files, latency).markup())
        }
        @if let Some(at) = knee {
            p.note { (says(&knee_says(at))) }
        }
    }
}

fn knee_name(at: f64) -> Text {
    both!("answer.knee-load", load = at)
}

fn knee_says(at: f64) -> Text {
    both!("answer.knee-load-lowest-load", load = at, share = REACHED)
}

/// The chart of a run without a ladder: the rate over time of the cell that the answer is about.
fn over_time(run: &Conclusion<'_>) -> Markup {
    let case =
        run.top.map(|top| &run.cells[top]).or_else(|| run.cells.iter().find(|case| case.backlog.is_some()));
    let Some(case) = case.filter(|case| case.backlog.is_none()) else { return html! {} };
    let steps = [(Text::default(), Timeline::of_cell(run.record, case.judged.cell))];
    figures(&steps, |step| step.essentials().into_iter().take(2).collect())
}

/// Bars of the use of each resource.
fn uses(run: &Conclusion<'_>) -> Markup {
    let Some(limit) = run.bottleneck.as_ref().filter(|_| verdict::is_about_rates(run)) else {
        return html! {};
    };
    let cell = run.limited.map(|cell| run.cells[cell].judged.cell.cell.name.as_str()).unwrap_or_default();
    html! {
        div.wide { table.uses {
            caption { (words("How full each resource was in cell", "各资源使用程度，用例")) " " code { (cell) } }
            thead { tr { th { (words("resource", "资源")) } th { (words("machine", "主机")) } th {} th.number { (words("of its limit", "占上限")) } th { (words("figure", "数据")) } } }
            @for used in limit.ranked.iter().take(10) {
                tr { td { (says(&used.resource.name())) } td { (used.node) }
                    td { div.bar { i style={ "width:" (format!("{:.0}", used.used.clamp(0.0, 1.0) * 100.0)) "%" } {} } }
                    td.number { (numbers::percent(used.used)) } td { (says(&used.reading.sentence())) } }
            }
        } }
    }
}
