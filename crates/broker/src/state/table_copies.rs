//! Versions of the master's tables that its slaves have. Topics, groups and offsets in a response must outlive the
//! master. So in controller mode such responses wait for the slaves of the in-sync set, among which the controllers
//! elect the next master.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::watch;
use wire::ha::BrokerId;

/// Time for which responses wait for a slave that has not requested the tables. Vostok's slaves request them within
/// milliseconds. RocketMQ's slaves never do, and later responses do not wait for them.
const UNHEARD: Duration = Duration::from_millis(1_500);

/// Time for which responses wait for a slave that requested the tables before. It runs Vostok, unless the operator
/// has replaced its program.
const UNHEARD_OF_OURS: Duration = Duration::from_secs(30);

/// Most slaves with known copies. A master has at most as many connections for slaves.
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
    /// Counter of the times at which slaves had to report their versions again.
    expectations: watch::Sender<u64>,
    /// Slaves that made the last response wait until its timeout.
    silent: watch::Sender<Vec<BrokerId>>,
    /// Number of entries of groups and topics in the last search for changed offsets.
    pub entries: AtomicU64,
}

/// The versions that the slaves have, by slave.
#[derive(Default)]
pub(crate) struct Copies {
    /// Time at which this broker became master, on the steady clock.
    since: Duration,
    slaves: BTreeMap<BrokerId, Copy>,
}

#[derive(Clone, Copy, Default)]
struct Copy {
    /// Versions of a slave. `None` for a slave without a report since it was expected.
    versions: Option<TableVersions>,
    /// Time since which a report of the slave is expected.
    since: Duration,
    /// Whether the slave has ever asked for the tables.
    is_ours: bool,
    /// When the slave asked for the tables last.
    asked: Duration,
    /// Time of the last search for changes for the slave.
    looked: Duration,
}

impl Copy {
    fn covers(&self, wanted: &TableVersions, now: Duration) -> bool {
        let patience = if self.is_ours { UNHEARD_OF_OURS } else { UNHEARD };
        match &self.versions {
            Some(versions) => versions.covers(wanted),
            None => now.saturating_sub(self.since) >= patience,
        }
    }
}

impl TableCopies {
    /// Resets the slaves' versions, because this broker becomes master at `now`.
    pub(crate) fn begin(&self, now: Duration) {
        self.copies.send_replace(Copies { since: now, slaves: BTreeMap::new() });
    }

    /// Records that a slave's request at `now` contains these versions. Returns false if the number of known slaves
    /// is at its limit.
    pub(crate) fn note(&self, slave: BrokerId, versions: TableVersions, now: Duration) -> bool {
        let mut is_known = true;
        self.copies.send_if_modified(|copies| {
            is_known = copies.slaves.contains_key(&slave) || copies.slaves.len() < SLAVES_MAX;
            let copy = if is_known { copies.slaves.entry(slave).or_default() } else { return false };
            (copy.is_ours, copy.asked) = (true, now);
            copy.versions.replace(versions) != Some(versions)
        });
        is_known
    }

    /// Discards these slaves' versions at `now`, because their processes may be new. Waiting requests of slaves are
    /// answered, so that the slaves ask again.
    pub(crate) fn expect(&self, slaves: &BTreeSet<BrokerId>, now: Duration) {
        self.copies.send_modify(|copies| {
            for slave in slaves {
                if copies.slaves.len() >= SLAVES_MAX && !copies.slaves.contains_key(slave) {
                    copies.slaves.retain(|_, copy| copy.versions.is_some());
                }
                let copy = copies.slaves.entry(*slave).or_insert(Copy { since: now, ..Copy::default() });
                if copy.versions.take().is_some() {
                    copy.since = now;
                }
            }
        });
        self.expectations.send_modify(|count| *count += 1);
    }

    /// Returns a receiver that is notified when slaves have to report their versions again.
    pub(crate) fn expectations(&self) -> watch::Receiver<u64> {
        self.expectations.subscribe()
    }

