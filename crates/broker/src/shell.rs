//! Shell that runs the broker's engines. Engines that wait for the disk have threads of their own, and the other
//! engines are tasks of `broker-tasks-N`. Only the shell starts threads, sleeps and reads the clock. Threads and
//! tasks are supervised, and joined when the broker stops.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use net::Workers;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::broker::Broker;
use crate::clock::{Clock, pause};
use crate::engine::{Engine, Next, Wakeup};
use crate::parts::Runtime;
use crate::supervisor::SupervisedWork;

/// Longest sleep in milliseconds, so that a jump of the clock is noticed.
const SLEEP_MAX_MS: i64 = 1000;

/// Name and purpose of a thread or task.
#[derive(Clone, Copy)]
pub(crate) struct Post {
    /// Work that is undone if the thread or task ends early.
    pub(crate) work: SupervisedWork,
    /// Name of the thread or task, for the list of stopped threads.
    pub(crate) name: &'static str,
}

/// Engines that run on threads of their own. Dropping it ends them.
pub(crate) struct EngineThreads {
    runtime: Arc<Runtime>,
    threads: Vec<EngineThread>,
}

struct EngineThread {
    post: Post,
    wakeup: Arc<Wakeup>,
    /// The engine, once its thread has ended without a panic.
    engine: Arc<Mutex<Option<Box<dyn Engine>>>>,
    handle: JoinHandle<()>,
}

impl EngineThreads {
    pub(crate) fn new(runtime: Arc<Runtime>) -> Self {
        Self { runtime, threads: Vec::new() }
    }

    /// Runs the engine that `open` returns on a thread of its own. `open` runs on that thread; its error is logged, and the
    /// work is missed then.
    ///
    /// # Errors
    /// The error of the operating system when the thread cannot be started.
    pub(crate) fn start<E: Engine + 'static>(
        &mut self,
        post: Post,
        wakeup: &Arc<Wakeup>,
        open: impl FnOnce() -> io::Result<E> + Send + 'static,
    ) -> io::Result<()> {
        let engine = Arc::new(Mutex::new(None));
        let (left, clock, woken) = (engine.clone(), self.runtime.clock.clone(), wakeup.clone());
        wakeup.restart();
        self.runtime.supervisor.employ(post.work);
        let run = move || {
            woken.attach(thread::current());
            match open() {
                Ok(mut engine) => {
                    run_on_thread(&mut engine, &clock, &woken);
                    *left.lock() = Some(Box::new(engine) as Box<_>);
                }
                Err(error) => tracing::error!(thread = post.name, %error, "a thread cannot begin its work"),
            }
        };
        let handle = self.runtime.supervisor.spawn(post.work, post.name, run)?;
        self.threads.push(EngineThread { post, wakeup: wakeup.clone(), engine, handle });
        Ok(())
    }

    /// Ends all threads and waits for them. Then the engines do their remaining work, in the order in which they were
    /// started. Further calls do nothing.
    pub(crate) fn stop(&mut self) {
        for (name, mut engine) in self.end() {
            // The store is closed whatever happens here.
            if catch_unwind(AssertUnwindSafe(|| engine.stop())).is_err() {
                tracing::error!(name, "an engine panicked while it was stopped");
            }
        }
    }

    /// Ends all threads and waits for them. The engines' remaining work is dropped, because this broker is no longer
    /// master, and the work may belong to a part of the log that is cut.
    pub(crate) fn abandon(&mut self) {
        self.end();
    }

    /// Ends all threads before the first engine is stopped, because an engine may still have work for another engine.
    fn end(&mut self) -> Vec<(&'static str, Box<dyn Engine>)> {
        self.threads.iter().for_each(|thread| self.runtime.supervisor.dismiss(thread.post.work));
        self.threads.iter().for_each(|thread| thread.wakeup.stop());
        let ended = self.threads.drain(..).map(|thread| {
            // The supervisor has reported a panic.
            let _ = thread.handle.join();
            let engine = thread.engine.lock().take();
            engine.map(|engine| (thread.post.name, engine))
        });
        ended.collect::<Vec<_>>().into_iter().flatten().collect()
    }
}

impl Drop for EngineThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs engines until it is stopped. Dropping it stops it.
pub(crate) struct Shell {
    broker: Arc<Broker>,
    tasks: Workers,
    threads: EngineThreads,
    /// The threads of the disk pool.
    disk_pool: Vec<JoinHandle<()>>,
}

