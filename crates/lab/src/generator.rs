//! The load of a run: producers and consumers as a [`Workload`] describes them, and the figures of what they did.
//!
//! A workload is complete and can be sent to another machine. [`Generator`] runs it on its own threads, and the caller
//! takes a [`IntervalSample`] (the figures of an interval) every second. The figures of several generators are added up,
//! histograms included.

mod access;
mod choices;
mod decisions;
mod endpoint;
mod interval;
mod ledger;
mod mix;
mod places;
mod push;
mod reader;
mod receiver;
mod sender;
mod silences;
#[cfg(test)]
mod tests;
mod trace;
mod transactions;
mod workload;

pub use access::Access;
pub use choices::{Compression, Consume, Payload, Send, Sizes, choice_name};
pub(crate) use decisions::BYTES as DECISIONS_BYTES;
pub use decisions::Decisions;
pub use interval::IntervalSample;
pub use ledger::Ledger;
pub use mix::Mix;
pub(crate) use places::existing;
pub(crate) use push::{Pusher, join};
pub use reader::{Reader, Reading};
pub(crate) use receiver::{Count, RunningReceiver, join as join_grpc};
pub(crate) use transactions::Checks;
pub use workload::Workload;

use crate::Error;
use crate::load::{
    Clock, Connection, ConnectionOptions, Destination, Ending, Message, Pace, Snapshot, Tally,
    keep_connected, zone_ms,
};
use crate::runtime;
use client::{Client, TRACE_TOPIC, Tracer};
use endpoint::Endpoint;
use net::Workers;
use places::{Place, places};
use silences::Silences;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use trace::Traced;
use transactions::Transactions;

/// Longest wait for requests in flight at the end, longer than the time limit of a single request.
const DRAIN: Duration = Duration::from_millis(3500);

/// Time between the start and the first due request of an open loop, nanoseconds, in which connections are made.
const LEAD_NS: u64 = 300_000_000;

/// A running workload.
pub struct Generator {
    client: Client,
    workers: Workers,
    clock: Clock,
    tally: Arc<Tally>,
    reading: Arc<Reading>,
    connections: Vec<Arc<Connection<Mix>>>,
    readers: Vec<Arc<Reader>>,
    pushers: Vec<Pusher>,
    /// The gRPC server that is loaded; `None` when brokers are.
    endpoint: Option<Endpoint>,
    receivers: Vec<RunningReceiver>,
    keepers: JoinSet<()>,
    places: Vec<Place>,
    ledger: Option<Arc<Ledger>>,
    silences: Option<Arc<Silences>>,
    checks: Arc<Checks>,
    tracer: Option<Tracer>,
    last: Snapshot,
    last_bytes: u64,
    last_cpu: Duration,
    last_ns: u64,
}

impl Generator {
    /// Finds or creates the topics, starts the consumers and then the producers.
    ///
    /// # Errors
    /// [`Error::Flag`] for a workload that cannot be served, [`Error::Cluster`] when the cluster does not answer,
    /// otherwise as [`Generator::start_readers`] and [`Generator::start_producers`].
    pub async fn start(workload: &Workload) -> Result<Self, Error> {
        let mut generator = Self::prepare(workload).await?;
        generator.start_readers(workload).await?;
        generator.start_producers(workload)?;
        Ok(generator)
    }

    /// Finds or creates the topics as [`Generator::start`] does, without starting consumers and producers.
    ///
    /// # Errors
    /// Errors of [`Generator::start`].
    pub async fn prepare(workload: &Workload) -> Result<Self, Error> {
        workload.check()?;
        let client = Client::start(workload.client())?;
        let (wanted, endpoint) = (workload.wanted(), Endpoint::of(workload, &client));
        let places = match &endpoint {
            None => places(&client, &wanted).await?,
            Some(endpoint) => {
                if wanted.queues.is_some() {
                    // Creates the topics; over gRPC there is no way to do so.
                    places(&client, &wanted).await?;
                }
                vec![endpoint.place(&wanted, false).await?]
            }
        };
        Self::over(workload, client, places)
    }

