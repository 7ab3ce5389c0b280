//! Ordered pops of a queue against a model, with a clock that is set by hand. Messages are acknowledged, delayed, and
//! acknowledged late or twice. No client gets a message while an earlier message of the queue is in flight, and no
//! message is skipped.

use proptest::prelude::*;

use super::*;
use crate::clock::Clock;
use crate::testing::CALLER;

const INVISIBLE_MS: i64 = 1000;

#[derive(Clone, Debug)]
enum Step {
    Send,
    /// Pops at most so many messages.
    Pop(i32),
    /// Acknowledges a delivery, counted from the newest; it may be of an earlier pop, or acknowledged already.
    Ack(usize),
    /// Makes a delivery invisible for so long from now on.
    Delay(usize, i64),
    /// Lets a number of milliseconds pass.
    Pass(i64),
}

/// A message that the last pop returned.
struct InFlight {
    offset: i64,
    visible_ms: i64,
    is_acked: bool,
}

struct Queue {
    fixture: Fixture,
    clock: Clock,
    sent: i64,
    /// The first message that is not known to be consumed.
    next: i64,
    /// Time of the last pop, and its messages.
    last: (i64, Vec<InFlight>),
    /// Offset and time of the pop of every delivery.
    deliveries: Vec<(i64, i64)>,
}

impl Queue {
    fn new() -> Self {
        let (clock, directory) = (Clock::standing(1_000_000), tempfile::tempdir().unwrap());
        let fixture = Fixture::timed(Arc::new(store::RealDisk), clock.clone(), directory, |_| {});
        fixture.broker.tables.groups.make("G", 1).unwrap();
        fixture.queue("T", 0);
        Self { fixture, clock, sent: 0, next: 0, last: (0, Vec::new()), deliveries: Vec::new() }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Send => {
                self.fixture.put("T", 0, b"m", b"");
                self.sent += 1;
            }
            Step::Pop(count_max) => self.pop(count_max),
            Step::Ack(back) => self.on_delivery(back, |queue, message, index| {
                let mut records = ReviveRecords::new(&queue.fixture.broker.store);
                // A message that a pop of the same millisecond did not return is refused, which has no effect.
                let _ = ack(&queue.fixture.broker.pops, &mut records, message);
                assert_eq!(records.len(), 0);
                let Some(index) = index else { return };
                let in_flight = &mut queue.last.1;
                in_flight[index].is_acked = true;
                let open = in_flight.iter().find(|message| !message.is_acked);
                queue.next = open.map_or(in_flight[in_flight.len() - 1].offset + 1, |message| message.offset);
            }),
            Step::Delay(back, ms) => self.on_delivery(back, |queue, message, index| {
                let _ = change_invisible_time(&queue.fixture.broker.pops, message, ms);
                let visible_ms = queue.clock.now_ms() + ms;
                if let Some(index) = index {
                    queue.last.1[index].visible_ms = visible_ms;
                }
            }),
            Step::Pass(ms) => self.clock.set(self.clock.now_ms() + ms),
        }
    }

    fn pop(&mut self, count_max: i32) {
        let now_ms = self.clock.now_ms();
        let mut ask = ask(&self.fixture, INVISIBLE_MS);
        (ask.ordered, ask.queue_id) = (true, 0);
        let Want::Pop(pop) = &mut ask.want else { unreachable!() };
        pop.count_max = count_max;
        let Want::Pop(pop) = &ask.want else { unreachable!() };
        let topic = self.fixture.broker.tables.topics.find("T").unwrap();
        let popped = pick(&self.fixture.broker.pops, &topic, (&ask, pop), Source::Disk).ok().unwrap().popped;
        let found: Vec<i64> = popped.queues.iter().flat_map(|queue| queue.offsets.clone()).collect();
        let is_blocked = self.last.1.iter().any(|it| !it.is_acked && it.visible_ms > now_ms);
        let end = if is_blocked { self.next } else { self.sent.min(self.next + i64::from(count_max)) };
        assert_eq!(found, (self.next..end).collect::<Vec<_>>(), "at {now_ms}, blocked: {is_blocked}");
        if !found.is_empty() {
            self.deliveries.extend(found.iter().map(|offset| (*offset, now_ms)));
            let visible_ms = now_ms + INVISIBLE_MS;
            let in_flight = |offset| InFlight { offset, visible_ms, is_acked: false };
            self.last = (now_ms, found.into_iter().map(in_flight).collect());
        }
    }

    /// Acts on a delivery, and returns the concerned message of the last pop.
    fn on_delivery(&mut self, back: usize, act: impl FnOnce(&mut Self, &PoppedMessage<'_>, Option<usize>)) {
        let count = self.deliveries.len();
        if count == 0 {
            return;
        }
        let (offset, pop_ms) = self.deliveries[count - 1 - back % count];
        let handle = format!("{offset} {pop_ms} {INVISIBLE_MS} 999 0 b 0 {offset}");
        let message =
            PoppedMessage { caller: &CALLER, group: "G", topic: "T", queue_id: 0, offset, handle: &handle };
        let is_last = pop_ms == self.last.0 && offset >= self.next;
        let index = self.last.1.iter().position(|it| is_last && it.offset == offset);
        act(self, &message, index);
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Send),
        4 => (1..4).prop_map(Step::Pop),
        4 => (0_usize..6).prop_map(Step::Ack),
        1 => (0_usize..4, 0..2 * INVISIBLE_MS).prop_map(|(back, ms)| Step::Delay(back, ms)),
        2 => (0..INVISIBLE_MS).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_message_waits_for_those_before_it(steps in prop::collection::vec(step(), 1..80)) {
        let mut queue = Queue::new();
        steps.iter().for_each(|step| queue.take(step));
    }
}

/// A client that is slower than the invisible time gets its messages again, before any other message. Its late
/// acknowledgement of the first delivery has no effect.
#[test]
fn a_late_acknowledgement_opens_no_queue() {
    let mut queue = Queue::new();
    let steps = [Step::Send, Step::Send, Step::Send, Step::Pop(1), Step::Pop(3), Step::Pass(INVISIBLE_MS)];
    steps.iter().for_each(|step| queue.take(step));
    queue.take(&Step::Pop(1));
    queue.take(&Step::Ack(1));
    assert_eq!((queue.next, queue.deliveries.len()), (0, 2));
    queue.take(&Step::Pop(3));
    [Step::Ack(0), Step::Pop(3)].iter().for_each(|step| queue.take(step));
    assert_eq!((queue.next, queue.deliveries.len()), (1, 4));
}
