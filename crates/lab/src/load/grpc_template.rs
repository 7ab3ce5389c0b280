//! Sends of RocketMQ's gRPC protocol, one message each.

use super::{Message, Stamp, Target};
use bytes::{Buf as _, Bytes};
use grpc::messages::{self, Encoding, MessageType, Resource, SystemProperties, Timestamp};
use std::collections::BTreeMap;

/// Bytes before the message of a request: its id, and the prefix of gRPC, which ends in the length of the message.
const HEAD_BYTES: usize = 9;

/// A message of which sends to several queues are made.
#[derive(Clone, Debug)]
pub struct GrpcTemplate {
    message: Message,
    targets: Vec<Target>,
}

impl GrpcTemplate {
    /// Takes the message for these queues.
    pub fn new(message: Message, targets: &[Target]) -> Self {
        Self { message, targets: targets.to_vec() }
    }

    /// Number of queues that the requests may be for; numbers of queues are below it.
    pub fn queues(&self) -> usize {
        self.targets.len()
    }

    /// Appends the id of a request and its send to queue number `queue`; `fill` may then write into the body.
    pub fn append_filled(
        &self,
        out: &mut Vec<u8>,
        queue: usize,
        stamp: &Stamp,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let Self { message, targets } = self;
        let target = &targets[queue];
        let mut user_properties = BTreeMap::new();
        if message.property_size > 0 {
            user_properties.insert("aaa".to_owned(), "a".repeat(message.property_size));
        }
        let keys = message.keys.then(|| (stamp.epoch_ms / 1000).to_string());
        let tags = u64::from(message.tags);
        let system_properties = SystemProperties {
            tag: (tags > 0).then(|| format!("tag{}", stamp.epoch_ms % tags)),
            keys: keys.into_iter().collect(),
            message_id: self.message_id(stamp),
            body_encoding: Encoding::Identity.into(),
            message_type: MessageType::Normal.into(),
            born_timestamp: Some(Timestamp::of_ms((stamp.since_us / 1000).cast_signed())),
            queue_id: target.queue_id,
            ..SystemProperties::default()
        };
        let topic = target.topic.as_deref().unwrap_or(&message.topic);
        let head = messages::Message {
            topic: Some(Resource::named(topic)),
            user_properties,
            system_properties: Some(system_properties),
            body: Bytes::new(),
        };
        out.extend_from_slice(&stamp.opaque.to_be_bytes());
        let body_at = grpc::append_send(out, &head, &message.body);
        fill(&mut out[body_at..]);
    }

    /// A unique id in the form of version 1: `01` and 32 hexadecimal digits (`MessageIdCodec`).
    fn message_id(&self, stamp: &Stamp) -> String {
        let moving = u64::from(stamp.month_ms) << 16 | u64::from(stamp.counter);
        let mut id = vec![b'0', b'1'];
        wire::id::append_hex(&mut id, &self.message.key_prefix);
        wire::id::append_hex(&mut id, &moving.to_be_bytes()[2..]);
        String::from_utf8_lossy(&id).into_owned()
    }
}

/// Takes the requests that were appended, with their ids.
pub fn requests(out: &mut Vec<u8>) -> impl Iterator<Item = (i32, Bytes)> + use<> {
    let mut rest = Bytes::from(std::mem::take(out));
    std::iter::from_fn(move || {
        let head = rest.first_chunk::<HEAD_BYTES>()?;
        let (opaque, length) = ([head[0], head[1], head[2], head[3]], [head[5], head[6], head[7], head[8]]);
        let end = HEAD_BYTES + u32::from_be_bytes(length) as usize;
        let mut request = rest.split_to(end.min(rest.len()));
        request.advance(opaque.len());
        Some((i32::from_be_bytes(opaque), request))
    })
}
