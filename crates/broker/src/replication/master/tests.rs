use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use net::Stream;
use replica::acks::{AckConfig, Mode};
use replica::epochs::EpochList;
use replica::in_sync::{CommittedSet, SetEpoch};
use replica::master::{self, MasterConfig, MasterStart};
use replica::transfer::PeerId;
use store::RealDisk;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use wire::ha::switch::{Handshake, SlaveFrame};
use wire::ha::{BrokerId, Epoch};
use wire::units::LogOffset;

use super::super::controller;
use super::connection::Event;
use super::{MasterEvent, PER_ADDRESS_MAX, Shell, first_of_most, range};
use crate::clock::Clock;
use crate::state::TableVersions;
use crate::table_changes;
use crate::testing::{Fixture, until};

#[test]
fn slaves_of_an_elected_master_get_only_what_is_on_disk() {
    let fixture = Fixture::with(|config| config.store.flush_interval = Duration::from_secs(3_600));
    fixture.put("T", 0, b"not on disk yet", b"");
    let store = &fixture.broker.store;
    assert!(store.appended() > LogOffset::ZERO);
    assert_eq!(range(store, false).end, store.appended());
    assert_eq!(range(store, true).end, LogOffset::ZERO);
}

#[test]
fn room_for_a_slave_is_made_by_the_machine_that_has_most_silent_connections() {
    let machine = |last| IpAddr::from([10, 0, 0, last]);
    let idle =
        |list: &[(u64, u8)]| first_of_most(list.iter().map(|(id, last)| (PeerId(*id), machine(*last))));
    assert_eq!(
        idle(&[(1, 1), (2, 2), (4, 2), (3, 2)]),
        Some(PeerId(2)),
        "not the older one of another machine"
    );
    assert_eq!(idle(&[]), None);
}

const OWN: BrokerId = BrokerId::new(1);
const SLAVE: BrokerId = BrokerId::new(2);

/// An elected master alone in its in-sync set, with a slave that has caught up with the log, and where its proposals go.
struct Master {
    fixture: Fixture,
    shell: Shell,
    proposals: mpsc::UnboundedReceiver<(BTreeSet<BrokerId>, SetEpoch)>,
}

impl Master {
    fn new() -> Self {
        Self::of(&[OWN], 0)
    }

    /// A master of these members with so many messages, which nothing flushes unless asked.
    fn of(members: &[BrokerId], messages: usize) -> Self {
        Self::with(members, messages, MasterConfig::default())
    }

    fn with(members: &[BrokerId], messages: usize, config: MasterConfig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let fixture = Fixture::timed(Arc::new(RealDisk), Clock::standing(1_000_000), directory, |config| {
            config.replication.controller.is_enabled = true;
            config.store.flush_interval = Duration::from_secs(3_600);
        });
        (0..messages).for_each(|_| fixture.put("T", 0, b"body", b""));
        let broker = fixture.broker.clone();
        broker.replication.replicas.elected().own = OWN.get();
        broker.replication.table_copies.begin(broker.runtime.clock.steady());
        broker.replication.role.lead();
        let committed = CommittedSet { members: members.iter().copied().collect(), epoch: SetEpoch(4) };
        let mut epochs = EpochList::default();
        epochs.begin(Epoch::new(1), LogOffset::ZERO).unwrap();
        let log = range(&broker.store, false);
        let start = MasterStart { own: OWN, committed, epochs, log, confirm: LogOffset::ZERO };
        let machine = master::Master::elected(0, config, start);
        let (sender, proposals) = mpsc::unbounded_channel();
        let shell = Shell::new(broker.group_parts(), machine, Some(sender), mpsc::channel(1).0);
        let mut master = Self { fixture, shell, proposals };
        master.connect(PeerId(1), SLAVE);
        master
    }

    /// Connects a slave that has the whole log.
    fn connect(&mut self, peer: PeerId, broker_id: BrokerId) {
        let handshake = Handshake { broker_id, is_from_last_file: false, is_learner: false };
        self.shell.step(MasterEvent::Connected(peer, IpAddr::from([127, 0, 0, 1]).into()));
        self.shell.step(MasterEvent::Handshake(peer, handshake));
        self.shell.step(MasterEvent::Reported(peer, self.shell.range().end));
    }

