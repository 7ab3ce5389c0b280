//! Tests of replication connections. Arbitrary bytes end only their connection, and false reports do not count. The
//! peers are sockets of the test, on ports that the system assigns.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use net::tls::Security;
use net::{Budget, ReplicationTls};
use replica::epochs::EpochList;
use replica::in_sync::{CommittedSet, SetEpoch};
use replica::master::{self as machine, MasterEvent, MasterStart};
use replica::slave::{self as slave_machine, SlaveStart};
use replica::slave_log::SlaveConfig;
use tokio::sync::mpsc;
use wire::ha::classic::Header;
use wire::ha::switch::{Handshake, HandshakeResponse, TransferHeader, encode_report};
use wire::ha::{BrokerId, Epoch, EpochStart};
use wire::units::LogOffset;

use super::master::{self, ToControllers};
use super::{Worker, slave};
use crate::config::Config;
use crate::state::DeliveryNote;
use crate::supervisor::SupervisedWork;
use crate::testing::{Fixture, OUTCOME_CAP, until};

/// Silence after which a side closes the connection in these tests: long enough for any delay.
const SILENCE_MS: u64 = 3_600_000;

/// Master with messages in its log, its port, and its stop signal.
struct Master {
    fixture: Fixture,
    port: u16,
    listener: TcpListener,
    _worker: Worker,
    _proposals: mpsc::UnboundedReceiver<(std::collections::BTreeSet<BrokerId>, SetEpoch)>,
    _decided: mpsc::Sender<MasterEvent>,
}

fn epochs() -> EpochList {
    EpochList::new(vec![EpochStart { epoch: Epoch::new(1), start: LogOffset::ZERO }]).unwrap()
}

impl Master {
    fn start(is_elected: bool) -> Self {
        Self::start_with(is_elected, |_| {})
    }

    fn start_with(is_elected: bool, change: impl FnOnce(&mut Config)) -> Self {
        let fixture = Fixture::with(|config| {
            config.replication.in_sync_replicas = 2;
            config.replication.housekeeping_interval_ms = SILENCE_MS;
            change(config);
        });
        fixture.put("T", 0, &[7; 5000], b"");
        let broker = fixture.broker.clone();
        broker.replication.durability.wait_for_slaves();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (port, same) = (listener.local_addr().unwrap().port(), listener.try_clone().unwrap());
        let (config, log) = (&broker.runtime.config.replication, master::range(&broker.store, false));
        let (proposer, proposals) = mpsc::unbounded_channel();
        let (decide, decided) = mpsc::channel(1);
        let machine = if is_elected {
            let members = [BrokerId::FIRST, BrokerId::new(2)].into();
            let start = MasterStart {
                own: BrokerId::FIRST,
                committed: CommittedSet { members, epoch: SetEpoch(1) },
                epochs: epochs(),
                log,
                confirm: LogOffset::ZERO,
            };
            machine::Master::elected(0, config.of_elected(&broker.runtime.config.store), start)
        } else {
            machine::Master::classic(config.of_master(&broker.runtime.config.store), log)
        };
        let controllers = is_elected.then_some(ToControllers { decided, proposals: proposer });
        let serving = broker.clone();
        let run = move |stopped| master::run(serving.group_parts(), listener, machine, controllers, stopped);
        let worker =
            Worker::start(&broker.group_parts(), (SupervisedWork::Replicate, "ha-master"), run).unwrap();
        Self { fixture, port, listener: same, _worker: worker, _proposals: proposals, _decided: decide }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(OUTCOME_CAP)).unwrap();
        stream
    }

    /// Accepting a connection fails from now on, as in a process without a free file descriptor.
    fn stop_accepting(&self) {
        let port = OwnedFd::from(self.listener.try_clone().unwrap());
        TcpStream::from(port).shutdown(Shutdown::Both).unwrap();
    }

    /// Checks that the connection with these bytes ends, without effect on other connections.
    fn ends(&self, what: &str, bytes: &[u8]) {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        assert!(is_ended(&mut stream), "{what}: the connection goes on");
        let replicated = self.fixture.broker.store.replicated();
        assert_eq!(replicated, Some(LogOffset::ZERO), "{what}: a false report counts");
    }
}

