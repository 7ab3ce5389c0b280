use super::*;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

fn wait(watermark: &Watermark, end: u64, deadline: Option<Instant>) -> Receiver<WaitOutcome> {
    let (sender, receiver) = channel();
    watermark.when(end, deadline, || None, Box::new(move |outcome| sender.send(outcome).unwrap()));
    receiver
}

fn told(receiver: &Receiver<WaitOutcome>) -> Option<WaitOutcome> {
    receiver.try_recv().ok()
}

#[test]
fn who_waits_is_told_once_the_position_is_reached() {
    let watermark = Watermark::at(10);
    let (there, near, far) =
        (wait(&watermark, 10, None), wait(&watermark, 20, None), wait(&watermark, 30, None));
    assert_eq!((told(&there), told(&near)), (Some(WaitOutcome::Reached), None));
    watermark.set(20);
    assert_eq!(told(&near), None, "moving and answering are two steps");
    watermark.answer();
    assert_eq!((told(&near), told(&far)), (Some(WaitOutcome::Reached), None));
    assert!(watermark.is_awaited());
    watermark.raise(5);
    watermark.raise(31);
    watermark.answer();
    assert_eq!(
        (told(&far), watermark.get(), watermark.is_awaited()),
        (Some(WaitOutcome::Reached), 31, false)
    );
    assert_eq!(watermark.reached_count(), 2);
}

#[test]
fn deadlines_and_failures_answer_only_those_they_concern() {
    let watermark = Watermark::default();
    let now = Instant::now();
    let late = now + Duration::from_secs(9);
    let (soon, later, never) =
        (wait(&watermark, 1, Some(now)), wait(&watermark, 2, Some(late)), wait(&watermark, 3, None));
    assert_eq!(watermark.next_deadline(), Some(now));
    watermark.expire(now);
    assert_eq!((told(&soon), told(&later)), (Some(WaitOutcome::TimedOut), None));
    assert_eq!(watermark.next_deadline(), Some(late));
    watermark.fail(2, "cut");
    assert_eq!((told(&later), told(&never)), (None, Some(WaitOutcome::Failed("cut".to_owned()))));
    watermark.set(2);
    watermark.close("closed");
    assert_eq!(told(&later), Some(WaitOutcome::Reached));
    assert_eq!(told(&wait(&watermark, 3, None)), Some(WaitOutcome::Failed("closed".to_owned())));
}

#[test]
fn whoever_waits_when_a_watermark_is_abandoned_is_told_and_others_may_wait_later() {
    let watermark = Watermark::at(5);
    let (reached, open) = (wait(&watermark, 5, None), wait(&watermark, 6, None));
    watermark.abandon();
    assert_eq!((told(&reached), told(&open)), (Some(WaitOutcome::Reached), Some(WaitOutcome::Abandoned)));
    let later = wait(&watermark, 6, None);
    assert_eq!(told(&later), None);
    watermark.set(6);
    watermark.answer();
    assert_eq!(told(&later), Some(WaitOutcome::Reached));
}

#[test]
fn a_callback_may_wait_again() {
    let watermark = std::sync::Arc::new(Watermark::default());
    let (sender, receiver) = channel();
    let again = watermark.clone();
    let done = move |_| {
        again.when(2, None, || None, Box::new(move |outcome| sender.send(outcome).unwrap()));
    };
    watermark.when(1, None, || None, Box::new(done));
    watermark.set(1);
    watermark.answer();
    assert_eq!(receiver.try_recv().ok(), None);
    watermark.set(2);
    watermark.answer();
    assert_eq!(receiver.try_recv().ok(), Some(WaitOutcome::Reached));
}

#[test]
fn no_wait_is_missed_while_the_position_moves() {
    const END: u64 = 20_000;
    let watermark = Watermark::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for position in 1..=END {
                watermark.set(position);
                watermark.answer();
            }
        });
        let mut next = 1;
        while next <= END {
            let outcome = wait(&watermark, next, None).recv_timeout(Duration::from_secs(120));
            assert_eq!(outcome, Ok(WaitOutcome::Reached), "the wait for {next} was missed");
            next = watermark.get() + 1;
        }
    });
}