    /// Returns the proposed members' ids after another round.
    fn proposed(&mut self) -> Option<Vec<u64>> {
        self.shell.admit();
        let (members, epoch) = self.proposals.try_recv().ok()?;
        assert_eq!(epoch, SetEpoch(4));
        Some(members.into_iter().map(BrokerId::get).collect())
    }

    fn commit(&self, offset: i64) -> TableVersions {
        let offsets = &self.fixture.broker.tables.offsets;
        assert!(offsets.commit("g", "T", 0, offset));
        let versions = table_changes::versions(&self.fixture.broker.tables);
        // A slave asks what changed, so that the next commit is of a later generation.
        offsets.changed_after(versions.offsets, "", usize::MAX);
        versions
    }

    fn slave_has(&self, versions: TableVersions) {
        assert!(self.fixture.broker.replication.table_copies.note(SLAVE, versions, Duration::ZERO));
    }
}

#[test]
fn no_message_is_answered_before_a_named_heir_has_it() {
    let acks = AckConfig { mode: Mode::Controller, in_sync_replicas: 2, ..AckConfig::default() };
    let other = BrokerId::new(3);
    let config = MasterConfig { acks, ..MasterConfig::default() };
    let mut master = Master::with(&[OWN, SLAVE, other], 1, config);
    master.connect(PeerId(2), other);
    let broker = master.fixture.broker.clone();
    let before = broker.store.appended();
    assert_eq!(broker.store.replicated(), Some(before));
    let heirs = broker.replication.replicas.elected().heirs.clone();
    assert_eq!(heirs, [(SLAVE, before), (other, before)]);
    // The agent names an heir, and then the other slave has a message first.
    broker.replication.replicas.elected().named_heirs = [SLAVE].into();
    master.fixture.put("T", 0, b"body", b"");
    let end = broker.store.appended();
    master.shell.step(MasterEvent::Log(range(&broker.store, false)));
    master.shell.step(MasterEvent::Reported(PeerId(2), end));
    assert_eq!(broker.store.replicated(), Some(before));
    master.shell.step(MasterEvent::Reported(PeerId(1), end));
    assert_eq!(broker.store.replicated(), Some(end));
}

#[test]
fn a_message_that_needs_no_slave_waits_for_a_named_heir() {
    let acks = AckConfig { mode: Mode::Controller, ..AckConfig::default() };
    let mut master = Master::with(&[OWN, SLAVE], 1, MasterConfig { acks, ..MasterConfig::default() });
    let broker = master.fixture.broker.clone();
    let durability = &broker.replication.durability;
    let heirs = || controller::heirs(&mut broker.replication.replicas.elected(), durability);
    assert!(!durability.waits_for_slaves());
    // A message is answered that the thread `ha-master` does not know yet.
    master.fixture.put("T", 0, b"body", b"");
    assert_eq!(heirs(), []);
    assert!(!durability.waits_for_slaves(), "nothing waits without an heir");
    let answered = broker.store.appended();
    master.shell.step(MasterEvent::Log(range(&broker.store, false)));
    master.shell.step(MasterEvent::Reported(PeerId(1), answered));
    assert_eq!(heirs(), [SLAVE]);
    broker.replication.replicas.elected().named_heirs = [SLAVE].into();
    master.fixture.put("T", 0, b"body", b"");
    let end = broker.store.appended();
    assert!(!durability.is_stored(end));
    master.shell.step(MasterEvent::Log(range(&broker.store, false)));
    assert!(durability.is_stored(answered) && !durability.is_stored(end));
    master.shell.step(MasterEvent::Sent(PeerId(1)));
    master.shell.step(MasterEvent::Reported(PeerId(1), end));
    assert!(durability.is_stored(end));
    // The election is rejected while a message waits.
    master.fixture.put("T", 0, b"body", b"");
    let (sender, outcome) = std::sync::mpsc::channel();
    durability.when(broker.store.appended(), move |outcome| sender.send(outcome).unwrap());
    broker.replication.replicas.elected().named_heirs.clear();
    master.shell.step(MasterEvent::Log(range(&broker.store, false)));
    assert_eq!(outcome.recv(), Ok(crate::durability::Outcome::Stored));
    assert!(!durability.waits_for_slaves());
}

