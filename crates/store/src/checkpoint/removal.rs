//! Removes a topic's queues (`DefaultMessageStore.deleteTopics`); see [`crate::queue::removal`].

use super::Checkpointer;
use crate::error::AppendError;
use crate::queue::removal::{DIRECTORIES, delete_numbered};
use crate::wake::lock;
use std::io;
use wire::units::QueueOffset;

impl Checkpointer<'_> {
    /// Removes the queues of a topic; see [`crate::Store::remove_topic`].
    pub(crate) fn remove_topic(&self, topic: &str) -> Result<usize, AppendError> {
        let removed = self.take_out(topic, None);
        if removed > 0 {
            self.make_durable(topic, removed)?;
        }
        Ok(removed)
    }

    /// Removes the queues of topics without new messages; see [`crate::Store::remove_ended_topics`].
    pub(crate) fn remove_ended_topics<'t>(
        &self,
        topics: &[(&'t str, QueueOffset)],
    ) -> (Vec<&'t str>, Result<(), AppendError>) {
        let mut removed = topics.to_vec();
        removed.retain(|(topic, end)| self.take_out(topic, Some(*end)) > 0);
        let names: Vec<&str> = removed.into_iter().map(|(topic, _)| topic).collect();
        let durable = names.first().map_or(Ok(()), |topic| self.make_durable(topic, names.len()));
        (names, durable)
    }

    fn make_durable(&self, topic: &str, queues: usize) -> Result<(), AppendError> {
        self.checkpoint_now().map_err(|interrupted| self.state.explain(interrupted))?;
        tracing::info!(topic, queues, "queues of topics were removed");
        Ok(())
    }

    /// Invalidates the handles of a topic's queues, and returns their number. The next checkpoint removes the files.
    /// A topic stays if `end` is given and the ends of its queues do not add up to `end`.
    fn take_out(&self, topic: &str, end: Option<QueueOffset>) -> usize {
        let mut rounds = lock(&self.checkpoints.rounds);
        // The lock excludes appends: the old topic's records lie before this log position, those of a re-created topic
        // behind it.
        let _appender = lock(self.appender);
        if end.is_some_and(|end| self.state.queues.topic_end(topic) != Some(end.get())) {
            return 0;
        }
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
