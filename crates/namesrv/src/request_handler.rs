//! The request handler: serves requests from the route tables and settings. Knows codes, headers and remarks, but no sockets
//! (`DefaultRequestProcessor`, `ClientRequestProcessor`).

mod brokers;
mod settings;
mod topics;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use wire::codes::{request, response};
use wire::fields::FieldError;
use wire::frame::{Command, FRAME_BYTES_MAX, FrameWriter};

use crate::{Config, Departure, KvStore, MinBrokerNotice, SharedRoutes};

/// Most notices that may wait to be sent. Beyond it the oldest are dropped, as brokers also poll for this information.
const NOTICES_MAX: usize = 10_000;

/// The request handler with its tables and settings. Shared by all connections.
#[derive(Debug)]
pub struct RequestHandler {
    config: RwLock<Config>,
    /// File to which changed settings are written; a new path takes effect only after a restart.
    config_path: PathBuf,
    routes: SharedRoutes,
    kv: RwLock<KvStore>,
    /// Lock of a change of key-value settings or the configuration. The file is written before the change is visible.
    change: Mutex<()>,
    started: Instant,
    /// Departures and notices for the next [`RequestHandler::settle`].
    waiting: Mutex<PendingChanges>,
}

#[derive(Debug, Default)]
struct PendingChanges {
    departures: Vec<Departure>,
    notices: VecDeque<MinBrokerNotice>,
}

/// A refused request: code and remark of the response.
#[derive(Debug)]
struct Refusal {
    code: i32,
    remark: Option<String>,
}

impl Refusal {
    fn new(code: i32, remark: impl Into<String>) -> Self {
        Self { code, remark: Some(remark.into()) }
    }

    fn error(remark: impl Into<String>) -> Self {
        Self::new(response::SYSTEM_ERROR, remark)
    }
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        Self::error(error.to_string())
    }
}

/// A request that is being served, and the buffer for its response.
struct RequestContext<'a, 'b> {
    command: &'a Command<'a>,
    connection: u64,
    now: Instant,
    out: &'b mut Vec<u8>,
}

impl RequestContext<'_, '_> {
    /// Starts a successful response.
    fn response(&mut self) -> FrameWriter<'_> {
        FrameWriter::begin(self.out, self.command.response(response::SUCCESS))
    }

    /// Writes a successful response without header fields.
    fn finish(mut self, body: &[u8]) -> Result<(), Refusal> {
        self.response().finish(body);
        Ok(())
    }
}

impl RequestHandler {
    /// A handler with empty route tables, started at `now`.
    pub fn new(config: Config, kv: KvStore, now: Instant) -> Self {
        Self {
            config_path: config.config_store_path.clone(),
            config: RwLock::new(config),
            routes: SharedRoutes::default(),
            kv: RwLock::new(kv),
            change: Mutex::default(),
            started: now,
            waiting: Mutex::default(),
        }
    }

    /// Whether a request may take long, because the request changes or lists many topics, or writes a file.
    pub(crate) fn takes_long(code: i32) -> bool {
        matches!(
            code,
            request::REGISTER_BROKER
                | request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER
                | request::GET_TOPICS_BY_CLUSTER
                | request::GET_UNIT_TOPIC_LIST
                | request::GET_HAS_UNIT_SUB_TOPIC_LIST
                | request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST
                | request::GET_KVLIST_BY_NAMESPACE
                | request::WIPE_WRITE_PERM_OF_BROKER
                | request::ADD_WRITE_PERM_OF_BROKER
                | request::DELETE_TOPIC_IN_NAMESRV
                | request::REGISTER_TOPIC_IN_NAMESRV
                | request::UPDATE_NAMESRV_CONFIG
        ) || Self::changes_kv(code)
    }

    /// Whether a request changes key-value settings; several changes are stored with one write.
    pub(crate) fn changes_kv(code: i32) -> bool {
        matches!(code, request::PUT_KV_CONFIG | request::DELETE_KV_CONFIG)
    }

