//! The message that a tool sends repeatedly.

use super::Clock;
use client::Credentials;
use std::net::IpAddr;
use wire::properties::{self, key};

/// Placeholder for the born timestamp in templates: milliseconds since 1970 have thirteen digits until the year 2286.
pub(super) const BORN_MS: &str = "1000000000000";

/// Placeholder for KEYS in templates: seconds since 1970.
pub(super) const EPOCH_SECONDS: &str = "1000000000";

/// Number of digits in the fixed and in the variable part of a unique key with an IPv4 address.
pub(super) const KEY_DIGITS: (usize, usize) = (20, 12);

/// The parts that all messages of a run share.
#[derive(Clone, Debug)]
pub struct Message {
    /// Name of the producer group.
    pub group: String,
    /// Name of the topic.
    pub topic: String,
    /// Body as it is sent, already compressed if compression is on.
    pub body: Vec<u8>,
    /// System flag of the message: compression, and for a half message the type `TRANSACTION_PREPARED_TYPE`.
    pub sys_flag: i32,
    /// Whether messages have KEYS.
    pub keys: bool,
    /// Number of different tags; 0 for none.
    pub tags: u32,
    /// Bytes of additional user properties.
    pub property_size: usize,
    /// Delay level, 0 for none.
    pub delay_level: i32,
    /// First ten bytes of unique keys: address, process, and a number for the connection.
    pub key_prefix: [u8; 10],
    /// Number of messages in a batch body; 0 for single sends.
    pub batch: u32,
    /// Whether the message is a half message of a transaction.
    pub is_half: bool,
    /// Whether sends are one-way, so that no answer comes.
    pub is_one_way: bool,
    /// Keys to sign requests with; `None` for unsigned requests.
    pub credentials: Option<Credentials>,
}

impl Message {
    pub(super) fn tag_count(&self) -> usize {
        self.tags.max(1) as usize
    }

    /// The properties string, with zeros in the parts that differ between messages.
    pub(super) fn properties(&self, tag: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        let mut unique = Vec::with_capacity(32);
        wire::id::append_hex(&mut unique, &self.key_prefix);
        wire::id::append_hex(&mut unique, &[0; 6]);
        properties::append(&mut out, key::UNIQ_KEY, &unique);
        properties::append(&mut out, key::WAIT_STORE_MSG_OK, b"true");
        if self.keys {
            properties::append(&mut out, key::KEYS, EPOCH_SECONDS.as_bytes());
        }
        if self.tags > 0 {
            properties::append(&mut out, key::TAGS, format!("tag{tag}").as_bytes());
        }
        if self.is_half {
            properties::append(&mut out, key::TRANSACTION_PREPARED, b"true");
            properties::append(&mut out, key::PRODUCER_GROUP, self.group.as_bytes());
        }
        if self.delay_level > 0 {
            properties::append(&mut out, key::DELAY, self.delay_level.to_string().as_bytes());
        }
        if self.property_size > 0 {
            properties::append(&mut out, "aaa", &vec![b'a'; self.property_size]);
        }
        out
    }

    /// Size of a batch body in bytes.
    pub fn batch_bytes(&self) -> usize {
        let entry = |index: usize| 22 + self.body.len() + self.properties(index % self.tag_count()).len();
        (0..self.batch as usize).map(entry).sum()
    }
}

/// A body of `size` letters and digits, different for every seed.
pub fn body(size: usize, seed: u64) -> Vec<u8> {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut state = seed | 1;
    let mut letter = || {
        // Xorshift: a payload needs no better randomness than no visible repetition.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        LETTERS[(state >> 16) as usize % LETTERS.len()]
    };
    (0..size).map(|_| letter()).collect()
}

/// The fixed part of unique keys: address, process, and bytes that differ between connections and runs.
pub fn key_prefix(ip: IpAddr, clock: Clock, connection: u32) -> [u8; 10] {
    let ip = match ip {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(ip) => *ip.octets().last_chunk().expect("sixteen bytes"),
    };
    let process = (std::process::id() as u16).to_be_bytes();
    let run = (clock.epoch_ms(0) as u32).wrapping_mul(0x9e37_79b1) ^ connection;
    let mut prefix = [0; 10];
    prefix[..4].copy_from_slice(&ip);
    prefix[4..6].copy_from_slice(&process);
    prefix[6..].copy_from_slice(&run.to_be_bytes());
    prefix
}
