//! The limit server of gRPC: requests of RocketMQ's protocol are decoded and answered, with tonic on hyper as the proxy has
//! them, and nothing is stored. Besides sends it answers what a load tool asks before: routes, settings and heartbeats.

use grpc::ProstCodec;
use grpc::messages::{
    Broker, HeartbeatRequest, HeartbeatResponse, MessageQueue, MessageType, Permission, QueryRouteRequest,
    QueryRouteResponse, SendMessageRequest, SendMessageResponse, SendResultEntry, Status, TelemetryCommand,
};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::TcpStream;
use std::pin::Pin;
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::server::{Grpc, StreamingService, UnaryService};

/// The path of the service.
const SERVICE: &str = "/apache.rocketmq.v2.MessagingService/";

/// Bytes of a request that may be on the way before the server reads them, as the proxy has it.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// Window for all requests of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Serves one connection until the other side closes it.
pub(super) fn serve(stream: TcpStream, queues: u32) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream)?);
        let service =
            service_fn(move |request| async move { Ok::<_, Infallible>(answered(request, queues).await) });
        http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .serve_connection(stream, service)
            .await
            .map_err(io::Error::other)
    })
}

/// Answers the calls of a producer: sends with a receipt for each message, routes, heartbeats and telemetry.
async fn answered(request: Request<Incoming>, queues: u32) -> Response<Body> {
    match request.uri().path().strip_prefix(SERVICE) {
        Some("SendMessage") => unary(request, sent).await,
        Some("QueryRoute") => unary(request, move |asked| route(asked, queues)).await,
        Some("Heartbeat") => {
            let answer = |_: HeartbeatRequest| HeartbeatResponse { status: Some(Status::ok()) };
            unary(request, answer).await
        }
        Some("Telemetry") => Grpc::new(ProstCodec::default()).streaming(Telemetry, request).await,
        _ => tonic::Status::unimplemented("").into_http(),
    }
}

fn sent(request: SendMessageRequest) -> SendMessageResponse {
    let entries = request.messages.into_iter().map(|message| SendResultEntry {
        status: Some(Status::ok()),
        message_id: message.system_properties.map(|system| system.message_id).unwrap_or_default(),
        offset: 12_345,
        ..SendResultEntry::default()
    });
    SendMessageResponse { status: Some(Status::ok()), entries: entries.collect() }
}

/// The route of any topic: so many queues on one broker, which has no address because no client asks for the address.
fn route(request: QueryRouteRequest, queues: u32) -> QueryRouteResponse {
    let queue = |id| MessageQueue {
        topic: request.topic.clone(),
        id,
        permission: Permission::ReadWrite.into(),
        broker: Some(Broker { name: "echo".to_owned(), ..Broker::default() }),
        accept_message_types: vec![MessageType::Normal.into()],
    };
    let message_queues = (0..i32::try_from(queues).unwrap_or(i32::MAX)).map(queue).collect();
    QueryRouteResponse { status: Some(Status::ok()), message_queues }
}

/// A call with one request, and its response.
struct Unary<F>(F);

impl<M, R, F: FnMut(M) -> R> UnaryService<M> for Unary<F> {
    type Response = R;
    type Future = Ready<Result<tonic::Response<R>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<M>) -> Self::Future {
        ready(Ok(tonic::Response::new((self.0)(request.into_inner()))))
    }
}

async fn unary<M, R>(request: Request<Incoming>, answer: impl FnMut(M) -> R) -> Response<Body>
where
    M: Message + Default + 'static,
    R: Message + 'static,
{
    Grpc::new(ProstCodec::<R, M>::default()).unary(Unary(answer), request).await
}

/// The telemetry stream of a client: every command comes back unchanged with status OK, so all settings are accepted.
struct Telemetry;

impl StreamingService<TelemetryCommand> for Telemetry {
    type Response = TelemetryCommand;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<TelemetryCommand, tonic::Status>> + Send>>;
    type Future = Ready<Result<tonic::Response<Self::ResponseStream>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<tonic::Streaming<TelemetryCommand>>) -> Self::Future {
        let command = request.into_inner();
        let answers = command
            .map(|command| command.map(|command| TelemetryCommand { status: Some(Status::ok()), ..command }));
        let answers: Self::ResponseStream = Box::pin(answers);
        ready(Ok(tonic::Response::new(answers)))
    }
}
