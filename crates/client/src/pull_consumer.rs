//! Reading queues of one's choice (`DefaultLitePullConsumer` with `assign`).

use crate::{Client, Error, Expression, MessageQueue, PullRequest, PullStatus, Pulled, Received};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Longest hold of one request; a longer wait makes several.
const HOLD_MAX: Duration = Duration::from_secs(15);

/// Reads the queues it is assigned, from where it is told or from where its group stood.
pub struct PullConsumer {
    client: Client,
    group: String,
    expression: Expression,
    /// Where reading goes on, by queue.
    positions: Mutex<BTreeMap<MessageQueue, i64>>,
    /// Queues in turn.
    turn: Mutex<usize>,
}

impl PullConsumer {
    /// A consumer of messages with the tags of `expression` (`*` for all, `a || b` for two) or of an SQL condition,
    /// with no queue yet.
    #[must_use]
    pub fn new(client: &Client, group: impl Into<String>, expression: impl Into<Expression>) -> Self {
        let (group, expression) = (group.into(), expression.into());
        Self {
            client: client.clone(),
            group,
            expression,
            positions: Mutex::default(),
            turn: Mutex::default(),
        }
    }

    /// Queues of a topic that can be read.
    ///
    /// # Errors
    /// No name server answers, or the topic does not exist.
    pub async fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>, Error> {
        Ok(self.client.refresh_route(topic).await?.subscribe.clone())
    }

    /// Reads these queues from now on and no others. A queue begins where the group stands, or at its first message.
    ///
    /// # Errors
    /// A broker does not answer; the queues stay as they were.
    pub async fn assign(&self, queues: &[MessageQueue]) -> Result<(), Error> {
        let mut positions = BTreeMap::new();
        for queue in queues {
            let known = self.positions().get(queue).copied();
            let position = match known {
                Some(position) => position,
                None => match self.client.committed_offset(&self.group, queue).await? {
                    Some(committed) => committed,
                    None => self.client.min_offset(queue).await?,
                },
            };
            positions.insert(queue.clone(), position);
        }
        *self.positions() = positions;
        Ok(())
    }

    /// Goes on at `offset` in a queue that is assigned.
    ///
    /// # Errors
    /// The queue is not assigned.
    pub fn seek(&self, queue: &MessageQueue, offset: i64) -> Result<(), Error> {
        match self.positions().get_mut(queue) {
            Some(position) => *position = offset,
            None => return Err(Error::Illegal(format!("queue {queue:?} is not assigned"))),
        }
        Ok(())
    }

    /// Goes on at the first message stored at or after a time, milliseconds since 1970.
    ///
    /// # Errors
    /// The queue is not assigned, or its broker does not answer.
    pub async fn seek_to_time(&self, queue: &MessageQueue, time_ms: i64) -> Result<(), Error> {
        let offset = self.client.search_offset(queue, time_ms).await?;
        self.seek(queue, offset)
    }

    /// Where reading goes on in a queue that is assigned.
    #[must_use]
    pub fn position(&self, queue: &MessageQueue) -> Option<i64> {
        self.positions().get(queue).copied()
    }

    /// The next messages of one queue, the queues taking turns; waits up to `timeout` when all are at their end, and
    /// then returns nothing.
    ///
    /// # Errors
    /// A broker does not answer or refuses.
    pub async fn poll(&self, timeout: Duration) -> Result<Vec<Received>, Error> {
        let begin = Instant::now();
        let queues: Vec<_> = self.positions().keys().cloned().collect();
        if queues.is_empty() {
            return Err(Error::Illegal("no queue is assigned".to_owned()));
        }
        let first = {
            let mut turn = self.turn.lock().expect("short section");
            *turn = turn.wrapping_add(1);
            *turn % queues.len()
        };
        for index in 0..queues.len() {
            let queue = &queues[(first + index) % queues.len()];
            let messages = self.pull(queue, Duration::ZERO).await?;
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
        loop {
            let left = timeout.saturating_sub(begin.elapsed()).min(HOLD_MAX);
            if left.is_zero() {
                return Ok(Vec::new());
            }
            let messages = self.wait(&queues, left).await?;
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
    }

    /// Stores the positions of all queues as the group's, and waits until the brokers have them.
    ///
    /// # Errors
    /// A broker does not answer or refuses.
    pub async fn commit(&self) -> Result<(), Error> {
        let positions = self.positions().clone();
        for (queue, position) in positions {
            self.client.commit_offset(&self.group, &queue, position).await?;
        }
        Ok(())
    }

    /// Lets all brokers hold a request; the first answer with messages wins, the others are asked again later.
    async fn wait(&self, queues: &[MessageQueue], hold: Duration) -> Result<Vec<Received>, Error> {
        let mut pulls = JoinSet::new();
        for queue in queues {
            let Some(position) = self.position(queue) else { continue };
            let (client, group, expression) =
                (self.client.clone(), self.group.clone(), self.expression.clone());
            let queue = queue.clone();
            pulls.spawn(async move {
                let request = PullRequest {
                    hold,
                    expression: Some(expression.text()),
                    expression_type: expression.kind(),
                    ..PullRequest::new(&group, &queue, position)
                };
                let pulled = client.pull(&request).await;
                (queue, position, pulled)
            });
        }
        while let Some(joined) = pulls.join_next().await {
            // A pull that panicked or was cancelled has nothing to say.
            let Ok((queue, position, pulled)) = joined else { continue };
            let messages = self.accept(&queue, position, pulled?);
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
        Ok(Vec::new())
    }

    async fn pull(&self, queue: &MessageQueue, hold: Duration) -> Result<Vec<Received>, Error> {
        let Some(position) = self.position(queue) else { return Ok(Vec::new()) };
        let request = PullRequest {
            hold,
            expression: Some(self.expression.text()),
            expression_type: self.expression.kind(),
            ..PullRequest::new(&self.group, queue, position)
        };
        let pulled = self.client.pull(&request).await?;
        Ok(self.accept(queue, position, pulled))
    }

    /// Moves on unless the application sought elsewhere meanwhile; keeps the messages the expression asks for.
    fn accept(&self, queue: &MessageQueue, position: i64, pulled: Pulled) -> Vec<Received> {
        let mut positions = self.positions();
        let Some(current) = positions.get_mut(queue).filter(|current| **current == position) else {
            return Vec::new();
        };
        *current = pulled.next_offset;
        if pulled.status != PullStatus::Found {
            return Vec::new();
        }
        let wanted = self.expression.tags();
        pulled.messages.into_iter().filter(|message| wanted.admit(message.tag())).collect()
    }

    fn positions(&self) -> MutexGuard<'_, BTreeMap<MessageQueue, i64>> {
        self.positions.lock().expect("short section")
    }
}
