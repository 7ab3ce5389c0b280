//! Changes in the tables of a master (`VOSTOK_TABLE_CHANGES`, which only Vostok has).

use serde::{Deserialize, Serialize};

use super::{ConsumerOffsetTable, SubscriptionGroupTable, TopicTable};

/// The changes of one table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableDelta<T> {
    /// Removed keys. In a table of offsets, `@group` means all offsets of a group and `topic@` all offsets in a
    /// topic. Removals apply before `table`, which may hold a key that was removed and created again.
    pub gone: Vec<String>,
    /// Whether `table` is the whole table, so that all keys outside it are removed.
    pub is_whole: bool,
    /// The entries that were changed or made, with their present values; all entries when `is_whole`.
    pub table: T,
}

/// Response to a slave that asks for changes, or one part of the response.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableChanges {
    /// Configurations of groups. The part has the whole `forbidden_table`: the permissions in topics that operators
    /// took from groups. Absent in a part about other tables only.
    pub groups: Option<TableDelta<SubscriptionGroupTable>>,
    /// End of this part: the table and key of its last entry. Only the master interprets the text: the slave
    /// sends it to get the next part. Absent in the last part.
    pub more: Option<String>,
    /// Offsets that groups committed, by `topic@group`. Absent in a part about other tables only.
    pub offsets: Option<TableDelta<ConsumerOffsetTable>>,
    /// Configurations of topics. Absent in a part about other tables only.
    pub topics: Option<TableDelta<TopicTable>>,
}

impl TableChanges {
    /// Appends the next part. Returns false if the parts do not fit together, because the master lost or regained its
    /// list of changes in between.
    #[must_use]
    pub fn extend(&mut self, next: Self) -> bool {
        self.more = next.more;
        join(&mut self.topics, next.topics, |table, next| {
            table.topic_config_table.extend(next.topic_config_table);
        }) && join(&mut self.groups, next.groups, |table, next| {
            table.subscription_group_table.extend(next.subscription_group_table);
        }) && join(&mut self.offsets, next.offsets, |table, next| {
            table.offset_table.extend(next.offset_table);
        })
    }
}

fn join<T>(
    changed: &mut Option<TableDelta<T>>,
    next: Option<TableDelta<T>>,
    extend: impl FnOnce(&mut T, T),
) -> bool {
    match (changed, next) {
        (_, None) => true,
        (changed @ None, next) => {
            *changed = next;
            true
        }
        (Some(changed), Some(next)) if changed.is_whole == next.is_whole => {
            changed.gone.extend(next.gone);
            extend(&mut changed.table, next.table);
            true
        }
        _ => false,
    }
}
