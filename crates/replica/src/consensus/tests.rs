use super::*;
use std::collections::{BTreeSet, VecDeque};

/// A group of controllers in one thread: messages arrive in order unless their link is cut, every step takes a millisecond.
struct Group {
    now_ms: u64,
    config: Vec<NodeId>,
    nodes: BTreeMap<NodeId, Node>,
    messages: VecDeque<(NodeId, NodeId, Vec<u8>)>,
    /// Links that carry nothing, by sender and receiver.
    cut: BTreeSet<(NodeId, NodeId)>,
}

#[derive(Default)]
struct Node {
    consensus: Option<Consensus>,
    /// Records that survive a crash.
    saved: Vec<Record>,
    /// Applied data, as the state in snapshots.
    applied: Vec<u8>,
    own: Vec<ProposalId>,
    refused: Vec<ProposalId>,
    leads: bool,
    wake_at_ms: Option<u64>,
    replaced: usize,
    restored: usize,
}

impl Group {
    fn new(size: u64) -> Self {
        let config: Vec<NodeId> = (1..=size).map(NodeId).collect();
        let nodes = config.iter().map(|id| (*id, Node::default())).collect();
        let mut group = Self { now_ms: 0, config, nodes, messages: VecDeque::new(), cut: BTreeSet::new() };
        for id in group.config.clone() {
            group.start(id);
        }
        group
    }

    fn start(&mut self, id: NodeId) {
        let config = ConsensusConfig { id, peers: self.config.clone(), tick_ms: 100, entries_max: 20 };
        let node = self.nodes.get_mut(&id).unwrap();
        // Through bytes, as on a disk.
        let bytes = node.saved.iter().map(|record| {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            bytes
        });
        let records: Vec<Record> = bytes.flat_map(|bytes| Record::decode_all(&bytes).unwrap()).collect();
        let consensus = Consensus::new(config, records).unwrap();
        node.applied = consensus.state().to_vec();
        node.consensus = Some(consensus);
        self.step(id, Event::Started);
    }

    fn crash(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        let saved = std::mem::take(&mut node.saved);
        *node = Node { saved, ..Node::default() };
        self.messages.retain(|(from, to, _)| *from != id && *to != id);
    }

    fn isolate(&mut self, id: NodeId) {
        let others = self.config.iter().filter(|other| **other != id);
        self.cut = others.flat_map(|other| [(id, *other), (*other, id)]).collect();
    }

    fn step(&mut self, id: NodeId, event: Event) {
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(consensus) = &mut node.consensus else { return };
        let mut out = Vec::new();
        consensus.step(self.now_ms, event, &mut out);
        for action in out {
            self.perform(id, action);
        }
        let node = self.nodes.get_mut(&id).unwrap();
        let Some(consensus) = node.consensus.as_mut().filter(|consensus| consensus.is_long()) else { return };
        let mut out = Vec::new();
        consensus.compact(node.applied.clone(), &mut out);
        for action in out {
            self.perform(id, action);
        }
    }

    fn perform(&mut self, id: NodeId, action: Action) {
        let node = self.nodes.get_mut(&id).unwrap();
        match action {
            Action::Save(records) => node.saved.extend(records),
            Action::Replace(records) => {
                node.saved = records;
                node.replaced += 1;
            }
            Action::Send(to, bytes) => self.messages.push_back((id, to, bytes)),
            Action::Apply(proposal, data) => {
                node.applied.extend(data);
                node.own.extend(proposal);
            }
            Action::Restore(state) => {
                node.applied = state;
                node.restored += 1;
            }
            Action::Refused(proposal) => node.refused.push(proposal),
            Action::Leads(leads) => node.leads = leads,
            Action::WakeAt(at_ms) => node.wake_at_ms = Some(at_ms),
        }
    }

    fn run(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        while self.now_ms < end_ms {
            self.now_ms += 1;
            for _ in 0..self.messages.len() {
                let (from, to, bytes) = self.messages.pop_front().unwrap();
                if !self.cut.contains(&(from, to)) {
                    self.step(to, Event::Received(from, bytes));
                }
            }
            for id in self.config.clone() {
                if self.nodes[&id].wake_at_ms.is_some_and(|at_ms| at_ms <= self.now_ms) {
                    self.nodes.get_mut(&id).unwrap().wake_at_ms = None;
                    self.step(id, Event::Timer);
                }
            }
        }
    }

