//! A unit of the timer log.

use wire::units::LogOffset;

/// Size of a unit in bytes.
pub const UNIT_BYTES: u64 = 52;
/// Size in bytes of the mark at the end of a file.
pub(crate) const BLANK_BYTES: u64 = 16;
/// Magic number of the mark at the end of a file.
const BLANK_MAGIC: u32 = 0xCBD4_3194;

/// Bits of a unit's magic field.
pub mod magic {
    /// A message to deliver.
    pub const DEFAULT: i32 = 1;
    /// Message too far in the future for the wheel. It is put into the timer queue again at its slot's time.
    pub const ROLL: i32 = 2;
    /// Message that cancels another message of its slot.
    pub const DELETE: i32 = 4;
}

/// Unit: a timed message that waits for its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerUnit {
    /// Position in the timer log of the previous unit of the same slot.
    pub previous: Option<u64>,
    /// [`magic`] bits.
    pub magic: i32,
    /// When the unit was added, ms since the epoch.
    pub written_ms: i64,
    /// Time in ms from `written_ms` to a moment within the slot.
    pub delay_ms: i32,
    /// Log position of the message's record in the commit log.
    pub log_offset: LogOffset,
    /// Size of the message's record in bytes.
    pub size: u32,
    /// Java hash of the message's real topic.
    pub topic_hash: i32,
}

/// Content at a position of the timer log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerContent {
    Unit(TimerUnit),
    /// The rest of the file is unused.
    Blank,
    Nothing,
}

impl TimerUnit {
    /// A moment within the unit's slot, ms since the epoch: the due time minus 1 ms, or the slot's start when RocketMQ wrote
    /// the unit.
    pub fn time_ms(&self) -> i64 {
        self.written_ms.saturating_add(i64::from(self.delay_ms))
    }

    /// Whether the message will be put into the timer queue again.
    pub fn rolls(&self) -> bool {
        self.magic & magic::ROLL != 0
    }

    /// Whether the message cancels another message. A message that still rolls does not cancel yet.
    pub fn deletes(&self) -> bool {
        self.magic & magic::DELETE != 0 && !self.rolls()
    }

    /// Log position behind the message's record in the commit log.
    pub fn end(&self) -> LogOffset {
        self.log_offset + u64::from(self.size)
    }

    /// Encodes the unit.
    pub fn to_bytes(&self) -> [u8; UNIT_BYTES as usize] {
        let mut bytes = [0; UNIT_BYTES as usize];
        bytes[0..4].copy_from_slice(&(UNIT_BYTES as u32).to_be_bytes());
        let previous = self.previous.map_or(-1, u64::cast_signed);
        bytes[4..12].copy_from_slice(&previous.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.magic.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.written_ms.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.delay_ms.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.log_offset.get().to_be_bytes());
        bytes[36..40].copy_from_slice(&self.size.to_be_bytes());
        bytes[40..44].copy_from_slice(&self.topic_hash.to_be_bytes());
        bytes
    }

    /// Parses a unit. Returns `None` for other bytes (`TimerMessageStore.recoverAndRevise`).
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match look(bytes) {
            TimerContent::Unit(unit) => Some(unit),
            TimerContent::Blank | TimerContent::Nothing => None,
        }
    }
}

/// Classifies the start of `bytes`.
pub(crate) fn look(bytes: &[u8]) -> TimerContent {
    let four =
        |at: usize| bytes.get(at..at + 4).and_then(|field| field.try_into().ok()).map(i32::from_be_bytes);
    let eight =
        |at: usize| bytes.get(at..at + 8).and_then(|field| field.try_into().ok()).map(i64::from_be_bytes);
    if four(12).map(i32::cast_unsigned) == Some(BLANK_MAGIC) {
        return TimerContent::Blank;
    }
    let unit = || {
        let magic = four(12)?;
        let sized = four(0)? == UNIT_BYTES as i32 && magic > 0 && magic <= 0xF;
        let size = u32::try_from(four(36)?).ok()?;
        sized.then_some(TimerUnit {
            previous: u64::try_from(eight(4)?).ok(),
            magic,
            written_ms: eight(16)?,
            delay_ms: four(24)?,
            log_offset: LogOffset::from_i64(eight(28)?)?,
            size,
            topic_hash: four(40)?,
        })
    };
    unit().map_or(TimerContent::Nothing, TimerContent::Unit)
}

/// The mark behind the last unit of a file with `left` bytes left.
pub(crate) fn blank(left: u64) -> [u8; BLANK_BYTES as usize] {
    let mut bytes = [0; BLANK_BYTES as usize];
    let left = u32::try_from(left).expect("less than a unit and a mark is left");
    bytes[0..4].copy_from_slice(&left.to_be_bytes());
    bytes[12..16].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
    bytes
}
