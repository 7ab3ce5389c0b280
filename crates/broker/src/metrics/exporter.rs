//! Exporter: the port for Prometheus scrapes and for probes of liveness and readiness. It has two threads of its own,
//! because a scrape may wait for the disk, and probes must not.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::{Limits, Workers};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::export::{self, Destination};
use super::exposition::TEXT_FORMAT;
use super::parts::Parts;
use super::rocketmq_exporter;
use super::scrape::scrape;
use crate::clock::{pause, within};
use crate::config::Exporter;
use crate::parts::{MetricsParts, Replication, Runtime};
use crate::role::BrokerRole;
use crate::supervisor::SupervisedWork;

/// Most concurrent connections. Further connections wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// Timeout of a client's request. Short, so that silent connections make room for probes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 1 });

/// Most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Timeout of the response, including a scrape that waits for the disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 10 });

/// Index of the worker that accepts connections, reads requests and answers probes.
const FRONT: usize = 0;

/// Index of the worker that makes the pages of metrics, a page at a time.
const SCRAPES: usize = 1;

/// Pause after a connection could not be accepted, for example because of a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Content type of the pages for liveness and readiness.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Serves metrics until it is dropped.
pub(crate) struct MetricsExporter {
    workers: Workers,
    #[cfg(test)]
    address: std::net::SocketAddr,
}

impl MetricsExporter {
    /// Binds the port and starts the threads; `None` when the settings want no metrics.
    ///
    /// # Errors
    /// The host does not resolve, the port cannot be bound, or a thread cannot be started.
    pub(crate) fn start(state: &Arc<MetricsParts>) -> io::Result<Option<Self>> {
        let settings = &state.runtime.config.metrics;
        match settings.exporter {
            Exporter::Disable => return Ok(None),
            Exporter::OtlpGrpc if settings.otlp_target.is_empty() => {
                // As in Java (`BrokerMetricsManager.checkConfig`).
                tracing::error!(
                    "metrics are not exported: metricsExporterType is OTLP_GRPC, and metricsGrpcExporterTarget is not set"
                );
                return Ok(None);
            }
            Exporter::OtlpGrpc => return Self::exports(state, Destination::Collector).map(Some),
            Exporter::Log => return Self::exports(state, Destination::Log).map(Some),
            Exporter::Prom => {}
        }
        let listener = match settings.host.as_str() {
            "" if state.runtime.config.refusal_of_others.is_some() => {
                StdListener::bind((Ipv4Addr::LOCALHOST, settings.port))
            }
            "" if !state.runtime.config.bind_address.is_unspecified() => {
                StdListener::bind((state.runtime.config.bind_address, settings.port))
            }
            "" => StdListener::bind((state.identity.store_host.ip(), settings.port)),
            host => StdListener::bind((host, settings.port)),
        }?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let workers = Workers::start("metrics", 2, Limits::default())?;
        let (state, tasks) = (state.clone(), workers.clone());
        workers.spawn(FRONT, move || async move {
            let supervisor = state.runtime.supervisor.clone();
            supervisor.task(SupervisedWork::Metrics, "metrics", accept(state, listener, tasks)).await;
        })?;
        tracing::info!(%address, "metrics are served");
        Ok(Some(Self {
            workers,
            #[cfg(test)]
            address,
        }))
    }
}

impl MetricsExporter {
    /// Starts the thread that exports by itself.
    fn exports(state: &Arc<MetricsParts>, destination: Destination) -> io::Result<Self> {
        let workers = Workers::start("metrics", 1, Limits::default())?;
        let state = state.clone();
        workers.spawn(FRONT, move || async move {
            let supervisor = state.runtime.supervisor.clone();
            supervisor.task(SupervisedWork::Metrics, "metrics", export::run(state, destination)).await;
        })?;
        Ok(Self {
            workers,
            #[cfg(test)]
            address: (Ipv4Addr::UNSPECIFIED, 0).into(),
        })
    }
}

impl Drop for MetricsExporter {
    fn drop(&mut self) {
        self.workers.shutdown();
    }
}

/// Accepts connections, and serves each in a task of its own.
async fn accept(state: Arc<MetricsParts>, listener: StdListener, tasks: Workers) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the port of metrics cannot be used"),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = places.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics cannot be accepted");
                pause(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (state, workers) = (state.clone(), tasks.clone());
        let task = move || async move {
            if net::caught(serve(&state, &workers, stream)).await.is_err() {
                tracing::error!("a request for metrics panicked");
            }
            drop(place);
        };
        if tasks.spawn(FRONT, task).is_err() {
            // The broker stops.
            return;
        }
    }
}