    fn leaders(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|(_, node)| node.leads).map(|(id, _)| *id).collect()
    }

    fn leader(&self) -> NodeId {
        let leaders = self.leaders();
        assert_eq!(leaders.len(), 1, "{leaders:?} lead");
        leaders[0]
    }

    fn propose(&mut self, id: NodeId, number: u8) {
        self.step(id, Event::Propose(ProposalId(u64::from(number)), vec![number]));
    }

    fn applied(&self, id: u64) -> &[u8] {
        &self.nodes[&NodeId(id)].applied
    }
}

#[test]
fn one_controller_leads_at_once_and_needs_no_timer() {
    let mut group = Group::new(1);
    assert_eq!(group.leader(), NodeId(1));
    group.propose(NodeId(1), 7);
    assert_eq!((group.applied(1), &group.nodes[&NodeId(1)].own[..]), (&[7][..], &[ProposalId(7)][..]));
    assert_eq!(group.nodes[&NodeId(1)].wake_at_ms, None);
    group.crash(NodeId(1));
    group.start(NodeId(1));
    assert_eq!((group.leader(), group.applied(1)), (NodeId(1), &[7][..]));
}

#[test]
fn three_elect_the_first_and_apply_the_same() {
    let mut group = Group::new(3);
    group.run(3_000);
    assert_eq!(group.leader(), NodeId(1));
    for number in 1..=3 {
        group.propose(NodeId(1), number);
    }
    group.run(1_000);
    for id in 1..=3 {
        assert_eq!(group.applied(id), [1, 2, 3]);
        assert_eq!(group.nodes[&NodeId(id)].consensus.as_ref().unwrap().leader(), Some(NodeId(1)));
    }
    assert_eq!(group.nodes[&NodeId(1)].own, [ProposalId(1), ProposalId(2), ProposalId(3)]);
    assert_eq!(group.nodes[&NodeId(2)].own, [ProposalId(0); 0]);
}

#[test]
fn who_follows_refuses_proposals() {
    let mut group = Group::new(3);
    group.run(3_000);
    group.propose(NodeId(2), 9);
    group.run(1_000);
    assert_eq!(group.nodes[&NodeId(2)].refused, [ProposalId(9)]);
    assert!(group.applied(1).is_empty());
}

#[test]
fn the_others_elect_when_the_leader_is_gone_and_it_catches_up_when_it_returns() {
    let mut group = Group::new(3);
    group.run(3_000);
    group.propose(NodeId(1), 1);
    group.run(10);
    group.crash(NodeId(1));
    group.run(5_000);
    let second = group.leader();
    assert_ne!(second, NodeId(1));
    group.propose(second, 2);
    group.run(100);
    group.start(NodeId(1));
    group.run(5_000);
    for id in 1..=3 {
        assert_eq!(group.applied(id), [1, 2], "{id}");
    }
    assert_eq!(group.leader(), second, "who returns does not disturb");
}

#[test]
fn all_restart_from_what_they_saved() {
    let mut group = Group::new(3);
    group.run(3_000);
    group.propose(NodeId(1), 1);
    group.run(1_000);
    for id in 1..=3 {
        group.crash(NodeId(id));
    }
    assert!(group.leaders().is_empty());
    for id in 1..=3 {
        group.start(NodeId(id));
    }
    group.run(5_000);
    let leader = group.leader();
    group.propose(leader, 2);
    group.run(1_000);
    for id in 1..=3 {
        assert_eq!(group.applied(id), [1, 2], "{id}");
    }
}

#[test]
fn a_leader_without_a_majority_steps_down_and_its_proposal_is_lost() {
    let mut group = Group::new(3);
    group.run(3_000);
    group.propose(NodeId(1), 1);
    group.run(1_000);
    group.isolate(NodeId(1));
    group.propose(NodeId(1), 2);
    group.run(5_000);
    let second = group.leader();
    assert_ne!(second, NodeId(1), "the isolated one leads no more");
    group.propose(second, 3);
    group.run(500);
    group.cut.clear();
    group.run(5_000);
    for id in 1..=3 {
        assert_eq!(group.applied(id), [1, 3], "{id}");
    }
    assert_eq!(group.nodes[&NodeId(1)].own, [ProposalId(1)]);
}

