//! Clients by their id: settings, the telemetry stream to the client, and pending requests to it.
//!
//! A client enters with its settings. It leaves on its own request, or when the broker closes its link after two
//! minutes without a heartbeat. Each stream has a single writer: the channel whose receiver is the response of the
//! call.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{Debug, Formatter};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use broker::api::{Api, AskError, Asked, Caller, ClientAnswer, ClientLink, Notice, Question, Subject};
use bytes::Bytes;
use grpc::messages::{
    Code, Command, NotifyUnsubscribeLiteCommand, PrintThreadStackTraceCommand, PubSub,
    RecoverOrphanedTransactionCommand, Settings, Status, TelemetryCommand, VerifyMessageCommand, name,
};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use wire::codes::response;
use wire::record::RecordView;

use crate::convert;
use crate::failure::{Failure, Result};
use crate::subscribed::Subscribed;
use crate::transaction_id::TransactionId;

/// Most commands that wait for a client to read them. Further commands are dropped.
pub const COMMANDS_MAX: usize = 64;

/// Questions that one client may have open.
const QUESTIONS_MAX: usize = 64;

/// Channel for commands to a client. The commands are boxed, because the channel of every client allocates
/// memory for some of them at once.
pub type Writer = mpsc::Sender<Result<Box<TelemetryCommand>, tonic::Status>>;

/// All clients with settings.
pub struct Registry {
    clients: Mutex<HashMap<String, Arc<Client>>>,
    clients_max: usize,
    ask_timeout: Duration,
}

/// Settings that a client sent.
#[derive(Clone)]
pub struct ClientSettings {
    /// The settings, completed.
    pub settings: Settings,
    /// When the client stated them, milliseconds since the epoch: the version of its subscriptions.
    pub at_ms: i64,
}

/// Client, which is a link for the broker, like a connection.
pub struct Client {
    pub id: String,
    link_id: u64,
    /// User that sent the first settings. No other user may use the id. All callers are one user while authentication
    /// is off.
    user: Subject,
    pub remote: SocketAddr,
    ask_timeout: Duration,
    registry: Weak<Registry>,
    is_closed: AtomicBool,
    /// When the client last sent settings or a heartbeat, milliseconds since the epoch.
    seen_ms: AtomicI64,
    state: Mutex<State>,
    next_nonce: AtomicU64,
    /// Lite topics of the client.
    pub subscribed: Subscribed,
}

#[derive(Default)]
struct State {
    stated: Option<Arc<ClientSettings>>,
    writer: Option<Writer>,
    questions: HashMap<String, oneshot::Sender<ClientAnswer>>,
}

impl Registry {
    /// Makes a table of at most `clients_max` clients. A client has `ask_s` seconds to respond to an operator's
    /// request.
    pub fn new(clients_max: usize, ask_s: i64) -> Arc<Self> {
        let ask_timeout = Duration::from_secs(u64::try_from(ask_s).unwrap_or(0));
        Arc::new(Self { clients: Mutex::default(), clients_max, ask_timeout })
    }

    /// Returns the client with this id, or `None` if no client with this id has settings.
    pub fn find(&self, id: &str) -> Option<Arc<Client>> {
        self.clients.lock().get(id).filter(|client| client.stated().is_some()).cloned()
    }

    /// The client that sends its settings, here or to another proxy; a new client if the id is unknown.
    ///
    /// # Errors
    /// `UNAUTHORIZED` when the id is that of another user, `TOO_MANY_REQUESTS` when as many clients as the settings allow are
    /// connected.
    pub fn enter(self: &Arc<Self>, id: &str, caller: &Caller) -> Result<Arc<Client>> {
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(id) {
            client.check_user(&caller.user)?;
            return Ok(client.clone());
        }
        if clients.len() >= self.clients_max {
            // Producers without topics have no heartbeats by which the broker would tell that they are gone.
            clients.retain(|_, client| client.is_reachable());
        }
        if clients.len() >= self.clients_max {
            return Err(Failure::new(Code::TooManyRequests, "too many clients are connected"));
        }
        let client = Arc::new(Client {
            id: id.to_owned(),
            link_id: Api::next_id(),
            user: caller.user.clone(),
            remote: caller.remote,
            ask_timeout: self.ask_timeout,
            registry: Arc::downgrade(self),
            is_closed: AtomicBool::new(false),
            seen_ms: AtomicI64::new(i64::MAX),
            state: Mutex::default(),
            next_nonce: AtomicU64::new(1),
            subscribed: Subscribed::default(),
        });
        clients.insert(id.to_owned(), client.clone());
        Ok(client)
    }

