//! Three brokers, one controller, one client.
//!
//! A byte of a log is the number of the message that wrote it, so that two logs can be compared. The client knows the
//! acknowledged messages. Consumers see a prefix of the log that may only grow.

use replica::acks::{AckConfig, AckRequirement, AckStatus, Mode, PendingResponse, Ticket};
use replica::agent::{Agent, AgentAction, AgentConfig, AgentEvent, BrokerIdentity, CallId};
use replica::epochs::EpochList;
use replica::in_sync::{CommittedSet, InSyncConfig};
use replica::master::{HostId, Master, MasterAction, MasterConfig, MasterEvent, MasterStart};
use replica::roster::{
    ConnectionId, Content, ControllerResponse, Heartbeat, Leader, LeaderAction, LeaderConfig, LeaderEvent,
    RequestId, Roster,
};
use replica::slave::{Slave, SlaveAction, SlaveEvent, SlaveStart};
use replica::slave_log::{Attempt, SlaveConfig};
use replica::transfer::{LogRange, PeerId, TransferConfig};
use std::collections::{BTreeMap, VecDeque};
use wire::ha::switch::{Handshake, SlaveFrame};
use wire::ha::{Epoch, FrameHead, MasterFrame};
use wire::units::LogOffset;

/// Effect of a crash on a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crashes {
    /// The process is killed, or the log is flushed before it is acknowledged.
    KeepTheLog,
    /// The machine loses power: the end of the log is gone.
    LoseTheTail,
}

const BROKERS: usize = 3;
const FAULTS_END_MS: u64 = 120_000;
const END_MS: u64 = 200_000;

enum Role {
    None,
    Master(Box<Master>),
    Slave(Box<Slave>),
}

struct Broker {
    is_up: bool,
    /// Number that changes with each start and each role, so that events of an earlier life are ignored.
    life: u64,
    role: Role,
    agent: Agent,
    is_fenced: bool,
    identity: Option<BrokerIdentity>,
    log: Vec<u32>,
    epochs: EpochList,
    confirm: usize,
    stopped_badly: bool,
}

#[derive(Debug)]
enum Frame {
    OfSlave(SlaveFrame),
    OfMaster(MasterFrame, Vec<u32>),
}

/// Connection from a slave to a master.
struct Connection {
    slave: usize,
    slave_life: u64,
    attempt: Attempt,
    master: usize,
    master_life: u64,
    to_master: VecDeque<Frame>,
    to_slave: VecDeque<Frame>,
}

enum Event {
    AgentTimer(usize, u64),
    RoleTimer(usize, u64),
    ControllerTimer,
    ToMaster(PeerId),
    ToSlave(PeerId),
    Closed(PeerId),
    /// A slave tries to connect.
    Connect(usize, u64, Attempt, usize),
    NotConnected(usize, u64, Attempt),
    HaAddress(usize, u64, String),
    ToAgent(usize, u64, AgentEvent),
    Asked(usize, u64, CallId, LeaderEvent),
    Beat(usize, Heartbeat),
    Start(usize),
    Client,
    Fault,
}

struct Group {
    seed: u64,
    random: u64,
    crashes: Crashes,
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    brokers: Vec<Broker>,
    controller: Leader,
    /// Calls that the controller has not answered: broker, life, call.
    calls: BTreeMap<RequestId, (usize, u64, CallId)>,
    connections: BTreeMap<PeerId, Connection>,
    /// Time until which the link between two nodes is cut. The last number is the controller.
    cuts: BTreeMap<(usize, usize), u64>,
    next_message: u32,
    /// Messages whose senders wait, by ticket: message, offset.
    waiting: BTreeMap<Ticket, (u32, usize)>,
    acked: BTreeMap<usize, u32>,
    /// Bytes that consumers have seen.
    seen: Vec<u32>,
    last_ack_ms: u64,
    last_bad_stop_ms: u64,
}

fn at(offset: usize) -> LogOffset {
    LogOffset::new(offset as u64)
}

fn index(offset: LogOffset) -> usize {
    usize::try_from(offset.get()).expect("small")
}

/// Runs a group with faults for two minutes and without for one more, and checks it all the time.
pub fn run(seed: u64, crashes: Crashes) {
    let mut group = Group::new(seed, crashes);
    for broker in 0..BROKERS {
        group.start(broker);
    }
    group.schedule(100, Event::Client);
    group.schedule(5_000, Event::Fault);
    while let Some(((time_ms, _), event)) = group.events.pop_first() {
        if time_ms > END_MS {
            break;
        }
        group.now_ms = time_ms;
        group.happen(event);
    }
    group.check_end();
}

