//! What the queue table tells of messages that lie in the log and in no queue any more: those of topics that were removed,
//! and those before the minimum of a queue that keeps its messages for a shorter time than the log.

use super::Survey;
use crate::queue::Extent;
use crate::queue::table::{self, Table};
use crate::recover::is_ours;
use std::collections::HashMap;
use std::io;

/// The newest queue table.
#[derive(Default)]
pub(super) struct Past {
    table: Table,
    /// The next opening believes it: the page is ours, nobody else had the store since, and the table is whole.
    pub(super) is_sure: bool,
    /// Topics whose files the next opening removes, as far as they are still there.
    pub(super) leaving: HashMap<Box<str>, u64>,
    /// The disk did not give the table. Empty then.
    pub(super) is_unreadable: bool,
}

impl Past {
    /// Fails with `NotFound` when the table the page names is not there.
    pub(super) fn of(survey: &Survey) -> io::Result<Self> {
        let (disk, root) = (&*survey.disk, &survey.root);
        let load =
            |generation| table::load(disk, root, generation)?.ok_or(io::Error::from(io::ErrorKind::NotFound));
        if let Some(mark) = survey.checkpoint.and_then(|page| page.mark)
            && is_ours(disk, root, mark)?
            && let Some((mut table, intended)) =
                Table::read(&load(mark.generation)?, mark.generation, mark.committed)
            && table.file_bytes == survey.queue_file_bytes
        {
            let leaving = intended.removed;
            table.removed.extend(leaving.clone());
            return Ok(Self { table, is_sure: true, leaving, is_unreadable: false });
        }
        Self::newest(survey)
    }

    /// What the newest table says when no page names it.
    pub(super) fn newest(survey: &Survey) -> io::Result<Self> {
        let (disk, root) = (&*survey.disk, &survey.root);
        let generation = table::newest_generation(disk, root)?.unwrap_or_default();
        let bytes = table::load(disk, root, generation)?.unwrap_or_default();
        Ok(Self { table: Table::read_whole(&bytes, generation), ..Self::default() })
    }

    /// For a table the disk does not give.
    pub(super) fn unreadable() -> Self {
        Self { is_unreadable: true, ..Self::default() }
    }

    /// What the table says of a queue.
    pub(super) fn extent(&self, topic: &str, queue_id: i32) -> Extent {
        let extent = self.table.queues.get(topic).and_then(|queues| queues.get(&queue_id));
        extent.copied().unwrap_or_default()
    }

    /// Whether a message at a position of the log is in its queue no more.
    pub(super) fn covers(&self, topic: &str, queue_id: i32, at: u64, number: u64) -> bool {
        self.table.removed.get(topic).is_some_and(|before| at < *before)
            || self.extent(topic, queue_id).is_past(at, number)
    }
}
