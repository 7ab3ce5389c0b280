//! Calls of gRPC as bytes: HTTP/2 frames without Huffman codes and tables, and fields of protocol buffers.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::PATIENCE;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// A message of protocol buffers that is being written.
#[derive(Clone, Default)]
pub struct Fields(pub Vec<u8>);

impl Fields {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).unwrap());
    }

    pub fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    pub fn bytes(mut self, field: u64, bytes: impl AsRef<[u8]>) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.as_ref().len() as u64);
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    pub fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, message.0)
    }
}

/// The value at a path of fields: a number, or the bytes of a text or message. The first value counts where there are several.
pub fn at(message: &[u8], path: &[u64]) -> Option<Vec<u8>> {
    let Some((wanted, path)) = path.split_first() else { return Some(message.to_vec()) };
    at(all(message, *wanted).first()?, path)
}

/// The values of a repeated field.
pub fn all(message: &[u8], wanted: u64) -> Vec<Vec<u8>> {
    let mut rest = message;
    let fields = std::iter::from_fn(|| field(&mut rest));
    fields.filter(|(number, _)| *number == wanted).map(|(_, value)| value).collect()
}

/// Takes the next field: its number and value.
fn field(rest: &mut &[u8]) -> Option<(u64, Vec<u8>)> {
    let varint = |rest: &mut &[u8]| {
        let mut number = 0_u64;
        for shift in 0..10 {
            let (&byte, others) = rest.split_first()?;
            *rest = others;
            number |= u64::from(byte & 0x7f) << (7 * shift);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    };
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => varint(rest)?.to_string().into_bytes(),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            rest.split_off(..length)?.to_vec()
        }
        5 => rest.split_off(..4)?.to_vec(),
        _ => rest.split_off(..8)?.to_vec(),
    };
    Some((tag >> 3, value))
}

/// The text or number at a path; empty when there is none.
pub fn text(message: &[u8], path: &[u64]) -> String {
    String::from_utf8(at(message, path).unwrap_or_default()).unwrap()
}

/// What signatures of tests sign.
pub const SIGNED_TIME: &str = "20260101T000000Z";

/// A connection of one client.
pub struct Grpc {
    stream: TcpStream,
    address: SocketAddr,
    client_id: &'static str,
    /// The signature of the requests, and the time that it signs; none when empty.
    pub authorization: String,
    next_stream: u32,
    /// What came on each stream, without the frames, and whether it ended.
    arrived: HashMap<u32, (Vec<u8>, bool)>,
}

impl Grpc {
    pub fn connect(address: SocketAddr, client_id: &'static str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (authorization, arrived) = (String::new(), HashMap::new());
        let mut grpc = Self { stream, address, client_id, authorization, next_stream: 1, arrived };
        grpc.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        grpc.frame(SETTINGS, 0, 0, &[]);
        grpc
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame).unwrap();
    }

    /// Begins a call; the number of its stream.
    pub fn open(&mut self, method: &str) -> u32 {
        let path = format!("/apache.rocketmq.v2.MessagingService/{method}");
        let address = self.address.to_string();
        let headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", &path),
            (":authority", &address),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("grpc-timeout", "180S"),
            ("x-mq-client-id", self.client_id),
            ("x-mq-language", "RUST"),
            ("x-mq-client-version", "5.0.4"),
            ("x-mq-date-time", SIGNED_TIME),
            ("authorization", &self.authorization),
        ];
        let mut block = Vec::new();
        for (name, value) in headers.into_iter().filter(|(_, value)| !value.is_empty()) {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).unwrap());
                block.extend(text.as_bytes());
            }
        }
        let stream = self.next_stream;
        self.next_stream += 2;
        self.frame(HEADERS, END_HEADERS, stream, &block);
        stream
    }

    /// Sends a message on a stream.
    pub fn write(&mut self, stream: u32, message: &Fields, is_last: bool) {
        let mut data = vec![0];
        data.extend(u32::try_from(message.0.len()).unwrap().to_be_bytes());
        data.extend(&message.0);
        self.frame(DATA, if is_last { END_STREAM } else { 0 }, stream, &data);
    }

    /// The next message on a stream; `None` at its end.
    pub fn read(&mut self, stream: u32) -> Option<Vec<u8>> {
        loop {
            let (bytes, is_over) = self.arrived.entry(stream).or_default();
            if let Some((head, rest)) = bytes.split_first_chunk::<5>() {
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                if rest.len() >= length {
                    let message = rest[..length].to_vec();
                    bytes.drain(..5 + length);
                    return Some(message);
                }
            }
            if *is_over {
                return None;
            }
            self.take().unwrap();
        }
    }

    /// Takes one frame of the server.
    fn take(&mut self) -> io::Result<()> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload)?;
        match (kind, flags & ACK) {
            (SETTINGS, 0) => self.frame(SETTINGS, ACK, 0, &[]),
            (PING, 0) => self.frame(PING, ACK, 0, &payload),
            (DATA | HEADERS, _) => {
                let (bytes, is_over) = self.arrived.entry(u32::from_be_bytes(stream)).or_default();
                bytes.extend(if kind == DATA { &payload[..] } else { &[] });
                *is_over |= flags & END_STREAM != 0;
            }
            _ => {}
        }
        Ok(())
    }

    /// A call with one request; all its responses.
    pub fn call(&mut self, method: &str, request: &Fields) -> Vec<Vec<u8>> {
        let stream = self.open(method);
        self.write(stream, request, true);
        std::iter::from_fn(|| self.read(stream)).collect()
    }
}
