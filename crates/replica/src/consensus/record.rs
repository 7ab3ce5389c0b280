//! Records and messages of controllers, and their bytes. The layout is Vostok's own. The parser of raft's own
//! protocol buffers is never used, because any host that can connect could feed it.
//!
//! Integers are little-endian. A text of bytes is its length in 4 bytes and the bytes.
//! ```text
//! record    1 kind: 0 term, 1 entry, 2 snapshot; then
//!   term      8 term, 8 vote, 8 commit
//!   entry     8 index, 8 term, data
//!   snapshot  8 index, 8 term, state
//! message   1 layout (1), 1 type, 1 flags: 1 reject, 2 with snapshot
//!           8 each: term, log term, index, commit, commit term, reject hint, request snapshot
//!           context; 4 number of entries, each as above; the snapshot as above
//! ```

use raft::eraftpb::{self, ConfState, HardState, MessageType};

/// Layout of messages that this version writes and reads.
const LAYOUT: u8 = 1;
const REJECTS: u8 = 1;
const HAS_SNAPSHOT: u8 = 2;

/// Most entries of a message. More than the library ever sends.
const ENTRIES_MAX: u32 = 100_000;

/// Vote of a controller, and its committed index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Vote {
    /// The newest term that the controller knows.
    pub term: u64,
    /// Id of the voted controller in that term. Zero for no vote.
    pub vote: u64,
    /// Index of the last known committed entry.
    pub commit: u64,
}

/// An entry of the replicated log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// Index in the log, from 1.
    pub index: u64,
    /// The term of the leader that made it.
    pub term: u64,
    /// Proposed data. Empty for the entry with which a leader begins.
    pub data: Vec<u8>,
}

/// The state that the log up to an entry led to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Index of the last entry in it; zero when there is none.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// The state, as the owner of the consensus gave it.
    pub state: Vec<u8>,
}

/// Durable record, in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Term, vote and commit. Replaces the preceding value.
    Hard(Vote),
    /// Replaces the entries from its index on.
    Entry(Entry),
    /// Replaces all entries before it in the file.
    Snapshot(Snapshot),
}

impl Record {
    /// Appends the bytes of the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hard(hard) => {
                out.push(0);
                [hard.term, hard.vote, hard.commit].into_iter().for_each(|number| put(out, number));
            }
            Self::Entry(entry) => {
                out.push(1);
                put_piece(out, entry.index, entry.term, &entry.data);
            }
            Self::Snapshot(snapshot) => {
                out.push(2);
                put_piece(out, snapshot.index, snapshot.term, &snapshot.state);
            }
        }
    }

    /// Decodes the records of a save. Returns `None` if the bytes are not records.
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Self>> {
        let (mut rest, mut records) = (Cursor(bytes), Vec::new());
        while records.is_empty() || !rest.0.is_empty() {
            records.push(match rest.byte()? {
                0 => Self::Hard(Vote { term: rest.number()?, vote: rest.number()?, commit: rest.number()? }),
                1 => Self::Entry(rest.entry()?),
                2 => Self::Snapshot(rest.snapshot()?),
                _ => return None,
            });
        }
        Some(records)
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a frame or file holds it");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_piece(out: &mut Vec<u8>, index: u64, term: u64, data: &[u8]) {
    put(out, index);
    put(out, term);
    put_bytes(out, data);
}

/// Bytes that are not read yet.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn length(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.length()?;
        self.take(length as usize).map(<[u8]>::to_vec)
    }

    fn entry(&mut self) -> Option<Entry> {
        Some(Entry { index: self.number()?, term: self.number()?, data: self.bytes()? })
    }

    fn snapshot(&mut self) -> Option<Snapshot> {
        Some(Snapshot { index: self.number()?, term: self.number()?, state: self.bytes()? })
    }
}

