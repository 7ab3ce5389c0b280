//! The answers of a limit server.

use std::io;
use std::net::SocketAddr;
use wire::body::{BrokerData, ClusterInfo, PERM_READ, PERM_WRITE, QueueData, TopicRouteData};
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::SendResponseHeader;
use wire::json::{self, Dialect};

/// Position of the request id in the encoded answer: prefix 8, code 2, language 1, version 2.
const OPAQUE_AT: usize = 13;

/// Position of the flag in a binary header.
const FLAG_AT: usize = 17;

/// The answers that a connection gives.
pub(super) struct Answers {
    address: SocketAddr,
    queues: u32,
    /// The encoded answer to a send with a binary header, without its request id.
    stored: Vec<u8>,
}

impl Answers {
    pub fn new(address: SocketAddr, queues: u32) -> Self {
        let mut stored = Vec::new();
        send_answer(Head::response(Encoding::Binary, response::SUCCESS, 0), &mut stored);
        Self { address, queues, stored }
    }

    /// Appends the answer to a complete frame.
    pub fn append(&self, frame: &mut [u8], out: &mut Vec<u8>) -> io::Result<()> {
        if let Some(opaque) = binary_send(frame) {
            let start = out.len();
            out.extend_from_slice(&self.stored);
            out[start + OPAQUE_AT..start + OPAQUE_AT + 4].copy_from_slice(&opaque);
            return Ok(());
        }
        let command = Command::decode(frame).map_err(io::Error::other)?;
        if !command.is_one_way() && !command.is_response() {
            self.other(&command, out);
        }
        Ok(())
    }

    fn other(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        let done = command.response(response::SUCCESS);
        match command.code {
            request::SEND_MESSAGE | request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => {
                send_answer(done, out)
            }
            request::GET_ROUTEINFO_BY_TOPIC => done.write(out, &self.route().encode(Dialect::Standard)),
            request::GET_BROKER_CLUSTER_INFO => done.write(out, &json::to_vec(&self.cluster())),
            request::UPDATE_AND_CREATE_TOPIC | request::HEART_BEAT | request::UNREGISTER_CLIENT => {
                done.write(out, b"")
            }
            code => {
                let remark = format!(" request type {code} not supported");
                command.response(response::REQUEST_CODE_NOT_SUPPORTED).remark(&remark).write(out, b"");
            }
        }
    }

    fn broker(&self) -> BrokerData {
        BrokerData {
            broker_addrs: [(0, self.address.to_string())].into(),
            broker_name: "echo".to_owned(),
            cluster: "echo".to_owned(),
            ..BrokerData::default()
        }
    }

    fn route(&self) -> TopicRouteData {
        let queues = i32::try_from(self.queues).unwrap_or(i32::MAX);
        let queues = QueueData {
            broker_name: "echo".to_owned(),
            perm: PERM_READ | PERM_WRITE,
            read_queue_nums: queues,
            topic_sys_flag: 0,
            write_queue_nums: queues,
        };
        TopicRouteData {
            broker_datas: vec![self.broker()],
            queue_datas: vec![queues],
            ..TopicRouteData::default()
        }
    }

    fn cluster(&self) -> ClusterInfo {
        let name = "echo".to_owned();
        ClusterInfo {
            broker_addr_table: [(name.clone(), self.broker())].into(),
            cluster_addr_table: [(name.clone(), [name].into())].into(),
        }
    }
}

/// The request id of a send with a binary header that is not one-way. The hot path reads nothing else.
fn binary_send(frame: &[u8]) -> Option<[u8; 4]> {
    let head = frame.get(..29).filter(|head| head[4] == 1 && head[FLAG_AT..FLAG_AT + 4] == [0; 4])?;
    let code = i32::from(i16::from_be_bytes([head[8], head[9]]));
    let is_send =
        matches!(code, request::SEND_MESSAGE | request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE);
    let opaque = head[OPAQUE_AT..OPAQUE_AT + 4].try_into().expect("four bytes sliced");
    is_send.then_some(opaque)
}

fn send_answer(head: Head<'_>, out: &mut Vec<u8>) {
    let reply = SendResponseHeader {
        message_id: "7F00000100002A9F0000000000003039",
        queue_id: 0,
        queue_offset: 12_345,
        transaction_id: Some("7F00000100010000000000000000ECC0"),
    };
    let writer = reply.write(FrameWriter::begin(out, head));
    writer.text("MSG_REGION", "DefaultRegion").text("TRACE_ON", "true").finish(b"");
}
