//! Skips the cells of a ladder above its ceiling: `vostok lab matrix --prune`.

use crate::Error;
use crate::archive::{Archive, Factors, Record, RunFile};
use crate::judge::conclusion::has_ceiling;
use crate::judge::factor::Factor;

/// Whether the finished cells that differ from this one only in having fewer threads show a ceiling.
pub(super) fn is_dominated(archive: &Archive, run: &RunFile, of: &Factors) -> Result<bool, Error> {
    let steps = below(&run.cells, of).map(|(number, cell)| archive.cell(number, cell));
    let finished = steps.filter(|directory| directory.is_finished());
    let cells = finished.map(|directory| directory.record()).collect::<Result<_, Error>>()?;
    Ok(has_ceiling(&Record { file: run.clone(), cells }))
}

/// The lower steps of the cell's ladder of threads, with their cell numbers.
fn below<'a>(cells: &'a [Factors], of: &'a Factors) -> impl Iterator<Item = (u32, &'a Factors)> {
    let rest = |cell: &Factors| Factor::Threads.without(cell);
    (1..).zip(cells).filter(move |(_, cell)| cell.threads < of.threads && rest(cell) == rest(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_differs_in_its_threads_alone() {
        let cell = |threads, size, flush: &str| Factors {
            threads,
            size,
            flush: flush.to_owned(),
            ..Factors::default()
        };
        let cells = [
            cell(1, 9, ""),
            cell(10, 9, ""),
            cell(60, 9, ""),
            cell(10, 8, ""),
            cell(10, 9, "sync"),
            cell(99, 9, ""),
        ];
        let numbers = |of: &Factors| below(&cells, of).map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(numbers(&cells[2]), [1, 2]);
        assert_eq!(numbers(&cells[5]), [1, 2, 3]);
        assert_eq!(numbers(&cells[0]), [0; 0]);
        assert_eq!(numbers(&cells[3]), [0; 0]);
    }
}
