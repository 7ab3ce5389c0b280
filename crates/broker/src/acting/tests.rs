use std::net::SocketAddr;

use net::{Limits, Service};
use parking_lot::Mutex;
use wire::frame::{Command, Head};

use super::*;
use crate::config::Config;
use crate::config::Role as Configured;
use crate::replicas::{MasterAddresses, SlaveProgress};
use crate::role::BrokerRole;
use crate::testing::{Fixture, OUTCOME_CAP};

/// Name server that knows the brokers of a group.
#[derive(Default)]
struct Knowing(Mutex<Members>);

impl Service for Knowing {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, _turn: &mut (), _peer: &Arc<ConnectionHandle>, command: Command<'_>, out: &mut Vec<u8>) {
        let mut body = BrokerMemberGroupBody::default();
        body.broker_member_group.broker_addrs = self.0.lock().clone();
        let head = Head::response(command.encoding, response::SUCCESS, command.opaque);
        head.write(out, &json::to_vec(&body));
    }
}

/// A name server, and the threads that serve it and the brokers.
struct World {
    known: Arc<Knowing>,
    workers: Workers,
    name_server: SocketAddr,
}

impl World {
    fn new() -> Self {
        let known = Arc::new(Knowing::default());
        let workers = Workers::start("acting", 1, Limits::default()).unwrap();
        let name_server = workers.listen("127.0.0.1:0".parse().unwrap(), known.clone()).unwrap();
        Self { known, workers, name_server }
    }

    /// Sets the brokers that the name server knows.
    fn knows(&self, members: &[(i64, &str)]) {
        *self.known.0.lock() = members.iter().map(|(id, address)| (*id, (*address).to_owned())).collect();
    }

    fn broker(&self, change: impl FnOnce(&mut Config)) -> Fixture {
        let fixture = Fixture::with(|config| {
            config.namesrv_addr = Some(self.name_server.to_string());
            config.replication.acting.is_enabled = true;
            change(config);
        });
        fixture.queue("T", 3);
        fixture.broker.tables.groups.make("G", 1).unwrap();
        fixture
    }

    fn slave(&self) -> Fixture {
        self.broker(|config| {
            config.replication.role = Configured::Slave;
            config.replication.acting.skips_pre_online = true;
            config.broker_id = 1;
        })
    }

    /// Serves a broker's port, and returns its address.
    fn serve(&self, fixture: &Fixture) -> String {
        let dispatcher = crate::remoting::Dispatcher::new(fixture.broker.clone(), crate::remoting::Port::Own);
        self.workers.listen("127.0.0.1:0".parse().unwrap(), Arc::new(dispatcher)).unwrap().to_string()
    }

