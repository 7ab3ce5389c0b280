//! A consumer that reads queues which the application chooses (`DefaultLitePullConsumer` with `assign`).

use crate::{Client, Error, Expression, MessageQueue, PullRequest, PullResult, PullStatus, Received};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Longest time for which a broker suspends a pull request (long polling). A longer wait needs several requests.
const HOLD: Duration = Duration::from_secs(15);

/// Pause after a failed request, before its error is returned and the request is sent again.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Upper limit for the time that a call waits, so that its end can be represented.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Queue and the offset at which reading continues.
type Position = (MessageQueue, i64);

/// The reply to a pull request, with the queue and offset of the request.
type PullOutcome = (Position, Result<PullResult, Error>);

/// Pull requests that wait at brokers, also between two calls of the application, with their queues and offsets.
#[derive(Default)]
struct Pulls {
    pulls: JoinSet<PullOutcome>,
    places: BTreeSet<Position>,
}

/// The group, the topic expression and the client of a consumer.
struct Reader {
    client: Client,
    group: String,
    expression: Expression,
}

/// Reads the assigned queues, from the committed offsets of its group or from the offsets that the application sets.
pub struct PullConsumer {
    reader: Arc<Reader>,
    /// The next offset of each queue.
    positions: Mutex<BTreeMap<MessageQueue, i64>>,
    /// Counter for taking queues in turn.
    turn: Mutex<usize>,
    held: tokio::sync::Mutex<Pulls>,
}

impl PullConsumer {
    /// Makes a consumer without queues. `expression` is a tag expression (`*` for all tags, `a || b` for two) or an SQL
    /// condition.
    pub fn new(client: &Client, group: impl Into<String>, expression: impl Into<Expression>) -> Self {
        let (client, group, expression) = (client.clone(), group.into(), expression.into());
        let reader = Arc::new(Reader { client, group, expression });
        Self {
            reader,
            positions: Mutex::default(),
            turn: Mutex::default(),
            held: tokio::sync::Mutex::default(),
        }
    }

    /// The queues of a topic that can be read.
    ///
    /// # Errors
    /// Errors of [`Client::fetch_route`].
    pub async fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>, Error> {
        Ok(self.reader.client.refresh_route(topic).await?.subscribe.clone())
    }

    /// Assigns these queues and no others. Reading begins at the committed offset of the group, or at the smallest
    /// offset of the queue.
    ///
    /// # Errors
    /// Errors of [`Client::min_offset`]; the assigned queues stay as they were.
    pub async fn assign(&self, queues: &[MessageQueue]) -> Result<(), Error> {
        let Reader { client, group, .. } = &*self.reader;
        let mut positions = BTreeMap::new();
        for queue in queues {
            let known = self.positions().get(queue).copied();
            let position = match known {
                Some(position) => position,
                None => match client.committed_offset(group, queue).await? {
                    Some(committed) => committed,
                    None => client.min_offset(queue).await?,
                },
            };
            positions.insert(queue.clone(), position);
        }
        *self.positions() = positions;
        Ok(())
    }

    /// Sets the next offset of an assigned queue.
    ///
    /// # Errors
    /// [`Error::Illegal`] when the queue is not assigned.
    pub fn seek(&self, queue: &MessageQueue, offset: i64) -> Result<(), Error> {
        match self.positions().get_mut(queue) {
            Some(position) => *position = offset,
            None => return Err(Error::Illegal(format!("queue {queue:?} is not assigned"))),
        }
        Ok(())
    }

    /// Sets the next offset of an assigned queue to the first message stored at or after a time, milliseconds since
    /// 1970.
    ///
    /// # Errors
    /// [`Error::Illegal`] when the queue is not assigned, otherwise as for [`Client::search_offset`].
    pub async fn seek_to_time(&self, queue: &MessageQueue, time_ms: i64) -> Result<(), Error> {
        let offset = self.reader.client.search_offset(queue, time_ms).await?;
        self.seek(queue, offset)
    }

    /// The next offset of an assigned queue; `None` when the queue is not assigned.
    pub fn position(&self, queue: &MessageQueue) -> Option<i64> {
        self.positions().get(queue).copied()
    }

