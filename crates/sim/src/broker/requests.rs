//! Sends and reads, on the same watermarks as `durability` of the crate `broker`.

use super::{Broker, Note, Output, Role, SendOutcome, outcome_of};
use crate::message::{self, Sending, TOPIC};
use crate::settings::{Bug, Mode};
use replica::acks::{AckRequirement, AckStatus, PendingResponse, Ticket};
use replica::master::MasterEvent;
use std::sync::PoisonError;
use std::time::Duration;
use store::{AppendError, FlushOutcome, WaitOutcome};
use wire::record::RecordView;
use wire::units::{LogOffset, QueueOffset};

/// Longest wait of a send for replicas (`slaveTimeout`).
const SLAVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Most messages of one read.
const READ_MAX: usize = 8;

/// An event that the store reports.
pub(super) enum StoreEvent {
    /// A send's message is on disk, or not.
    Flushed(u64, FlushOutcome),
    /// Enough slaves have a send's message, or not.
    Replicated(u64, WaitOutcome),
    /// A requested flush ended or timed out.
    LogFlushed,
}

/// A send that is not answered yet.
pub(super) struct Waiting {
    call: u64,
    number: u64,
    end: LogOffset,
    place: (i32, u64),
    /// Result of the flush. `None` while it is pending.
    flushed: Option<AckStatus>,
    /// Whether the message waits for replicas.
    waits: bool,
    /// Result of the replicas. `None` while it is pending.
    replicated: Option<AckStatus>,
}

impl Broker {
    /// Returns the replicas that the next message needs, or `None` if the message must not be stored.
    fn need(&self) -> Option<AckRequirement> {
        match &self.role {
            Role::Master(master) if !self.is_fenced => {
                master.need(0).map_or(Some(AckRequirement::Master), Result::ok)
            }
            _ => None,
        }
    }

    pub(super) fn send(&mut self, call: u64, sending: &Sending) {
        let Some(need) = self.need() else {
            self.note(Note::Refused(sending.number));
            return self.answer_of(call, SendOutcome::Refused);
        };
        let body = message::body(sending);
        let mut batch = self.store.batch();
        let queue = self.store.queue(TOPIC, sending.queue).expect("a name that can be a directory");
        batch.push(&queue, &message::to_store(&body, self.now.wall_ms)).expect("small messages");
        match self.store.append(&mut batch, self.now.wall_ms) {
            Ok(()) => {}
            Err(AppendError::Fenced(_)) => return self.answer_of(call, SendOutcome::Unknown),
            Err(_) => {
                self.note(Note::Refused(sending.number));
                return self.answer_of(call, SendOutcome::Refused);
            }
        }
        self.note(Note::Appended(sending.number));
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let place = (sending.queue, batch.append_result(0).queue_offset.get());
        let end = batch.end();
        let waiting = Waiting {
            call,
            number: sending.number,
            end,
            place,
            flushed: None,
            waits: false,
            replicated: None,
        };
        self.waiting.insert(ticket, waiting);
        self.publish();
        if self.is_controlled() && need != AckRequirement::Master {
            self.wait_for_members(ticket, end, need);
        }
        self.wait_for_flush(ticket, end);
    }

    /// Waits until enough members of the in-sync set have a message.
    fn wait_for_members(&mut self, ticket: u64, end: LogOffset, need: AckRequirement) {
        if need == AckRequirement::Master || self.settings.has(Bug::AckBeforeReplica) {
            return self.replicas_answered(ticket, AckStatus::Ok);
        }
        self.waiting.get_mut(&ticket).expect("a send that is not answered").waits = true;
        self.step_master(MasterEvent::Wait(PendingResponse { ticket: Ticket(ticket), end, need }));
    }

    /// Answers a send after its flush. A send that needed no replica asks again, because the agent
    /// may have named an heir during the flush. A broker that is not the master any more does not
    /// know the outcome.
    fn after_flush(&mut self, ticket: u64, end: LogOffset) {
        let waits = self.waiting.get(&ticket).is_some_and(|it| it.waits || it.replicated.is_some());
        let need =
            if self.settings.has(Bug::OvertakingFlush) { Some(AckRequirement::Master) } else { self.need() };
        match need {
            _ if waits => self.answer_when_done(ticket),
            Some(need) => self.wait_for_members(ticket, end, need),
            None => self.give_up(ticket),
        }
    }

