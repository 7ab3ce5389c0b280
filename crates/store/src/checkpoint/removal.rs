//! Removes a topic's queues (`DefaultMessageStore.deleteTopics`); see [`crate::queue::removal`].

use super::Checkpointer;
use crate::error::AppendError;
use crate::queue::removal::{DIRECTORIES, delete_numbered};
use crate::wake::lock;
use std::io;

impl Checkpointer<'_> {
    /// Removes the queues of topics; see [`crate::Store::remove_topics`].
    pub(crate) fn remove_topics(&self, topics: &[&str]) -> Result<usize, AppendError> {
        let removed: usize = topics.iter().map(|topic| self.take_out(topic)).sum();
        if removed == 0 {
            return Ok(0);
        }
        self.checkpoint_now().map_err(|interrupted| self.state.explain(interrupted))?;
        tracing::info!(
            topic = topics[0],
            topics = topics.len(),
            queues = removed,
            "queues of topics were removed"
        );
        Ok(removed)
    }

    /// Makes the queues of a topic useless and returns their number. Their files go with the next checkpoint.
    fn take_out(&self, topic: &str) -> usize {
        let mut rounds = lock(&self.checkpoints.rounds);
        // The lock excludes appends: the old topic's records lie before this log position, those of a re-created topic
        // behind it.
        let _appender = lock(self.appender);
        let removed = self.state.queues.take_topic(topic);
        self.state.queues.forget_batched(topic);
        if removed.is_empty() {
            return 0;
        }
        removed.iter().for_each(|queue| queue.remove());
        let before = self.state.appended.get();
        self.state.queues.tombstones.insert(topic, before);
        rounds.removed.push((topic.into(), before));
        removed.len()
    }

    /// Deletes the queue files of a removed topic. No files of a re-created topic of that name exist yet.
    pub(crate) fn delete_queue_files(&self, topic: &str) -> io::Result<()> {
        for kind in DIRECTORIES {
            let directory = self.state.config.root.join(kind).join(topic);
            self.state.queues.open.forget_below(&directory);
            delete_numbered(&*self.state.disk, &directory)?;
        }
        Ok(())
    }
}
