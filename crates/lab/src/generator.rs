//! The load of a run: producers and consumers as a [`Workload`] describes them, and the figures of what they did.
//!
//! A workload is complete and can be sent to another machine. [`Generator`] runs it on its own threads, and the caller
//! takes a [`IntervalSample`] (the figures of an interval) every second. The figures of several generators are added up,
//! histograms included.

mod access;
mod interval;
mod ledger;
mod mix;
mod push;
mod reader;
#[cfg(test)]
mod tests;
mod workload;

pub use access::Access;
pub use interval::IntervalSample;
pub use ledger::{Ledger, Receipt};
pub use mix::Mix;
pub use reader::{Reader, Reading};
pub use workload::{Consume, Payload, Send, Sizes, Start, Workload};

use crate::Error;
use crate::load::Ending;
use crate::load::{Clock, Connection, ConnectionOptions, Pace, keep};
use crate::report::{Snapshot, Tally};
use crate::session::{self, Place};
use client::Client;
use net::Workers;
use push::Pusher;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

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
    keepers: JoinSet<()>,
    places: Vec<Place>,
    ledger: Option<Arc<Ledger>>,
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

    /// Does what [`Generator::start`] does before it starts consumers and producers.
    ///
    /// # Errors
    /// As for [`Generator::start`].
    pub async fn prepare(workload: &Workload) -> Result<Self, Error> {
        workload.check()?;
        let client = Client::start(workload.client())?;
        let places = session::places(&client, &workload.wanted()).await?;
        let connections = workload.spread(places.len()).connections();
        let ledger =
            workload.checked.then(|| Arc::new(Ledger::new(connections as usize, workload.groups as usize)));
        Ok(Self {
            client,
            workers: session::workers(workload.cores.max(1), workload.unsent_bytes_max())?,
            clock: Clock::start(),
            tally: Arc::default(),
            reading: Arc::default(),
            connections: Vec::new(),
            readers: Vec::new(),
            pushers: Vec::new(),
            keepers: JoinSet::new(),
            places,
            ledger,
            last: Snapshot::default(),
            last_bytes: 0,
            last_cpu: process_time(),
            last_ns: 0,
        })
    }

    /// Makes the generator report times by the clock of another machine, which is `us` microseconds behind this
    /// machine's.
    #[must_use]
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
        for index in 0..count {
            let place = &self.places[index as usize % self.places.len()];
            let ending = (workload.send == Send::Transaction).then(|| {
                Ending::new(workload.encoding(), workload::PRODUCER_GROUP, self.client.id())
                    .signed_by(workload.credentials())
            });
            let prefix = crate::load::key_prefix(self.client.ip(), self.clock, index);
            let options = ConnectionOptions {
                in_flight: spread.share(index),
                work: Mix::new(workload, &messages, (&place.targets, index, prefix))?
                    .noted_in(self.ledger.clone())
                    .ended_by(ending),
                first_queue: index as usize / self.places.len(),
                quantity: None,
                pace: workload.pace(count).map(|pace: Pace| {
                    // The connections send at staggered times instead of all at once.
                    let apart_ns = 1e9 * f64::from(index) / workload.rate.unwrap_or(1.0).max(1.0);
                    pace.starting(origin_ns + apart_ns as u64)
                }),
                messages_each: workload.batch.max(1).into(),
                turn: spread.turn(index),
            };
            let connection = Arc::new(Connection::new(options, self.clock, self.tally.clone()));
            self.connections.push(connection.clone());
            self.keep(index as usize, place.address, connection);
        }
        Ok(())
    }

    fn keep(&mut self, index: usize, address: SocketAddr, connection: Arc<Connection<Mix>>) {
        let workers = self.workers.clone();
        self.keepers.spawn(async move {
            // The workers stop only when the run is over, so there is nobody to report to.
            let _ = keep(&workers, index, address, connection).await;
        });
    }

    /// Starts the consumers of every group. Consumers that were stopped before go on where they stopped.
    ///
    /// # Errors
    /// [`Error::Cluster`] when a broker does not report the offsets of its queues.
    pub async fn start_readers(&mut self, workload: &Workload) -> Result<(), Error> {
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
                let address = place.address;
                let queues = reader::positions(&self.client, workload, (number, place)).await?;
                for share in shares(&queues, workload.consumers) {
                    let counted = (self.clock, self.reading.clone(), check.clone());
                    let reader = Reader::new(workload, number, (address, share.to_vec()), counted);
                    self.read(Arc::new(reader));
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, reader: Arc<Reader>) {
        self.readers.push(reader.clone());
        let (workers, index) = (self.workers.clone(), self.readers.len());
        self.keepers.spawn(async move { reader::keep(&workers, index, reader).await });
    }

    /// Stops consumers; they can be started again.
    pub async fn stop_readers(&mut self) {
        self.readers.iter().for_each(|reader| reader.stop());
        for pusher in self.pushers.drain(..) {
            pusher.shutdown().await;
        }
    }

    /// Counts of messages that were acknowledged, received, missing, duplicated, changed and out of order; empty when
    /// content is not checked.
    #[must_use]
    pub fn checked(&self) -> std::collections::BTreeMap<String, u64> {
        self.ledger.as_ref().map(|ledger| ledger.counts()).unwrap_or_default()
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.connections.iter().map(|connection| connection.in_flight() as u64).sum()
    }

    /// Stops the producers; consumers go on.
    pub fn stop_producers(&self) {
        self.connections.iter().for_each(|connection| connection.stop());
    }

    /// Number of messages that wait at the brokers, summed over the groups.
    #[must_use]
    pub fn behind(&self) -> u64 {
        self.readers.iter().map(|reader| reader.behind()).sum()
    }

    /// Whether every consumer has learned the end of every queue. Push consumers report nothing and do not count.
    #[must_use]
    pub fn knows_positions(&self) -> bool {
        self.pushers.is_empty() && self.readers.iter().all(|reader| reader.knows_positions())
    }

    /// The client of the workload, for example to ask brokers for their figures.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the figures since the last call.
    pub fn take(&mut self) -> IntervalSample {
        let now_ns = self.clock.now_ns();
        let at_ms = self.clock.epoch_ms(now_ns);
        let total = self.tally.snapshot(at_ms);
        let (latency, late) = self.tally.take_latency();
        let (bytes, cpu) = (self.tally.bytes(), process_time());
        let read = self.reading.take();
        let taken = IntervalSample {
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
        taken
    }

    /// Stops the producers and then the consumers, and waits for requests in flight.
    pub async fn stop(mut self) {
        self.stop_producers();
        self.stop_readers().await;
        let drained = async { while self.keepers.join_next().await.is_some() {} };
        // Requests that are not answered in time end with their connection.
        let _ = tokio::time::timeout(DRAIN, drained).await;
        self.workers.shutdown();
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
