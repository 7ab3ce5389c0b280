//! Sends, recalls, messages given back, decisions about transactions.

use std::cell::Cell;

use auth::{Action, Actions};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use wire::codes::response;
use wire::units::{LogOffset, QueueOffset};

use super::waits::stopping;
use super::{Api, Caller, EndTransaction, RecallRequest, SendRequest};
use crate::change::ROUNDS_MAX;
use crate::durability::Outcome;
use crate::send::{self, AnswerStored, SendAnswers, StagedSends, StoredSend};
use crate::send_back::{self, SendBack};
use crate::{Refusal, Result, message_access, transaction};

/// A message that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Queue in the producer's response.
    pub queue_id: i32,
    /// Queue offset of the message, or of the first message of a batch. For an undecided message, its offset among
    /// undecided messages.
    pub queue_offset: QueueOffset,
    /// Log offset of the record.
    pub log_offset: LogOffset,
    /// Unique key of the message; of a recall, that of the recalled message. Empty when there is none.
    pub unique_key: String,
    /// The handle by which a timed message can be recalled; empty for every other message.
    pub recall_handle: String,
}

/// Receiver of a send's response. The caller may have stopped waiting, but the message is stored anyway.
type Ticket = Cell<Option<oneshot::Sender<Result<Sent>>>>;

/// Distributes the responses of sends that were stored together.
#[derive(Default)]
struct Answers {
    /// The answers that wait for the flush, or for slaves.
    late: Vec<(oneshot::Sender<Result<Sent>>, Sent)>,
}

fn give(ticket: &Ticket, answer: Result<Sent>) {
    let _ = ticket.take().map(|sender| sender.send(answer));
}

fn sent(stored: &StoredSend<'_, Ticket>) -> Sent {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Sent {
        queue_id: stored.queue_id(),
        queue_offset: if stored.is_recall() { QueueOffset::ZERO } else { stored.queue_offset() },
        log_offset: stored.log_offsets().next().unwrap_or(LogOffset::ZERO),
        unique_key: text(stored.unique_key()),
        recall_handle: text(stored.recall_handle()),
    }
}

impl SendAnswers for Answers {
    type Ticket = Ticket;

    fn stored(&mut self, ticket: &Ticket, stored: &StoredSend<'_, Ticket>) {
        give(ticket, Ok(sent(stored)));
    }

    fn stored_later(&mut self, ticket: &Ticket, stored: &StoredSend<'_, Ticket>) {
        self.late.extend(ticket.take().map(|sender| (sender, sent(stored))));
    }

    fn refused(&mut self, ticket: &Ticket, refusal: &Refusal) {
        give(ticket, Err(refusal.clone()));
    }

    fn finish(&mut self, _: usize) -> Option<AnswerStored> {
        let late = std::mem::take(&mut self.late);
        if late.is_empty() {
            return None;
        }
        Some(Box::new(move |outcome: &Outcome| {
            let refusal = Refusal::not_stored_on_slaves(outcome).or_else(|| Refusal::not_durable(outcome));
            for (sender, sent) in late {
                let _ = sender.send(refusal.clone().map_or(Ok(sent), Err));
            }
        }))
    }
}

/// Staged sends, and whether a commit was requested.
struct Staging {
    sends: StagedSends<Ticket>,
    answers: Answers,
    is_due: bool,
}

/// Sends that the requests of a thread stage. All sends before the next [`Sends::commit`] are stored with one write.
pub struct Sends {
    api: Api,
    /// Staged sends. No other thread takes this lock. The lock makes futures that hold the sends `Send`, which tonic
    /// requires.
    staged: Mutex<Staging>,
}

impl Sends {
    /// Stores a message, or a batch of messages, at the next commit. `first` runs if no other send waits for that
    /// commit.
    ///
    /// # Errors
    /// The refusal, with RocketMQ's code. With `FLUSH_DISK_TIMEOUT` the message may be stored and may be lost.
    pub async fn send(&self, request: &SendRequest<'_>, first: impl Fn()) -> Result<Sent> {
        let stage = || {
            let (sender, receiver) = oneshot::channel();
            let Staging { sends, answers, is_due } = &mut *self.staged.lock();
            send::stage(&self.api.broker.sends, sends, request, Cell::new(Some(sender)), answers)?;
            if !std::mem::replace(is_due, true) {
                first();
            }
            Ok(receiver)
        };
        let receiver = self.api.until_stored(stage).await?;
        receiver.await.map_err(|_| stopping())?
    }

    /// Stores the sends since the last commit, and wakes their callers.
    pub fn commit(&self) {
        let Staging { sends, answers, is_due } = &mut *self.staged.lock();
        *is_due = false;
        send::commit(&self.api.broker.sends, sends, answers);
        send::wake(&self.api.broker.delivery, sends);
    }
}

impl Api {
    /// Makes the send queue of a thread.
    pub fn sends(&self) -> Sends {
        let sends = StagedSends::new(self.broker.store.batch());
        Sends {
            api: self.clone(),
            staged: Mutex::new(Staging { sends, answers: Answers::default(), is_due: false }),
        }
    }

    /// Cancels a timed message. The answer's unique key is that of the message.
    ///
    /// # Errors
    /// The refusal, with RocketMQ's code; also when the message may have been delivered.
    pub async fn recall(&self, caller: &Caller, request: &RecallRequest<'_>) -> Result<Sent> {
        let stage = || {
            let (sender, receiver) = oneshot::channel();
            let mut staged = StagedSends::new(self.broker.store.batch());
            send::stage_recall(&self.broker.sends, &mut staged, caller, request, Cell::new(Some(sender)))?;
            send::commit(&self.broker.sends, &mut staged, &mut Answers::default());
            send::wake(&self.broker.delivery, &mut staged);
            Ok(receiver)
        };
        let receiver = self.until_stored(stage).await?;
        receiver.await.map_err(|_| stopping())?
    }

    /// Copies the message at `log_offset` to the dead letter topic of a group.
    ///
    /// # Errors
    /// The refusal, with RocketMQ's code, of `AbstractSendMessageProcessor.consumerSendMsgBack`.
    pub async fn dead_letter(&self, group: &str, log_offset: LogOffset) -> Result<()> {
        // The retry topic and the dead letter topic of the group may both have to be created.
        for _ in 0..ROUNDS_MAX {
            let (broker, group) = (self.broker.clone(), group.to_owned());
            let done = self.in_disk_pool(move || {
                let message = SendBack { group: &group, log_offset, delay_level: -1, times_max: Some(0) };
                send_back::send_back(&broker.sends, &message)
            });
            match done.await {
                Ok(end) => return self.durable(end).await,
                Err(refusal) => self.wait_for_change(refusal).await?,
            }
        }
        Err(Refusal::new(response::SYSTEM_BUSY, "the dead letter topic was removed meanwhile; try again"))
    }

    /// Commits an undecided message, or rolls it back.
    ///
    /// # Errors
    /// The refusal, with RocketMQ's code, of `EndTransactionProcessor`; with `authorizationStrict` also when the caller may not send to
    /// the topic of the message.
    pub async fn end_transaction(&self, caller: &Caller, request: &EndTransaction<'_>) -> Result<()> {
        let message = auth::Request::Message("apache.rocketmq.v2.EndTransactionRequest");
        let publish = Actions::of(&[Action::Pub]);
        message_access::authorize(
            &self.broker.store,
            &self.broker.sessions,
            &self.broker.runtime,
            (caller, message),
            request.log_offset,
            publish,
        )?;
        let end = self.until_stored(|| transaction::end(&self.broker.engines, request)).await?;
        self.durable(end).await
    }
}
