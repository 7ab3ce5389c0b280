//! State of the other brokers in the group. A slave has its master's addresses, a master has its slaves' progress. In
//! controller mode, there are also the epochs of the log and the in-sync set.

mod flow;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use replica::epochs::EpochList;
use replica::in_sync::CommittedSet;
use tokio::sync::watch;
use wire::ha::{BrokerId, Epoch};
use wire::units::LogOffset;

use flow::Flow;

/// Shortest address of a master that counts (`BrokerController.doRegisterBrokerAll`).
const ADDRESS_BYTES_MIN: usize = 6;

/// Addresses of the master of this broker's group, as name servers have sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MasterAddresses {
    /// Address for slaves, `host:port`.
    pub ha: Option<String>,
    /// Address for clients, `host:port`.
    pub broker: Option<String>,
}

/// Progress of a connected slave.
#[derive(Debug)]
pub(crate) struct SlaveProgress {
    /// The slave's end of the connection.
    pub remote: SocketAddr,
    /// Log position that the slave has reported last.
    pub acknowledged: AtomicU64,
    /// Log position from which the slave gets bytes next.
    pub next: AtomicU64,
    /// Id of the slave at the controllers. Zero for a classic slave, and before the id is known.
    pub broker: AtomicU64,
    /// Bytes sent to the slave.
    pub sent: Flow,
    /// Time of the last bytes from the slave, in milliseconds since 1970; zero for never.
    pub heard_ms: AtomicI64,
    /// Reason why the slave cannot follow, and advice.
    trouble: Mutex<Option<String>>,
    /// Whether the slave has reported the end of its log.
    has_reported: AtomicBool,
    /// Whether acknowledgements of this connection count.
    pub is_known: AtomicBool,
}

impl SlaveProgress {
    /// Makes the progress of a slave that has connected from `remote`.
    pub(crate) fn new(remote: SocketAddr) -> Self {
        Self {
            remote,
            acknowledged: 0.into(),
            next: 0.into(),
            broker: 0.into(),
            sent: Flow::default(),
            heard_ms: 0.into(),
            trouble: Mutex::default(),
            has_reported: false.into(),
            is_known: false.into(),
        }
    }

    /// Stores the reason why the slave cannot follow, and advice.
    pub(crate) fn note_trouble(&self, text: String) {
        *self.trouble.lock() = Some(text);
    }

    /// Returns the reason why the slave cannot follow, and advice. `None` without a known reason.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Whether the peer has sent a slave's report, or a handshake with the id of a broker.
    pub(crate) fn is_slave(&self) -> bool {
        self.has_reported() || self.broker.load(Ordering::Relaxed) != 0
    }

    /// Whether acknowledgements of this connection count.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Last log position that the slave reported; `None` before the first report.
    pub(crate) fn reported(&self) -> Option<u64> {
        self.has_reported().then(|| self.acknowledged.load(Ordering::Relaxed))
    }

    /// Whether the slave has reported the end of its log, so that the log flows to it.
    pub(crate) fn has_reported(&self) -> bool {
        self.has_reported.load(Ordering::Acquire)
    }
}

/// State of a slave's connection to its master.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    /// Bytes received from the master.
    pub received: Flow,
    /// Time of the last bytes from the master, in milliseconds since 1970. Zero for never.
    pub read_ms: AtomicI64,
    /// Time of the last report to the master, in milliseconds since 1970. Zero for never.
    pub written_ms: AtomicI64,
    /// Least difference in milliseconds by which the master's clock is ahead of this broker's. Negative if it is
    /// behind.
    skew_ms: AtomicI64,
    /// Reason why this slave does not follow, and advice.
    trouble: Mutex<String>,
    /// This slave's end of its last connection, by which operators find the slave among the connections of the master.
    pub local: Mutex<Option<SocketAddr>>,
    /// Whether the log brought a re-created topic, so that this slave has to request the whole table of offsets.
    pub topics_restarted: AtomicBool,
}

/// Difference of two brokers' clocks that is reported to an operator, in milliseconds.
const SKEW_MS: u64 = 1000;

impl Upstream {
    /// Compares the master's clock with this broker's. The request left at `asked_ms` and the response came at
    /// `answered_ms` of this clock. Logs when the clocks begin to differ, or agree again.
    pub(crate) fn note_clock(&self, master_ms: i64, asked_ms: i64, answered_ms: i64) {
        let skew_ms = master_ms.saturating_sub(master_ms.clamp(asked_ms, answered_ms.max(asked_ms)));
        let before_ms = self.skew_ms.swap(skew_ms, Ordering::Relaxed);
        let differ = |ms: i64| ms.unsigned_abs() > SKEW_MS;
        match self.skew() {
            Some(text) if !differ(before_ms) => tracing::warn!("{text}"),
            None if differ(before_ms) => {
                tracing::info!("the clocks of this broker and its master agree again")
            }
            _ => {}
        }
    }

