//! The table of checks, by what they look at. A new check is a row here in one of the parts, a fault in the tests, and a
//! row of `docs/doctor.zh-CN.md`.

mod certificates;
mod groups;
mod members;
mod reach;
mod refusals;
mod replicas;
mod settings;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use super::finding::Check;
use super::machine;

/// A part of the table with its title.
pub(crate) struct Part {
    pub title: &'static str,
    pub checks: &'static [Check],
}

/// All checks.
pub(crate) const PARTS: [Part; 9] = [
    Part { title: "Reach", checks: reach::CHECKS },
    Part { title: "Consumer groups", checks: groups::CHECKS },
    Part { title: "Members of consumer groups", checks: members::CHECKS },
    Part { title: "Refused requests", checks: refusals::CHECKS },
    Part { title: "Store", checks: store::CHECKS },
    Part { title: "Replicas", checks: replicas::CHECKS },
    Part { title: "Settings", checks: settings::CHECKS },
    Part { title: "Certificates", checks: certificates::CHECKS },
    Part { title: "Machine", checks: machine::CHECKS },
];

/// All checks, in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Check> {
    PARTS.into_iter().flat_map(|part| part.checks)
}
