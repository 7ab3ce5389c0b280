//! A cell after R0: figures, or the reasons why there are none.

use super::backlog::{PHASES, phase_name};
use super::figures::Figures;
use super::{Text, both, validity};
use crate::archive::{Factors, Record, RecordedCell, Window};

/// One cell of a run, judged.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// As recorded.
    pub cell: &'a RecordedCell,
    /// The steady part of each repeat.
    pub windows: Vec<Window<'a>>,
    /// Invalid cells have no figures, so that none can be shown.
    pub outcome: Result<Figures, Vec<Text>>,
    /// Whether nothing but the number of its repeats speaks against it.
    pub is_sound: bool,
}

impl Judged<'_> {
    /// What made this cell differ.
    #[must_use]
    pub fn factors(&self) -> &Factors {
        &self.cell.cell.factors
    }

    /// The figures of a valid cell.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        self.outcome.as_ref().ok()
    }
}

/// Judges every finished cell of a run; the run's seed is the bootstrap's.
#[must_use]
pub fn judged(record: &Record) -> Vec<Judged<'_>> {
    record.cells.iter().map(|cell| judged_cell(record, cell)).collect()
}

/// Judges one of them.
pub(super) fn judged_cell<'a>(record: &'a Record, cell: &'a RecordedCell) -> Judged<'a> {
    let steady = record.windows(cell, "steady");
    // A backlog's ordinary load is what it was before.
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
