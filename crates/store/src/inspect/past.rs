//! Messages in the log that left their queue, according to the queue table. They are messages of removed topics, and
//! messages before the minimum offset of a queue with a shorter retention than the log.

use super::survey::Survey;
use crate::queue::Extent;
use crate::queue::table::{self, QueueTable};
use crate::recover::is_ours;
use std::collections::HashMap;
use std::io;

/// Content of the newest queue table.
#[derive(Default)]
pub(super) struct NewestTable {
    table: QueueTable,
    /// Whether the next opening uses the table: Vostok wrote the checkpoint, no other program had the store since, and the
    /// table is whole.
    pub(super) is_sure: bool,
    /// Topics whose remaining files the next opening removes, with the log position of the removal.
    pub(super) leaving: HashMap<Box<str>, u64>,
    /// Whether the disk could not read the table, which is empty then.
    pub(super) is_unreadable: bool,
}

impl NewestTable {
    /// Loads the table that the `checkpoint` file names. Fails with `NotFound` if it does not exist.
    pub(super) fn of(survey: &Survey) -> io::Result<Self> {
        let (disk, root) = (&*survey.disk, &survey.root);
        let load =
            |generation| table::load(disk, root, generation)?.ok_or(io::Error::from(io::ErrorKind::NotFound));
        if let Some(mark) = survey.checkpoint.and_then(|page| page.mark)
            && is_ours(disk, root, mark)?
            && let Some((mut table, intended)) =
                QueueTable::read(&load(mark.generation)?, mark.generation, mark.committed)
            && table.file_bytes == survey.queue_file_bytes
        {
            let leaving = intended.removed;
            table.removed.extend(leaving.clone());
            return Ok(Self { table, is_sure: true, leaving, is_unreadable: false });
        }
        Self::newest(survey)
    }

    /// Loads the newest table if no `checkpoint` file names a table.
    pub(super) fn newest(survey: &Survey) -> io::Result<Self> {
        let (disk, root) = (&*survey.disk, &survey.root);
        let generation = table::newest_generation(disk, root)?.unwrap_or_default();
        let bytes = table::load(disk, root, generation)?.unwrap_or_default();
        Ok(Self { table: QueueTable::read_whole(&bytes, generation), ..Self::default() })
    }

    /// Placeholder of a table that the disk cannot read.
    pub(super) fn unreadable() -> Self {
        Self { is_unreadable: true, ..Self::default() }
    }

    /// The extent of a queue in the table.
    pub(super) fn extent(&self, topic: &str, queue_id: i32) -> Extent {
        let extent = self.table.queues.get(topic).and_then(|queues| queues.get(&queue_id));
        extent.copied().unwrap_or_default()
    }

    /// Whether a message at log position `at` has left its queue.
    pub(super) fn covers(&self, topic: &str, queue_id: i32, at: u64, number: u64) -> bool {
        self.table.removed.get(topic).is_some_and(|before| at < *before)
            || self.extent(topic, queue_id).is_past(at, number)
    }
}