    /// Performs changes of key-value settings with one write, and returns the responses; the response to a one-way request is empty.
    pub(crate) fn respond_kv(&self, commands: &[Command<'_>]) -> Vec<Vec<u8>> {
        let outcomes = self.change_kv(&commands.iter().collect::<Vec<_>>());
        let response = |(command, outcome): (&Command<'_>, Result<(), Refusal>)| {
            let mut out = Vec::new();
            if !command.is_one_way() {
                let refusal = outcome.err();
                let mut head = command.response(refusal.as_ref().map_or(response::SUCCESS, |it| it.code));
                head.remark = refusal.as_ref().and_then(|refusal| refusal.remark.as_deref());
                head.write(&mut out, &[]);
            }
            out
        };
        commands.iter().zip(outcomes).map(response).collect()
    }

    /// Appends the response to a request from `connection` to `out`. A one-way request gets no response.
    pub fn respond(&self, now: Instant, connection: u64, command: &Command<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        if let Err(Refusal { code, remark }) = self.dispatch(RequestContext { command, connection, now, out })
        {
            out.truncate(start);
            let mut head = command.response(code);
            head.remark = remark.as_deref();
            head.write(out, &[]);
        }
        let found = out.len() - start;
        if found > FRAME_BYTES_MAX {
            // Clients close the connection when a frame is larger.
            out.truncate(start);
            let remark = format!(
                "the answer is {found} bytes long, a frame holds at most {FRAME_BYTES_MAX}; ask for the topics of one cluster, or a broker for its topics in pages"
            );
            command.response(response::SYSTEM_ERROR).remark(&remark).write(out, &[]);
        }
        if command.is_one_way() {
            out.truncate(start);
        }
    }

    fn dispatch(&self, context: RequestContext<'_, '_>) -> Result<(), Refusal> {
        match context.command.code {
            request::REGISTER_BROKER => self.register(context),
            request::UNREGISTER_BROKER => self.unregister(context),
            request::QUERY_DATA_VERSION => self.query_data_version(context),
            request::BROKER_HEARTBEAT => self.heartbeat(context),
            request::GET_ROUTEINFO_BY_TOPIC => self.route(context),
            request::GET_BROKER_CLUSTER_INFO => self.clusters(context),
            request::GET_BROKER_MEMBER_GROUP => self.members(context),
            request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => self.all_topics(context),
            request::GET_TOPICS_BY_CLUSTER
            | request::GET_UNIT_TOPIC_LIST
            | request::GET_HAS_UNIT_SUB_TOPIC_LIST
            | request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => self.some_topics(context),
            request::GET_SYSTEM_TOPIC_LIST_FROM_NS => self.system_topics(context),
            request::WIPE_WRITE_PERM_OF_BROKER => self.wipe_write_perm(context),
            request::ADD_WRITE_PERM_OF_BROKER => self.add_write_perm(context),
            request::DELETE_TOPIC_IN_NAMESRV => self.delete_topic(context),
            request::REGISTER_TOPIC_IN_NAMESRV => self.add_topic(context),
            request::PUT_KV_CONFIG | request::DELETE_KV_CONFIG => {
                self.change_kv(&[context.command]).remove(0)?;
                context.finish(&[])
            }
            request::GET_KV_CONFIG => self.get_kv(context),
            request::GET_KVLIST_BY_NAMESPACE => self.list_kv(context),
            request::UPDATE_NAMESRV_CONFIG => self.update_config(context),
            request::GET_NAMESRV_CONFIG => self.get_config(context),
            code => Err(Refusal::new(
                response::REQUEST_CODE_NOT_SUPPORTED,
                format!(" request type {code} not supported"),
            )),
        }
    }

    /// Reports that a connection has ended: the broker that registered on it is removed by the next [`RequestHandler::settle`]. Returns
    /// whether there is one.
    pub fn disconnected(&self, connection: u64) -> bool {
        let lost = self.routes.read().owner(connection);
        lost.is_some_and(|lost| self.depart([lost], usize::MAX))
    }

    /// Marks silent brokers for removal by the next [`RequestHandler::settle`], and returns their connections, which the caller must
    /// close.
    pub fn expire(&self, now: Instant) -> Vec<u64> {
        let silent = self.routes.read().silent(now);
        let connections = silent.iter().filter_map(|departure| departure.connection).collect();
        for departure in &silent {
            tracing::warn!(
                broker = departure.broker,
                address = departure.address,
                "a broker is silent, removed"
            );
        }
        self.depart(silent, usize::MAX);
        connections
    }

    /// Removes all departing brokers at once. Returns the notices that became due since the last call.
    pub fn settle(&self) -> Vec<MinBrokerNotice> {
        let departures = std::mem::take(&mut self.waiting.lock().departures);
        if !departures.is_empty() {
            let notices = self.routes.unregister(&departures);
            self.notify(notices);
        }
        std::mem::take(&mut self.waiting.lock().notices).into()
    }

    /// Whether [`RequestHandler::settle`] has work.
    pub fn is_unsettled(&self) -> bool {
        let waiting = self.waiting.lock();
        !waiting.departures.is_empty() || !waiting.notices.is_empty()
    }

    /// Adds departures; returns false, and adds none, if `max` or more wait already.
    fn depart(&self, departures: impl IntoIterator<Item = Departure>, max: usize) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.departures.len() >= max {
            return false;
        }
        waiting.departures.extend(departures);
        true
    }

    fn notify(&self, notices: impl IntoIterator<Item = MinBrokerNotice>) {
        if !self.config.read().notify_min_broker_id_changed {
            return;
        }
        let mut waiting = self.waiting.lock();
        waiting.notices.extend(notices);
        let excess = waiting.notices.len().saturating_sub(NOTICES_MAX);
        waiting.notices.drain(..excess);
    }

    // A panic under one of these locks is a bug in one request's handler; the tables stay usable for all others.
}

#[cfg(test)]
mod tests;