    fn group(&self, fixture: &Fixture) -> Group {
        let (parts, workers) = (fixture.broker.group_parts(), self.workers.clone());
        Group { parts, workers, name_servers: HashMap::new(), handover_from: None }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.workers.shutdown();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(within(OUTCOME_CAP, future)).expect("an outcome")
}

fn offset(fixture: &Fixture, queue: i32) -> Option<i64> {
    fixture.broker.tables.offsets.committed("G", "T", queue)
}

#[test]
fn what_is_committed_while_the_master_is_away_comes_to_it() {
    let world = World::new();
    let (slave, master) = (world.slave(), world.broker(|_| {}));
    let (acting, offsets) = (&slave.broker.replication.acting, &slave.broker.tables.offsets);
    let mut group = world.group(&slave);
    offsets.commit("G", "T", 3, 1);
    world.knows(&[(1, "h:1"), (2, "h:2")]);
    block_on(group.look());
    assert!(acting.is_acting());
    assert_eq!(acting.alive(), 2);
    for (queue, committed) in [(0, 7), (1, 2)] {
        offsets.commit("G", "T", queue, committed);
    }

    // A master that cannot be reached changes nothing.
    world.knows(&[(0, "127.0.0.1:1"), (1, "h:1")]);
    block_on(group.look());
    assert!(acting.is_acting());

    for (queue, committed) in [(0, 3), (1, 5)] {
        master.broker.tables.offsets.commit("G", "T", queue, committed);
    }
    let address = world.serve(&master);
    world.knows(&[(0, &address), (1, "h:1")]);
    block_on(group.look());
    assert!(!acting.is_acting());
    let told = [0, 1, 3].map(|queue| offset(&master, queue));
    assert_eq!(told, [Some(7), Some(5), None], "only what is larger, and was committed while it was away");
    let known = slave.broker.replication.replicas.master().borrow().clone();
    assert_eq!((known.broker, known.ha), (Some(address), Some(master.broker.identity.ha_address())));
}

#[test]
fn a_group_that_began_at_the_acting_slave_goes_on_at_the_master() {
    let world = World::new();
    let (slave, master) = (world.slave(), world.broker(|_| {}));
    let mut group = world.group(&slave);
    world.knows(&[(1, "h:1")]);
    block_on(group.look());
    slave.broker.tables.offsets.commit("New", "T", 0, 4);
    assert!(master.broker.tables.groups.find("New").is_none());
    world.knows(&[(0, &world.serve(&master)), (1, "h:1")]);
    let metadata_writer = async {
        loop {
            master.broker.metadata_parts().settle();
            pause(Duration::from_millis(1)).await;
        }
    };
    block_on(async {
        tokio::select! {
            () = group.look() => {}
            () = metadata_writer => {}
        }
    });
    assert!(master.broker.tables.groups.find("New").is_some());
    assert_eq!(master.broker.tables.offsets.committed("New", "T", 0), Some(4));
}

/// A group that the master does not know must not begin anew because the master is busy.
#[test]
fn an_offset_that_a_busy_master_refuses_is_handed_over_later() {
    let world = World::new();
    let (slave, master) = (world.slave(), world.broker(|_| {}));
    let acting = &slave.broker.replication.acting;
    let mut group = world.group(&slave);
    world.knows(&[(1, "h:1")]);
    block_on(group.look());
    slave.broker.tables.offsets.commit("New", "T", 0, 4);
    // No group can be made.
    drop(master.broker.runtime.metadata_queue.close());
    world.knows(&[(0, &world.serve(&master)), (1, "h:1")]);
    block_on(group.look());
    assert!(acting.is_acting());
    master.broker.tables.groups.make("New", 1).unwrap();
    block_on(group.look());
    assert!(!acting.is_acting());
    assert_eq!(master.broker.tables.offsets.committed("New", "T", 0), Some(4));
}

#[test]
fn an_offset_that_is_refused_for_good_makes_no_group() {
    let master = World::new().broker(|_| {});
    let ask = |topic, queue, offset| {
        let fields =
            [("consumerGroup", "New"), ("topic", topic), ("queueId", queue), ("commitOffset", offset)];
        let fields = [&fields[..], &[(ONLY_RAISES, "true")]].concat();
        master.ask(request::UPDATE_CONSUMER_OFFSET, &fields, b"").0
    };
    assert_eq!(ask("Gone", "0", "4"), response::TOPIC_NOT_EXIST);
    assert_eq!(ask("T", "99", "4"), response::INVALID_PARAMETER);
    assert_eq!(ask("T", "0", "-1"), response::INVALID_PARAMETER);
    assert!(master.broker.tables.groups.find("New").is_none());
    assert_eq!(ask("T", "0", "4"), response::SUCCESS);
    assert!(master.broker.tables.groups.find("New").is_some());
}

/// A slave with a smaller id comes up, and later the master: the slave that acted first gives up its pops as well.
#[test]
fn pops_of_a_slave_that_acted_and_stood_by_end_when_the_master_is_back() {
    let world = World::new();
    let (slave, master) = (world.slave(), world.broker(|_| {}));
    slave.broker.replication.role.follow(2);
    let mut group = world.group(&slave);
    world.knows(&[(2, "h:2")]);
    block_on(group.look());
    assert!(slave.broker.replication.acting.is_acting());
    let pops = &slave.broker.delivery.pops.in_flight_queues;
    pops.make("G", "T", 0);
    world.knows(&[(1, "h:1"), (2, "h:2")]);
    block_on(group.look());
    assert!(!slave.broker.replication.acting.is_acting() && pops.find("G", "T", 0).is_some());
    world.knows(&[(0, &world.serve(&master)), (1, "h:1"), (2, "h:2")]);
    block_on(group.look());
    assert!(pops.find("G", "T", 0).is_none());
}

#[test]
fn a_slave_with_a_larger_id_leaves_it_to_the_other_one() {
    let world = World::new();
    let slave = world.slave();
    slave.broker.replication.role.follow(2);
    slave.broker.replication.replicas.learn(Some("10.0.0.1:10911"), Some("10.0.0.1:10912"));
    world.knows(&[(1, "h:1"), (2, "h:2")]);
    block_on(world.group(&slave).look());
    assert!(!slave.broker.replication.acting.is_acting());
    assert_eq!(*slave.broker.replication.replicas.master().borrow(), MasterAddresses::default());
}

#[test]
fn without_an_answer_of_a_name_server_everything_stays() {
    let world = World::new();
    let slave = world.slave();
    let mut group = world.group(&slave);
    world.knows(&[(1, "h:1")]);
    block_on(group.look());
    world.workers.shutdown();
    block_on(group.look());
    assert!(slave.broker.replication.acting.is_acting());
}

#[test]
fn a_master_serves_when_its_slave_is_connected_and_it_has_the_offsets() {
    let world = World::new();
    let (slave, master) = (world.slave(), world.broker(|_| {}));
    slave.broker.tables.offsets.commit("G", "T", 0, 9);
    slave.broker.tables.offsets.commit("G", "Gone", 0, 9);
    slave.broker.delivery.schedule.set_offset(3, 4);
    master.broker.tables.offsets.commit("G", "T", 0, 3);
    master.broker.delivery.schedule.set_offset(2, 6);
    let address = world.serve(&slave);
    world.knows(&[(0, &master.broker.identity.address()), (1, &address)]);
    assert_eq!(master.broker.replication.role.current(), BrokerRole::Fenced);
    let mut told = slave.broker.replication.replicas.master();
    let connects = async {
        told.wait_for(|master| master.ha.is_some()).await.unwrap();
        let remote = "127.0.0.1:1".parse().unwrap();
        let connected = Arc::new(SlaveProgress::new(remote));
        master.broker.replication.replicas.join(connected.clone());
        assert_eq!(offset(&master, 0), Some(3), "nothing is taken back before the log flows");
        master.broker.replication.replicas.note_report(&connected, 0);
    };
    let mut group = world.group(&master);
    block_on(async { tokio::join!(group.come_online(), connects) });
    assert_eq!(told.borrow().ha, Some(master.broker.identity.ha_address()));
    assert_eq!(told.borrow().broker, None, "its tables are not taken before name servers know it");
    assert_eq!(master.broker.replication.role.current(), BrokerRole::Master);
    assert_eq!(offset(&master, 0), Some(9));
    assert_eq!(master.broker.tables.offsets.committed("G", "Gone", 0), None, "the topic is not there");
    let positions = [2, 3].map(|level| master.broker.delivery.schedule.offset(level));
    assert_eq!(positions, [6, 4], "of both the one that is further");
}

#[test]
fn a_slave_serves_when_it_follows_its_master() {
    let world = World::new();
    let slave = world.broker(|config| {
        config.replication.role = Configured::Slave;
        config.broker_id = 1;
    });
    let master = world.broker(|config| config.replication.acting.skips_pre_online = true);
    world.knows(&[(0, &world.serve(&master))]);
    let broker = &slave.broker;
    let mut told = broker.replication.replicas.master();
    let follows = async {
        told.wait_for(|master| master.ha.is_some()).await.unwrap();
        assert_eq!(broker.replication.role.current(), BrokerRole::Fenced);
        broker.replication.replicas.set_follows(true);
    };
    let mut group = world.group(&slave);
    block_on(async { tokio::join!(group.come_online(), follows) });
    assert_eq!((broker.replication.role.current(), broker.replication.role.id()), (BrokerRole::Slave, 1));
    assert!(broker.replication.role.is_consistent());
}