/// Reads until the end. Returns whether the end came. Ignores earlier bytes.
fn is_ended(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

fn report(offset: u64) -> Vec<u8> {
    encode_report(LogOffset::new(offset)).to_vec()
}

fn handshake(broker: u64) -> Vec<u8> {
    Handshake { broker_id: BrokerId::new(broker), is_from_last_file: false, is_learner: false }
        .encode()
        .to_vec()
}

#[test]
fn a_classic_master_ends_the_connection_of_a_slave_that_tells_nonsense() {
    let master = Master::start(false);
    let end = master.fixture.broker.store.appended().get();
    let mut good = master.connect();
    master.ends("a negative offset", &(-1_i64).to_be_bytes());
    master.ends("a log that is longer than the master's", &(end + 1).to_be_bytes());
    master.ends("what was never sent", &[0_u64.to_be_bytes(), (end * 2).to_be_bytes()].concat());
    let mut half = master.connect();
    half.write_all(&[0; 7]).unwrap();

    good.write_all(&0_u64.to_be_bytes()).unwrap();
    let mut frame = vec![0; 12 + usize::try_from(end).unwrap()];
    good.read_exact(&mut frame).unwrap();
    assert_eq!(frame[..8], [0; 8], "another connection is served all the same");
}

#[test]
fn connections_that_say_nothing_keep_no_slave_out() {
    let master = Master::start(false);
    let broker = &master.fixture.broker;
    let mut reported = master.connect();
    reported.write_all(&0_u64.to_be_bytes()).unwrap();
    until("the first slave is known", || {
        broker.replication.replicas.slaves().iter().any(|slave| slave.has_reported())
    });
    let silent: Vec<_> = (0..200).map(|_| master.connect()).collect();
    let mut late = master.connect();
    late.write_all(&0_u64.to_be_bytes()).unwrap();
    let mut frame = vec![0; 12 + usize::try_from(broker.store.appended().get()).unwrap()];
    for slave in [&mut late, &mut reported] {
        slave.read_exact(&mut frame).unwrap();
    }
    assert_eq!(
        broker.replication.replicas.slaves().len(),
        16,
        "the number of one address is bounded all the same"
    );
    drop(silent);
}

#[test]
fn connections_that_begin_no_tls_handshake_keep_no_slave_out() {
    let security = Security { replication: Some(Arc::default()), ..Security::default() };
    let master = Master::start_with(false, |config| {
        config.replication.tls = ReplicationTls::new(&security, &Budget::unbounded());
    });
    let silent: Vec<_> = (0..200).map(|_| master.connect()).collect();
    let mut late = master.connect();
    late.write_all(&0_u64.to_be_bytes()).unwrap();
    let end = usize::try_from(master.fixture.broker.store.appended().get()).unwrap();
    late.read_exact(&mut vec![0; 12 + end]).unwrap();
    drop(silent);
}

#[test]
fn a_port_that_accepts_nobody_holds_up_no_slave() {
    let master = Master::start(false);
    let store = &master.fixture.broker.store;
    let mut slave = master.connect();
    let (mut frame, mut end) = (Vec::new(), 0_u64);
    let mut follow = |frame: &mut Vec<u8>| {
        slave.write_all(&end.to_be_bytes()).unwrap();
        let next = store.appended().get();
        frame.resize(12 + usize::try_from(next - end).unwrap(), 0);
        slave.read_exact(frame).unwrap();
        end = next;
    };
    follow(&mut frame);
    master.stop_accepting();
    for _ in 0..100 {
        master.fixture.put("T", 0, b"next", b"");
        follow(&mut frame);
    }
}

#[test]
fn an_elected_master_ends_the_connection_of_a_slave_that_tells_nonsense() {
    let master = Master::start(true);
    let end = master.fixture.broker.store.appended().get();
    let mut good = master.connect();
    good.write_all(&handshake(2)).unwrap();
    let mut reply = [0; 20 + 12];
    good.read_exact(&mut reply).unwrap();

    master.ends("a state that nobody has", &[0, 0, 0, 7]);
    master.ends("text", b"GET / HTTP/1.1\r\n\r\n");
    master.ends("a negative id", &[&[0, 0, 0, 1, 0, 0, 0, 0][..], &(-3_i64).to_be_bytes()].concat());
    master.ends("a report without a handshake", &report(0));
    master.ends("the master's own id", &handshake(1));
    master.ends("a log that is longer than the master's", &[handshake(3), report(end + 1)].concat());
    master.ends("a second handshake", &[handshake(3), report(0), handshake(3)].concat());
    master.ends("a negative offset", &[&handshake(3)[..], &[0, 0, 0, 2], &[255; 8]].concat());

    let mut split = master.connect();
    split.write_all(&handshake(3)[..9]).unwrap();
    split.flush().unwrap();
    split.write_all(&handshake(3)[9..]).unwrap();
    split.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [0, 0, 0, 1, 0, 0, 0, 12], "a handshake may come in pieces");

    good.write_all(&report(0)).unwrap();
    let mut frame = vec![0; 36 + usize::try_from(end).unwrap()];
    good.read_exact(&mut frame).unwrap();
    assert_eq!(frame[..8], [&[0, 0, 0, 2][..], &u32::try_from(end).unwrap().to_be_bytes()].concat());
    good.write_all(&report(end)).unwrap();
    let store = &master.fixture.broker.store;
    until("the report is taken", || store.replicated() == Some(LogOffset::new(end)));
}

