//! The controllers of a group as `controllerDLegerPeers` names them.

use std::net::SocketAddr;

use replica::consensus::NodeId;
use wire::settings::addresses;

/// Port of a controller that no group is configured for, as in RocketMQ's sample files.
const DEFAULT_PORT: u16 = 9878;

/// A controller of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name of the peer, which ends in a number: `n0`.
    pub name: String,
    /// Address for brokers and peers: `host:port`.
    pub address: String,
    /// Number of the peer in consensus: the number in the name plus one.
    pub node: NodeId,
}

/// Controllers of a group, and the index of this controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of the group (`controllerDLegerGroup`).
    pub name: String,
    /// All controllers, ordered by their numbers.
    pub peers: Vec<Peer>,
    /// Index of this controller in `peers`.
    pub own: usize,
    /// Whether the configuration has no address of the controller. Then the address at which a client connected
    /// counts.
    pub is_implied: bool,
}

/// Errors of a group's configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// A part of `controllerDLegerPeers` is no peer.
    #[error(
        "controllerDLegerPeers holds `{0}`, expected a name, a dash and an address, as n0-10.0.0.1:9878, several separated by ;"
    )]
    Peer(String),
    /// The names of two peers end in the same number.
    #[error("controllerDLegerPeers names {0} twice")]
    Twice(String),
    /// `controllerDLegerPeers` does not contain this controller.
    #[error("controllerDLegerSelfId is `{own}`, which controllerDLegerPeers (`{peers}`) does not name")]
    Stranger {
        /// The id.
        own: String,
        /// The peers.
        peers: String,
    },
}

impl Group {
    /// Reads the settings of a group. Without peers the controller is alone.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn new(name: &str, peers: &str, own: &str) -> Result<Self, GroupError> {
        let is_implied = peers.trim().is_empty();
        if is_implied {
            let name = if name.is_empty() { "DefaultControllerGroup" } else { name }.to_owned();
            let address = format!("127.0.0.1:{DEFAULT_PORT}");
            let peer = Peer { name: "n0".to_owned(), address, node: NodeId(1) };
            return Ok(Self { name, peers: vec![peer], own: 0, is_implied });
        }
        let mut found = Vec::new();
        for text in peers.split(';').map(str::trim).filter(|text| !text.is_empty()) {
            found.push(peer(text).ok_or_else(|| GroupError::Peer(text.to_owned()))?);
        }
        found.sort_by_key(|peer| peer.node);
        if let Some(twice) = found.windows(2).find(|pair| pair[0].node == pair[1].node) {
            return Err(GroupError::Twice(twice[1].name.clone()));
        }
        let place = found.iter().position(|peer| peer.name == own.trim());
        let stranger = || GroupError::Stranger { own: own.to_owned(), peers: peers.to_owned() };
        Ok(Self { name: name.to_owned(), own: place.ok_or_else(stranger)?, peers: found, is_implied })
    }

    /// This controller.
    pub fn me(&self) -> &Peer {
        &self.peers[self.own]
    }

    /// The port that this controller listens on.
    pub fn port(&self) -> u16 {
        let port = self.me().address.rsplit(':').next().and_then(|port| port.parse().ok());
        port.unwrap_or(DEFAULT_PORT)
    }

    /// The peer with this number.
    pub fn peer(&self, node: NodeId) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.node == node)
    }

    /// Returns the address of a peer for a client that connected to `asked`.
    pub fn address_of(&self, peer: &Peer, asked: SocketAddr) -> String {
        if self.is_implied { asked.to_string() } else { peer.address.clone() }
    }
}

fn peer(text: &str) -> Option<Peer> {
    let (name, address) = text.split_once('-')?;
    let number: u64 = name.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()?;
    address.rsplit_once(':').filter(|(host, _)| !host.is_empty())?;
    let address = addresses(address, DEFAULT_PORT).ok()?;
    // Consensus numbers its members from 1.
    let node = NodeId(number.checked_add(1)?);
    Some(Peer { name: name.to_owned(), address, node })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_read_as_in_java() {
        let group = Group::new("g", "n2-c:3;n0-10.0.0.1:1 ; n1-[::1]:2;", "n1").unwrap();
        let names: Vec<(&str, &str, u64)> =
            group.peers.iter().map(|it| (it.name.as_str(), it.address.as_str(), it.node.0)).collect();
        assert_eq!(names, [("n0", "10.0.0.1:1", 1), ("n1", "[::1]:2", 2), ("n2", "c:3", 3)]);
        assert_eq!((group.me().name.as_str(), group.port(), group.is_implied), ("n1", 2, false));
    }

    #[test]
    fn a_controller_without_peers_is_alone() {
        let group = Group::new("", "", "").unwrap();
        assert_eq!((group.port(), group.peers.len(), group.is_implied), (9878, 1, true));
        let asked = "10.0.0.7:9878".parse().unwrap();
        assert_eq!(group.address_of(group.me(), asked), "10.0.0.7:9878");
    }

    #[test]
    fn wrong_peers_are_named() {
        let peer = |text: &str| GroupError::Peer(text.to_owned());
        assert_eq!(Group::new("g", "n0-a:1;b:2", "n0"), Err(peer("b:2")));
        for text in ["n0-a:1,n1-b:2", "n0-http://a:1", "n0-a:1 # own", "n0-${IP}:1", "n0-:1", "n0-a"] {
            assert_eq!(Group::new("g", text, "n0"), Err(peer(text)));
        }
        assert_eq!(Group::new("g", "n0-a", "n0"), Err(peer("n0-a")));
        assert_eq!(Group::new("g", "n-a:1", "n"), Err(peer("n-a:1")));
        assert_eq!(Group::new("g", "n0-a:1;m0-b:1", "n0"), Err(GroupError::Twice("m0".to_owned())));
        let stranger = GroupError::Stranger { own: "n1".to_owned(), peers: "n0-a:1".to_owned() };
        assert_eq!(Group::new("g", "n0-a:1", "n1"), Err(stranger));
    }
}