    /// Returns the difference between the clocks of this broker and its master, and advice. `None` if they agree
    /// within a second.
    pub(crate) fn skew(&self) -> Option<String> {
        let skew_ms = self.skew_ms.load(Ordering::Relaxed);
        (skew_ms.unsigned_abs() > SKEW_MS).then(|| {
            let side = if skew_ms > 0 { "ahead of" } else { "behind" };
            format!(
                "the master's clock is {:.1} s {side} this broker's: synchronize them (NTP), because delayed messages and retention go by the clock of the master of the day",
                skew_ms.unsigned_abs() as f64 / 1000.0
            )
        })
    }

    /// Clears the state of the former master.
    pub(crate) fn forget(&self) {
        self.skew_ms.store(0, Ordering::Relaxed);
        self.note_trouble(String::new());
    }

    /// Stores the reason why this slave does not follow, and advice.
    pub(crate) fn note_trouble(&self, text: String) {
        *self.trouble.lock() = text;
    }

    /// Records that bytes of the log, or a heartbeat, came from the master.
    pub(crate) fn note_read(&self, bytes: usize, now_ms: i64) {
        self.received.add(bytes as u64, now_ms);
        self.read_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Records that the master got a report of this slave's progress.
    pub(crate) fn note_written(&self, now_ms: i64) {
        self.written_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Returns the reason why this slave does not follow, and advice. Empty without a known reason.
    pub(crate) fn trouble(&self) -> String {
        self.trouble.lock().clone()
    }
}

/// Most entries in the table of slaves' machines.
const MACHINES_MAX: usize = 256;

/// Time for which a machine counts as a slave's machine after the last request for tables or positions. A slave of RocketMQ asks
/// every 3 to 10 seconds (`BrokerController.handleSlaveSynchronize`).
const MACHINE_FORGOTTEN: Duration = Duration::from_secs(40);

/// Machines whose brokers fetch this master's tables as slaves do, over the broker's own port, which authenticates
/// users. The replication port has no users, so a connection there has only its address as evidence.
#[derive(Default)]
pub(crate) struct SlaveMachines {
    /// Time of the last request by address, and by the port of connections that distinguish slaves of an address.
    asked: Mutex<BTreeMap<(IpAddr, Option<u16>), Duration>>,
    changes: watch::Sender<u64>,
}

impl SlaveMachines {
    /// Records that a slave on the machine `address` took tables at `now` of the steady clock. `port` is the slave's
    /// end of the single connection for such requests.
    pub(crate) fn note(&self, address: IpAddr, port: Option<u16>, now: Duration) {
        let mut asked = self.asked.lock();
        let before = asked.insert((address.to_canonical(), port), now);
        if asked.len() > MACHINES_MAX {
            let oldest = asked.iter().min_by_key(|(_, at)| **at).map(|(slave, _)| *slave);
            if let Some(oldest) = oldest {
                asked.remove(&oldest);
            }
        }
        drop(asked);
        if before.is_none_or(|before| now.saturating_sub(before) > MACHINE_FORGOTTEN) {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Returns the machines whose slaves took tables recently, with the number of slaves.
    pub(crate) fn slaves(&self, now: Duration) -> BTreeMap<IpAddr, usize> {
        let asked = self.asked.lock();
        let mut slaves = BTreeMap::new();
        for ((address, port), _) in
            asked.iter().filter(|(_, at)| now.saturating_sub(**at) <= MACHINE_FORGOTTEN)
        {
            *slaves.entry(*address).or_default() += usize::from(port.is_some());
        }
        slaves.values_mut().for_each(|slaves: &mut usize| *slaves = (*slaves).max(1));
        slaves
    }

    /// Returns a receiver that is notified of newly known machines.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// Other brokers of the group.
#[derive(Default)]
pub(crate) struct Replicas {
    master: watch::Sender<MasterAddresses>,
    slaves: Mutex<Vec<Arc<SlaveProgress>>>,
    /// Whether this slave is connected to its master.
    follows: AtomicBool,
    /// Connection of this slave to its master.
    pub upstream: Upstream,
    /// Machines of this master's slaves.
    pub slave_machines: SlaveMachines,
    /// Counter of slaves' first reports and of changes of `follows`.
    connections: watch::Sender<u64>,
    elected: Mutex<Elected>,
    /// Request time of the master's last accepted table of topics, in milliseconds since 1970.
    tables_taken_ms: AtomicI64,
    /// The epoch of the last election that a request 1008 named.
    notice: watch::Sender<Epoch>,
}

/// State of the group in controller mode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elected {
    /// Epochs of this broker's log.
    pub epochs: EpochList,
    /// Whether a stop may have cost the end of the log, and this broker has had no role since.
    pub may_have_lost: bool,
    /// In-sync set that the controller has committed, on a master.
    pub in_sync: CommittedSet,
    /// Members of in-sync sets that the master has proposed and that may still be committed.
    pub proposed: BTreeSet<BrokerId>,
    /// Slaves that may become master without loss with the ends of their logs, the best first, on a master.
    pub heirs: Vec<(BrokerId, LogOffset)>,
    /// Log position up to which responses may have confirmed messages without waiting for a slave.
    /// Set when responses begin to wait for slaves because of an heir.
    pub answered: LogOffset,
    /// Members that this master has named as its successor and that may be elected ([`replica::agent::Agent::heirs`]).
    /// Answers of later messages wait for these members.
    pub named_heirs: BTreeSet<BrokerId>,
    /// Id of this broker at the controllers. Zero before it has an id.
    pub own: u64,
    /// Whether this broker is unknown to the controllers.
    pub is_unknown: bool,
    /// Whether this broker was elected and could not become master.
    pub lead_failed: bool,
}

impl Replicas {
    /// Takes the master's addresses from a name server's response to a registration. A response without an address
    /// changes nothing, so that a briefly missing master keeps its address.
    pub(crate) fn learn(&self, broker: Option<&str>, ha: Option<&str>) {
        self.learn_if(broker, ha, |_| true);
    }

    /// Takes the address for slaves of the elected master, if `broker` is that master. A name server may still name
    /// the former master, and another master may be elected at any moment.
    pub(crate) fn learn_of_elected(&self, broker: Option<&str>, ha: Option<&str>) {
        self.learn_if(broker, ha, |master| master.broker.as_deref() == broker);
    }

    fn learn_if(
        &self,
        broker: Option<&str>,
        ha: Option<&str>,
        is_meant: impl FnOnce(&MasterAddresses) -> bool,
    ) {
        let known =
            |address: Option<&str>| address.filter(|text| text.len() >= ADDRESS_BYTES_MIN).map(str::to_owned);
        self.master.send_if_modified(|master| {
            let next = MasterAddresses {
                ha: known(ha).or_else(|| master.ha.clone()),
                broker: known(broker).or_else(|| master.broker.clone()),
            };
            let is_new = is_meant(master) && *master != next;
            if is_new {
                *master = next;
            }
            is_new
        });
    }

    /// Returns a receiver that has the master's addresses and is notified of changes.
    pub(crate) fn master(&self) -> watch::Receiver<MasterAddresses> {
        self.master.subscribe()
    }

    /// Clears the former master. `broker` is the new address, if any. The name servers have to send the address for
    /// slaves.
    pub(crate) fn set_master(&self, broker: Option<String>) {
        self.master.send_replace(MasterAddresses { ha: None, broker });
    }

    /// Records that the master is gone, so that its tables are not taken any more. A connection that still brings its
    /// log stays.
    pub(crate) fn lose_master(&self) {
        let follows = self.follows();
        self.master.send_if_modified(|master| {
            let next = MasterAddresses { ha: master.ha.clone().filter(|_| follows), broker: None };
            let is_new = *master != next;
            *master = next;
            is_new
        });
    }

    /// Whether the name servers have not sent the address for the master's slaves yet.
    pub(crate) fn lacks_master(&self) -> bool {
        self.master.borrow().ha.is_none()
    }

    /// Takes the epoch of an election from a request 1008, which any host can send. A smaller epoch replaces a larger
    /// epoch, because the larger epoch may have been false.
    pub(crate) fn notify(&self, epoch: Epoch) {
        self.notice.send_replace(epoch);
    }

    /// Returns a receiver that has the epoch of the last request 1008 and is notified of further requests.
    pub(crate) fn notices(&self) -> watch::Receiver<Epoch> {
        self.notice.subscribe()
    }

    /// Records that the master's table of topics, requested at `at_ms`, was accepted.
    pub(crate) fn took_tables(&self, at_ms: i64) {
        self.tables_taken_ms.store(at_ms, Ordering::Relaxed);
    }

    /// Time before which all messages that the master stored are of topics in the copied table. Zero for never.
    pub(crate) fn tables_taken_ms(&self) -> i64 {
        self.tables_taken_ms.load(Ordering::Relaxed)
    }

    /// Returns the state of the group in controller mode.
    pub(crate) fn elected(&self) -> MutexGuard<'_, Elected> {
        self.elected.lock()
    }

    /// Adds a slave that has connected.
    pub(crate) fn join(&self, slave: Arc<SlaveProgress>) {
        self.slaves.lock().push(slave);
    }

    /// Removes a slave whose connection has ended.
    pub(crate) fn leave(&self, slave: &Arc<SlaveProgress>) {
        self.slaves.lock().retain(|known| !Arc::ptr_eq(known, slave));
    }

    /// Records a slave's report of its log end.
    pub(crate) fn note_report(&self, slave: &SlaveProgress, acknowledged: u64) {
        slave.acknowledged.store(acknowledged, Ordering::Relaxed);
        if !slave.has_reported.swap(true, Ordering::AcqRel) {
            self.connections.send_modify(|count| *count += 1);
        }
    }

    /// Returns a receiver that is notified of slaves' first reports, and of changes of [`Self::follows`].
    pub(crate) fn connections(&self) -> watch::Receiver<u64> {
        self.connections.subscribe()
    }

    /// The slaves that are connected.
    pub(crate) fn slaves(&self) -> Vec<Arc<SlaveProgress>> {
        self.slaves.lock().clone()
    }

    /// Records whether this slave is connected to its master and has sent the start position.
    pub(crate) fn set_follows(&self, follows: bool) {
        if self.follows.swap(follows, Ordering::AcqRel) != follows {
            self.connections.send_modify(|count| *count += 1);
        }
    }

    /// Whether this slave is connected to its master and has sent the start position.
    pub(crate) fn follows(&self) -> bool {
        self.follows.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lie_about_an_election_hides_a_later_one() {
        let replicas = Replicas::default();
        let mut notices = replicas.notices();
        for epoch in [i32::MAX as u32, 3] {
            replicas.notify(Epoch::new(epoch));
            assert!(notices.has_changed().unwrap());
            assert_eq!(notices.borrow_and_update().get(), epoch);
        }
    }

    #[test]
    fn an_answer_about_the_master_before_never_takes_the_place_of_the_elected_one() {
        let replicas = Replicas::default();
        let [before, elected] = ["10.0.0.1:10911", "10.0.0.2:10911"];
        for _ in 0..2_000 {
            replicas.set_master(Some(before.to_owned()));
            std::thread::scope(|scope| {
                // As a registration's answer that was on its way when the role changed.
                scope.spawn(|| replicas.learn_of_elected(Some(before), Some("10.0.0.1:10912")));
                replicas.set_master(Some(elected.to_owned()));
            });
            let known = replicas.master().borrow().clone();
            assert_eq!((known.broker.as_deref(), known.ha), (Some(elected), None));
        }
        replicas.learn_of_elected(Some(elected), Some("10.0.0.2:10912"));
        assert!(!replicas.lacks_master());
    }

    #[test]
    fn of_a_lost_master_only_a_connection_that_brings_its_log_stays() {
        let replicas = Replicas::default();
        for (follows, ha) in [(true, Some("10.0.0.1:10912")), (false, None)] {
            replicas.learn(Some("10.0.0.1:10911"), Some("10.0.0.1:10912"));
            replicas.set_follows(follows);
            replicas.lose_master();
            let known = replicas.master().borrow().clone();
            assert_eq!((known.broker, known.ha.as_deref()), (None, ha));
        }
    }

    #[test]
    fn slaves_of_one_address_are_told_apart_by_their_connections_and_forgotten() {
        let machines = SlaveMachines::default();
        let [both, one] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let at = Duration::from_secs;
        for port in [None, Some(1), Some(2), Some(2)] {
            machines.note(both, port, at(1));
        }
        machines.note(one, None, at(30));
        assert_eq!(machines.slaves(at(41)), [(both, 2), (one, 1)].into());
        assert_eq!(machines.slaves(at(42)), [(one, 1)].into());
    }

    #[test]
    fn a_slave_counts_as_connected_with_its_first_report() {
        let replicas = Replicas::default();
        let mut connections = replicas.connections();
        let slave = Arc::new(SlaveProgress::new("10.0.0.1:1".parse().unwrap()));
        replicas.join(slave.clone());
        assert!(!slave.has_reported() && !connections.has_changed().unwrap());
        for acknowledged in [0, 7] {
            replicas.note_report(&slave, acknowledged);
            assert!(slave.has_reported());
        }
        assert_eq!((*connections.borrow_and_update(), slave.acknowledged.load(Ordering::Relaxed)), (1, 7));
    }

    #[test]
    fn a_master_that_is_gone_for_a_moment_keeps_its_address() {
        let replicas = Replicas::default();
        replicas.learn(Some("10.0.0.1:10911"), Some("10.0.0.1:10912"));
        let known = replicas.master().borrow().clone();
        replicas.learn(None, Some(""));
        assert_eq!(*replicas.master().borrow(), known);
        assert_eq!(known.ha.as_deref(), Some("10.0.0.1:10912"));
    }
}