#[test]
fn a_minority_applies_nothing() {
    let mut group = Group::new(3);
    group.run(3_000);
    group.crash(NodeId(2));
    group.crash(NodeId(3));
    group.propose(NodeId(1), 1);
    group.run(10_000);
    assert_eq!((group.applied(1), group.leaders()), (&[][..], vec![]));
    group.start(NodeId(3));
    group.run(5_000);
    let leader = group.leader();
    group.propose(leader, 2);
    group.run(1_000);
    assert_eq!(group.applied(1), group.applied(3));
    assert!(group.applied(1).ends_with(&[2]));
}

#[test]
fn who_is_far_behind_gets_a_snapshot() {
    let mut group = Group::new(3);
    group.run(3_000);
    group.crash(NodeId(3));
    let numbers: Vec<u8> = (0..100).collect();
    for number in &numbers {
        group.propose(NodeId(1), *number);
        group.run(5);
    }
    assert!(group.nodes[&NodeId(1)].replaced >= 4);
    assert!(group.nodes[&NodeId(1)].saved.len() <= 60, "{}", group.nodes[&NodeId(1)].saved.len());
    group.start(NodeId(3));
    group.run(3_000);
    assert_eq!(group.nodes[&NodeId(3)].restored, 1);
    assert_eq!(group.applied(3), numbers);
    // And the one with the snapshot goes on from it.
    group.crash(NodeId(3));
    group.start(NodeId(3));
    group.run(3_000);
    assert_eq!(group.applied(3), numbers);
}

#[test]
fn who_lost_its_disk_gets_everything_again_from_the_same_leader() {
    for count in [3, 30] {
        let mut group = Group::new(3);
        group.run(3_000);
        let mut numbers: Vec<u8> = (0..count).collect();
        for number in &numbers {
            group.propose(NodeId(1), *number);
            group.run(20);
        }
        group.crash(NodeId(2));
        group.nodes.get_mut(&NodeId(2)).unwrap().saved.clear();
        group.start(NodeId(2));
        group.run(3_000);
        assert_eq!((group.leader(), group.applied(2)), (NodeId(1), &numbers[..]));
        assert_eq!(group.nodes[&NodeId(2)].consensus.as_ref().unwrap().leader(), Some(NodeId(1)));
        // It counts again.
        group.crash(NodeId(3));
        numbers.push(count);
        group.propose(NodeId(1), count);
        group.run(1_000);
        assert_eq!((group.leader(), group.applied(2)), (NodeId(1), &numbers[..]));
    }
}

#[test]
fn a_leader_without_a_majority_leads_for_at_most_three_seconds() {
    for after_ms in (0..1_500).step_by(250) {
        let mut group = Group::new(3);
        group.run(3_000 + after_ms);
        group.isolate(NodeId(1));
        let cut_ms = group.now_ms;
        while group.nodes[&NodeId(1)].leads {
            group.run(10);
        }
        let led_ms = group.now_ms - cut_ms;
        assert!((1_000..=3_100).contains(&led_ms), "{led_ms} ms, cut after {after_ms} ms");
    }
}

#[test]
fn messages_of_strangers_and_garbage_change_nothing() {
    let mut group = Group::new(3);
    group.run(3_000);
    group.propose(NodeId(1), 1);
    group.run(1_000);
    let voters = group.nodes[&NodeId(2)].consensus.as_ref().unwrap().voters.clone();
    // A heartbeat that has committed more than there is would end the library.
    let mut heartbeat = Message::default();
    heartbeat.set_msg_type(MessageType::MsgHeartbeat);
    (heartbeat.term, heartbeat.commit) = (1, 1_000);
    let bytes = record::encode(&heartbeat);
    assert_eq!(record::decode(&bytes, &voters), Some(heartbeat));
    for length in 0..bytes.len() {
        assert_eq!(record::decode(&bytes[..length], &voters), None);
    }
    for from in [1, 2, 4] {
        group.step(NodeId(2), Event::Received(NodeId(from), bytes.clone()));
        group.step(NodeId(2), Event::Received(NodeId(from), vec![1, 0, 0]));
    }
    // A local message of the library, which would make it stand for election.
    let mut election = bytes.clone();
    election[1] = MessageType::MsgHup as u8;
    assert_eq!(record::decode(&election, &voters), None);
    group.propose(NodeId(1), 2);
    group.run(1_000);
    assert_eq!((group.leader(), group.applied(2)), (NodeId(1), &[1, 2][..]));
}

#[test]
fn a_controller_must_be_in_its_group() {
    let config = ConsensusConfig { id: NodeId(4), peers: vec![NodeId(1)], tick_ms: 100, entries_max: 20 };
    assert!(Consensus::new(config, []).is_err());
}
