//! Round of the checkpoint: announces the pending changes of queue files in the queue table, writes the files, and
//! later commits both in the `checkpoint` file. See [`crate::queue::table`] for the table's files.

use super::Checkpointer;
use super::forget_removed;
use crate::checkpoint_file::Mark;
use crate::queue::files::SyncList;
use crate::queue::table::{self, Rows, TableFile};
use crate::queue::{Extent, Queue, batched};
use crate::state::Interruption;
use crate::wake::lock;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// State that a round passes to the next round.
#[derive(Default)]
pub(crate) struct Rounds {
    /// The queue table's file; `None` before the first announcement and after a failed write.
    journal: Option<TableFile>,
    /// Newest used generation number, with or without a valid file.
    pub(crate) generation: u64,
    /// Number of times the store was opened, this opening included.
    pub(crate) openings: u64,
    /// Queues written, or about to be, since the `checkpoint` file was last saved, with the extent their files will hold.
    planned: Vec<(Arc<Queue>, Extent)>,
    /// Topics removed since the `checkpoint` file was last saved, with the log position of the removal; their files must be
    /// deleted.
    pub(crate) removed: Vec<(Box<str>, u64)>,
    /// Queues whose files may hold invalid units after a crash.
    pub(crate) dirty: Vec<InvalidUnits>,
}

/// Queue with invalid units `from..until`.
pub(crate) struct InvalidUnits {
    pub(crate) queue: Arc<Queue>,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Rounds {
    pub(super) fn is_idle(&self) -> bool {
        self.dirty.is_empty() && self.removed.is_empty()
    }

    /// Drops the planned queues and the open file of the queue table, because recovery or a truncation made the
    /// table invalid. The next round begins a new generation.
    pub(crate) fn forget(&mut self) {
        self.planned.clear();
        self.journal = None;
    }

    fn mark(&self) -> Option<Mark> {
        let journal = self.journal.as_ref()?;
        let (generation, committed, openings) = (journal.generation, journal.at, self.openings);
        Some(Mark { generation, committed, openings, running: true })
    }
}

impl Checkpointer<'_> {
    /// Announces the units of records before log position `end` in the queue table and writes them to the queue files.
    /// Returns the queues.
    pub(crate) fn write_round(
        &self,
        rounds: &mut Rounds,
        end: u64,
        touched: &mut SyncList,
    ) -> Result<Vec<Arc<Queue>>, Interruption> {
        self.wipe_dirty(rounds, touched)?;
        let (gone, queues): (Vec<_>, Vec<_>) =
            self.state.queues.take_unwritten().into_iter().partition(|queue| queue.is_removed());
        let dropped = gone.iter().map(|queue| queue.drop_unwritten()).sum();
        self.state.queues.unwritten_units.fetch_sub(dropped, Ordering::Relaxed);
        rounds.planned.retain(|(queue, _)| !queue.is_removed());
        let mut plan: Vec<_> = queues.iter().map(|queue| (queue.clone(), queue.plan(end))).collect();
        if !rounds.planned.is_empty() {
            // An earlier round did not finish. Its writes are committed with this round.
            let known: HashSet<_> = queues.iter().map(Arc::as_ptr).collect();
            let others = rounds.planned.drain(..).filter(|(queue, _)| !known.contains(&Arc::as_ptr(queue)));
            plan.extend(others.map(|(queue, _)| (queue.clone(), queue.plan(end))));
        }
        let announced = self.announce(rounds, &plan);
        rounds.planned = plan;
        if let Err(interrupted) = announced {
            queues.iter().for_each(|queue| queue.relist(&self.state.queues.unwritten));
            return Err(interrupted);
        }
        if let Err(error) = self.delete_removed(rounds, touched) {
            queues.iter().for_each(|queue| queue.relist(&self.state.queues.unwritten));
            return Err(self.state.failed("deleting queue files", error));
        }
        for (index, queue) in queues.iter().enumerate() {
            match queue.write_tail(rounds.planned[index].1, &self.state.queues.unwritten, touched) {
                Ok(count) => drop(self.state.queues.unwritten_units.fetch_sub(count, Ordering::Relaxed)),
                Err(error) => {
                    queues[index..].iter().for_each(|queue| queue.relist(&self.state.queues.unwritten));
                    return Err(self.state.failed("writing queue files", error));
                }
            }
        }
        Ok(queues)
    }

    /// Deletes the queue files of removed topics. The queue table has announced these removals.
    fn delete_removed(&self, rounds: &Rounds, touched: &mut SyncList) -> io::Result<()> {
        if !rounds.removed.is_empty() {
            forget_removed(&mut lock(&self.state.queues.fresh));
        }
        for (topic, _) in &rounds.removed {
            touched.forget_below(&self.state.queues.directory.join(&**topic));
            touched.forget_below(&self.state.queues.batched_directory.join(&**topic));
            touched.forget_below(&self.state.config.root.join(batched::JAVA_DIR).join(&**topic));
            self.delete_queue_files(topic)?;
        }
        Ok(())
    }

    /// Wipes invalid units that a crash left in queue files, before any other write.
    fn wipe_dirty(&self, rounds: &mut Rounds, touched: &mut SyncList) -> Result<(), Interruption> {
        if rounds.dirty.is_empty() {
            return Ok(());
        }
        for InvalidUnits { queue, from, until } in
            rounds.dirty.iter().filter(|dirty| !dirty.queue.is_removed())
        {
            let wiped = queue.wipe(*from, *until, touched);
            wiped.map_err(|error| self.state.failed("wiping queue files", error))?;
        }
        // Sync now, because the next queue table no longer lists these units.
        self.sync_touched(touched)?;
        rounds.dirty.clear();
        Ok(())
    }

