//! Port for slaves: accepts connections and greets them. With TLS the peer decides how long a greeting takes.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use net::{ReplicationTls, Stream};
use replica::transfer::PeerId;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use super::{SLAVES_MAX, first_of_most};

/// Pause after a failed accept, for example without a free file descriptor.
const ACCEPT_PAUSE: Duration =
    if cfg!(test) { Duration::from_secs(3_600) } else { Duration::from_millis(100) };

/// Longest wait for everything before the first frame of a slave. A slave of RocketMQ may be silent for `haSendHeartbeatInterval`.
const GREETING_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 20 });

/// The end of a greeting: the connection, and the address that counts as the slave's.
type Greeted = io::Result<(Stream, SocketAddr)>;

/// Listening port, and the connections that are being greeted. Their number is at most [`SLAVES_MAX`]. A further
/// connection replaces the oldest connection of the machine with the most connections.
pub(super) struct Greetings {
    listener: TcpListener,
    tls: ReplicationTls,
    tasks: JoinSet<Greeted>,
    /// Tasks by age, including some that have ended.
    greeted: BTreeMap<PeerId, (IpAddr, AbortHandle)>,
    last: u64,
    /// Time until which the port accepts no connections.
    accepts_from: Option<Instant>,
}

impl Greetings {
    pub(super) fn new(listener: TcpListener, tls: ReplicationTls) -> Self {
        let (tasks, greeted) = Default::default();
        Self { listener, tls, tasks, greeted, last: 0, accepts_from: None }
    }

    /// Returns the next greeted connection. Cancel-safe: a dropped call loses no connection.
    pub(super) async fn next(&mut self) -> (Stream, SocketAddr) {
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => {
                    if let Some(greeted) = end(ended) {
                        return greeted;
                    }
                }
                accepted = accept(&self.listener, self.accepts_from) => {
                    self.greet(accepted);
                    // A plain connection is greeted at once, and never in the way of another one.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn greet(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a slave could not be accepted");
                self.accepts_from = Some(Instant::now() + ACCEPT_PAUSE);
                return;
            }
        };
        self.accepts_from = None;
        self.greeted.retain(|_, (_, task)| !task.is_finished());
        if self.greeted.len() >= SLAVES_MAX {
            let machines = self.greeted.iter().map(|(id, (machine, _))| (*id, *machine));
            let oldest = first_of_most(machines).and_then(|id| self.greeted.remove(&id));
            oldest.inspect(|(_, task)| task.abort());
        }
        let _ = stream.set_nodelay(true);
        let tls = self.tls.clone();
        let task = self.tasks.spawn(async move { tls.accept(stream, GREETING_TIMEOUT).await });
        self.last += 1;
        self.greeted.insert(PeerId(self.last), (remote.ip(), task));
    }
}

/// Returns the connection of a successful greeting, or `None` after a failure.
fn end(ended: Result<Greeted, JoinError>) -> Option<(Stream, SocketAddr)> {
    // A task that was aborted made room for another connection.
    let greeted = ended.ok()?;
    let log =
        |error: &io::Error| tracing::warn!(%error, "a slave could not be greeted (tls.replication.mode)");
    greeted.inspect_err(log).ok()
}

/// The next connection, and none before `from`.
async fn accept(listener: &TcpListener, from: Option<Instant>) -> io::Result<(TcpStream, SocketAddr)> {
    if let Some(from) = from {
        tokio::time::sleep_until(from).await;
    }
    listener.accept().await
}
