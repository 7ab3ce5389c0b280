//! A server of RocketMQ's gRPC protocol: connections to it as clients of RocketMQ 5.x have them, and its routes of
//! topics.

use super::places::{LOOKS, Place, Wanted, resolve};
use super::workload::Workload;
use crate::Error;
use crate::load::{Refusal, Target};
use base64::Engine as _;
use bytes::Bytes;
use client::{Client, Credentials};
use grpc::messages::{
    Code, Command, HeartbeatRequest, HeartbeatResponse, Language, MessageQueue, Permission,
    QueryRouteRequest, QueryRouteResponse, Resource, Settings, Status, TelemetryCommand, UA,
};
use grpc::{Channel, Failure, ResponseStream, framed};
use http::{HeaderMap, HeaderValue};
use net::tls::Security;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Longest wait for the answer to a call other than a receive. A send is given up after the same time.
pub(super) const WAIT: Duration = Duration::from_secs(3);

/// Interval between two heartbeats of a consumer (`ClientManagerImpl`).
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Version of the client in requests. From 5.0.4 on, servers answer as they do to current clients.
const VERSION: &str = "5.0.8";

/// A server, and the client ids and keys of its callers.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    address: String,
    security: Security,
    credentials: Option<Credentials>,
    /// Beginning of the client ids; `#` and the number of the client follow.
    client_id: String,
}

/// A connection whose client has sent its settings.
pub(super) struct Session {
    pub channel: Channel,
    tasks: JoinSet<()>,
}

impl Session {
    /// Waits until the connection, or the stream of settings on it, ended.
    pub async fn ended(&mut self) {
        self.tasks.join_next().await;
    }
}

impl Endpoint {
    /// The server that a workload loads; `None` when it loads brokers.
    pub fn of(workload: &Workload, client: &Client) -> Option<Self> {
        let (security, credentials) = (workload.security(), workload.credentials());
        let client_id = format!("{}#{}", client.id(), workload.run);
        workload.grpc.clone().map(|address| Self { address, security, credentials, client_id })
    }

    /// The queues of the wanted topics that messages are sent to, or received from when `is_read`, all through this server.
    ///
    /// # Errors
    /// [`Error::Broken`] when the server does not speak gRPC, or does not have a topic.
    pub async fn place(&self, wanted: &Wanted, is_read: bool) -> Result<Place, Error> {
        let address = resolve(&self.address).await?;
        let mut targets = Vec::new();
        for number in 0..wanted.topics {
            let topic: Option<Arc<str>> =
                (wanted.topics > 1).then(|| format!("{}_{number}", wanted.topic).into());
            let allows = |queue: &MessageQueue| {
                let refused = if is_read { Permission::Write } else { Permission::Read };
                ![refused, Permission::None].into_iter().any(|one| queue.permission == one as i32)
            };
            let queues =
                self.route(topic.as_deref().unwrap_or(&wanted.topic), wanted.queues.is_some()).await?;
            targets.extend(queues.into_iter().filter(allows).map(|queue| Target {
                broker: queue.broker.map(|broker| broker.name).unwrap_or_default(),
                topic: topic.clone(),
                queue_id: queue.id,
            }));
        }
        if targets.is_empty() {
            return Err(client::Error::NoQueue(wanted.topic.clone()).into());
        }
        Ok(Place { address, targets })
    }

    /// Asks for the route of a topic. If the topic was just created, waits for its route, because proxies learn of it
    /// later than name servers.
    async fn route(&self, topic: &str, is_created: bool) -> Result<Vec<MessageQueue>, Error> {
        let mut looks = LOOKS.0;
        loop {
            let asked = tokio::time::timeout(WAIT, self.ask_route(topic)).await;
            let answer =
                asked.unwrap_or_else(|_| Err(Failure::Connection(format!("no answer within {WAIT:?}"))));
            let answer = answer.map_err(|failure| self.unreachable(&failure))?;
            let Err(refusal) = accepted(answer.status.as_ref()) else { return Ok(answer.message_queues) };
            let is_missing = refusal.code == Code::TopicNotFound as i32;
            if is_missing && is_created && looks > 0 {
                looks -= 1;
                tokio::time::sleep(LOOKS.1).await;
                continue;
            }
            let advice = "create it first: --queues N, with the name server in -n, does so";
            let advice_text = if is_missing { format!(": {advice}") } else { String::new() };
            return Err(Error::Broken(format!(
                "{} refuses the route of {topic} with {refusal}{advice_text}",
                self.address
            )));
        }
    }

    async fn ask_route(&self, topic: &str) -> Result<QueryRouteResponse, Failure> {
        let (channel, carried) = self.open(0).await?;
        let request = QueryRouteRequest { topic: Some(Resource::named(topic)), endpoints: None };
        let asked = async {
            let method = channel.method("QueryRoute", Some(WAIT))?;
            channel.call(&method, framed(&request)).await?.only().await
        };
        tokio::select! {
            biased;
            answer = asked => answer,
            failure = carried => Err(failure),
        }
    }