    /// Prepares a load over brokers that were found already.
    fn over(workload: &Workload, client: Client, places: Vec<Place>) -> Result<Self, Error> {
        let endpoint = Endpoint::of(workload, &client);
        let connections = workload.spread(places.len()).connections();
        let ledger =
            workload.checked.then(|| Arc::new(Ledger::new(connections as usize, workload.groups as usize)));
        Ok(Self {
            client,
            workers: runtime::workers(
                workload.cores.max(1),
                workload.unsent_bytes_max(),
                workload.security(),
            )?,
            clock: Clock::start(),
            tally: Arc::default(),
            reading: Arc::default(),
            connections: Vec::new(),
            readers: Vec::new(),
            pushers: Vec::new(),
            endpoint,
            receivers: Vec::new(),
            keepers: JoinSet::new(),
            places,
            ledger,
            silences: None,
            checks: Arc::new(Checks::new(if workload.decisions.is_some() { zone_ms() } else { 0 })),
            tracer: None,
            last: Snapshot::default(),
            last_bytes: 0,
            last_cpu: process_time(),
            last_ns: 0,
        })
    }

    /// Makes the generator report times by the clock of another machine, which is `us` microseconds behind this
    /// machine's.
    pub(crate) fn ahead(self, us: i64) -> Self {
        Self { clock: self.clock.ahead(us), ..self }
    }

    /// Starts the producers.
    ///
    /// # Errors
    /// [`Error::File`] when the file of the payload cannot be read, [`Error::Flag`] when there are too many queues,
    /// tags and sizes.
    pub fn start_producers(&mut self, workload: &Workload) -> Result<(), Error> {
        let spread = workload.spread(self.places.len());
        let count = spread.connections();
        let messages = workload.messages()?;
        let origin_ns = self.clock.now_ns() + LEAD_NS;
        if workload.trace {
            self.tracer = Tracer::start(&self.client, &workload.producer_group, TRACE_TOPIC);
        }
        self.silences = workload
            .follows
            .then(|| Arc::new(Silences::new(self.clock, self.connections.len() + count as usize)));
        for index in 0..count {
            let place = &self.places[index as usize % self.places.len()];
            let prefix = crate::load::key_prefix(self.client.ip(), self.clock, index);
            let share = |whole: u64| {
                whole / u64::from(count) + u64::from(u64::from(index) < whole % u64::from(count))
            };
            let options = ConnectionOptions {
                in_flight: spread.share(index),
                work: Mix::new(workload, &messages, (&place.targets, index, prefix))?
                    .noted_in(self.ledger.clone())
                    .ended_by(self.transactions(workload, index))
                    .traced_by(self.traced(&messages[0]))
                    .heard_by(self.silences.clone()),
                first_queue: index as usize / self.places.len(),
                quantity: workload.quantity.map(share),
                pace: workload.pace(count).map(|pace: Pace| {
                    // The connections send at staggered times instead of all at once.
                    let apart_ns = 1e9 * f64::from(index) / workload.rate.unwrap_or(1.0).max(1.0);
                    pace.starting(origin_ns + apart_ns as u64)
                }),
                messages_each: workload.batch.max(1).into(),
                send_timeout: Duration::from_millis(workload.send_timeout_ms),
                turn: spread.turn(index),
            };
            let connection = Arc::new(Connection::new(options, self.clock, self.tally.clone()));
            self.connections.push(connection.clone());
            match self.endpoint.clone() {
                None => self.keep_connected(index as usize, self.destination(workload, place), connection),
                Some(endpoint) => self.keep_grpc_connected(workload, (index, endpoint), connection)?,
            }
        }
        Ok(())
    }

    /// Transactions of a connection, which end its half messages; `None` when its messages are ordinary messages.
    fn transactions(&self, workload: &Workload, connection: u32) -> Option<Transactions> {
        let ending = || {
            Ending::new(workload.encoding(), &workload.producer_group, self.client.id())
                .signed_by(workload.credentials())
        };
        let start_ms = self.clock.epoch_ms(0);
        let decided =
            workload.decisions.map(|all| (all.of_connection(start_ms, connection), self.checks.clone()));
        (workload.send == Send::Transaction).then(|| Transactions::new(ending(), decided))
    }

