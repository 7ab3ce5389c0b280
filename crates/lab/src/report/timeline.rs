//! The measurements of a step over time: its repeats in order on one time axis, with phases as bands and events as
//! marks.

mod marks;
mod trends;

use self::marks::{is_routine, marks};
pub use self::trends::Trend;
use super::chart::{Band, Chart, Line, Mark, WIDE, average, largest, thinned};
use super::figure::{Figure, columns};
use crate::archive::{BrokerSecond, HostSecond, LoadSecond, Record, RecordedCell, Repeat};
use crate::judge::figures::broker_host_names;
use crate::judge::{Text, both};
use crate::sentences::phase_name;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Steps shorter than this are shown in seconds; milliseconds.
const SHORT_MS: u64 = 180_000;

/// Least length of an interval whose rate is drawn; milliseconds. A clock that is late by a tenth is no fault.
const WHOLE_MS: u64 = 900;

/// A repeat on the time axis.
struct Part<'a> {
    repeat: &'a Repeat,
    /// Begin of the repeat, milliseconds since 1970.
    start_ms: u64,
    /// Milliseconds of the axis before the repeat.
    before_ms: u64,
    /// Length of the repeat in milliseconds.
    long_ms: u64,
    /// End of the last stage, milliseconds since 1970. Rows after it hold answers that came when nothing was sent.
    end_ms: u64,
}

impl Part<'_> {
    /// The rows of load within the stages.
    fn load(&self) -> impl Iterator<Item = &LoadSecond> {
        self.repeat.load.iter().filter(|row| row.at_ms <= self.end_ms)
    }
}

/// Whether an interval is a whole second. Earlier versions of the lab kept no lengths.
fn is_whole(row: &LoadSecond) -> bool {
    row.lasted_ms == 0 || row.lasted_ms >= WHOLE_MS
}

/// A step of a run on a time axis.
pub struct Timeline<'a> {
    record: &'a Record,
    parts: Vec<Part<'a>>,
    /// Milliseconds of the unit of the axis, and the name of the unit.
    unit: (f64, &'static str),
    range: (f64, f64),
    bands: Vec<Band>,
    marks: Vec<Mark>,
    /// Number of events by kind.
    happened: BTreeMap<String, usize>,
    files: Vec<String>,
    /// Names of the machines with brokers, and of the brokers, of the whole run.
    hosts: Vec<String>,
    brokers: Vec<String>,
}

impl<'a> Timeline<'a> {
    /// The timeline of the repeats of a cell.
    pub fn of_cell(record: &'a Record, cell: &'a RecordedCell) -> Self {
        let mut parts: Vec<Part<'a>> = Vec::new();
        let repeats = (1..).zip(&cell.repeats).filter(|(_, repeat)| !repeat.load.is_empty());
        for (number, repeat) in repeats {
            let phases = cell.cell.phases.iter().filter(|phase| phase.repeat == number);
            let end_ms = phases.map(|phase| phase.to_ms).max().unwrap_or(u64::MAX);
            let moments = || repeat.load.iter().map(|second| second.at_ms).filter(|at_ms| *at_ms <= end_ms);
            let start_ms = moments().min().unwrap_or(0).saturating_sub(1_000);
            let long_ms = moments().max().unwrap_or(0).saturating_sub(start_ms);
            let before_ms = parts.last().map_or(0, |part| part.before_ms + part.long_ms);
            parts.push(Part { repeat, start_ms, before_ms, long_ms, end_ms });
        }
        let whole = parts.last().map_or(0, |part| part.before_ms + part.long_ms);
        let unit = if whole < SHORT_MS { (1_000.0, "t, s") } else { (60_000.0, "t, min") };
        let hosts: Vec<String> = broker_host_names(&record.file).into_iter().map(str::to_owned).collect();
        let repeats = record.cells.iter().flat_map(|cell| &cell.repeats);
        let mut brokers: Vec<String> = repeats.flat_map(|repeat| repeat.brokers.keys().cloned()).collect();
        brokers.sort();
        brokers.dedup();
        let name = &cell.cell.name;
        let mut files = vec![format!("cells/{name}/1/load.csv")];
        files.extend(hosts.iter().map(|host| format!("cells/{name}/1/host-{host}.csv")));
        let range = (0.0, whole as f64 / unit.0);
        let (bands, marks, happened) = <_>::default();
        let mut line = Self { record, parts, unit, range, bands, marks, happened, files, hosts, brokers };
        line.bands = line.phases(cell);
        line.mark_events();
        line
    }

