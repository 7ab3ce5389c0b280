//! Reads a commit log file record by record: the content of a position, and the next whole record behind damage.

use crate::disk::PAGE_BYTES;
use crate::log::Segment;
use crate::planted::{self, Bug};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use wire::record::{MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, RecordError, RecordView, peek};
use wire::units::LogOffset;

/// Bytes read at once.
const WINDOW_BYTES: usize = 4 << 20;

/// A range of a file, `at..end`, that the disk cannot read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnreadableRange {
    pub(crate) at: u64,
    pub(crate) end: u64,
    pub(crate) error: String,
}

/// Sliding window over the bytes of a commit log file.
pub(crate) struct Window {
    segment: Arc<Segment>,
    segment_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
    /// Unreadable bytes that are accepted before a read fails.
    tolerance: u64,
    /// Whether the rest of the file counts as unreadable beyond `tolerance`. If false, the read fails.
    gives_up: bool,
    /// Unreadable ranges met, ascending. A record that overlaps such a range is not whole.
    pub(crate) unreadable: Vec<UnreadableRange>,
    /// Length in bytes of the unreadable ranges that were really tried.
    unreadable_bytes: u64,
    /// Position of the file from which on no read is attempted.
    readable_end: u64,
}

impl Window {
    pub(crate) fn new(segment: Arc<Segment>, segment_bytes: u64) -> Self {
        Self {
            segment,
            segment_bytes,
            start: 0,
            bytes: Vec::new(),
            tolerance: 0,
            gives_up: false,
            unreadable: Vec::new(),
            unreadable_bytes: 0,
            readable_end: segment_bytes,
        }
    }

    /// Makes the window skip up to `tolerance` unreadable bytes.
    pub(crate) fn tolerant(self, tolerance: u64) -> Self {
        Self { tolerance, ..self }
    }

    /// A window that counts the rest of the file as unreadable after more than `tolerance` unreadable bytes.
    pub(crate) fn giving_up_after(self, tolerance: u64) -> Self {
        Self { tolerance, gives_up: true, ..self }
    }

    /// Log position of the file's first byte.
    pub(super) fn base(&self) -> u64 {
        self.segment.base
    }

    /// `length` bytes at position `at` of the file; the caller stays within the file.
    pub(crate) fn get(&mut self, at: u64, length: usize) -> io::Result<&[u8]> {
        let held = at.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        let held = held.filter(|skip| skip + length <= self.bytes.len());
        let skip = match held {
            Some(skip) => skip,
            None => {
                let left = usize::try_from(self.segment_bytes - at).unwrap_or(usize::MAX);
                self.bytes.resize(length.max(WINDOW_BYTES).min(left), 0);
                self.start = at;
                if at + self.bytes.len() as u64 > self.readable_end {
                    self.read_pages()?;
                    return Ok(&self.bytes[..length]);
                }
                match self.segment.file.read_at(&mut self.bytes, at) {
                    Err(error) if self.tolerance > 0 && is_of_medium(&error) => self.read_pages()?,
                    read => read?,
                }
                0
            }
        };
        Ok(&self.bytes[skip..skip + length])
    }

    /// Reads page by page; unreadable pages become zeros.
    fn read_pages(&mut self) -> io::Result<()> {
        let end = self.start + self.bytes.len() as u64;
        let mut at = self.start;
        while at < end {
            let (page, next) = (at / PAGE_BYTES * PAGE_BYTES, (at / PAGE_BYTES + 1) * PAGE_BYTES);
            let inside = |position: u64| usize::try_from(position - self.start).expect("inside the window");
            let has_failed = self.unreadable_in(page, next).next().is_some();
            let bytes = &mut self.bytes[inside(at)..inside(next.min(end))];
            // Do not try a page again that failed once: the disk may take seconds to fail again.
            if has_failed {
                bytes.fill(0);
            } else if let Err(error) = self.segment.file.read_at(bytes, at) {
                bytes.fill(0);
                self.note(page, next.min(self.segment_bytes), error)?;
            }
            at = next;
        }
        Ok(())
    }

