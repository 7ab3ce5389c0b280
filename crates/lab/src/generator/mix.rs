//! The requests of a producing connection: a template for every message size, and a mark in every body.

use super::choices::{Send, Sizes};
use super::ledger::Ledger;
use super::silences::Silences;
use super::trace::Traced;
use super::transactions::Transactions;
use super::workload::Workload;
use crate::Error;
use crate::load::{Fate, GrpcTemplate, Message, Stamp, Target, Template, Work};
use net::ConnectionHandle;
use std::sync::Arc;
use wire::codes::response;
use wire::frame::Command;

/// Bytes of a mark at the beginning of a body.
pub(crate) const MARK_BYTES: usize = 40;

/// First bytes of a mark.
const MAGIC: [u8; 4] = *b"VLAB";

/// Most encoded headers that are kept, one per queue, tag and size.
const FRONTS_MAX: usize = 1 << 18;

/// The mark at the beginning of a body. Layout: magic, run, connection, four zero bytes, number, floor, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Number of the run that the message belongs to.
    pub run: u32,
    /// Number of the connection that sent the message.
    pub connection: u32,
    /// Number of the message on its connection.
    pub sequence: u64,
    /// All messages of the connection with smaller numbers were settled before this one was sent.
    pub floor: u64,
    /// Intended send time, microseconds since 1970.
    pub since_us: u64,
}

impl Mark {
    pub fn write(&self, body: &mut [u8]) {
        body[..4].copy_from_slice(&MAGIC);
        body[4..8].copy_from_slice(&self.run.to_be_bytes());
        body[8..12].copy_from_slice(&self.connection.to_be_bytes());
        body[12..16].fill(0);
        body[16..24].copy_from_slice(&self.sequence.to_be_bytes());
        body[24..32].copy_from_slice(&self.floor.to_be_bytes());
        body[32..40].copy_from_slice(&self.since_us.to_be_bytes());
    }

    /// Reads the mark of a body; `None` when the body has none.
    pub fn read(body: &[u8]) -> Option<Self> {
        let mark = body.get(..MARK_BYTES).filter(|mark| mark[..4] == MAGIC)?;
        let small = |at: usize| u32::from_be_bytes(mark[at..at + 4].try_into().expect("four bytes"));
        let large = |at: usize| u64::from_be_bytes(mark[at..at + 8].try_into().expect("eight bytes"));
        Some(Self {
            run: small(4),
            connection: small(8),
            sequence: large(16),
            floor: large(24),
            since_us: large(32),
        })
    }
}

/// Template of the requests of a size.
#[derive(Debug)]
enum Requests {
    Remoting(Template),
    Grpc(Box<GrpcTemplate>),
}

impl Requests {
    fn queues(&self) -> usize {
        match self {
            Self::Remoting(template) => template.queues(),
            Self::Grpc(template) => template.queues(),
        }
    }

    fn append_filled(&self, out: &mut Vec<u8>, queue: usize, stamp: &Stamp, fill: impl FnOnce(&mut [u8])) {
        match self {
            Self::Remoting(template) => template.append_filled(out, queue, stamp, fill),
            Self::Grpc(template) => template.append_filled(out, queue, stamp, fill),
        }
    }
}

/// Requests of several sizes to the queues of one broker.
#[derive(Debug)]
pub struct Mix {
    templates: Vec<Requests>,
    sizes: Sizes,
    messages_each: u64,
    is_marked: bool,
    run: u32,
    connection: u32,
    is_one_way: bool,
    ledger: Option<Arc<Ledger>>,
    transactions: Option<Transactions>,
    traced: Option<Traced>,
    silences: Option<Arc<Silences>>,
}