    /// Returns the next messages of a queue. Queues take turns. Waits up to `timeout` if all queues are at their end,
    /// and then returns no messages. Pull requests keep waiting at brokers between two calls.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when a broker does not answer, [`Error::Refused`] when it refuses: once
    /// a second for each of its queues. The messages of other brokers are returned by later calls.
    pub async fn poll(&self, timeout: Duration) -> Result<Vec<Received>, Error> {
        let end = Instant::now() + timeout.min(WAIT_MAX);
        if self.positions().is_empty() {
            return Err(Error::Illegal("no queue is assigned".to_owned()));
        }
        let Ok(mut held) = timeout_at(end, self.held.lock()).await else { return Ok(Vec::new()) };
        while let Some(joined) = held.pulls.try_join_next() {
            let messages = self.take(&mut held, joined)?;
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
        if timeout.is_zero() {
            return self.look().await;
        }
        loop {
            self.ask(&mut held);
            let joined = tokio::select! {
                joined = held.pulls.join_next() => joined,
                () = sleep_until(end) => None,
            };
            let Some(joined) = joined else { return Ok(Vec::new()) };
            let messages = self.take(&mut held, joined)?;
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
    }

    /// Commits the next offsets of all queues for the group, and waits until the brokers have stored them.
    ///
    /// # Errors
    /// Errors of [`Client::commit_offset`].
    pub async fn commit(&self) -> Result<(), Error> {
        let positions = self.positions().clone();
        for (queue, position) in positions {
            self.reader.client.commit_offset(&self.reader.group, &queue, position).await?;
        }
        Ok(())
    }

    /// Returns messages that have arrived already.
    async fn look(&self) -> Result<Vec<Received>, Error> {
        let mut places: Vec<Position> = self.positions().clone().into_iter().collect();
        {
            let mut turn = self.turn.lock().expect("short section");
            *turn = turn.wrapping_add(1);
            let first = turn.checked_rem(places.len()).unwrap_or(0);
            places.rotate_left(first);
        }
        let mut failed = None;
        for place in places {
            match self.reader.pull(&place, Duration::ZERO).await {
                Ok(pulled) => {
                    let messages = self.accept(&place, pulled);
                    if !messages.is_empty() {
                        return Ok(messages);
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(Vec::new()), Err)
    }

    /// Sends a pull request to every queue without a waiting request.
    fn ask(&self, held: &mut Pulls) {
        let places = self.positions().clone();
        for place in places {
            if held.places.insert(place.clone()) {
                let reader = self.reader.clone();
                held.pulls.spawn(async move {
                    let pulled = reader.pull(&place, HOLD).await;
                    if pulled.is_err() {
                        sleep(FAILED_PAUSE).await;
                    }
                    (place, pulled)
                });
            }
        }
    }

    /// The messages of a finished pull request.
    fn take(&self, held: &mut Pulls, joined: Result<PullOutcome, JoinError>) -> Result<Vec<Received>, Error> {
        let Ok((place, pulled)) = joined else {
            // A request that was cancelled with its runtime does not say which queue it was for, so all queues are
            // pulled again.
            held.places.clear();
            return Ok(Vec::new());
        };
        held.places.remove(&place);
        Ok(self.accept(&place, pulled?))
    }

    /// Advances the offset of the queue, unless the application changed it meanwhile. Returns the messages that match
    /// the expression.
    fn accept(&self, (queue, position): &Position, pulled: PullResult) -> Vec<Received> {
        let mut positions = self.positions();
        let Some(current) = positions.get_mut(queue).filter(|current| **current == *position) else {
            return Vec::new();
        };
        *current = pulled.next_offset;
        if pulled.status != PullStatus::Found {
            return Vec::new();
        }
        let wanted = self.reader.expression.tags();
        pulled.messages.into_iter().filter(|message| wanted.admit(message.tag())).collect()
    }

    fn positions(&self) -> MutexGuard<'_, BTreeMap<MessageQueue, i64>> {
        self.positions.lock().expect("short section")
    }
}

impl Reader {
    async fn pull(&self, (queue, position): &Position, hold: Duration) -> Result<PullResult, Error> {
        let request = PullRequest {
            hold,
            expression: Some(self.expression.text()),
            expression_type: self.expression.kind(),
            ..PullRequest::new(&self.group, queue, *position)
        };
        self.client.pull(&request).await
    }
}
