//! Services of a master: delivery of delayed and timed messages, revival of popped messages, and check-backs of
//! undecided transactions. All of them append. A broker starts them when the controllers make it master, and ends
//! them when it is deposed.

use std::io;
use std::sync::Arc;

use store::OpenError;
use store::timer::TimerFiles;

use crate::engine::{Engine, Next};
use crate::parts::{Delivery, DeliveryParts, Runtime, Tables};
use crate::pop::revive::Reviver;
use crate::position_writer::PositionWriter;
use crate::refusal::PutError;
use crate::schedule::DelayLevels;
use crate::shell::{EngineThreads, Post};
use crate::supervisor::SupervisedWork;
use crate::timer::fetch::Fetch;
use crate::timer::scheduler::Scheduler;
use crate::transaction;

/// Errors of starting a master's services.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MasterServicesError {
    #[error("the state of transactions cannot be read: {0}")]
    Transactions(#[from] PutError),
    #[error("the files of timed messages cannot be opened: {0}")]
    Timer(#[from] OpenError),
    #[error("the delivery of delayed messages cannot be started: {0}")]
    Threads(#[from] io::Error),
}

/// Engine that appends, and rests while this broker is not master. In a group with acting masters, the engines exist
/// before the broker serves. [`wake`] ends the rest.
struct WhileMaster<E> {
    parts: Arc<DeliveryParts>,
    engine: E,
}

impl<E: Engine> Engine for WhileMaster<E> {
    fn round(&mut self, now_ms: i64) -> Next {
        if self.parts.replication.role.is_slave() { Next::Woken } else { self.engine.round(now_ms) }
    }

    fn stop(&mut self) {
        self.engine.stop();
    }
}

/// Opens the timer's files, or returns `None` without a timer. A former slave must have cleared its master's address
/// before, so that no task writes that master's positions to the files.
///
/// # Errors
/// The files cannot be opened or made.
pub(crate) fn open_timer(
    tables: &Tables,
    delivery: &Delivery,
    runtime: &Runtime,
) -> Result<Option<TimerFiles>, OpenError> {
    let _nobody_notes = delivery.delivery_notes.lock();
    let config = &runtime.config;
    let files = config.timers.files(&config.store, config.retention.reserved_ms);
    config.timers.enabled.then(|| TimerFiles::open(files, tables.files.disk().clone())).transpose()
}

/// Loads the undecided transactions from the log and the offsets.
///
/// # Errors
/// [`MasterServicesError::Transactions`].
pub(crate) fn load(parts: &DeliveryParts) -> Result<(), MasterServicesError> {
    Ok(transaction::load(parts)?)
}

/// Starts the threads of a master. Check-backs of transactions are a task, which does nothing on a slave.
///
/// # Errors
/// The error of the operating system when a thread cannot be started.
pub(crate) fn start(
    threads: &mut EngineThreads,
    parts: &Arc<DeliveryParts>,
    timers: Option<TimerFiles>,
) -> io::Result<()> {
    use SupervisedWork::{Delay, Positions, Revive, Timer};
    let (position_writer, writes) = PositionWriter::new();
    let post = |work, name| Post { work, name };
    threads.start(post(Positions, "position-writer"), position_writer.wakeup(), move || Ok(writes))?;
    let levels = WhileMaster {
        parts: parts.clone(),
        engine: DelayLevels::new(parts.clone(), position_writer.clone()),
    };
    threads.start(post(Delay, "delay"), parts.delivery.schedule.wakeup(), move || Ok(levels))?;
    let Some(files) = timers else { return Ok(()) };
    // The fetch engine is stopped before the timer, which takes its last results.
    let (fetch, fetcher) = Fetch::new(parts.clone(), files.log().clone());
    threads.start(post(Timer, "timer-fetch"), fetch.wakeup(), move || Ok(fetcher))?;
    let of_timer = parts.clone();
    let timer = move || -> io::Result<WhileMaster<Scheduler>> {
        let engine = Scheduler::new(of_timer.clone(), files, fetch, position_writer)?;
        Ok(WhileMaster { parts: of_timer, engine })
    };
    threads.start(post(Timer, "timer"), parts.delivery.timer.wakeup(), timer)?;
    let of_reviver = parts.clone();
    let reviver =
        move || Ok(WhileMaster { engine: Reviver::new(of_reviver.pops.clone()), parts: of_reviver });
    threads.start(post(Revive, "pop-revive"), parts.delivery.pops.reviver_wakeup(), reviver)
}

/// Wakes the engines, because this broker is master from now on.
pub(crate) fn wake(delivery: &Delivery) {
    delivery.schedule.wakeup().wake();
    delivery.timer.wakeup().wake();
    delivery.pops.reviver_wakeup().wake();
    delivery.tables.lite.wakeup().wake();
}

/// Drops the state of a master that is not in the log: the pops in flight, which return from the log's checkpoints,
/// and the timer's progress, which the new master sends.
pub(crate) fn forget(delivery: &Delivery) {
    delivery.pops.forget_all();
    *delivery.timer.checkpoint() = None;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn what_appends_rests_until_this_broker_is_master() {
        let fixture = Fixture::with(|config| config.replication.acting.is_enabled = true);
        let engine = |now_ms| Next::At(now_ms + 5);
        let mut engine = WhileMaster { parts: fixture.broker.engines.clone(), engine };
        assert_eq!(engine.round(1), Next::Woken);
        fixture.broker.replication.role.lead();
        assert_eq!(engine.round(1), Next::At(6));
    }
}