    /// Removes a client that left by another proxy. Returns whether the client was known.
    pub fn forget(&self, id: &str) -> bool {
        let client = self.clients.lock().get(id).cloned();
        client.inspect(|client| self.remove(client)).is_some()
    }

    /// Removes the clients without activity since a time. Returns whether there were any.
    pub fn forget_silent(&self, before_ms: i64) -> bool {
        let silent: Vec<Arc<Client>> = {
            let clients = self.clients.lock();
            let is_silent = |client: &&Arc<Client>| client.seen_ms.load(Ordering::Relaxed) < before_ms;
            clients.values().filter(is_silent).cloned().collect()
        };
        silent.iter().for_each(|client| self.remove(client));
        !silent.is_empty()
    }

    /// The topics that producers stated.
    pub fn published(&self) -> BTreeSet<String> {
        let clients = self.clients.lock();
        clients.values().flat_map(|client| client.published()).collect()
    }

    /// Sends a notice to a producer of a topic. Returns whether a producer is connected.
    pub fn notify_producer(&self, topic: &str, notice: &Notice<'_>) -> bool {
        let clients: Vec<Arc<Client>> = self.clients.lock().values().cloned().collect();
        let is_producer =
            |client: &&Arc<Client>| client.is_reachable() && client.published().iter().any(|it| it == topic);
        let producer = clients.iter().find(is_producer);
        producer.inspect(|producer| producer.notify(notice)).is_some()
    }

    /// Notifies a consumer of a group that it lost a lite topic. Returns whether the consumer is known.
    pub fn notify_unsubscribed(&self, id: &str, group: &str, lite_topic: &str) -> bool {
        let Some(client) = self.find(id).filter(|client| client.consumer_group().as_deref() == Some(group))
        else {
            return false;
        };
        client.notify(&Notice::UnsubscribeLite { client_id: id, group, lite_topic });
        true
    }

    /// Removes a client, unless another client took its id.
    pub fn remove(&self, client: &Client) {
        let mut clients = self.clients.lock();
        if clients.get(&client.id).is_some_and(|known| known.link_id == client.link_id) {
            clients.remove(&client.id);
        }
        client.is_closed.store(true, Ordering::Relaxed);
    }
}

impl Client {
    /// Checks that a user may use the id of the client.
    ///
    /// # Errors
    /// `UNAUTHORIZED` when another user sent the first settings.
    pub fn check_user(&self, user: &Subject) -> Result<()> {
        if self.user == *user {
            return Ok(());
        }
        let text =
            format!("expected a client id of the user's own, found {}, which is another user's", self.id);
        Err(Failure::new(Code::Unauthorized, text))
    }

    /// The settings the client stated last.
    pub fn stated(&self) -> Option<Arc<ClientSettings>> {
        self.state.lock().stated.clone()
    }

    /// Records that the client was active at this time.
    pub fn note_activity(&self, now_ms: i64) {
        self.seen_ms.store(now_ms, Ordering::Relaxed);
    }

    /// The topics that the client stated as a producer.
    fn published(&self) -> Vec<String> {
        let stated = self.stated();
        let pub_sub = stated.as_ref().and_then(|stated| stated.settings.pub_sub.as_ref());
        let Some(PubSub::Publishing(publishing)) = pub_sub else { return Vec::new() };
        publishing.topics.iter().map(|topic| topic.name.clone()).collect()
    }

    /// The group that the client stated as a consumer.
    pub fn consumer_group(&self) -> Option<String> {
        match self.stated()?.settings.pub_sub.as_ref()? {
            PubSub::Subscription(subscription) => Some(name(&subscription.group).to_owned()),
            PubSub::Publishing(_) => None,
        }
    }

    /// Keeps the settings of the client, and the stream that they came on.
    pub fn set_settings(&self, stated: ClientSettings, writer: &Writer) {
        let mut state = self.state.lock();
        state.stated = Some(Arc::new(stated));
        state.writer = Some(writer.clone());
    }

    /// Removes an ended stream, unless a newer stream replaced it. Returns whether the client has no stream now.
    pub fn leave(&self, writer: &Writer) -> bool {
        let mut state = self.state.lock();
        state.writer.take_if(|known| known.same_channel(writer));
        state.writer.is_none()
    }

    /// Takes the response to a request. Drops an unexpected response.
    pub fn answered(&self, nonce: &str, answer: ClientAnswer) {
        let asked = self.state.lock().questions.remove(nonce);
        let _ = asked.map(|asked| asked.send(answer));
    }

    /// Id of the client's link. No other client has it, not even a client of the same name.
    pub fn link(&self) -> u64 {
        self.link_id
    }

