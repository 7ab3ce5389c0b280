use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use replica::roster::{ConnectionId, Content, Election, Heartbeat, Registration, Request};
use store::FakeDisk;
use wire::codes::response;
use wire::units::LogOffset;

use super::*;
use crate::Journal;

/// A controller with its disk.
struct Node {
    disk: FakeDisk,
    running: Option<(Machine, Journal)>,
    wake_at_ms: u64,
    answers: BTreeMap<u64, ControllerResponse>,
    notices: Vec<(BrokerId, String)>,
}

/// Three controllers in one thread, on disks that lose unsynced data.
struct Group {
    now_ms: u64,
    nodes: Vec<Node>,
    messages: VecDeque<(usize, usize, Vec<u8>)>,
    cut: Option<usize>,
    requests: u64,
}

const IDS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

impl Group {
    fn new() -> Self {
        let node = |_| Node {
            disk: FakeDisk::new(512),
            running: None,
            wake_at_ms: u64::MAX,
            answers: BTreeMap::new(),
            notices: Vec::new(),
        };
        let nodes = (0..IDS.len()).map(node).collect();
        let mut group = Self { now_ms: 0, nodes, messages: VecDeque::new(), cut: None, requests: 0 };
        (0..IDS.len()).for_each(|place| group.start(place));
        group.run(5_000);
        group
    }

    fn start(&mut self, place: usize) {
        let disk = self.nodes[place].disk.clone();
        let (journal, saved) = Journal::open(Arc::new(disk), Path::new("/c")).unwrap();
        let config =
            ConsensusConfig { id: IDS[place], peers: IDS.to_vec(), tick_ms: 100, entries_max: 2_000 };
        let machine = Machine::new(config, LeaderConfig::default(), saved).unwrap();
        self.nodes[place].running = Some((machine, journal));
        self.step(place, Event::Started);
    }

    fn power_cut(&mut self, place: usize, seed: u64) {
        let node = &mut self.nodes[place];
        (node.disk, node.running) = (node.disk.power_cut(seed), None);
    }

    fn step(&mut self, place: usize, event: Event) {
        let node = &mut self.nodes[place];
        let Some((machine, journal)) = &mut node.running else { return };
        let mut actions = Vec::new();
        machine.step(self.now_ms, event, &mut actions).unwrap();
        for action in actions {
            match action {
                Action::Save(records) => journal.save(&records).unwrap(),
                Action::Replace(records) => journal.replace(&records).unwrap(),
                Action::Send(to, bytes) => {
                    let to = IDS.iter().position(|id| *id == to).unwrap();
                    self.messages.push_back((place, to, bytes));
                }
                Action::Answer(RequestId(id), answer) => drop(node.answers.insert(id, answer)),
                Action::Notify(broker, address, _) => node.notices.push((broker, address)),
                Action::WakeAt(at_ms) => node.wake_at_ms = at_ms,
            }
        }
    }

    fn run(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        while self.now_ms < end_ms {
            self.now_ms += 1;
            for _ in 0..self.messages.len() {
                let (from, to, bytes) = self.messages.pop_front().unwrap();
                if self.cut != Some(from) && self.cut != Some(to) {
                    self.step(to, Event::Received(IDS[from], bytes));
                }
            }
            for place in 0..IDS.len() {
                if self.nodes[place].wake_at_ms <= self.now_ms {
                    self.nodes[place].wake_at_ms = u64::MAX;
                    self.step(place, Event::Timer);
                }
            }
        }
    }

    fn leads(&self, place: usize) -> bool {
        self.nodes[place].running.as_ref().is_some_and(|(machine, _)| machine.leads())
    }

    fn leader(&self) -> usize {
        let leaders: Vec<usize> = (0..IDS.len()).filter(|place| self.leads(*place)).collect();
        assert_eq!(leaders.len(), 1, "{leaders:?} lead");
        leaders[0]
    }

    fn ask(&mut self, place: usize, request: Request) -> Option<ControllerResponse> {
        self.requests += 1;
        let id = self.requests;
        self.step(place, Event::Leader(LeaderEvent::Asked(RequestId(id), request)));
        self.run(50);
        self.nodes[place].answers.remove(&id)
    }

    /// A heartbeat reaches every controller, as brokers send it.
    fn beat(&mut self, broker: u64, timeout_ms: u64) {
        for place in 0..IDS.len() {
            let heartbeat = Heartbeat {
                name: "a".to_owned(),
                broker: BrokerId::new(broker),
                connection: ConnectionId(broker),
                timeout_ms,
                epoch: None,
                end: LogOffset::ZERO,
                kept: None,
                priority: 0,
            };
            self.step(place, Event::Leader(LeaderEvent::Heartbeat(heartbeat)));
        }
    }