/// Slave whose master is the test.
struct Slave {
    fixture: Fixture,
    listener: TcpListener,
    _worker: Worker,
}

impl Slave {
    /// A slave of an elected master, with an empty log.
    fn start() -> Self {
        let start = SlaveStart {
            handshake: Handshake { broker_id: BrokerId::new(2), is_from_last_file: false, is_learner: false },
            epochs: EpochList::default(),
            end: LogOffset::ZERO,
            flushed: LogOffset::ZERO,
            confirm: LogOffset::ZERO,
        };
        Self::run(&[], |config| slave_machine::Slave::of_elected(config, start))
    }

    /// A slave of a classic master, with this log.
    fn start_classic(log: &[u8]) -> Self {
        let end = LogOffset::new(log.len() as u64);
        let machine = |config| slave_machine::Slave::classic(config, end, LogOffset::ZERO);
        Self::run(log, machine)
    }

    fn run(log: &[u8], machine: impl FnOnce(SlaveConfig) -> slave_machine::Slave) -> Self {
        let fixture = Fixture::new();
        let broker = fixture.broker.clone();
        broker.store.start_following().unwrap();
        broker.store.follow(LogOffset::ZERO, log, &mut |_| {}).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        broker.replication.replicas.learn(Some(&address), Some(&address));
        let config = SlaveConfig {
            file_bytes: 1 << 20,
            retry_interval_ms: 1,
            housekeeping_interval_ms: SILENCE_MS,
            ..SlaveConfig::default()
        };
        let machine = machine(config);
        let shell = slave::Shell::new(broker.group_parts(), machine);
        let run = move |stopped| shell.run(stopped);
        let worker = Worker::start(&broker.group_parts(), (SupervisedWork::Follow, "ha-slave"), run).unwrap();
        Self { fixture, listener, _worker: worker }
    }

    /// The next connection of the slave, which has introduced itself.
    fn accept(&self) -> TcpStream {
        let (mut stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(OUTCOME_CAP)).unwrap();
        let mut greeting = [0; 16];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting[..], handshake(2)[..]);
        stream
    }

    /// The slave ends the connection on which `bytes` come, and its log is as before.
    fn ends(&self, what: &str, bytes: &[u8]) {
        let mut stream = self.accept();
        stream.write_all(bytes).unwrap();
        assert!(is_ended(&mut stream), "{what}: the connection goes on");
        assert_eq!(self.fixture.broker.store.followed(), LogOffset::ZERO, "{what}");
    }
}