    /// Advice for a server that cannot be called.
    fn unreachable(&self, failure: &Failure) -> Error {
        Error::Broken(format!(
            "{} does not answer gRPC: {failure}. --grpc takes the port of a proxy, 8081 unless it was changed; the \
             ports of name servers and brokers belong to -n, and a proxy that serves TLS alone needs --tls",
            self.address
        ))
    }

    /// Connects as client number `number`; the future carries the connection.
    async fn open(&self, number: u32) -> Result<(Channel, impl Future<Output = Failure> + use<>), Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Connection(error.to_string());
        let address = resolve(&self.address).await.map_err(|error| failed(&error))?;
        let stream = net::dial_http2(address, &self.security).await.map_err(|error| failed(&error))?;
        let scheme = if self.security.client.is_some() { "https" } else { "http" };
        let headers = self.headers(number).ok_or_else(|| failed(&"the access key is no text of HTTP"))?;
        Channel::open(stream, &format!("{scheme}://{}", self.address), headers).await
    }

    /// Headers of every call of a client (`Signature.sign` of the Java client).
    fn headers(&self, number: u32) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        let mut add = |name: &'static str, value: String| {
            HeaderValue::try_from(value).ok().map(|value| headers.insert(name, value))
        };
        add("x-mq-client-id", format!("{}#{number}", self.client_id))?;
        for (name, value) in
            [("x-mq-language", "RUST"), ("x-mq-protocol", "v2"), ("x-mq-client-version", VERSION)]
        {
            add(name, value.to_owned())?;
        }
        if let Some(credentials) = &self.credentials {
            let date_time = crate::load::date_time(crate::runtime::epoch_ms());
            let base64 = credentials.sign([date_time.as_bytes()]);
            let mut signature = Vec::new();
            let bytes = base64::engine::general_purpose::STANDARD.decode(base64).ok()?;
            wire::id::append_hex(&mut signature, &bytes);
            let signature = String::from_utf8(signature).ok()?;
            let user = credentials.access_key();
            add("x-mq-date-time", date_time)?;
            let authorization = format!(
                "MQv2-HMAC-SHA1 Credential={user}, SignedHeaders=x-mq-date-time, Signature={signature}"
            );
            add("authorization", authorization)?;
        }
        Some(headers)
    }

    /// Connects as client number `number`, and tells its settings. To be called on the thread of the connection.
    ///
    /// # Errors
    /// [`Failure::Connection`] when the server cannot be reached, [`Failure::Status`] when it refuses the settings.
    pub(super) async fn session(&self, number: u32, settings: Settings) -> Result<Session, Failure> {
        let linked = tokio::time::timeout(WAIT, self.begin_session(number, settings)).await;
        linked.unwrap_or_else(|_| Err(Failure::Connection(format!("no answer within {WAIT:?}"))))
    }

    async fn begin_session(&self, number: u32, settings: Settings) -> Result<Session, Failure> {
        let (channel, carried) = self.open(number).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn_local(async move { drop(carried.await) });
        let agent = UA { language: Language::Rust.into(), version: VERSION.to_owned(), ..UA::default() };
        let settings = Settings { user_agent: Some(agent), ..settings };
        let beat = heartbeat(&settings);
        let command = TelemetryCommand { status: None, command: Some(Command::Settings(settings)) };
        let telemetry = channel.method("Telemetry", None)?;
        let (stream, mut answers) = channel.stream(&telemetry, framed(&command)).await?;
        let answer: Option<TelemetryCommand> = answers.next().await?;
        if let Err(Refusal { code, remark }) = accepted(answer.and_then(|answer| answer.status).as_ref()) {
            return Err(Failure::Status { code, message: remark });
        }
        let beats = channel.clone();
        tasks.spawn_local(async move {
            // The stream lasts as long as the client. Whatever ends it also ends the session.
            let _ = stay(&beats, beat, answers).await;
            drop(stream);
        });
        Ok(Session { channel, tasks })
    }
}

/// The heartbeat of a client. The heartbeat of a consumer names its group.
fn heartbeat(settings: &Settings) -> Bytes {
    let group = match &settings.pub_sub {
        Some(grpc::messages::PubSub::Subscription(subscription)) => subscription.group.clone(),
        _ => None,
    };
    framed(&HeartbeatRequest { group, client_type: settings.client_type.unwrap_or_default() })
}

/// Sends heartbeats, and reads the commands of the server, none of which concerns a load.
async fn stay(channel: &Channel, beat: Bytes, mut commands: ResponseStream) -> Result<(), Failure> {
    let heartbeat = channel.method("Heartbeat", Some(WAIT))?;
    let mut beats = tokio::time::interval(HEARTBEAT);
    loop {
        tokio::select! {
            command = commands.next::<TelemetryCommand>() => {
                if command?.is_none() {
                    return Ok(());
                }
            }
            _ = beats.tick() => {
                channel.call(&heartbeat, beat.clone()).await?.only::<HeartbeatResponse>().await?;
            }
        }
    }
}

/// Checks that a status is success. Otherwise returns its code and message as a refusal.
pub(super) fn accepted(status: Option<&Status>) -> Result<(), Refusal> {
    let (code, text) = status.map_or((0, "no status"), |status| (status.code, status.message.as_str()));
    if code == Code::Ok as i32 { Ok(()) } else { Err(Refusal::new(code, Some(text))) }
}