    /// Registers two brokers in the set, the first as master.
    fn two_brokers(&mut self) {
        let leader = self.leader();
        for broker in [1, 2] {
            let apply = Request::ApplyId {
                cluster: "c".to_owned(),
                name: "a".to_owned(),
                broker: BrokerId::new(broker),
                check_code: format!("h{broker};1"),
            };
            assert_eq!(self.ask(leader, apply).unwrap().code, response::SUCCESS);
            self.beat(broker, 2_000);
        }
        let elect = Election { name: "a".to_owned(), broker: Some(BrokerId::new(1)), is_designated: false };
        assert_eq!(self.ask(leader, Request::Elect(elect)).unwrap().code, response::SUCCESS);
        let alter = replica::roster::AlterSet {
            name: "a".to_owned(),
            master: BrokerId::new(1),
            master_epoch: wire::ha::Epoch::new(1),
            members: [1, 2].map(BrokerId::new).into(),
            epoch: replica::in_sync::SetEpoch(1),
        };
        assert_eq!(self.ask(leader, Request::AlterSet(alter)).unwrap().code, response::SUCCESS);
    }

    fn master(&mut self) -> Option<u64> {
        let leader = self.leader();
        let answer = self.ask(leader, Request::ReplicaInfo("a".to_owned())).unwrap();
        let Content::Master(told) = answer.content else { panic!("{answer:?}") };
        told.master.map(|(master, _)| master.get())
    }
}

#[test]
fn a_master_that_falls_silent_is_replaced_and_the_others_are_told() {
    let mut group = Group::new();
    group.two_brokers();
    assert_eq!(group.master(), Some(1));
    let leader = group.leader();
    group.nodes[leader].notices.clear();
    for _ in 0..30 {
        group.beat(2, 2_000);
        group.run(100);
    }
    assert_eq!(group.master(), Some(2));
    assert_eq!(group.nodes[leader].notices, [(BrokerId::new(2), "h2".to_owned())]);
    for place in 0..IDS.len() {
        let (machine, _) = group.nodes[place].running.as_ref().unwrap();
        assert_eq!(machine.roster().set("a").unwrap().master, Some(BrokerId::new(2)), "{place}");
    }
}

#[test]
fn the_table_survives_power_cuts_of_all_controllers() {
    for seed in 0..20 {
        let mut group = Group::new();
        group.two_brokers();
        (0..IDS.len()).for_each(|place| group.power_cut(place, seed * 3 + place as u64));
        (0..IDS.len()).for_each(|place| group.start(place));
        group.run(5_000);
        assert_eq!(group.master(), Some(1), "seed {seed}");
    }
}

#[test]
fn another_controller_goes_on_when_the_leader_is_cut_off_and_the_old_one_refuses() {
    let mut group = Group::new();
    group.two_brokers();
    let old = group.leader();
    group.cut = Some(old);
    // It does not know yet, and must not say yes.
    let register = Registration {
        name: "a".to_owned(),
        broker: BrokerId::new(2),
        address: "elsewhere".to_owned(),
        may_have_lost: false,
        log_epoch: None,
        log_end: None,
    };
    assert_eq!(group.ask(old, Request::Register(register)), None);
    for _ in 0..50 {
        group.beat(1, 2_000);
        group.beat(2, 2_000);
        group.run(100);
    }
    let new = group.leader();
    assert_ne!(new, old);
    let refused = group.nodes[old].answers.values().next().unwrap();
    assert_eq!(refused.code, response::CONTROLLER_NOT_LEADER);
    assert_eq!(group.master(), Some(1), "both brokers were heard of all the time");
    group.cut = None;
    group.run(3_000);
    let (machine, _) = group.nodes[old].running.as_ref().unwrap();
    assert_eq!(machine.roster().set("a").unwrap().address(BrokerId::new(2)), Some("h2"));
}

#[test]
fn who_follows_answers_that_it_does_not_lead() {
    let mut group = Group::new();
    let follower = (group.leader() + 1) % IDS.len();
    let answer = group.ask(follower, Request::NextId("a".to_owned())).unwrap();
    assert_eq!(answer.code, response::CONTROLLER_NOT_LEADER);
    assert_eq!(answer.remark.as_deref(), Some("The controller is not in leader state"));
}