    /// Whether the client left or timed out.
    pub fn is_gone(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether the client has a stream.
    pub fn is_reachable(&self) -> bool {
        self.state.lock().writer.as_ref().is_some_and(|writer| !writer.is_closed())
    }

    /// Sends the client a command. Returns false for a client without a stream, or with a full stream.
    fn send_command(&self, command: Command) -> bool {
        let writer = self.state.lock().writer.clone();
        let command = TelemetryCommand { status: None, command: Some(command) };
        writer.is_some_and(|writer| writer.try_send(Ok(Box::new(command))).is_ok())
    }

    async fn send_question(&self, question: Question, patience: Duration) -> Result<ClientAnswer, AskError> {
        let timed_out = || AskError::TimedOut("call remote timeout".to_owned());
        let nonce = self.next_nonce.fetch_add(1, Ordering::Relaxed).to_string();
        let command = match question {
            Question::RunningInfo { fields } if asks_for_stack(&fields) => {
                Command::PrintThreadStackTraceCommand(PrintThreadStackTraceCommand { nonce: nonce.clone() })
            }
            Question::Consume { record, .. } => {
                let bytes = Bytes::from(record);
                let Ok(record) = RecordView::parse(&bytes) else { return Ok(refused("no message")) };
                let message = Some(convert::message(&bytes, &record, record.store_timestamp()));
                Command::VerifyMessageCommand(VerifyMessageCommand { nonce: nonce.clone(), message })
            }
            _ => return Ok(refused("not supported by clients of gRPC")),
        };
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.questions.len() >= QUESTIONS_MAX {
                return Err(timed_out());
            }
            state.questions.insert(nonce.clone(), sender);
        }
        let asked = self.send_command(command);
        let answer = match asked {
            true => tokio::time::timeout(patience.min(self.ask_timeout), receiver).await.ok(),
            false => None,
        };
        self.state.lock().questions.remove(&nonce);
        answer.and_then(Result::ok).ok_or_else(timed_out)
    }
}

fn asks_for_stack(fields: &[(String, String)]) -> bool {
    fields.iter().any(|(name, value)| name == "jstackEnable" && value == "true")
}

fn refused(remark: &str) -> ClientAnswer {
    ClientAnswer { code: response::SYSTEM_ERROR, remark: Some(remark.to_owned()), body: Vec::new() }
}

/// Converts the status of a client's response for an operator.
pub fn answer(status: Option<Status>, body: Vec<u8>) -> ClientAnswer {
    let code = status.as_ref().map_or(Code::Ok as i32, |status| status.code);
    match Code::try_from(code) {
        Ok(Code::Ok) => ClientAnswer { code: response::SUCCESS, remark: None, body },
        Ok(Code::VerifyFifoMessageUnsupported) => ClientAnswer {
            code: response::NO_PERMISSION,
            remark: Some("forbidden to verify message".to_owned()),
            body: Vec::new(),
        },
        _ => refused("verify message failed"),
    }
}

impl Debug for Client {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("id", &self.id).field("remote", &self.remote).finish_non_exhaustive()
    }
}

impl ClientLink for Client {
    fn id(&self) -> u64 {
        self.link_id
    }

    fn remote(&self) -> SocketAddr {
        self.remote
    }

    fn protocol(&self) -> &'static str {
        "grpc_v2"
    }

    fn is_closed(&self) -> bool {
        self.is_gone()
    }

    fn close(&self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.remove(self);
        }
    }

    fn notify(&self, notice: &Notice<'_>) {
        // Clients of gRPC keep no offsets and share out no queues, so they need no other notice.
        let Notice::CheckTransaction { broker_name, unique_key, queue_offset, id, record } = notice else {
            if let Notice::UnsubscribeLite { lite_topic, .. } = notice {
                self.subscribed.lost(lite_topic);
                let command = NotifyUnsubscribeLiteCommand { lite_topic: (*lite_topic).to_owned() };
                self.send_command(Command::NotifyUnsubscribeLiteCommand(command));
            }
            return;
        };
        let bytes = Bytes::copy_from_slice(record);
        let Ok(record) = RecordView::parse(&bytes) else { return };
        let transaction_id = TransactionId {
            message_id: unique_key,
            half_offset: *queue_offset,
            log_offset: id.log_offset,
            broker: broker_name,
        };
        let command = RecoverOrphanedTransactionCommand {
            message: Some(convert::message(&bytes, &record, record.store_timestamp())),
            transaction_id: transaction_id.to_string(),
        };
        self.send_command(Command::RecoverOrphanedTransactionCommand(command));
    }

    fn ask(&self, question: Question, patience: Duration) -> Asked<'_> {
        Box::pin(self.send_question(question, patience))
    }
}
