//! The table of checks, by what they look at. A new check is a row in one of the parts and a fault in the tests.

mod certificates;
mod groups;
mod lite;
mod lost;
mod members;
mod reach;
mod refusals;
mod replicas;
mod settings;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use super::bilingual::Both;
use super::finding::Check;
use super::machine;

/// A part of the table with its title.
pub(crate) struct Part {
    pub title: Both,
    pub checks: &'static [Check],
}

/// All checks.
pub(crate) const PARTS: [Part; 11] = [
    Part { title: ("Reach", "可达性"), checks: reach::CHECKS },
    Part { title: ("Lost servers", "离线的服务器"), checks: lost::CHECKS },
    Part { title: ("Consumer groups", "消费组"), checks: groups::CHECKS },
    Part { title: ("Lite topics", "lite topic"), checks: lite::CHECKS },
    Part { title: ("Members of consumer groups", "消费组成员"), checks: members::CHECKS },
    Part { title: ("Refused requests", "被拒绝的请求"), checks: refusals::CHECKS },
    Part { title: ("Store", "存储"), checks: store::CHECKS },
    Part { title: ("Replicas", "副本"), checks: replicas::CHECKS },
    Part { title: ("Settings", "配置"), checks: settings::CHECKS },
    Part { title: ("Certificates", "证书"), checks: certificates::CHECKS },
    Part { title: ("Machine", "机器"), checks: machine::CHECKS },
];

/// All checks, in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Check> {
    PARTS.into_iter().flat_map(|part| part.checks)
}