impl Mix {
    /// Encodes the requests of connection number `connection`.
    ///
    /// # Errors
    /// [`Error::Flag`] when there are too many queues, tags and sizes to keep a header for each.
    pub fn new(
        workload: &Workload,
        messages: &[Message],
        (targets, connection, key_prefix): (&[Target], u32, [u8; 10]),
    ) -> Result<Self, Error> {
        let fronts = targets.len() * workload.tags.max(1) as usize * messages.len();
        if fronts > FRONTS_MAX {
            let why =
                format!("{fronts} headers for every queue, tag and size, at most {FRONTS_MAX} are kept");
            return Err(Error::Flag { flag: "workload", why });
        }
        let template = |message: &Message| {
            let message = Message { key_prefix, ..message.clone() };
            let encoding = workload.encoding();
            match message.batch {
                _ if workload.grpc.is_some() => Requests::Grpc(Box::new(GrpcTemplate::new(message, targets))),
                0 => Requests::Remoting(Template::single(&message, targets, encoding)),
                count => Requests::Remoting(Template::batch(&message, count, targets, encoding)),
            }
        };
        Ok(Self {
            templates: messages.iter().map(template).collect(),
            sizes: workload.sizes.clone(),
            messages_each: workload.batch.max(1).into(),
            is_marked: workload.is_marked(),
            run: workload.run,
            connection,
            is_one_way: workload.send == Send::OneWay,
            ledger: None,
            transactions: None,
            traced: None,
            silences: None,
        })
    }

    /// Records in `silences` when the connection got acknowledgements.
    pub(super) fn heard_by(self, silences: Option<Arc<Silences>>) -> Self {
        Self { silences, ..self }
    }

    /// Records the fate of every request in `ledger`.
    pub fn noted_in(self, ledger: Option<Arc<Ledger>>) -> Self {
        Self { ledger, ..self }
    }

    /// Sends half messages, which `transactions` ends.
    pub(super) fn ended_by(self, transactions: Option<Transactions>) -> Self {
        Self { transactions, ..self }
    }

    /// Writes message traces.
    pub(super) fn traced_by(self, traced: Option<Traced>) -> Self {
        Self { traced, ..self }
    }
}

impl Work for Mix {
    fn queues(&self) -> usize {
        self.templates[0].queues()
    }

    fn keys(&self) -> u16 {
        match &self.templates[0] {
            Requests::Remoting(template) => template.keys(),
            Requests::Grpc(_) => 1,
        }
    }

    fn append(&self, out: &mut Vec<u8>, queue: usize, stamp: &Stamp) {
        let template = &self.templates[self.sizes.pick(stamp.sequence)];
        if let Some(ledger) = &self.ledger {
            ledger.issued(self.connection, stamp.sequence);
        }
        // The mark is part of what is signed, so it is written before the signature is made.
        template.append_filled(out, queue, stamp, |body| {
            if self.is_marked {
                let Stamp { sequence, floor, since_us, .. } = *stamp;
                Mark { run: self.run, connection: self.connection, sequence, floor, since_us }.write(body);
            } else if let Some(transactions) = &self.transactions {
                transactions.write(body, stamp.opaque);
            }
        });
    }

    fn plain_bytes(&self, sequence: u64) -> u64 {
        self.sizes.0[self.sizes.pick(sequence)].0 * self.messages_each
    }

    fn is_one_way(&self) -> bool {
        self.is_one_way
    }

    fn opened(&self, now_ns: u64, peer: &ConnectionHandle, out: &mut Vec<u8>) {
        if let Some(transactions) = &self.transactions {
            transactions.opened(now_ns, peer, out);
        }
    }

    fn elapsed(&self, now_ns: u64, peer: &ConnectionHandle, out: &mut Vec<u8>) {
        if let Some(transactions) = &self.transactions {
            transactions.elapsed(now_ns, peer, out);
        }
    }

    fn stored(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        if let Some(transactions) = &self.transactions {
            transactions.stored(command, out);
        }
        if let Some(traced) = &self.traced {
            traced.stored(command);
        }
    }

    fn asked(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        let is_answered = self.transactions.as_ref().is_some_and(|all| all.asked(command, out));
        if !is_answered && !command.is_one_way() {
            let remark = format!(" request type {} not supported", command.code);
            command.response(response::REQUEST_CODE_NOT_SUPPORTED).remark(&remark).write(out, b"");
        }
    }

    fn is_checked(&self) -> bool {
        self.ledger.is_some()
    }

    fn acknowledged(&self, now_ns: u64) {
        if let Some(silences) = &self.silences {
            silences.acknowledged(self.connection, now_ns);
        }
    }

    fn settled(&self, sequence: u64, fate: Fate) {
        if let Some(ledger) = &self.ledger {
            ledger.settled(self.connection, sequence, fate);
        }
    }
}