impl Group {
    fn new(seed: u64, crashes: Crashes) -> Self {
        let brokers = (0..BROKERS).map(|_| Broker {
            is_up: false,
            life: 0,
            role: Role::None,
            agent: Agent::new(AgentConfig { controllers: vec!["k".to_owned()], ..AgentConfig::default() }),
            is_fenced: true,
            identity: None,
            log: Vec::new(),
            epochs: EpochList::default(),
            confirm: 0,
            stopped_badly: false,
        });
        let mut controller = Leader::new(LeaderConfig::default(), Roster::default());
        controller.step(0, LeaderEvent::Leads(true), &mut Vec::new());
        let mut group = Self {
            seed,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            crashes,
            now_ms: 0,
            events: BTreeMap::new(),
            sequence: 0,
            brokers: brokers.collect(),
            controller,
            calls: BTreeMap::new(),
            connections: BTreeMap::new(),
            cuts: BTreeMap::new(),
            next_message: 0,
            waiting: BTreeMap::new(),
            acked: BTreeMap::new(),
            seen: Vec::new(),
            last_ack_ms: 0,
            last_bad_stop_ms: 0,
        };
        group.schedule(1_000, Event::ControllerTimer);
        group
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn pick(&mut self) -> usize {
        usize::try_from(self.random(BROKERS as u64)).expect("small")
    }

    fn schedule(&mut self, after_ms: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now_ms + after_ms, self.sequence), event);
    }

    fn soon(&mut self, event: Event) {
        let delay_ms = 1 + self.random(5);
        self.schedule(delay_ms, event);
    }

    fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cuts.get(&(a.min(b), a.max(b))).is_some_and(|until_ms| *until_ms > self.now_ms)
    }

    fn is_alive(&self, broker: usize, life: u64) -> bool {
        self.brokers[broker].is_up && self.brokers[broker].life == life
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::AgentTimer(broker, life) if self.is_alive(broker, life) => {
                self.agent(broker, AgentEvent::Timer);
            }
            Event::ToAgent(broker, life, event) if self.is_alive(broker, life) => self.agent(broker, event),
            Event::RoleTimer(broker, life) if self.is_alive(broker, life) => {
                match self.brokers[broker].role {
                    Role::Master(_) => self.master(broker, MasterEvent::Timer),
                    Role::Slave(_) => self.slave(broker, SlaveEvent::Timer),
                    Role::None => {}
                }
            }
            Event::ControllerTimer => self.control(LeaderEvent::Timer),
            Event::Start(broker) => self.start(broker),
            Event::HaAddress(broker, life, address) if self.is_alive(broker, life) => {
                self.slave(broker, SlaveEvent::Master(Some(address)));
            }
            Event::Connect(slave, life, attempt, master) if self.is_alive(slave, life) => {
                self.connect(slave, attempt, master);
            }
            Event::NotConnected(slave, life, attempt) if self.is_alive(slave, life) => {
                self.slave(slave, SlaveEvent::Closed(attempt));
            }
            Event::ToMaster(peer) => self.deliver_to_master(peer),
            Event::ToSlave(peer) => self.deliver_to_slave(peer),
            Event::Closed(peer) => self.close(peer),
            Event::Asked(broker, life, call, request) => self.asked(broker, life, call, request),
            Event::Beat(broker, heartbeat) if !self.is_cut(broker, BROKERS) => {
                self.control(LeaderEvent::Heartbeat(heartbeat));
            }
            Event::Client => self.send(),
            Event::Fault => self.fault(),
            _ => {}
        }
    }

    // The controller.

    fn control(&mut self, event: LeaderEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut out = Vec::new();
            self.controller.step(self.now_ms, event, &mut out);
            for action in out {
                match action {
                    LeaderAction::Answer(request, answer) => self.answer(request, answer),
                    LeaderAction::Propose(proposal, changes) => {
                        events.push_back(LeaderEvent::Committed(Some(proposal), changes));
                    }
                    LeaderAction::Notify(_, address, mastership) => {
                        let broker: usize = address.parse().expect("a number");
                        let life = self.brokers[broker].life;
                        if !self.is_cut(broker, BROKERS) {
                            self.soon(Event::ToAgent(broker, life, AgentEvent::Notified(mastership.epoch)));
                        }
                    }
                    LeaderAction::Lost(why) => panic!("nobody has allowed that: {why}"),
                    LeaderAction::WakeAt(at_ms) => {
                        self.schedule(at_ms.saturating_sub(self.now_ms), Event::ControllerTimer);
                    }
                }
            }
        }
    }

    fn asked(&mut self, broker: usize, life: u64, call: CallId, request: LeaderEvent) {
        if self.is_cut(broker, BROKERS) {
            return self.schedule(3_000, Event::ToAgent(broker, life, AgentEvent::Answered(call, None)));
        }
        let LeaderEvent::Asked(id, _) = request else { unreachable!("only requests are asked") };
        self.calls.insert(id, (broker, life, call));
        self.control(request);
    }

    fn answer(&mut self, request: RequestId, answer: ControllerResponse) {
        let (broker, life, call) = self.calls.remove(&request).expect("it was asked");
        // Answers to proposals are lost more often: they decide whose acknowledgements count.
        let is_proposal = matches!(answer.content, Content::Set(_));
        let is_lost = self.random(if is_proposal { 3 } else { 20 }) == 0 && self.now_ms < FAULTS_END_MS;
        let (after_ms, answer) = if is_lost { (3_000, None) } else { (2, Some(answer)) };
        self.schedule(after_ms, Event::ToAgent(broker, life, AgentEvent::Answered(call, answer)));
    }

    // Brokers.

    fn start(&mut self, broker: usize) {
        let it = &mut self.brokers[broker];
        if it.is_up {
            return;
        }
        it.is_up = true;
        it.life += 1;
        it.is_fenced = true;
        it.role = Role::None;
        it.agent = Agent::new(AgentConfig {
            cluster: "c".to_owned(),
            name: "a".to_owned(),
            address: broker.to_string(),
            check_code: format!("{broker};{}", it.life),
            controllers: vec!["k".to_owned()],
            log_epoch: it.epochs.last().map_or(Epoch::ZERO, |last| last.epoch),
            log_end: Some(at(it.log.len())),
            may_have_lost: it.stopped_badly,
            ..AgentConfig::default()
        });
        let identity = it.identity.clone();
        self.agent(broker, AgentEvent::Start(identity));
    }

    fn agent(&mut self, broker: usize, event: AgentEvent) {
        let mut out = Vec::new();
        self.brokers[broker].agent.step(self.now_ms, event, &mut out);
        for action in out {
            let life = self.brokers[broker].life;
            match action {
                AgentAction::AskLeader(call, _) => {
                    let is_cut = self.is_cut(broker, BROKERS);
                    let leader = (!is_cut).then(|| "k".to_owned());
                    let after_ms = if is_cut { 3_000 } else { 2 };
                    self.schedule(after_ms, Event::ToAgent(broker, life, AgentEvent::Leader(call, leader)));
                }
                AgentAction::Call(call, _, request) => {
                    let id = RequestId(call.0 * 1_000 + life * 10_000_000 + broker as u64);
                    self.soon(Event::Asked(broker, life, call, LeaderEvent::Asked(id, request)));
                }
                AgentAction::Heartbeat(own) => {
                    let it = &self.brokers[broker];
                    let heartbeat = Heartbeat {
                        name: "a".to_owned(),
                        broker: own,
                        connection: ConnectionId(broker as u64 * 1_000 + self.brokers[broker].life),
                        timeout_ms: 10_000,
                        epoch: it.epochs.last().map(|last| last.epoch),
                        end: at(it.log.len()),
                        kept: Some(at(it.log.len())),
                        priority: i32::MAX,
                    };
                    self.soon(Event::Beat(broker, heartbeat));
                }
                AgentAction::Save(identity) => {
                    self.brokers[broker].identity = Some(identity);
                    self.soon(Event::ToAgent(broker, life, AgentEvent::Saved));
                }
                AgentAction::Lead(epoch, set) => self.lead(broker, epoch, set),
                AgentAction::LeadOn(epoch, set) => {
                    self.master(broker, MasterEvent::SetCommitted(set));
                    self.master(broker, MasterEvent::Elected(epoch));
                }
                AgentAction::Follow(_, _, address) => self.follow(broker, address),
                AgentAction::SetCommitted(set) => self.master(broker, MasterEvent::SetCommitted(set)),
                AgentAction::SetRefused => self.master(broker, MasterEvent::SetRefused),
                AgentAction::SetUnknown => self.master(broker, MasterEvent::SetUnknown),
                AgentAction::Unfence => self.brokers[broker].is_fenced = false,
                AgentAction::FollowOn(_) | AgentAction::Resign(_) | AgentAction::Unknown => {}
                AgentAction::Refuse(error) => panic!("seed {}: {error}", self.seed),
                AgentAction::StaleEpoch(epoch) => panic!("seed {}: stale {epoch}", self.seed),
                AgentAction::WakeAt(at_ms) => {
                    self.schedule(at_ms.saturating_sub(self.now_ms), Event::AgentTimer(broker, life));
                }
            }
        }
    }

    fn end_role(&mut self, broker: usize) {
        match self.brokers[broker].role {
            Role::Master(_) => self.master(broker, MasterEvent::Stop),
            Role::Slave(_) => self.slave(broker, SlaveEvent::Stop),
            Role::None => {}
        }
        self.brokers[broker].role = Role::None;
    }

    fn lead(&mut self, broker: usize, epoch: Epoch, committed: CommittedSet) {
        self.end_role(broker);
        let it = &mut self.brokers[broker];
        let keeps = it.epochs.last().is_some_and(|last| last.epoch == epoch) && !it.stopped_badly;
        if !keeps {
            it.epochs.begin(epoch, at(it.log.len())).expect("epochs grow");
        }
        it.stopped_badly = false;
        let transfer = TransferConfig { batch_bytes: 7, file_bytes: 50, ..TransferConfig::default() };
        let acks = AckConfig { mode: Mode::Controller, is_all_ack: true, ..AckConfig::default() };
        let config = MasterConfig { transfer, acks, in_sync: InSyncConfig::default() };
        let start = MasterStart {
            own: it.agent.broker().expect("it has an id"),
            committed,
            epochs: it.epochs.clone(),
            log: LogRange { minimum: at(0), end: at(it.log.len()) },
            confirm: at(it.confirm),
        };
        it.role = Role::Master(Box::new(Master::elected(self.now_ms, config, start)));
        self.master(broker, MasterEvent::Timer);
    }

    fn follow(&mut self, broker: usize, address: String) {
        self.end_role(broker);
        let it = &mut self.brokers[broker];
        it.stopped_badly = false;
        let broker_id = it.agent.broker().expect("it has an id");
        let start = SlaveStart {
            handshake: Handshake { broker_id, is_from_last_file: false, is_learner: false },
            epochs: it.epochs.clone(),
            end: at(it.log.len()),
            flushed: at(it.log.len()),
            confirm: at(it.confirm),
        };
        let config = SlaveConfig { file_bytes: 50, ..SlaveConfig::default() };
        it.role = Role::Slave(Box::new(Slave::of_elected(config, start)));
        let life = it.life;
        self.schedule(30, Event::HaAddress(broker, life, address));
    }

    fn master(&mut self, broker: usize, event: MasterEvent) {
        let Role::Master(master) = &mut self.brokers[broker].role else { return };
        let mut out = Vec::new();
        master.step(self.now_ms, event, &mut out);
        let (life, end) = (self.brokers[broker].life, at(self.brokers[broker].log.len()));
        let mut is_flushed = false;
        for action in out {
            match action {
                MasterAction::Flush => is_flushed = true,
                MasterAction::HandshakeResponse(peer, reply) => {
                    self.send_to_slave(peer, Frame::OfMaster(MasterFrame::Handshake(reply), Vec::new()));
                }
                MasterAction::Send(peer, head) => {
                    let (from, bytes) = head.piece();
                    let body = self.brokers[broker].log[index(from)..][..bytes as usize].to_vec();
                    self.send_to_slave(peer, Frame::OfMaster(MasterFrame::Transfer(head), body));
                }
                MasterAction::Close(peer, _) => self.soon(Event::Closed(peer)),
                MasterAction::Answer(ticket, status) => self.answered(ticket, status),
                MasterAction::Confirm(confirm) => self.confirm(broker, confirm),
                MasterAction::ProposeSet(members, epoch) => {
                    self.soon(Event::ToAgent(broker, life, AgentEvent::ProposeSet(members, epoch)));
                }
                MasterAction::SaveEpochs(epochs) => self.brokers[broker].epochs = epochs,
                MasterAction::Warn(..) => {}
                MasterAction::WakeAt(at_ms) => {
                    self.schedule(at_ms.saturating_sub(self.now_ms), Event::RoleTimer(broker, life));
                }
            }
        }
        if is_flushed {
            self.master(broker, MasterEvent::Flushed(end));
        }
    }

    fn slave(&mut self, broker: usize, event: SlaveEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Role::Slave(slave) = &mut self.brokers[broker].role else { return };
            let mut out = Vec::new();
            slave.step(self.now_ms, event, &mut out);
            let life = self.brokers[broker].life;
            for action in out {
                match action {
                    SlaveAction::CutIncomplete => {
                        events.push_back(SlaveEvent::Cut(at(self.brokers[broker].log.len())));
                    }
                    SlaveAction::Cut(point) => {
                        self.brokers[broker].log.truncate(index(point));
                        events.push_back(SlaveEvent::Cut(point));
                    }
                    SlaveAction::Connect(attempt, address) => {
                        let master = address.parse().expect("a number");
                        self.soon(Event::Connect(broker, life, attempt, master));
                    }
                    SlaveAction::Handshake(attempt, handshake) => {
                        self.send_to_master(
                            broker,
                            attempt,
                            Frame::OfSlave(SlaveFrame::Handshake(handshake)),
                        );
                    }
                    SlaveAction::Report(attempt, end) => {
                        self.send_to_master(broker, attempt, Frame::OfSlave(SlaveFrame::Report(end)))
                    }
                    SlaveAction::Compare { at: from, bytes } | SlaveAction::Append { at: from, bytes } => {
                        panic!("{from} {bytes}: appended with its frame")
                    }
                    SlaveAction::SaveEpochs(epochs) => self.brokers[broker].epochs = epochs,
                    SlaveAction::Confirm(confirm) => self.confirm(broker, confirm),
                    SlaveAction::Close(attempt, _) => {
                        let is_it = |it: &Connection| {
                            (it.slave, it.slave_life, it.attempt) == (broker, life, attempt)
                        };
                        let peer = self.connections.iter().find(|(_, it)| is_it(it)).map(|(peer, _)| *peer);
                        peer.into_iter().for_each(|peer| self.soon(Event::Closed(peer)));
                    }
                    SlaveAction::Consistent => {}
                    SlaveAction::WakeAt(at_ms) => {
                        self.schedule(at_ms.saturating_sub(self.now_ms), Event::RoleTimer(broker, life));
                    }
                }
            }
        }
    }

    /// A transfer whose body is appended as soon as the machine asks for it.
    fn transfer(&mut self, broker: usize, attempt: Attempt, head: FrameHead, body: &[u32]) {
        let Role::Slave(slave) = &mut self.brokers[broker].role else { return };
        let mut out = Vec::new();
        slave.step(self.now_ms, SlaveEvent::Frame(attempt, MasterFrame::Transfer(head)), &mut out);
        for action in out {
            match action {
                SlaveAction::Append { at: from, .. } => {
                    assert_eq!(index(from), self.brokers[broker].log.len(), "seed {}", self.seed);
                    self.brokers[broker].log.extend(body);
                    let end = at(self.brokers[broker].log.len());
                    self.slave(broker, SlaveEvent::Appended(end));
                }
                SlaveAction::SaveEpochs(epochs) => self.brokers[broker].epochs = epochs,
                SlaveAction::Confirm(confirm) => self.confirm(broker, confirm),
                SlaveAction::Close(..) => self.slave(broker, SlaveEvent::Timer),
                SlaveAction::WakeAt(at_ms) => {
                    let life = self.brokers[broker].life;
                    self.schedule(at_ms.saturating_sub(self.now_ms), Event::RoleTimer(broker, life));
                }
                other => panic!("seed {}: {other:?} after a transfer", self.seed),
            }
        }
    }

    // The network.

    fn connect(&mut self, slave: usize, attempt: Attempt, master: usize) {
        let slave_life = self.brokers[slave].life;
        let is_there = self.brokers[master].is_up && matches!(self.brokers[master].role, Role::Master(_));
        if !is_there || self.is_cut(slave, master) {
            return self.schedule(100, Event::NotConnected(slave, slave_life, attempt));
        }
        self.sequence += 1;
        let peer = PeerId(self.sequence);
        let master_life = self.brokers[master].life;
        let (to_master, to_slave) = (VecDeque::new(), VecDeque::new());
        let connection = Connection { slave, slave_life, attempt, master, master_life, to_master, to_slave };
        self.connections.insert(peer, connection);
        self.master(master, MasterEvent::Connected(peer, HostId(peer.0.into())));
        self.slave(slave, SlaveEvent::Connected(attempt));
    }

    fn send_to_slave(&mut self, peer: PeerId, frame: Frame) {
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.to_slave.push_back(frame);
            self.soon(Event::ToSlave(peer));
        }
    }

    fn send_to_master(&mut self, slave: usize, attempt: Attempt, frame: Frame) {
        let life = self.brokers[slave].life;
        let is_it = |it: &Connection| (it.slave, it.slave_life, it.attempt) == (slave, life, attempt);
        if let Some((peer, connection)) = self.connections.iter_mut().find(|(_, it)| is_it(it)) {
            connection.to_master.push_back(frame);
            let peer = *peer;
            self.soon(Event::ToMaster(peer));
        }
    }

    fn deliver_to_master(&mut self, peer: PeerId) {
        let Some(connection) = self.connections.get(&peer) else { return };
        let (slave, master, life) = (connection.slave, connection.master, connection.master_life);
        if self.is_cut(slave, master) {
            return self.schedule(50, Event::ToMaster(peer));
        }
        let frame = self.connections.get_mut(&peer).and_then(|it| it.to_master.pop_front());
        if !self.is_alive(master, life) {
            return;
        }
        match frame {
            Some(Frame::OfSlave(frame)) => self.master(master, MasterEvent::received(peer, frame)),
            other => assert!(other.is_none(), "seed {}: {other:?} to a master", self.seed),
        }
    }

    fn deliver_to_slave(&mut self, peer: PeerId) {
        let Some(connection) = self.connections.get(&peer) else { return };
        let (slave, master, attempt) = (connection.slave, connection.master, connection.attempt);
        let (slave_life, master_life) = (connection.slave_life, connection.master_life);
        if self.is_cut(slave, master) {
            return self.schedule(50, Event::ToSlave(peer));
        }
        let frame = self.connections.get_mut(&peer).and_then(|it| it.to_slave.pop_front());
        let is_transfer = matches!(frame, Some(Frame::OfMaster(MasterFrame::Transfer(_), _)));
        if self.is_alive(slave, slave_life) {
            match frame {
                Some(Frame::OfMaster(MasterFrame::Transfer(head), body)) => {
                    self.transfer(slave, attempt, head, &body);
                }
                Some(Frame::OfMaster(frame, _)) => self.slave(slave, SlaveEvent::Frame(attempt, frame)),
                other => assert!(other.is_none(), "seed {}: {other:?} to a slave", self.seed),
            }
        }
        if is_transfer && self.is_alive(master, master_life) {
            self.master(master, MasterEvent::Sent(peer));
        }
    }

    fn close(&mut self, peer: PeerId) {
        let Some(connection) = self.connections.remove(&peer) else { return };
        if self.is_alive(connection.master, connection.master_life) {
            self.master(connection.master, MasterEvent::Closed(peer));
        }
        if self.is_alive(connection.slave, connection.slave_life) {
            self.slave(connection.slave, SlaveEvent::Closed(connection.attempt));
        }
    }

    // Client, faults and checks.

    fn send(&mut self) {
        let after_ms = 20 + self.random(60);
        self.schedule(after_ms, Event::Client);
        for broker in 0..BROKERS {
            let it = &mut self.brokers[broker];
            let Role::Master(master) = &it.role else { continue };
            if !it.is_up || it.is_fenced || !matches!(master.need(0), Some(Ok(_))) {
                continue;
            }
            self.next_message += 1;
            let message = self.next_message;
            let from = it.log.len();
            it.log.extend([message; 3]);
            let end = at(it.log.len());
            let ticket = Ticket(u64::from(message));
            self.waiting.insert(ticket, (message, from));
            self.master(broker, MasterEvent::Log(LogRange { minimum: at(0), end }));
            self.master(
                broker,
                MasterEvent::Wait(PendingResponse { ticket, end, need: AckRequirement::All }),
            );
        }
    }

    fn answered(&mut self, ticket: Ticket, status: AckStatus) {
        let (message, from) = self.waiting.remove(&ticket).expect("answered once");
        if status == AckStatus::Ok {
            let former = self.acked.insert(from, message);
            assert_eq!(former, None, "seed {}: two messages acknowledged at {from}", self.seed);
            self.last_ack_ms = self.now_ms;
        }
    }

    /// Checks that the bytes that consumers have seen never change.
    fn confirm(&mut self, broker: usize, confirm: LogOffset) {
        let it = &mut self.brokers[broker];
        it.confirm = index(confirm);
        let log = &it.log[..it.confirm];
        let common = log.len().min(self.seen.len());
        assert!(
            log[..common] == self.seen[..common],
            "seed {}: broker {broker} shows other messages",
            self.seed
        );
        self.seen.extend(&log[common..]);
    }

    fn fault(&mut self) {
        if self.now_ms >= FAULTS_END_MS {
            self.cuts.clear();
            return (0..BROKERS).for_each(|broker| self.schedule(1, Event::Start(broker)));
        }
        let after_ms = 500 + self.random(8_000);
        self.schedule(after_ms, Event::Fault);
        let broker = self.pick();
        match self.random(6) {
            0 | 1 => self.crash(broker),
            2 | 3 => {
                let other = (broker + 1 + self.pick() % (BROKERS - 1)) % BROKERS;
                let until_ms = self.now_ms + 200 + self.random(25_000);
                self.cuts.insert((broker.min(other), broker.max(other)), until_ms);
            }
            4 => {
                let until_ms = self.now_ms + 200 + self.random(25_000);
                self.cuts.insert((broker, BROKERS), until_ms);
            }
            _ => {
                let count = self.connections.len() as u64;
                if count > 0 {
                    let which = usize::try_from(self.random(count)).expect("small");
                    let peer = *self.connections.keys().nth(which).expect("counted");
                    self.close(peer);
                }
            }
        }
    }

    fn crash(&mut self, broker: usize) {
        if !self.brokers[broker].is_up {
            return;
        }
        let loses = self.crashes == Crashes::LoseTheTail && self.may_lose(broker);
        let bytes = usize::try_from(self.random(30)).expect("small");
        let it = &mut self.brokers[broker];
        it.is_up = false;
        it.role = Role::None;
        if loses {
            it.log.truncate(it.log.len().saturating_sub(bytes));
            it.epochs.cut(at(it.log.len() + 1));
            it.confirm = it.confirm.min(it.log.len());
            it.stopped_badly = true;
            self.last_bad_stop_ms = self.now_ms;
        }
        let life = it.life;
        let is_its = |it: &&Connection| it.slave == broker || it.master == broker;
        let peers: Vec<PeerId> =
            self.connections.iter().filter(|(_, it)| is_its(it)).map(|(peer, _)| *peer).collect();
        peers.into_iter().for_each(|peer| self.close(peer));
        self.control(LeaderEvent::Disconnected(ConnectionId(broker as u64 * 1_000 + life)));
        let down_ms = 50 + self.random(12_000);
        self.schedule(down_ms, Event::Start(broker));
    }

    /// A log may lose its end only while another member has everything and has not lost anything lately.
    fn may_lose(&self, broker: usize) -> bool {
        let own = self.brokers[broker].agent.broker();
        let set = self.controller.roster().set("a");
        let has_another =
            set.is_some_and(|set| set.in_sync.members.iter().any(|member| Some(*member) != own));
        has_another && self.now_ms > self.last_bad_stop_ms + 30_000
    }

    fn check_end(&self) {
        let seed = self.seed;
        assert!(
            self.last_ack_ms > END_MS - 5_000,
            "seed {seed}: no message acknowledged since {}",
            self.last_ack_ms
        );
        let masters: Vec<&Broker> =
            self.brokers.iter().filter(|broker| matches!(broker.role, Role::Master(_))).collect();
        assert_eq!(masters.len(), 1, "seed {seed}: masters at the end");
        let log = &masters[0].log;
        for (from, message) in &self.acked {
            assert_eq!(
                log.get(*from),
                Some(message),
                "seed {seed}: acknowledged message {message} at {from} is lost"
            );
        }
        for broker in &self.brokers {
            let common = broker.log.len().min(log.len());
            assert!(broker.log[..common] == log[..common], "seed {seed}: the logs differ");
            assert!(broker.log.len() + 50 > log.len(), "seed {seed}: a broker did not catch up");
        }
        let set = self.controller.roster().set("a").expect("it exists");
        assert_eq!(set.in_sync.members.len(), BROKERS, "seed {seed}: members at the end");
    }
}