    fn note(&mut self, at: u64, end: u64, error: io::Error) -> io::Result<()> {
        if !is_of_medium(&error) {
            return Err(error);
        }
        self.unreadable_bytes += end - at;
        let is_over = self.unreadable_bytes > self.tolerance;
        let mut end = end;
        if is_over && self.gives_up {
            end = self.segment_bytes;
            self.readable_end = self.readable_end.min(at);
        }
        let behind = self.first_behind(at);
        // Drops ranges behind this one, found by a reader that went back: the new range covers them.
        self.unreadable.truncate(if end == self.segment_bytes { behind } else { self.unreadable.len() });
        match behind.checked_sub(1).map(|before| &mut self.unreadable[before]) {
            Some(before) if before.end == at => before.end = end,
            _ => self.unreadable.insert(behind, UnreadableRange { at, end, error: error.to_string() }),
        }
        if is_over && !self.gives_up { Err(error) } else { Ok(()) }
    }

    /// Index of the first unreadable range that ends behind a position.
    fn first_behind(&self, at: u64) -> usize {
        self.unreadable.partition_point(|part| part.end <= at)
    }

    /// Returns the unreadable ranges met within `at..end`.
    pub(crate) fn unreadable_in(&self, at: u64, end: u64) -> impl Iterator<Item = &UnreadableRange> {
        self.unreadable[self.first_behind(at)..].iter().take_while(move |part| part.at < end)
    }

    /// `LogContent::Damage` when an unreadable range overlaps the `length` bytes at `at`.
    fn refusal(&self, at: u64, length: u64) -> Option<LogContent> {
        let UnreadableRange { at, end, error } = self.unreadable_in(at, at + length).next()?;
        Some(LogContent::Damage(format!("bytes {at} to {end} of the file cannot be read: {error}")))
    }
}

/// Whether a read failed with `EIO`, an error of the medium.
pub(super) fn is_of_medium(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}

/// Content at a position of a commit log file.
pub(crate) enum LogContent {
    Record(usize),
    /// A blank record: the rest of the file is unused.
    Roll,
    Nothing,
    Damage(String),
}

/// Whole records that directly follow each other.
#[derive(Default)]
pub(super) struct Walk {
    /// Position in the file and size in bytes of each record.
    pub(super) records: Vec<(u32, u32)>,
}

/// Walks the whole records from the start of a file.
pub(super) fn walk(window: &mut Window) -> io::Result<Walk> {
    let mut found = Walk::default();
    let mut at = 0;
    while let LogContent::Record(size) = find(window, at)? {
        let small = |number: u64| u32::try_from(number).map_err(io::Error::other);
        found.records.push((small(at)?, small(size as u64)?));
        at += size as u64;
    }
    Ok(found)
}

pub(crate) fn find(window: &mut Window, at: u64) -> io::Result<LogContent> {
    let left = window.segment_bytes - at;
    if left < 8 {
        return Ok(LogContent::Damage(format!("{left} bytes are left in the file, a blank record needs 8")));
    }
    let base = window.segment.base;
    let Some((size, magic)) = peek(window.get(at, 8)?) else { return Ok(LogContent::Nothing) };
    if let Some(refusal) = window.refusal(at, 8) {
        return Ok(refusal);
    }
    match magic {
        0 if size == 0 => return Ok(LogContent::Nothing),
        MAGIC_BLANK if u64::from(size) == left => return Ok(LogContent::Roll),
        MAGIC_V1 | MAGIC_V2 if u64::from(size) <= left => {}
        _ => {
            return Ok(LogContent::Damage(format!(
                "magic {magic:#010x} with size {size} where {left} bytes are left"
            )));
        }
    }
    let size = size as usize;
    window.get(at, size)?;
    if let Some(refusal) = window.refusal(at, size as u64) {
        return Ok(refusal);
    }
    let bytes = window.get(at, size)?;
    Ok(match RecordView::parse(bytes).and_then(|view| check(&view).map(|()| view)) {
        Err(error) => LogContent::Damage(error.to_string()),
        Ok(view) if view.log_offset() != Some(LogOffset::new(base + at)) => {
            LogContent::Damage(format!("the record says it lies at {:?}", view.log_offset()))
        }
        Ok(view) if is_torn(&view, at) && !planted::is(Bug::SkipCrc) => {
            LogContent::Damage("part of the record never reached the disk".to_owned())
        }
        Ok(_) => LogContent::Record(size),
    })
}