    fn phases(&self, cell: &RecordedCell) -> Vec<Band> {
        let mut bands = Vec::new();
        for (number, part) in (1_u32..).zip(&self.parts) {
            for phase in cell.cell.phases.iter().filter(|phase| phase.repeat == number) {
                let [from, to] = [phase.from_ms, phase.to_ms].map(|at_ms| self.time(part, at_ms));
                let class = match phase.name.as_str() {
                    "steady" | "before" | "after" => "counts",
                    "during" => "filling",
                    "drain" => "draining",
                    _ => "idle",
                };
                let name = phase_name(&phase.name);
                let name = if self.parts.len() > 1 { both!("timeline.number", name, number) } else { name };
                bands.push(Band { from, to, class, name });
            }
        }
        bands
    }

    fn mark_events(&mut self) {
        let mut events = Vec::new();
        for part in &self.parts {
            for event in part.repeat.events.iter().filter(|event| !is_routine(&event.kind)) {
                let name = Text::named("cause", &event.kind);
                events.push(Mark { at: self.time(part, event.at_ms), name });
                *self.happened.entry(event.kind.clone()).or_default() += 1;
            }
        }
        self.marks = marks(events, self.range.1);
    }

    /// The kinds of events with their numbers; `None` when there were none.
    pub fn happened(&self) -> Option<Text> {
        let parts: Vec<Text> = self
            .happened
            .iter()
            .map(|(kind, times)| both!("timeline.times", text = Text::named("cause", kind), times))
            .collect();
        Text::joined(&parts)
    }

    fn time(&self, part: &Part<'_>, at_ms: u64) -> f64 {
        let own = at_ms.saturating_sub(part.start_ms).min(part.long_ms);
        (part.before_ms + own) as f64 / self.unit.0
    }

    /// A figure of every row of load within the stages, rows shorter than a second included.
    fn load(&self, value: impl Fn(&LoadSecond) -> f64, join: fn(&[(f64, f64)]) -> f64) -> Vec<(f64, f64)> {
        self.line(|part| part.load().map(|row| (row.at_ms, value(row))).collect(), join)
    }

    /// A rate of load. Rows that are shorter than a second are left out, because they give no rate.
    fn rate_of(&self, value: fn(&LoadSecond) -> f64, join: fn(&[(f64, f64)]) -> f64) -> Vec<(f64, f64)> {
        let rows = |row: &LoadSecond| is_whole(row).then(|| (row.at_ms, value(row)));
        self.line(|part| part.load().filter_map(rows).collect(), join)
    }

    fn host(&self, host: &str, value: impl Fn(&HostSecond) -> f64) -> Vec<(f64, f64)> {
        let rows = |part: &Part<'a>| part.repeat.hosts.get(host).into_iter().flatten();
        self.line(|part| rows(part).map(|row| (row.at_ms, value(row))).collect(), average)
    }

    fn broker(&self, broker: &str, value: impl Fn(&BrokerSecond) -> f64) -> Vec<(f64, f64)> {
        let rows = |part: &Part<'a>| part.repeat.brokers.get(broker).into_iter().flatten();
        self.line(|part| rows(part).map(|row| (row.at_ms, value(row))).collect(), largest)
    }

    /// The points of all repeats within their stages, with a gap after each repeat.
    fn line(
        &self,
        of: impl Fn(&Part<'a>) -> Vec<(u64, f64)>,
        join: fn(&[(f64, f64)]) -> f64,
    ) -> Vec<(f64, f64)> {
        let points = |part: &Part<'a>| -> Vec<(f64, f64)> {
            let own = of(part).into_iter().filter(|(at_ms, _)| *at_ms <= part.end_ms);
            own.map(|(at_ms, value)| (self.time(part, at_ms), value)).collect()
        };
        thinned(&self.parts.iter().map(points).collect::<Vec<_>>(), join)
    }

