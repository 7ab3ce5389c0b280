//! A cell of a run after rule R0: its figures, or the reasons why it has none.

use super::backlog::PHASES;
use super::figures::Figures;
use super::validity::{self, Reason};
use crate::archive::{Factors, Record, RecordedCell, Window};

/// Cell of a run with the verdict of rule R0.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// The cell as the run recorded it.
    pub cell: &'a RecordedCell,
    /// The steady-state window of each repeat.
    pub windows: Vec<Window<'a>>,
    /// The figures of a valid cell, or the reasons why the cell is invalid. An invalid cell has no figures, so none can
    /// be shown.
    pub outcome: Result<Figures, Vec<Reason>>,
    /// Whether R0 found no fault in the cell, other than too few repeats.
    pub is_sound: bool,
}

impl Judged<'_> {
    /// The factors of the cell: what distinguishes the cells of a run.
    pub fn factors(&self) -> &Factors {
        &self.cell.cell.factors
    }

    /// The figures of the cell; `None` when the cell is invalid.
    pub fn figures(&self) -> Option<&Figures> {
        self.outcome.as_ref().ok()
    }
}

/// Judges every finished cell of a run by R0. The bootstrap is seeded with the run's seed.
pub fn judged(record: &Record) -> Vec<Judged<'_>> {
    record.cells.iter().map(|cell| judged_cell(record, cell)).collect()
}

/// Judges one cell of a run by R0.
pub(super) fn judged_cell<'a>(record: &'a Record, cell: &'a RecordedCell) -> Judged<'a> {
    let steady = record.windows(cell, "steady");
    // A backlog cell has no phase `steady`; its phase `before` holds the ordinary load.
    let windows = if steady.is_empty() { record.windows(cell, "before") } else { steady };
    let mut faults = validity::faults(&windows, &record.file);
    for phase in &PHASES[1..] {
        let found = validity::phase(&record.windows(cell, phase), &record.file);
        let in_phase = |reason| Reason::InPhase((*phase).to_owned(), Box::new(reason));
        faults.extend(found.into_iter().map(in_phase));
    }
    let is_sound = faults.is_empty();
    let reasons: Vec<Reason> = validity::too_few(&windows).into_iter().chain(faults).collect();
    let outcome = if reasons.is_empty() {
        Ok(Figures::new(&record.file, &windows, record.file.seed))
    } else {
        Err(reasons)
    };
    Judged { cell, windows, outcome, is_sound }
}
