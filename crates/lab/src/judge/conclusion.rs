//! The conclusion of a whole run: every rule applied, and the few sentences at the top of its report.

use super::backlog::{Backlog, backlog};
use super::balance::{BandwidthLimit, Term, balance, bandwidth_limits};
use super::bottleneck::{Bottleneck, bottleneck};
use super::ceiling::{Ceiling, Invalid, Step, ceiling, is_found};
use super::effects::{Effect, Interaction, effects, interactions, sensitive};
use super::factor::{Factor, ladders};
use super::failover::{Failover, failover};
use super::figures::series;
use super::guards::{Guard, Limits, guards};
use super::judged::{Judged, judged, judged_cell};
use super::safety::{Above, above, safe};
use super::soak::{Soak, soak};
use super::stability::{Stability, stability};
use super::stats::{Estimate, mean};
use super::validity::Reason;
use crate::archive::{Factors, LoadSecond, Purpose, Record, RecordedCell};

/// Seconds for which a rate must have been held to be called safe without a reservation.
pub const SUSTAINED_SECONDS: f64 = 300.0;

/// Ratio to the best rate before it, below which a step shows that more load gave no more.
const GAIN_MIN: f64 = 1.05;

/// Whether more load gives no more, by the rates of a ladder's steps: each of the last two steps gained less than 5 %
/// over the best step before them. If one of the two fell by about 5 % or more, it may have been low by chance, so
/// three such steps are required.
pub fn levels_off(rates: &[f64]) -> bool {
    let since_best = |count: usize| {
        let (before, last) = rates.split_at_checked(rates.len().checked_sub(count)?)?;
        let best = before.iter().copied().reduce(f64::max)?;
        Some((best, last)).filter(|(best, last)| last.iter().all(|rate| *rate < best * GAIN_MIN))
    };
    let is_even = |(best, last): (f64, &[f64])| last.iter().all(|rate| rate * GAIN_MIN > best);
    since_best(2).is_some_and(is_even) || since_best(3).is_some()
}

/// A run with the verdicts of all rules.
#[derive(Clone, Debug)]
pub struct Conclusion<'a> {
    /// The run as it was recorded.
    pub record: &'a Record,
    /// Every finished cell with its verdicts.
    pub cells: Vec<Case<'a>>,
    /// Series of cells that differ only in their load, without the cells that were run at a rate found by others.
    pub ladders: Vec<Ladder>,
    /// The highest rate at which every guard held.
    pub safe: Option<Safe>,
    /// A cell above the highest safe rate that kept every guard; `None` when there is none.
    pub above: Option<Above>,
    /// Index in `cells` of the cell with the highest rate.
    pub top: Option<usize>,
    /// Resource that limits the rate of the cell `limited`.
    pub bottleneck: Option<Bottleneck>,
    /// Index in `cells` of the cell whose bottleneck is named: the highest step of a search, otherwise `top`.
    pub limited: Option<usize>,
    /// Bandwidth limits: the same bytes per second at several message sizes.
    pub bandwidth_limits: Vec<BandwidthLimit>,
    /// The effect of each factor.
    pub effects: Vec<Effect>,
    /// R11: settings that have an effect; `None` when no setting was swept.
    pub sensitive: Option<Vec<Effect>>,
    /// Pairs of factors whose effects depend on each other.
    pub interactions: Vec<Interaction>,
}

/// A cell with the verdicts of the rules that look at one cell.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The verdict of R0: figures, or the reasons why the cell is invalid.
    pub judged: Judged<'a>,
    /// The guards of R2, each with its worst reading over the repeats.
    pub guards: Vec<Guard>,
    /// The byte balance of R4; empty when it cannot be computed.
    pub balance: Vec<Term>,
    /// The verdict of R5 on fluctuation.
    pub stability: Option<Stability>,
    /// The verdict of R6; `None` when the cell is no backlog.
    pub backlog: Option<Backlog>,
    /// The verdict of R10; `None` when the cell is no soak.
    pub soak: Option<Soak>,
    /// The verdict on failed masters; `None` when the cell is no failover.
    pub failover: Option<Failover>,
}

/// A series of cells that differ only in their load.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// The load factor: threads or rate.
    pub factor: Factor,
    /// Indices in [`Conclusion::cells`], lowest load first.
    pub cells: Vec<usize>,
    /// The verdict of R1 on the ladder.
    pub ceiling: Ceiling,
}