    fn wait_for_flush(&mut self, ticket: u64, end: LogOffset) {
        if !self.settings.is_sync_flush() || self.settings.has(Bug::AckBeforeFlush) {
            return self.on_store_event(StoreEvent::Flushed(ticket, FlushOutcome::Flushed));
        }
        let store_events = self.store_events.clone();
        let report = move |outcome| {
            store_events
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_back(StoreEvent::Flushed(ticket, outcome));
        };
        self.store.when_flushed(end, Box::new(report));
    }

    pub(super) fn on_store_event(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Flushed(ticket, outcome) => {
                let status = match outcome {
                    FlushOutcome::Flushed => AckStatus::Ok,
                    FlushOutcome::TimedOut => AckStatus::FlushDiskTimeout,
                    FlushOutcome::Failed(_) => return self.give_up(ticket),
                };
                let Some(waiting) = self.waiting.get_mut(&ticket) else { return };
                waiting.flushed = Some(status);
                let end = waiting.end;
                match self.settings.mode {
                    Mode::Controller => self.after_flush(ticket, end),
                    Mode::Classic { .. } => self.wait_for_slaves(ticket, end),
                }
            }
            StoreEvent::Replicated(ticket, outcome) => match outcome {
                WaitOutcome::Reached => self.replicas_answered(ticket, AckStatus::Ok),
                WaitOutcome::TimedOut => self.replicas_answered(ticket, AckStatus::FlushSlaveTimeout),
                WaitOutcome::Failed(_) | WaitOutcome::Abandoned => self.give_up(ticket),
            },
            StoreEvent::LogFlushed => self.log_flushed(),
        }
    }

    fn wait_for_slaves(&mut self, ticket: u64, end: LogOffset) {
        if self.settings.copies() <= 1 || self.settings.has(Bug::AckBeforeReplica) {
            return self.replicas_answered(ticket, AckStatus::Ok);
        }
        let store_events = self.store_events.clone();
        let report = move |outcome| {
            store_events
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_back(StoreEvent::Replicated(ticket, outcome));
        };
        self.store.when_replicated(end, SLAVE_TIMEOUT, Box::new(report));
    }

    /// Processes the replicas' result for a message.
    pub(super) fn replicas_answered(&mut self, ticket: u64, status: AckStatus) {
        if let Some(waiting) = self.waiting.get_mut(&ticket) {
            waiting.replicated = Some(status);
            self.answer_when_done(ticket);
        }
    }

    fn answer_when_done(&mut self, ticket: u64) {
        let Some(waiting) = self.waiting.get(&ticket) else { return };
        let (Some(flushed), Some(replicated)) = (waiting.flushed, waiting.replicated) else { return };
        let waiting = self.waiting.remove(&ticket).expect("found above");
        let outcome = outcome_of(flushed.with_replicas(replicated));
        if outcome == SendOutcome::Acknowledged {
            let Waiting { number, place, .. } = waiting;
            let epoch = self.agent.as_ref().map_or(wire::ha::Epoch::ZERO, replica::agent::Agent::epoch);
            self.note(Note::Acknowledged { number, end: waiting.end.get(), place, epoch });
        }
        self.answer_of(waiting.call, outcome);
    }

    fn give_up(&mut self, ticket: u64) {
        if let Some(waiting) = self.waiting.remove(&ticket) {
            self.answer_of(waiting.call, SendOutcome::Unknown);
        }
    }

    /// Serves the messages that consumers may see.
    pub(super) fn read(&mut self, call: u64, queue: i32, from: u64) {
        let serves = match self.role {
            Role::None => false,
            _ if !self.settings.is_all_ack() => false,
            Role::Slave(_) if self.is_controlled() => self.is_consistent,
            _ => true,
        };
        let found = if serves { self.found(queue, from) } else { Vec::new() };
        self.out.push(Output::Found(call, found));
    }

    fn found(&self, queue: i32, from: u64) -> Vec<(u64, u64)> {
        let Some(queue) = self.store.find_queue(TOPIC, queue) else { return Vec::new() };
        let visible = match self.settings.has(Bug::ReadAboveConfirm) {
            true => self.store.appended(),
            false => self.store.visible(),
        };
        let from = from.max(queue.min().get());
        let mut units = Vec::new();
        if queue.units_blocking(QueueOffset::new(from), READ_MAX, &mut units).is_err() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (offset, unit) in (from..).zip(units) {
            let mut bytes = Vec::new();
            if unit.end() > visible || self.store.read_units_blocking(&[unit], &mut bytes).is_err() {
                break;
            }
            let number = RecordView::parse(&bytes).ok().and_then(|view| message::number_of(view.body()));
            found.push((offset, number.unwrap_or(0)));
        }
        found
    }
}
