//! consumer.sh: a push consumer of the Rust client, or a consumer over gRPC.

use super::deliveries::{Deliveries, Window};
use super::sends::print_refusal;
use super::{Counts, Outcome, ScriptRun, observe};
use crate::Error;
use crate::generator::{Count, Pusher, RunningReceiver, join, join_grpc};
use crate::load::{Clock, Snapshot, Tally, zone_ms};
use crate::output::raw;
use crate::runtime;
use client::{ConsumeStatus, Expression, Received};
use grpc::messages::{Message, Timestamp};
use net::Workers;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Subscription of a consumer, and the action of its listener.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Consumer group.
    pub group: String,
    /// Filter of the messages; `None` for all of them.
    pub expression: Option<Expression>,
    /// Share of deliveries for which the listener asks for redelivery, 0 to 1.
    pub fail_rate: f64,
}

/// The counts of the deliveries of a run.
struct Consumed<'a> {
    run: &'a ScriptRun,
    deliveries: Arc<Deliveries>,
    /// Refused calls over gRPC.
    refused: Arc<Tally>,
    clock: Clock,
    zone_ms: i64,
    window: Window,
    /// Counts at the end of the warm-up.
    first: Snapshot,
    /// Code of the refusal that was printed last.
    last_refusal_code: Option<i32>,
}

/// The member of the group.
enum Member {
    Push(Pusher),
    Grpc(RunningReceiver, Workers),
}

impl Member {
    async fn join(
        run: &ScriptRun,
        (group, expression): (&str, Expression),
        (deliveries, fail_rate): (&Arc<Deliveries>, f64),
        refused: &Arc<Tally>,
    ) -> Result<Self, Error> {
        let deliveries = deliveries.clone();
        if run.load.grpc.is_some() {
            let workers = runtime::workers(1, usize::MAX, run.load.security())?;
            let count: Box<Count> = Box::new(move |messages| receive(&deliveries, messages));
            let counts = (count, refused.clone());
            let member = join_grpc((group, &expression), &run.load, &workers, counts).await?;
            return Ok(Self::Grpc(member, workers));
        }
        let fails = Fails::new(fail_rate);
        let listener = move |messages: &[Received]| listen(&deliveries, &fails, messages);
        Ok(Self::Push(join(group, &run.load, expression, listener).await?))
    }

    async fn shutdown(self) {
        match self {
            Self::Push(member) => member.shutdown().await,
            Self::Grpc(member, workers) => {
                member.shutdown().await;
                workers.shutdown();
            }
        }
    }
}

impl Counts for Consumed<'_> {
    fn measure_from_now(&mut self) {
        self.first = self.deliveries.snapshot(self.now_ms());
        self.deliveries.forget_latency();
        self.window.series.clear();
    }

    fn sample(&mut self) {
        self.window.push(self.deliveries.sample(self.now_ms()));
        print_refusal(&self.refused, &mut self.last_refusal_code);
    }

    fn line(&mut self) -> Option<String> {
        let now = self.clock.epoch_ms(self.clock.now_ns()).saturating_add_signed(self.zone_ms);
        self.window.line((now, self.run.format), &self.deliveries)
    }
}

impl Consumed<'_> {
    fn now_ms(&self) -> u64 {
        self.clock.now_ns() / 1_000_000
    }
}

/// Consumes until the time limit or a signal ends the run.
pub(super) async fn consume(run: &ScriptRun, subscription: &Subscription) -> Result<(), Error> {
    let deliveries = Arc::new(Deliveries::default());
    let Subscription { group, expression, fail_rate } = subscription;
    if let Some(expression) = expression {
        raw(&format!("Expression: {}", expression.text()));
    }
    let (refused, expression) = (Arc::<Tally>::default(), expression.clone().unwrap_or_default());
    let member = Member::join(run, (group, expression), (&deliveries, *fail_rate), &refused).await?;
    raw("Consumer Started.");
    let clock = Clock::start();
    // Messages that are delivered while the consumer starts count as well.
    let first = Snapshot { at_ms: clock.now_ns() / 1_000_000, ..Snapshot::default() };
    let window = Window::default();
    let mut consumed = Consumed {
        run,
        deliveries,
        refused,
        clock,
        zone_ms: zone_ms(),
        window,
        first,
        last_refusal_code: None,
    };
    tokio::select! {
        () = observe(run, &mut consumed) => {}
        _ = runtime::signalled() => {}
    }
    let (first, last) = (consumed.first, consumed.deliveries.snapshot(consumed.now_ms()));
    member.shutdown().await;
    let elapsed = Duration::from_millis(last.at_ms.saturating_sub(first.at_ms));
    let latency = consumed.deliveries.latency();
    let outcome =
        Outcome { series: consumed.window.series, ..Outcome::new(&first, &last, elapsed, &latency) };
    raw(&format!("[Complete] Consume Total: {} | Consume TPS: {:.0}", outcome.messages, outcome.tps));
    raw(&format!("Born to consumer {}", outcome.latency_us));
    run.json.as_deref().map_or(Ok(()), |path| outcome.write(path))
}

fn receive(deliveries: &Deliveries, messages: &[Message]) {
    let now = runtime::epoch_ms() as i64;
    let since =
        |then: Option<Timestamp>| then.map_or(0, |then| now.saturating_sub(then.ms()).max(0).unsigned_abs());
    for system in messages.iter().filter_map(|message| message.system_properties.as_ref()) {
        deliveries.received(since(system.born_timestamp), since(system.store_timestamp));
    }
}

fn listen(deliveries: &Deliveries, fails: &Fails, messages: &[Received]) -> ConsumeStatus {
    let Some(first) = messages.first() else { return ConsumeStatus::Done };
    let now = runtime::epoch_ms() as i64;
    let since = |then: i64| now.saturating_sub(then).max(0).unsigned_abs();
    deliveries.received(since(first.born_timestamp), since(first.store_timestamp));
    if fails.next() {
        deliveries.failed();
        return ConsumeStatus::Later;
    }
    ConsumeStatus::Done
}

/// Decides which deliveries fail, evenly spread.
struct Fails {
    rate: f64,
    count: AtomicU64,
}

impl Fails {
    fn new(rate: f64) -> Self {
        Self { rate: rate.clamp(0.0, 1.0), count: AtomicU64::new(0) }
    }

    fn next(&self) -> bool {
        let number = self.count.fetch_add(1, Relaxed) as f64;
        ((number + 1.0) * self.rate).floor() > (number * self.rate).floor()
    }
}

#[cfg(test)]
mod tests;
