//! Runs the engines of the store: flush, checkpoints, preallocation, healing and key index. An engine has no thread
//! and does not sleep. `round(now)` does the due work and returns the time of the next round. Each engine gets a
//! thread of its own here. In simulations, [`Store::run_due`] runs all engines on the caller's thread under the
//! caller's clock.

use super::Store;
use super::parts::Parts;
use super::supervise::Importance;
use crate::checkpoint::{CheckpointState, JournalState};
use crate::config::Config;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::flusher::FlushState;
use crate::wake::{Next, Wake, lock};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Kind of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flush,
    Deadlines,
    Checkpoint,
    Journal,
    Preallocation,
    Healer,
    Index,
}

const KINDS: [Kind; 7] = [
    Kind::Flush,
    Kind::Deadlines,
    Kind::Checkpoint,
    Kind::Journal,
    Kind::Preallocation,
    Kind::Healer,
    Kind::Index,
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Flush => "store-flush",
            Self::Deadlines => "store-deadline",
            Self::Checkpoint => "store-check",
            Self::Journal => "store-journal",
            Self::Preallocation => "store-prealloc",
            Self::Healer => "store-heal",
            Self::Index => "store-index",
        }
    }

    fn need(self) -> Importance {
        if matches!(self, Self::Healer | Self::Index) { Importance::Useful } else { Importance::Required }
    }

    /// Whether the engine ends after all others, because it answers callers that wait for the others.
    fn is_last(self) -> bool {
        matches!(self, Self::Flush | Self::Deadlines)
    }

    /// Lowered priority of the thread. Appends get the CPU first, because no caller waits for the thread.
    fn niceness(self) -> i32 {
        match self {
            Self::Checkpoint | Self::Index => 10,
            Self::Healer => 19,
            _ => 0,
        }
    }

    fn wake(self, parts: &Parts) -> &Wake {
        match self {
            Self::Flush => &parts.state.signals.flush,
            Self::Deadlines => &parts.state.deadlines.wake,
            Self::Checkpoint => &parts.state.signals.checkpoint,
            Self::Journal => &parts.state.signals.journal,
            Self::Preallocation => &parts.state.signals.preallocation,
            Self::Healer => &parts.lost.wake,
            Self::Index => &parts.index.wake,
        }
    }
}

/// Engine with the state that its rounds pass on.
enum Engine {
    Flush(FlushState),
    Checkpoint(CheckpointState),
    Journal(JournalState),
    /// Engine whose state is in [`Parts`].
    Other(Kind),
}

impl Engine {
    fn new(kind: Kind, parts: &Parts) -> Self {
        match kind {
            Kind::Flush => Self::Flush(FlushState::new(&parts.state)),
            Kind::Checkpoint => Self::Checkpoint(CheckpointState::new(&parts.state)),
            Kind::Journal => Self::Journal(JournalState::default()),
            kind => Self::Other(kind),
        }
    }

    fn round(&mut self, parts: &Parts, now: Instant) -> Next {
        match self {
            Self::Flush(state) => parts.flusher().flush_round(state, now),
            Self::Checkpoint(state) => parts.checkpointer().checkpoint_round(state, now),
            Self::Journal(state) => parts.checkpointer().journal_round(state, now),
            Self::Other(Kind::Deadlines) => parts.flusher().deadline_round(now),
            Self::Other(Kind::Preallocation) => parts.preallocator().preallocation_round(),
            Self::Other(Kind::Healer) => parts.healer().healer_round(now),
            Self::Other(_) => parts.indexer().index_round(now),
        }
    }
}

/// The engines of a store without threads, each with the time of its next round.
#[derive(Default)]
pub(super) struct Engines(Vec<(Kind, Engine, Next)>);

/// The threads of a store.
#[derive(Default)]
pub(super) struct Workers {
    threads: Vec<(Kind, JoinHandle<()>)>,
    pub(super) closed: bool,
}

