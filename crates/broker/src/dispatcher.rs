//! The dispatcher: which handler serves which request code.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use net::{ConnectionHandle, Service};
use wire::codes::{VERSION_5_3_1, request, response};
use wire::frame::{Command, Encoding, Head};

use crate::broker::Broker;
use crate::clients::RequestContext;
use crate::pull::PullScratch;
use crate::send::StagedSends;
use crate::{
    Answer, Refusal, admin, assign, client_relay, clients, durability, groups, light, locks, lookup,
    metadata_writer, offsets, pop, progress, pull, reply, retention, send, send_back, stats, transaction,
    users,
};

/// Requests that the fast port does not serve, because they may wait for messages (`BrokerController.registerProcessor`).
const NOT_ON_FAST_PORT: [i32; 6] = [
    request::PULL_MESSAGE,
    request::LITE_PULL_MESSAGE,
    request::POP_MESSAGE,
    request::PEEK_MESSAGE,
    request::NOTIFICATION,
    request::POLLING_INFO,
];

/// Serves the connections of one listening port.
pub(crate) struct Dispatcher {
    pub broker: Arc<Broker>,
    /// True for the fast port, two below the broker's own (VIP channel).
    pub fast: bool,
}

/// The reusable state of one read batch.
pub(crate) struct ReadBatch {
    send: StagedSends,
    pull: PullScratch,
    acks: Acks,
}

/// Acknowledgements of pops, which are stored together at the end of the read batch.
struct Acks {
    records: pop::revive_records::ReviveRecords,
    /// The encoded answers, which are sent once the acknowledgements are stored.
    answers: Vec<u8>,
    /// Encoding and id of the requests that wait for these answers.
    waiting: Vec<(Encoding, i32)>,
}

impl Service for Dispatcher {
    type ReadBatch = ReadBatch;

    fn read_batch(&self) -> ReadBatch {
        let store = &self.broker.store;
        ReadBatch {
            send: StagedSends::new(store.batch()),
            pull: PullScratch::default(),
            acks: Acks {
                records: pop::revive_records::ReviveRecords::new(store),
                answers: Vec::new(),
                waiting: Vec::new(),
            },
        }
    }

    fn frame(
        &self,
        read_batch: &mut ReadBatch,
        peer: &Arc<ConnectionHandle>,
        command: Command<'_>,
        out: &mut Vec<u8>,
    ) {
        if command.is_response() {
            // The answer to a broker-to-client call that has timed out.
            return;
        }
        let broker = &self.broker;
        if broker.draining.load(Ordering::Relaxed) && command.version > VERSION_5_3_1 {
            return Answer::from(Refusal::new(response::GO_AWAY, "please go away")).write(&command, out);
        }
        if lookup::needs_disk(command.code) || locks::is_large(&command) {
            if let Err(refusal) = metadata_writer::serve_from_disk(broker, peer, &command, self.fast) {
                self.refuse(&command, &refusal, out);
            }
            return;
        }
        if let Err(refusal) = self.try_serve(read_batch, peer, &command, out)
            && let Err(refusal) = metadata_writer::postpone(broker, peer, &command, refusal, self.fast)
        {
            self.refuse(&command, &refusal, out);
        }
    }

    fn end(&self, read_batch: &mut ReadBatch, peer: &Arc<ConnectionHandle>, out: &mut Vec<u8>) {
        send::commit(&self.broker, &mut read_batch.send, peer, out);
        if read_batch.acks.records.len() > 0 {
            read_batch.acks.commit(&self.broker, peer, out);
        }
    }

    fn answered(&self, read_batch: &mut ReadBatch) {
        send::wake(&self.broker, &mut read_batch.send);
    }

    fn closed(&self, peer: &Arc<ConnectionHandle>) {
        self.broker.pops.closed(peer.id());
        self.broker.announce(&self.broker.clients.closed(peer.id()));
    }
}

