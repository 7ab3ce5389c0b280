//! Topics and queues by name, light queues included; the state of light queues is [`crate::state::Light`].

use std::sync::Arc;

use store::Batch;
use wire::properties::{self, key};

use super::Tables;
use crate::Result;
use crate::config::Config;
use crate::names::{self, is_light};
use crate::topics::{Queue, Topic};

/// Most light queues without `enableLmqQuota`. Each takes about 1.5 KB of memory.
const QUEUES_MAX: usize = 1_000_000;

/// The bound of light queues: `maxLmqConsumeQueueNum`, and not less than [`QUEUES_MAX`] without `enableLmqQuota`.
fn queues_max(config: &Config) -> usize {
    let least = if config.light.quota { 0 } else { QUEUES_MAX };
    config.light.queues_max.max(least)
}

impl Tables {
    /// Returns a topic that clients may read: a topic of the table, or a light queue.
    pub(crate) fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        let found = self.topics.find(name);
        if found.is_some() || !(self.light.is_served() && is_light(name)) {
            return found;
        }
        self.light.find(name).or_else(|| self.light.find_or_make(name, &self.store, self.clock.now_ms()))
    }

    /// Creates the light queues that a message names; refuses the message when there would be too many.
    pub(crate) fn admit_light(&self, config: &Config, stored: &[u8]) -> Result<()> {
        if !self.light.is_served() {
            return Ok(());
        }
        let Some(names) = properties::get_str(stored, key::INNER_MULTI_DISPATCH) else { return Ok(()) };
        let mut names = names.split(',').filter(|name| is_light(name));
        names.try_for_each(|name| self.light.admit(name, &self.store, queues_max(config)))
    }

    /// Whether a client subscribes to a queue as a lite topic.
    fn is_lite_watched(&self, queue: &store::Queue) -> bool {
        names::lite_parts(queue.topic()).is_some() && !self.lite.groups_of(queue.topic()).is_empty()
    }

    /// The further queues named by the messages of a batch, as far as clients may wait at them.
    pub(crate) fn further_queues(&self, batch: &Batch) -> Vec<Arc<Queue>> {
        if !self.light.is_served() {
            return Vec::new();
        }
        let named = (0..batch.len()).flat_map(|index| batch.multi_queues(index));
        let waited = |queue: &Arc<store::Queue>| {
            // A light queue that was never pulled from has no waiting client.
            let topic = self.light.find(queue.topic()).or_else(|| self.topics.find(queue.topic()))?;
            topic.queue(&self.store, queue.queue_id()).cloned()
        };
        let lite = (0..batch.len()).flat_map(|index| batch.multi_queues(index));
        let lite = lite.filter(|queue| self.is_lite_watched(queue));
        let lite = lite.map(|queue| Arc::new(Queue::lite(queue.clone())));
        let mut queues: Vec<Arc<Queue>> = named.filter_map(waited).chain(lite).collect();
        queues.sort_unstable_by_key(Arc::as_ptr);
        queues.dedup_by(|one, other| Arc::ptr_eq(one, other));
        queues
    }
}

#[cfg(test)]
mod tests;
