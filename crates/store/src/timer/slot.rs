//! A slot of the timer wheel.

pub(crate) const SLOT_BYTES: u64 = 32;

/// Head of the chain of units in a step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Start of the step, ms since the epoch.
    pub time_ms: i64,
    /// Position of the first unit in the timer log; informative only.
    pub first: Option<u64>,
    /// Position of the newest unit in the timer log.
    pub last: Option<u64>,
    /// Number of messages, minus the cancelling messages.
    pub count: i32,
    /// RocketMQ's field; kept as found.
    pub magic: i32,
}

impl Slot {
    /// Encodes the slot; the time is stored in units of `precision_ms`.
    pub fn to_bytes(&self, precision_ms: i64) -> [u8; 32] {
        let position = |at: Option<u64>| at.map_or(-1, u64::cast_signed).to_be_bytes();
        let mut bytes = [0; 32];
        bytes[0..8].copy_from_slice(&(self.time_ms / precision_ms).to_be_bytes());
        bytes[8..16].copy_from_slice(&position(self.first));
        bytes[16..24].copy_from_slice(&position(self.last));
        bytes[24..28].copy_from_slice(&self.count.to_be_bytes());
        bytes[28..32].copy_from_slice(&self.magic.to_be_bytes());
        bytes
    }

    /// Parses a slot.
    pub fn from_bytes(bytes: &[u8; 32], precision_ms: i64) -> Self {
        let eight = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes sliced"));
        let four = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes sliced"));
        Self {
            time_ms: eight(0).saturating_mul(precision_ms),
            first: u64::try_from(eight(8)).ok(),
            last: u64::try_from(eight(16)).ok(),
            count: four(24),
            magic: four(28),
        }
    }
}