#[test]
fn a_slave_joins_the_in_sync_set_with_everything_that_answers_told() {
    let mut master = Master::new();
    let broker = master.fixture.broker.clone();
    assert_eq!(master.proposed(), None, "nobody knows which tables the slave has");
    master.slave_has(TableVersions::default());
    assert_eq!(master.proposed(), None, "the slave lacks topics and groups");
    let at_first = table_changes::versions(&broker.tables);
    let told = master.commit(7);
    assert!(
        table_changes::are_copied(&broker.replication, &broker.runtime, &told),
        "no answer waits for a slave that takes a table yet"
    );
    master.slave_has(at_first);
    assert_eq!(master.proposed(), None, "it may not know what was told meanwhile");
    let later = master.commit(8);
    assert!(
        !table_changes::are_copied(&broker.replication, &broker.runtime, &later),
        "from now on answers wait for it"
    );
    master.slave_has(told);
    assert_eq!(master.proposed(), Some(vec![1, 2]));
    assert!(!table_changes::are_copied(&broker.replication, &broker.runtime, &later));
    master.slave_has(later);
    assert!(table_changes::are_copied(&broker.replication, &broker.runtime, &later));
}

#[test]
fn a_slave_that_does_not_take_the_tables_stays_outside_the_set() {
    let mut master = Master::new();
    let broker = master.fixture.broker.clone();
    let told = master.commit(7);
    master.slave_has(TableVersions::default());
    broker.runtime.clock.set(broker.runtime.now_ms() + 2_000);
    assert_eq!(master.proposed(), None);
    assert!(
        master.shell.admission.is_none()
            && table_changes::are_copied(&broker.replication, &broker.runtime, &told)
    );
    // The machine proposes it again after a while.
    master.slave_has(told);
    master.shell.propose([OWN, SLAVE].into(), SetEpoch(4));
    assert_eq!(master.proposed(), None, "what the slave said before does not count: its process may be new");
    master.slave_has(told);
    assert_eq!(master.proposed(), Some(vec![1, 2]));
}

#[test]
fn a_slave_of_rocketmq_joins_without_asking_for_tables() {
    let mut master = Master::new();
    assert_eq!(master.proposed(), None);
    let broker = master.fixture.broker.clone();
    broker.runtime.clock.set(broker.runtime.now_ms() + 1_500);
    assert_eq!(master.proposed(), Some(vec![1, 2]));
}

#[test]
fn the_last_slave_leaves_when_what_it_has_is_on_the_disk_of_the_master() {
    let mut master = Master::of(&[OWN, SLAVE], 1);
    let store = master.fixture.broker.store.clone();
    let end = store.appended();
    assert!(store.flushed() < end);
    master.shell.step(MasterEvent::Closed(PeerId(1)));
    assert_eq!(master.proposed(), None);
    until("the log is flushed", || store.flushed() >= end);
    master.shell.step(MasterEvent::Flushed(store.flushed()));
    assert_eq!(master.proposed(), Some(vec![1]));
}

#[test]
fn a_slave_that_is_gone_is_not_proposed() {
    let mut master = Master::new();
    master.shell.step(MasterEvent::Closed(PeerId(1)));
    master.slave_has(table_changes::versions(&master.fixture.broker.tables));
    assert_eq!(master.proposed(), None);
    assert!(master.shell.admission.is_none());
}

/// A connection of a machine to the port for slaves: both ends.
async fn connected(master: &mut Shell, machine: [u8; 4]) -> (PeerId, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::from(machine), 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(listener.accept(), socket.connect(address));
    let (stream, remote) = near.unwrap();
    master.accept(Stream::Plain(stream), remote);
    (PeerId(master.last_peer), far.unwrap())
}

