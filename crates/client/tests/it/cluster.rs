//! A name server and a broker in one, with minimal functions. Topics have four queues, groups have members and
//! offsets, pulls are held, and the next sends can be made to fail.

use net::{ConnectionHandle, Limits, Response, Service, Workers};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;
use wire::body::{
    BrokerData, ConsumerListByGroup, HeartbeatData, LockBatchBody, LockBatchResponseBody, QueueData,
    TopicRouteData,
};
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::{PullHeader, PullResponseHeader, SendHeader, SendResponseHeader, pull_flag};
use wire::json::{self, Dialect};
use wire::record;
use wire::units::{LogOffset, QueueOffset};

pub const QUEUES: i32 = 4;

type QueueName = (String, i32);

/// A pull that waits for a message.
struct Held {
    peer: Arc<ConnectionHandle>,
    opaque: i32,
    encoding: Encoding,
    offset: i64,
}

#[derive(Default)]
pub struct State {
    /// Records by queue.
    pub queues: HashMap<QueueName, Vec<Vec<u8>>>,
    /// Offsets by group and queue.
    pub offsets: HashMap<(String, QueueName), i64>,
    /// Members with their connections by group.
    members: BTreeMap<String, BTreeMap<String, Arc<ConnectionHandle>>>,
    held: HashMap<QueueName, Vec<Held>>,
    /// Codes the next sends are answered with.
    pub failures: VecDeque<i32>,
    /// Number of sends that arrived, including failed sends.
    pub sends: usize,
    /// Log offsets sent back.
    pub sent_back: Vec<i64>,
    /// Topics a name server knows nothing of.
    pub unknown_topics: Vec<String>,
    /// Connections of producers by group, the newest of each.
    producers: BTreeMap<String, Arc<ConnectionHandle>>,
    /// Half offsets, decisions, and whether they answer a check-back.
    pub ended: Vec<(i64, i32, bool)>,
    /// Addresses of other brokers, by name. If `a` is one of them, queues are read from `b` as well.
    pub elsewhere: BTreeMap<String, String>,
    /// Brokers have no master.
    pub masterless: bool,
    /// Whether no queue can be read.
    pub hidden: bool,
    /// Heartbeats that arrived.
    pub beats: usize,
    /// Heartbeats wait in `late_beats` for [`State::take_late_beats`].
    pub delays_beats: bool,
    late_beats: Vec<(Arc<ConnectionHandle>, i32, HeartbeatData)>,
    /// Groups that producers left.
    pub left: Vec<String>,
    /// Log offsets that cannot be sent back, and how often that was tried.
    pub unreturnable: BTreeSet<i64>,
    pub refused_back: usize,
    /// Number of queries for the members of a group.
    pub lists: usize,
    /// Whether all locks are refused.
    pub refuses_locks: bool,
    /// The next send waits until the other end is gone, and everything with it.
    pub gate: Option<mpsc::Receiver<()>>,
}

/// The cluster; it ends with its last handle.
pub struct Cluster {
    workers: Workers,
    service: Arc<Broker>,
    pub address: SocketAddr,
}

#[derive(Default)]
struct Broker {
    state: Mutex<State>,
}

impl Cluster {
    pub fn start() -> Self {
        let workers = Workers::start("cluster", 1, Limits::default()).unwrap();
        let service = Arc::new(Broker::default());
        let address = workers.listen("127.0.0.1:0".parse().unwrap(), service.clone()).unwrap();
        Self { workers, service, address }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.service.state.lock().unwrap()
    }

    fn member(&self, group: &str) -> Arc<ConnectionHandle> {
        self.state().members[group].values().next().unwrap().clone()
    }

