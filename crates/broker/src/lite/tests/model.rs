//! Random operations on lite topics against a simple model: no message overtakes an earlier message of its lite topic,
//! none is lost, and none comes again once it is acknowledged.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const CLIENTS: [&str; 3] = ["c0", "c1", "c2"];
const LITE: usize = 14;

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Pop(usize, i32),
    /// Acknowledges an open delivery.
    Ack(usize),
    Pass(i64),
    /// Subscribes a client to all lite topics, or lets it leave.
    Join(usize),
    Leave(usize),
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..LITE).prop_map(Step::Send),
        5 => (0..CLIENTS.len(), 1..6).prop_map(|(client, count)| Step::Pop(client, count)),
        6 => (0_usize..64).prop_map(Step::Ack),
        1 => (0..2 * INVISIBLE_MS).prop_map(Step::Pass),
        1 => (0..CLIENTS.len()).prop_map(Step::Join),
        1 => (0..CLIENTS.len()).prop_map(Step::Leave),
        2 => Just(Step::Run),
    ]
}

struct Model {
    world: World,
    names: Vec<String>,
    sent: BTreeMap<String, i64>,
    /// First message of each lite topic that is not acknowledged.
    next: BTreeMap<String, i64>,
    open: Vec<Delivery>,
    acked: std::collections::BTreeSet<(String, i64)>,
}

impl Model {
    fn new(attributes: &[(&str, &str)]) -> Self {
        let world = World::with(attributes, |_| {});
        let names = (0..LITE).map(|number| format!("t{number}")).collect();
        let model = Self {
            world,
            names,
            sent: BTreeMap::new(),
            next: BTreeMap::new(),
            open: Vec::new(),
            acked: BTreeSet::new(),
        };
        model.join(0);
        model
    }

    fn join(&self, client: usize) {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        self.world.set(CLIENTS[client], &names);
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Send(lite) => {
                let name = self.names[lite].clone();
                let number = self.sent.entry(name.clone()).or_default();
                self.world.send(&name, &number.to_string());
                *number += 1;
            }
            Step::Pop(client, count) => self.pop(client, count),
            Step::Ack(index) => {
                if !self.open.is_empty() {
                    let delivery = self.open.remove(index % self.open.len());
                    self.ack(&delivery);
                }
            }
            Step::Pass(ms) => self.world.pass(ms),
            Step::Join(client) => self.join(client),
            Step::Leave(client) => {
                let world = &self.world;
                let change = world.change(CLIENTS[client], LiteSubscriptionAction::CompleteRemove, &[]);
                world.control(change).unwrap();
            }
            Step::Run => self.world.run(),
        }
    }

    /// Acknowledges a delivery. It counts if no later pop returned the message.
    fn ack(&mut self, delivery: &Delivery) {
        // An acknowledgement of an earlier pop has no effect.
        let _ = self.world.ack(delivery);
        let queue = lite_queue("P", &delivery.lite);
        let next = self.world.fixture.broker.tables.offsets.committed("G", &queue, 0).unwrap_or(0);
        self.next.insert(delivery.lite.clone(), next);
        if next > delivery.offset {
            self.acked.insert((delivery.lite.clone(), delivery.offset));
        }
    }

    fn pop(&mut self, client: usize, count: i32) {
        let found = self.world.pop_up_to(CLIENTS[client], count);
        let mut last: BTreeMap<&str, i64> = BTreeMap::new();
        for delivery in &found {
            let Delivery { lite, body, offset, .. } = delivery;
            assert_eq!(*body, offset.to_string());
            assert!(!self.acked.contains(&(lite.clone(), *offset)), "{delivery:?} was acknowledged");
            let expected = last
                .get(&**lite)
                .map_or_else(|| self.next.get(lite).copied().unwrap_or(0), |before| before + 1);
            assert_eq!(*offset, expected, "{delivery:?} overtakes");
            last.insert(lite, *offset);
        }
        self.open.extend(found);
    }

    /// Consumes the rest and checks that nothing is missing.
    fn finish(mut self) {
        self.join(1);
        for _ in 0..400 {
            self.world.pass(INVISIBLE_MS / 4);
            self.join(1);
            let before = self.open.len();
            self.pop(1, 32);
            for delivery in self.open.split_off(before) {
                self.ack(&delivery);
            }
            let is_done = |(lite, sent): (&String, &i64)| self.next.get(lite) == Some(sent);
            if self.sent.iter().all(is_done) {
                return;
            }
        }
        panic!("sent {:?}, consumed {:?}", self.sent, self.next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn messages_of_lite_topics_are_delivered_in_order_and_none_is_lost(
        wildcard in any::<bool>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut attributes = vec![("lite.sub.client.max.event.cnt", "10")];
        attributes.extend(wildcard.then_some(("lite.sub.wildcard", "true")));
        let mut model = Model::new(&attributes);
        steps.iter().for_each(|step| model.take(step));
        model.finish();
    }
}