impl Acks {
    /// Serves an acknowledgement; its answer waits until the records that `ack` adds are stored.
    fn serve(
        &mut self,
        command: &Command<'_>,
        out: &mut Vec<u8>,
        ack: impl FnOnce(&mut pop::revive_records::ReviveRecords) -> Result<Answer, Refusal>,
    ) -> Result<(), Refusal> {
        let before = self.records.len();
        let answer = ack(&mut self.records)?;
        if self.records.len() == before {
            answer.write(command, out);
        } else if !command.is_one_way() {
            answer.write(command, &mut self.answers);
            self.waiting.push((command.encoding, command.opaque));
        }
        Ok(())
    }

    /// Stores the acknowledgements of the read batch and answers them.
    fn commit(&mut self, broker: &Broker, peer: &Arc<ConnectionHandle>, out: &mut Vec<u8>) {
        let answers = std::mem::take(&mut self.answers);
        match self.records.append(broker, broker.now_ms()) {
            Ok(end) => durability::answer_when_flushed(broker, peer, answers, end, out),
            Err(error) => {
                let refusal = send::not_put(broker, error);
                if let Some(cause) = refusal.cause {
                    broker.refused.count(cause, self.waiting.len());
                }
                for (encoding, opaque) in &self.waiting {
                    let head = Head::response(*encoding, refusal.code, *opaque);
                    head.remark(&refusal.remark).write(out, b"");
                }
            }
        }
        self.waiting.clear();
    }
}

impl Dispatcher {
    fn try_serve(
        &self,
        read_batch: &mut ReadBatch,
        peer: &Arc<ConnectionHandle>,
        command: &Command<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let broker = &self.broker;
        match command.code {
            request::SEND_MESSAGE | request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => {
                send::stage(broker, &mut read_batch.send, peer, command, out)
            }
            request::RECALL_MESSAGE => send::stage_recall(broker, &mut read_batch.send, peer, command),
            request::SEND_REPLY_MESSAGE | request::SEND_REPLY_MESSAGE_V2 => {
                reply::serve(broker, peer, command, out)
            }
            code if self.fast && NOT_ON_FAST_PORT.contains(&code) => Err(not_supported(code)),
            request::PULL_MESSAGE | request::LITE_PULL_MESSAGE => {
                pull::serve(broker, &mut read_batch.pull, peer, command, out)
            }
            request::POP_MESSAGE => pop::pop(broker, peer, command, out),
            request::QUERY_ASSIGNMENT => assign::query(broker, peer, command, out),
            request::NOTIFICATION => pop::notify(broker, peer, command, out),
            request::ACK_MESSAGE => {
                read_batch.acks.serve(command, out, |records| pop::ack(broker, records, peer, command))
            }
            request::BATCH_ACK_MESSAGE => {
                read_batch.acks.serve(command, out, |records| pop::batch_ack(broker, records, command))
            }
            request::GET_CONSUMER_RUNNING_INFO => client_relay::running_info(broker, peer, command),
            request::CONSUME_MESSAGE_DIRECTLY => client_relay::consume(broker, peer, command),
            request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => client_relay::status(broker, peer, command),
            request::UPDATE_BROKER_CONFIG => admin::update_config(broker, peer, command, out),
            _ => {
                let answer = serve(broker, peer, command)?;
                durability::answer(broker, peer, command, &answer, out);
                Ok(())
            }
        }
    }

    /// Serves a request in a read batch of its own.
    pub(crate) fn serve_alone(
        &self,
        peer: &Arc<ConnectionHandle>,
        command: &Command<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mut read_batch = self.read_batch();
        let served = self.try_serve(&mut read_batch, peer, command, out);
        self.end(&mut read_batch, peer, out);
        self.answered(&mut read_batch);
        served
    }

    /// Answers a request that is refused, in the form that answers to its code have, and counts the refusal.
    pub(crate) fn refuse(&self, command: &Command<'_>, refusal: &Refusal, out: &mut Vec<u8>) {
        if let Some(cause) = refusal.cause {
            self.broker.refused.count(cause, 1);
        }
        if command.is_one_way() {
            return;
        }
        let head = command.reply(refusal.code).remark(&refusal.remark);
        match command.code {
            request::SEND_MESSAGE
            | request::SEND_MESSAGE_V2
            | request::SEND_BATCH_MESSAGE
            | request::SEND_REPLY_MESSAGE
            | request::SEND_REPLY_MESSAGE_V2
            | request::RECALL_MESSAGE => {
                send::refuse(&self.broker, head, out);
            }
            request::PULL_MESSAGE | request::LITE_PULL_MESSAGE if !self.fast => pull::refuse(head, out),
            request::POP_MESSAGE if !self.fast => pop::refuse(head, out),
            _ => head.write(out, b""),
        }
    }
}

