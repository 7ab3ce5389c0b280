//! `vostok lab safe-tps`: searches the highest rate at which every guard (R2) holds.
//!
//! A ladder of closed loops, each step with twice the requests in flight, finds the ceiling and the bottleneck. The
//! ceiling is the mean of the ladder's flat part, because the highest of several rates is too high by chance. Then a
//! binary search in open loops, at the concurrency of the ladder's best step, narrows the interval between a safe rate
//! and an unsafe rate. The search goes above the ceiling if everything below was safe. The result is confirmed in longer repeats,
//! and lowered and tried again if it is not confirmed. A rate at which the load generator is the limit is not safe
//! either, because it is unknown what the server would have done.
//!
//! Requests of an open loop arrive evenly, those of a closed loop together, which costs a server less. So a step of the
//! ladder may keep every guard above the rate that the open loops found. The highest such steps are confirmed first.
//!
//! The rate of some servers varies, for example under a CPU quota. So a single lower step does not end the ladder, and
//! a rate that may have been unsafe by chance is tried a second time. The confirmation catches a rate that was safe by
//! chance, while nothing else would try an unsafe rate again.

use super::bench::Bench;
use super::design::{CellLoad, Design, RunOptions};
use super::idle::wait_for_idle;
use crate::Error;
use crate::archive::{Archive, LoadSecond, Purpose, Record, RecordedCell, RunFile, Slo};
use crate::generator::Sizes;
use crate::judge::ceiling::flat_part;
use crate::judge::conclusion::{Case, levels_off};
use crate::judge::figures::{broker_host_names, series};
use crate::judge::guards::{Guard, Limits, Watch, next_to_break};
use crate::judge::selftest::without_beaten;
use crate::judge::stats::mean;
use crate::judge::validity;
use crate::judge::validity::REPEATS_MIN;
use crate::output::language;
use crate::runtime;
use crate::sentences::Sentence;

/// Most steps of the ladder of closed loops.
const LADDER_MAX: usize = 8;

/// The search ends when the interval is at most this share of the ceiling.
const RESOLUTION: f64 = 0.03;

/// Most rates that the search tries.
const STEPS_MAX: u32 = 14;

/// Factor by which the search goes above the assumed upper end of its interval when it found no unsafe rate.
const UP: f64 = 1.25;

/// Use of a resource, as a multiple of its limit, from which on a rate is not tried a second time.
const FAR_OVER: f64 = 1.2;

/// Share by which an unconfirmed rate is lowered, and how many times at most.
const LOWER: (f64, u32) = (0.05, 4);

/// Most steps of the ladder that are confirmed.
const CLOSED_MAX: usize = 2;

/// Requests in flight that an open loop has places for, so that a pause of the server does not stop it.
const ROOM: u32 = 10_000;

/// A search, and the load with which it begins.
#[derive(Clone, Debug)]
pub struct Search {
    /// Limits to keep in addition to the guards; `None` for those that a resumed run began with.
    pub slo: Option<Slo>,
    /// Seconds of each confirming repeat.
    pub confirm: u32,
    /// Requests in flight of the first closed loop of the ladder.
    pub threads: u32,
    /// Sizes of bodies.
    pub size: Sizes,
    /// Queues per topic.
    pub queues: u32,
}

/// A finished step of the ladder.
#[derive(Clone, Copy, Debug)]
pub(super) struct LadderStep {
    /// Requests in flight.
    pub threads: u32,
    /// Mean messages per second.
    pub rate: f64,
    /// Whether the step is valid and kept every guard.
    pub keeps_guards: bool,
}

/// The cells that a search may run.
pub(crate) struct Steps {
    /// The cell with the concurrency of the search: of the first step of the ladder, then of its best step.
    base: CellLoad,
    limits: Limits,
    confirm: u32,
    repeats: u32,
}

/// Runs the search.
///
/// # Errors
/// Errors of [`super::matrix`].
pub fn run(options: &RunOptions, search: &Search) -> Result<(), Error> {
    runtime::block_on(async {
        let (steps, design) = search.design(options)?;
        let mut bench = Bench::open(options, design).await?;
        bench.keep(&steps.limits.slo)?;
        let searched = match wait_for_idle(&bench, &steps.limits).await {
            Ok(()) => find(&mut bench, steps).await,
            busy => busy,
        };
        bench.close(searched).await
    })
}

