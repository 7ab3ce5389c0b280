//! Services of a master: delivery of delayed and timed messages, revival of popped messages, and check-backs of
//! undecided transactions. All of them append. A broker starts them when the controllers make it master, and ends
//! them when it is deposed.

use std::io;
use std::sync::Arc;

use store::OpenError;
use store::timer::TimerFiles;

use crate::broker::Broker;
use crate::engine::{Engine, Next};
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
    broker: Arc<Broker>,
    engine: E,
}

impl<E: Engine> Engine for WhileMaster<E> {
    fn round(&mut self, now_ms: i64) -> Next {
        if self.broker.replication.role.is_slave() { Next::Woken } else { self.engine.round(now_ms) }
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
pub(crate) fn open_timer(broker: &Broker) -> Result<Option<TimerFiles>, OpenError> {
    let _nobody_notes = broker.delivery.delivery_notes.lock();
    let config = &broker.runtime.config;
    let files = config.timers.files(&config.store, config.retention.reserved_ms);
    config.timers.enabled.then(|| TimerFiles::open(files, broker.tables.files.disk().clone())).transpose()
}

/// Loads the undecided transactions from the log and the offsets.
///
/// # Errors
/// [`MasterServicesError::Transactions`].
pub(crate) fn load(broker: &Broker) -> Result<(), MasterServicesError> {
    Ok(transaction::load(broker)?)
}

/// Starts the threads of a master. Check-backs of transactions are a task, which does nothing on a slave.
///
/// # Errors
/// The error of the operating system when a thread cannot be started.
pub(crate) fn start(
    threads: &mut EngineThreads,
    broker: &Arc<Broker>,
    timers: Option<TimerFiles>,
) -> io::Result<()> {
    use SupervisedWork::{Delay, Positions, Revive, Timer};
    let (position_writer, writes) = PositionWriter::new();
    let post = |work, name| Post { work, name };
    threads.start(post(Positions, "position-writer"), position_writer.wakeup(), move || Ok(writes))?;
    let levels = WhileMaster {
        broker: broker.clone(),
        engine: DelayLevels::new(broker.clone(), position_writer.clone()),
    };
    threads.start(post(Delay, "delay"), broker.delivery.schedule.wakeup(), move || Ok(levels))?;
    let Some(files) = timers else { return Ok(()) };
    // The fetch engine is stopped before the timer, which takes its last results.
    let (fetch, fetcher) = Fetch::new(broker.clone(), files.log().clone());
    threads.start(post(Timer, "timer-fetch"), fetch.wakeup(), move || Ok(fetcher))?;
    let of_timer = broker.clone();
    let timer = move || -> io::Result<WhileMaster<Scheduler>> {
        let engine = Scheduler::new(of_timer.clone(), files, fetch, position_writer)?;
        Ok(WhileMaster { broker: of_timer, engine })
    };
    threads.start(post(Timer, "timer"), broker.delivery.timer.wakeup(), timer)?;
    let of_reviver = broker.clone();
    let reviver = move || Ok(WhileMaster { engine: Reviver::new(of_reviver.clone()), broker: of_reviver });
    threads.start(post(Revive, "pop-revive"), broker.delivery.pops.reviver_wakeup(), reviver)
}

/// Wakes the engines, because this broker is master from now on.
pub(crate) fn wake(broker: &Broker) {
    broker.delivery.schedule.wakeup().wake();
    broker.delivery.timer.wakeup().wake();
    broker.delivery.pops.reviver_wakeup().wake();
}

/// Drops the state of a master that is not in the log: the pops in flight, which return from the log's checkpoints,
/// and the timer's progress, which the new master sends.
pub(crate) fn forget(broker: &Broker) {
    broker.delivery.pops.forget_all();
    *broker.delivery.timer.checkpoint() = None;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn what_appends_rests_until_this_broker_is_master() {
        let fixture = Fixture::with(|config| config.replication.acting.is_enabled = true);
        let engine = |now_ms| Next::At(now_ms + 5);
        let mut engine = WhileMaster { broker: fixture.broker.clone(), engine };
        assert_eq!(engine.round(1), Next::Woken);
        fixture.broker.replication.role.lead();
        assert_eq!(engine.round(1), Next::At(6));
    }
}