    fn traced(&self, message: &Message) -> Option<Traced> {
        let tracer = self.tracer.clone()?;
        Some(Traced { tracer, message: message.clone(), clock: self.clock })
    }

    /// Destination of the connections to a broker.
    fn destination(&self, workload: &Workload, place: &Place) -> Destination {
        match place.targets.first().filter(|_| workload.follows) {
            None => Destination::fixed(place.address),
            Some(target) => {
                let topic = target.topic.as_deref().unwrap_or(&workload.topic);
                Destination::master(place.address, &self.client, (topic, &target.broker))
            }
        }
    }

    fn keep_connected(&mut self, index: usize, to: Destination, connection: Arc<Connection<Mix>>) {
        let workers = self.workers.clone();
        self.keepers.spawn(async move {
            // The workers stop only when the run is over, so no caller waits for the result.
            let _ = keep_connected(&workers, index, to, connection).await;
        });
    }

    fn keep_grpc_connected(
        &mut self,
        workload: &Workload,
        (index, endpoint): (u32, Endpoint),
        connection: Arc<Connection<Mix>>,
    ) -> Result<(), Error> {
        let (topics, (end, ended)) = (workload.topics().collect(), oneshot::channel::<()>());
        let kept = move || async move {
            sender::keep_connected(endpoint, index, topics, connection).await;
            drop(end);
        };
        self.workers.spawn(index as usize, kept).map_err(Error::system("start a connection"))?;
        self.keepers.spawn(async move { drop(ended.await) });
        Ok(())
    }