    /// Makes durable in the queue table which queues will be written.
    fn announce(&self, rounds: &mut Rounds, plan: &[(Arc<Queue>, Extent)]) -> Result<(), Interruption> {
        if plan.is_empty()
            && rounds.removed.is_empty()
            && (rounds.journal.is_some() || lock(&self.state.page).mark.is_some())
        {
            return Ok(());
        }
        let mut rows = self.rows();
        rounds.removed.iter().for_each(|(topic, before)| rows.add_removed(topic, *before));
        plan.iter().for_each(|(queue, extent)| rows.add(queue.topic(), queue.queue_id(), *extent));
        let added = match &mut rounds.journal {
            Some(journal) => journal.add(&rows),
            None => Ok(false),
        };
        let done = match added {
            Ok(false) => self.roll(rounds, Some(&rows)),
            Ok(true) => return Ok(()),
            Err(error) => Err(error),
        };
        match done {
            Ok(mark) => self.state.save_page(|page| page.mark = Some(mark)),
            Err(error) => {
                // The queue table is optional: without it the next opening loads the queues from their files.
                tracing::warn!(%error, "the queue table cannot be written; starting again will take longer");
                rounds.journal = None;
                self.state.save_page(|page| page.mark = None)
            }
        }?;
        if let Some(journal) = &rounds.journal {
            let removed =
                table::remove_others(&*self.state.disk, &self.state.config.root, journal.generation);
            removed.unwrap_or_else(|error| tracing::warn!(%error, "an old queue table stays"));
        }
        Ok(())
    }

    fn rows(&self) -> Rows {
        Rows::new(self.state.log.min(), self.state.config.queue_file_bytes)
    }

    /// Begins the next generation of the queue table: a base of all committed queues, then these rows. Returns the
    /// mark with which the `checkpoint` file makes the new generation valid.
    fn roll(&self, rounds: &mut Rounds, rows: Option<&Rows>) -> io::Result<Mark> {
        let mut base = self.rows();
        // Tombstones come before the queues: queues of a re-created topic of the same name follow its tombstone.
        for (topic, before) in self.state.queues.tombstones.all(self.state.log.min()) {
            base.add_removed(&topic, before);
        }
        for queue in self.state.queues.all() {
            let extent = queue.committed();
            if extent.max > 0 {
                base.add(queue.topic(), queue.queue_id(), extent);
            }
        }
        rounds.generation += 1;
        rounds.journal = None;
        let room = rows.map_or(0, Rows::size);
        let root = &self.state.config.root;
        let journal = rounds.journal.insert(TableFile::create(
            &*self.state.disk,
            root,
            rounds.generation,
            &base,
            room,
        )?);
        let committed = journal.at;
        if let Some(rows) = rows {
            let added = journal.add(rows)?;
            assert!(added, "a new table has room for a record");
        }
        Ok(Mark { generation: rounds.generation, committed, openings: rounds.openings, running: true })
    }

    /// Commits in the `checkpoint` file the announced queues and the durable log. `newest` has the
    /// log position up to which the log is durable, and the newest record's store time in ms and
    /// log position.
    pub(crate) fn commit(&self, rounds: &mut Rounds, newest: (u64, i64, u64)) -> Result<(), Interruption> {
        let (end, store_timestamp, last_record) = newest;
        let before = *lock(&self.state.page);
        let mark = rounds.mark().or(before.mark);
        let is_confirmed = before.confirm_phy_offset == self.confirm_at(end, last_record).cast_signed();
        if before.logics_physical_offset != end.cast_signed() || before.mark != mark || !is_confirmed {
            self.state.save_page(|page| {
                if last_record > 0 || end > 0 {
                    page.physic_msg_timestamp = store_timestamp;
                    page.logics_msg_timestamp = store_timestamp;
                    page.confirm_phy_offset = self.confirm_at(end, last_record).cast_signed();
                    page.newest = self.state.config.controller_mode.then_some(last_record.cast_signed());
                }
                page.logics_physical_offset = end.cast_signed();
                page.mark = mark;
            })?;
        }
        rounds.removed.clear();
        rounds.planned.drain(..).for_each(|(queue, extent)| queue.commit(extent));
        Ok(())
    }

    /// The checkpoint's `confirmPhyOffset` for a log that is durable up to `end`: in controller mode the confirm offset, as in
    /// `CommitLog.setConfirmOffset`, otherwise the newest record.
    pub(super) fn confirm_at(&self, end: u64, last_record: u64) -> u64 {
        if self.state.config.controller_mode { self.state.confirmed.get().min(end) } else { last_record }
    }

    /// Saves the last `checkpoint` file of a clean stop: the queue table is complete, there is no unit journal, and the store
    /// is not open.
    pub(crate) fn commit_clean(&self) -> Result<(), Interruption> {
        let rounds = &mut *lock(&self.checkpoints.rounds);
        let mut mark = rounds.mark().or(lock(&self.state.page).mark);
        if rounds.journal.as_ref().is_some_and(TableFile::is_long) {
            match self.roll(rounds, None) {
                Ok(compact) => mark = Some(compact),
                // An uncompacted queue table is correct too.
                Err(error) => tracing::warn!(%error, "the queue table was not compacted"),
            }
        }
        if let Err(error) = self.remove_journal() {
            tracing::warn!(%error, "the unit journal stays; it holds nothing the queue files do not");
        }
        let Some(mark) = mark else { return Ok(()) };
        self.state.save_page(|page| page.mark = Some(Mark { running: false, ..mark }))?;
        let removed = table::remove_others(&*self.state.disk, &self.state.config.root, mark.generation);
        removed.unwrap_or_else(|error| tracing::warn!(%error, "an old queue table stays"));
        Ok(())
    }
}
