//! Requests about a topic that pop no messages: 200052 `PEEK_MESSAGE`, 200055 `POLLING_INFO` and 200056 `POP_ROLLBACK`
//! (`PeekMessageProcessor`, `PollingInfoProcessor`).

use std::sync::Arc;

use net::ConnectionHandle;
use store::Numbered;
use wire::codes::response;
use wire::frame::Command;
use wire::pop::Kind;

use super::pick::position;
use super::request;
use crate::broker::Broker;
use crate::clients::Subscription;
use crate::pull::{Pull, Scan, Source};
use crate::topics::Topic;
use crate::{Answer, Refusal};

/// Most messages that one 200052 `PEEK_MESSAGE` returns.
const COUNT_MAX: i32 = 32;

/// Serves 200052 `PEEK_MESSAGE`. May wait for the disk.
pub(crate) fn peek(
    broker: &Broker,
    peer: &ConnectionHandle,
    command: &Command<'_>,
) -> Result<Answer, Refusal> {
    let (topic, group) = request::peeked(broker, peer, command)?;
    let queue_id: i32 = command.fields.need_number("queueId")?;
    let count_max: i32 = command.fields.need_number("maxMsgNums")?;
    let mut look =
        Look { broker, command, group, wanted: count_max.min(COUNT_MAX), rest: 0, body: Vec::new() };
    let dice = broker.spread(100);
    let kind = if broker.config.pop.retry_v2 { Kind::RetryV2 } else { Kind::RetryV1 };
    let retries = broker.topics.find(&kind.topic(topic.name(), &look.group));
    let retries_first = dice % 5 == 0;
    if retries_first && let Some(retries) = &retries {
        look.visit_all(retries, dice);
    }
    if queue_id < 0 {
        look.visit_all(&topic, dice);
    } else {
        look.visit(&topic, queue_id);
    }
    if !retries_first
        && look.wanted > 0
        && let Some(retries) = &retries
    {
        look.visit_all(retries, dice);
    }
    let (code, status) = match look.body.is_empty() {
        true => (response::PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE"),
        false => (response::SUCCESS, "FOUND"),
    };
    let answer = Answer { code, ..Answer::default() }.remark(status).field("restNum", look.rest);
    let zeros = ["popTime", "invisibleTime", "reviveQid"];
    Ok(zeros.iter().fold(answer, |answer, name| answer.field(name, 0)).body(look.body))
}

/// Serves 200055 `POLLING_INFO`: how many pops of the group wait for the queue.
pub(crate) fn polling(
    broker: &Broker,
    peer: &ConnectionHandle,
    command: &Command<'_>,
) -> Result<Answer, Refusal> {
    let (topic, group) = request::peeked(broker, peer, command)?;
    let queue_id: i32 = command.fields.need_number("queueId")?;
    Ok(Answer::success().field("pollingNum", topic.waiters.count_of(&group, queue_id.max(-1))))
}

/// Serves 200056 `POP_ROLLBACK`, which in Java moves checkpoints of pops from RocksDB to the revive topic
/// (`AdminBrokerProcessor.transferPopToFsStore`). Vostok keeps checkpoints in that topic only, so there is nothing to do.
pub(crate) fn rollback() -> Result<Answer, Refusal> {
    Ok(Answer::success())
}

struct Look<'a> {
    broker: &'a Broker,
    command: &'a Command<'a>,
    group: Arc<str>,
    wanted: i32,
    rest: i64,
    body: Vec<u8>,
}

impl Look<'_> {
    fn visit_all(&mut self, topic: &Arc<Topic>, dice: i32) {
        let count = topic.config.read_queue_nums;
        (0..count).for_each(|index| self.visit(topic, (dice % count + index) % count));
    }

    fn visit(&mut self, topic: &Arc<Topic>, queue_id: i32) {
        let broker = self.broker;
        let Some(queue) = topic.queue(&broker.store, queue_id) else { return };
        let cell = broker.pops.in_flight_queues.make(&self.group, topic.name(), queue_id);
        let min = queue.index.min().to_i64();
        let end = broker.visible_end(queue);
        let offset = position(broker, &cell, queue, false).clamp(min, end.max(min));
        self.rest += end - offset;
        if self.wanted <= 0 {
            return;
        }
        let Ok(filter) = Subscription::parse_typed(topic.name(), "*", "", 0) else { return };
        let pull = Pull {
            topic: topic.clone(),
            queue: queue.clone(),
            filter: Arc::new(filter),
            group_sys_flag: 0,
            reader: broker.offsets.reader(&self.group, topic.name()),
            read_from: (0, 0),
            opaque: self.command.opaque,
            encoding: self.command.encoding,
            offset,
            asked: offset,
            max_messages: self.wanted,
        };
        let mut units: Vec<Numbered> = Vec::new();
        let found = Scan::of(broker, &pull, Source::Disk, &mut units);
        if found.is_none_or(|scan| scan.code != response::SUCCESS) {
            return;
        }
        let start = self.body.len();
        match broker.store.read_messages_blocking(&queue.index, &units, &mut self.body) {
            Ok(()) => self.wanted -= units.len() as i32,
            Err(error) => {
                self.body.truncate(start);
                tracing::error!(topic = topic.name(), offset, %error, "messages cannot be looked at");
            }
        }
    }
}