/// Serves a request that is no send, pull, pop or acknowledgement; further codes are in [`serve_figures`].
fn serve(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
) -> Result<Answer, Refusal> {
    match command.code {
        request::END_TRANSACTION => transaction::end(broker, command),
        request::RESUME_CHECK_HALF_MESSAGE => transaction::resume(broker, command),
        request::CONSUMER_SEND_MSG_BACK => send_back::send_back(broker, command),
        request::GET_MAX_OFFSET => lookup::max_offset(broker, command),
        request::GET_MIN_OFFSET => lookup::min_offset(broker, command),
        request::GET_EARLIEST_MSG_STORETIME => lookup::earliest_time(broker, command),
        request::SEARCH_OFFSET_BY_TIMESTAMP => lookup::search(broker, command),
        request::CHANGE_MESSAGE_INVISIBLETIME => pop::change_invisible_time(broker, peer, command),
        request::PEEK_MESSAGE => pop::peek(broker, peer, command),
        request::POLLING_INFO => pop::polling(broker, peer, command),
        request::POP_ROLLBACK => pop::rollback(),
        request::SET_MESSAGE_REQUEST_MODE => assign::set_mode(broker, command),
        request::QUERY_MESSAGE => lookup::query(broker, command),
        request::VIEW_MESSAGE_BY_ID => lookup::view(broker, command),
        request::QUERY_CONSUME_TIME_SPAN => lookup::consume_time_span(broker, command),
        request::QUERY_CONSUME_QUEUE => lookup::consume_queue(broker, command),
        request::UPDATE_AND_CREATE_TOPIC => admin::put_topic(broker, command),
        request::DELETE_TOPIC_IN_BROKER => admin::delete_topic(broker, command),
        request::GET_ALL_TOPIC_CONFIG => admin::all_topics(broker, command),
        request::GET_TOPIC_CONFIG => admin::topic(broker, command),
        request::GET_BROKER_CONFIG => admin::config(broker),
        request::GET_BROKER_RUNTIME_INFO => admin::runtime(broker),
        request::DELETE_EXPIRED_COMMITLOG => retention::delete_expired_log(broker),
        request::CLEAN_EXPIRED_CONSUMEQUEUE => retention::clean_expired_queues(broker),
        request::CLEAN_UNUSED_TOPIC => retention::clean_unused_topics(broker),
        _ => serve_figures(broker, peer, command),
    }
}

/// Serves requests of consoles and exporters; further codes are in [`serve_clients`].
fn serve_figures(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
) -> Result<Answer, Refusal> {
    match command.code {
        request::GET_TOPIC_STATS_INFO => progress::topic_stats(broker, command),
        request::GET_CONSUME_STATS => progress::consume_stats(broker, command),
        request::GET_BROKER_CONSUME_STATS => progress::broker_consume_stats(broker, command),
        request::QUERY_TOPIC_CONSUME_BY_WHO => progress::groups_of_topic(broker, command),
        request::QUERY_TOPICS_BY_CONSUMER => progress::topics_of_group(broker, command),
        request::QUERY_CORRECTION_OFFSET => progress::correction(broker, command),
        request::CLONE_GROUP_OFFSET => progress::clone_offsets(broker, command),
        request::UPDATE_AND_CREATE_TOPIC_LIST => admin::put_topics(broker, command),
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST => admin::put_groups(command),
        request::GET_ALL_CONSUMER_OFFSET => admin::consumer_offsets(broker),
        request::GET_ALL_DELAY_OFFSET => admin::delay_offsets(broker),
        request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => admin::system_topics(broker),
        request::GET_BROKER_HA_STATUS => admin::replication(broker),
        request::GET_BROKER_EPOCH_CACHE => admin::epochs(),
        request::RESET_MASTER_FLUSH_OFFSET => admin::reset_master_flush(command),
        request::UPDATE_COLD_DATA_FLOW_CTR_CONFIG | request::REMOVE_COLD_DATA_FLOW_CTR_CONFIG => {
            admin::put_bounds()
        }
        request::GET_COLD_DATA_FLOW_CTR_INFO => admin::bounds(broker),
        request::SET_COMMITLOG_READ_MODE => admin::set_read_ahead(command),
        request::GET_ALL_MESSAGE_REQUEST_MODE => assign::all_modes(broker),
        request::VIEW_BROKER_STATS_DATA => stats::view(broker, command),
        request::GET_ALL_PRODUCER_INFO => clients::all_producers(&broker.clients),
        request::QUERY_SUBSCRIPTION_BY_CONSUMER => clients::subscription(&broker.clients, command),
        _ => serve_clients(broker, peer, command),
    }
}

