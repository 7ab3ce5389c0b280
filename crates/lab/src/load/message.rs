//! The message a tool sends over and over.

use client::Credentials;
use wire::properties::{self, key};

/// Stands for the born timestamp in templates: milliseconds since 1970 have thirteen digits until the year 2286.
pub(super) const BORN_MS: &str = "1000000000000";

/// Stands for KEYS in templates: seconds since 1970.
pub(super) const EPOCH_SECONDS: &str = "1000000000";

/// Digits of the fixed and of the moving part of a unique key with an IPv4 address.
pub(super) const KEY_DIGITS: (usize, usize) = (20, 12);

/// Everything about the messages of a run that stays the same.
#[derive(Clone, Debug)]
pub struct Message {
    /// Producer group.
    pub group: String,
    /// Topic.
    pub topic: String,
    /// Body as sent, compressed if it is to be.
    pub body: Vec<u8>,
    /// System flag: compression, prepared.
    pub sys_flag: i32,
    /// Sets KEYS.
    pub keys: bool,
    /// Number of different tags; 0 for none.
    pub tags: u32,
    /// Bytes of further properties.
    pub property_size: usize,
    /// Delay level, 0 for none.
    pub delay_level: i32,
    /// First ten bytes of unique keys: address, process, and what tells this connection from others.
    pub key_prefix: [u8; 10],
    /// Messages in a batch body; 0 for single sends.
    pub batch: u32,
    /// A half message of a transaction.
    pub is_half: bool,
    /// Nobody answers.
    pub is_one_way: bool,
    /// Who signs the requests.
    pub credentials: Option<Credentials>,
}

impl Message {
    pub(super) fn tag_count(&self) -> usize {
        self.tags.max(1) as usize
    }

    /// The properties string with zeros where every message differs.
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

    /// Bytes of a batch body.
    #[must_use]
    pub fn batch_bytes(&self) -> usize {
        let entry = |index: usize| 22 + self.body.len() + self.properties(index % self.tag_count()).len();
        (0..self.batch as usize).map(entry).sum()
    }
}

/// `size` letters and digits, different for every seed.
#[must_use]
pub fn body(size: usize, seed: u64) -> Vec<u8> {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut state = seed | 1;
    let mut letter = || {
        // Xorshift: anything without visible repetition will do for a payload.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        LETTERS[(state >> 16) as usize % LETTERS.len()]
    };
    (0..size).map(|_| letter()).collect()
}