/// The highest rate at which every guard held.
#[derive(Clone, Debug)]
pub struct Safe {
    /// Index in [`Conclusion::cells`].
    pub cell: usize,
    /// The rate in messages per second.
    pub tps: Estimate,
    /// The guard with the least headroom, which breaks first when the rate is raised.
    pub next: Option<Guard>,
    /// Seconds for which each repeat held the rate.
    pub seconds: f64,
}

impl<'a> Case<'a> {
    /// Applies the rules that look at one cell to a finished cell of a run.
    pub fn new(record: &'a Record, cell: &'a RecordedCell, limits: &Limits) -> Self {
        case(record, judged_cell(record, cell), limits)
    }

    /// Whether the cell was run once only, to decide which rate a search tries next.
    pub fn is_probe(&self) -> bool {
        self.purpose() == Some(Purpose::Probe)
    }

    /// The guards for which there are no figures.
    pub fn not_measured(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter().filter(|guard| guard.used.is_none())
    }

    /// Seconds for which each repeat held the rate; 0 for an invalid cell.
    pub fn seconds(&self) -> f64 {
        let repeats = self.judged.figures().map(|figures| figures.tps_seconds.iter().map(Vec::len));
        repeats.and_then(Iterator::min).unwrap_or(0) as f64
    }

    /// Whether the cell was run at a rate found by other cells, to confirm it or to compare latency. Such a cell is no
    /// step of a ladder.
    fn is_at_found_rate(&self) -> bool {
        self.purpose().is_some_and(|of| [Purpose::Confirm, Purpose::EqualRate].contains(&of))
    }

    fn purpose(&self) -> Option<Purpose> {
        self.factors().purpose()
    }

    /// The factors of the cell: what distinguishes the cells of a run.
    pub fn factors(&self) -> &Factors {
        self.judged.factors()
    }
}

impl<'a> Conclusion<'a> {
    /// Applies every rule to a run.
    pub fn new(record: &'a Record, limits: &Limits) -> Self {
        let (file, seed) = (&record.file, record.file.seed);
        let judged = judged(record);
        let (effects, interactions) = (effects(&judged, seed), interactions(&judged, seed));
        let sensitive = sensitive(&judged, seed);
        let bandwidth_limits = bandwidth_limits(file, &judged);
        let cells: Vec<Case<'a>> = judged.into_iter().map(|judged| case(record, judged, limits)).collect();
        let ladders = load_ladders(&cells, seed);
        let top = highest(&cells, |_| true);
        let limit = searched_ceiling(&cells).or_else(|| {
            let (top, found) = (top?, |ladder: &Ladder| matches!(ladder.ceiling, Ceiling::Found { .. }));
            Some((top, ladders.iter().any(|ladder| ladder.cells.contains(&top) && found(ladder))))
        });
        let bottleneck =
            limit.map(|(cell, saturated)| bottleneck(file, &cells[cell].judged.windows, saturated));
        let safe = safe(&cells);
        let above = above(&cells, safe.as_ref());
        Self {
            record,
            cells,
            ladders,
            safe,
            above,
            top,
            bottleneck,
            limited: limit.map(|(cell, _)| cell),
            bandwidth_limits,
            effects,
            sensitive,
            interactions,
        }
    }

    /// Number of valid cells.
    pub fn valid(&self) -> usize {
        self.cells.iter().filter(|case| case.judged.figures().is_some()).count()
    }

    /// The ladder that holds the highest rate, otherwise the longest ladder.
    pub fn main_ladder(&self) -> Option<&Ladder> {
        let with_top =
            self.ladders.iter().find(|ladder| self.top.is_some_and(|top| ladder.cells.contains(&top)));
        with_top.or_else(|| self.ladders.iter().max_by_key(|ladder| ladder.cells.len()))
    }
}

fn case<'a>(record: &'a Record, judged: Judged<'a>, limits: &Limits) -> Case<'a> {
    let file = &record.file;
    let windows = &judged.windows;
    let worst = worst(windows.iter().map(|window| guards(file, window, limits)).collect());
    let balance = judged.figures().map_or_else(Vec::new, |figures| balance(file, judged.factors(), figures));
    let stability = judged.figures().map(|_| stability(file, windows));
    let backlog = judged.is_sound.then(|| backlog(record, judged.cell)).flatten();
    let mut soak = soak(file, judged.cell, windows);
    // Lost messages are reported for an invalid cell too; the drift of its figures is not.
    if judged.figures().is_none() {
        soak.iter_mut().for_each(|soak| soak.drifts.clear());
    }
    let failover = failover(file, judged.cell);
    Case { guards: worst, balance, stability, backlog, soak, failover, judged }
}

