//! Reading queues of one's choice (`DefaultLitePullConsumer` with `assign`).

use crate::{Client, Error, Expression, MessageQueue, PullRequest, PullStatus, Pulled, Received};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// How long a broker holds a request; a longer wait makes several.
const HOLD: Duration = Duration::from_secs(15);

/// Before the error of a request that failed is brought, and the request made again.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// The longest a call waits, so that its end can be told.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// A queue and an offset in it.
type Place = (MessageQueue, i64);

/// What a pull at a place brought.
type Brought = (Place, Result<Pulled, Error>);

/// Requests that brokers hold, also between two calls, and the places they are for.
#[derive(Default)]
struct Held {
    pulls: JoinSet<Brought>,
    places: BTreeSet<Place>,
}

/// What is read as whom.
struct Reader {
    client: Client,
    group: String,
    expression: Expression,
}

/// Reads the queues it is assigned, from where it is told or from where its group stood.
pub struct PullConsumer {
    reader: Arc<Reader>,
    /// Where reading goes on, by queue.
    positions: Mutex<BTreeMap<MessageQueue, i64>>,
    /// Queues in turn.
    turn: Mutex<usize>,
    held: tokio::sync::Mutex<Held>,
}

impl PullConsumer {
    /// A consumer of messages with the tags of `expression` (`*` for all, `a || b` for two) or of an SQL condition,
    /// with no queue yet.
    #[must_use]
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

    /// Queues of a topic that can be read.
    ///
    /// # Errors
    /// No name server answers, or the topic does not exist.
    pub async fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>, Error> {
        Ok(self.reader.client.refresh_route(topic).await?.subscribe.clone())
    }

    /// Reads these queues from now on and no others. A queue begins where the group stands, or at its first message.
    ///
    /// # Errors
    /// A broker does not answer; the queues stay as they were.
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
        let offset = self.reader.client.search_offset(queue, time_ms).await?;
        self.seek(queue, offset)
    }

    /// Where reading goes on in a queue that is assigned.
    #[must_use]
    pub fn position(&self, queue: &MessageQueue) -> Option<i64> {
        self.positions().get(queue).copied()
    }

    /// The next messages of one queue, the queues taking turns; waits up to `timeout` when all are at their end, and
    /// then returns nothing. Brokers hold requests between two calls as well.
    ///
    /// # Errors
    /// A broker does not answer or refuses; that is told once a second for each of its queues. What the others have
    /// comes with later calls.
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

    /// Stores the positions of all queues as the group's, and waits until the brokers have them.
    ///
    /// # Errors
    /// A broker does not answer or refuses.
    pub async fn commit(&self) -> Result<(), Error> {
        let positions = self.positions().clone();
        for (queue, position) in positions {
            self.reader.client.commit_offset(&self.reader.group, &queue, position).await?;
        }
        Ok(())
    }

    /// What is there already.
    async fn look(&self) -> Result<Vec<Received>, Error> {
        let mut places: Vec<Place> = self.positions().clone().into_iter().collect();
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

    /// Has a request held wherever reading goes on.
    fn ask(&self, held: &mut Held) {
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

    /// The messages of a request that was held.
    fn take(&self, held: &mut Held, joined: Result<Brought, JoinError>) -> Result<Vec<Received>, Error> {
        let Ok((place, pulled)) = joined else {
            // Cancelled with its runtime. It does not say where it was: all are asked again.
            held.places.clear();
            return Ok(Vec::new());
        };
        held.places.remove(&place);
        Ok(self.accept(&place, pulled?))
    }

    /// Moves on unless the application sought elsewhere meanwhile; keeps the messages the expression asks for.
    fn accept(&self, (queue, position): &Place, pulled: Pulled) -> Vec<Received> {
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
    async fn pull(&self, (queue, position): &Place, hold: Duration) -> Result<Pulled, Error> {
        let request = PullRequest {
            hold,
            expression: Some(self.expression.text()),
            expression_type: self.expression.kind(),
            ..PullRequest::new(&self.group, queue, *position)
        };
        self.client.pull(&request).await
    }
}
