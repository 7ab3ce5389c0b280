//! The factors in which cells of a run can differ, and the groups of cells that differ in one factor only.

use super::{Text, numbers};
use crate::archive::{Factors, SETTING};
use serde::Serialize;

/// A factor in which cells can differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "fields of `Factors`")]
pub enum Factor {
    Threads,
    Rate,
    Producers,
    Connections,
    Size,
    Queues,
    Topics,
    Groups,
    Flush,
    Replication,
    Compression,
    Payload,
    /// Any other factor, by its name.
    More(String),
}

impl Factor {
    /// The factors that every cell has.
    pub(crate) const FIXED: [Self; 12] = [
        Self::Threads,
        Self::Rate,
        Self::Producers,
        Self::Connections,
        Self::Size,
        Self::Queues,
        Self::Topics,
        Self::Groups,
        Self::Flush,
        Self::Replication,
        Self::Compression,
        Self::Payload,
    ];

    /// Every factor of which the cells hold more than one level, in the order of this enum.
    pub fn varied(cells: &[&Factors]) -> Vec<Self> {
        let mut names: Vec<&String> = cells.iter().flat_map(|cell| cell.more.keys()).collect();
        names.sort();
        names.dedup();
        let more = names.into_iter().map(|name| Self::More(name.clone()));
        let varies = |factor: &Self| {
            let mut levels = cells.iter().map(|cell| factor.level(cell));
            let first = levels.next();
            levels.any(|level| Some(&level) != first.as_ref())
        };
        Self::FIXED.into_iter().chain(more).filter(varies).collect()
    }

    /// Whether the factor is a setting of the brokers.
    pub fn is_setting(&self) -> bool {
        matches!(self, Self::More(name) if name.starts_with(SETTING))
    }

    /// The level of this factor in a cell, as text for reports.
    pub fn level(&self, of: &Factors) -> String {
        let word = |word: &String| if word.is_empty() { "-".to_owned() } else { word.clone() };
        match self {
            Self::Threads => of.threads.to_string(),
            Self::Rate => of.rate.map_or_else(|| "-".to_owned(), numbers::count),
            Self::Producers => of.producers.to_string(),
            Self::Connections => of.connections.to_string(),
            Self::Size => numbers::size(of.size),
            Self::Queues => of.queues.to_string(),
            Self::Topics => of.topics.to_string(),
            Self::Groups => of.groups.to_string(),
            Self::Flush => word(&of.flush),
            Self::Replication => word(&of.replication),
            Self::Compression => word(&of.compression),
            Self::Payload => word(&of.payload),
            Self::More(name) => of.more.get(name).map_or_else(|| "-".to_owned(), word),
        }
    }

    /// The level of this factor in a cell as a number, for sorting and for axes; `None` when the level is not a number.
    pub fn number(&self, of: &Factors) -> Option<f64> {
        Some(match self {
            Self::Threads => f64::from(of.threads),
            Self::Rate => of.rate?,
            Self::Producers => f64::from(of.producers),
            Self::Connections => f64::from(of.connections),
            Self::Size => of.size as f64,
            Self::Queues => f64::from(of.queues),
            Self::Topics => f64::from(of.topics),
            Self::Groups => f64::from(of.groups),
            Self::Flush | Self::Replication | Self::Compression | Self::Payload => return None,
            Self::More(name) => of.more.get(name)?.parse().ok()?,
        })
    }

    /// The factors of a cell without this one: equal for cells that differ in this factor only.
    pub fn without(&self, of: &Factors) -> Factors {
        let mut rest = of.clone();
        match self {
            Self::Threads => rest.threads = 0,
            Self::Rate => rest.rate = None,
            Self::Producers => rest.producers = 0,
            Self::Connections => rest.connections = 0,
            Self::Size => rest.size = 0,
            Self::Queues => rest.queues = 0,
            Self::Topics => rest.topics = 0,
            Self::Groups => rest.groups = 0,
            Self::Flush => rest.flush.clear(),
            Self::Replication => rest.replication.clear(),
            Self::Compression => rest.compression.clear(),
            Self::Payload => rest.payload.clear(),
            Self::More(name) => drop(rest.more.remove(name)),
        }
        rest
    }

    /// The name of the factor as reports print it.
    pub fn name(&self) -> Text {
        match self {
            Self::More(name) => Text::same(name),
            fixed => Text::named("factor", fixed),
        }
    }
}

/// Groups of cells (by index) that differ in `factor` only, each sorted by its level; groups of one cell are left out.
/// Levels that are not numbers keep the order in which they first appear among all cells, because the effects of groups
/// that start from different levels could not be combined. A closed loop has no rate, so it is not a step of a ladder
/// of rates.
pub fn ladders(cells: &[&Factors], factor: &Factor) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Factors, Vec<usize>)> = Vec::new();
    let steps = cells.iter().enumerate().filter(|(_, cell)| *factor != Factor::Rate || cell.rate.is_some());
    for (index, cell) in steps {
        let rest = factor.without(cell);
        match groups.iter_mut().find(|(of, _)| *of == rest) {
            Some((_, members)) => members.push(index),
            None => groups.push((rest, vec![index])),
        }
    }
    let mut found: Vec<Vec<usize>> = groups.into_iter().map(|(_, members)| members).collect();
    found.retain(|members| members.len() > 1);
    for members in &mut found {
        let number = |index: &usize| factor.number(cells[*index]).unwrap_or(0.0);
        let appeared = |index: &usize| {
            let level = factor.level(cells[*index]);
            cells.iter().position(|cell| factor.level(cell) == level)
        };
        members.sort_by(|one, other| {
            number(one).total_cmp(&number(other)).then_with(|| appeared(one).cmp(&appeared(other)))
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(threads: u32, size: u64) -> Factors {
        Factors { threads, size, ..Factors::default() }
    }

    #[test]
    fn ladders_hold_cells_that_differ_in_one_thing() {
        let cells = [cell(60, 1024), cell(1, 1024), cell(1, 2048), cell(10, 1024), cell(5, 4096)];
        let cells: Vec<&Factors> = cells.iter().collect();
        assert_eq!(Factor::varied(&cells), [Factor::Threads, Factor::Size]);
        assert_eq!(ladders(&cells, &Factor::Threads), [vec![1, 3, 0]]);
        assert_eq!(ladders(&cells, &Factor::Size), [vec![1, 2]]);
        assert_eq!(Factor::Size.level(cells[0]), "1k");
    }

    #[test]
    fn ladders_of_words_begin_with_the_same_one() {
        let cell = |threads, flush: &str| Factors { flush: flush.to_owned(), ..cell(threads, 1024) };
        let cells = [cell(1, "async"), cell(1, "sync"), cell(9, "sync"), cell(9, "async")];
        let cells: Vec<&Factors> = cells.iter().collect();
        assert_eq!(ladders(&cells, &Factor::Flush), [vec![0, 1], vec![3, 2]]);
    }

    #[test]
    fn other_factors_have_their_own_names() {
        let mut changed = cell(1, 1);
        changed.more.insert("masters".to_owned(), "4".to_owned());
        let base = cell(1, 1);
        let masters = Factor::More("masters".to_owned());
        assert_eq!(Factor::varied(&[&base, &changed]), std::slice::from_ref(&masters));
        assert_eq!((masters.level(&base).as_str(), masters.number(&changed)), ("-", Some(4.0)));
        assert_eq!(masters.without(&changed), base);
    }
}
