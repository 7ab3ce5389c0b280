use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::engine::{BLOCKING, PUNCTUAL};
use crate::testing::Fixture;

/// Call of a test's engine.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Round,
    Stop(&'static str),
}

/// Engine that reports its calls, asks to be woken, and panics in the round after `left` others.
struct Telling {
    name: &'static str,
    calls: Sender<Call>,
    left: usize,
}

impl Engine for Telling {
    fn round(&mut self, _now_ms: i64) -> Next {
        self.left = self.left.checked_sub(1).expect("a panic on purpose");
        self.calls.send(Call::Round).unwrap();
        Next::Woken
    }

    fn stop(&mut self) {
        self.calls.send(Call::Stop(self.name)).unwrap();
    }
}

fn shell(fixture: &Fixture) -> Shell {
    let tasks = Workers::start("test-tasks", BLOCKING + 1, net::Limits::default()).unwrap();
    Shell::new(fixture.broker.clone(), tasks)
}

/// Starts an engine that lives for `left` rounds. Returns its wake-up handle, and its calls.
fn start(shell: &mut Shell, name: &'static str, left: usize) -> (Arc<Wakeup>, Receiver<Call>) {
    let (calls, told) = channel();
    let wakeup = Arc::default();
    let post = Post { work: SupervisedWork::Delay, name };
    shell.threads().start(post, &wakeup, move || Ok(Telling { name, calls, left })).unwrap();
    (wakeup, told)
}

/// A wait within a round may take the token of `unpark` that was meant for the engine's thread.
#[test]
fn a_wakeup_within_a_round_that_waits_is_not_lost() {
    let fixture = Fixture::new();
    let mut shell = shell(&fixture);
    let wakeup = Arc::<Wakeup>::default();
    let (woken, (rounds, seen)) = (wakeup.clone(), channel());
    let round = move |_| {
        rounds.send(()).unwrap();
        woken.wake();
        thread::park();
        Next::Woken
    };
    let post = Post { work: SupervisedWork::Delay, name: "waiting" };
    shell.threads().start(post, &wakeup, move || Ok(round)).unwrap();
    (0..3).for_each(|_| seen.recv_timeout(crate::testing::OUTCOME_CAP).unwrap());
    shell.stop();
}

#[test]
fn a_thread_runs_a_round_when_woken_and_is_stopped_once_all_threads_have_ended() {
    let fixture = Fixture::new();
    let mut shell = shell(&fixture);
    let (wakeup, calls) = start(&mut shell, "first", usize::MAX);
    assert_eq!(calls.recv(), Ok(Call::Round));
    wakeup.wake();
    assert_eq!(calls.recv(), Ok(Call::Round));
    shell.stop();
    let last: Vec<Call> = calls.iter().collect();
    assert!(last.iter().rev().skip(1).all(|call| *call == Call::Round));
    assert_eq!(last.last(), Some(&Call::Stop("first")));
    assert_eq!(fixture.broker.runtime.supervisor.names(), Vec::<String>::new());
}

#[test]
fn a_thread_whose_engine_panics_or_cannot_begin_is_missed_and_not_stopped() {
    let fixture = Fixture::new();
    let mut shell = shell(&fixture);
    let (wakeup, calls) = start(&mut shell, "panics", 1);
    assert_eq!(calls.recv(), Ok(Call::Round));
    wakeup.wake();
    assert!(calls.recv().is_err(), "the engine is gone");
    let post = Post { work: SupervisedWork::Timer, name: "unopened" };
    let (ended, end) = channel::<()>();
    let open = move || {
        drop(ended);
        Err::<Telling, _>(io::Error::other("on purpose"))
    };
    shell.threads().start(post, &Arc::default(), open).unwrap();
    assert!(end.recv().is_err());
    crate::testing::until("both are missed", || fixture.broker.runtime.supervisor.names().len() == 2);
    assert_eq!(fixture.broker.runtime.supervisor.names(), ["panics", "unopened"]);
    shell.stop();
}

#[test]
fn a_task_runs_its_rounds_and_is_woken_by_its_signal() {
    let fixture = Fixture::new();
    let mut shell = shell(&fixture);
    let (calls, told) = channel();
    let engine = Telling { name: "task", calls, left: usize::MAX };
    let post = Post { work: SupervisedWork::Pulls, name: "task" };
    shell.task((PUNCTUAL, post), Some(|broker| &broker.sessions.poll_timeouts.earlier), engine).unwrap();
    assert_eq!(told.recv(), Ok(Call::Round));
    fixture.broker.sessions.poll_timeouts.earlier.notify_one();
    assert_eq!(told.recv(), Ok(Call::Round));
    shell.stop();
    assert!(told.iter().all(|call| call == Call::Round), "tasks have nothing left to do");
}
