//! Exporter: the port for Prometheus scrapes and for probes of liveness and readiness. It has two threads of its own,
//! because a scrape may wait for the disk, and probes must not.

use std::io;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use net::{Limits, Workers};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::export::{self, Destination};
use super::exposition::CONTENT_TYPE;
use super::http::{self, HEAD_BYTES_MAX, Page, Request, Status};
use super::rocketmq_exporter;
use super::scrape::scrape;
use crate::broker::Broker;
use crate::clock::{pause, within};
use crate::config::Exporter;
use crate::role::BrokerRole;
use crate::supervisor::SupervisedWork;

/// Most concurrent connections. Further connections wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// Timeout of a client's request. Short, so that silent connections free their places for probes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 1 });

/// Timeout of the response, including a scrape that waits for the disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 10 });

/// Index of the worker that accepts connections, reads requests and answers probes.
const FRONT: usize = 0;

/// Index of the worker that makes the pages of metrics, a page at a time.
const SCRAPES: usize = 1;

/// Pause after a connection could not be accepted, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Content type of the pages that tell whether the broker lives and serves.
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
    pub(crate) fn start(broker: &Arc<Broker>) -> io::Result<Option<Self>> {
        let settings = &broker.runtime.config.metrics;
        match settings.exporter {
            Exporter::Disable => return Ok(None),
            Exporter::OtlpGrpc if settings.otlp_target.is_empty() => {
                // As in Java (`BrokerMetricsManager.checkConfig`).
                tracing::error!(
                    "metrics are not exported: metricsExporterType is OTLP_GRPC, and metricsGrpcExporterTarget is not set"
                );
                return Ok(None);
            }
            Exporter::OtlpGrpc => return Self::exports(broker, Destination::Collector).map(Some),
            Exporter::Log => return Self::exports(broker, Destination::Log).map(Some),
            Exporter::Prom => {}
        }
        let listener = match settings.host.as_str() {
            "" if broker.runtime.config.refusal_of_others.is_some() => {
                StdListener::bind((Ipv4Addr::LOCALHOST, settings.port))
            }
            "" if !broker.runtime.config.bind_address.is_unspecified() => {
                StdListener::bind((broker.runtime.config.bind_address, settings.port))
            }
            "" => StdListener::bind((broker.identity.store_host.ip(), settings.port)),
            host => StdListener::bind((host, settings.port)),
        }?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let workers = Workers::start("metrics", 2, Limits::default())?;
        let (broker, tasks) = (broker.clone(), workers.clone());
        workers.spawn(FRONT, move || async move {
            let supervisor = broker.runtime.supervisor.clone();
            supervisor.task(SupervisedWork::Metrics, "metrics", accept(broker, listener, tasks)).await;
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
    fn exports(broker: &Arc<Broker>, destination: Destination) -> io::Result<Self> {
        let workers = Workers::start("metrics", 1, Limits::default())?;
        let broker = broker.clone();
        workers.spawn(FRONT, move || async move {
            let supervisor = broker.runtime.supervisor.clone();
            supervisor.task(SupervisedWork::Metrics, "metrics", export::run(broker, destination)).await;
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
async fn accept(broker: Arc<Broker>, listener: StdListener, tasks: Workers) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the port of metrics cannot be used"),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = places.clone().acquire_owned().await {
        let mut stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics cannot be accepted");
                pause(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (broker, workers) = (broker.clone(), tasks.clone());
        let task = move || async move {
            if net::caught(serve(broker, &workers, &mut stream)).await.is_err() {
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
async fn serve(broker: Arc<Broker>, workers: &Workers, stream: &mut TcpStream) -> io::Result<()> {
    let Some(head) = within(REQUEST_TIMEOUT, read_head(stream)).await.transpose()? else { return Ok(()) };
    let answered = async {
        let request = http::parse(&head);
        let (status, page) = match request {
            Ok(request) => match request.page {
                Page::Metrics => return metrics(broker, workers, request, scrape, stream).await,
                Page::ExporterMetrics => {
                    return metrics(broker, workers, request, rocketmq_exporter::scrape, stream).await;
                }
                Page::Health => probe_answer(unhealthy_reason(&broker)),
                Page::Readiness => {
                    probe_answer(unhealthy_reason(&broker).or_else(|| not_ready_reason(&broker)))
                }
            },
            Err(status) => (status, status.reason().to_owned()),
        };
        let is_head = request.is_ok_and(|request| request.is_head);
        stream.write_all(&http::response(status, PLAIN, &page, is_head)).await?;
        stream.shutdown().await
    };
    within(ANSWER_TIMEOUT, answered).await.unwrap_or(Ok(()))
}

/// Makes a page of metrics. Its first parts are sent while later parts are made.
type MakePage = fn(&Broker, Option<mpsc::UnboundedSender<String>>) -> String;

/// Answers with a page of metrics.
async fn metrics(
    broker: Arc<Broker>,
    workers: &Workers,
    request: Request,
    make: MakePage,
    stream: &mut TcpStream,
) -> io::Result<()> {
    stream.write_all(&http::head_of_parts(CONTENT_TYPE, request.reads_chunks)).await?;
    if request.is_head {
        return stream.shutdown().await;
    }
    let (sender, mut parts) = mpsc::unbounded_channel();
    let (rest, made) = oneshot::channel();
    let task = move || async move {
        // A client that gave up waiting gets no scrape.
        if !rest.is_closed() {
            let _gone = rest.send(make(&broker, Some(sender)));
        }
    };
    if workers.spawn(SCRAPES, task).is_err() {
        // The broker stops.
        return Ok(());
    }
    let framed = |part: String| if request.reads_chunks { http::chunk(&part) } else { part.into_bytes() };
    while let Some(part) = parts.recv().await {
        stream.write_all(&framed(part)).await?;
    }
    // Without a rest the page could not be made: it ends without its last chunk.
    let Ok(rest) = made.await else { return Ok(()) };
    stream.write_all(&framed(rest)).await?;
    if request.reads_chunks {
        stream.write_all(http::LAST_CHUNK).await?;
    }
    stream.shutdown().await
}

/// Reads the head of a request. Incomplete if the client sent less, or too much.
async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !http::is_whole(&head) && head.len() < HEAD_BYTES_MAX {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(head)
}

fn probe_answer(reason: Option<String>) -> (Status, String) {
    match reason {
        None => (Status::Ok, "ok\n".to_owned()),
        Some(reason) => (Status::Unavailable, reason + "\n"),
    }
}

/// Returns the reason why only a restart helps the broker, or `None` if the broker is healthy.
fn unhealthy_reason(broker: &Broker) -> Option<String> {
    if let Some(reason) = broker.store.fenced() {
        return Some(format!("the store takes no more messages: {reason}"));
    }
    let mut stopped = broker.runtime.supervisor.names();
    stopped.extend(broker.store.stopped_threads().into_iter().map(str::to_owned));
    (!stopped.is_empty()).then(|| format!("threads have stopped: {}", stopped.join(", ")))
}

/// Returns the reason why the broker serves no clients now, or `None` if it serves.
fn not_ready_reason(broker: &Broker) -> Option<String> {
    if broker.runtime.draining.load(std::sync::atomic::Ordering::Relaxed) {
        return Some("the broker stops".to_owned());
    }
    let reason = if broker.runtime.config.is_controlled() {
        "the controllers have not said whether this broker is master"
    } else {
        "this broker waits until it has what the others of its group have (enableSlaveActingMaster)"
    };
    (broker.replication.role.current() == BrokerRole::Fenced).then(|| reason.to_owned())
}

#[cfg(test)]
mod tests;
