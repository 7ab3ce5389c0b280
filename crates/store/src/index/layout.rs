//! The byte layout of an index file (`IndexFile`, `IndexHeader`), big-endian.

pub(crate) const HEADER_BYTES: usize = 40;
/// Position of [`Header::end_time`] in the file.
pub(crate) const END_TIME_AT: u64 = 8;
/// Position of [`Header::end_offset`] in the file.
pub(crate) const END_OFFSET_AT: u64 = 24;
pub(crate) const ITEM_BYTES: usize = 20;

/// Numbers of slots and items per file; the same for all files of a store (`maxHashSlotNum`, `maxIndexNum`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) slots: u32,
    /// Number of items for which a file has space. Item number zero is never used, so a file holds one item
    /// less.
    pub(crate) items: u32,
}

impl Geometry {
    pub(crate) fn file_bytes(self) -> u64 {
        self.item_at(self.items)
    }

    pub(crate) fn slot_of(self, hash: u32) -> u32 {
        hash % self.slots
    }

    /// Position of a slot in the file.
    pub(crate) fn slot_at(self, slot: u32) -> u64 {
        HEADER_BYTES as u64 + 4 * u64::from(slot)
    }

    /// Position of an item in the file.
    pub(crate) fn item_at(self, number: u32) -> u64 {
        self.slot_at(self.slots) + ITEM_BYTES as u64 * u64::from(number)
    }
}

/// The header of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Store time in ms of the first item's message; times of items count from here.
    pub(crate) begin_time: i64,
    /// Store time in ms of the last item's message.
    pub(crate) end_time: i64,
    /// Log position of the first item's message.
    pub(crate) begin_offset: u64,
    /// Log position of the last item's message.
    pub(crate) end_offset: u64,
    pub(crate) slots_used: u32,
    /// Number of the next item, which is the number of items plus one.
    pub(crate) next: u32,
}

impl Header {
    /// The header of an empty file that follows a file which ended at this time and offset.
    pub(crate) fn seeded(end_time: i64, end_offset: u64) -> Self {
        let (begin_time, begin_offset) = (end_time.max(0), end_offset);
        Self { begin_time, end_time: begin_time, begin_offset, end_offset, slots_used: 0, next: 1 }
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.begin_time.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.end_time.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.begin_offset.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.end_offset.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.slots_used.to_be_bytes());
        bytes[36..].copy_from_slice(&self.next.to_be_bytes());
        bytes
    }

    /// Parses a header; `None` when it is invalid for a file of this size. A count of zero means an empty file.
    pub(crate) fn from_bytes(bytes: &[u8; HEADER_BYTES], geometry: Geometry) -> Option<Self> {
        let long = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes sliced"));
        let int = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes sliced"));
        let header = Self {
            begin_time: long(0),
            end_time: long(8),
            begin_offset: u64::try_from(long(16)).ok()?,
            end_offset: u64::try_from(long(24)).ok()?,
            slots_used: u32::try_from(int(32)).ok()?,
            next: u32::try_from(int(36)).ok()?.max(1),
        };
        let fits = header.next <= geometry.items
            && header.slots_used < header.next
            && header.slots_used <= geometry.slots
            && header.begin_offset <= header.end_offset;
        fits.then_some(header)
    }

    /// Whether the header's end is that of the last item. An outdated header may name the right offset if all items
    /// are of one message.
    pub(crate) fn ends_with(&self, last: &Item) -> bool {
        // The first item's seconds count from the end of the file before.
        let seconds = if self.next == 2 { 0 } else { i64::from(last.seconds) };
        self.end_offset == last.offset && self.end_time >= self.begin_time.saturating_add(1000 * seconds)
    }

    /// Seconds between the file's begin and a store time, as `IndexFile.putKey` computes them.
    pub(crate) fn seconds_of(&self, time: i64) -> u32 {
        if self.begin_time <= 0 {
            return 0;
        }
        let seconds = (time.saturating_sub(self.begin_time) / 1000).clamp(0, i64::from(i32::MAX));
        u32::try_from(seconds).expect("clamped")
    }
}

/// Item: a key of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) hash: u32,
    pub(crate) offset: u64,
    /// Seconds since the file's begin. Brokers write no negative values.
    pub(crate) seconds: i32,
    /// Number of the previous item in the same slot; zero when there is none.
    pub(crate) previous: u32,
}

impl Item {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let int = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes sliced"));
        Self {
            hash: int(0),
            offset: u64::from_be_bytes(bytes[4..12].try_into().expect("eight bytes sliced")),
            seconds: int(12).cast_signed(),
            previous: int(16),
        }
    }

    pub(crate) fn append_to(self, out: &mut Vec<u8>) {
        let mut bytes = [0; ITEM_BYTES];
        bytes[..4].copy_from_slice(&self.hash.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.seconds.to_be_bytes());
        bytes[16..].copy_from_slice(&self.previous.to_be_bytes());
        out.extend_from_slice(&bytes);
    }
}
