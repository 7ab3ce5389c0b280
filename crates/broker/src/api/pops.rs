//! Pops, acknowledgements and changes of invisibility.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::units::LogOffset;

use super::waits::stopping;
use super::{Api, Invisible, InvisibleTimeChange, PopRequest, PopStatus, Popped, PoppedMessage};
use crate::parts::PopParts;
use crate::pop::{self, revive_records::ReviveRecords};
use crate::reply_sink::{PopSink, PopWork, PopWriter, ReplySink};
use crate::send::not_put;
use crate::{Refusal, Result};

/// Status and result of a pop.
type Answer = Result<(PopStatus, Popped)>;

impl PopWriter for Option<Answer> {
    fn popped(&mut self, status: PopStatus, popped: Popped, _: i64) {
        *self = Some(Ok((status, popped)));
    }

    fn noticed(&mut self, _: bool, _: bool) {}

    fn refused(&mut self, refusal: &Refusal) {
        *self = Some(Err(refusal.clone()));
    }
}

/// Event of a waiting pop.
enum Event {
    /// The task of the call must run the pop again.
    Run(PopWork),
    Answered(Answer),
    /// The broker dropped the pop without a response. The call is refused, because that happens when the broker stops.
    Forgotten,
}

/// The events of a pop that waits. They are few: a channel would have room for 32 from the beginning, for every pop.
#[derive(Default)]
struct Events {
    queue: Mutex<VecDeque<Event>>,
    changed: Notify,
}

impl Events {
    fn push(&self, event: Event) {
        self.queue.lock().push_back(event);
        self.changed.notify_one();
    }

    async fn next(&self) -> Event {
        loop {
            let event = self.queue.lock().pop_front();
            match event {
                Some(event) => return event,
                None => self.changed.notified().await,
            }
        }
    }
}

/// The broker's side of a pop that waits.
struct Sink {
    id: u64,
    cancelled: Arc<AtomicBool>,
    /// Events of the call. Gone after the call has ended, and then events are dropped.
    events: Weak<Events>,
}

impl Sink {
    fn push(&self, event: Event) {
        if let Some(events) = self.events.upgrade() {
            events.push(event);
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.push(Event::Forgotten);
    }
}

impl ReplySink for Sink {
    fn id(&self) -> u64 {
        self.id
    }

    fn is_closed(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst) || self.events.strong_count() == 0
    }

    fn charge(&self) -> Box<dyn Send> {
        Box::new(())
    }
}

impl PopSink for Sink {
    fn run(&self, reply: PopWork) {
        // A call that has ended drops the work, which then wakes another pop.
        self.push(Event::Run(reply));
    }

    fn write(&self, reply: &mut dyn FnMut(&mut dyn PopWriter)) {
        let mut answer: Option<Answer> = None;
        reply(&mut answer);
        if let Some(answer) = answer {
            // Messages of a call that has ended come again after their invisible time.
            self.push(Event::Answered(answer));
        }
    }
}

/// A pop that may wait. Dropped, it leaves the list of waiting pops at once and takes no message.
pub struct Held {
    api: Api,
    id: u64,
    cancelled: Arc<AtomicBool>,
    answer: Option<Answer>,
    /// `None` for a pop that was answered at once.
    events: Option<Arc<Events>>,
}

