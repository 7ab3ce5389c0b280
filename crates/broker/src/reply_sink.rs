//! Sinks for responses to suspended pulls and pops, independent of the caller's protocol.

use wire::header::PullResponseHeader;
use wire::pop::QueueOffsets;

use crate::Refusal;

/// Result of a pull, without its messages.
pub(crate) struct PullAnswer<'a> {
    /// Response code.
    pub code: i32,
    /// Name of the status in `GetMessageStatus`, or the error.
    pub remark: &'a str,
    pub header: PullResponseHeader,
}

/// Result of a pop.
#[derive(Debug, Default)]
pub struct Popped {
    /// Positions of the messages by queue.
    pub queues: Vec<QueueOffsets>,
    /// Number of earlier deliveries of each message of a pop of lite topics, in order. Empty for other pops.
    pub lite_deliveries: Vec<i32>,
    /// Records of the messages, without separators.
    pub body: Vec<u8>,
    /// Number of messages returned.
    pub count: i32,
    /// Number of messages left in the examined queues.
    pub rest: i64,
    /// Time of the pop, milliseconds since the epoch.
    pub pop_ms: i64,
    /// Queue of the revive topic for the checkpoints of the pop; 999 for an ordered pop.
    pub revive_queue: i32,
}

/// Status of a pop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopStatus {
    /// Messages were found.
    Found,
    /// No message arrived within the polling time.
    TimedOut,
    /// The number of suspended requests is at its limit.
    Full,
}

/// Writes the response of a pull in the form of its front.
pub(crate) trait PullWriter {
    /// Begins the answer of a pull. The caller appends records of exactly `body_bytes` bytes to the buffer that is returned.
    fn pull(&mut self, answer: &PullAnswer<'_>, body_bytes: usize) -> &mut Vec<u8>;

    /// Removes the output of [`PullWriter::pull`], and everything appended to it.
    fn take_back(&mut self);

    /// Refuses the call.
    fn refused(&mut self, refusal: &Refusal);
}

/// Writes the response of a pop or notification in the form of its front.
pub(crate) trait PopWriter {
    /// Answers a pop. `invisible_ms` is the time for which the messages stay invisible to other consumers of the
    /// group.
    fn popped(&mut self, status: PopStatus, popped: Popped, invisible_ms: i64);

    /// Answers a notification: whether messages exist, and whether too many requests are suspended.
    fn noticed(&mut self, has_messages: bool, is_full: bool);

    /// Refuses the call.
    fn refused(&mut self, refusal: &Refusal);
}

/// Work that writes the answer of a pull.
pub(crate) type PullWork = Box<dyn FnOnce(&mut dyn PullWriter) + Send>;

/// Work that writes the answer of a pop or notification.
pub(crate) type PopWork = Box<dyn FnOnce(&mut dyn PopWriter) + Send>;

/// Pull, pop or notification that is answered later. A cancelled call, or a call whose caller is gone, accepts no
/// response.
pub(crate) trait ReplySink: Send + Sync {
    /// Id for cancellation: calls with equal ids are cancelled together ([`crate::state::Pops::closed`]). Calls of a
    /// remoting connection have the same id.
    fn id(&self) -> u64;

    /// Whether the call was cancelled or its caller is gone.
    fn is_closed(&self) -> bool;

    /// Records that the call waits for a message from now on.
    fn suspend(&self) {}

    /// Charges the caller with the memory of an answer that waits for the disk, until the returned value is dropped.
    fn charge(&self) -> Box<dyn Send>;
}

/// Pull that is answered later.
pub(crate) trait PullSink: ReplySink {
    /// Runs `reply` on the thread of the caller's connection, which writes its responses. So the calling thread need
    /// not read messages for every waiting group. `reply` is dropped if the caller is gone.
    fn run(&self, reply: PullWork);

    /// Writes an answer on the calling thread.
    fn write(&self, reply: &mut dyn FnMut(&mut dyn PullWriter));
}

/// Pop or notification that is answered later. The functions are those of [`PullSink`].
pub(crate) trait PopSink: ReplySink {
    /// Runs `reply` on the thread of the caller's connection, as [`PullSink::run`] does.
    fn run(&self, reply: PopWork);

    /// Writes an answer on the calling thread.
    fn write(&self, reply: &mut dyn FnMut(&mut dyn PopWriter));
}
