//! A group that commits offsets until a fault, and the offsets that are found afterwards.

use crate::archive::CommittedOffset;
use crate::runtime::epoch_ms;
use client::{Client, MessageQueue};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

/// Time between two commits of all queues.
const INTERVAL: Duration = Duration::from_millis(250);

/// Commits of a queue that are kept.
const KEPT: usize = 40;

/// Attempts to ask for the offsets afterwards.
const ATTEMPTS: u32 = 20;

/// Commits the end of every queue of a topic as a group's offset, from time to time.
pub(super) struct Offsets {
    client: Client,
    topic: String,
    group: String,
    known: Arc<Mutex<Vec<CommittedOffset>>>,
    task: JoinSet<()>,
}

impl Offsets {
    /// Begins to commit.
    pub fn start(client: &Client, topic: &str, group: &str) -> Self {
        let (client, topic, group) = (client.clone(), topic.to_owned(), group.to_owned());
        let known: Arc<Mutex<Vec<CommittedOffset>>> = Arc::default();
        let mut task = JoinSet::new();
        task.spawn(commit((client.clone(), topic.clone(), group.clone()), known.clone()));
        Self { client, topic, group, known, task }
    }

    /// Stops committing, because the fault comes.
    pub fn stop(&mut self) {
        self.task.abort_all();
    }

    /// Asks for the offsets as they are now.
    pub async fn found(&self) -> Vec<CommittedOffset> {
        let mut all = self.known.lock().expect("nothing panics while it is held").clone();
        for _ in 0..ATTEMPTS {
            if self.client.refresh_route(&self.topic).await.is_ok() {
                break;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        for one in &mut all {
            let queue = MessageQueue::new(&self.topic, &one.broker, one.queue);
            let found = self.client.committed_offset(&self.group, &queue).await;
            // A group without an offset begins anew, so everything that it had committed is lost.
            one.found = found.ok().map(Option::unwrap_or_default);
        }
        all
    }
}

async fn commit((client, topic, group): (Client, String, String), known: Arc<Mutex<Vec<CommittedOffset>>>) {
    // The brokers that have the group: none takes an offset of a group that does not exist.
    let mut made = BTreeSet::new();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Ok(route) = client.refresh_route(&topic).await else { continue };
        for target in &route.publish {
            let queue = MessageQueue::new(&topic, &target.broker_name, target.queue_id);
            let Ok(offset) = client.max_offset(&queue).await else { continue };
            if !made.contains(&target.broker_name) {
                let Some(master) = route.master(&target.broker_name) else { continue };
                if client.create_group(master, &group).await.is_err() {
                    continue;
                }
                made.insert(target.broker_name.clone());
            }
            if client.commit_offset(&group, &queue, offset).await.is_err() {
                continue;
            }
            let mut known = known.lock().expect("nothing panics while it is held");
            note(&mut known, (&target.broker_name, target.queue_id), offset);
        }
    }
}

/// Notes an acknowledged commit.
fn note(known: &mut Vec<CommittedOffset>, (broker, queue): (&str, i32), offset: i64) {
    let index = known.iter().position(|one| one.broker == broker && one.queue == queue);
    let index = index.unwrap_or_else(|| {
        known.push(CommittedOffset { broker: broker.to_owned(), queue, ..CommittedOffset::default() });
        known.len() - 1
    });
    let commits = &mut known[index].commits;
    commits.push((epoch_ms(), offset));
    if commits.len() > KEPT {
        commits.remove(0);
    }
}