/// Serves requests by and about clients and groups; further codes are in [`serve_offsets`].
fn serve_clients(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
) -> Result<Answer, Refusal> {
    let now_ms = broker.now_ms();
    let context = RequestContext {
        clients: &broker.clients,
        groups: &broker.groups,
        auto_create_groups: broker.config.auto_create_subscription_group,
        notify: broker.config.notify_consumer_ids_changed_enable,
        now_ms,
    };
    match command.code {
        request::HEART_BEAT => clients::heartbeat(&context, peer, command, |consumer, queues| {
            // A light group has no retry topic.
            let is_light = broker.config.store.multi_dispatch && light::is_light(&consumer.group_name);
            if is_light { None } else { broker.retry_topic_missing(&consumer.group_name, queues) }
        }),
        request::UNREGISTER_CLIENT => clients::unregister(&context, peer, command),
        request::GET_CONSUMER_LIST_BY_GROUP => clients::consumer_list(context.clients, command),
        request::CHECK_CLIENT_CONFIG => clients::check_client(command, broker.config.enable_property_filter),
        request::GET_CONSUMER_CONNECTION_LIST => clients::consumer_connections(context.clients, command),
        request::GET_PRODUCER_CONNECTION_LIST => clients::producer_connections(context.clients, command),
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => groups::update_group(command),
        request::GET_SUBSCRIPTIONGROUP_CONFIG => groups::get_group(|group| broker.group(group), command),
        request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => groups::all_groups(context.groups, command),
        request::UPDATE_AND_GET_GROUP_FORBIDDEN => groups::forbid(context.groups, command),
        request::DELETE_SUBSCRIPTIONGROUP => groups::delete_group(command),
        _ => serve_offsets(broker, command),
    }
}

/// Serves requests about consumer offsets, locks of queues and users; refuses every other code.
fn serve_offsets(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let queues = |topic: &str| {
        let config = &broker.topic(topic)?.config;
        Some(config.read_queue_nums.max(config.write_queue_nums))
    };
    match command.code {
        request::QUERY_CONSUMER_OFFSET => {
            offsets::query(&broker.offsets, command, |topic, queue_id| broker.is_young(topic, queue_id))
        }
        request::UPDATE_CONSUMER_OFFSET => {
            let group_exists = |group: &str| Ok(broker.group(group)?.is_some());
            offsets::update(&broker.offsets, command, group_exists, queues)
        }
        request::INVOKE_BROKER_TO_RESET_OFFSET => lookup::reset(broker, command),
        request::LOCK_BATCH_MQ => locks::lock(&broker.locks, command, broker.now_ms()),
        request::UNLOCK_BATCH_MQ => locks::unlock(&broker.locks, command),
        code if users::is_about_users(code) => Err(users::refuse(command)),
        code => Err(not_supported(code)),
    }
}

/// Code 3 with Java's text; for a request that Vostok knows but does not serve, with the request's name.
fn not_supported(code: i32) -> Refusal {
    let remark = match request::name(code) {
        Some(name) => format!(" request type {code} not supported: {name} is not served here"),
        None => format!(" request type {code} not supported"),
    };
    Refusal::new(response::REQUEST_CODE_NOT_SUPPORTED, remark)
}

#[cfg(test)]
mod tests;