    /// Starts the consumers of every group. Consumers that were stopped before go on where they stopped.
    ///
    /// # Errors
    /// [`Error::Cluster`] when a broker does not report the offsets of its queues.
    pub async fn start_readers(&mut self, workload: &Workload) -> Result<(), Error> {
        if workload.groups == 0 {
            return Ok(());
        }
        if let Some(endpoint) = self.endpoint.clone() {
            let places = places(&self.client, &workload.wanted()).await?;
            let counted = (self.clock, self.reading.clone(), self.tally.clone());
            let (client, workers) = (&self.client, &self.workers);
            self.receivers =
                receiver::start((client, &endpoint), workload, &places, workers, counted).await?;
            return Ok(());
        }
        if workload.consume != Consume::Pull {
            self.pushers =
                push::start(&self.client, workload, &self.places, (self.clock, &self.reading)).await?;
            return Ok(());
        }
        let stopped = std::mem::take(&mut self.readers);
        if !stopped.is_empty() {
            stopped.iter().for_each(|reader| self.read(Arc::new(reader.again())));
            return Ok(());
        }
        let bodies: Vec<_> = workload.messages()?.into_iter().map(|message| message.body).collect();
        let check = self.ledger.clone().map(|ledger| Arc::new(reader::Check { ledger, bodies }));
        for number in 0..workload.groups {
            for index in 0..self.places.len() {
                let place = &self.places[index];
                let to = self.destination(workload, place);
                let queues = reader::positions(&self.client, workload, (number, place)).await?;
                for share in shares(&queues, workload.consumers) {
                    let counted = (self.clock, self.reading.clone(), check.clone());
                    let reader = Reader::new(workload, number, (to.clone(), share.to_vec()), counted);
                    self.read(Arc::new(reader));
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, reader: Arc<Reader>) {
        self.readers.push(reader.clone());
        let (workers, index) = (self.workers.clone(), self.readers.len());
        self.keepers.spawn(async move { reader::keep_connected(&workers, index, reader).await });
    }

    /// Stops consumers; they can be started again.
    pub async fn stop_readers(&mut self) {
        self.readers.iter().for_each(|reader| reader.stop());
        for pusher in self.pushers.drain(..) {
            pusher.shutdown().await;
        }
        for receiver in self.receivers.drain(..) {
            receiver.shutdown().await;
        }
    }

    /// Counts of messages that were acknowledged, received, missing, duplicated, changed and out of order; empty when
    /// content is not checked.
    pub fn checked(&self) -> std::collections::BTreeMap<String, u64> {
        self.ledger.as_ref().map(|ledger| ledger.counts()).unwrap_or_default()
    }

    /// Times without an acknowledgement until producers were stopped; empty when clients do not follow the master.
    pub fn silences(&self) -> Vec<crate::archive::Silence> {
        self.silences.as_ref().map(|silences| silences.found()).unwrap_or_default()
    }

    /// Number of producing connections.
    pub fn connections(&self) -> u32 {
        u32::try_from(self.connections.len()).unwrap_or(u32::MAX)
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.connections.iter().map(|connection| connection.in_flight() as u64).sum()
    }

    /// Stops the producers; consumers go on.
    pub fn stop_producers(&self) {
        self.silences.iter().for_each(|silences| silences.end());
        self.connections.iter().for_each(|connection| connection.stop());
    }

    /// Number of messages that wait at the brokers, summed over the groups.
    pub fn behind(&self) -> u64 {
        self.readers.iter().map(|reader| reader.behind()).sum()
    }

    /// Whether every consumer has learned the end of every queue. Push consumers and those over gRPC report nothing and
    /// do not count.
    pub fn knows_positions(&self) -> bool {
        self.pushers.is_empty()
            && self.receivers.is_empty()
            && self.readers.iter().all(|reader| reader.knows_positions())
    }

    /// The clock of the load.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The counts of all requests.
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// The counts of the checks that brokers made.
    pub(crate) fn checks(&self) -> &Arc<Checks> {
        &self.checks
    }

    /// Waits until the work of every connection is done.
    pub(crate) async fn ended(&mut self) {
        while self.keepers.join_next().await.is_some() {}
    }

    /// Returns the figures since the last call.
    pub fn take(&mut self) -> IntervalSample {
        let now_ns = self.clock.now_ns();
        let at_ms = self.clock.epoch_ms(now_ns);
        let total = self.tally.snapshot(at_ms);
        let (latency, late) = self.tally.take_latency();
        let (bytes, cpu) = (self.tally.bytes(), process_time());
        let read = self.reading.take();
        let interval = IntervalSample {
            at_ms,
            lasted_ms: ((now_ns - self.last_ns) / 1_000_000).max(1),
            sent: total.messages - self.last.messages,
            sent_bytes: bytes - self.last_bytes,
            failed: total.send_failed - self.last.send_failed,
            refused: total.response_failed - self.last.response_failed,
            consumed: read.messages,
            consumed_bytes: read.bytes,
            in_flight: self.in_flight(),
            cpu_us: (cpu - self.last_cpu).as_micros() as u64,
            latency: latency.into_histogram(),
            end_to_end: read.end_to_end.into_histogram(),
            late: late.into_histogram(),
            refusal: self.tally.take_refusal(),
        };
        (self.last, self.last_bytes, self.last_cpu, self.last_ns) = (total, bytes, cpu, now_ns);
        interval
    }

    /// Stops the producers and then the consumers, and waits for requests in flight; returns whether all were answered
    /// or given up in time.
    pub(crate) async fn drain(&mut self) -> bool {
        self.stop_producers();
        self.stop_readers().await;
        tokio::time::timeout(DRAIN, self.ended()).await.is_ok()
    }

    /// Stops the load and closes its connections.
    pub async fn stop(mut self) {
        // Requests that are not answered in time end with their connection.
        self.drain().await;
        self.close().await;
    }

    /// Closes the connections of a load that was drained.
    pub(crate) async fn close(self) {
        self.workers.shutdown();
        if let Some(tracer) = &self.tracer {
            tracer.finish().await;
        }
        self.client.shutdown();
    }
}

/// Divides the queues of a group evenly among its consumers, neighbouring queues together. A consumer without a queue
/// is left out.
fn shares<T>(queues: &[T], consumers: u32) -> impl Iterator<Item = &[T]> {
    let consumers = consumers.max(1) as usize;
    let first = move |number: usize| number * queues.len() / consumers;
    let share = move |number: usize| &queues[first(number)..first(number + 1)];
    (0..consumers).map(share).filter(|share| !share.is_empty())
}

/// User and system time of this process.
fn process_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