/// The bytes of a message to a peer.
pub(super) fn encode(message: &eraftpb::Message) -> Vec<u8> {
    let mut out = Vec::new();
    let snapshot = message.snapshot.as_ref().filter(|snapshot| snapshot.get_metadata().index > 0);
    let flags = if message.reject { REJECTS } else { 0 } | snapshot.map_or(0, |_| HAS_SNAPSHOT);
    let kind = u8::try_from(message.get_msg_type() as i32).expect("there are few types");
    out.extend([LAYOUT, kind, flags]);
    for number in [
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.reject_hint,
        message.request_snapshot,
    ] {
        put(&mut out, number);
    }
    put_bytes(&mut out, &message.context);
    let entries = u32::try_from(message.entries.len()).expect("few entries fit a message");
    out.extend_from_slice(&entries.to_le_bytes());
    for entry in &message.entries {
        put_piece(&mut out, entry.index, entry.term, &entry.data);
    }
    if let Some(snapshot) = snapshot {
        let metadata = snapshot.get_metadata();
        put_piece(&mut out, metadata.index, metadata.term, &snapshot.data);
    }
    out
}

/// Decodes the message of a peer. `None` if the bytes are invalid, or a peer never sends such a message.
pub(super) fn decode(bytes: &[u8], voters: &ConfState) -> Option<eraftpb::Message> {
    let mut rest = Cursor(bytes);
    if rest.byte()? != LAYOUT {
        return None;
    }
    let kind = kind(rest.byte()?)?;
    let flags = rest.byte()?;
    let mut message = eraftpb::Message::default();
    message.set_msg_type(kind);
    message.reject = flags & REJECTS != 0;
    message.term = rest.number()?;
    message.log_term = rest.number()?;
    message.index = rest.number()?;
    message.commit = rest.number()?;
    message.commit_term = rest.number()?;
    message.reject_hint = rest.number()?;
    message.request_snapshot = rest.number()?;
    message.context = rest.bytes()?.into();
    let entries = rest.length().filter(|entries| *entries <= ENTRIES_MAX)?;
    for place in 1..=u64::from(entries) {
        // The entries follow the index in the message.
        let entry = rest.entry().filter(|entry| Some(entry.index) == message.index.checked_add(place))?;
        message.entries.push(entry.into());
    }
    if flags & HAS_SNAPSHOT != 0 {
        message.set_snapshot(rest.snapshot()?.to_raft(voters.clone()));
    } else if kind == MessageType::MsgSnapshot {
        return None;
    }
    rest.0.is_empty().then_some(message)
}

/// Returns the type of a message by its number in raft's protocol. `None` for types that controllers never send to each
/// other.
fn kind(number: u8) -> Option<MessageType> {
    use MessageType as It;
    [
        It::MsgAppend,
        It::MsgAppendResponse,
        It::MsgRequestVote,
        It::MsgRequestVoteResponse,
        It::MsgSnapshot,
        It::MsgHeartbeat,
        It::MsgHeartbeatResponse,
        It::MsgRequestPreVote,
        It::MsgRequestPreVoteResponse,
    ]
    .into_iter()
    .find(|kind| *kind as i32 == i32::from(number))
}

impl From<Vote> for HardState {
    fn from(hard: Vote) -> Self {
        let mut state = Self::default();
        (state.term, state.vote, state.commit) = (hard.term, hard.vote, hard.commit);
        state
    }
}

impl From<&HardState> for Vote {
    fn from(state: &HardState) -> Self {
        Self { term: state.term, vote: state.vote, commit: state.commit }
    }
}

impl From<Entry> for eraftpb::Entry {
    fn from(entry: Entry) -> Self {
        let mut raft = Self::default();
        (raft.index, raft.term, raft.data) = (entry.index, entry.term, entry.data.into());
        raft
    }
}

impl From<&eraftpb::Entry> for Entry {
    fn from(entry: &eraftpb::Entry) -> Self {
        Self { index: entry.index, term: entry.term, data: entry.data.to_vec() }
    }
}

impl Snapshot {
    pub(super) fn to_raft(&self, voters: ConfState) -> eraftpb::Snapshot {
        let mut snapshot =
            eraftpb::Snapshot { data: self.state.clone().into(), ..eraftpb::Snapshot::default() };
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = (self.index, self.term);
        metadata.set_conf_state(voters);
        snapshot
    }

    pub(super) fn from_raft(snapshot: &eraftpb::Snapshot) -> Self {
        let metadata = snapshot.get_metadata();
        Self { index: metadata.index, term: metadata.term, state: snapshot.data.to_vec() }
    }
}