impl Parts {
    fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        KINDS.into_iter().filter(|kind| *kind != Kind::Index || self.state.config.key_index)
    }

    /// Starts a thread for each engine.
    #[expect(clippy::disallowed_methods, reason = "the one place where the store starts threads")]
    pub(super) fn start(self: &Arc<Self>) -> std::io::Result<Workers> {
        let mut threads = Vec::new();
        for kind in self.kinds() {
            let parts = self.clone();
            let run = move || {
                if kind.niceness() > 0 {
                    // Where lowering the priority is not permitted, it stays.
                    let _ = rustix::process::nice(kind.niceness());
                }
                parts.supervise(kind.name(), kind.need(), |parts| parts.run_engine(kind));
            };
            threads.push((kind, thread::Builder::new().name(kind.name().to_owned()).spawn(run)?));
        }
        Ok(Workers { threads, closed: false })
    }

    /// Body of an engine's thread.
    fn run_engine(&self, kind: Kind) {
        let mut engine = Engine::new(kind, self);
        loop {
            match engine.round(self, self.state.clock.now()) {
                Next::Now => {}
                Next::At(time) => kind.wake(self).sleep(Some(time)),
                Next::Woken => kind.wake(self).sleep(None),
                Next::Over => return,
            }
        }
    }
}

impl Store {
    /// Opens a store without threads, for simulations. Background work runs only in [`Self::run_due`], and work that
    /// waits for the disk runs on the calling thread. `now` is the time of opening.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn open_without_threads(
        config: Config,
        disk: Arc<dyn Disk>,
        now: Instant,
    ) -> Result<Self, OpenError> {
        Self::open_with(config, disk, Some(now))
    }

    /// Does all work that is due at `now` in a store [without threads](Self::open_without_threads). Returns the time
    /// of the next call, or `None` if no work is due before the next append or request. Time must not go back.
    /// Callbacks run here and must not call this method. Does nothing in a store with threads.
    pub fn run_due(&self, now: Instant) -> Option<Instant> {
        let parts = &self.parts;
        let Engines(engines) = &mut *lock(&self.engines);
        if !parts.state.clock.set(now) {
            return None;
        }
        let mut is_quiet = false;
        while !is_quiet {
            is_quiet = true;
            for (kind, engine, next) in &mut *engines {
                let is_woken = kind.wake(parts).take();
                let is_due = match next {
                    Next::Now => true,
                    Next::At(time) => *time <= now || is_woken,
                    Next::Woken => is_woken,
                    Next::Over => false,
                };
                if is_due {
                    *next = engine.round(parts, now);
                    is_quiet = false;
                }
            }
        }
        let times = engines.iter().filter_map(|(_, _, next)| match next {
            Next::At(time) => Some(*time),
            _ => None,
        });
        times.min()
    }

    /// The engines of a store without threads.
    pub(super) fn engines_of(parts: &Parts) -> Engines {
        Engines(parts.kinds().map(|kind| (kind, Engine::new(kind, parts), Next::Now)).collect())
    }

    /// Ends the engines that make things durable in files beside the log.
    pub(super) fn stop_others(&self, workers: &mut Workers) {
        self.parts.state.signals.stopping.store(true, Ordering::Release);
        self.stop(workers, false);
    }

    /// Ends the engines that answer waiting callers.
    pub(super) fn stop_flushers(&self, workers: &mut Workers) {
        self.parts.state.signals.flusher_stops.store(true, Ordering::Release);
        self.stop(workers, true);
    }

    fn stop(&self, workers: &mut Workers, last: bool) {
        KINDS.iter().filter(|kind| kind.is_last() == last).for_each(|kind| kind.wake(&self.parts).wake());
        let (ending, running) = std::mem::take(&mut workers.threads)
            .into_iter()
            .partition::<Vec<_>, _>(|(kind, _)| kind.is_last() == last);
        workers.threads = running;
        ending.into_iter().for_each(|(_, thread)| drop(thread.join()));
        let Engines(engines) = &mut *lock(&self.engines);
        for (_, engine, next) in engines.iter_mut().filter(|(kind, ..)| kind.is_last() == last) {
            while *next != Next::Over {
                *next = engine.round(&self.parts, self.parts.state.clock.now());
            }
        }
    }
}
