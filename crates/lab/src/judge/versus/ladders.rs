//! Which cells of two runs show a capacity: of each ladder only its best step.
//!
//! Below the best step a closed loop waits for its answers: its rate is the number of requests in flight divided by the
//! round trip time, whatever the server could carry. Above it an overloaded server may become slower. The best step is
//! the load, among those that both runs have, at which either run has its highest rate. It is a capacity only if the
//! ladder shows its ceiling (R1) up to the highest common load.

use super::{Aspect, Pairing};
use crate::archive::Factors;
use crate::judge::Judged;
use crate::judge::ceiling::{Step, is_found};
use crate::judge::factor::{Factor, ladders};
use serde::{Deserialize, Serialize};

/// The ladders that both runs have, and how many of them were saturated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ladders {
    /// Ladders with more than one step in both runs.
    pub compared: usize,
    /// Ladders without a ceiling in the first run and in the second; their rates are lower bounds of the capacity.
    pub unsaturated: (usize, usize),
}

/// The highest load of a ladder that both runs have.
pub(super) struct Top {
    /// The load factor: threads or rate.
    factor: Factor,
    /// The factors of the cell with that load, without those in which the runs differ.
    cell: Factors,
}

impl Ladders {
    /// Looks for the ceiling of each ladder in both runs. `load` gives the factors of a cell without those in which the
    /// runs differ.
    pub(super) fn of(
        tops: &[Top],
        (first, second): (&[Judged<'_>], &[Judged<'_>]),
        load: &impl Fn(&Judged<'_>) -> Factors,
        seed: u64,
    ) -> Self {
        let unsaturated = |run| tops.iter().filter(|top| !top.is_ceiling(run, load, seed)).count();
        Self { compared: tops.len(), unsaturated: (unsaturated(first), unsaturated(second)) }
    }
}

impl Top {
    /// Whether the ladder of a run shows its ceiling at this load or below.
    fn is_ceiling(&self, run: &[Judged<'_>], load: &impl Fn(&Judged<'_>) -> Factors, seed: u64) -> bool {
        let (factor, most) = (&self.factor, self.factor.number(&self.cell).unwrap_or(0.0));
        let ladder = factor.without(&self.cell);
        let step = |cell: &Judged<'_>| factor.number(cell.factors()).filter(|load| *load <= most);
        let steps = run
            .iter()
            .filter(|cell| factor.without(&load(cell)) == ladder)
            .filter_map(|cell| Some(Step { load: step(cell)?, figures: cell.figures()? }));
        is_found(steps.collect(), seed)
    }
}

/// Marks every step of a ladder except the best as [`Aspect::RateAtLoad`], and returns the highest step of each ladder.
pub(super) fn tops(pairings: &mut [Pairing]) -> Vec<Top> {
    let cells: Vec<&Factors> = pairings.iter().map(|pairing| &pairing.factors).collect();
    let by = |factor: Factor| {
        let found = ladders(&cells, &factor).into_iter().map(|ladder| (factor.clone(), ladder));
        found.collect::<Vec<_>>()
    };
    let mut found = by(Factor::Threads);
    // When the rate is given, the number of threads is no load.
    found.retain(|(_, ladder)| cells[ladder[0]].rate.is_none());
    found.extend(by(Factor::Rate));
    let mut tops = Vec::new();
    for (factor, ladder) in found {
        let rate = |step: &usize| pairings[*step].first.max(pairings[*step].second);
        let steps: Vec<usize> =
            ladder.into_iter().filter(|step| pairings[*step].aspect == Aspect::Capacity).collect();
        let best = steps.iter().max_by(|one, other| rate(one).total_cmp(&rate(other))).copied();
        let (Some(best), Some(top)) = (best, steps.last()) else { continue };
        tops.push(Top { factor, cell: pairings[*top].factors.clone() });
        for step in steps.iter().filter(|step| **step != best) {
            pairings[*step].aspect = Aspect::RateAtLoad;
        }
    }
    tops
}