#[tokio::test]
async fn a_connection_from_elsewhere_does_not_take_the_place_of_a_slave() {
    let mut master = Master::new();
    let broker = master.fixture.broker.clone();
    let shell = &mut master.shell;
    shell.last_peer = 1;
    broker.replication.replicas.slave_machines.note(
        [127, 0, 0, 1].into(),
        None,
        broker.runtime.clock.steady(),
    );
    let handshake = || {
        let handshake = Handshake { broker_id: SLAVE, is_from_last_file: false, is_learner: false };
        Event::Received(SlaveFrame::Handshake(handshake))
    };
    let (slave, _open) = connected(shell, [127, 0, 0, 1]).await;
    shell.take(slave, handshake());
    assert_eq!(shell.machine.peer_of(SLAVE), Some(slave));
    let (stranger, _open) = connected(shell, [127, 0, 0, 2]).await;
    shell.take(stranger, handshake());
    assert_eq!(shell.machine.peer_of(SLAVE), Some(slave));
    assert!(!shell.peers.contains_key(&stranger));
    // A slave that comes again before the master has noticed that its connection is gone.
    let (again, _open) = connected(shell, [127, 0, 0, 1]).await;
    shell.take(again, handshake());
    assert_eq!(shell.machine.peer_of(SLAVE), Some(again));
}

#[tokio::test]
async fn a_slave_that_replicates_from_another_address_counts_until_its_own_address_connects() {
    let mut master = Master::new();
    let broker = master.fixture.broker.clone();
    let shell = &mut master.shell;
    shell.last_peer = 1;
    let is_known = |shell: &Shell, id: PeerId| shell.peers[&id].progress.is_known();
    let (elsewhere, _open) = connected(shell, [127, 0, 0, 2]).await;
    let (stranger, _open) = connected(shell, [127, 0, 0, 3]).await;
    for (id, slave) in [(elsewhere, 2), (stranger, 3)] {
        let broker_id = BrokerId::new(slave);
        let handshake = Handshake { broker_id, is_from_last_file: false, is_learner: false };
        shell.take(id, Event::Received(SlaveFrame::Handshake(handshake)));
    }
    assert!(!is_known(shell, elsewhere), "no slave takes tables");
    broker.replication.replicas.slave_machines.note(
        [127, 0, 0, 1].into(),
        None,
        broker.runtime.clock.steady(),
    );
    shell.is_recount_due = true;
    shell.recount();
    assert!(is_known(shell, elsewhere) && !is_known(shell, stranger));
    let (own, _open) = connected(shell, [127, 0, 0, 1]).await;
    assert!(is_known(shell, own) && !is_known(shell, elsewhere) && !is_known(shell, stranger));
}

#[tokio::test]
async fn the_connection_that_is_furthest_behind_gives_way_to_one_of_the_same_address() {
    let mut master = Master::new();
    let broker = master.fixture.broker.clone();
    let shell = &mut master.shell;
    shell.last_peer = 1;
    let mut open = Vec::new();
    for _ in 0..PER_ADDRESS_MAX {
        open.push(connected(shell, [127, 0, 0, 1]).await);
    }
    let reports = |shell: &Shell, id: PeerId, end| {
        broker.replication.replicas.note_report(&shell.peers[&id].progress, end)
    };
    let ids: Vec<PeerId> = open.iter().map(|(id, _)| *id).collect();
    ids.iter().for_each(|id| reports(shell, *id, if *id == ids[0] { 900 } else { 0 }));
    for _ in 0..2 * PER_ADDRESS_MAX {
        let (id, stream) = connected(shell, [127, 0, 0, 1]).await;
        reports(shell, id, 0);
        open.push((id, stream));
        assert_eq!(shell.peers.len(), PER_ADDRESS_MAX);
    }
    assert!(shell.peers.contains_key(&ids[0]), "the slave that follows stays");
    let (of_another, _open) = connected(shell, [127, 0, 0, 2]).await;
    assert!(shell.peers.contains_key(&of_another) && shell.peers.len() == PER_ADDRESS_MAX + 1);
}

#[test]
fn a_slave_that_holds_up_answers_is_put_out_of_the_set() {
    let mut master = Master::new();
    let both = CommittedSet { members: [OWN, SLAVE].into(), epoch: SetEpoch(5) };
    master.shell.step(MasterEvent::SetCommitted(both));
    assert!(master.proposals.try_recv().is_err());
    master.shell.put_out(&[SLAVE]);
    let (members, _) = master.proposals.try_recv().unwrap();
    assert_eq!(members, [OWN].into());
}