    /// Records a search for changes for a slave at `now`, and returns the time of the preceding search.
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
    pub(crate) fn cover<'a>(
        &self,
        slaves: impl IntoIterator<Item = &'a BrokerId>,
        wanted: &TableVersions,
        now: Duration,
    ) -> bool {
        let copies = self.copies.borrow();
        let unknown = Copy { since: copies.since, ..Copy::default() };
        slaves.into_iter().all(|slave| copies.slaves.get(slave).unwrap_or(&unknown).covers(wanted, now))
    }

    /// Reports slaves for which a response has waited since `since` and that have not even requested the wanted
    /// versions. Watchers of [`Self::silent`] get them. A slave with a request may be taking a large table.
    pub(crate) fn note_silent(&self, slaves: &[BrokerId], wanted: &TableVersions, since: Duration) {
        let is_silent = |copy: &Copy| {
            copy.asked < since && copy.versions.is_none_or(|versions| wanted.is_newer_than(&versions))
        };
        let copies = self.copies.borrow();
        let ours = slaves
            .iter()
            .filter(|slave| copies.slaves.get(slave).is_some_and(|copy| copy.is_ours && is_silent(copy)));
        let silent: Vec<BrokerId> = ours.copied().collect();
        drop(copies);
        if !silent.is_empty() {
            self.silent.send_replace(silent);
        }
    }

    /// Returns a receiver that gets the slaves that made a response wait until its timeout.
    pub(crate) fn silent(&self) -> watch::Receiver<Vec<BrokerId>> {
        self.silent.subscribe()
    }

    /// Returns a receiver that has the versions and is notified of changes.
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
        copies.note(one, TableVersions::default(), at(0));
        assert!(!cover(&[one], versions(1, 1), 99_999), "it asks and has nothing yet");
        copies.note(one, versions(4, 2), at(0));
        assert!(cover(&[one], versions(4, 2), 10_000) && cover(&[one], versions(3, 1), 99_999));
        assert!(!cover(&[one], versions(5, 2), 99_999) && !cover(&[one], versions(4, 3), 99_999));
        copies.note(two, versions(5, 1), at(0));
        assert!(!cover(&[one, two], versions(4, 2), 99_999), "the second one lacks topics");
        copies.begin(at(20_000));
        assert!(!cover(&[one], versions(1, 1), 20_000), "after an election everything is asked again");
    }

    #[test]
    fn a_slave_that_comes_back_says_anew_what_it_has() {
        let copies = TableCopies::default();
        let [ours, javas] = [2, 3].map(BrokerId::new);
        let all = TableVersions { offsets: 9, topics: 9, groups: 9 };
        let at = Duration::from_millis;
        let covers = |slave, now_ms| copies.cover(&[slave], &all, at(now_ms));
        copies.begin(at(0));
        copies.note(ours, all, at(0));
        assert!(covers(ours, 50_000) && covers(javas, 50_000));
        let expectations = copies.expectations();
        copies.expect(&[ours, javas].into(), at(50_000));
        assert!(expectations.has_changed().unwrap());
        assert!(!covers(ours, 51_500), "its process may have begun anew");
        assert!(!covers(javas, 51_499) && covers(javas, 51_500));
        // The silence counts from the first time on.
        copies.expect(&[ours, javas].into(), at(57_000));
        assert!(!covers(ours, 79_999) && covers(javas, 57_000) && covers(ours, 80_000));
        copies.note(ours, TableVersions::default(), at(0));
        assert!(!covers(ours, 99_999));
        copies.note(ours, all, at(0));
        assert!(covers(ours, 57_001));
    }

    #[test]
    fn a_slave_that_asks_no_more_is_silent() {
        let copies = TableCopies::default();
        let [hung, takes, javas] = [2, 3, 4].map(BrokerId::new);
        let at = Duration::from_millis;
        let wanted = TableVersions { topics: 5, ..TableVersions::default() };
        let mut silent = copies.silent();
        copies.begin(at(0));
        for slave in [hung, takes] {
            copies.note(slave, TableVersions { topics: 4, ..TableVersions::default() }, at(900));
        }
        copies.note(takes, TableVersions::default(), at(2_500));
        copies.note_silent(&[takes, javas], &wanted, at(1_000));
        assert!(!silent.has_changed().unwrap(), "one is taking the tables, one is RocketMQ's");
        copies.note_silent(&[hung, takes, javas], &wanted, at(1_000));
        assert_eq!(*silent.borrow_and_update(), [hung]);
        copies.note(hung, wanted, at(3_000));
        copies.note_silent(&[hung], &wanted, at(4_000));
        assert!(!silent.has_changed().unwrap(), "it has what was wanted");
    }

    #[test]
    fn made_up_slaves_are_not_remembered_without_end() {
        let copies = TableCopies::default();
        let all = |range: std::ops::Range<u64>| {
            range.map(BrokerId::new).all(|id| copies.note(id, TableVersions::default(), Duration::ZERO))
        };
        assert!(all(0..64));
        assert!(!all(64..65) && all(0..64));
        copies.begin(Duration::ZERO);
        let expected: BTreeSet<_> = (0..200).map(BrokerId::new).collect();
        copies.expect(&expected, Duration::ZERO);
        assert!(copies.changes().borrow().slaves.len() <= SLAVES_MAX);
    }
}
