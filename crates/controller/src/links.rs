//! Connections to the other controllers of the group, opened at the start and after a failure, and
//! notices to brokers.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::{ConnectionHandle, Silent, Workers};
use parking_lot::Mutex;
use replica::consensus::NodeId;
use replica::roster::Mastership;
use wire::codes::request;
use wire::frame::{Encoding, FrameWriter, Head};

use crate::answers;
use crate::group::Group;

/// Time limit for connecting to a peer or broker (`ControllerManager.doNotifyBrokerRoleChanged`).
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause after an attempt to connect to a peer that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// Time without a message of a peer after which its connection is replaced, if a message waits.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The connections of one controller to its peers.
pub(crate) struct Links {
    workers: Workers,
    group: Arc<Group>,
    own: NodeId,
    peers: BTreeMap<NodeId, PeerLink>,
}

/// Another controller of the group.
struct PeerLink {
    address: String,
    link: Arc<Mutex<LinkState>>,
    /// Time of the peer's last message, on any connection.
    heard: Instant,
}

#[derive(Default)]
enum LinkState {
    #[default]
    Down,
    /// Attempts to connect are in progress.
    Dialing,
    /// A connection, and the time at which it was made or at which the last attempt to replace it began.
    Up(Arc<ConnectionHandle>, Instant),
}

impl Links {
    pub(crate) fn new(workers: Workers, group: Arc<Group>) -> Self {
        let own = group.me().node;
        let others = group.peers.iter().filter(|peer| peer.node != own);
        let peers = others.map(|peer| (peer.node, PeerLink::new(&peer.address))).collect();
        let links = Self { workers, group, own, peers };
        for other in links.peers.values() {
            links.dial(other, &mut other.link.lock());
        }
        links
    }

    /// Records that a message of this peer came.
    pub(crate) fn heard(&mut self, from: NodeId) {
        if let Some(other) = self.peers.get_mut(&from) {
            other.heard = Instant::now();
        }
    }

    /// Sends a message; false when the peer cannot be reached now, and the message is lost. Consensus sends again.
    pub(crate) fn send(&self, to: NodeId, message: &[u8]) -> bool {
        let Some(other) = self.peers.get(&to) else { return false };
        let mut state = other.link.lock();
        if let LinkState::Up(peer, since) = &mut *state {
            // After a cut network came back, the old connection can be mute for minutes.
            if since.elapsed() > SILENCE_MAX && other.heard.elapsed() > SILENCE_MAX {
                *since = Instant::now();
                self.connect(other, DialEnd::Failed);
            }
            let sent = peer.push(|out| {
                let head =
                    Head::one_way(Encoding::Json, request::VOSTOK_CONTROLLER_MESSAGE, peer.next_opaque());
                let frame = FrameWriter::begin(out, head).text("group", &self.group.name);
                frame.number("from", self.own.0).finish(message);
            });
            if sent.is_ok() {
                return true;
            }
            *state = LinkState::Down;
        }
        self.dial(other, &mut state);
        false
    }

    /// Begins to connect, unless an attempt is in progress.
    fn dial(&self, other: &PeerLink, state: &mut LinkState) {
        if matches!(state, LinkState::Down) {
            *state = LinkState::Dialing;
            self.connect(other, DialEnd::Connected);
        }
    }

    fn connect(&self, other: &PeerLink, until: DialEnd) {
        let (workers, address, link) = (self.workers.clone(), other.address.clone(), other.link.clone());
        // A stopping process needs no connection.
        let _ = self.workers.spawn(0, move || dial(workers, address, link, until));
    }

    /// Notifies a broker of the master. An unreachable broker learns it by its next poll.
    pub(crate) fn notify(&self, address: String, elected: Mastership) {
        let workers = self.workers.clone();
        // As above.
        let _ = self.workers.spawn(0, move || notify(workers, address, elected));
    }
}

/// When attempts to connect end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DialEnd {
    Connected,
    /// Attempts end at a connection or at the first failure, because another connection exists.
    Failed,
}

impl PeerLink {
    fn new(address: &str) -> Self {
        Self { address: address.to_owned(), link: Arc::default(), heard: Instant::now() }
    }
}

/// Connects to a peer, and makes the connection the peer's link. Closes the connection that the link had before.
async fn dial(workers: Workers, address: String, link: Arc<Mutex<LinkState>>, until: DialEnd) {
    loop {
        match connect(&workers, &address).await {
            Ok(peer) => {
                tracing::info!(address, "connected to a controller of the group");
                if let LinkState::Up(old, _) =
                    std::mem::replace(&mut *link.lock(), LinkState::Up(peer, Instant::now()))
                {
                    old.abort();
                }
                return;
            }
            Err(_) if until == DialEnd::Failed => return,
            Err(error) => tracing::debug!(address, %error, "a controller of the group cannot be reached"),
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

async fn notify(workers: Workers, address: String, elected: Mastership) {
    match connect(&workers, &address).await {
        Ok(peer) => {
            // The connection has ended: the broker learns it by its next poll.
            let _ = peer.push(|out| {
                let head =
                    Head::one_way(Encoding::Json, request::NOTIFY_BROKER_ROLE_CHANGED, peer.next_opaque());
                answers::write_notice(out, head, &elected);
            });
            peer.close();
        }
        Err(error) => tracing::warn!(address, %error, "a broker was not told that its set has a new master"),
    }
}

async fn connect(workers: &Workers, address: &str) -> io::Result<Arc<ConnectionHandle>> {
    let dialing = tokio::time::timeout(DIAL_TIMEOUT, workers.dial_name(address, Arc::new(Silent)));
    dialing.await.unwrap_or_else(|late| Err(late.into()))
}
