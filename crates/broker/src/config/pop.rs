//! Settings of pop consumption and of assignments by the broker.

use super::value::{DAY_MS, INT_MAX, INT_MIN};

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
    pub fn word(self) -> &'static str {
        Self::WORDS[usize::from(self == Self::Pop)].0
    }
}

wire::settings! {
    /// Settings of pop consumption.
    #[derive(Clone, Debug)]
    pub struct PopSettings {
        "reviveQueueNum" Restart revive_queues: i32 = 8, [1..=512], "queues of the topic that checkpoints of pops are delivered to";
        "enablePopBufferMerge" Live buffer_merge: bool = false, "checkpoints of pops stay in memory for a while, and what is acknowledged until then is not stored";
        "popCkStayBufferTime" Live stay_ms: i64 = 10_000, [1..=DAY_MS], "milliseconds checkpoints of pops stay in memory at most";
        "popCkStayBufferTimeOut" Live rest_ms: i64 = 3000, [0..=DAY_MS], "milliseconds before their messages are visible again at which checkpoints of pops leave memory";
        "popCkMaxBufferSize" Live held_max: usize = 200_000, [0..=INT_MAX], "most checkpoints in memory";
        "popCkOffsetMaxQueueSize" Live in_flight_max: usize = 20_000, [0..=INT_MAX], "most checkpoints of pops in memory of one queue and group";
        "popFromRetryProbability" Live retry_probability: i32 = 20, [0..=100], "percentage of pops that look at the retry topic first; the others look at it last";
        "popFromRetryProbabilityForPriority" Live retry_probability_for_priority: i32 = 0, [0..=100], "percentage of pops of topics with message.type=PRIORITY that look at the retry topic first";
        "priorityOrderAsc" Live priority_ascends: bool = true, "of the priorities of messages larger numbers are delivered first";
        "enableRetryTopicV2" Live retry_v2: bool = false, "messages that come back to a group go to %RETRY%group+topic instead of %RETRY%group_topic";
        "retrieveMessageFromPopRetryTopicV1" Live retry_v1_too: bool = true, "with retry topics of version 2, those of version 1 are read as well";
        "popResponseReturnActualRetryTopic" Live actual_retry_topic: bool = false, "messages of a retry topic are returned as they lie there";
        "maxPopPollingSize" Live waiting_max: usize = 100_000, [0..=INT_MAX], "most pops that wait for messages";
        "popPollingSize" Live list_waiting_max: usize = 1024, [0..=INT_MAX], "most pops that wait at one topic, group and queue";
        "initPopOffsetByCheckMsgInMem" Live start_in_memory: bool = true, "a new group on a young queue pops from its first message";
        "skipWhenCKRePutReachMaxTimes" Live gives_up: bool = false, "a popped message that cannot be brought back is given up after 17 attempts";
        "serverLoadBalancerEnable" Live balances: bool = true, "queues are shared out among the clients that ask the broker for theirs";
        "defaultMessageRequestMode" Live default_mode: Mode = Mode::Pull, [Mode::WORDS], "how groups consume unless setConsumeMode says otherwise: PULL or POP";
        "defaultPopShareQueueNum" Live default_share: i32 = -1, [INT_MIN..=INT_MAX], "of how many further clients a client pops the queues; -1 is all";
    }
}
