//! Looking at a commit log file record by record: what lies at a position, and where after damage the next whole record does.

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

/// A part of a file the disk gives an error for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) at: u64,
    pub(crate) end: u64,
    pub(crate) error: String,
}

/// A piece of a segment in memory that follows the reader.
pub(crate) struct Window {
    segment: Arc<Segment>,
    segment_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
    /// Bytes that may be unreadable before that is an error.
    tolerance: u64,
    /// Whether more than that is no error, but the end of what is tried.
    gives_up: bool,
    /// What was met so far, ascending. No record that lies there is whole.
    pub(crate) unreadable: Vec<Unreadable>,
    /// Bytes of these that were tried.
    unreadable_bytes: u64,
    /// From here to the end of the file nothing is tried any more.
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

    /// The same for a reader that goes on behind so many bytes the disk gives an error for.
    pub(crate) fn tolerant(self, tolerance: u64) -> Self {
        Self { tolerance, ..self }
    }

    /// The same for a reader to whom the rest of the file is unreadable once more bytes than that are.
    pub(crate) fn giving_up_after(self, tolerance: u64) -> Self {
        Self { tolerance, gives_up: true, ..self }
    }

    /// Position in the log of the file's first byte.
    pub(super) fn base(&self) -> u64 {
        self.segment.base
    }

    /// `length` bytes at a position of the segment; the caller stays within it.
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

    /// Reads page by page; those that cannot be read become zeros.
    fn read_pages(&mut self) -> io::Result<()> {
        let end = self.start + self.bytes.len() as u64;
        let mut at = self.start;
        while at < end {
            let (page, next) = (at / PAGE_BYTES * PAGE_BYTES, (at / PAGE_BYTES + 1) * PAGE_BYTES);
            let inside = |position: u64| usize::try_from(position - self.start).expect("inside the window");
            let has_failed = self.unreadable_in(page, next).next().is_some();
            let bytes = &mut self.bytes[inside(at)..inside(next.min(end))];
            // What failed once may take the disk seconds to fail again.
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
        // What was met behind it by a reader that went back.
        self.unreadable.truncate(if end == self.segment_bytes { behind } else { self.unreadable.len() });
        match behind.checked_sub(1).map(|before| &mut self.unreadable[before]) {
            Some(before) if before.end == at => before.end = end,
            _ => self.unreadable.insert(behind, Unreadable { at, end, error: error.to_string() }),
        }
        if is_over && !self.gives_up { Err(error) } else { Ok(()) }
    }

    /// Which of the unreadable parts is the first that ends behind a position.
    fn first_behind(&self, at: u64) -> usize {
        self.unreadable.partition_point(|part| part.end <= at)
    }

    /// What cannot be read of a range, as far as that was tried.
    pub(crate) fn unreadable_in(&self, at: u64, end: u64) -> impl Iterator<Item = &Unreadable> {
        self.unreadable[self.first_behind(at)..].iter().take_while(move |part| part.at < end)
    }

    /// Damage where a range cannot be read.
    fn refusal(&self, at: u64, length: u64) -> Option<Found> {
        let Unreadable { at, end, error } = self.unreadable_in(at, at + length).next()?;
        Some(Found::Damage(format!("bytes {at} to {end} of the file cannot be read: {error}")))
    }
}

/// Whether a read failed because of the place on the disk.
pub(super) fn is_of_medium(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::IO)
}

/// What lies at a position.
pub(crate) enum Found {
    Record(usize),
    /// The rest of the file is blank.
    Roll,
    Nothing,
    Damage(String),
}

/// Whole records one behind the other.
#[derive(Default)]
pub(super) struct Walk {
    /// Positions in the file, and sizes.
    pub(super) records: Vec<(u32, u32)>,
}

/// The whole records from the start of a file on.
pub(super) fn walk(window: &mut Window) -> io::Result<Walk> {
    let mut found = Walk::default();
    let mut at = 0;
    while let Found::Record(size) = find(window, at)? {
        let small = |number: u64| u32::try_from(number).map_err(io::Error::other);
        found.records.push((small(at)?, small(size as u64)?));
        at += size as u64;
    }
    Ok(found)
}

