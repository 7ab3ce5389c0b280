//! Which versions of the master's tables its slaves have. What an answer says of topics, groups and offsets must outlive the master,
//! so in controller mode such answers wait for the slaves of the in-sync set, one of which the controllers elect next.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use wire::ha::BrokerId;

use crate::clock::within;

/// How long a new master waits for slaves that have not asked for its tables yet, in milliseconds. One that has not by then is
/// RocketMQ's, which takes tables in its own intervals.
const UNHEARD_MS: i64 = 3_000;

/// Versions of the tables of a master, as its process counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableVersions {
    /// Generation of the offsets of groups.
    pub offsets: u64,
    /// Generation of the topics.
    pub topics: u64,
    /// Generation of the groups.
    pub groups: u64,
}

impl TableVersions {
    /// Whether no table is older than in `other`.
    fn covers(&self, other: &Self) -> bool {
        self.offsets >= other.offsets && self.topics >= other.topics && self.groups >= other.groups
    }

    /// Whether a table is newer than in `other`.
    pub(crate) fn is_newer_than(&self, other: &Self) -> bool {
        !other.covers(self)
    }
}

/// The versions that the slaves have.
#[derive(Default)]
pub(crate) struct TableCopies(watch::Sender<Copies>);

#[derive(Default)]
struct Copies {
    /// Since when this broker is master, in milliseconds since 1970.
    since_ms: i64,
    slaves: BTreeMap<BrokerId, TableVersions>,
}

impl Copies {
    fn have(&self, slaves: &[BrokerId], wanted: &TableVersions, now_ms: i64) -> bool {
        slaves.iter().all(|slave| match self.slaves.get(slave) {
            Some(versions) if *versions != TableVersions::default() => versions.covers(wanted),
            _ => now_ms - self.since_ms >= UNHEARD_MS,
        })
    }
}

impl TableCopies {
    /// This broker becomes master: what slaves have of its tables is not known.
    pub(crate) fn begin(&self, now_ms: i64) {
        self.0.send_replace(Copies { since_ms: now_ms, slaves: BTreeMap::new() });
    }

    /// A slave has these versions.
    pub(crate) fn note(&self, slave: BrokerId, versions: TableVersions) {
        self.0.send_if_modified(|copies| copies.slaves.insert(slave, versions) != Some(versions));
    }

    /// Whether these slaves have at least the wanted versions.
    pub(crate) fn have(&self, slaves: &[BrokerId], wanted: &TableVersions, now_ms: i64) -> bool {
        self.0.borrow().have(slaves, wanted, now_ms)
    }

    /// Waits until a slave takes tables, at most for `patience`.
    pub(crate) async fn wait(&self, patience: Duration) {
        let mut copies = self.0.subscribe();
        within(patience, copies.changed()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slaves_of_the_set_have_what_they_asked_beyond() {
        let copies = TableCopies::default();
        let [one, two] = [BrokerId::new(2), BrokerId::new(3)];
        let versions = |offsets, topics| TableVersions { offsets, topics, groups: 1 };
        copies.begin(10_000);
        let have = |slaves: &[_], wanted, now_ms| copies.have(slaves, &wanted, now_ms);
        assert!(have(&[], versions(9, 9), 10_000), "a master alone waits for nobody");
        assert!(!have(&[one], versions(1, 1), 12_999), "the slave has not been heard of");
        assert!(have(&[one], versions(1, 1), 13_000), "it is RocketMQ's");
        copies.note(one, TableVersions::default());
        copies.note(one, versions(4, 2));
        assert!(have(&[one], versions(4, 2), 10_000) && have(&[one], versions(3, 1), 99_999));
        assert!(!have(&[one], versions(5, 2), 99_999) && !have(&[one], versions(4, 3), 99_999));
        copies.note(two, versions(5, 1));
        assert!(!have(&[one, two], versions(4, 2), 99_999), "the second one lacks topics");
        copies.begin(20_000);
        assert!(!have(&[one], versions(1, 1), 20_000), "after an election everything is asked again");
    }
}
