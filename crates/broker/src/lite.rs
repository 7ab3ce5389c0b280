//! Lite topics (RIP-83): names below a parent topic, each with its own queue, order and subscribers.

use crate::caller::Caller;

/// 200070 `POP_LITE_MESSAGE` as a front decoded it.
pub struct LitePopRequest<'a> {
    /// Caller of the request.
    pub caller: &'a Caller,
    /// Name of the parent topic.
    pub topic: &'a str,
    /// Name of the consumer group.
    pub group: &'a str,
    /// Id of the client whose lite topics are popped.
    pub client_id: &'a str,
    /// Send time of the request, in milliseconds since the epoch. 0 if the client does not send it.
    pub born_ms: i64,
    /// Longest wait; 0 for no wait.
    pub poll_ms: i64,
    /// Id that distinguishes a repeated pop from another pop.
    pub attempt_id: Option<&'a str>,
    /// Most messages to return.
    pub count_max: i32,
    /// Time for which the messages stay invisible to other clients of the group.
    pub invisible_ms: i64,
}

/// Name of the light queue of a lite topic (`LiteUtil.toLmqName`).
pub fn lite_queue(parent: &str, lite_topic: &str) -> String {
    format!("%LMQ%${parent}${lite_topic}")
}