/// Makes a reply to a handshake whose list of epochs claims `bytes` bytes.
fn reply(bytes: i32, entries: &[(i32, i64)]) -> Vec<u8> {
    let mut reply = [1_i32.to_be_bytes(), bytes.to_be_bytes()].concat();
    reply.extend(900_i64.to_be_bytes());
    reply.extend(1_i32.to_be_bytes());
    for (epoch, start) in entries {
        reply.extend(epoch.to_be_bytes());
        reply.extend(start.to_be_bytes());
    }
    reply
}

/// A good reply, and the head of a transfer behind it.
fn transfer(offset: u64, body_bytes: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    HandshakeResponse { end: LogOffset::new(900), epochs: epochs().entries().to_vec() }.encode(&mut bytes);
    let header = TransferHeader {
        offset: LogOffset::new(offset),
        body_bytes,
        epoch: epochs().entries()[0],
        confirm: LogOffset::ZERO,
    };
    bytes.extend(header.encode());
    bytes
}

#[test]
fn a_slave_ends_the_connection_to_a_master_that_tells_nonsense() {
    let slave = Slave::start();
    slave.ends("a state that nobody has", &[0, 0, 0, 9]);
    slave.ends("a list of negative size", &reply(-12, &[]));
    slave.ends("a list that ends within an entry", &reply(13, &[]));
    slave.ends("more epochs than there may be", &reply(1001 * 12, &[]));
    slave.ends("epochs that fall", &reply(24, &[(3, 0), (2, 100)]));
    slave.ends("an epoch of negative start", &reply(12, &[(1, -5)]));
    slave.ends("a body of negative size", &transfer(0, u32::MAX));
    slave.ends("a body that nobody has memory for", &transfer(0, 1 << 30));
    slave.ends("a body across the end of a file", &[transfer((1 << 20) - 2, 4), vec![0; 4]].concat());
    slave.ends("a second reply", &[reply(12, &[(1, 0)]), reply(12, &[(1, 0)])].concat());

    // Half a frame leads to nothing, and the end of the connection to the next one.
    let mut half = slave.accept();
    half.write_all(&transfer(0, 100)).unwrap();
    drop(half);
    let _ = slave.accept();
    assert_eq!(slave.fixture.broker.store.followed(), LogOffset::ZERO);
}

#[test]
fn a_slave_tells_how_far_it_is_while_it_takes_what_it_has_received() {
    let master = Fixture::new();
    for _ in 0..60 {
        master.put("T", 0, &[7; 5000], b"");
    }
    let (mut log, end) = (Vec::new(), master.broker.store.appended().get());
    master.broker.store.read_log_blocking(LogOffset::ZERO, usize::try_from(end).unwrap(), &mut log).unwrap();
    let mut sent = Vec::new();
    HandshakeResponse { end: LogOffset::new(end), epochs: epochs().entries().to_vec() }.encode(&mut sent);
    let mut offset = 0;
    for body in log.chunks(32 << 10) {
        let header = TransferHeader {
            offset: LogOffset::new(offset),
            body_bytes: u32::try_from(body.len()).unwrap(),
            epoch: epochs().entries()[0],
            confirm: LogOffset::ZERO,
        };
        sent.extend(header.encode());
        sent.extend(body);
        offset += body.len() as u64;
    }
    let slave = Slave::start();
    let mut stream = slave.accept();
    stream.write_all(&sent).unwrap();
    let (mut told, mut frame) = (0, report(0));
    while told < end {
        stream.read_exact(&mut frame).unwrap();
        let now = u64::from_be_bytes(*frame.last_chunk().unwrap());
        assert!(now - told <= 96 << 10, "nothing between {told} and {now} is told");
        told = now;
    }
    let (_, _, body) = slave.fixture.ask(wire::codes::request::GET_BROKER_HA_STATUS, &[], b"");
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
    for time in ["lastReadTimestamp", "lastWriteTimestamp"] {
        assert!(status["haClientRuntimeInfo"][time].as_i64() > Some(0), "{time}: {status}");
    }
}

