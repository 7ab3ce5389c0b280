//! Frames as answers of pulls, pops and notifications, now and later.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use net::ConnectionHandle;
use wire::codes::response;
use wire::frame::{Encoding, FrameWriter, Head};
use wire::pop::{ORDER_REVIVE_QUEUE, OffsetTexts};

use super::incoming::Request;
use crate::Refusal;
use crate::reply_sink::{
    PopSink, PopStatus, PopWork, PopWriter, Popped, PullAnswer, PullSink, PullWork, PullWriter, ReplySink,
};
use crate::rpc_latency::{Measured, RpcLatency, Written};

/// Bytes that a request is charged to its connection while its answer is read from the disk: about the size of such an answer
/// (`maxTransferBytesOnMessageInDisk`).
pub(super) const ANSWER_BYTES: usize = 64 << 10;

/// Bytes of the buffer for answers that a thread of the disk pool keeps.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// Buffer for a response of a thread that is not the connection's own.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Form of the response to a refused request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Has all fields of a pop's response, with zeros, because clients read the fields without a null check.
    Pop,
    /// Has no fields. For a pop of lite topics, whose successful responses have fewer fields than those of other pops.
    LitePop,
    /// Has no fields, as in RocketMQ. A client that ignores the code of a pull's response would otherwise continue at
    /// offset 0.
    Plain,
}

/// Parts of a request frame that its response needs.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    opaque: i32,
    encoding: Encoding,
    form: Form,
    /// Whether the client expects no response.
    pub(super) is_one_way: bool,
    pub(super) measured: Measured,
}

impl Call {
    /// The call of a request; its refusal has this form.
    pub(super) fn of(request: &Request<'_>, form: Form) -> Self {
        let (command, measured) = (request.command, request.measured());
        Self {
            opaque: command.opaque,
            encoding: command.encoding,
            form,
            is_one_way: command.is_one_way(),
            measured,
        }
    }

    /// Writes the answer of this call to `out`.
    pub(crate) fn writer<'a>(&self, out: &'a mut Vec<u8>) -> Frames<'a> {
        Frames { call: *self, start: out.len(), out }
    }

    /// Makes a sink that answers this call later.
    pub(crate) fn later(&self, peer: &Arc<ConnectionHandle>, latency: &Arc<RpcLatency>) -> Arc<Later> {
        let (peer, latency) = (peer.clone(), latency.clone());
        Arc::new(Later { call: *self, peer, latency, is_suspended: AtomicBool::new(false) })
    }

    /// A call with request id 1.
    #[cfg(test)]
    pub(crate) fn first() -> Self {
        let measured = Measured::default();
        Self { opaque: 1, encoding: Encoding::Json, form: Form::Pop, is_one_way: false, measured }
    }

    /// The head of an answer with this response code.
    pub(super) fn head(&self, code: i32) -> Head<'static> {
        Head::response(self.encoding, code, self.opaque)
    }
}

/// Writes the refusal of a request with this head.
pub(super) fn refuse(form: Form, head: Head<'_>, out: &mut Vec<u8>) {
    let frame = FrameWriter::begin(out, head);
    match form {
        Form::Pop => pop_header(frame, &Popped::default(), 0).finish(b""),
        Form::Plain | Form::LitePop => frame.finish(b""),
    }
}

/// Writes the fields of `PopMessageResponseHeader`. All numbers are always written, since Java reads them without a null check.
fn pop_header<'b>(writer: FrameWriter<'b>, popped: &Popped, invisible_ms: i64) -> FrameWriter<'b> {
    let texts = OffsetTexts::of(&popped.queues);
    let writer = writer
        .number("popTime", popped.pop_ms)
        .number("invisibleTime", invisible_ms)
        .number("reviveQid", popped.revive_queue)
        .number("restNum", popped.rest)
        .text("startOffsetInfo", &texts.starts)
        .text("msgOffsetInfo", &texts.offsets);
    if texts.counts.is_empty() { writer } else { writer.text("orderCountInfo", &texts.counts) }
}

/// Writes the fields of `PopLiteMessageResponseHeader`. The messages name their own positions.
fn lite_pop_header<'b>(writer: FrameWriter<'b>, popped: &Popped, invisible_ms: i64) -> FrameWriter<'b> {
    let counts: Vec<String> = popped.lite_deliveries.iter().map(i32::to_string).collect();
    writer
        .number("popTime", popped.pop_ms)
        .number("invisibleTime", invisible_ms)
        .number("reviveQid", ORDER_REVIVE_QUEUE)
        .text("orderCountInfo", &counts.join(";"))
}

