//! Dispatch of HTTP/2 requests to calls, and of responses back.

use std::future::Future;
use std::net::SocketAddr;
use std::option;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use auth::{Denial, ResponseTime};
use broker::api::{Caller, Metadata, Sends, Subject};
use grpc::ProstCodec;
use grpc::messages::*;
use http::HeaderMap;
use http::uri::Authority;
use hyper::body::Incoming;
use prost::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tokio_stream::adapters::Chain;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Iter, StreamExt};
use tonic::body::Body;
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::{Code as GrpcCode, Request, Response, Status as GrpcStatus, Streaming};
use wire::codes::{Language, VERSION};

use crate::body::{ChargedBody, RequestMemory};
use crate::calls::{self, Call, Delivery, Proxy, telemetry};
use crate::failure::{Failure, Result};
use crate::needs::Guarded;
use crate::reflection;
use crate::registry::{COMMANDS_MAX, Writer};

/// The path of the service.
const SERVICE: &str = "/apache.rocketmq.v2.MessagingService/";

/// Largest command of a client, such as the stacks of its threads.
const COMMAND_BYTES_MAX: usize = 16 << 20;

/// The code `OUT_OF_RANGE` of gRPC.
const OUT_OF_RANGE: &[u8] = b"11";

/// Time between the response to a call that waits for a permit and the client's deadline.
const ANSWER_TIME: Duration = Duration::from_millis(100);

/// Longest time that the answer of a refused call waits.
const ANSWER_WAIT_MAX: Duration = Duration::from_millis(auth::WAIT_MAX_MS.unsigned_abs());

/// Response that can carry the reason of a failed call.
trait Refused: Default {
    fn status_mut(&mut self) -> &mut Option<Status>;

    fn refused(status: Status) -> Self {
        let mut response = Self::default();
        *response.status_mut() = Some(status);
        response
    }
}

macro_rules! refused {
    ($($response:ty),* $(,)?) => {
        $(impl Refused for $response {
            fn status_mut(&mut self) -> &mut Option<Status> {
                &mut self.status
            }
        })*
    };
}

refused!(
    QueryRouteResponse,
    HeartbeatResponse,
    SendMessageResponse,
    QueryAssignmentResponse,
    AckMessageResponse,
    ForwardMessageToDeadLetterQueueResponse,
    EndTransactionResponse,
    NotifyClientTerminationResponse,
    ChangeInvisibleDurationResponse,
    RecallMessageResponse,
    SyncLiteSubscriptionResponse,
);

/// Origin of calls.
#[derive(Clone)]
pub struct Origin {
    pub proxy: Arc<Proxy>,
    pub remote: SocketAddr,
    /// Mark of the connection with its user, if known ([`auth::Mark`]).
    pub mark: Arc<AtomicU64>,
    /// Send queue of the thread of the connection. `None` in cluster mode.
    pub sends: Option<Arc<Sends>>,
    /// Host and port that the client dialled, according to its requests.
    pub authority: Option<Authority>,
    /// Permits for calls that are served at the same time, for all connections. Calls that wait for messages
    /// take no permit.
    pub places: Arc<Semaphore>,
}

impl Origin {
    fn call(&self, head: &HeaderMap) -> Call {
        let text = |name: &str| head.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let language = text("x-mq-language");
        Call {
            proxy: self.proxy.clone(),
            client_id: text("x-mq-client-id").to_owned(),
            language: Some(Language::from_name(language.as_bytes()).unwrap_or(Language::Other)),
            version: text("x-mq-client-version").to_owned(),
            caller: Caller { remote: self.remote, version: VERSION, user: Subject::Off },
            left_ms: timeout_ms(text("grpc-timeout")),
            sends: self.sends.clone(),
            authority: self.authority.clone(),
        }
    }

    /// Authenticates the call of a message. Only the head of the request is needed, so the body of an unauthenticated
    /// client is not read.
    pub fn authenticated<M: Guarded>(&self, head: &HeaderMap) -> Result<Call, Rejected> {
        let text = |name: &str| head.get(name).and_then(|value| value.to_str().ok());
        let (authorization, date_time) = (text("authorization"), text("x-mq-date-time"));
        let signed = Metadata { message: M::NAME, authorization, date_time };
        let mut call = self.call(head);
        match self.proxy.brokers.authenticate(&signed, self.remote, &self.mark) {
            Ok(user) => call.caller.user = user,
            Err(Denial { error, response_time, mark }) => {
                let failure = Failure::unauthorized(error.into());
                let wait = match response_time {
                    ResponseTime::Now => Some(Duration::ZERO),
                    ResponseTime::After(wait_ms) => Some(Duration::from_millis(wait_ms.unsigned_abs())),
                    ResponseTime::Never => None,
                };
                let mark = (mark != 0).then(|| (self.mark.clone(), mark));
                return Err(Rejected { failure, wait, mark });
            }
        }
        Ok(call)
    }

