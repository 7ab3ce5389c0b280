//! Which versions of the master's tables its slaves have. What an answer says of topics, groups and offsets must outlive the master,
//! so in controller mode such answers wait for the slaves of the in-sync set, one of which the controllers elect next.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::watch;
use wire::ha::BrokerId;

/// How long answers of a new master wait for a slave that has not asked for its tables. Vostok's slaves ask within milliseconds;
/// RocketMQ's never do, and are not waited for afterwards.
const UNHEARD: Duration = Duration::from_millis(1_500);

/// Most slaves whose copies are known; a master has as many connections for slaves at most.
const SLAVES_MAX: usize = 64;

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
pub(crate) struct TableCopies {
    copies: watch::Sender<Copies>,
    /// How many entries of groups and topics the last look for changed offsets went through.
    pub entries: AtomicU64,
}

/// The versions that the slaves have, by slave.
#[derive(Default)]
pub(crate) struct Copies {
    /// When this broker became master, on the clock that does not follow when the system's is set.
    since: Duration,
    slaves: BTreeMap<BrokerId, Copy>,
}

#[derive(Clone, Copy, Default)]
struct Copy {
    versions: TableVersions,
    /// When changes were last looked up for the slave.
    looked: Duration,
}

impl TableCopies {
    /// This broker becomes master at `now`: what slaves have of its tables is not known.
    pub(crate) fn begin(&self, now: Duration) {
        self.copies.send_replace(Copies { since: now, slaves: BTreeMap::new() });
    }

    /// A slave says that it has these versions. False when that many slaves are known already that this one is left out.
    pub(crate) fn note(&self, slave: BrokerId, versions: TableVersions) -> bool {
        let mut is_known = true;
        self.copies.send_if_modified(|copies| {
            is_known = copies.slaves.contains_key(&slave) || copies.slaves.len() < SLAVES_MAX;
            let copy = if is_known { copies.slaves.entry(slave).or_default() } else { return false };
            std::mem::replace(&mut copy.versions, versions) != versions
        });
        is_known
    }

    /// Notes that changes are looked up for a slave at `now`, and returns when that was done before.
    pub(crate) fn note_look(&self, slave: BrokerId, now: Duration) -> Duration {
        let mut before = Duration::ZERO;
        self.copies.send_if_modified(|copies| {
            if let Some(copy) = copies.slaves.get_mut(&slave) {
                before = std::mem::replace(&mut copy.looked, now);
            }
            false
        });
        before
    }

    /// Whether these slaves have at least the wanted versions at `now`.
    pub(crate) fn cover(&self, slaves: &[BrokerId], wanted: &TableVersions, now: Duration) -> bool {
        let copies = self.copies.borrow();
        slaves.iter().all(|slave| match copies.slaves.get(slave) {
            Some(copy) => copy.versions.covers(wanted),
            None => now.saturating_sub(copies.since) >= UNHEARD,
        })
    }

    /// The versions and their changes.
    pub(crate) fn changes(&self) -> watch::Receiver<Copies> {
        self.copies.subscribe()
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
        let at = Duration::from_millis;
        copies.begin(at(10_000));
        let cover = |slaves: &[_], wanted, now_ms| copies.cover(slaves, &wanted, at(now_ms));
        assert!(cover(&[], versions(9, 9), 10_000), "a master alone waits for nobody");
        assert!(!cover(&[one], versions(1, 1), 11_499), "the slave has not been heard of");
        assert!(cover(&[one], versions(1, 1), 11_500), "it is RocketMQ's");
        copies.note(one, TableVersions::default());
        assert!(!cover(&[one], versions(1, 1), 99_999), "it asks and has nothing yet");
        copies.note(one, versions(4, 2));
        assert!(cover(&[one], versions(4, 2), 10_000) && cover(&[one], versions(3, 1), 99_999));
        assert!(!cover(&[one], versions(5, 2), 99_999) && !cover(&[one], versions(4, 3), 99_999));
        copies.note(two, versions(5, 1));
        assert!(!cover(&[one, two], versions(4, 2), 99_999), "the second one lacks topics");
        copies.begin(at(20_000));
        assert!(!cover(&[one], versions(1, 1), 20_000), "after an election everything is asked again");
    }

    #[test]
    fn made_up_slaves_are_not_remembered_without_end() {
        let copies = TableCopies::default();
        let all = |range: std::ops::Range<u64>| {
            range.map(BrokerId::new).all(|id| copies.note(id, TableVersions::default()))
        };
        assert!(all(0..64));
        assert!(!all(64..65) && all(0..64));
    }
}