impl Search {
    /// The cells that the search may run, and the first of them.
    ///
    /// # Errors
    /// [`Error::File`] when the run to resume cannot be read.
    pub(crate) fn design(&self, options: &RunOptions) -> Result<(Steps, Design), Error> {
        let slo = self.slo(options)?;
        let mut options = options.clone();
        // The time from send to consumption needs a consumer group.
        options.load.groups = options.load.groups.max(u32::from(slo.end_to_end_p99_us.is_some()));
        let steps = Steps {
            base: options.cell(self.threads, &self.size, self.queues),
            limits: Limits { slo, ..Limits::default() },
            confirm: self.confirm,
            repeats: options.repeats,
        };
        let design = Design {
            held: vec![("--confirm", self.confirm.to_string())],
            ..Design::new("safe-tps", vec![steps.closed(self.threads)])
        };
        Ok((steps, design))
    }

    /// The limits to keep. A resumed run keeps the limits that it was started with, unless new ones are given.
    fn slo(&self, options: &RunOptions) -> Result<Slo, Error> {
        let begun = options.out.as_ref().filter(|root| root.join("run.json").exists());
        match (&self.slo, begun) {
            (Some(slo), _) => Ok(slo.clone()),
            (None, Some(root)) => Ok(Archive::open(root)?.run()?.slo),
            (None, None) => Ok(Slo::default()),
        }
    }
}

impl Steps {
    /// The steps with this concurrency.
    pub(crate) fn at(self, threads: u32) -> Self {
        let mut base = self.base;
        (base.factors.threads, base.load.threads) = (threads, threads);
        Self { base, ..self }
    }

    /// A step of the ladder of closed loops.
    fn closed(&self, threads: u32) -> CellLoad {
        let mut cell = self.base.clone().meant_for(Purpose::Ceiling);
        (cell.factors.threads, cell.load.threads) = (threads, threads);
        cell
    }

    /// An open loop at this rate, which is run once to decide where to go on.
    pub(crate) fn probe(&self, rate: f64) -> CellLoad {
        CellLoad { repeats: Some(1), ..self.open(rate, Purpose::Probe) }
    }

    /// An open loop at this rate that is long enough to call the rate safe.
    pub(crate) fn confirm(&self, rate: f64) -> CellLoad {
        self.long(self.open(rate, Purpose::Confirm))
    }

    /// A closed loop with so many requests in flight that is long enough to call its rate safe.
    pub(crate) fn confirm_closed(&self, threads: u32) -> CellLoad {
        let cell = self.closed(threads);
        self.long(CellLoad { factors: cell.factors.meant_for(Purpose::Confirm), ..cell })
    }

    fn long(&self, mut cell: CellLoad) -> CellLoad {
        let steady = cell.stages.iter_mut().filter(|stage| stage.name == "steady");
        steady.for_each(|stage| stage.seconds = self.confirm);
        // With fewer repeats no rate could be confirmed.
        CellLoad { repeats: Some(self.repeats.max(REPEATS_MIN as u32)), ..cell }
    }

    fn open(&self, rate: f64, purpose: Purpose) -> CellLoad {
        let mut cell = self.base.clone().meant_for(purpose);
        cell.factors.rate = Some(rate);
        (cell.load.rate, cell.load.threads) = (Some(rate), cell.load.threads.max(ROOM));
        cell
    }
}

/// The second try of a cell.
pub(super) fn again(first: &CellLoad) -> CellLoad {
    first.clone().with("again", "again")
}

async fn find(bench: &mut Bench, steps: Steps) -> Result<(), Error> {
    let Some(ladder) = ladder(bench, &steps).await? else { return Ok(()) };
    let rates: Vec<f64> = ladder.iter().map(|step| step.rate).collect();
    let (ceiling, best) = (flat_part(&rates), best(&ladder));
    let (highest, threads) = best.map_or((0.0, steps.base.load.threads), |step| (step.rate, step.threads));
    bench.line(&format!(
        "closed loop: {ceiling:.0}/s, {highest:.0} in its highest step, with {threads} in flight; searching there"
    ));
    let steps = steps.at(threads);
    let mut halving = Halving::new(ceiling);
    while let Some(rate) = halving.next() {
        let Some(is_safe) = probe(bench, &steps.probe(rate), &steps.limits).await? else {
            return Ok(());
        };
        halving.note(rate, is_safe);
    }
    let closed = above(&ladder, halving.safe).into_iter().map(|threads| steps.confirm_closed(threads));
    let lowered = (0..LOWER.1).map(|times| halving.safe * (1.0 - LOWER.0).powi(times.cast_signed()));
    let open = lowered.filter(|rate| *rate >= 1.0).map(|rate| steps.confirm(rate.round()));
    for cell in closed.chain(open).collect::<Vec<_>>() {
        let Some(found) = bench.add(&cell).await? else { return Ok(()) };
        if is_confirmed(bench, found, &steps.limits) {
            return Ok(());
        }
    }
    bench.line("no rate is safe under these guards; the last lines say which ones break");
    Ok(())
}

