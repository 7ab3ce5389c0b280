//! Connections of brokers, peers and operators. Simple requests are answered at once, and others go to the
//! controller's thread.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use net::{ConnectionHandle, MemoryCharge, Service};
use parking_lot::Mutex;
use replica::consensus::NodeId;
use replica::roster::{ConnectionId, Heartbeat, LeaderConfig, Request};
use wire::body::{parse_key_values, rewrite_key_values};
use wire::codes::response;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::settings::FileSettings as _;

use crate::Config;
use crate::group::Group;
use crate::requests::{self, ClientRequest, Echo, Refusal};

/// Work of the controller's thread for connections.
pub(crate) enum Input {
    Request(PendingRequest, Request),
    Heartbeat(Heartbeat),
    Closed(ConnectionId),
    Message(NodeId, Vec<u8>),
    Configured(LeaderConfig),
    Stop,
}

/// A request that waits for its answer.
pub(crate) struct PendingRequest {
    peer: Arc<ConnectionHandle>,
    encoding: Encoding,
    opaque: i32,
    is_one_way: bool,
    pub asked: Echo,
    _charge: MemoryCharge,
}

impl PendingRequest {
    /// Sends the response with this code. A disconnected client needs no response.
    pub fn answer(self, code: i32, remark: Option<&str>, write: impl FnOnce(&mut Vec<u8>, Head<'_>, &Echo)) {
        if self.is_one_way {
            return;
        }
        let head = Head { remark, ..Head::response(self.encoding, code, self.opaque) };
        let _ = self.peer.push(|out| write(out, head, &self.asked));
    }
}

/// State of the controller that connections read without its thread.
pub(crate) struct ControllerState {
    pub group: Arc<Group>,
    pub config: Mutex<Config>,
    /// File to which changed settings are written; a new path takes effect only after a restart.
    pub config_path: PathBuf,
    /// Leading controller. Zero if it is unknown.
    pub leader: AtomicU64,
    /// Whether this controller leads and answers.
    pub leads: AtomicBool,
}

/// Receives the commands of all connections.
pub(crate) struct ControllerService {
    pub shared: Arc<ControllerState>,
    pub inputs: SyncSender<Input>,
    /// The remark with which clients of other machines are refused; `None` to serve other machines.
    pub refusal_of_others: Option<&'static str>,
}

impl Service for ControllerService {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(
        &self,
        _read_batch: &mut (),
        peer: &Arc<ConnectionHandle>,
        command: Command<'_>,
        out: &mut Vec<u8>,
    ) {
        if command.is_response() {
            return;
        }
        let start = out.len();
        if let Err(Refusal { code, remark }) = self.serve(peer, &command, out) {
            out.truncate(start);
            command.response(code).remark(&remark).write(out, &[]);
        }
        if command.is_one_way() {
            out.truncate(start);
        }
    }

    fn closed(&self, peer: &Arc<ConnectionHandle>) {
        // The thread has to learn it, or a master that is gone would count as alive until its heartbeats expire. It is
        // never far behind, and gone only when the process stops.
        let _ = self.inputs.send(Input::Closed(ConnectionId(peer.id())));
    }
}

impl ControllerService {
    fn serve(
        &self,
        peer: &Arc<ConnectionHandle>,
        command: &Command<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if let Some(text) = self.refusal_of_others.filter(|_| !peer.is_local()) {
            return Err(Refusal { code: response::NO_PERMISSION, remark: text.into() });
        }
        match requests::read(command, peer.id(), &self.shared.group.name)? {
            ClientRequest::Ask(asked, request) => {
                let pending = PendingRequest {
                    peer: peer.clone(),
                    encoding: command.encoding,
                    opaque: command.opaque,
                    is_one_way: command.is_one_way(),
                    asked,
                    _charge: peer.charge(command.body.len() + 1024),
                };
                self.pass(Input::Request(pending, request))
            }
            ClientRequest::Heartbeat(heartbeat) => {
                self.pass(Input::Heartbeat(heartbeat))?;
                command.response(response::SUCCESS).remark("Heart beat success").write(out, &[]);
                Ok(())
            }
            ClientRequest::Peer(from, message) => self.pass(Input::Message(from, message)),
            ClientRequest::Metadata => {
                self.shared.answer_metadata(peer, command, out);
                Ok(())
            }
            ClientRequest::Config => {
                command.response(response::SUCCESS).write(out, self.shared.config.lock().text().as_bytes());
                Ok(())
            }
            ClientRequest::Configure => {
                self.pass(Input::Configured(self.shared.configure(command.body)?))?;
                command.response(response::SUCCESS).write(out, &[]);
                Ok(())
            }
        }
    }

    fn pass(&self, input: Input) -> Result<(), Refusal> {
        self.inputs.try_send(input).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::new(response::SYSTEM_BUSY, "the controller has too much to do"),
            TrySendError::Disconnected(_) => Refusal::new(
                response::CONTROLLER_NOT_LEADER,
                "The controller is stopping or its disk has failed",
            ),
        })
    }
}

impl ControllerState {
    /// Answers `CONTROLLER_GET_METADATA_INFO` (`DLedgerController.getControllerMetadata`); every controller does.
    fn answer_metadata(&self, asked: &ConnectionHandle, command: &Command<'_>, out: &mut Vec<u8>) {
        let group = &self.group;
        let address = |peer| group.address_of(peer, asked.local());
        let leader = group.peer(NodeId(self.leader.load(Ordering::Acquire)));
        let leader_address = leader.map(address);
        let peers: String =
            group.peers.iter().map(|peer| format!("{}:{};", peer.name, address(peer))).collect();
        FrameWriter::begin(out, command.response(response::SUCCESS))
            .text("group", &group.name)
            .maybe("controllerLeaderId", leader.map(|leader| leader.name.as_str()))
            .maybe("controllerLeaderAddress", leader_address.as_deref())
            .flag("isLeader", self.leads.load(Ordering::Acquire))
            .text("peers", &peers)
            .finish(&[]);
    }

    /// Performs `UPDATE_CONTROLLER_CONFIG`: makes all changes or none, and writes the file first.
    fn configure(&self, body: &[u8]) -> Result<LeaderConfig, Refusal> {
        let error = |remark: String| Refusal::new(response::SYSTEM_ERROR, remark);
        let changes = parse_key_values(body).map_err(|_| error("string2Properties error".to_owned()))?;
        let mut config = self.config.lock();
        if changes.keys().any(|key| config.is_locked(key)) {
            return Err(Refusal::new(response::NO_PERMISSION, "Can not update config in black list."));
        }
        let mut changed = config.clone();
        let mut known = BTreeMap::new();
        for (key, value) in changes {
            if changed.set(&key, &value).map_err(|wrong| error(wrong.to_string()))? {
                known.insert(key, value);
            }
        }
        if !known.is_empty() {
            let path = &self.config_path;
            persist(path, &known).map_err(|why| error(format!("cannot write {}: {why}", path.display())))?;
            *config = changed;
        }
        Ok(config.elections())
    }
}

/// Writes changed settings to the configuration file and keeps the rest of the file.
fn persist(path: &std::path::Path, changes: &BTreeMap<String, String>) -> io::Result<()> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let text = rewrite_key_values(&text, changes).map_err(io::Error::other)?;
    let next = path.with_extension("next");
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory)?;
    }
    let mut file = std::fs::File::create(&next)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&next, path)
}
