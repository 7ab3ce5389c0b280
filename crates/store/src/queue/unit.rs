//! The 20 bytes that a queue holds of each of its messages, and which of them its files hold.

use wire::units::LogOffset;

/// Value of the size field in a pre-blank unit.
const PRE_BLANK_SIZE: u32 = 0x7fff_ffff;

/// Unit of a message in a queue: position and size of its record, and its tags code for filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Log position of the message's record.
    pub log_offset: LogOffset,
    /// Size of the record in bytes.
    pub size: u32,
    /// Hash of the tag, sign-extended; in `SCHEDULE_TOPIC_XXXX` the delivery time in ms since the epoch.
    pub tags_code: i64,
}

impl Unit {
    /// The unit of a queue offset without a message.
    pub(crate) const PRE_BLANK: Self =
        Self { log_offset: LogOffset::ZERO, size: PRE_BLANK_SIZE, tags_code: 0 };

    /// Whether there is no message at this queue offset.
    pub fn is_blank(&self) -> bool {
        self.size == PRE_BLANK_SIZE && self.log_offset == LogOffset::ZERO
    }

    /// Whether the tags code is known. It is unknown if a RocketMQ broker with `enableConsumeQueueExt` stored an
    /// address in `consumequeue_ext` instead (`ConsumeQueueExt.isExtAddr`), and the entry is missing.
    pub fn has_tags_code(&self) -> bool {
        self.tags_code >= -(1 << 31)
    }

    /// Log position behind the message's record.
    pub fn end(&self) -> LogOffset {
        self.log_offset + u64::from(self.size)
    }

    pub(crate) fn to_bytes(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.log_offset.get().to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tags_code.to_be_bytes());
        bytes
    }

    /// Parses a unit; `None` where none was written (RocketMQ tests `offset >= 0 && size > 0`).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let offset = i64::from_be_bytes(bytes[..8].try_into().expect("eight bytes sliced"));
        let size = i32::from_be_bytes(bytes[8..12].try_into().expect("four bytes sliced"));
        let tags_code = i64::from_be_bytes(bytes[12..20].try_into().expect("eight bytes sliced"));
        let log_offset = LogOffset::from_i64(offset)?;
        (size > 0).then_some(Self { log_offset, size: size.unsigned_abs(), tags_code })
    }
}

/// Range of queue offsets that a queue's files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Log position of the last unit's record, or [`Self::NONE`].
    pub(crate) last: u64,
}

impl Extent {
    pub(crate) const NONE: u64 = u64::MAX;

    /// Whether a message at log position `at` lies before the minimum offset. A message behind `last` belongs to a re-created
    /// topic of the same name.
    pub(crate) fn is_past(&self, at: u64, number: u64) -> bool {
        number < self.min && at <= self.last
    }
}

impl Default for Extent {
    fn default() -> Self {
        Self { min: 0, max: 0, last: Self::NONE }
    }
}