    fn grpc<T, U>(&self) -> Grpc<ProstCodec<T, U>>
    where
        T: Message + 'static,
        U: Message + Default + 'static,
    {
        Grpc::new(ProstCodec::default()).max_decoding_message_size(self.proxy.config.request_bytes_max)
    }
}

/// A call that is refused, and how long its answer waits.
#[derive(Debug)]
pub struct Rejected {
    pub failure: Failure,
    /// Delay of the response. `None` if too many responses of the address wait, so that the request gets no response.
    pub wait: Option<Duration>,
    /// Mark of the connection, and its new value at the time of the response.
    pub mark: Option<(Arc<AtomicU64>, auth::Mark)>,
}

impl From<Failure> for Rejected {
    fn from(failure: Failure) -> Self {
        Self { failure, wait: Some(Duration::ZERO), mark: None }
    }
}

/// Returns the call if its user may send the message, else the refusal.
pub fn admitted<M: Guarded>(caller: Result<Call, Rejected>, message: &M) -> Result<Call, Rejected> {
    let call = caller?;
    call.authorize(message)?;
    call.check()?;
    Ok(call)
}

/// Call and message of a request, with the memory charge of the message.
type Opened<M> = (Call, M, Option<RequestMemory>);

/// Opens a request. An address with many failures gets a late refusal, and until then no part of the request is in
/// memory.
pub async fn opened<M: Guarded>(caller: Result<Call, Rejected>, request: Request<M>) -> Result<Opened<M>> {
    match opened_now(caller, request) {
        Ok(opened) => Ok(opened),
        Err(rejected) => Err(rejected.due().await),
    }
}

/// Opens a request like [`opened`], but returns a refusal at once. The caller waits until the response is due.
fn opened_now<M: Guarded>(
    caller: Result<Call, Rejected>,
    request: Request<M>,
) -> Result<Opened<M>, Rejected> {
    let charged = request.extensions().get::<RequestMemory>().cloned();
    let message = request.into_inner();
    admitted(caller, &message).map(|call| (call, message, charged))
}

impl Rejected {
    /// Waits until the answer of a call is due. A call cannot end without an answer, so it waits the longest time instead.
    async fn due(self) -> Failure {
        sleep(self.wait.unwrap_or(ANSWER_WAIT_MAX)).await;
        self.into_failure()
    }

    /// The failure that the client gets. Sets the mark of the connection.
    fn into_failure(self) -> Failure {
        if let Some((connection, mark)) = self.mark {
            connection.store(mark, Ordering::Relaxed);
        }
        self.failure
    }

    /// Waits until a refusal may be sent on a stream. Returns `None` if the stream ends without it, because the
    /// client left, the server stops, or too many responses of the address wait.
    pub async fn due_on(self, writer: &Writer, proxy: &Proxy) -> Option<Failure> {
        let wait = self.wait?;
        tokio::select! {
            biased;
            () = writer.closed() => None,
            () = proxy.stopping() => None,
            () = sleep(wait) => Some(self.into_failure()),
        }
    }
}

/// Takes a permit, or waits for one until the client's deadline.
async fn place(places: &Arc<Semaphore>, left_ms: Option<i64>) -> Result<OwnedSemaphorePermit> {
    let free = places.clone().try_acquire_owned();
    let waited = async {
        let patience = left_ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        let place = places.clone().acquire_owned();
        match patience {
            Some(patience) => timeout(patience.saturating_sub(ANSWER_TIME), place).await.ok()?.ok(),
            None => place.await.ok(),
        }
    };
    let place = match free {
        Ok(place) => Some(place),
        Err(_) => waited.await,
    };
    place.ok_or_else(|| {
        let text = "flow limit: as many calls as may be were served for as long as this one could wait";
        Failure::new(Code::TooManyRequests, text)
    })
}

/// The time a client gives a call, such as `3000m`, in milliseconds.
fn timeout_ms(text: &str) -> Option<i64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: i64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => number * 3_600_000,
        "M" => number * 60_000,
        "S" => number * 1000,
        "m" => number,
        "u" => number / 1000,
        "n" => number / 1_000_000,
        _ => return None,
    })
}

/// Converts the code of a response to the code of RocketMQ's gRPC library. For a request over the size limit,
/// tonic has `OUT_OF_RANGE`, and that library `RESOURCE_EXHAUSTED`.
pub fn answered(mut response: http::Response<Body>) -> http::Response<Body> {
    if let Some(status) = response.headers_mut().get_mut(GrpcStatus::GRPC_STATUS)
        && status.as_bytes() == OUT_OF_RANGE
    {
        *status = http::HeaderValue::from(GrpcCode::ResourceExhausted as i32);
    }
    response
}

