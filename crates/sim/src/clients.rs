//! Model clients. A producer has one message in flight at a time and tries another broker when one refuses or
//! is silent. Readers read each queue from its beginning, from any broker.

use crate::broker::SendOutcome;
use crate::message::{QUEUES, Sending};
use crate::random::Random;
use crate::settings::{BROKERS, NodeId, Settings};
use std::collections::BTreeMap;

/// Number of producers.
const PRODUCERS: usize = 4;
/// Number of readers.
const READERS: usize = 3;
/// Time in milliseconds after which a call without an answer ends with an unknown outcome.
const TIMEOUT_MS: u64 = 4_000;

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// Sends a message.
    Send(Sending),
    /// Reads the messages of a queue from an offset on.
    Read(i32, u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Producer {
    /// Call in flight, number of its message, and time of the call in ms.
    waiting: Option<(u64, u64, u64)>,
    next_ms: u64,
    target: usize,
    /// Queue offset of the last acknowledged message.
    last: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reader {
    next_ms: u64,
    next: [u64; QUEUES as usize],
}

/// All clients.
pub struct Clients {
    random: Random,
    body_bytes: (u64, u64),
    producers: Vec<Producer>,
    readers: Vec<Reader>,
    last_call: u64,
    last_number: u64,
    /// Reader and queue of each read call in flight.
    reads: BTreeMap<u64, (usize, usize)>,
}

impl Clients {
    /// Makes idle clients.
    pub fn new(settings: &Settings, random: Random) -> Self {
        Self {
            random,
            body_bytes: settings.body_bytes,
            producers: vec![Producer::default(); PRODUCERS],
            readers: vec![Reader::default(); READERS],
            last_call: 0,
            last_number: 0,
            reads: BTreeMap::new(),
        }
    }

    /// Returns the calls of clients at `now_ms`. If `may_send` is false, only readers call.
    pub fn round(&mut self, now_ms: u64, may_send: bool) -> Vec<(NodeId, u64, Call)> {
        let mut calls = Vec::new();
        for index in 0..if may_send { PRODUCERS } else { 0 } {
            let producer = &mut self.producers[index];
            if producer.waiting.is_some_and(|(.., since_ms)| now_ms >= since_ms + TIMEOUT_MS) {
                producer.waiting = None;
                producer.target += 1;
            }
            if producer.waiting.is_some() || now_ms < producer.next_ms {
                continue;
            }
            (self.last_call, self.last_number) = (self.last_call + 1, self.last_number + 1);
            producer.waiting = Some((self.last_call, self.last_number, now_ms));
            let queue = i32::try_from(index).expect("few") % QUEUES;
            let bytes = self.random.between(self.body_bytes.0, self.body_bytes.1);
            let body_bytes = usize::try_from(bytes).expect("small");
            let sending = Sending { number: self.last_number, queue, body_bytes };
            calls.push((NodeId(producer.target % BROKERS), self.last_call, Call::Send(sending)));
        }
        for index in 0..READERS {
            if now_ms < self.readers[index].next_ms {
                continue;
            }
            self.readers[index].next_ms = now_ms + self.random.between(100, 600);
            let queue = usize::try_from(self.random.below(QUEUES as u64)).expect("small");
            let broker = usize::try_from(self.random.below(BROKERS as u64)).expect("small");
            self.last_call += 1;
            self.reads.insert(self.last_call, (index, queue));
            let from = self.readers[index].next[queue];
            let queue = i32::try_from(queue).expect("small");
            calls.push((NodeId(broker), self.last_call, Call::Read(queue, from)));
        }
        calls
    }

    /// Processes the response to a producer. `place` returns the queue offset of an acknowledged message.
    ///
    /// # Errors
    /// P5: a message lies before another message whose acknowledgement came before the message was sent.
    pub fn sent(
        &mut self,
        now_ms: u64,
        call: u64,
        outcome: SendOutcome,
        place: impl Fn(u64) -> Option<u64>,
    ) -> Result<(), String> {
        let is_it = |producer: &&mut Producer| producer.waiting.is_some_and(|waiting| waiting.0 == call);
        let Some(producer) = self.producers.iter_mut().find(is_it) else { return Ok(()) };
        let (_, number, _) = producer.waiting.take().expect("found by it");
        match outcome {
            SendOutcome::Acknowledged => {
                producer.next_ms = now_ms + self.random.between(10, 120);
                let Some(place) = place(number) else { return Ok(()) };
                if let Some(last) = producer.last.replace(place).filter(|last| *last >= place) {
                    return Err(format!(
                        "P5: message {number} lies at {place}, one acknowledged before at {last}"
                    ));
                }
            }
            SendOutcome::Refused | SendOutcome::Unknown => {
                producer.target += 1;
                producer.next_ms = now_ms + self.random.between(50, 300);
            }
        }
        Ok(())
    }

    /// Clears the last offset of every producer, and returns every reader to offset 0. A master
    /// that lost messages gives their queue offsets to other messages.
    pub fn forget_places(&mut self) {
        self.producers.iter_mut().for_each(|producer| producer.last = None);
        self.readers.iter_mut().for_each(|reader| reader.next = Default::default());
    }

    /// Discards pending responses to readers, because a slave may have sent them messages that its master lost.
    pub fn forget_reads(&mut self) {
        self.reads.clear();
    }

    /// Processes the answer to a reader. Returns the queue that the reader read, or `None` for an unknown
    /// call.
    pub fn found(&mut self, call: u64, found: &[(u64, u64)]) -> Option<i32> {
        let (reader, queue) = self.reads.remove(&call)?;
        if let Some((last, _)) = found.last() {
            let next = &mut self.readers[reader].next[queue];
            *next = (*next).max(last + 1);
            // From the beginning again now and then: what was read must not change.
            if self.random.once_in(8) {
                *next = 0;
            }
        }
        i32::try_from(queue).ok()
    }
}
