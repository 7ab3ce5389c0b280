//! A blocking client of the remoting protocol: one connection, frames in and out, nothing clever.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use wire::codes::request;
use wire::frame::{Command, Encoding, FrameWriter, Head, frame_length};
use wire::header::{PullHeader, PullResponseHeader, SendHeader, SendResponseHeader, pull_flag};

use super::PATIENCE;

/// A command that arrived, owned.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub encoding: Encoding,
    pub code: i32,
    pub opaque: i32,
    pub version: i32,
    pub response: bool,
    pub one_way: bool,
    pub remark: Option<String>,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Arrived {
    fn from(command: &Command<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            encoding: command.encoding,
            code: command.code,
            opaque: command.opaque,
            version: command.version,
            response: command.is_response(),
            one_way: command.is_one_way(),
            remark: command.remark.map(str::to_owned),
            fields: command.fields.iter().map(|(key, value)| (text(key), text(value))).collect(),
            body: command.body.to_vec(),
        }
    }

    /// The value of a header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A header field as a number. Panics when it is absent or no number.
    pub fn number(&self, name: &str) -> i64 {
        let value = self.field(name).unwrap_or_else(|| panic!("field {name} is missing in {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("field {name} is {value:?}, expected a number"))
    }

    /// The remark, empty when there is none.
    pub fn remark(&self) -> &str {
        self.remark.as_deref().unwrap_or_default()
    }
}

/// One connection to a server.
pub struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    start: usize,
    /// Frames that arrived while another was waited for.
    aside: VecDeque<Arrived>,
    opaque: i32,
    pub encoding: Encoding,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            input: Vec::new(),
            start: 0,
            aside: VecDeque::new(),
            opaque: 0,
            encoding: Encoding::Json,
        })
    }

    /// The socket itself, for bytes that are no frames.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Our own address.
    pub fn local(&self) -> SocketAddr {
        self.stream.local_addr().expect("the socket is bound")
    }

    /// A request id nobody used on this connection.
    pub fn next_opaque(&mut self) -> i32 {
        self.opaque += 1;
        self.opaque
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Writes a request and answers its id.
    pub fn ask<F>(&mut self, code: i32, fields: F, body: &[u8]) -> io::Result<i32>
    where
        F: FnOnce(FrameWriter<'_>) -> FrameWriter<'_>,
    {
        let opaque = self.next_opaque();
        let mut out = Vec::with_capacity(256 + body.len());
        let head = Head::request(self.encoding, code, opaque);
        fields(FrameWriter::begin(&mut out, head)).finish(body);
        self.write(&out)?;
        Ok(opaque)
    }

    /// Writes a request nobody answers.
    pub fn tell<F>(&mut self, code: i32, fields: F, body: &[u8]) -> io::Result<()>
    where
        F: FnOnce(FrameWriter<'_>) -> FrameWriter<'_>,
    {
        let opaque = self.next_opaque();
        let mut out = Vec::with_capacity(256 + body.len());
        let head = Head::one_way(self.encoding, code, opaque);
        fields(FrameWriter::begin(&mut out, head)).finish(body);
        self.write(&out)
    }

    /// Asks and waits for the answer. Panics when there is none: the test has failed.
    pub fn call<F>(&mut self, code: i32, fields: F, body: &[u8]) -> Arrived
    where
        F: FnOnce(FrameWriter<'_>) -> FrameWriter<'_>,
    {
        let opaque = self.ask(code, fields, body).expect("the request can be written");
        self.answer(opaque).unwrap_or_else(|error| panic!("no answer to request {code}: {error}"))
    }

    /// Waits for the answer to request `opaque`; other frames stay for [`Self::receive`].
    pub fn answer(&mut self, opaque: i32) -> io::Result<Arrived> {
        let is_it = |frame: &Arrived| frame.response && frame.opaque == opaque;
        if let Some(at) = self.aside.iter().position(is_it) {
            return Ok(self.aside.remove(at).expect("just found"));
        }
        loop {
            let frame = self.read_frame()?;
            if is_it(&frame) {
                return Ok(frame);
            }
            self.aside.push_back(frame);
        }
    }

    /// The next frame, whatever it is.
    pub fn receive(&mut self) -> io::Result<Arrived> {
        match self.aside.pop_front() {
            Some(frame) => Ok(frame),
            None => self.read_frame(),
        }
    }

    /// Frames that arrived while an answer was waited for, the oldest first. A server writes the answers of a connection one after
    /// the other, so a frame that is missing here was not written before that answer.
    pub fn others(&self) -> &VecDeque<Arrived> {
        &self.aside
    }

    /// The next request of the server with `code`; frames before it are dropped. Panics when none comes.
    pub fn pushed(&mut self, code: i32) -> Arrived {
        loop {
            let frame =
                self.receive().unwrap_or_else(|error| panic!("no request {code} of the server: {error}"));
            if !frame.response && frame.code == code {
                return frame;
            }
        }
    }

    /// Waits for bytes and answers every frame that is then complete.
    pub fn read_available(&mut self, mut each: impl FnMut(&Command<'_>)) -> io::Result<()> {
        let mut found = false;
        while !found {
            self.fill()?;
            while let Some(length) = self.complete()? {
                let frame = &mut self.input[self.start..self.start + length];
                each(&Command::decode(frame).map_err(io::Error::other)?);
                self.start += length;
                found = true;
            }
        }
        Ok(())
    }

    /// Whether the server has closed the connection by now; frames before that are dropped.
    pub fn is_closed(&mut self) -> bool {
        self.is_closed_within(Duration::ZERO)
    }

    /// Waits until the server closes the connection; frames before that are dropped. Panics when the connection stays open.
    pub fn await_close(&mut self, why: &str) {
        assert!(self.is_closed_within(PATIENCE), "the connection is not closed: {why}");
    }

    fn is_closed_within(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut buffer = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.stream.set_read_timeout(Some(left)).expect("a socket option");
            match self.stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return false;
                }
                Err(_) => return true,
            }
        }
    }

    fn read_frame(&mut self) -> io::Result<Arrived> {
        loop {
            if let Some(length) = self.complete()? {
                let frame = &mut self.input[self.start..self.start + length];
                let arrived = Arrived::from(&Command::decode(frame).map_err(io::Error::other)?);
                self.start += length;
                return Ok(arrived);
            }
            self.fill()?;
        }
    }

    fn complete(&self) -> io::Result<Option<usize>> {
        let rest = &self.input[self.start..];
        Ok(frame_length(rest).map_err(io::Error::other)?.filter(|length| rest.len() >= *length))
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.input.drain(..self.start);
            self.start = 0;
        }
        let mut buffer = [0; 65_536];
        let count = self.stream.read(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.input.extend_from_slice(&buffer[..count]);
        Ok(())
    }
}

/// The header most sends use: a producer on the default topic's template with four queues.
pub fn send_header(topic: &str, queue_id: i32) -> SendHeader<'_> {
    SendHeader {
        producer_group: "PG",
        topic,
        default_topic: "TBW102",
        default_topic_queue_nums: 4,
        queue_id,
        born_timestamp: 1_700_000_000_000,
        ..SendHeader::default()
    }
}

