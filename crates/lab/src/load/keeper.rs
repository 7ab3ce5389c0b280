//! Keeps the connection of a producer ([`super::Connection`]) open until its work is done.

use super::{Connection, Destination, Work};
use net::{ConnectionHandle, Workers};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// Interval between two checks for requests without an answer and for places whose rest is over.
const TICK: Duration = Duration::from_millis(if cfg!(test) { 1_000 } else { 20 });

/// Interval between two checks for a free place while requests are overdue.
const OVERDUE: Duration = Duration::from_micros(20);

/// Interval between two attempts to connect.
const RETRY: Duration = Duration::from_millis(200);

/// Interval between two attempts to connect to a master that may be another broker meanwhile, and between two checks
/// whether it is.
const RETRY_MASTER: Duration = Duration::from_millis(50);

/// Opens the connection on worker `worker`, and again whenever it ends, until its work is done.
///
/// # Errors
/// The error of the workers, when these have stopped.
pub async fn keep_connected<W: Work>(
    workers: &Workers,
    worker: usize,
    mut to: Destination,
    connection: Arc<Connection<W>>,
) -> io::Result<()> {
    let retry = if to.may_change() { RETRY_MASTER } else { RETRY };
    while !connection.is_done() {
        match workers.dial_on(worker, to.address(), connection.clone()).await {
            Ok(peer) => {
                let (clocked, link) = (connection.clone(), peer.clone());
                workers.spawn(worker, move || tick(clocked, link))?;
                if to.may_change() {
                    follow(&connection, &peer, &mut to).await;
                }
                while !connection.is_done() && !peer.is_closed() {
                    connection.changed().await;
                }
                peer.close();
            }
            // What is due is sent to the next master.
            Err(_) if to.may_change() => {}
            Err(_) => connection.unreachable(),
        }
        if !connection.is_done() {
            tokio::time::sleep(retry).await;
            to.look().await;
        }
    }
    Ok(())
}

/// Waits until a connection ended or its work is done. Ends it when the master is another broker: looked for after
/// every refused or unanswered request, and from time to time.
async fn follow<W: Work>(connection: &Connection<W>, peer: &ConnectionHandle, to: &mut Destination) {
    let mut checks = 0;
    while !connection.is_done() && !peer.is_closed() {
        // Most of the time nothing changed, and the checks below say so.
        let _ = tokio::time::timeout(RETRY_MASTER, connection.changed()).await;
        checks += 1;
        let is_due = RETRY_MASTER * checks >= to.poll();
        if !connection.is_in_doubt() && !is_due {
            continue;
        }
        checks = 0;
        if to.look().await {
            // Requests in flight to the broker that is no master any more count as unanswered.
            peer.abort();
        }
    }
}

async fn tick<W: Work>(connection: Arc<Connection<W>>, peer: Arc<ConnectionHandle>) {
    let alarm = Alarm::of(&connection);
    while !peer.is_closed() && !connection.is_done() {
        pause(&connection, alarm.as_ref()).await;
        connection.tick(&peer);
    }
}

/// Waits until a request of an open loop is due, at most until the next check of what depends on time alone.
pub(crate) async fn pause<W: Work>(connection: &Connection<W>, alarm: Option<&Alarm>) {
    match (alarm, connection.due_ns()) {
        (Some(alarm), Some(due_ns)) => {
            let wait = Duration::from_nanos(due_ns.saturating_sub(connection.clock().now_ns()));
            // An overdue request waits for a free place. If the timer fails, the pause falls back to the coarser
            // `TICK`.
            if alarm.wait(wait.clamp(OVERDUE, TICK)).await.is_err() {
                tokio::time::sleep(TICK).await;
            }
        }
        _ => connection.rest(TICK).await,
    }
}

/// A kernel timer (timerfd). The timers of the async runtime have a resolution of a whole millisecond.
pub(crate) struct Alarm {
    timer: AsyncFd<OwnedFd>,
}

impl Alarm {
    /// The timer of a connection in an open loop; a closed loop needs none.
    pub fn of<W: Work>(connection: &Connection<W>) -> Option<Self> {
        if connection.is_paced() { Self::new().ok() } else { None }
    }

    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "deprecated for file descriptors that can close early; an OwnedFd cannot, and the successor is unsafe"
        )]
        let timer = AsyncFd::new(timer)?;
        Ok(Self { timer })
    }

    /// Waits for `time`. It must not be zero, because that would disarm the timer.
    async fn wait(&self, time: Duration) -> io::Result<()> {
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: time.subsec_nanos().into(),
            },
        };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.timer.readable().await?;
            let mut count = [0; 8];
            match ready.try_io(|timer| Ok(rustix::io::read(timer, &mut count)?)) {
                // The next wait asks the system again, so other tasks can run in between.
                Ok(read) => {
                    ready.clear_ready();
                    return read.map(|_| ());
                }
                Err(_not_yet) => {}
            }
        }
    }
}
