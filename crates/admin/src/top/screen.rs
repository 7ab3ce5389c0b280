//! The screens: which columns each has, and the rows of a sample in them.

use std::cmp::Ordering;

use super::sample::Sample;
use crate::Lag;

/// A page of `vostok top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    Overview,
    Topics,
    Groups,
    Queues,
    Clients,
}

/// A column of a screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub title: &'static str,
    /// Width in characters. Columns with 0 share the rest of the line.
    pub width: u16,
    /// Whether it is aligned at its right end and sorted from the largest value on.
    pub is_number: bool,
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    Count(Option<i64>),
    /// Messages per second.
    Rate(Option<f64>),
    Lag(Lag),
    /// A part of a whole, from 0 to 1.
    Share(f64),
}

const fn name(title: &'static str, width: u16) -> Column {
    Column { title, width, is_number: false }
}

const fn figure(title: &'static str, width: u16) -> Column {
    Column { title, width, is_number: true }
}

const BROKERS: [Column; 8] = [
    name("BROKER", 0),
    figure("ID", 3),
    name("ADDRESS", 21),
    name("VERSION", 8),
    figure("IN/S", 8),
    figure("OUT/S", 8),
    figure("TODAY", 8),
    figure("DISK", 5),
];
const TOPICS: [Column; 8] = [
    name("TOPIC", 0),
    figure("QUEUES", 7),
    figure("MESSAGES", 9),
    figure("IN/S", 8),
    figure("OUT/S", 8),
    figure("GROUPS", 7),
    figure("LAG", 8),
    figure("BEHIND", 7),
];
const GROUPS: [Column; 6] = [
    name("GROUP", 0),
    figure("MEMBERS", 8),
    figure("TOPICS", 7),
    figure("OUT/S", 8),
    figure("LAG", 8),
    figure("BEHIND", 7),
];
const QUEUES: [Column; 8] = [
    name("TOPIC", 0),
    name("BROKER", 10),
    figure("QUEUE", 6),
    name("GROUP", 0),
    figure("IN/S", 7),
    figure("OUT/S", 7),
    figure("LAG", 7),
    figure("BEHIND", 7),
];
const CLIENTS: [Column; 6] = [
    name("KIND", 8),
    name("GROUP", 0),
    name("CLIENT", 0),
    name("ADDRESS", 21),
    name("LANGUAGE", 9),
    name("VERSION", 8),
];

impl Screen {
    /// All screens, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Overview, Self::Topics, Self::Groups, Self::Queues, Self::Clients];