fn check(view: &RecordView<'_>) -> Result<(), RecordError> {
    if planted::is(Bug::SkipCrc) { Ok(()) } else { view.check_crc() }
}

/// Whether a sector of the record behind its body was lost in a power cut. RocketMQ's checksum covers the body only, and a
/// lost sector reads as zeros. Zeros in the length fields behind the body show when the record is parsed. A topic contains no
/// zero byte. Properties end in a separator, so none of their sectors is all zeros. A record without properties rightly ends
/// in two zero bytes, the length.
fn is_torn(view: &RecordView<'_>, at: u64) -> bool {
    const SECTOR_BYTES: u64 = 512;
    let properties = view.properties();
    if properties.is_empty() {
        return view.topic().contains(&0);
    }
    if properties.ends_with(&[0]) {
        // A failed write can end at any byte, not only between sectors.
        return true;
    }
    // Begin at the low byte of the properties' length: when that byte is rightly zero, the length does not show the loss of a
    // sector that begins there.
    let skip = view.size() - properties.len() - 1;
    let from = at + skip as u64;
    let to_sector = usize::try_from(from.next_multiple_of(SECTOR_BYTES) - from).expect("less than a sector");
    let is_lost = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    let behind = view.bytes().get(skip + to_sector..).unwrap_or_default();
    view.topic().contains(&0) || behind.chunks(SECTOR_BYTES as usize).any(is_lost)
}

/// Number of zero bytes after which a search for a record ends. Larger than the largest record. Preallocation fills
/// files with zeros.
const ZEROS_MAX: u64 = 8 << 20;
/// Bytes searched at once where most are zeros.
const SEARCH_BYTES: u64 = 64 << 10;

/// Like [`next_whole`], but passes quickly over zeros.
pub(super) fn next_whole_behind(window: &mut Window, from: u64, end: u64) -> io::Result<Option<u64>> {
    let (mut at, mut zeros) = (from, 0);
    loop {
        at = window.segment.file.next_data(at)?.max(at);
        if at + RECORD_BYTES_MIN as u64 > end {
            return Ok(None);
        }
        let step = SEARCH_BYTES.min(end - at);
        let length = usize::try_from(step).expect("a short step");
        if window.get(at, length)?.iter().all(|byte| *byte == 0) {
            zeros += step;
            if zeros > ZEROS_MAX {
                return Ok(None);
            }
        } else {
            zeros = 0;
            // A record may begin with the last byte of the step, or within the zeros passed over before it: the first byte of
            // a size below 16 MiB is zero.
            let limit = (at + step + RECORD_BYTES_MIN as u64 - 1).min(end);
            if let Some(next) = next_whole(window, at.saturating_sub(4).max(from), limit)? {
                return Ok(Some(next));
            }
        }
        at += step;
    }
}

/// Returns the number of bytes from `at` on that a whole record at `at` needs, according to the size in its header.
pub(super) fn header_size(window: &mut Window, at: u64) -> io::Result<u64> {
    let left = window.segment_bytes - at;
    let head = window.get(at, usize::try_from(left.min(8)).expect("eight bytes"))?;
    Ok(match peek(head) {
        Some((size, MAGIC_V1 | MAGIC_V2)) if (8..=left).contains(&u64::from(size)) => u64::from(size),
        _ => left.min(8),
    })
}

/// The first whole record in `from + 1..end` of the file, found by its magic and its own position.
pub(crate) fn next_whole(window: &mut Window, from: u64, end: u64) -> io::Result<Option<u64>> {
    let mut at = from + 1;
    // The rest of the file counts as unreadable from `readable_end` on.
    while at + RECORD_BYTES_MIN as u64 <= end.min(window.readable_end) {
        let step = usize::try_from(end - at).unwrap_or(usize::MAX).min(WINDOW_BYTES / 2);
        let bytes = window.get(at, step)?;
        let magic = |head: &[u8]| matches!(peek(head), Some((_, MAGIC_V1 | MAGIC_V2)));
        let Some(skip) = bytes.windows(8).position(magic) else {
            at += step as u64 - 7;
            continue;
        };
        at += skip as u64;
        if matches!(find(window, at)?, LogContent::Record(_)) {
            return Ok(Some(at));
        }
        at += 1;
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