/// Answers a request. The connection is closed after it.
async fn serve(state: &Arc<MetricsParts>, workers: &Workers, stream: TcpStream) {
    let service = service_fn(async |request| Ok::<_, Infallible>(respond(state, workers, &request)));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    // A client may close its half of the connection after the request.
    let served = server.keep_alive(false).half_close(true).serve_connection(TokioIo::new(stream), service);
    // The client is gone, or its request is not HTTP.
    let _ = within(REQUEST_TIMEOUT + ANSWER_TIMEOUT, served).await;
}

type Answer = Response<Either<Full<Bytes>, Parts>>;

/// Finds the response to a request.
fn respond(state: &Arc<MetricsParts>, workers: &Workers, request: &Request<Incoming>) -> Answer {
    let is_head = request.method() == Method::HEAD;
    if !is_head && request.method() != Method::GET {
        return refusal(StatusCode::METHOD_NOT_ALLOWED);
    }
    let make: MakePage = match request.uri().path() {
        "/metrics" => scrape,
        "/metrics/exporter" => rocketmq_exporter::scrape,
        "/healthz" => return probe_answer(unhealthy_reason(&state.tables.store, &state.runtime)),
        "/readyz" => {
            return probe_answer(
                unhealthy_reason(&state.tables.store, &state.runtime)
                    .or_else(|| not_ready_reason(&state.replication, &state.runtime)),
            );
        }
        _ => return refusal(StatusCode::NOT_FOUND),
    };
    let page = if is_head { Either::Left(Full::default()) } else { metrics(state.clone(), workers, make) };
    answer(StatusCode::OK, TEXT_FORMAT, page)
}

/// Makes a page of metrics. Its first parts are sent while later parts are made.
type MakePage = fn(&MetricsParts, Option<mpsc::UnboundedSender<String>>) -> String;

/// Returns a page of metrics, which is made on the worker of scrapes.
fn metrics(state: Arc<MetricsParts>, workers: &Workers, make: MakePage) -> Either<Full<Bytes>, Parts> {
    let (sender, parts) = mpsc::unbounded_channel();
    let (rest, made) = oneshot::channel();
    let task = move || async move {
        // A client that gave up waiting gets no scrape.
        if !rest.is_closed() {
            let _gone = rest.send(make(&state, Some(sender)));
        }
    };
    // If the broker stops, the page fails because the task is dropped.
    let _stops = workers.spawn(SCRAPES, task);
    Either::Right(Parts::new(parts, made))
}

fn answer(status: StatusCode, content_type: &'static str, page: Either<Full<Bytes>, Parts>) -> Answer {
    let mut answer = Response::new(page);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

fn plain(status: StatusCode, text: String) -> Answer {
    answer(status, PLAIN, Either::Left(Full::from(text)))
}

fn refusal(status: StatusCode) -> Answer {
    plain(status, status.to_string())
}

fn probe_answer(reason: Option<String>) -> Answer {
    match reason {
        None => plain(StatusCode::OK, "ok\n".to_owned()),
        Some(reason) => plain(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
    }
}

/// Returns the reason why only a restart helps the broker, or `None` if the broker is healthy.
fn unhealthy_reason(store: &store::Store, runtime: &Runtime) -> Option<String> {
    if let Some(reason) = store.fenced() {
        return Some(format!("the store takes no more messages: {reason}"));
    }
    let mut stopped = runtime.supervisor.names();
    stopped.extend(store.stopped_threads().into_iter().map(str::to_owned));
    (!stopped.is_empty()).then(|| format!("threads have stopped: {}", stopped.join(", ")))
}

/// Returns the reason why the broker serves no clients now, or `None` if it serves.
fn not_ready_reason(replication: &Replication, runtime: &Runtime) -> Option<String> {
    if runtime.draining.load(std::sync::atomic::Ordering::Relaxed) {
        return Some("the broker stops".to_owned());
    }
    let reason = if runtime.config.is_controlled() {
        "the controllers have not said whether this broker is master"
    } else {
        "this broker waits until it has what the others of its group have (enableSlaveActingMaster)"
    };
    (replication.role.current() == BrokerRole::Fenced).then(|| reason.to_owned())
}

#[cfg(test)]
mod tests;