    /// Asks a member of a consumer group.
    pub async fn ask(
        &self,
        group: &str,
        code: i32,
        body: Vec<u8>,
        fields: impl FnOnce(FrameWriter<'_>) -> FrameWriter<'_>,
    ) -> Response {
        let member = self.member(group);
        let write = |frame: FrameWriter<'_>| fields(frame).finish(&body);
        member.call(Encoding::Json, code, Duration::from_secs(120), write).await.unwrap()
    }

    /// Sends a request to a member of a consumer group.
    pub fn tell(
        &self,
        group: &str,
        code: i32,
        body: &[u8],
        fields: impl FnOnce(FrameWriter<'_>) -> FrameWriter<'_>,
    ) {
        let head = Head::one_way(Encoding::Json, code, 0);
        self.member(group).push(|out| fields(FrameWriter::begin(out, head)).finish(body)).unwrap();
    }

    /// Sends a request to a producer of a group.
    pub fn tell_producer(
        &self,
        group: &str,
        code: i32,
        body: &[u8],
        fields: impl FnOnce(FrameWriter<'_>) -> FrameWriter<'_>,
    ) {
        let head = Head::one_way(Encoding::Json, code, 0);
        let producer = self.state().producers[group].clone();
        producer.push(|out| fields(FrameWriter::begin(out, head)).finish(body)).unwrap();
    }

    /// Asks a producer of a group; `write` finishes the frame.
    pub async fn ask_producer(
        &self,
        group: &str,
        code: i32,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Response {
        let producer = self.state().producers[group].clone();
        producer.call(Encoding::Json, code, Duration::from_secs(120), write).await.unwrap()
    }

    /// A record as requests carry it.
    pub fn record(&self, topic: &str, body: &[u8], properties: &[u8]) -> Vec<u8> {
        self.flagged(topic, body, properties, 0)
    }

    /// Stores a message with the compression flag but an uncompressed body.
    pub fn store_unreadable(&self, topic: &str, queue_id: i32) {
        let bytes = self.flagged(topic, b"not zlib", b"", record::sys_flag::COMPRESSED);
        self.state().put(&(topic.to_owned(), queue_id), bytes, 1);
    }

    fn flagged(&self, topic: &str, body: &[u8], properties: &[u8], sys_flag: i32) -> Vec<u8> {
        let fields = record::RecordFields {
            topic,
            queue_id: 0,
            flag: 0,
            sys_flag,
            born_timestamp: 1,
            born_host: self.address,
            store_host: self.address,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            properties,
            crc_property: false,
        };
        let mut bytes = Vec::new();
        record::encode(&fields, &mut bytes).unwrap();
        bytes
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.workers.shutdown();
    }
}

impl Service for Broker {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, (): &mut (), peer: &Arc<ConnectionHandle>, command: Command<'_>, out: &mut Vec<u8>) {
        let mut state = self.state.lock().unwrap();
        let done = command.response(response::SUCCESS);
        let text = |name: &str| command.fields.text(name).unwrap_or_default();
        match command.code {
            request::GET_ROUTEINFO_BY_TOPIC => route(&state, peer, &command, text("topic"), out),
            request::HEART_BEAT if state.delays_beats => {
                let data = json::from_slice(command.body).unwrap();
                state.late_beats.push((peer.clone(), command.opaque, data));
            }
            request::HEART_BEAT => {
                state.beat(peer, &json::from_slice(command.body).unwrap());
                done.write(out, b"");
            }
            request::UNREGISTER_CLIENT => {
                state.leave(text("consumerGroup"), text("clientID"));
                state.left.extend(command.fields.text("producerGroup").map(str::to_owned));
                done.write(out, b"");
            }
            request::GET_CONSUMER_LIST_BY_GROUP => {
                state.lists += 1;
                let members = state.members.get(text("consumerGroup"));
                let ids = members.into_iter().flat_map(|members| members.keys().cloned()).collect();
                done.write(out, &json::to_vec(&ConsumerListByGroup { consumer_id_list: ids }));
            }
            request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => state.send(peer, &command, out),
            request::PULL_MESSAGE => state.pull(peer, &command, out),
            request::QUERY_CONSUMER_OFFSET => {
                match state.offsets.get(&(text("consumerGroup").to_owned(), queue_name(&command))) {
                    Some(offset) => number(done, "offset", *offset, out),
                    None => command.response(response::QUERY_NOT_FOUND).write(out, b""),
                }
            }
            request::UPDATE_CONSUMER_OFFSET => {
                let offset = command.fields.need_number("commitOffset").unwrap();
                state.offsets.insert((text("consumerGroup").to_owned(), queue_name(&command)), offset);
                if !command.is_one_way() {
                    done.write(out, b"");
                }
            }
            request::GET_MIN_OFFSET => number(done, "offset", 0, out),
            request::GET_MAX_OFFSET => {
                let max = state.queues.get(&queue_name(&command)).map_or(0, Vec::len);
                number(done, "offset", max as i64, out);
            }
            request::CONSUMER_SEND_MSG_BACK => {
                let offset = command.fields.need_number("offset").unwrap();
                if state.unreturnable.contains(&offset) {
                    state.refused_back += 1;
                    return command.response(response::SYSTEM_ERROR).write(out, b"");
                }
                state.sent_back.push(offset);
                done.write(out, b"");
            }
            request::LOCK_BATCH_MQ => {
                let asked: LockBatchBody = json::from_slice(command.body).unwrap();
                let lock_ok_mq_set = if state.refuses_locks { Vec::new() } else { asked.mq_set };
                done.write(out, &json::to_vec(&LockBatchResponseBody { lock_ok_mq_set }));
            }
            request::UNLOCK_BATCH_MQ => done.write(out, b""),
            request::END_TRANSACTION => {
                let offset = command.fields.need_number("tranStateTableOffset").unwrap();
                let decision = command.fields.need_number("commitOrRollback").unwrap();
                state.ended.push((offset, decision, command.fields.flag_or("fromTransactionCheck", false)));
            }
            code => panic!("unexpected request {code}"),
        }
    }
}

fn queue_name(command: &Command<'_>) -> QueueName {
    let fields = &command.fields;
    (fields.need("topic").unwrap().to_owned(), fields.need_number("queueId").unwrap())
}

fn number(head: Head<'_>, name: &str, value: i64, out: &mut Vec<u8>) {
    FrameWriter::begin(out, head).number(name, value).finish(b"");
}

fn route(state: &State, peer: &ConnectionHandle, command: &Command<'_>, topic: &str, out: &mut Vec<u8>) {
    if state.unknown_topics.iter().any(|unknown| unknown == topic) {
        return command.response(response::TOPIC_NOT_EXIST).remark("no route").write(out, b"");
    }
    // Two broker names for one broker, so that a retry has somewhere to go.
    let broker = |name: &str| {
        let address = state.elsewhere.get(name).cloned().unwrap_or_else(|| peer.local().to_string());
        BrokerData {
            broker_addrs: [(i64::from(state.masterless), address)].into(),
            broker_name: name.to_owned(),
            cluster: "C".to_owned(),
            ..BrokerData::default()
        }
    };
    let queues = |name: &str, read| QueueData {
        broker_name: name.to_owned(),
        perm: 6,
        read_queue_nums: if state.hidden { 0 } else { read },
        write_queue_nums: QUEUES,
        topic_sys_flag: 0,
    };
    let of_b = if state.elsewhere.contains_key("a") { QUEUES } else { 0 };
    let data = TopicRouteData {
        broker_datas: vec![broker("a"), broker("b")],
        queue_datas: vec![queues("a", QUEUES), queues("b", of_b)],
        ..TopicRouteData::default()
    };
    command.response(response::SUCCESS).write(out, &data.encode(Dialect::Standard));
}

impl State {
    /// Correlation and requester of a stored message, if it is a request.
    pub fn stored_request(&self) -> Option<(String, String)> {
        let record = self.queues.values().flatten().next()?;
        let record = record::RecordView::parse(record).unwrap();
        let get = |name| wire::properties::get_str(record.properties(), name).map(str::to_owned);
        Some((get("CORRELATION_ID")?, get("REPLY_TO_CLIENT")?))
    }

    /// Number of pulls that wait.
    pub fn held(&self) -> usize {
        self.held.values().map(Vec::len).sum()
    }

    /// Number of heartbeats that have arrived and were not taken.
    pub fn late_beats(&self) -> usize {
        self.late_beats.len()
    }

    /// Processes the delayed heartbeats, and ends the delay.
    pub fn take_late_beats(&mut self) {
        self.delays_beats = false;
        for (peer, opaque, data) in std::mem::take(&mut self.late_beats) {
            self.beat(&peer, &data);
            let head = Head::response(Encoding::Json, response::SUCCESS, opaque);
            let _ = peer.push(|out| FrameWriter::begin(out, head).finish(b""));
        }
    }

    /// Number of members of a consumer group.
    pub fn members(&self, group: &str) -> usize {
        self.members.get(group).map_or(0, BTreeMap::len)
    }

    fn beat(&mut self, peer: &Arc<ConnectionHandle>, data: &HeartbeatData) {
        self.beats += 1;
        for producer in &data.producer_data_set {
            self.producers.insert(producer.group_name.clone(), peer.clone());
        }
        for group in &data.consumer_data_set {
            let members = self.members.entry(group.group_name.clone()).or_default();
            if members.insert(data.client_id.clone(), peer.clone()).is_none() {
                self.notify(&group.group_name);
            }
        }
    }

    fn leave(&mut self, group: &str, client_id: &str) {
        if self.members.get_mut(group).is_some_and(|members| members.remove(client_id).is_some()) {
            self.notify(group);
        }
    }

    fn notify(&self, group: &str) {
        for peer in self.members[group].values() {
            let head = Head::one_way(Encoding::Json, request::NOTIFY_CONSUMER_IDS_CHANGED, 0);
            let _ = peer.push(|out| FrameWriter::begin(out, head).text("consumerGroup", group).finish(b""));
        }
    }

    fn send(&mut self, peer: &Arc<ConnectionHandle>, command: &Command<'_>, out: &mut Vec<u8>) {
        self.sends += 1;
        if let Some(gate) = self.gate.take() {
            let _ = gate.recv();
        }
        if let Some(code) = self.failures.pop_front() {
            return command.response(code).remark("told to fail").write(out, b"");
        }
        let header = SendHeader::decode(command.code, &command.fields).unwrap();
        let name = (header.topic.to_owned(), header.queue_id);
        let first = self.queues.get(&name).map_or(0, Vec::len) as i64;
        if header.batch {
            for entry in wire::batch::entries(command.body) {
                let entry = entry.unwrap();
                self.append(&name, peer, &header, (entry.body, entry.properties));
            }
        } else {
            self.append(&name, peer, &header, (command.body, header.properties));
        }
        self.unknown_topics.retain(|topic| topic != header.topic);
        if !command.is_one_way() {
            let message_id = "7F00000100002A9F0000000000000000";
            let reply = SendResponseHeader {
                message_id,
                queue_id: header.queue_id,
                queue_offset: first,
                transaction_id: None,
            };
            reply.write(FrameWriter::begin(out, command.response(response::SUCCESS))).finish(b"");
        }
        for held in self.held.remove(&name).unwrap_or_default() {
            let _ = held.peer.push(|out| self.found(&name, &held, out));
        }
    }

    fn append(
        &mut self,
        name: &QueueName,
        peer: &ConnectionHandle,
        header: &SendHeader<'_>,
        (body, properties): (&[u8], &[u8]),
    ) {
        let mut bytes = Vec::new();
        let fields = record::RecordFields {
            topic: &name.0,
            queue_id: name.1,
            flag: header.flag,
            sys_flag: header.sys_flag,
            born_timestamp: header.born_timestamp,
            born_host: peer.remote(),
            store_host: peer.local(),
            reconsume_times: header.reconsume_times,
            prepared_transaction_offset: 0,
            body,
            properties,
            crc_property: false,
        };
        record::encode(&fields, &mut bytes).unwrap();
        self.put(name, bytes, header.born_timestamp);
    }

    fn put(&mut self, name: &QueueName, mut bytes: Vec<u8>, store_timestamp: i64) {
        let log_offset = self.queues.values().flatten().map(|record| record.len() as u64).sum();
        let queue = self.queues.entry(name.clone()).or_default();
        let place = record::Placement {
            queue_offset: QueueOffset::new(queue.len() as u64),
            log_offset: LogOffset::new(log_offset),
            store_timestamp,
        };
        record::place(&mut bytes, &place);
        queue.push(bytes);
    }

    fn pull(&mut self, peer: &Arc<ConnectionHandle>, command: &Command<'_>, out: &mut Vec<u8>) {
        let header = PullHeader::decode(&command.fields).unwrap();
        let name = (header.topic.to_owned(), header.queue_id);
        let held = Held {
            peer: peer.clone(),
            opaque: command.opaque,
            encoding: command.encoding,
            offset: header.queue_offset,
        };
        let max = self.queues.get(&name).map_or(0, Vec::len) as i64;
        if header.queue_offset < max {
            self.found(&name, &held, out);
        } else if header.queue_offset > max {
            reply(&held, response::PULL_OFFSET_MOVED, max, max, out).finish(b"");
        } else if header.sys_flag & pull_flag::SUSPEND != 0 {
            self.held.entry(name).or_default().push(held);
        } else {
            reply(&held, response::PULL_NOT_FOUND, max, max, out).finish(b"");
        }
    }

    /// Answers with up to three messages.
    fn found(&self, name: &QueueName, held: &Held, out: &mut Vec<u8>) {
        let queue = &self.queues[name];
        let some: Vec<_> = queue.iter().skip(held.offset as usize).take(3).collect();
        let next = held.offset + some.len() as i64;
        let body: Vec<u8> = some.into_iter().flatten().copied().collect();
        reply(held, response::SUCCESS, next, queue.len() as i64, out).finish(&body);
    }
}

fn reply<'b>(held: &Held, code: i32, next: i64, max: i64, out: &'b mut Vec<u8>) -> FrameWriter<'b> {
    let header = PullResponseHeader { next_offset: next, max_offset: max, ..PullResponseHeader::default() };
    header.write(FrameWriter::begin(out, Head::response(held.encoding, code, held.opaque)))
}