    /// Number of cores that the processes on a machine may use; `None` when unknown.
    fn cores_of(&self, host: &str) -> Option<f64> {
        let host = self.record.file.hosts.iter().find(|known| known.name == host)?;
        Some(host.cores_allowed.unwrap_or(f64::from(host.cores))).filter(|cores| *cores > 0.0)
    }

    fn chart(&self, lines: Vec<Line>, trend: &Trend, (size, highest): ((f64, f64), f64)) -> Chart {
        Chart {
            across: Text::same(self.unit.1),
            up: trend.up.clone(),
            lines,
            bands: self.bands.clone(),
            marks: self.marks.clone(),
            limits: trend.limit.iter().cloned().collect(),
            range: Some(self.range),
            highest: Some(highest),
            size,
            ..Chart::default()
        }
    }
}

/// Width and height in pixels of a chart in a row of `panels` charts.
fn size_beside(panels: usize) -> (f64, f64) {
    match columns(panels) {
        0 | 1 => WIDE,
        2 => (545.0, 200.0),
        3 => (360.0, 170.0),
        _ => (270.0, 160.0),
    }
}

/// A figure for each trend, with a chart for each step. Trends that were not measured, or were always 0, are left out.
pub fn figures<'a>(steps: &[(Text, Timeline<'a>)], of: fn(&Timeline<'a>) -> Vec<Trend>) -> Markup {
    let trends: Vec<Vec<Trend>> = steps.iter().map(|(_, step)| of(step)).collect();
    let count = trends.iter().map(Vec::len).max().unwrap_or(0);
    html! { @for place in 0..count { (figure(steps, &trends, place)) } }
}

