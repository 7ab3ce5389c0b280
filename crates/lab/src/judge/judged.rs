//! A cell of a run after rule R0: its figures, or the reasons why it has none.

use super::backlog::{PHASES, phase_name};
use super::figures::Figures;
use super::{Text, both, validity};
use crate::archive::{Factors, Record, RecordedCell, Window};

/// One cell of a run with the verdict of rule R0.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// The cell as the run recorded it.
    pub cell: &'a RecordedCell,
    /// The steady-state window of each repeat.
    pub windows: Vec<Window<'a>>,
    /// The figures of a valid cell, or the reasons why the cell is invalid. An invalid cell has no figures, so none can
    /// be shown.
    pub outcome: Result<Figures, Vec<Text>>,
    /// Whether R0 found no fault in the cell, other than too few repeats.
    pub is_sound: bool,
}

impl Judged<'_> {
    /// The factors of the cell: what distinguishes the cells of a run.
    #[must_use]
    pub fn factors(&self) -> &Factors {
        &self.cell.cell.factors
    }

    /// The figures of the cell; `None` when the cell is invalid.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        self.outcome.as_ref().ok()
    }
}

/// Judges every finished cell of a run by R0. The bootstrap is seeded with the run's seed.
#[must_use]
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
        let (found, name) = (validity::phase(&record.windows(cell, phase), &record.file), phase_name(phase));
        faults.extend(found.into_iter().map(|why| {
            let (phase, zh, en, why_zh) = (&name.en, &name.zh, why.en, why.zh);
            both!("{phase}: {en}", "{zh}：{why_zh}")
        }));
    }
    let is_sound = faults.is_empty();
    let reasons: Vec<Text> = validity::too_few(&windows).into_iter().chain(faults).collect();
    let outcome = if reasons.is_empty() {
        Ok(Figures::new(&record.file, &windows, record.file.seed))
    } else {
        Err(reasons)
    };
    Judged { cell, windows, outcome, is_sound }
}