/// Writes the response of a call behind the content of `out`.
pub(crate) struct Frames<'a> {
    call: Call,
    out: &'a mut Vec<u8>,
    start: usize,
}

impl Frames<'_> {
    fn refuse(&mut self, refusal: &Refusal) {
        refuse(self.call.form, self.call.head(refusal.code).remark(&refusal.remark), self.out);
    }
}

impl PullWriter for Frames<'_> {
    fn pull(&mut self, answer: &PullAnswer<'_>, body_bytes: usize) -> &mut Vec<u8> {
        let head = self.call.head(answer.code).remark(answer.remark);
        answer.header.write(FrameWriter::begin(self.out, head)).finish_header(body_bytes);
        self.out
    }

    fn take_back(&mut self) {
        self.out.truncate(self.start);
    }

    fn refused(&mut self, refusal: &Refusal) {
        self.refuse(refusal);
    }
}

impl PopWriter for Frames<'_> {
    fn popped(&mut self, status: PopStatus, popped: Popped, invisible_ms: i64) {
        let (code, remark) = match status {
            PopStatus::Found => (response::SUCCESS, "FOUND"),
            PopStatus::TimedOut => (response::POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE"),
            PopStatus::Full => (response::POLLING_FULL, "NO_MESSAGE_IN_QUEUE"),
        };
        let frame = FrameWriter::begin(self.out, self.call.head(code).remark(remark));
        match self.call.form {
            Form::LitePop => lite_pop_header(frame, &popped, invisible_ms).finish(&popped.body),
            Form::Pop | Form::Plain => pop_header(frame, &popped, invisible_ms).finish(&popped.body),
        }
    }

    fn noticed(&mut self, has_messages: bool, is_full: bool) {
        let frame = FrameWriter::begin(self.out, self.call.head(response::SUCCESS));
        frame.flag("hasMsg", has_messages).flag("pollingFull", is_full).finish(b"");
    }

    fn refused(&mut self, refusal: &Refusal) {
        self.refuse(refusal);
    }
}

/// A call that is answered later, on its connection.
pub(crate) struct Later {
    call: Call,
    peer: Arc<ConnectionHandle>,
    latency: Arc<RpcLatency>,
    /// Whether the call waits or waited for a message.
    is_suspended: AtomicBool,
}

impl Later {
    fn measured(&self) -> Measured {
        Measured { is_long_polling: self.is_suspended.load(Ordering::Relaxed), ..self.call.measured }
    }

    fn enqueue(&self, reply: impl FnOnce(&mut Frames<'_>) + Send + 'static) {
        let (call, measured, latency) = (self.call, self.measured(), self.latency.clone());
        // A connection that has just ended drops the work.
        let _ = self.peer.enqueue(Box::new(move |_, out| {
            let start = out.len();
            reply(&mut call.writer(out));
            latency.count_frame(&measured, &out[start..], Written::Success);
        }));
    }

    fn push(&self, reply: impl FnOnce(&mut Frames<'_>)) {
        let mut bytes = BUFFER.take();
        bytes.clear();
        reply(&mut self.call.writer(&mut bytes));
        // A consumer whose connection has ended needs no answer.
        let written = Written::of(&self.peer.push(|out| out.extend_from_slice(&bytes)));
        self.latency.count_frame(&self.measured(), &bytes, written);
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        BUFFER.set(bytes);
    }
}

impl PullSink for Later {
    fn run(&self, reply: PullWork) {
        self.enqueue(move |frames| reply(frames));
    }

    fn write(&self, reply: &mut dyn FnMut(&mut dyn PullWriter)) {
        self.push(|frames| reply(frames));
    }
}

impl PopSink for Later {
    fn run(&self, reply: PopWork) {
        self.enqueue(move |frames| reply(frames));
    }

    fn write(&self, reply: &mut dyn FnMut(&mut dyn PopWriter)) {
        self.push(|frames| reply(frames));
    }
}

impl ReplySink for Later {
    fn id(&self) -> u64 {
        self.peer.id()
    }

    fn is_closed(&self) -> bool {
        self.peer.is_closed()
    }

    fn suspend(&self) {
        self.is_suspended.store(true, Ordering::Relaxed);
    }

    fn charge(&self) -> Box<dyn Send> {
        Box::new(self.peer.charge(ANSWER_BYTES))
    }
}