#[test]
fn a_slave_delivers_again_what_was_cut_off_its_log() {
    let master = Fixture::new();
    let mut ends = Vec::new();
    for body in [&[1; 500], &[2; 500]] {
        master.put("T", 0, body, b"");
        ends.push(master.broker.store.appended());
    }
    let mut log = Vec::new();
    let whole = usize::try_from(ends[1].get()).unwrap();
    master.broker.store.read_log_blocking(LogOffset::ZERO, whole, &mut log).unwrap();
    let machine = |config| {
        let handshake =
            Handshake { broker_id: BrokerId::new(2), is_from_last_file: false, is_learner: false };
        let (epochs, end) = (epochs(), ends[1]);
        let start = SlaveStart { handshake, epochs, end, flushed: LogOffset::ZERO, confirm: LogOffset::ZERO };
        slave_machine::Slave::of_elected(config, start)
    };
    let slave = Slave::run(&log, machine);
    let broker = &slave.fixture.broker;
    let level = |offset| [(3, offset)].into();
    for (end, offset) in [(ends[0], 5), (ends[1], 9)] {
        let note = DeliveryNote::new(end, 10_000 * offset, None, level(offset));
        broker.delivery.delivery_notes.add(&mut broker.delivery.delivery_notes.lock(), note).unwrap();
        broker.delivery.schedule.set_offset(3, offset);
    }
    let mut stream = slave.accept();
    let mut sent = Vec::new();
    HandshakeResponse { end: ends[0], epochs: epochs().entries().to_vec() }.encode(&mut sent);
    stream.write_all(&sent).unwrap();
    until("the log is cut", || broker.store.appended() == ends[0]);
    assert_eq!(broker.delivery.schedule.offset(3), 5, "the copies of the messages from 5 on are gone");
}

/// A frame of a classic master.
fn classic_frame(offset: usize, body: &[u8]) -> Vec<u8> {
    let body_bytes = u32::try_from(body.len()).unwrap();
    let mut frame = Header { offset: LogOffset::new(offset as u64), body_bytes }.encode().to_vec();
    frame.extend(body);
    frame
}

#[test]
fn a_classic_slave_follows_only_a_master_that_has_its_last_record() {
    let master = Fixture::new();
    let mut ends = Vec::new();
    for body in [&[1; 500], &[2; 500], &[3; 500]] {
        master.put("T", 0, body, b"");
        ends.push(usize::try_from(master.broker.store.appended().get()).unwrap());
    }
    let mut log = Vec::new();
    master.broker.store.read_log_blocking(LogOffset::ZERO, ends[2], &mut log).unwrap();
    let slave = Slave::start_classic(&log[..ends[1]]);
    let store = &slave.fixture.broker.store;
    let connect = || {
        let (mut stream, _) = slave.listener.accept().unwrap();
        stream.set_read_timeout(Some(OUTCOME_CAP)).unwrap();
        (next_report(&mut stream), stream)
    };

    // The master has lost the end of its log, and something else is there now.
    let mut other = log[ends[0]..].to_vec();
    other[300] ^= 1;
    let (asked, mut stream) = connect();
    assert_eq!(asked, ends[0], "the first report is where the last record begins");
    stream.write_all(&classic_frame(ends[0], &other)).unwrap();
    assert!(is_ended(&mut stream), "the slave follows another history");
    assert_eq!(store.followed().get(), ends[1] as u64);

    // The same record in two frames, of which the second goes on behind it.
    let (asked, mut stream) = connect();
    assert_eq!(asked, ends[0]);
    stream.write_all(&classic_frame(ends[0], &log[ends[0]..ends[0] + 100])).unwrap();
    stream.write_all(&classic_frame(ends[0] + 100, &log[ends[0] + 100..])).unwrap();
    let mut told = 0;
    while told < ends[2] {
        told = next_report(&mut stream);
    }
    assert_eq!((told, store.appended().get()), (ends[2], ends[2] as u64));
}

/// The next report of a classic slave.
fn next_report(stream: &mut TcpStream) -> usize {
    let mut report = [0; 8];
    stream.read_exact(&mut report).unwrap();
    usize::try_from(u64::from_be_bytes(report)).unwrap()
}
