//! The main sentences of a report. Markdown and JSON contain all of them; the page shows some as figures and charts.

use crate::archive::Factors;
use crate::judge::ceiling::Ceiling;
use crate::judge::conclusion::{Conclusion, Ladder, SUSTAINED_SECONDS};
use crate::judge::factor::Factor;
use crate::judge::figures::broker_host_names;
use crate::judge::{Text, both};
use crate::sentences::{Sentence, self_tests_left_out, unseen};

/// Ratio of an open loop's rate to the ceiling of closed loops from which on the difference is mentioned.
const MORE: f64 = 1.02;

/// All lines, each with a name and a sentence.
pub fn lines(run: &Conclusion<'_>) -> Vec<(Text, Text)> {
    let backlogs = run.cells.iter().filter_map(|case| case.backlog.as_ref());
    let backlogs = backlogs.map(|backlog| (both!("verdict.backlog"), backlog.sentence()));
    let failovers = run.cells.iter().filter_map(|case| case.failover.as_ref());
    let failovers = failovers.map(|failover| (both!("verdict.failover"), failover.sentence()));
    let mut lines: Vec<(Text, Text)> = is_about_rates(run).then(|| safe(run)).into_iter().collect();
    lines.extend(limits(run));
    lines.extend(rest(run));
    // Inserted before the last line, which is about the confidence in all figures.
    let place = lines.len() - 1;
    lines.splice(place..place, backlogs.chain(failovers));
    lines
}

/// The lines about the limit of the rate.
pub fn limits(run: &Conclusion<'_>) -> Vec<(Text, Text)> {
    let mut lines = Vec::new();
    if is_about_rates(run) {
        lines.extend(bottleneck(run).map(|limit| (both!("verdict.bottleneck"), limit)));
        lines.extend(has_steps(run).then(|| ceiling(run)));
        lines.push((both!("verdict.next-guard"), next(run)));
    }
    lines.extend(invalid(run));
    lines
}

/// Whether the run measures how much a cluster carries. A failover run and a backlog do not, so they have no ceiling, no
/// safe rate and no next guard.
pub(super) fn is_about_rates(run: &Conclusion<'_>) -> bool {
    let is_other = |of: &Factors| of.is_failover() || of.is_backlog();
    run.record.file.cells.is_empty() || run.record.file.cells.iter().any(|cell| !is_other(cell))
}

/// Whether the run has cells that could be steps of a ladder. A soak alone has none.
fn has_steps(run: &Conclusion<'_>) -> bool {
    run.main_ladder().is_some() || run.record.file.cells.iter().any(|cell| !cell.is_soak())
}

/// The bottleneck with the name of its cell.
fn bottleneck(run: &Conclusion<'_>) -> Option<Text> {
    let text = run.bottleneck.as_ref()?.sentence();
    Some(both!("verdict.cell-cell", text, cell = &run.cells[run.limited?].judged.cell.cell.name))
}

/// The other lines, the confidence in the figures last.
pub fn rest(run: &Conclusion<'_>) -> Vec<(Text, Text)> {
    let mut lines: Vec<(Text, Text)> = Vec::new();
    let left_out = self_tests_left_out(&run.record.file).into_iter();
    lines.extend(left_out.map(|text| (both!("verdict.self-test"), text)));
    lines.extend(not_looked_at(run).map(|text| (both!("verdict.not-looked"), text)));
    let others = run.bandwidth_limits.iter().map(|limit| (both!("verdict.bandwidth"), limit.sentence()));
    lines.extend(others);
    let unsteady =
        run.top.and_then(|top| run.cells[top].stability.as_ref()).filter(|stability| stability.fluctuates);
    lines.extend(unsteady.map(|stability| (both!("verdict.stability"), stability.sentence())));
    // A failover tells itself what became of its messages.
    let soaks = run.cells.iter().filter(|case| case.failover.is_none());
    let soaks = soaks.filter_map(|case| Some((case, case.soak.as_ref()?)));
    let shown = soaks.filter(|(_, soak)| soak.checked || !soak.drifts.is_empty());
    lines.extend(shown.map(|(case, soak)| {
        let cell = &case.judged.cell.cell.name;
        (both!("verdict.soak"), both!("verdict.cell-cell", text = soak.sentence(), cell))
    }));
    lines.push((both!("verdict.confidence"), confidence(run)));
    lines
}

fn safe(run: &Conclusion<'_>) -> (Text, Text) {
    let name = both!("answer.highest-safe-rate-2");
    let above = run.above.as_ref().map(Sentence::sentence);
    let Some(safe) = &run.safe else {
        let why =
            above.map_or_else(|| both!("verdict.none-no-valid-cell"), |above| both!("verdict.none", above));
        return (name, why);
    };
    let (rate, low, high) = (safe.tps.mean, safe.tps.low, safe.tps.high);
    let cell = &run.cells[safe.cell].judged.cell.cell.name;
    let (seconds, needed) = (safe.seconds, SUSTAINED_SECONDS);
    let text = if safe.seconds >= SUSTAINED_SECONDS {
        both!("verdict.rate-msg-s-low", rate, low, high, cell)
    } else {
        both!("verdict.rate-msg-s-low-high", rate, low, high, cell, seconds, needed)
    };
    let parts: Vec<Text> = [text].into_iter().chain(above).collect();
    (name, Text::joined(&parts).unwrap_or_default())
}