/// Future response of a request.
pub type ResponseFuture = Pin<Box<dyn Future<Output = http::Response<Body>>>>;

/// Serves a request. The state of each method is in a box of its own size, and only the box has the request. The task
/// is copied several times, and a waiting call keeps the state in memory.
pub fn dispatch(origin: Origin, request: http::Request<Incoming>) -> ResponseFuture {
    let Some(method) = request.uri().path().strip_prefix(SERVICE) else {
        return match reflection::is_at(request.uri().path()) {
            true => Box::pin(reflection::serve(request)),
            false => unimplemented(),
        };
    };
    let origin = Origin { authority: request.uri().authority().cloned(), ..origin };
    if method == "Telemetry" {
        // The stream lasts as long as its client, so each of its commands is bounded.
        let mut grpc = origin.grpc().max_decoding_message_size(COMMAND_BYTES_MAX);
        return Box::pin(async move { grpc.streaming(Telemetry(origin), request).await });
    }
    let method = method.to_owned();
    let (mut parts, body) = request.into_parts();
    let (body, charged) = ChargedBody::new(body, &origin.proxy.memory);
    parts.extensions.insert(charged);
    let request = http::Request::from_parts(parts, body);
    match &*method {
        "QueryRoute" => Box::pin(unary(origin, request, calls::query_route)),
        "Heartbeat" => Box::pin(unary(origin, request, calls::heartbeat)),
        "SendMessage" => Box::pin(unary(origin, request, calls::send)),
        "QueryAssignment" => Box::pin(unary(origin, request, calls::query_assignment)),
        "AckMessage" => Box::pin(unary(origin, request, calls::ack)),
        "ForwardMessageToDeadLetterQueue" => Box::pin(unary(origin, request, calls::dead_letter)),
        "EndTransaction" => Box::pin(unary(origin, request, calls::end_transaction)),
        "NotifyClientTermination" => Box::pin(unary(origin, request, calls::terminate)),
        "ChangeInvisibleDuration" => Box::pin(unary(origin, request, calls::change_invisible)),
        "RecallMessage" => Box::pin(unary(origin, request, calls::recall)),
        "SyncLiteSubscription" => Box::pin(unary(origin, request, calls::sync_lite)),
        "ReceiveMessage" => {
            let mut grpc = origin.grpc();
            let (caller, request) = known::<ReceiveMessageRequest>(&origin, request);
            Box::pin(async move { grpc.streaming(Receive(Some(Box::new(caller))), request).await })
        }
        // Declared in the protocol, and not served by RocketMQ's proxy either: PullMessage, UpdateOffset, GetOffset, QueryOffset.
        _ => unimplemented(),
    }
}

/// The answer to a method that is not served.
fn unimplemented() -> ResponseFuture {
    Box::pin(async { GrpcStatus::unimplemented("").into_http() })
}

type Served<T> = Pin<Box<dyn Future<Output = Result<Response<T>, GrpcStatus>>>>;

/// Authenticates a request. If that fails, the body is not read and the handler gets an empty message.
fn known<M: Guarded>(
    origin: &Origin,
    request: http::Request<ChargedBody>,
) -> (Result<Call, Rejected>, http::Request<ChargedBody>) {
    match origin.authenticated::<M>(request.headers()) {
        Ok(call) => (Ok(call), request),
        Err(rejected) => (Err(rejected), request.map(ChargedBody::left_unread)),
    }
}

/// Call with a single request and a single response.
struct Unary<F> {
    places: Arc<Semaphore>,
    /// Caller, and the function that serves the call. The call takes both.
    serve: Option<(Result<Call, Rejected>, F)>,
}

impl<F, M, R, A> UnaryService<M> for Unary<F>
where
    F: FnOnce(Call, M) -> A + 'static,
    A: Future<Output = Result<R>>,
    M: Guarded + 'static,
    R: Refused,
{
    type Response = R;
    type Future = Served<R>;

    fn call(&mut self, request: Request<M>) -> Served<R> {
        let (places, serve) = (self.places.clone(), self.serve.take());
        Box::pin(async move {
            let served = async {
                let (caller, serve) = serve.ok_or_else(called_twice)?;
                // The bytes of the request are in memory until it is served.
                let (call, message, _charged) = opened(caller, request).await?;
                let _place = place(&places, call.left_ms).await?;
                serve(call, message).await
            };
            let response = served.await.unwrap_or_else(|failure| R::refused(failure.status()));
            Ok(Response::new(response))
        })
    }
}

async fn unary<F, M, R, A>(
    origin: Origin,
    request: http::Request<ChargedBody>,
    serve: F,
) -> http::Response<Body>
where
    F: FnOnce(Call, M) -> A + 'static,
    A: Future<Output = Result<R>>,
    M: Guarded + Message + Default + 'static,
    R: Message + Refused + 'static,
{
    let mut grpc = origin.grpc::<R, M>();
    let (caller, request) = known::<M>(&origin, request);
    grpc.unary(Unary { places: origin.places, serve: Some((caller, serve)) }, request).await
}