fn figure(steps: &[(Text, Timeline<'_>)], trends: &[Vec<Trend>], place: usize) -> Markup {
    let own: Vec<&Trend> = trends.iter().filter_map(|trends| trends.get(place)).collect();
    let Some(first) = own.first() else { return html! {} };
    let is_shown = |line: usize| {
        own.iter().filter_map(|trend| trend.lines.get(line)).any(|line| largest(&line.points) > 0.0)
    };
    let shown: Vec<usize> = (0..first.lines.len()).filter(|line| is_shown(*line)).collect();
    let lines =
        |trend: &Trend| shown.iter().filter_map(|line| trend.lines.get(*line).cloned()).collect::<Vec<_>>();
    let highest =
        own.iter().flat_map(|trend| lines(trend)).map(|line| largest(&line.points)).fold(0.0, f64::max);
    let size = size_beside(steps.len());
    let panel = |((name, step), trend): (&(Text, Timeline<'_>), &&Trend)| {
        let name = if steps.len() > 1 { name.clone() } else { Text::default() };
        (name, step.chart(lines(trend), trend, (size, highest)))
    };
    let panels = steps.iter().zip(&own).map(panel).collect();
    let files = match steps {
        [(_, step)] => step.files.clone(),
        _ => vec!["cells/*/*/*.csv".to_owned()],
    };
    Figure { title: first.title.clone(), files: &files, panels }.markup()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Event, Phase};
    use crate::judge::testing;

    #[test]
    fn what_happened_late_in_a_step_is_marked() {
        let mut record = testing::record(&[(testing::factors(60), 20_000.0)]);
        let event = |at_ms, kind: &str| Event { at_ms, kind: kind.to_owned(), ..Event::default() };
        for repeat in &mut record.cells[0].repeats {
            let seconds = repeat.load.iter().map(|second| second.at_ms);
            repeat.events = seconds.map(|at_ms| event(at_ms, "producers-start")).collect();
        }
        let last = record.cells[0].repeats[2].load[50].at_ms;
        record.cells[0].repeats[2].events.push(event(last, "agent-lost"));
        let step = Timeline::of_cell(&record, &record.cells[0]);
        let has = |kind: &str| step.marks.iter().any(|mark| mark.name.en == kind);
        assert!(has("agent-lost") && !has("producers-start"), "{:?}", step.marks);
        assert!(step.bands.iter().any(|band| band.name.en == "steady 3"), "{:?}", step.bands);
        assert_eq!(step.happened().map(|said| said.en), Some("agent-lost 1 ×".to_owned()));
    }

    #[test]
    fn repeats_follow_each_other_and_their_phases_are_bands() {
        let mut record = testing::record(&[(testing::factors(60), 20_000.0)]);
        let cell = &mut record.cells[0];
        let warmup = |phase: &Phase| Phase {
            name: "warmup".to_owned(),
            to_ms: phase.from_ms + 10_000,
            ..phase.clone()
        };
        let all: Vec<Phase> =
            cell.cell.phases.iter().flat_map(|phase| [warmup(phase), phase.clone()]).collect();
        cell.cell.phases = all;
        let step = Timeline::of_cell(&record, &record.cells[0]);
        // The time between repeats takes no room: 3 minutes of load took 34 minutes in all.
        assert_eq!(step.range, (0.0, 3.0));
        let bands: Vec<(&str, f64)> = step.bands.iter().map(|band| (band.class, band.from)).collect();
        assert_eq!(bands.len(), 6);
        assert_eq!((bands[0], bands[2].0, bands[2].1.round()), (("idle", 0.0), "idle", 1.0));
    }

    #[test]
    fn parts_of_a_second_are_not_drawn_and_repeats_are_not_joined() {
        let mut record = testing::record(&[(testing::factors(60), 20_000.0)]);
        for repeat in &mut record.cells[0].repeats {
            repeat.load.iter_mut().for_each(|row| row.lasted_ms = 1_000);
            let last = repeat.load[59].clone();
            // What is answered after the last stage, as the lab records it, and half a second within a stage.
            repeat.load.push(LoadSecond { at_ms: last.at_ms + 50, lasted_ms: 50, sent: 3, ..last.clone() });
            repeat.load.push(LoadSecond { at_ms: last.at_ms + 1_500, lasted_ms: 1_400, sent: 3, ..last });
            repeat.load[30].lasted_ms = 400;
            repeat.load[30].sent = 1;
        }
        let step = Timeline::of_cell(&record, &record.cells[0]);
        assert_eq!(step.range, (0.0, 3.0), "the axis ends with the stages");
        let rate = &step.trends()[0];
        let sent = &rate.lines[0].points;
        let drawn: Vec<f64> = sent.iter().map(|point| point.1).filter(|rate| rate.is_finite()).collect();
        assert_eq!(drawn.len(), 3 * 59);
        assert!(drawn.iter().all(|rate| *rate > 19_000.0), "{drawn:?}");
        assert_eq!(sent.len() - drawn.len(), 2, "a gap between two repeats");
        let chart = step.chart(rate.lines.clone(), rate, (WIDE, 0.0)).svg().into_string();
        let path = chart.split("<g class=\"line c0").nth(1).and_then(|line| line.split('>').nth(1));
        assert_eq!(path.map(|path| path.matches('M').count()), Some(3), "a line for each repeat");
    }

    #[test]
    fn refusals_are_drawn_per_second() {
        let mut record = testing::record(&[(testing::factors(60), 20_000.0)]);
        testing::each_second(&mut record, |_, second| (second.refused, second.lasted_ms) = (30, 2_000));
        let step = Timeline::of_cell(&record, &record.cells[0]);
        assert_eq!(largest(&step.trends()[0].lines[2].points), 15.0);
    }

    #[test]
    fn steps_beside_each_other_have_the_same_heights() {
        let cells = [(10, 9_000.0), (60, 20_000.0)].map(|(threads, tps)| (testing::factors(threads), tps));
        let record = testing::record(&cells);
        let steps: Vec<(Text, Timeline<'_>)> = record
            .cells
            .iter()
            .map(|cell| (Text::same(&cell.cell.name), Timeline::of_cell(&record, cell)))
            .collect();
        let page = figures(&steps, Timeline::trends).into_string();
        let rate = page.split("</figure>").next().expect("the first figure");
        assert_eq!(rate.matches("<svg class=\"chart").count(), 2, "one plot for each step");
        assert_eq!(rate.matches(">20,000</text>").count(), 2, "{rate}");
        assert!(!page.contains("Swapping"), "nothing swapped");
    }
}