/// The step with the highest rate.
pub(super) fn best(ladder: &[LadderStep]) -> Option<LadderStep> {
    ladder.iter().copied().max_by(|one, other| one.rate.total_cmp(&other.rate))
}

/// Requests in flight of the steps that kept every guard above the rate that the open loops found, highest rate first.
pub(super) fn above(ladder: &[LadderStep], found: f64) -> Vec<u32> {
    let mut above: Vec<_> = ladder.iter().filter(|step| step.keeps_guards && step.rate > found).collect();
    above.sort_by(|one, other| other.rate.total_cmp(&one.rate));
    above.into_iter().take(CLOSED_MAX).map(|step| step.threads).collect()
}

/// Judges a cell that is to confirm a rate, as the report will judge it, so that both name the same rate.
fn is_confirmed(bench: &Bench, found: RecordedCell, limits: &Limits) -> bool {
    let rate = mean_rate(&found);
    let record = record_of(bench, found);
    let case = Case::new(&record, &record.cells[0], limits);
    let of = case.factors();
    let load = match of.rate {
        Some(rate) => format!("{rate:.0}/s"),
        None => format!("{} in flight", of.threads),
    };
    bench.line(&format!("confirming {load}: {}", guard_summary(&why_not(&case))));
    if !case.is_safe() {
        return false;
    }
    let rate = of.rate.unwrap_or(rate);
    bench.line(&format!("highest safe rate: {rate:.0} messages/s; {}", next(&case.guards)));
    unobserved(&record.file).into_iter().for_each(|line| bench.line(line));
    let unseen: Vec<String> = case.not_measured().map(reading).collect();
    if !unseen.is_empty() {
        bench.line(&format!("not looked at: {}", unseen.join("; ")));
    }
    true
}

/// Whether a rate seems safe at the first or at the second try; `None` when the run was interrupted.
async fn probe(bench: &mut Bench, first: &CellLoad, limits: &Limits) -> Result<Option<bool>, Error> {
    for cell in [first, &again(first)] {
        let Some(found) = bench.add(cell).await? else { return Ok(None) };
        let (broken, is_certain) = broken(bench, found, limits);
        bench.line(&format!("{:.0}/s: {}", cell.factors.rate.unwrap_or_default(), guard_summary(&broken)));
        if broken.is_empty() || is_certain {
            return Ok(Some(broken.is_empty()));
        }
    }
    Ok(Some(false))
}

/// Closed loops, each with twice the requests in flight; `None` when the run was interrupted.
async fn ladder(bench: &mut Bench, steps: &Steps) -> Result<Option<Vec<LadderStep>>, Error> {
    let (mut ladder, mut threads) = (Vec::new(), steps.base.load.threads);
    loop {
        let Some(found) = bench.add(&steps.closed(threads)).await? else { return Ok(None) };
        let rate = mean_rate(&found);
        let record = record_of(bench, found);
        let keeps_guards = Case::new(&record, &record.cells[0], &steps.limits).keeps_guards();
        ladder.push(LadderStep { threads, rate, keeps_guards });
        let rates: Vec<f64> = ladder.iter().map(|step| step.rate).collect();
        if levels_off(&rates) || rates.len() >= LADDER_MAX || threads > 32_768 {
            return Ok(Some(ladder));
        }
        threads *= 2;
    }
}

/// The interval that contains the highest safe rate, in messages per second.
#[derive(Clone, Debug)]
pub(super) struct Halving {
    ceiling: f64,
    /// Highest rate known to be safe.
    pub safe: f64,
    /// Lowest rate known or assumed to be unsafe.
    unsafe_at: f64,
    /// Whether `unsafe_at` was measured, and not only assumed.
    is_known: bool,
    steps: u32,
}

impl Halving {
    pub fn new(ceiling: f64) -> Self {
        Self { ceiling, safe: 0.0, unsafe_at: ceiling * 1.1, is_known: false, steps: 0 }
    }