fn called_twice() -> Failure {
    Failure::new(Code::InternalError, "called twice")
}

/// ReceiveMessage of a caller. The call waits before its response begins, so that a cancelled call is dropped while
/// it waits. Tonic keeps this value for the whole call, so the caller is boxed. The request is read as a stream,
/// because `Grpc::server_streaming` would keep its read state, a KiB, for the whole call.
pub struct Receive(pub Option<Box<Result<Call, Rejected>>>);

impl StreamingService<ReceiveMessageRequest> for Receive {
    type Response = ReceiveMessageResponse;
    type ResponseStream = Delivery;
    type Future = Served<Self::ResponseStream>;

    fn call(&mut self, request: Request<Streaming<ReceiveMessageRequest>>) -> Self::Future {
        let caller = self.0.take().map_or_else(|| Err(called_twice().into()), |caller| *caller);
        let opening = Box::pin(async move {
            // A future for each outcome: a call that waits for messages keeps nothing of the other one.
            let served: Self::Future = match opened_now(caller, single(request).await?) {
                // The bytes of the request are in memory until messages are found.
                Ok((call, message, charged)) => {
                    let received = Box::pin(calls::receive(call, message));
                    Box::pin(async move {
                        let _charged = charged;
                        Ok(Response::new(received.await))
                    })
                }
                Err(rejected) => Box::pin(async move {
                    let failure = rejected.due().await;
                    Ok(Response::new(Delivery::of_status(failure.status(), None)))
                }),
            };
            Ok::<_, GrpcStatus>(served)
        });
        Box::pin(async move { opening.await?.await })
    }
}

/// Reads a request of one message to its end.
async fn single<M>(request: Request<Streaming<M>>) -> Result<Request<M>, GrpcStatus> {
    let (metadata, extensions, mut inbound) = request.into_parts();
    let message = inbound.message().await?;
    let message = message.ok_or_else(|| GrpcStatus::internal("Missing request message."))?;
    inbound.trailers().await?;
    Ok(Request::from_parts(metadata, extensions, message))
}

/// Telemetry stream, which lasts for the client's life. The response begins with the first command, like that of
/// RocketMQ's library. Clients take its head as a sign that the server has their settings, and receive at once.
pub struct Telemetry(pub Origin);

type Commanded = Result<Box<TelemetryCommand>, GrpcStatus>;

impl StreamingService<TelemetryCommand> for Telemetry {
    type Response = Box<TelemetryCommand>;
    type ResponseStream = Chain<Iter<option::IntoIter<Commanded>>, ReceiverStream<Commanded>>;
    type Future = Served<Self::ResponseStream>;

    fn call(&mut self, request: Request<Streaming<TelemetryCommand>>) -> Self::Future {
        let (writer, mut commands) = mpsc::channel(COMMANDS_MAX);
        let (metadata, _, inbound) = request.into_parts();
        // The metadata ends here: the stream lasts as long as its client.
        let caller = self.0.authenticated::<TelemetryCommand>(metadata.as_ref());
        match caller.and_then(|call| call.check().map(|()| call).map_err(Rejected::from)) {
            Ok(call) => drop(spawn_local(telemetry::serve(call, inbound, writer))),
            Err(rejected) => {
                let proxy = self.0.proxy.clone();
                spawn_local(async move {
                    if let Some(failure) = rejected.due_on(&writer, &proxy).await {
                        telemetry::refuse(&failure, &writer).await;
                    }
                    // The client may say something until the stream has ended.
                    drop(inbound);
                });
            }
        }
        Box::pin(async move {
            let first = commands.recv().await.transpose()?.map(Ok);
            Ok(Response::new(tokio_stream::iter(first).chain(ReceiverStream::new(commands))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_a_place_as_long_as_its_client() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let places = Arc::new(Semaphore::new(1));
            let first = place(&places, Some(0)).await.unwrap();
            let failure = place(&places, Some(0)).await.unwrap_err();
            assert_eq!((failure.code, &failure.message[..10]), (Code::TooManyRequests, "flow limit"));
            let waits = async { place(&places, None).await.map(drop) };
            let frees = async { drop(first) };
            assert!(tokio::join!(waits, frees).0.is_ok());
        });
    }

    #[test]
    fn deadlines_have_units() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(timeout_ms(text), expected, "{text}");
        check("3000m", Some(3000));
        check("2S", Some(2000));
        check("1H", Some(3_600_000));
        check("2500u", Some(2));
        for text in ["", "S", "xS", "1", "123456789S", "5x"] {
            check(text, None);
        }
    }
}
