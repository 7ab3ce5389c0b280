//! Settings of pop consumption and of assignments by the broker.

/// Way in which the clients of a group get the messages of a topic (`MessageRequestMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Clients pull the queues they are assigned.
    Pull,
    /// Clients pop messages.
    Pop,
}

impl Mode {
    /// The names of the modes in the protocol.
    pub const WORDS: [(&str, Mode); 2] = [("PULL", Mode::Pull), ("POP", Mode::Pop)];

    /// The name of the mode in the protocol.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[usize::from(self == Self::Pop)].0
    }
}

/// Settings of pop consumption.
#[derive(Clone, Debug)]
pub struct PopSettings {
    /// `reviveQueueNum`: number of queues of the revive topic.
    pub revive_queues: i32,
    /// `enablePopBufferMerge`: checkpoints stay in memory for a while.
    pub buffer_merge: bool,
    /// `popCkStayBufferTime`: longest time a checkpoint stays in memory.
    pub stay_ms: i64,
    /// `popCkStayBufferTimeOut`: a checkpoint in memory is stored at least this long before its messages are visible again.
    pub rest_ms: i64,
    /// `popCkMaxBufferSize`: most checkpoints in memory.
    pub held_max: usize,
    /// `popCkOffsetMaxQueueSize`: most pops in flight of a queue and group while checkpoints are kept in memory.
    pub in_flight_max: usize,
    /// `popFromRetryProbability`: percentage of pops that look at the retry topic first.
    pub retry_probability: i32,
    /// `popFromRetryProbabilityForPriority`: percentage of pops that begin with the retry topic, for pops that take
    /// the highest priority first.
    pub retry_probability_for_priority: i32,
    /// `priorityOrderAsc`: whether the larger number is the higher priority.
    pub priority_ascends: bool,
    /// `enableRetryTopicV2`: names of retry topics separate group and topic with `+`, not `_`.
    pub retry_v2: bool,
    /// `retrieveMessageFromPopRetryTopicV1`: with `enableRetryTopicV2`, retry topics named with `_` are read as well.
    pub retry_v1_too: bool,
    /// `popResponseReturnActualRetryTopic`: messages of a retry topic are returned under that topic's name, not the original's.
    pub actual_retry_topic: bool,
    /// `maxPopPollingSize`: most suspended pops.
    pub waiting_max: usize,
    /// `popPollingSize`: most suspended pops of a topic, group and queue.
    pub list_waiting_max: usize,
    /// `initPopOffsetByCheckMsgInMem`: a new group begins with the first message of a queue that is young.
    pub start_in_memory: bool,
    /// `skipWhenCKRePutReachMaxTimes`: a message that cannot be brought back is given up after the last attempt.
    pub gives_up: bool,
    /// `serverLoadBalancerEnable`: the broker assigns queues to the clients that ask for assignments.
    pub balances: bool,
    /// `defaultMessageRequestMode`: mode of groups without a mode of their own for the topic.
    pub default_mode: Mode,
    /// `defaultPopShareQueueNum`: number of other clients whose queues a client also pops.
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
            in_flight_max: 20_000,
            retry_probability: 20,
            retry_probability_for_priority: 0,
            priority_ascends: true,
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