impl Shell {
    /// Makes a shell whose tasks run on `tasks`, [`PUNCTUAL`](crate::engine::PUNCTUAL) and
    /// [`BLOCKING`](crate::engine::BLOCKING).
    pub(crate) fn new(broker: Arc<Broker>, tasks: Workers) -> Self {
        Self { threads: EngineThreads::new(broker.runtime.clone()), broker, tasks, disk_pool: Vec::new() }
    }

    /// Starts the threads of the disk pool.
    ///
    /// # Errors
    /// The error of the operating system when a thread cannot be started.
    pub(crate) fn disk_pool(&mut self) -> io::Result<()> {
        for (name, run) in self.broker.runtime.disk_pool.threads() {
            self.disk_pool.push(self.broker.runtime.supervisor.spawn(SupervisedWork::Disk, &name, run)?);
        }
        Ok(())
    }

    /// The task threads, for calls to other servers.
    pub(crate) fn tasks(&self) -> &Workers {
        &self.tasks
    }

    /// The engines with threads of their own.
    pub(crate) fn threads(&mut self) -> &mut EngineThreads {
        &mut self.threads
    }

    /// Runs an engine as a task on a thread of the tasks. `woken_by` names the signal that wakes the engine, if any.
    ///
    /// # Errors
    /// The error of [`Workers::spawn`] when the task cannot be started.
    pub(crate) fn task(
        &self,
        (thread, post): (usize, Post),
        woken_by: Option<fn(&Broker) -> &Notify>,
        engine: impl Engine + 'static,
    ) -> io::Result<()> {
        self.future((thread, post), move |broker| run_as_task(engine, broker, woken_by))
    }

    /// Runs a supervised future on a task thread, for futures that wait for other servers. Engines use
    /// [`Self::task`].
    ///
    /// # Errors
    /// The error of [`Workers::spawn`] when the task cannot be started.
    pub(crate) fn future<F: Future<Output = ()> + 'static>(
        &self,
        (thread, post): (usize, Post),
        make: impl FnOnce(Arc<Broker>) -> F + Send + 'static,
    ) -> io::Result<()> {
        let broker = self.broker.clone();
        self.tasks.spawn(thread, move || async move {
            let supervisor = broker.runtime.supervisor.clone();
            supervisor.task(post.work, post.name, make(broker)).await;
        })
    }

    /// Ends all tasks, then all threads as [`EngineThreads::stop`] does. No message is delivered after this returns.
    /// Further calls do nothing.
    pub(crate) fn stop(&mut self) {
        self.broker.runtime.supervisor.stop();
        self.tasks.shutdown();
        self.threads.stop();
        self.broker.runtime.disk_pool.close();
        for thread in self.disk_pool.drain(..) {
            // The supervisor has reported a panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the time to sleep until an engine's next round. Zero if the round is due.
fn sleep_of(next: Next, now_ms: i64) -> Duration {
    let left_ms = match next {
        Next::At(at_ms) => at_ms.saturating_sub(now_ms).clamp(0, SLEEP_MAX_MS),
        Next::Woken => SLEEP_MAX_MS,
    };
    Duration::from_millis(left_ms.unsigned_abs())
}

#[expect(clippy::disallowed_methods, reason = "the one place where a thread of the broker sleeps")]
fn run_on_thread(engine: &mut impl Engine, clock: &Clock, wakeup: &Wakeup) {
    while !wakeup.is_stopping() {
        wakeup.begin_round();
        match engine.round(clock.now_ms()) {
            _ if wakeup.is_pending() => {}
            Next::Woken => thread::park(),
            next => {
                let sleep = sleep_of(next, clock.now_ms());
                if !sleep.is_zero() {
                    thread::park_timeout(sleep);
                }
            }
        }
    }
}

async fn run_as_task(mut engine: impl Engine, broker: Arc<Broker>, woken_by: Option<fn(&Broker) -> &Notify>) {
    loop {
        let next = engine.round(broker.runtime.now_ms());
        let sleep = sleep_of(next, broker.runtime.now_ms());
        if sleep.is_zero() {
            // Other tasks use this thread as well.
            tokio::task::yield_now().await;
            continue;
        }
        match woken_by {
            Some(woken_by) => tokio::select! {
                () = pause(sleep) => {}
                () = woken_by(&broker).notified() => {}
            },
            None => pause(sleep).await,
        }
    }
}

#[cfg(test)]
mod tests;