    /// The screen's name, also as a command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Topics => "topics",
            Self::Groups => "groups",
            Self::Queues => "queues",
            Self::Clients => "clients",
        }
    }

    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Overview => &BROKERS,
            Self::Topics => &TOPICS,
            Self::Groups => &GROUPS,
            Self::Queues => &QUEUES,
            Self::Clients => &CLIENTS,
        }
    }

    /// The column by which rows are sorted at first: the busiest row, or the row that is furthest behind, comes first.
    pub fn first_sort(self) -> usize {
        let title = match self {
            Self::Overview | Self::Clients => return 0,
            Self::Topics => "IN/S",
            Self::Groups | Self::Queues => "LAG",
        };
        self.columns().iter().position(|column| column.title == title).unwrap_or_default()
    }

    /// The rows of a sample, in its order.
    pub fn rows(self, sample: &Sample) -> Vec<Vec<Cell>> {
        match self {
            Self::Overview => brokers(sample),
            Self::Topics => topics(sample),
            Self::Groups => groups(sample),
            Self::Queues => queues(sample),
            Self::Clients => clients(sample),
        }
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn count(count: usize) -> Cell {
    Cell::Count(i64::try_from(count).ok())
}

fn brokers(sample: &Sample) -> Vec<Vec<Cell>> {
    let row = |row: &crate::BrokerRow| {
        let version = if row.error.is_some() { "no answer" } else { &row.version };
        vec![
            text(&row.broker),
            Cell::Count(Some(row.id)),
            text(&row.address),
            text(version),
            Cell::Rate(Some(row.in_tps)),
            Cell::Rate(Some(row.out_tps)),
            Cell::Count(Some(row.in_today)),
            Cell::Share(row.disk_ratio),
        ]
    };
    sample.brokers.iter().map(row).collect()
}

fn topics(sample: &Sample) -> Vec<Vec<Cell>> {
    let row = |row: &super::sample::TopicRow| {
        vec![
            text(&row.topic),
            if row.end.is_some() { count(row.queues) } else { Cell::Count(None) },
            Cell::Count(row.end),
            Cell::Rate(row.in_tps),
            Cell::Rate(row.out_tps),
            count(row.groups),
            Cell::Count(Some(row.lag)),
            Cell::Lag(row.time_behind),
        ]
    };
    sample.topics.iter().map(row).collect()
}

fn groups(sample: &Sample) -> Vec<Vec<Cell>> {
    let row = |row: &super::sample::GroupRow| {
        vec![
            text(&row.group),
            row.members.map_or(Cell::Count(None), count),
            count(row.topics),
            Cell::Rate(row.out_tps),
            Cell::Count(Some(row.lag)),
            Cell::Lag(row.time_behind),
        ]
    };
    sample.groups.iter().map(row).collect()
}

fn queues(sample: &Sample) -> Vec<Vec<Cell>> {
    let row = |row: &super::sample::QueueRow| {
        vec![
            text(&row.topic),
            text(&row.broker),
            Cell::Count(Some(row.queue.into())),
            text(&row.group),
            Cell::Rate(row.in_tps),
            Cell::Rate(row.out_tps),
            Cell::Count(Some(row.lag)),
            Cell::Lag(row.time_behind),
        ]
    };
    sample.queues.iter().map(row).collect()
}

fn clients(sample: &Sample) -> Vec<Vec<Cell>> {
    let row = |row: &super::sample::ClientRow| {
        let cells = [row.kind, &row.group, &row.client_id, &row.address, &row.language, &row.version];
        cells.map(text).to_vec()
    };
    sample.clients.iter().map(row).collect()
}

impl Cell {
    /// The value in at most eight characters, unless it is a text.
    pub fn show(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(Some(count)) => short(*count as f64, 0),
            Self::Rate(Some(rate)) => short(*rate, if *rate < 100.0 { 1 } else { 0 }),
            Self::Lag(lag) => lag.to_string(),
            Self::Share(share) => format!("{:.0}%", share * 100.0),
            Self::Count(None) | Self::Rate(None) => "-".to_owned(),
        }
    }

    /// The order of two values of one column. An unknown value is the least.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            _ => self.number().total_cmp(&other.number()),
        }
    }

    fn number(&self) -> f64 {
        match self {
            Self::Text(_) => None,
            Self::Count(count) => count.map(|count| count as f64),
            Self::Lag(lag) => lag.lag_seconds.map(|seconds| seconds as f64),
            Self::Rate(rate) => *rate,
            Self::Share(share) => Some(*share),
        }
        .unwrap_or(f64::NEG_INFINITY)
    }

    /// Whether it is a text that contains `part`, which is lower case.
    pub fn contains(&self, part: &str) -> bool {
        matches!(self, Self::Text(text) if text.to_lowercase().contains(part))
    }
}

/// A number in at most seven characters.
fn short(number: f64, digits: usize) -> String {
    match number {
        0.0..100_000.0 => format!("{number:.digits$}"),
        100_000.0..10_000_000.0 => format!("{:.0}k", number / 1e3),
        10_000_000.0..1e10 => format!("{:.0}M", number / 1e6),
        _ => format!("{:.0}G", number / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(seconds: i64) -> Lag {
        Lag { lag_seconds: Some(seconds), lag_is_bound: false }
    }

    #[test]
    fn numbers_stay_short() {
        let check = |cell: Cell, expected| assert_eq!(cell.show(), expected, "{cell:?}");
        check(Cell::Rate(Some(7.26)), "7.3");
        check(Cell::Rate(Some(45_678.0)), "45678");
        check(Cell::Count(Some(123_456_789)), "123M");
        check(Cell::Count(Some(98_765_432_100)), "99G");
        check(Cell::Count(Some(250_000)), "250k");
        check(Cell::Lag(exact(119)), "119s");
        check(Cell::Lag(exact(7199)), "119m");
        check(Cell::Lag(exact(400_000)), "4d");
        check(Cell::Lag(Lag { lag_is_bound: true, ..exact(119) }), "≤119s");
        check(Cell::Lag(Lag::default()), "-");
        check(Cell::Share(0.254), "25%");
        check(Cell::Rate(None), "-");
    }

    #[test]
    fn every_screen_fits_80_columns() {
        for screen in Screen::ALL {
            let columns = screen.columns();
            let fixed: u16 = columns.iter().map(|column| column.width + 1).sum();
            let sharing = columns.iter().filter(|column| column.width == 0).count() as u16;
            assert!(fixed + sharing * 12 <= 81, "{screen:?}: {fixed}");
        }
    }
}
