//! Delivery progress of the master's delayed and timed messages. A slave saves it and continues there if it becomes
//! master.
//!
//! The master moves a position when the copy of a message is in its log. If a slave saved the position and lost its
//! master before it had the copy, it would never deliver that message. So after it got the positions it asks for the
//! end of the master's log, and saves the positions when its own log is on disk up to that end.
//!
//! The end of a log that a new master does not have is cut off, possibly with copies. Then the positions become those
//! that the rest of the log proves ([`crate::state::DeliveryNotes`]).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use net::Workers;
use store::timer::{TimerCheck, TimerConfig};
use store::{FlushOutcome, WaitOutcome};
use tokio::sync::oneshot;
use wire::body::{DelayOffsetTable, HaRuntimeInfo, KvTable};
use wire::codes::{request, response};
use wire::units::LogOffset;

use super::master_link::{MasterLink, SyncError, note, run_rounds};
use crate::parts::{Delivery, GroupParts, Runtime, Tables};
use crate::state::DeliveryNote;

/// Pause between two questions: messages that the master delivered in between are delivered again by a slave that replaces it.
const INTERVAL: Duration = Duration::from_secs(1);

/// Pause after a master refused, or gave no answer.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Time for the own log to reach the end of the master's log, after which the positions are requested again.
const PATIENCE: Duration = Duration::from_secs(600);

/// Interval of probes to the master during the wait for its log. So its end is noticed, and the connection is not
/// closed as unused.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes of the checkpoint of timed messages (`TimerCheckpoint`).
const CHECKPOINT_BYTES: usize = 56;

/// Response of a master.
#[derive(Debug)]
struct Positions {
    delays: DelayOffsetTable,
    /// Progress of timed messages. `None` if the master serves no timed messages, or is too old to know them.
    timers: Option<TimerCheck>,
    /// End of the master's log at that time.
    end: LogOffset,
    /// Number of cuts of the own log before the request to the master.
    cuts: u64,
}

/// Copies the positions of the master repeatedly until the workers stop.
pub(super) async fn run(parts: Arc<GroupParts>, workers: Workers) {
    run_rounds(parts, workers, <()>::default, async |connected| {
        // The task that takes the tables logs a master that cannot be reached.
        let taken = match connected {
            Ok((link, ())) => link.take_positions().await,
            Err(_) => Ok(()),
        };
        let pause = if taken.is_ok() { INTERVAL } else { RETRY_PAUSE };
        note("positions of delayed and timed messages", taken);
        pause
    })
    .await;
}

impl MasterLink {
    /// Asks the master for its positions, and notes them once this broker has the copies before them.
    async fn take_positions(&self) -> Result<(), SyncError> {
        let GroupParts { tables, delivery, runtime, .. } = &*self.parts;
        // A log that is cut after it has reached the end may reach it again with something else.
        let cuts = delivery.delivery_notes.lock().cuts();
        let delays = self.ask(request::GET_ALL_DELAY_OFFSET).await?;
        let timers = self.timers().await?;
        match self.log_end().await? {
            Some(end) if self.has_copies(end).await? => {
                adopt(tables, delivery, runtime, &self.address, Positions { delays, timers, end, cuts })
            }
            _ => Ok(()),
        }
    }

    /// Whether this broker gets the log up to `end` from the master at the other end of the connection. A restarted
    /// master behind the same address may have lost bytes before `end`, and continue with other bytes. Only the
    /// master of the first request answers over this connection.
    async fn has_copies(&self, end: LogOffset) -> Result<bool, SyncError> {
        let mut reached = pin!(reaches(&self.parts.replication.store, end));
        let has_end = loop {
            tokio::select! {
                has_end = &mut reached => break has_end,
                () = tokio::time::sleep(PROBE_INTERVAL) => {
                    if self.log_end().await?.is_none() {
                        return Ok(false);
                    }
                }
            }
        };
        Ok(has_end && self.log_end().await?.is_some())
    }

