//! Offsets in a group with acting masters: what was committed at a slave while the master was away comes back to the master.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use wire::body::{ConsumerOffsetTable, DataVersion};

use super::file::{Table, committed};
use super::{Generation, Offsets, Position};
use crate::names;

/// The field of a commit (request 15) that counts only where it is larger than the committed offset. A slave that has acted sends it:
/// consumers may already have committed more at the master. Java's brokers do not know it.
pub(crate) const ONLY_RAISES: &str = "vostokOnlyRaises";

impl Offsets {
    /// The version of the table: of two brokers of a group, the one with the higher version has the newer offsets.
    pub(crate) fn version(&self) -> DataVersion {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the table is at least this new.
    pub(super) fn raise_version(&self, version: DataVersion) {
        let mut own = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        *own = version.max(*own);
    }

    /// This slave's table is the newest of its group from now on, at `now_ms` (milliseconds since 1970). Returns the generation after
    /// which [`Self::changed_after`] finds what is committed from now on.
    pub(crate) fn begin_acting(&self, now_ms: i64) -> Generation {
        let mut version = self.version();
        version.advance(version.state_version, now_ms);
        self.raise_version(version);
        self.changed.store(true, Ordering::Release);
        self.counter.begin()
    }

    /// Commits an offset where it is larger than the committed one, unless a reset is pending.
    pub(crate) fn raise(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.change(group, topic, queue_id, |position| {
            if position.reset.is_none() && position.committed.is_none_or(|own| own < offset) {
                position.committed = Some(offset);
            }
        });
    }

    /// Takes over the offsets of a slave that may have acted for this master; `is_known` says whether this broker has a topic and a
    /// group. Where the slave's table is as new as this one, the slave's offsets count, also those that somebody set back; else, and for
    /// the broker's own groups, the larger ones do, so that no commit is lost. (`BrokerPreOnlineService.syncMetadataReverse` drops an
    /// older table.)
    pub(crate) fn take_back(&self, mut table: ConsumerOffsetTable, is_known: impl Fn(&str, &str) -> bool) {
        let is_newest = table.data_version >= self.version();
        let mut offsets = committed(&mut table);
        offsets.retain(|key, _| key.split_once('@').is_some_and(|(topic, group)| is_known(topic, group)));
        let (own, of_users): (Table, Table) = offsets.into_iter().partition(|(key, _)| {
            key.split_once('@').is_some_and(|(_, group)| names::is_system_group(group))
        });
        let raise = |position: &mut Position, offset| {
            position.committed = Some(position.committed.map_or(offset, |own| own.max(offset)));
        };
        self.fill_table(own, raise);
        if is_newest {
            self.fill_table(of_users, |position, offset| position.committed = Some(offset));
        } else {
            self.fill_table(of_users, raise);
        }
        self.raise_version(table.data_version);
        self.changed.store(true, Ordering::Release);
    }
}
