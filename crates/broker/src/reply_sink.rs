//! Pulls and pops that are answered later: where their answers go, whatever protocol the caller speaks.

use wire::header::PullReply;
use wire::pop::OffsetTexts;

use crate::Refusal;

/// How a pull ended, without its messages.
pub(crate) struct PullAnswer<'a> {
    /// Response code.
    pub code: i32,
    /// Name of the status in `GetMessageStatus`, or what went wrong.
    pub remark: &'a str,
    pub header: PullReply,
}

/// What a pop returns.
#[derive(Debug, Default)]
pub struct Popped {
    /// Where the messages are stored, in the text form of the remoting protocol.
    pub texts: OffsetTexts,
    /// The records of the messages, one behind the other.
    pub body: Vec<u8>,
    /// Number of messages returned.
    pub count: i32,
    /// Number of messages left in the queues that were looked at.
    pub rest: i64,
    /// Time of the pop, milliseconds since the epoch.
    pub pop_ms: i64,
    /// Queue of the revive topic for the checkpoints of the pop; 999 for an ordered pop.
    pub revive_queue: i32,
}

/// How a pop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopStatus {
    /// There are messages.
    Found,
    /// No message came in the polling time.
    TimedOut,
    /// As many requests are suspended as the settings allow.
    Full,
}

/// Writes the answer of one pull, pop or notification in the form of its front.
pub(crate) trait ReplyWriter {
    /// Begins the answer of a pull. The caller appends records of exactly `body_bytes` bytes to the buffer that is returned.
    fn pull(&mut self, answer: &PullAnswer<'_>, body_bytes: usize) -> &mut Vec<u8>;

    /// Takes back what [`ReplyWriter::pull`] wrote, and what was appended to it.
    fn take_back(&mut self);

    /// Answers a pop; `invisible_ms` is how long the messages stay invisible to other consumers of the group.
    fn popped(&mut self, status: PopStatus, popped: Popped, invisible_ms: i64);

    /// Answers a notification: whether there are messages, or whether too many requests are suspended.
    fn noticed(&mut self, has_messages: bool, is_full: bool);

    /// Refuses the call.
    fn refused(&mut self, refusal: &Refusal);
}

/// Work that writes an answer.
pub(crate) type Reply = Box<dyn FnOnce(&mut dyn ReplyWriter) + Send>;

/// One pull, pop or notification that is answered later. A call that was cancelled, or whose caller is gone, takes no answer.
pub(crate) trait ReplySink: Send + Sync {
    /// Calls with the same id are cancelled together ([`crate::pop::Pops::closed`]): on the remoting side those of one connection.
    fn id(&self) -> u64;

    /// Whether the call was cancelled or its caller is gone.
    fn is_closed(&self) -> bool;

    /// Notes that the call waits for a message from now on.
    fn suspend(&self) {}

    /// Runs `reply` where the answers to the caller are written, on the thread of its connection; so the thread that calls this
    /// need not read messages for every group that waits. `reply` is dropped when the caller is gone.
    fn run(&self, reply: Reply);

    /// Writes an answer on the calling thread.
    fn write(&self, reply: &mut dyn FnMut(&mut dyn ReplyWriter));

    /// Charges the caller with the memory of an answer that waits for the disk, until the returned value is dropped.
    fn charge(&self) -> Box<dyn Send>;
}