impl Held {
    /// Waits for the result. Valid once. The task that awaits this runs the pop. The function borrows, because an
    /// async function that takes `self` holds it twice while the pop waits.
    ///
    /// # Errors
    /// The refusal, with RocketMQ's code, of `PopMessageProcessor.processRequest`.
    pub async fn answer(&mut self) -> Result<(PopStatus, Popped)> {
        if let Some(answer) = self.answer.take() {
            return answer;
        }
        let Some(events) = &self.events else { return Err(stopping()) };
        loop {
            match events.next().await {
                Event::Answered(answer) => return answer,
                Event::Run(reply) => {
                    let mut answer: Option<Answer> = None;
                    reply(&mut answer);
                    if let Some(answer) = answer {
                        return answer;
                    }
                }
                Event::Forgotten => return Err(stopping()),
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // In this order: a pop that is being put into the list looks at the flag afterwards.
        self.cancelled.store(true, Ordering::SeqCst);
        self.api.broker.delivery.closed(self.id);
    }
}

impl Api {
    /// Starts a pop. A group that may be created by its first use is created.
    ///
    /// # Errors
    /// The refusal, with RocketMQ's code, of `PopMessageProcessor.processRequest`.
    pub async fn pop(&self, request: &PopRequest<'_>) -> Result<Held> {
        self.hold(|pops, out, later| pop::pop(pops, request, out, later)).await
    }

    /// Starts a pop by `pop`, which answers at once or makes a sink for its answer.
    pub(super) async fn hold(
        &self,
        pop: impl Fn(&Arc<PopParts>, &mut dyn PopWriter, &dyn Fn() -> Arc<dyn PopSink>) -> Result<()>,
    ) -> Result<Held> {
        let (id, cancelled) = (Self::next_id(), Arc::<AtomicBool>::default());
        let mut held =
            Held { api: self.clone(), id, cancelled: cancelled.clone(), answer: None, events: None };
        let waiting = Mutex::new(None);
        let later = || -> Arc<dyn PopSink> {
            let events = Arc::<Events>::default();
            let sink = Sink { id, cancelled: cancelled.clone(), events: Arc::downgrade(&events) };
            *waiting.lock() = Some(events);
            Arc::new(sink)
        };
        self.until_stored(|| pop(&self.broker.pops, &mut held.answer, &later)).await?;
        held.events = waiting.into_inner();
        Ok(held)
    }

    /// Acknowledges popped messages and waits once until they are stored. Returns the results in order. A late or
    /// repeated acknowledgement has no effect and succeeds.
    ///
    /// A missing message is refused with `NO_MESSAGE`. Other refusals are those of
    /// `AckMessageProcessor.processRequest`.
    pub async fn acks(&self, messages: &[PoppedMessage<'_>]) -> Vec<Result<()>> {
        let broker = &self.broker;
        let stored = self
            .until_stored(|| {
                let mut records = ReviveRecords::new(&broker.store);
                let mut outcomes = pop::acks(&broker.pops, &mut records, messages);
                let waits =
                    |outcome: &Result<_>| outcome.as_ref().is_err_and(|refusal| refusal.later.is_some());
                if let Some(place) = outcomes.iter().position(waits) {
                    outcomes.swap_remove(place)?;
                }
                let end = records.append(&broker.store, &broker.delivery, broker.runtime.now_ms());
                end.map(|end| (outcomes, end)).map_err(|error| not_put(&broker.store, error))
            })
            .await;
        let (mut outcomes, end) =
            stored.unwrap_or_else(|refusal| (vec![Err(refusal); messages.len()], LogOffset::ZERO));
        let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()?.cause);
        refused.for_each(|cause| broker.figures.refused.count(cause, 1));
        self.all_durable(&mut outcomes, end).await;
        outcomes
    }

    /// Waits until the log is stored up to `end`. On failure, the successful outcomes become the failure's reason.
    async fn all_durable<T>(&self, outcomes: &mut [Result<T>], end: LogOffset) {
        if end > LogOffset::ZERO
            && let Err(refusal) = self.durable(end).await
        {
            outcomes
                .iter_mut()
                .filter(|outcome| outcome.is_ok())
                .for_each(|outcome| *outcome = Err(refusal.clone()));
        }
    }

    /// Changes the invisible times of several messages and waits once until all are stored. Returns the results of
    /// [`Api::change_invisible_time`], in order.
    pub async fn change_invisible_times(
        &self,
        changes: &[InvisibleTimeChange<'_>],
    ) -> Vec<Result<Option<Invisible>>> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for it in changes {
            let change = || pop::change_visibility(&self.broker.pops, it);
            outcomes.push(self.until_stored(change).await);
        }
        let end = outcomes.iter().flatten().flatten().map(|changed| changed.end).max();
        self.all_durable(&mut outcomes, end.unwrap_or(LogOffset::ZERO)).await;
        outcomes
    }

    /// Keeps a popped message invisible for another `invisible_ms`. `None` when the message was popped in order and is
    /// acknowledged already.
    ///
    /// # Errors
    /// `NO_MESSAGE` for an offset without a message; further refusals of `ChangeInvisibleTimeProcessor.processRequest`.
    pub async fn change_invisible_time(
        &self,
        message: &PoppedMessage<'_>,
        invisible_ms: i64,
    ) -> Result<Option<Invisible>> {
        let change = InvisibleTimeChange { message: *message, invisible_ms, suspend: false };
        let change = || pop::change_visibility(&self.broker.pops, &change);
        let changed = self.until_stored(change).await?;
        if let Some(changed) = &changed {
            self.durable(changed.end).await?;
        }
        Ok(changed)
    }
}