pub(crate) fn find(window: &mut Window, at: u64) -> io::Result<Found> {
    let left = window.segment_bytes - at;
    if left < 8 {
        return Ok(Found::Damage(format!("{left} bytes are left in the file, a blank record needs 8")));
    }
    let base = window.segment.base;
    let Some((size, magic)) = peek(window.get(at, 8)?) else { return Ok(Found::Nothing) };
    if let Some(refusal) = window.refusal(at, 8) {
        return Ok(refusal);
    }
    match magic {
        0 if size == 0 => return Ok(Found::Nothing),
        MAGIC_BLANK if u64::from(size) == left => return Ok(Found::Roll),
        MAGIC_V1 | MAGIC_V2 if u64::from(size) <= left => {}
        _ => {
            return Ok(Found::Damage(format!(
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
        Err(error) => Found::Damage(error.to_string()),
        Ok(view) if view.log_offset() != Some(LogOffset::new(base + at)) => {
            Found::Damage(format!("the record says it lies at {:?}", view.log_offset()))
        }
        Ok(view) if is_torn(&view, at) && !planted::is(Bug::SkipCrc) => {
            Found::Damage("part of the record never reached the disk".to_owned())
        }
        Ok(_) => Found::Record(size),
    })
}

fn check(view: &RecordView<'_>) -> Result<(), RecordError> {
    if planted::is(Bug::SkipCrc) { Ok(()) } else { view.check_crc() }
}

/// Whether a sector behind the body was lost in a power cut. The checksum covers the body only; a lost sector
/// reads as zeros. In the lengths before the properties that shows when the record is parsed, in a topic any zero
/// is one too many, and properties end in a separator, so no sector of them is all zeros. A record without
/// properties ends in two zeros by right: its length.
fn is_torn(view: &RecordView<'_>, at: u64) -> bool {
    const SECTOR_BYTES: u64 = 512;
    let properties = view.properties();
    if properties.is_empty() {
        return view.topic().contains(&0);
    }
    if properties.ends_with(&[0]) {
        // A write that failed half-way ends anywhere, not only between sectors.
        return true;
    }
    // From the low byte of their length on: a sector that begins there and is lost does not show in the length
    // when that byte is zero by right.
    let skip = view.size() - properties.len() - 1;
    let from = at + skip as u64;
    let to_sector = usize::try_from(from.next_multiple_of(SECTOR_BYTES) - from).expect("less than a sector");
    let is_lost = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    let behind = view.bytes().get(skip + to_sector..).unwrap_or_default();
    view.topic().contains(&0) || behind.chunks(SECTOR_BYTES as usize).any(is_lost)
}

/// Zeros that are read in search of a record before nothing is said to follow: more than the largest record has. Files are
/// filled with zeros ahead of their use.
const ZEROS_MAX: u64 = 8 << 20;
/// Bytes looked at once where most are zeros.
const SEARCH_BYTES: u64 = 64 << 10;

/// [`next_whole`] that passes quickly over zeros.
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
            // A record may begin with the last byte of the step, and with zeros that were passed over: its size is less than 16 MiB.
            let limit = (at + step + RECORD_BYTES_MIN as u64 - 1).min(end);
            if let Some(next) = next_whole(window, at.saturating_sub(4).max(from), limit)? {
                return Ok(Some(next));
            }
        }
        at += step;
    }
}

/// How many bytes from a position on have to be on the disk for a whole record to begin there, as far as what is there tells.
pub(super) fn header_size(window: &mut Window, at: u64) -> io::Result<u64> {
    let left = window.segment_bytes - at;
    let head = window.get(at, usize::try_from(left.min(8)).expect("eight bytes"))?;
    Ok(match peek(head) {
        Some((size, MAGIC_V1 | MAGIC_V2)) if (8..=left).contains(&u64::from(size)) => u64::from(size),
        _ => left.min(8),
    })
}

/// The first whole record behind damage at `from`, before `end` of the same file, told by its magic and position.
pub(crate) fn next_whole(window: &mut Window, from: u64, end: u64) -> io::Result<Option<u64>> {
    let mut at = from + 1;
    // Behind where the reader gave up there is nothing to search.
    while at + RECORD_BYTES_MIN as u64 <= end.min(window.readable_end) {
        let step = usize::try_from(end - at).unwrap_or(usize::MAX).min(WINDOW_BYTES / 2);
        let bytes = window.get(at, step)?;
        let magic = |head: &[u8]| matches!(peek(head), Some((_, MAGIC_V1 | MAGIC_V2)));
        let Some(skip) = bytes.windows(8).position(magic) else {
            at += step as u64 - 7;
            continue;
        };
        at += skip as u64;
        if matches!(find(window, at)?, Found::Record(_)) {
            return Ok(Some(at));
        }
        at += 1;
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
