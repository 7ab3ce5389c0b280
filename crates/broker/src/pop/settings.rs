//! Settings of pop consumption and of assignments by the broker.

/// How a group consumes a topic (`MessageRequestMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Clients pull the queues they are assigned.
    Pull,
    /// Clients pop.
    Pop,
}

impl Mode {
    /// The words of the protocol.
    pub const WORDS: [(&str, Mode); 2] = [("PULL", Mode::Pull), ("POP", Mode::Pop)];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[usize::from(self == Self::Pop)].0
    }
}

/// Settings of pop consumption.
#[derive(Clone, Debug)]
pub struct PopSettings {
    /// `reviveQueueNum`: queues of the revive topic.
    pub revive_queues: i32,
    /// `enablePopBufferMerge`: checkpoints stay in memory for a while.
    pub buffer_merge: bool,
    /// `popCkStayBufferTime`: longest time they do.
    pub stay_ms: i64,
    /// `popCkStayBufferTimeOut`: they leave this long before their messages are visible again.
    pub rest_ms: i64,
    /// `popCkMaxBufferSize`: most of them.
    pub held_max: usize,
    /// `popCkOffsetMaxQueueSize`: most of one queue and group.
    pub lane_held_max: usize,
    /// `popFromRetryProbability`: percentage of pops that look at the retry topic first.
    pub retry_probability: i32,
    /// `enableRetryTopicV2`: retry topics are named with `+`.
    pub retry_v2: bool,
    /// `retrieveMessageFromPopRetryTopicV1`: and those named with `_` are read as well.
    pub retry_v1_too: bool,
    /// `popResponseReturnActualRetryTopic`: messages of a retry topic are returned as they lie there.
    pub actual_retry_topic: bool,
    /// `maxPopPollingSize`: most pops that wait.
    pub waiting_max: usize,
    /// `popPollingSize`: most of them for one topic, group and queue.
    pub list_waiting_max: usize,
    /// `initPopOffsetByCheckMsgInMem`: a new group on a young queue begins with its first message.
    pub start_in_memory: bool,
    /// `skipWhenCKRePutReachMaxTimes`: a message that cannot be brought back is given up after the last attempt.
    pub gives_up: bool,
    /// `serverLoadBalancerEnable`: queues are shared out among clients that ask the broker.
    pub balances: bool,
    /// `defaultMessageRequestMode`.
    pub default_mode: Mode,
    /// `defaultPopShareQueueNum`: of how many further clients a client also pops the queues.
    pub default_share: i32,
}

impl Default for PopSettings {
    fn default() -> Self {
        Self {
            revive_queues: 8,
            buffer_merge: false,
            stay_ms: 10_000,
            rest_ms: 3000,
            held_max: 200_000,
            lane_held_max: 20_000,
            retry_probability: 20,
            retry_v2: false,
            retry_v1_too: true,
            actual_retry_topic: false,
            waiting_max: 100_000,
            list_waiting_max: 1024,
            start_in_memory: true,
            gives_up: false,
            balances: true,
            default_mode: Mode::Pull,
            default_share: -1,
        }
    }
}
