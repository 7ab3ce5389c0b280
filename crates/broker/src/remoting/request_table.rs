//! Route table: all facts about each served request code. A row has the handler, the thread, the ports, the
//! permissions of a caller in Auth 2.0 and ACL 1.0, the refusal by a slave, and whether an elected master must serve
//! the request. Dispatch, the disk pool and `docs/requests.md` read this table.

use auth::Action::{Create, Delete, Get, Pub, Sub, Update};
use auth::ResourceType::{self, Group, Topic};
use auth::{AuthError, Permission};
use serde_json::json;
use wire::codes::request as code;
use wire::frame::Command;

use super::answer::Answer;
use super::codec::{done, json, strict_json};
use super::incoming::{ParsedHeartbeat, Request};
use super::needs::{self, Named, Needs, Plain};
use super::port::Port;
use super::sends::Sends;
use super::{
    broker_set, clients, figures, groups, lite, lookup, offsets, plain, pops, pulls, relay, route, sends,
    settings, slave, topics, transactions, users,
};
use crate::broker::Broker;
use crate::pop::revive_records::ReviveRecords;
use crate::pull::PullScratch;
use crate::{Refusal, Result, admin, assign, locks, progress};

/// Handler of a request, by the way it is answered.
#[derive(Clone, Copy)]
pub(super) enum Serve {
    /// Send: it is staged, and answered together with the other sends of its read batch.
    Send(fn(&Request<'_>, &mut Sends, &mut Vec<u8>) -> Result<()>),
    /// A pull: answered at once, by the disk pool, or when a message comes.
    Pull(fn(&Request<'_>, &mut PullScratch, &mut Vec<u8>) -> Result<()>),
    /// A pop: answered at once, by the disk pool, or when a message comes.
    Pop(fn(&Request<'_>, &mut Vec<u8>) -> Result<()>),
    /// Acknowledgement: its records are stored together with those of the read batch, and then it is answered.
    Ack(fn(&Request<'_>, &mut ReviveRecords) -> Result<Answer>),
    /// A request that writes its own answer, now or later.
    Own(fn(&Request<'_>, &mut Vec<u8>) -> Result<()>),
    /// Every other request.
    Answer(fn(&Request<'_>) -> Result<Answer>),
}

/// Thread on which a request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// Thread of the connection: the request never waits for the disk.
    Connection,
    /// Thread of the connection, or the disk pool if the body has more bytes than this.
    ConnectionUpTo(usize),
    /// Disk pool, because the request may wait for the disk.
    DiskPool,
    /// Threads of the disk pool for operators and their tools: the request changes nothing and may read every queue.
    Operators,
}

/// A row of the route table.
pub(super) struct Route {
    pub code: i32,
    pub serve: Serve,
    pub runs: Runs,
    /// Whether the broker's own port serves the request.
    on_own_port: bool,
    /// False for requests that may wait for messages: the fast port (VIP channel) refuses them
    /// (`BrokerController.registerProcessor`).
    on_fast_port: bool,
    /// Whether the port of a proxy serves the request (`RemotingProtocolServer.registerRemotingServer`).
    pub on_proxy_port: bool,
    /// Whether the body is copied when the request waits for the disk pool. False if the body has no meaning.
    pub keeps_body: bool,
    /// Permissions of an authorized caller in Auth 2.0.
    pub needs: Needs,
    /// Demand of ACL 1.0 on the sender.
    pub plain: Plain,
    /// Returns the refusal by a slave, or `None` if a slave serves the request.
    pub at_slave: fn(&Broker) -> Option<Refusal>,
    /// Whether a broker that is not the elected master forwards the request. Pops are not forwarded, because popped
    /// messages belong to a connection.
    pub needs_master: bool,
}

impl Route {
    const fn new(code: i32, serve: Serve, needs: Needs) -> Self {
        let at_slave: fn(&Broker) -> Option<Refusal> = match serve {
            Serve::Send(_) => slave::rejects,
            Serve::Pull(_) => slave::pulls,
            Serve::Pop(_) | Serve::Ack(_) => slave::pops,
            Serve::Own(_) | Serve::Answer(_) => slave::serves,
        };
        Self {
            code,
            serve,
            runs: Runs::Connection,
            on_own_port: true,
            on_fast_port: true,
            on_proxy_port: false,
            keeps_body: true,
            needs,
            plain: Plain::Signature,
            at_slave,
            needs_master: matches!(serve, Serve::Send(_)),
        }
    }

    /// Whether the request pops messages, or acknowledges or renews popped messages.
    pub(super) fn pops(&self) -> bool {
        matches!(self.serve, Serve::Pop(_) | Serve::Ack(_)) || self.code == code::CHANGE_MESSAGE_INVISIBLETIME
    }

    /// The request runs in the disk pool and its body is used there.
    const fn in_disk_pool_with_body(self) -> Self {
        Self { runs: Runs::DiskPool, ..self }
    }

    /// The request runs in the disk pool, without a body.
    const fn in_disk_pool(self) -> Self {
        Self { runs: Runs::DiskPool, keeps_body: false, ..self }
    }

    /// The request runs on the operators' threads of the disk pool, without a body.
    const fn for_operators(self) -> Self {
        Self { runs: Runs::Operators, keeps_body: false, ..self }
    }

    /// The request runs in the disk pool when its body has more than `bytes` bytes.
    const fn in_disk_pool_above(self, bytes: usize) -> Self {
        Self { runs: Runs::ConnectionUpTo(bytes), ..self }
    }

    /// The fast port does not serve the request.
    const fn not_on_fast_port(self) -> Self {
        Self { on_fast_port: false, ..self }
    }

    /// The port of a proxy serves the request too.
    const fn on_proxy_port(self) -> Self {
        Self { on_proxy_port: true, ..self }
    }

    /// Only the port of a proxy serves the request.
    const fn only_on_proxy_port(self) -> Self {
        Self { on_own_port: false, on_fast_port: false, on_proxy_port: true, ..self }
    }

    /// A broker that is not the elected master forwards the request.
    const fn needs_master(self) -> Self {
        Self { needs_master: true, ..self }
    }

    /// A slave refuses the request with this function.
    const fn at_slave(self, at_slave: fn(&Broker) -> Option<Refusal>) -> Self {
        Self { at_slave, ..self }
    }

    /// ACL 1.0 demands this of the sender.
    const fn plain(self, plain: Plain) -> Self {
        Self { plain, ..self }
    }

    /// RocketMQ serves the request without authorization.
    const fn authorized_only_if_strict(self) -> Self {
        Self { needs: self.needs.only_if_strict(), ..self }
    }

    /// Whether a port serves this request.
    pub fn is_on(&self, port: &Port) -> bool {
        match port {
            Port::Own => self.on_own_port,
            Port::Fast => self.on_fast_port,
            Port::Proxy(_) => self.on_proxy_port,
        }
    }

    /// Whether this request runs in the disk pool.
    pub fn needs_disk_pool(&self, body_bytes: usize) -> bool {
        match self.runs {
            Runs::Connection => false,
            Runs::ConnectionUpTo(bytes) => body_bytes > bytes,
            Runs::DiskPool | Runs::Operators => true,
        }
    }
}

/// Makes the route of a send, whose topic decides the needs.
const fn send(code: i32, serve: fn(&Request<'_>, &mut Sends, &mut Vec<u8>) -> Result<()>) -> Route {
    Route::new(code, Serve::Send(serve), Needs::SEND)
}

const fn answer(code: i32, serve: fn(&Request<'_>) -> Result<Answer>, needs: Needs) -> Route {
    Route::new(code, Serve::Answer(serve), needs)
}

const fn own(code: i32, serve: fn(&Request<'_>, &mut Vec<u8>) -> Result<()>, needs: Needs) -> Route {
    Route::new(code, Serve::Own(serve), needs)
}

/// Returns the row of a request code. Dispatch calls this once for each request.
pub(super) fn find(code: i32) -> Option<&'static Route> {
    #[cfg(test)]
    LOOKUPS.set(LOOKUPS.get() + 1);
    let index = ROUTES.binary_search_by_key(&code, |route| route.code).ok()?;
    Some(&ROUTES[index])
}

#[cfg(test)]
thread_local! {
    /// Number of lookups by this thread.
    pub(super) static LOOKUPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Whether the port of a proxy serves the requests with a code.
pub fn served_by_proxy(code: i32) -> bool {
    find(code).is_some_and(|route| route.on_proxy_port)
}

/// Returns the needs of a request in Auth 2.0. A code outside the route table needs permission to change the cluster,
/// in strict mode.
///
/// # Errors
/// [`AuthError::Invalid`] for a body that cannot be read.
pub fn needs_of_request<'a>(
    command: &Command<'a>,
    cluster: &'a str,
    is_strict: bool,
) -> Result<Vec<Permission<'a>>, AuthError> {
    of_caller(find(command.code)).of_request(command, &ParsedHeartbeat::default(), cluster, is_strict)
}

/// Returns the permissions of a caller for a request in Auth 2.0. `route` is its row.
pub(super) fn of_caller(route: Option<&'static Route>) -> &'static Needs {
    route.map_or(&needs::UNKNOWN, |route| &route.needs)
}

/// Returns the needs in Auth 2.0 of a request with this code. The request names this topic and this group wherever it
/// can, in its header or its body.
pub fn needs_of_code(code: i32, named: Named<'_>, is_strict: bool) -> Vec<Permission<'_>> {
    of_caller(find(code)).of_named(named, is_strict)
}

/// A topic named in the field `topic`.
const TOPIC: &[(&str, ResourceType)] = &[("topic", Topic)];
/// A group and a topic, named in the fields `consumerGroup` and `topic`.
const CONSUMER_GROUP_AND_TOPIC: &[(&str, ResourceType)] = &[("consumerGroup", Group), ("topic", Topic)];
/// A group and a topic, named in the fields `group` and `topic`.
const GROUP_AND_TOPIC: &[(&str, ResourceType)] = &[("group", Group), ("topic", Topic)];
/// A group, named in the field `group`.
const GROUP: &[(&str, ResourceType)] = &[("group", Group)];
/// A group, named in the field `consumerGroup`.
const CONSUMER_GROUP: &[(&str, ResourceType)] = &[("consumerGroup", Group)];

/// Demand of ACL 1.0 on a consumer of a topic.
const PLAIN_CONSUMPTION: Plain = Plain::Fields(&[("topic", Topic, Sub), ("consumerGroup", Group, Sub)]);
/// Demand of ACL 1.0 on a member of a group.
const PLAIN_GROUP: Plain = Plain::Fields(&[("consumerGroup", Group, Sub)]);
/// Demand of ACL 1.0 on a consumer that sends a message back.
const PLAIN_SEND_BACK: Plain = Plain::Fields(&[("originTopic", Topic, Pub), ("group", Group, Sub)]);

/// All requests the broker serves, sorted by code.
#[rustfmt::skip]
pub(super) static ROUTES: [Route; 110] = [
    send(code::SEND_MESSAGE, sends::send).on_proxy_port().plain(Plain::Send("topic", "group")),
    Route::new(code::PULL_MESSAGE, Serve::Pull(pulls::pull), Needs::consumption(&[Sub])).not_on_fast_port().on_proxy_port().plain(PLAIN_CONSUMPTION),
    answer(code::QUERY_MESSAGE, lookup::query, Needs::fields(&[Sub, Get], TOPIC)).for_operators().plain(Plain::Fields(&[("topic", Topic, Sub)])),
    own(code::QUERY_CONSUMER_OFFSET, offsets::query, Needs::consumption(&[Sub, Get])).on_proxy_port().needs_master(),
    own(code::UPDATE_CONSUMER_OFFSET, offsets::commit, Needs::consumption(&[Sub, Update])).on_proxy_port().needs_master().plain(PLAIN_CONSUMPTION),
    answer(code::UPDATE_AND_CREATE_TOPIC, topics::put, Needs::fields(&[Create], TOPIC)).at_slave(slave::topics_and_groups).plain(Plain::Administrator),
    answer(code::UPDATE_AND_CREATE_TOPIC_LIST, topics::put_list, Needs::body(&[Create], &[Topic], needs::topics).only_if_strict()).at_slave(slave::topics_and_groups).plain(Plain::Administrator),
    answer(code::GET_ALL_TOPIC_CONFIG, topics::all, Needs::cluster(Get).only_if_strict()).for_operators(),
    own(code::UPDATE_BROKER_CONFIG, |r, _| settings::update(r), Needs::cluster(Update).only_if_strict()).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::GET_BROKER_CONFIG, settings::all, Needs::cluster(Get).only_if_strict()),
    answer(code::GET_BROKER_RUNTIME_INFO, |r| Ok(strict_json(json!({ "table": admin::runtime(&r.broker.sessions, &r.broker.delivery, &r.broker.runtime) }))), Needs::cluster(Get).only_if_strict()).for_operators(),
    answer(code::SEARCH_OFFSET_BY_TIMESTAMP, lookup::search, Needs::fields(&[Get], TOPIC)).in_disk_pool().on_proxy_port(),
    answer(code::GET_MAX_OFFSET, lookup::max_offset, Needs::fields(&[Get], TOPIC)).on_proxy_port(),
    answer(code::GET_MIN_OFFSET, lookup::min_offset, Needs::fields(&[Get], TOPIC)).on_proxy_port(),
    answer(code::GET_EARLIEST_MSG_STORETIME, lookup::earliest_time, Needs::fields(&[Get], TOPIC)).in_disk_pool(),
    answer(code::VIEW_MESSAGE_BY_ID, lookup::view, Needs::fields(&[Get], TOPIC)).in_disk_pool(),
    answer(code::HEART_BEAT, clients::heartbeat, Needs::body(&[Sub], &[Topic, Group], needs::heartbeat)).on_proxy_port().plain(Plain::Heartbeat),
    answer(code::UNREGISTER_CLIENT, clients::unregister, Needs::fields(&[Sub], CONSUMER_GROUP)).on_proxy_port().plain(PLAIN_GROUP),
    answer(code::CONSUMER_SEND_MSG_BACK, transactions::send_back, Needs::fields(&[Sub], GROUP)).in_disk_pool().on_proxy_port().needs_master().at_slave(slave::rejects).plain(PLAIN_SEND_BACK),
    answer(code::END_TRANSACTION, transactions::end, Needs::fields(&[Pub], TOPIC)).on_proxy_port().needs_master().at_slave(slave::transactions),
    answer(code::GET_CONSUMER_LIST_BY_GROUP, |r| Ok(Answer::success().body(crate::clients::consumer_list(&r.broker.sessions.clients, r.need("consumerGroup")?)?.to_vec())), Needs::fields(&[Sub, Get], CONSUMER_GROUP)).on_proxy_port().plain(PLAIN_GROUP),
    answer(code::LOCK_BATCH_MQ, clients::lock, Needs::body(&[Sub], &[Topic, Group], needs::locks)).in_disk_pool_above(locks::LARGE_BYTES).on_proxy_port().needs_master(),
    answer(code::UNLOCK_BATCH_MQ, clients::unlock, Needs::body(&[Sub], &[Topic, Group], needs::locks)).in_disk_pool_above(locks::LARGE_BYTES).on_proxy_port().needs_master(),
    answer(code::GET_ALL_CONSUMER_OFFSET, offsets::all, Needs::cluster(Get).only_if_strict()).for_operators(),
    answer(code::GET_ALL_DELAY_OFFSET, offsets::delays, Needs::cluster(Get).only_if_strict()),
    answer(code::CHECK_CLIENT_CONFIG, clients::check, Needs::cluster(Get).only_if_strict()).on_proxy_port(),
    answer(code::UPDATE_AND_CREATE_ACL_CONFIG, plain::update_account, Needs::cluster(Update).only_if_strict()).in_disk_pool().plain(Plain::Administrator),
    answer(code::DELETE_ACL_CONFIG, plain::delete_account, Needs::cluster(Update).only_if_strict()).in_disk_pool().plain(Plain::Administrator),
    answer(code::GET_BROKER_CLUSTER_ACL_INFO, plain::versions, Needs::cluster(Get).only_if_strict()).for_operators().plain(Plain::Administrator),
    answer(code::UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, plain::update_white_list, Needs::cluster(Update).only_if_strict()).in_disk_pool().plain(Plain::Administrator),
    answer(code::GET_TIMER_CHECK_POINT, broker_set::timer_checkpoint, Needs::cluster(Get).only_if_strict()),
    answer(code::GET_ROUTEINFO_BY_TOPIC, route::route, Needs::fields(&[Pub, Sub, Get], TOPIC)).only_on_proxy_port(),
    answer(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, groups::put, Needs::body(&[Create, Update], &[Group], needs::group).only_if_strict()).at_slave(slave::topics_and_groups).plain(Plain::Administrator),
    answer(code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups::all, Needs::cluster(Get).only_if_strict()).for_operators(),
    answer(code::GET_TOPIC_STATS_INFO, |r| progress::topic_stats(&r.broker.operator_parts(), r.need("topic")?).map(json), Needs::fields(&[Get], TOPIC)).for_operators(),
    answer(code::GET_CONSUMER_CONNECTION_LIST, |r| crate::clients::consumer_connections(&r.broker.sessions.clients, r.need("consumerGroup")?).map(json), Needs::fields(&[Get], CONSUMER_GROUP)).for_operators().on_proxy_port(),
    answer(code::GET_PRODUCER_CONNECTION_LIST, |r| crate::clients::producer_connections(&r.broker.sessions.clients, r.need("producerGroup")?).map(json), Needs::cluster(Get)),
    answer(code::DELETE_SUBSCRIPTIONGROUP, |r| crate::groups::delete_group(r.need("groupName")?, r.flag_or("cleanOffset", false)).map(done), Needs::fields(&[Delete], &[("groupName", Group)])).at_slave(slave::topics_and_groups).plain(Plain::Administrator),
    answer(code::GET_CONSUME_STATS, figures::consume_stats, Needs::fields(&[Get], &[("consumerGroup", Group), ("topic", Topic), ("topicList", Topic)])).for_operators(),
    answer(code::DELETE_TOPIC_IN_BROKER, |r| admin::delete_topic(&r.broker.tables, &r.broker.delivery, &r.broker.runtime, r.need("topic")?).map(done), Needs::fields(&[Delete], TOPIC)).at_slave(slave::topics_and_groups).plain(Plain::Administrator),
    own(code::INVOKE_BROKER_TO_RESET_OFFSET, offsets::reset, Needs::fields(&[Update], GROUP_AND_TOPIC)).in_disk_pool(),
    own(code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, relay::status, Needs::fields(&[Get], GROUP_AND_TOPIC)),
    answer(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, groups::put_list, Needs::body(&[Create, Update], &[Group], needs::groups).only_if_strict()).at_slave(slave::topics_and_groups).plain(Plain::Administrator),
    answer(code::QUERY_TOPIC_CONSUME_BY_WHO, |r| Ok(strict_json(json!({ "groupList": progress::groups_of_topic(&r.broker.tables, &r.broker.sessions, r.need("topic")?) }))), Needs::fields(&[Get], TOPIC)).for_operators(),
    answer(code::QUERY_CONSUME_TIME_SPAN, lookup::time_spans, Needs::fields(&[Get], GROUP_AND_TOPIC)).for_operators(),
    answer(code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER, |r| Ok(strict_json(json!({ "topicList": admin::system_topics(&r.broker.tables, &r.broker.delivery, &r.broker.runtime) }))), Needs::cluster(Get).only_if_strict()),
    answer(code::CLEAN_EXPIRED_CONSUMEQUEUE, settings::clean_expired_queues, Needs::cluster(Update).only_if_strict()),
    own(code::GET_CONSUMER_RUNNING_INFO, relay::running_info, Needs::fields(&[Get], CONSUMER_GROUP)),
    answer(code::QUERY_CORRECTION_OFFSET, figures::correction, Needs::fields(&[Get], &[("filterGroups", Group), ("compareGroup", Group), ("topic", Topic)])).for_operators(),
    own(code::CONSUME_MESSAGE_DIRECTLY, relay::consume, Needs::fields(&[Sub], CONSUMER_GROUP_AND_TOPIC)).for_operators(),
    send(code::SEND_MESSAGE_V2, sends::send).on_proxy_port().plain(Plain::Send("b", "a")),
    own(code::CLONE_GROUP_OFFSET, offsets::copy, Needs::fields(&[Update], &[("destGroup", Group), ("topic", Topic)])).in_disk_pool(),
    answer(code::VIEW_BROKER_STATS_DATA, figures::stats, Needs::cluster(Get)),
    answer(code::CLEAN_UNUSED_TOPIC, settings::clean_unused_topics, Needs::cluster(Update).only_if_strict()),
    answer(code::GET_BROKER_CONSUME_STATS, |r| Ok(json(progress::broker_consume_stats(&r.broker.operator_parts(), r.flag_or("isOrder", false)))), Needs::cluster(Get)).for_operators(),
    send(code::SEND_BATCH_MESSAGE, sends::send).on_proxy_port(),
    answer(code::QUERY_CONSUME_QUEUE, lookup::units, Needs::fields(&[Get], CONSUMER_GROUP_AND_TOPIC)).for_operators(),
    answer(code::RESUME_CHECK_HALF_MESSAGE, transactions::resume, Needs::fields(&[Update], TOPIC)).in_disk_pool().at_slave(slave::appends),
    send(code::SEND_REPLY_MESSAGE, sends::reply).authorized_only_if_strict(),
    send(code::SEND_REPLY_MESSAGE_V2, sends::reply).authorized_only_if_strict(),
    answer(code::GET_ALL_PRODUCER_INFO, clients::all_producers, Needs::cluster(Get)).for_operators(),
    answer(code::DELETE_EXPIRED_COMMITLOG, settings::delete_expired_log, Needs::cluster(Update).only_if_strict()),
    answer(code::QUERY_TOPICS_BY_CONSUMER, figures::topics_of_group, Needs::fields(&[Get], GROUP)),
    answer(code::QUERY_SUBSCRIPTION_BY_CONSUMER, clients::subscription, Needs::fields(&[Get], GROUP_AND_TOPIC)),
    answer(code::GET_TOPIC_CONFIG, |r| Ok(json(&admin::topic(&r.broker.tables, r.need("topic")?)?.config)), Needs::fields(&[Get], TOPIC)),
    answer(code::GET_SUBSCRIPTIONGROUP_CONFIG, |r| Ok(json(&*crate::groups::found(r.broker.tables.group(&r.broker.runtime.config, r.need("group")?)?)?)), Needs::fields(&[Get], GROUP)),
    answer(code::UPDATE_AND_GET_GROUP_FORBIDDEN, groups::forbid, Needs::fields(&[Update], GROUP_AND_TOPIC)).at_slave(slave::tables),
    Route::new(code::LITE_PULL_MESSAGE, Serve::Pull(pulls::pull), Needs::consumption(&[Sub]).only_if_strict()).not_on_fast_port().on_proxy_port(),
    send(code::RECALL_MESSAGE, sends::recall).on_proxy_port().at_slave(slave::recalls),
    own(code::QUERY_ASSIGNMENT, clients::assignment, Needs::body(&[Sub], &[Topic, Group], needs::assignment).only_if_strict()),
    answer(code::SET_MESSAGE_REQUEST_MODE, |r| assign::set_mode(&r.broker.tables, &r.broker.runtime, r.body()?).map(done), Needs::cluster(Update).only_if_strict()).in_disk_pool_with_body().at_slave(slave::tables),
    answer(code::GET_ALL_MESSAGE_REQUEST_MODE, |r| Ok(Answer::success().body(r.broker.tables.modes.text())), Needs::cluster(Get).only_if_strict()),
    answer(code::NOTIFY_MIN_BROKER_ID_CHANGE, broker_set::smallest_id_changed, Needs::cluster(Update).only_if_strict()),
    answer(code::EXCHANGE_BROKER_HA_INFO, broker_set::exchange_ha, Needs::cluster(Update)),
    answer(code::GET_BROKER_HA_STATUS, figures::ha_status, Needs::cluster(Get).only_if_strict()),
    answer(code::RESET_MASTER_FLUSH_OFFSET, settings::reset_master_flush, Needs::cluster(Update)),
    answer(code::GET_BROKER_EPOCH_CACHE, settings::epochs, Needs::cluster(Get).only_if_strict()),
    answer(code::NOTIFY_BROKER_ROLE_CHANGED, settings::role_changed, Needs::cluster(Update).only_if_strict()),
    answer(code::UPDATE_COLD_DATA_FLOW_CTR_CONFIG, settings::put_bounds, Needs::cluster(Update).only_if_strict()),
    answer(code::REMOVE_COLD_DATA_FLOW_CTR_CONFIG, settings::put_bounds, Needs::cluster(Update).only_if_strict()),
    answer(code::GET_COLD_DATA_FLOW_CTR_INFO, settings::bounds, Needs::cluster(Get).only_if_strict()),
    answer(code::SET_COMMITLOG_READ_MODE, settings::set_read_ahead, Needs::cluster(Update).only_if_strict()),
    answer(code::AUTH_CREATE_USER, users::create_user, Needs::cluster(Update)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::AUTH_UPDATE_USER, users::update_user, Needs::cluster(Update)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::AUTH_DELETE_USER, users::delete_user, Needs::cluster(Update)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::AUTH_GET_USER, users::user, Needs::cluster(Get)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::AUTH_LIST_USER, users::users, Needs::cluster(Get)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::AUTH_CREATE_ACL, users::change_acl, Needs::cluster(Update)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::AUTH_UPDATE_ACL, users::change_acl, Needs::cluster(Update)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::AUTH_DELETE_ACL, users::delete_acl, Needs::cluster(Update)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::AUTH_GET_ACL, users::acl, Needs::cluster(Get)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::AUTH_LIST_ACL, users::acls, Needs::cluster(Get)).in_disk_pool_with_body().plain(Plain::Administrator),
    answer(code::VOSTOK_PAGE, figures::page, Needs::cluster(Get)).for_operators(),
    own(code::VOSTOK_TABLE_CHANGES, offsets::changes, Needs::cluster(Update)),
    Route::new(code::POP_MESSAGE, Serve::Pop(pops::pop), Needs::fields(&[Sub], CONSUMER_GROUP_AND_TOPIC)).not_on_fast_port().on_proxy_port(),
    Route::new(code::ACK_MESSAGE, Serve::Ack(pops::ack), Needs::fields(&[Sub], CONSUMER_GROUP_AND_TOPIC)).on_proxy_port(),
    answer(code::PEEK_MESSAGE, pops::peek, Needs::fields(&[Sub], CONSUMER_GROUP_AND_TOPIC)).in_disk_pool().not_on_fast_port(),
    answer(code::CHANGE_MESSAGE_INVISIBLETIME, pops::change_invisible_time, Needs::fields(&[Sub], CONSUMER_GROUP_AND_TOPIC)).on_proxy_port().at_slave(slave::pops),
    own(code::NOTIFICATION, pops::notify, Needs::fields(&[Sub], CONSUMER_GROUP_AND_TOPIC)).not_on_fast_port(),
    answer(code::POLLING_INFO, pops::polling_info, Needs::fields(&[Get], CONSUMER_GROUP_AND_TOPIC)).not_on_fast_port(),
    answer(code::POP_ROLLBACK, pops::rollback, Needs::cluster(Update).only_if_strict()).at_slave(slave::appends),
    Route::new(code::POP_LITE_MESSAGE, Serve::Pop(lite::pop), Needs::fields(&[Sub], CONSUMER_GROUP_AND_TOPIC)).not_on_fast_port(),
    answer(code::LITE_SUBSCRIPTION_CTL, lite::control, Needs::body(&[Sub], &[Topic, Group], needs::lite).only_if_strict()).in_disk_pool_above(locks::LARGE_BYTES),
    answer(code::GET_BROKER_LITE_INFO, lite::broker_info, Needs::cluster(Get).only_if_strict()).for_operators(),
    answer(code::GET_PARENT_TOPIC_INFO, lite::parent_info, Needs::fields(&[Get], TOPIC).only_if_strict()).for_operators(),
    own(code::GET_LITE_TOPIC_INFO, lite::topic_info, Needs::fields(&[Get], &[("parentTopic", Topic)]).only_if_strict()).for_operators(),
    answer(code::GET_LITE_CLIENT_INFO, lite::client_info, Needs::fields(&[Get], &[("parentTopic", Topic), ("group", Group)]).only_if_strict()).for_operators(),
    answer(code::GET_LITE_GROUP_INFO, lite::group_info, Needs::fields(&[Get], GROUP).only_if_strict()).for_operators(),
    answer(code::TRIGGER_LITE_DISPATCH, lite::trigger, Needs::fields(&[Update], GROUP).only_if_strict()),
    Route::new(code::BATCH_ACK_MESSAGE, Serve::Ack(pops::batch_ack), Needs::body(&[Sub], &[Topic, Group], needs::acks).only_if_strict()),
];