fn ceiling(run: &Conclusion<'_>) -> (Text, Text) {
    let name = both!("verdict.ceiling");
    let Some(ladder) = run.main_ladder() else {
        let why = both!("verdict.not-known-no-two");
        return (name, why);
    };
    let text = match &ladder.ceiling {
        Ceiling::Found { step, tps, sign } => {
            let (rate, sign) = (tps, sign.sentence());
            let highest = run.cells[ladder.cells[*step]].judged.figures().map_or(*tps, |step| step.tps.mean);
            match held_open(run, ladder).filter(|safe| *safe > tps * MORE) {
                None => both!("verdict.rate-highest-its-highest", rate, highest, sign),
                // The safe rate needed more requests in flight than the steps of the ladder had.
                Some(most) => both!("verdict.most-least-open-loop", most, rate, highest, sign),
            }
        }
        undecided => match run.bottleneck.as_ref().and_then(|limit| limit.full()) {
            Some(full) => undecided.beside_full(full),
            None => undecided.sentence(),
        },
    };
    (name, text)
}

/// The safe rate, if an open loop held it with the same requests as the closed loops of a ladder.
fn held_open(run: &Conclusion<'_>, ladder: &Ladder) -> Option<f64> {
    let safe = run.safe.as_ref()?;
    let is_closed = ladder.cells.iter().all(|cell| run.cells[*cell].factors().rate.is_none());
    let is_open = run.cells[safe.cell].factors().rate.is_some();
    (is_open && is_closed && sends_the_same(run, ladder, safe.cell)).then_some(safe.tps.mean)
}

/// Whether a cell sends the same requests as the steps of a ladder, at any load.
pub(super) fn sends_the_same(run: &Conclusion<'_>, ladder: &Ladder, cell: usize) -> bool {
    let more = ["purpose", "again"].map(|name| Factor::More(name.to_owned()));
    let load = [Factor::Threads, Factor::Rate].into_iter().chain(more).collect::<Vec<_>>();
    let sent = |of: &Factors| load.iter().fold(of.clone(), |rest, factor| factor.without(&rest));
    let own = sent(run.cells[cell].factors());
    ladder.cells.iter().all(|step| sent(run.cells[*step].factors()) == own)
}

fn next(run: &Conclusion<'_>) -> Text {
    if run.top.is_none() {
        return both!("answer.no-cell-valid");
    }
    let Some(safe) = &run.safe else {
        let broken =
            run.top.map(|top| &run.cells[top].guards).into_iter().flatten().filter(|guard| guard.is_broken());
        let broken: Vec<Text> = broken.map(Sentence::sentence).collect();
        let Some(broken) = Text::joined(&broken) else {
            return both!("verdict.none-broke-highest-rate");
        };
        return both!("verdict.broken-already-highest-rate", broken);
    };
    let Some(guard) = &safe.next else { return both!("verdict.none-measured") };
    let room = guard.headroom().unwrap_or_default();
    let node = if guard.node.is_empty() { String::new() } else { format!(" [{}]", guard.node) };
    both!("verdict.node-room-limit-left", text = guard.sentence(), node, room)
}

/// The reason why there are no figures at all: that of the first cell. In a failover only rate and latency lack figures.
fn invalid(run: &Conclusion<'_>) -> Option<(Text, Text)> {
    let mut cells = run.cells.iter().filter(|_| run.top.is_none());
    cells.find_map(|case| {
        let text = case.judged.outcome.as_ref().err()?.first()?.sentence();
        let cell = &case.judged.cell.cell.name;
        Some(if case.failover.is_some() {
            (both!("verdict.rate-latency"), both!("verdict.not-judged-cell-cell", text, cell))
        } else {
            (both!("verdict.invalid"), both!("verdict.cell-cell", text, cell))
        })
    })
}

/// The guards that were not measured at the safe rate, otherwise at the highest rate.
fn not_looked_at(run: &Conclusion<'_>) -> Option<Text> {
    let cell = run.safe.as_ref().map(|safe| safe.cell).or(run.top)?;
    let mut parts: Vec<Text> = Vec::new();
    if broker_host_names(&run.record.file).is_empty() {
        parts.push(both!("verdict.brokers-machines-run-vostok"));
    }
    parts.extend(unseen(&run.cells[cell]));
    Text::joined(&parts)
}

fn confidence(run: &Conclusion<'_>) -> Text {
    let probes = run.cells.iter().filter(|case| case.is_probe()).count();
    let (valid, all) = (run.valid(), run.cells.len() - probes);
    let shown = run.safe.as_ref().map(|safe| safe.cell).or(run.top);
    let top = run.top.and_then(|top| run.cells[top].judged.figures());
    // Without a valid cell there is no rate with an interval.
    let spread =
        top.map(|figures| both!("verdict.spread", spread = figures.tps.spread())).unwrap_or_default();
    let is_finished = run.record.file.ended_ms.is_some();
    let unfinished = if is_finished { Text::default() } else { both!("verdict.unfinished") };
    let probed = if probes == 0 { Text::default() } else { both!("verdict.probed", probes) };
    both!(
        "verdict.unfinished-valid-all-measured",
        unfinished,
        valid,
        all,
        planned = run.record.file.cells.len() - probes - run.record.file.left_out.len(),
        probed,
        repeats = shown.map_or(run.record.file.repeats, |cell| run.cells[cell].judged.cell.cell.repeats),
        spread,
        skew = run.record.file.clock_skew_us
    )
}
