//! Messages with the prefix of gRPC: a compression flag of one byte, and the length in four bytes.

use bytes::{Buf as _, Bytes, BytesMut};
use prost::Message;

use crate::failure::Failure;
use crate::messages;

/// Bytes of the prefix.
const PREFIX_BYTES: usize = 5;

/// Protobuf key of `SendMessageRequest.messages`: field 1, with a length before its bytes.
const MESSAGES_KEY: u8 = 1 << 3 | 2;

/// Protobuf key of `Message.body`: field 4, with a length before its bytes.
const BODY_KEY: u8 = 4 << 3 | 2;

/// Appends a message with its prefix.
pub fn append(out: &mut Vec<u8>, message: &impl Message) {
    begin(out, message.encoded_len());
    message.encode(out).expect("a vector grows");
}

/// Appends a `SendMessageRequest` of one message with its prefix. The body of the message is `body`. The body of
/// `head` must be empty. The body is copied once, to the returned offset, and may be changed there.
pub fn append_send(out: &mut Vec<u8>, head: &messages::Message, body: &[u8]) -> usize {
    let field_bytes = |length: usize| 1 + prost::length_delimiter_len(length) + length;
    let message_bytes = head.encoded_len() + field_bytes(body.len());
    begin(out, field_bytes(message_bytes));
    append_key(out, MESSAGES_KEY, message_bytes);
    head.encode(out).expect("a vector grows");
    append_key(out, BODY_KEY, body.len());
    out.extend_from_slice(body);
    out.len() - body.len()
}

/// Appends the prefix of a message of `length` bytes.
fn begin(out: &mut Vec<u8>, length: usize) {
    out.reserve(PREFIX_BYTES + length);
    out.push(0);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

/// Appends the key and the length of a field.
fn append_key(out: &mut Vec<u8>, key: u8, length: usize) {
    out.push(key);
    prost::encode_length_delimiter(length, out).expect("a vector grows");
}

/// A message with its prefix.
pub fn framed(message: &impl Message) -> Bytes {
    let mut out = Vec::new();
    append(&mut out, message);
    out.into()
}

/// The bytes of a stream, from which messages are taken.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: BytesMut,
    /// Most bytes of a message, if there is a limit.
    message_bytes_max: Option<usize>,
}

impl Frames {
    /// Refuses messages of more than `bytes` bytes from now on.
    pub fn limit(&mut self, bytes: usize) {
        self.message_bytes_max = Some(bytes);
    }

    pub fn push(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// Takes the next message. Returns `None` if it is not complete.
    pub fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Failure> {
        let Some(&[compressed, length @ ..]) = self.bytes.first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        if compressed != 0 {
            return Err(Failure::connection("a compressed message arrived, which was not asked for"));
        }
        let length = u32::from_be_bytes(length) as usize;
        if self.message_bytes_max.is_some_and(|most| length > most) {
            return Err(Failure::connection("the answer is too long"));
        }
        if self.bytes.len() - PREFIX_BYTES < length {
            return Ok(None);
        }
        self.bytes.advance(PREFIX_BYTES);
        M::decode(self.bytes.split_to(length).freeze()).map(Some).map_err(Failure::connection)
    }

    /// Whether a partial message remains.
    pub fn is_cut(&self) -> bool {
        !self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Resource, SendMessageRequest, Status};

    #[test]
    fn a_send_is_the_same_with_its_body_apart() {
        for size in [1, 100, 127, 128, 1024, 20_000] {
            let head =
                messages::Message { topic: Some(Resource::named("Topic")), ..messages::Message::default() };
            let (body, mut out) = (vec![b'b'; size], b"before".to_vec());
            let at = append_send(&mut out, &head, &body);
            assert_eq!(&out[at..], body);
            let whole = messages::Message { body: body.into(), ..head };
            assert_eq!(out[6..], framed(&SendMessageRequest { messages: vec![whole] }), "{size} bytes");
        }
    }

    #[test]
    fn messages_come_in_any_pieces() {
        let sent = [Status::ok(), Status::default(), Status { code: 40_402, message: "no topic".to_owned() }];
        let bytes: Vec<u8> = sent.iter().flat_map(|message| framed(message).to_vec()).collect();
        for size in 1..bytes.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(size) {
                frames.push(piece);
                while let Some(message) = frames.next::<Status>().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!((found.as_slice(), frames.is_cut()), (&sent[..], false), "pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&[1, 0, 0, 0, 0][..], &[0, 0, 0, 0, 1, 0xff]] {
            let mut frames = Frames::default();
            frames.push(bytes);
            assert!(matches!(frames.next::<Status>(), Err(Failure::Connection(_))), "{bytes:?}");
        }
        let mut frames = Frames::default();
        frames.push(&framed(&Status::ok())[..6]);
        assert_eq!((frames.next::<Status>(), frames.is_cut()), (Ok(None), true));
        frames.limit(1);
        assert_eq!(frames.next::<Status>(), Err(Failure::connection("the answer is too long")));
    }
}
