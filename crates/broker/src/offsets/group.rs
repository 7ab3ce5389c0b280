//! Offsets in a group with acting masters: offsets that were committed at a slave during the master's absence return
//! to the master.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use wire::body::{ConsumerOffsetTable, DataVersion};

use super::file::{Table, committed};
use super::{Generation, Offsets, Position};
use crate::names;

/// Field of a commit (request 15) that makes it count only if it is larger than the committed offset. A slave that
/// has acted sends it, because consumers may already have committed more at the master. Java's brokers do not know
/// it.
pub(crate) const ONLY_RAISES: &str = "vostokOnlyRaises";

impl Offsets {
    /// Returns the version of the table. Among two brokers of a group, the broker with the higher version has the
    /// newer offsets.
    pub(crate) fn version(&self) -> DataVersion {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises the version of the table to at least `version`.
    pub(super) fn raise_version(&self, version: DataVersion) {
        let mut own = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        *own = version.max(*own);
    }

    /// Marks this slave's table as the newest of its group at `now_ms` (milliseconds since 1970). Returns the
    /// generation after which [`Self::changed_after`] finds later commits.
    pub(crate) fn begin_acting(&self, now_ms: i64) -> Generation {
        let mut version = self.version();
        version.advance(version.state_version, now_ms);
        self.raise_version(version);
        self.changed.store(true, Ordering::Release);
        self.counter.begin()
    }

    /// Commits an offset if it is larger than the committed offset, unless a reset is pending.
    pub(crate) fn raise(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.change(group, topic, queue_id, |position| {
            if position.reset.get().is_none() && position.committed.get().is_none_or(|own| own < offset) {
                position.committed.replace(offset);
            }
        });
    }

    /// Takes over the offsets of a slave that may have acted for this master. `is_known` returns whether this broker
    /// has a topic and a group. If the slave's table is as new as this table, the slave's offsets count, including
    /// offsets that were reset to smaller values. Otherwise, and for the broker's own groups, the larger offsets
    /// count, so that no commit is lost. (`BrokerPreOnlineService.syncMetadataReverse` drops an older table.)
    pub(crate) fn take_back(&self, mut table: ConsumerOffsetTable, is_known: impl Fn(&str, &str) -> bool) {
        let is_newest = table.data_version >= self.version();
        let mut offsets = committed(&mut table);
        offsets.retain(|key, _| key.split_once('@').is_some_and(|(topic, group)| is_known(topic, group)));
        let (own, of_users): (Table, Table) = offsets.into_iter().partition(|(key, _)| {
            key.split_once('@').is_some_and(|(_, group)| names::is_system_group(group))
        });
        let raise = |position: &mut Position, offset| {
            position.committed.replace(position.committed.get().map_or(offset, |own| own.max(offset)));
        };
        self.fill_table(own, raise);
        if is_newest {
            self.fill_table(of_users, |position, offset| _ = position.committed.replace(offset));
        } else {
            self.fill_table(of_users, raise);
        }
        self.raise_version(table.data_version);
        self.changed.store(true, Ordering::Release);
    }
}
