//! The table of checks, by subject. A new check is a row in one of the parts and a fault in the tests.

mod certificates;
mod groups;
mod lite;
mod lost;
mod members;
mod reach;
pub(super) mod refusals;
mod replicas;
mod settings;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use super::bilingual::Phrase;
use super::finding::Check;
use super::machine;

/// A part of the table with its title.
pub(crate) struct Part {
    pub title: Phrase,
    pub checks: &'static [Check],
}

/// All checks.
pub(crate) const PARTS: [Part; 11] = [
    Part { title: Phrase("Reach"), checks: reach::CHECKS },
    Part { title: Phrase("Lost servers"), checks: lost::CHECKS },
    Part { title: Phrase("Consumer groups"), checks: groups::CHECKS },
    Part { title: Phrase("Lite topics"), checks: lite::CHECKS },
    Part { title: Phrase("Members of consumer groups"), checks: members::CHECKS },
    Part { title: Phrase("Refused requests"), checks: refusals::CHECKS },
    Part { title: Phrase("Store"), checks: store::CHECKS },
    Part { title: Phrase("Replicas"), checks: replicas::CHECKS },
    Part { title: Phrase("Settings"), checks: settings::CHECKS },
    Part { title: Phrase("Certificates"), checks: certificates::CHECKS },
    Part { title: Phrase("Machine"), checks: machine::CHECKS },
];

/// All checks, in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Check> {
    PARTS.into_iter().flat_map(|part| part.checks)
}