/// The header of a pull that brings its own subscription, so that no heartbeat is needed.
pub fn pull_header<'a>(group: &'a str, topic: &'a str, queue_id: i32, offset: i64) -> PullHeader<'a> {
    PullHeader {
        consumer_group: group,
        topic,
        queue_id,
        queue_offset: offset,
        max_messages: 32,
        sys_flag: pull_flag::SUBSCRIPTION,
        subscription: "*",
        ..PullHeader::default()
    }
}

impl Connection {
    /// Sends one message with request 310.
    pub fn send(&mut self, header: &SendHeader<'_>, body: &[u8]) -> Arrived {
        self.call(request::SEND_MESSAGE_V2, |writer| header.write(writer), body)
    }

    /// Sends a message that must be stored, and answers its queue and offset.
    pub fn stored(&mut self, header: &SendHeader<'_>, body: &[u8]) -> (i32, i64) {
        let answer = self.send(header, body);
        assert_eq!(answer.code, 0, "{answer:?}");
        (answer.number("queueId") as i32, answer.number("queueOffset"))
    }

    /// Pulls with request 11.
    pub fn pull(&mut self, header: &PullHeader<'_>) -> Arrived {
        self.call(request::PULL_MESSAGE, |writer| header.write(writer), &[])
    }
}

/// Log offset, queue and queue offset of a successful send.
pub fn stored_at(command: &Command<'_>) -> Option<(u64, i32, i64)> {
    let reply = SendResponseHeader::decode(&command.fields).ok()?;
    // A batch answers a comma-separated list; the first id belongs to `queue_offset`.
    let first = reply.message_id.split(',').next()?;
    Some((wire::id::OffsetId::parse(first)?.log_offset.get(), reply.queue_id, reply.queue_offset))
}

/// The four offsets every answer to a pull carries.
pub fn pull_reply(arrived: &Arrived) -> PullResponseHeader {
    PullResponseHeader {
        suggest_broker_id: arrived.number("suggestWhichBrokerId"),
        next_offset: arrived.number("nextBeginOffset"),
        min_offset: arrived.number("minOffset"),
        max_offset: arrived.number("maxOffset"),
        ..PullResponseHeader::default()
    }
}
