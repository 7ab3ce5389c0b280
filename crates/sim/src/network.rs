//! The network between the nodes: which links are cut or slow, and the connections of replication with the
//! bytes in flight.

use crate::random::Random;
use crate::settings::NodeId;
use replica::transfer::PeerId;
use std::collections::BTreeMap;

/// A process: its node, and the number of its start on that node.
pub type Process = (NodeId, u64);

/// Direction of a connection's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the master to the slave, which has connected.
    ToSlave,
    /// From the slave to the master.
    ToMaster,
}

impl Direction {
    fn index(self) -> usize {
        usize::from(self == Self::ToMaster)
    }

    /// Returns the other direction.
    #[must_use]
    pub fn back(self) -> Self {
        if self == Self::ToSlave { Self::ToMaster } else { Self::ToSlave }
    }
}

/// A connection of replication.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The slave and the master; `None` where the process is gone or has closed.
    ends: [Option<Process>; 2],
    nodes: [NodeId; 2],
    /// Bytes in flight, by direction.
    on_way: [Vec<u8>; 2],
    /// Whether a delivery is scheduled.
    is_due: [bool; 2],
}

impl Connection {
    /// Returns the process at the end of a direction, unless it has closed.
    pub fn end(&self, direction: Direction) -> Option<Process> {
        self.ends[direction.index()]
    }

    /// The node at the end of a direction.
    pub fn node(&self, direction: Direction) -> NodeId {
        self.nodes[direction.index()]
    }
}

/// The network.
#[derive(Default)]
pub struct Network {
    /// Time until which a link is cut, by sender and receiver.
    cuts: BTreeMap<(NodeId, NodeId), u64>,
    /// Time until which a link is slow.
    slow: BTreeMap<(NodeId, NodeId), u64>,
    connections: BTreeMap<PeerId, Connection>,
    last_peer: u64,
}

impl Network {
    /// Cuts a link in one direction.
    pub fn cut(&mut self, from: NodeId, to: NodeId, until_ms: u64) {
        self.cuts.insert((from, to), until_ms);
    }

    /// Makes a link slow in both directions.
    pub fn slow_down(&mut self, one: NodeId, other: NodeId, until_ms: u64) {
        self.slow.insert((one, other), until_ms);
        self.slow.insert((other, one), until_ms);
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.cuts.clear();
        self.slow.clear();
    }

    /// Whether the link from one node to another is cut.
    pub fn is_cut(&self, now_ms: u64, from: NodeId, to: NodeId) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|until_ms| *until_ms > now_ms)
    }

    /// Returns the delay from one node to another.
    pub fn delay(&self, now_ms: u64, from: NodeId, to: NodeId, random: &mut Random) -> u64 {
        let is_slow = self.slow.get(&(from, to)).is_some_and(|until_ms| *until_ms > now_ms);
        if is_slow { random.between(50, 1_500) } else { random.between(1, 5) }
    }

    /// Makes a connection.
    pub fn connect(&mut self, slave: Process, master: Process) -> PeerId {
        self.last_peer += 1;
        let connection = Connection {
            ends: [Some(slave), Some(master)],
            nodes: [slave.0, master.0],
            on_way: [Vec::new(), Vec::new()],
            is_due: [false, false],
        };
        self.connections.insert(PeerId(self.last_peer), connection);
        PeerId(self.last_peer)
    }

    /// The connection.
    pub fn connection(&self, peer: PeerId) -> Option<&Connection> {
        self.connections.get(&peer)
    }

    /// Sends bytes of a node. Returns the direction if a delivery must be scheduled.
    pub fn write(&mut self, peer: PeerId, from: NodeId, bytes: &[u8]) -> Option<Direction> {
        let connection = self.connections.get_mut(&peer)?;
        let direction = if connection.nodes[0] == from { Direction::ToMaster } else { Direction::ToSlave };
        connection.on_way[direction.index()].extend_from_slice(bytes);
        let is_due = std::mem::replace(&mut connection.is_due[direction.index()], true);
        (!is_due).then_some(direction)
    }

    /// Takes some of the bytes in flight. Returns whether more bytes remain for a later delivery.
    pub fn arrive(&mut self, peer: PeerId, direction: Direction, random: &mut Random) -> (Vec<u8>, bool) {
        let Some(connection) = self.connections.get_mut(&peer) else { return (Vec::new(), false) };
        let on_way = &mut connection.on_way[direction.index()];
        let count = match on_way.len() {
            2.. if random.once_in(4) => {
                usize::try_from(random.between(1, on_way.len() as u64)).expect("small")
            }
            all => all,
        };
        let rest = on_way.split_off(count);
        let arrived = std::mem::replace(on_way, rest);
        let is_left = !on_way.is_empty();
        connection.is_due[direction.index()] = is_left;
        (arrived, is_left)
    }

    /// Closes the process's end. Returns the other end's direction if that end must be notified.
    pub fn close(&mut self, peer: PeerId, process: Process) -> Option<Direction> {
        let connection = self.connections.get_mut(&peer)?;
        let gone = connection.ends.iter().position(|end| *end == Some(process))?;
        connection.ends[gone] = None;
        let other = if gone == 0 { Direction::ToMaster } else { Direction::ToSlave };
        let is_open = connection.ends[other.index()].is_some();
        if !is_open {
            self.connections.remove(&peer);
        }
        is_open.then_some(other)
    }

    /// Drops the bytes that a process has sent and no peer has received, because its computer lost
    /// power.
    pub fn forget(&mut self, process: Process) {
        for connection in self.connections.values_mut() {
            if let Some(own) = connection.ends.iter().position(|end| *end == Some(process)) {
                connection.on_way[1 - own].clear();
            }
        }
    }

    /// The connections of a process.
    pub fn of(&self, process: Process) -> Vec<PeerId> {
        let is_its = |(_, it): &(&PeerId, &Connection)| it.ends.contains(&Some(process));
        self.connections.iter().filter(is_its).map(|(peer, _)| *peer).collect()
    }

    /// All connections.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.connections.keys().copied()
    }
}