    async fn timers(&self) -> Result<Option<TimerCheck>, SyncError> {
        match self.ask_bytes(request::GET_TIMER_CHECK_POINT).await {
            Ok(body) if body.len() >= CHECKPOINT_BYTES => Ok(Some(TimerCheck::from_bytes(&body))),
            Ok(_) | Err(SyncError::Refused(..)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the end of the master's log, or `None` if the other broker is no longer master. Versions 4 of RocketMQ
    /// report it among their figures only.
    async fn log_end(&self) -> Result<Option<LogOffset>, SyncError> {
        const FIELD: &str = "commitLogMaxOffset";
        let GroupParts { replication, runtime, .. } = &*self.parts;
        let asked_ms = runtime.now_ms();
        let end = match self.ask::<HaRuntimeInfo>(request::GET_BROKER_HA_STATUS).await {
            Ok(status) if !status.master => return Ok(None),
            Ok(status) => {
                if let Some(master_ms) = status.now_ms {
                    replication.replicas.upstream.note_clock(master_ms, asked_ms, runtime.now_ms());
                }
                Some(status.master_commit_log_max_offset)
            }
            Err(SyncError::Refused(response::REQUEST_CODE_NOT_SUPPORTED, _)) => {
                let figures: KvTable = self.ask(request::GET_BROKER_RUNTIME_INFO).await?;
                figures.table.get(FIELD).and_then(|text| text.parse().ok())
            }
            Err(error) => return Err(error),
        };
        end.and_then(LogOffset::from_i64).map(Some).ok_or(SyncError::Field(FIELD))
    }
}

/// Whether the own log reaches this end in time, and has it on disk. A position that outlives the copies before it
/// would skip messages for ever.
async fn reaches(store: &store::Store, end: LogOffset) -> bool {
    let (sender, outcome) = oneshot::channel();
    let done = move |outcome| {
        let _ = sender.send(matches!(outcome, WaitOutcome::Reached));
    };
    store.when_appended(end, PATIENCE, Box::new(done));
    outcome.await.unwrap_or(false) && is_flushed(store, end).await
}

/// Whether the own log comes to the disk in time, up to `end`.
async fn is_flushed(store: &store::Store, end: LogOffset) -> bool {
    let (sender, outcome) = oneshot::channel();
    store.when_flushed(end, Box::new(move |outcome| drop(sender.send(outcome))));
    matches!(outcome.await, Ok(FlushOutcome::Flushed))
}

fn adopt(
    tables: &Tables,
    delivery: &Delivery,
    runtime: &Runtime,
    address: &str,
    positions: Positions,
) -> Result<(), SyncError> {
    // Held while files are written: a broker that becomes master forgets its master's address, and then takes this lock before it
    // opens the timer's files. So nothing is written into files that are open. Only the threads of the role wait for this lock.
    let mut noted = delivery.delivery_notes.lock();
    let master = delivery.replication.replicas.master().borrow().broker.clone();
    if master.as_deref() != Some(address) || !delivery.replication.role.is_slave() {
        return Err(SyncError::Master);
    }
    if noted.cuts() != positions.cuts {
        return Ok(());
    }
    let delays = positions.delays.offset_table.clone();
    let note = DeliveryNote::new(positions.end, runtime.now_ms(), positions.timers, delays);
    delivery.delivery_notes.add(&mut noted, note)?;
    if let Some(check) = positions.timers {
        timer_config(runtime).note_master(&**tables.files.disk(), &check).map_err(SyncError::Timers)?;
    }
    Ok(delivery.schedule.adopt(positions.delays)?)
}

/// Lowers the positions durably to those that the log proves up to `to`. Runs before the log is cut there. Messages
/// whose copies are cut are delivered again. Without an earlier note, all messages in the log are delivered again.
///
/// # Errors
/// A file cannot be written: the log must not be cut.
pub(super) fn lower(
    tables: &Tables,
    delivery: &Delivery,
    runtime: &Runtime,
    to: LogOffset,
) -> Result<(), SyncError> {
    let mut noted = delivery.delivery_notes.lock();
    let proven = delivery.delivery_notes.cut(&mut noted, to)?;
    let check = proven.as_ref().and_then(DeliveryNote::timer_check);
    timer_config(runtime).note_cut(&**tables.files.disk(), check.as_ref()).map_err(SyncError::Timers)?;
    Ok(delivery.schedule.lower(&proven.unwrap_or_default().delays)?)
}

fn timer_config(runtime: &Runtime) -> TimerConfig {
    let config = &runtime.config;
    config.timers.files(&config.store, config.retention.reserved_ms)
}

#[cfg(test)]
mod tests {
    use net::ConnectionHandle;

    use super::*;
    use crate::config::Role;
    use crate::testing::Fixture;

    const MASTER: &str = "10.0.0.1:10911";

    fn slave() -> Fixture {
        let fixture = Fixture::with(|config| config.replication.role = Role::Slave);
        fixture.broker.replication.replicas.learn(Some(MASTER), Some("10.0.0.1:10912"));
        fixture.broker.store.start_following().unwrap();
        fixture
    }

    fn positions() -> Positions {
        let timers = TimerCheck { read_ms: 7000, master_queue_offset: 5, ..TimerCheck::default() };
        let offset_table = [(3, 9)].into();
        let delays = DelayOffsetTable { offset_table, ..Default::default() };
        Positions { delays, timers: Some(timers), end: LogOffset::ZERO, cuts: 0 }
    }

    #[tokio::test]
    async fn positions_wait_until_the_copies_before_them_are_there() {
        let (master, slave) = (Fixture::new(), slave());
        master.put("T", 0, &[7; 5000], b"");
        let (mut log, end) = (Vec::new(), master.broker.store.appended());
        let whole = usize::try_from(end.get()).unwrap();
        master.broker.store.read_log_blocking(LogOffset::ZERO, whole, &mut log).unwrap();
        let mut wait = Box::pin(reaches(&slave.broker.store, end));
        let follow = |at: usize, until: usize| {
            slave.broker.store.follow(LogOffset::new(at as u64), &log[at..until], &mut |_| {}).unwrap();
        };
        follow(0, whole - 1);
        let is_over = tokio::select! { biased; _ = &mut wait => true, () = async {} => false };
        assert!(!is_over, "the last byte is not there");
        follow(whole - 1, whole);
        assert!(wait.await);
        assert!(
            slave.broker.store.flushed() >= end,
            "a power cut may take the copies, and leave the positions"
        );
    }

    #[tokio::test]
    async fn positions_of_a_master_whose_connection_has_ended_are_not_noted() {
        let slave = slave();
        let peer = Arc::new(ConnectionHandle::detached(1, "10.0.0.1:10911".parse().unwrap()));
        let parts = slave.broker.group_parts();
        let link = MasterLink { parts, address: MASTER.to_owned(), peer };
        let end = slave.broker.store.appended();
        let ends = async {
            tokio::task::yield_now().await;
            link.peer.abort();
        };
        let (noted, ()) = tokio::join!(link.has_copies(end), ends);
        assert!(matches!(noted, Err(SyncError::Call(_))), "another one may be there: {noted:?}");
    }

    #[test]
    fn noting_positions_waits_for_the_opening_of_the_files_and_holds_up_no_one_else() {
        let slave = slave();
        let broker = &slave.broker;
        let opening = broker.delivery.delivery_notes.lock();
        std::thread::scope(|scope| {
            let (begin, begun) = std::sync::mpsc::channel();
            let adopting = scope.spawn(move || {
                begin.send(()).unwrap();
                adopt(&broker.tables, &broker.delivery, &broker.runtime, MASTER, positions())
            });
            begun.recv().unwrap();
            let learning = scope.spawn(|| broker.replication.replicas.learn(Some("10.0.0.2:10911"), None));
            crate::testing::until("another master is known", || learning.is_finished());
            assert!(!adopting.is_finished());
            drop(opening);
            assert!(adopting.join().unwrap().is_err(), "these are positions of the master before");
        });
        assert_eq!(broker.delivery.schedule.offset(3), 0);
    }

    #[test]
    fn positions_are_those_that_a_cut_log_proves() {
        let mut slave = slave();
        let adopt_at = |slave: &Fixture, end, number: i64| {
            let timers =
                TimerCheck { read_ms: number * 1000, master_queue_offset: number, ..TimerCheck::default() };
            let offset_table = [(3, number), (4, 2 * number)].into();
            let delays = DelayOffsetTable { offset_table, ..Default::default() };
            let cuts = slave.broker.delivery.delivery_notes.lock().cuts();
            adopt(
                &slave.broker.tables,
                &slave.broker.delivery,
                &slave.broker.runtime,
                MASTER,
                Positions { delays, timers: Some(timers), end: LogOffset::new(end), cuts },
            )
        };
        let positions = |slave: &Fixture| {
            let check =
                std::fs::read(slave.broker.runtime.config.store.root.join("config/timercheck")).unwrap();
            let check = TimerCheck::from_bytes(&check);
            let offset = |level| slave.broker.delivery.schedule.offset(level);
            (check.read_ms, check.master_queue_offset, offset(3), offset(4))
        };
        lower(&slave.broker.tables, &slave.broker.delivery, &slave.broker.runtime, LogOffset::ZERO).unwrap();
        assert!(!slave.broker.runtime.config.store.root.join("config/timercheck").exists());
        adopt_at(&slave, 100, 5).unwrap();
        adopt_at(&slave, 200, 7).unwrap();
        adopt_at(&slave, 300, 9).unwrap();
        lower(&slave.broker.tables, &slave.broker.delivery, &slave.broker.runtime, LogOffset::new(300))
            .unwrap();
        assert_eq!(positions(&slave), (9000, 9, 9, 18));
        lower(&slave.broker.tables, &slave.broker.delivery, &slave.broker.runtime, LogOffset::new(299))
            .unwrap();
        assert_eq!(positions(&slave), (5000, 5, 5, 10), "the note of 200 was replaced by that of 300");
        // A cut while the log was waited for.
        let old = Positions { cuts: 0, ..self::positions() };
        adopt(&slave.broker.tables, &slave.broker.delivery, &slave.broker.runtime, MASTER, old).unwrap();
        assert_eq!(positions(&slave), (5000, 5, 5, 10));
        lower(&slave.broker.tables, &slave.broker.delivery, &slave.broker.runtime, LogOffset::new(99))
            .unwrap();
        assert_eq!(positions(&slave), (5000, 0, 0, 0), "all is delivered again rather than lost");
        slave = slave.reopened();
        assert_eq!(positions(&slave), (5000, 0, 0, 0));
    }

    #[test]
    fn a_broker_that_lost_this_master_notes_nothing_of_it() {
        let slave = slave();
        let check = || std::fs::read(slave.broker.runtime.config.store.root.join("config/timercheck")).ok();
        assert!(
            adopt(
                &slave.broker.tables,
                &slave.broker.delivery,
                &slave.broker.runtime,
                "10.0.0.2:10911",
                positions()
            )
            .is_err()
        );
        assert_eq!((slave.broker.delivery.schedule.offset(3), check()), (0, None));
        adopt(&slave.broker.tables, &slave.broker.delivery, &slave.broker.runtime, MASTER, positions())
            .unwrap();
        let noted = TimerCheck::from_bytes(&check().unwrap());
        assert_eq!(
            (slave.broker.delivery.schedule.offset(3), noted.read_ms, noted.master_queue_offset),
            (9, 7000, 5)
        );
        slave.broker.replication.role.lead();
        assert!(
            adopt(&slave.broker.tables, &slave.broker.delivery, &slave.broker.runtime, MASTER, positions())
                .is_err(),
            "the timer's files are open"
        );
    }
}