/// Readings of the guards. Each guard has the reading of the repeat that used most of its limit.
fn worst(repeats: Vec<Vec<Guard>>) -> Vec<Guard> {
    let mut worst: Vec<Guard> = Vec::new();
    for guard in repeats.into_iter().flatten() {
        let known = worst.iter_mut().find(|known| known.watch == guard.watch && known.node == guard.node);
        match known {
            Some(known) if guard.is_worse(known) => *known = guard,
            Some(_) => (),
            None => worst.push(guard),
        }
    }
    worst
}

/// Whether the finished cells of the run, which differ in their threads only, show a ceiling.
pub fn has_ceiling(record: &Record) -> bool {
    let cells: Vec<Judged<'_>> = judged(record);
    let step = |cell: &Judged<'_>| f64::from(cell.factors().threads);
    let steps = cells.iter().filter_map(|cell| Some(Step { load: step(cell), figures: cell.figures()? }));
    is_found(steps.collect(), record.file.seed)
}

fn load_ladders(cells: &[Case<'_>], seed: u64) -> Vec<Ladder> {
    let is_step = |case: &Case<'_>| case.judged.figures().is_some() && !case.is_at_found_rate();
    let valid: Vec<usize> = (0..cells.len()).filter(|index| is_step(&cells[*index])).collect();
    let factors: Vec<&Factors> = valid.iter().map(|index| cells[*index].factors()).collect();
    let by = |factor: Factor| {
        let found = ladders(&factors, &factor).into_iter().map(|ladder| (factor.clone(), ladder));
        found.collect::<Vec<_>>()
    };
    let all = by(Factor::Threads).into_iter().chain(by(Factor::Rate));
    all.map(|(factor, ladder)| {
        let ladder: Vec<usize> = ladder.into_iter().map(|place| valid[place]).collect();
        let step = |index: &usize| {
            let load = factor.number(cells[*index].factors()).unwrap_or(0.0);
            Some(Step { load, figures: cells[*index].judged.figures()? })
        };
        let steps: Vec<Step<'_>> = ladder.iter().filter_map(step).collect();
        let invalid = invalid_above(cells, &factor, &ladder);
        Ladder { ceiling: ceiling(&steps, &invalid, seed), cells: ladder, factor }
    })
    .collect()
}

/// The invalid steps of a ladder above its last valid step, lowest load first.
fn invalid_above(cells: &[Case<'_>], factor: &Factor, ladder: &[usize]) -> Invalid {
    let Some(last) = ladder.last().map(|index| cells[*index].factors()) else { return Invalid::default() };
    let most = factor.number(last).unwrap_or(0.0);
    let same =
        |case: &&Case<'_>| factor.without(case.factors()) == factor.without(last) && !case.is_at_found_rate();
    let mut found: Vec<(f64, &Reason)> = cells
        .iter()
        .filter(same)
        .filter_map(|case| {
            Some((factor.number(case.factors())?, case.judged.outcome.as_ref().err()?.first()?))
        })
        .filter(|(load, _)| *load > most)
        .collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    let why = found.first().map(|(_, why)| (*why).clone());
    Invalid { loads: found.into_iter().map(|(load, _)| load).collect(), why }
}

/// Index of the cell with the highest rate among the ceiling cells of a search, and whether the last step gave no more.
/// The cell may be invalid, for example because the load generator was the limit; its bottleneck can be named all the
/// same.
fn searched_ceiling(cells: &[Case<'_>]) -> Option<(usize, bool)> {
    let steps = cells.iter().enumerate().filter(|(_, case)| case.purpose() == Some(Purpose::Ceiling));
    let rates: Vec<(usize, f64)> = steps
        .map(|(index, case)| {
            let sent: Vec<f64> = series(&case.judged.windows, LoadSecond::sent_rate).concat();
            (index, mean(&sent))
        })
        .collect();
    let (top, _) = *rates.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let rates: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
    Some((top, levels_off(&rates)))
}

/// Index of the valid cell with the highest rate.
pub(super) fn highest(cells: &[Case<'_>], only: impl Fn(&Case<'_>) -> bool) -> Option<usize> {
    let rates = cells
        .iter()
        .enumerate()
        .filter(|(_, case)| only(case))
        .filter_map(|(index, case)| Some((index, case.judged.figures()?.tps.mean)));
    rates.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::bottleneck::Resource;
    use crate::judge::testing;
    use crate::sentences::Sentence;

    #[test]
    fn a_ladder_that_climbs_has_no_ceiling() {
        let check = |rates: &[f64], expected: bool| {
            let cells: Vec<_> =
                (1..).zip(rates).map(|(threads, tps)| (testing::factors(threads), *tps)).collect();
            assert_eq!(has_ceiling(&testing::record(&cells)), expected, "{rates:?}");
        };
        check(&[], false);
        check(&[900.0, 9_000.0], false);
        check(&[900.0, 9_000.0, 30_000.0], false);
        check(&[900.0, 30_000.0, 30_300.0], false);
        check(&[30_000.0, 30_300.0, 30_400.0], true);
    }

    #[test]
    fn advice_on_a_ladder_knows_why_its_steps_are_missing() {
        let cells = [(10, 9_000.0), (20, 17_000.0), (40, 27_000.0), (80, 40_000.0), (160, 60_000.0)];
        let mut record = testing::record(&cells.map(|(threads, tps)| (testing::factors(threads), tps)));
        for cell in &mut record.cells[3..] {
            let seconds = cell.repeats.iter_mut().flat_map(|repeat| &mut repeat.load);
            seconds.for_each(|second| second.lab_cores = 7.9);
        }
        let found = Conclusion::new(&record, &Limits::default());
        let ceiling = &found.ladders[0].ceiling;
        assert!(matches!(ceiling, Ceiling::NotSaturated { .. }), "it climbs: {ceiling:?}");
        let why = crate::sentences::Sentence::sentence(ceiling);
        assert!(why.en.contains("the last valid step (load 40) still gained"), "{}", why.en);
        let missing = "load 80, 160 was run and is not valid (the load generator used";
        assert!(why.en.contains(missing) && !why.en.contains("extend the ladder"), "{}", why.en);
    }

    #[test]
    fn a_run_is_concluded() {
        let cells = [(1, 900.0), (10, 9_000.0), (60, 30_000.0), (120, 30_300.0), (200, 30_400.0)];
        let mut record = testing::record(&cells.map(|(threads, tps)| (testing::factors(threads), tps)));
        let seconds = record.cells[4].repeats.iter_mut().filter_map(|repeat| repeat.hosts.get_mut("b1"));
        seconds.flatten().for_each(|second| second.disk_util = 0.8);
        let found = Conclusion::new(&record, &Limits::default());
        assert_eq!((found.valid(), found.top, found.ladders.len()), (5, Some(4), 1));
        assert!(matches!(found.ladders[0].ceiling, Ceiling::Found { .. }), "{:?}", found.ladders[0].ceiling);
        let safe = found.safe.expect("lower steps are safe");
        assert_eq!(safe.cell, 3);
        assert!(safe.next.is_some());
        assert!(found.bottleneck.is_some_and(|limit| limit.evidence.sentence().en.contains("disk: busy 80")));
    }

    #[test]
    fn a_search_is_judged_at_its_ceiling_and_safe_where_it_was_confirmed() {
        let for_purpose = |threads, purpose| testing::factors(threads).meant_for(purpose);
        let cells = [
            (for_purpose(60, Purpose::Ceiling), 10_000.0),
            (for_purpose(120, Purpose::Ceiling), 10_100.0),
            (for_purpose(1_000, Purpose::Confirm), 7_000.0),
            (for_purpose(1_000, Purpose::Probe), 8_000.0),
        ];
        let mut record = testing::record(&cells);
        // The CPU quota of the generator makes the ladder invalid, and is the bottleneck.
        record.file.lab_cores_allowed = Some(0.1);
        for cell in &mut record.cells {
            let cores = if cell.cell.factors.threads == 1_000 { 0.05 } else { 0.1 };
            cell.repeats
                .iter_mut()
                .flat_map(|repeat| &mut repeat.load)
                .for_each(|second| second.lab_cores = cores);
        }
        let found = Conclusion::new(&record, &Limits::default());
        assert_eq!((found.valid(), found.safe.as_ref().map(|safe| safe.cell)), (1, Some(2)));
        assert!(found.cells[3].is_probe() && found.cells[3].judged.figures().is_none());
        assert_eq!(found.bottleneck.map(|limit| limit.resource), Some(Resource::Client));
    }

    #[test]
    fn rates_that_others_had_found_are_no_ladder() {
        let at = |rate: Option<f64>, threads, purpose| {
            let factors = Factors { rate, ..testing::factors(threads) };
            (factors.meant_for(purpose), rate.unwrap_or(10_000.0))
        };
        // The rate was lowered until it was confirmed, and is above what the closed loops reached.
        let rates = [12_000.0, 11_400.0, 10_800.0].map(|rate| at(Some(rate), 60, Purpose::Confirm));
        let mut cells = [60, 120, 240].map(|threads| at(None, threads, Purpose::Ceiling)).to_vec();
        cells.extend(rates.clone());
        cells.extend([7_000.0, 6_000.0].map(|rate| at(Some(rate), 60, Purpose::EqualRate)));
        let record = testing::record(&cells);
        let found = Conclusion::new(&record, &Limits::default());
        assert_eq!((found.valid(), found.top), (8, Some(3)));
        let ladders: Vec<_> = found.ladders.iter().map(|ladder| (&ladder.factor, &ladder.cells)).collect();
        assert_eq!(ladders, [(&Factor::Threads, &vec![0, 1, 2])]);
        assert!(found.main_ladder().is_some_and(|ladder| matches!(ladder.ceiling, Ceiling::Found { .. })));
        let alone = testing::record(&rates);
        assert!(Conclusion::new(&alone, &Limits::default()).main_ladder().is_none());
    }

    #[test]
    fn a_rate_that_modes_are_compared_at_is_no_safe_one() {
        let equal = Factors { rate: Some(7_000.0), ..testing::factors(60) }.meant_for(Purpose::EqualRate);
        let record = testing::record(&[(equal, 7_000.0)]);
        let found = Conclusion::new(&record, &Limits::default());
        assert!(found.valid() == 1 && found.safe.is_none(), "{:?}", found.safe);
    }

    #[test]
    fn a_rate_at_which_messages_were_lost_is_not_safe() {
        for kind in ["missing", "doubled", "changed", "out_of_order"] {
            let mut record = testing::record(&[(testing::factors(60), 30_000.0)]);
            record.cells[0].cell.checked.insert(kind.to_owned(), 1);
            let found = Conclusion::new(&record, &Limits::default());
            assert!(found.valid() == 1 && found.safe.is_none(), "{kind}");
            let lines = crate::report::verdict::lines(&found);
            assert!(lines.iter().any(|(name, text)| name.en == "Soak" && text.en.starts_with("1 messages")));
        }
    }

    #[test]
    fn an_overloaded_open_loop_is_not_safe() {
        let open = Factors { rate: Some(40_000.0), ..testing::factors(1_000) };
        let record = testing::record(&[(open, 30_000.0)]);
        let found = Conclusion::new(&record, &Limits::default());
        assert!(found.valid() == 1 && found.safe.is_none());
    }

    #[test]
    fn what_a_search_was_told_to_keep_is_kept_by_its_report() {
        let mut record = testing::record(&[(testing::factors(60), 30_000.0)]);
        assert!(Conclusion::new(&record, &Limits::of(&record.file)).safe.is_some());
        record.file.slo = "send.p99<1ms".parse().expect("a good slo");
        assert!(Conclusion::new(&record, &Limits::of(&record.file)).safe.is_none());
    }

    #[test]
    fn a_remote_broker_is_not_the_machine_of_the_lab() {
        let mut record = testing::record(&[(testing::factors(60), 30_000.0)]);
        record.file.hosts.truncate(1);
        record.file.target.brokers[0].host = None;
        let found = Conclusion::new(&record, &Limits::default());
        assert_eq!(found.cells[0].judged.figures().and_then(|figures| figures.host.clone()), None);
        assert!(found.bottleneck.is_some_and(|limit| limit.resource == Resource::Unknown));
        assert!(found.cells[0].balance.is_empty());
    }

    #[test]
    fn a_run_without_valid_cells_concludes_nothing() {
        let mut record = testing::record(&[(testing::factors(60), 30_000.0)]);
        testing::each_second(&mut record, |_, second| second.lab_cores = 8.0);
        let found = Conclusion::new(&record, &Limits::default());
        assert!(found.safe.is_none() && found.top.is_none() && found.bottleneck.is_none());
    }
}
