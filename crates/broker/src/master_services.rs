//! What only a master does: it delivers delayed and timed messages, brings popped messages back and asks about undecided
//! transactions. All of it appends. A broker that the controllers make master starts this while it runs, and ends it when it is
//! deposed.

use std::io;
use std::sync::Arc;

use store::OpenError;
use store::timer::TimerFiles;

use crate::broker::Broker;
use crate::pop::revive::Reviver;
use crate::position_writer::PositionWriter;
use crate::refusal::PutError;
use crate::schedule::DelayLevels;
use crate::shell::{EngineThreads, Post};
use crate::supervisor::SupervisedWork;
use crate::timer::fetch::Fetch;
use crate::timer::scheduler::Scheduler;
use crate::transaction;

/// Why a broker cannot do a master's work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MasterServicesError {
    #[error("the state of transactions cannot be read: {0}")]
    Transactions(#[from] PutError),
    #[error("the files of timed messages cannot be opened: {0}")]
    Timer(#[from] OpenError),
    #[error("the delivery of delayed messages cannot be started: {0}")]
    Threads(#[from] io::Error),
}

/// The timer's files, unless there is no timer.
///
/// # Errors
/// The files cannot be opened or made.
pub(crate) fn open_timer(broker: &Broker) -> Result<Option<TimerFiles>, OpenError> {
    let config = &broker.config;
    let files = config.timers.files(&config.store, config.retention.reserved_ms);
    config.timers.enabled.then(|| TimerFiles::open(files, broker.files.disk().clone())).transpose()
}

/// Reads what undecided transactions there are, which the log and the offsets say.
///
/// # Errors
/// [`MasterServicesError::Transactions`].
pub(crate) fn load(broker: &Broker) -> Result<(), MasterServicesError> {
    Ok(transaction::load(broker)?)
}

/// Starts the threads of a master. The checks of transactions are a task, which does nothing on a slave.
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
    let levels = DelayLevels::new(broker.clone(), position_writer.clone());
    threads.start(post(Delay, "delay"), broker.schedule.wakeup(), move || Ok(levels))?;
    let Some(files) = timers else { return Ok(()) };
    // The fetch engine is stopped before the timer, which takes its last results.
    let (fetch, fetcher) = Fetch::new(broker.clone(), files.log().clone());
    threads.start(post(Timer, "timer-fetch"), fetch.wakeup(), move || Ok(fetcher))?;
    let of_timer = broker.clone();
    let timer = move || Scheduler::new(of_timer, files, fetch, position_writer);
    threads.start(post(Timer, "timer"), broker.timer.wakeup(), timer)?;
    let of_reviver = broker.clone();
    let reviver = move || Ok(Reviver::new(of_reviver));
    threads.start(post(Revive, "pop-revive"), broker.pops.reviver_wakeup(), reviver)
}

/// Forgets what a master knows that is not in the log: the pops in flight, which come back from the log's checkpoints.
pub(crate) fn forget(broker: &Broker) {
    broker.pops.forget_all();
}