    /// The next rate to try; `None` when the interval is small enough.
    pub fn next(&self) -> Option<f64> {
        if self.steps >= STEPS_MAX || self.ceiling < 1.0 {
            return None;
        }
        match self.unsafe_at - self.safe <= self.ceiling * RESOLUTION {
            false => Some(((self.safe + self.unsafe_at) / 2.0).round()),
            true if self.is_known => None,
            true => Some((self.unsafe_at * UP).round()),
        }
    }

    pub fn note(&mut self, rate: f64, is_safe: bool) {
        self.steps += 1;
        if is_safe {
            (self.safe, self.unsafe_at) = (rate, self.unsafe_at.max(rate));
        } else {
            (self.unsafe_at, self.is_known) = (rate, true);
        }
    }
}

fn record_of(bench: &Bench, found: RecordedCell) -> Record {
    without_beaten(Record { file: bench.run_file().clone(), cells: vec![found] })
}

/// The guards that break at a probe, and whether this cannot be chance. One repeat gives no valid figures, but guards
/// and the load of the generator can be judged.
fn broken(bench: &Bench, found: RecordedCell, limits: &Limits) -> (Vec<String>, bool) {
    let record = record_of(bench, found);
    let case = Case::new(&record, &record.cells[0], limits);
    let is_certain = case.guards.iter().any(is_far_over);
    let broken = case.guards.iter().filter(|guard| guard.is_broken()).map(reading);
    let generator = validity::generator(&case.judged.windows, &record.file);
    let unobserved: Vec<_> = validity::unobserved(&case.judged.windows, &record.file).collect();
    let outages = validity::outages(&case.judged.windows);
    let others = validity::others(&case.judged.windows, &record.file);
    let invalid = generator.iter().chain(&outages).chain(&others).chain(&unobserved);
    (broken.chain(invalid.map(|why| why.sentence().get(language()).to_owned())).collect(), is_certain)
}

/// Whether the mean use of a resource was so far above its limit that a second try would show the same.
pub(super) fn is_far_over(guard: &Guard) -> bool {
    let on_average =
        [Watch::CpuBusy, Watch::DiskUtil, Watch::IoPressure, Watch::NetworkIn, Watch::NetworkOut];
    on_average.contains(&guard.watch) && guard.used.is_some_and(|used| used > FAR_OVER)
}

/// The reasons why a rate was not confirmed.
fn why_not(case: &Case<'_>) -> Vec<String> {
    let broken = case.guards.iter().filter(|guard| guard.is_broken()).map(reading);
    let invalid = case.judged.outcome.as_ref().err().into_iter().flatten();
    broken.chain(invalid.map(|why| why.sentence().get(language()).to_owned())).collect()
}

/// Whether a rate was safe, with the guards that broke.
fn guard_summary(broken: &[String]) -> String {
    if broken.is_empty() { "safe".to_owned() } else { format!("not safe: {}", broken.join("; ")) }
}

/// The reservation for a safe rate when no broker machine was observed, so that none of their guards could break.
fn unobserved(file: &RunFile) -> Option<&'static str> {
    broker_host_names(file).is_empty().then_some(
        "careful: CPU, memory, disk and network of the brokers were not looked at; run vostok lab agent on their \
         machines and name it with --agents",
    )
}

fn next(guards: &[Guard]) -> String {
    let next = next_to_break(guards).and_then(|guard| Some((guard, guard.headroom()?)));
    match next {
        Some((guard, room)) => format!("next to break: {}, {:.0} % left", reading(guard), room * 100.0),
        None => "no guard is near its limit".to_owned(),
    }
}

fn reading(guard: &Guard) -> String {
    format!("{} {}", guard.node, guard.sentence().get(language())).trim().to_owned()
}

/// Mean messages per second over the steady windows of all repeats.
pub(super) fn mean_rate(found: &RecordedCell) -> f64 {
    let record = Record { cells: vec![found.clone()], ..Record::default() };
    let windows = record.windows(&record.cells[0], "steady");
    mean(&series(&windows, LoadSecond::sent_rate).concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::testing;

    #[test]
    fn a_safe_rate_of_machines_that_nobody_saw_is_commented_on() {
        let mut file = testing::file();
        assert_eq!(unobserved(&file), None);
        file.hosts.truncate(1);
        file.target.brokers[0].host = None;
        let said = unobserved(&file).expect("the lab's machine is no broker's");
        assert!(said.contains("CPU, memory, disk and network") && said.contains("--agents"), "{said}");
    }
}
