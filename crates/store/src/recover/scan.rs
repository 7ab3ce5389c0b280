//! Reading the log from a position to its end, indexing every record.

use crate::batch::is_indexed;
use crate::batch::tags::Tags;
use crate::error::OpenError;
use crate::log::Segment;
use crate::multi;
use crate::planted::{self, Bug};
use crate::queue::Unit;
use crate::store::Shared;
use crate::wake::lock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::record::{MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, RecordError, RecordView, peek};
use wire::units::LogOffset;

/// Bytes read at once.
const WINDOW_BYTES: usize = 4 << 20;
/// Units kept in memory before they go to the queue files.
const UNITS_MAX: u64 = 1 << 19;
/// Places a queue may miss before a record's queue offset is taken for damaged.
const GAP_MAX: u64 = 1 << 20;

/// Where a record belongs.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) topic: &'a str,
    pub(super) queue_id: i32,
    pub(super) queue_offset: u64,
    pub(super) tags: Tags,
}

/// What reading the log found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) from: u64,
    pub(super) end: u64,
    pub(super) records: u64,
    pub(super) last_record: Option<u64>,
    pub(super) store_timestamp: i64,
    /// Why it ended, unless at empty space.
    pub(super) reason: Option<String>,
    pub(super) lost_behind_cut: u64,
}

/// A piece of a segment in memory that follows the reader.
pub(super) struct Window {
    segment: Arc<Segment>,
    segment_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub(super) fn new(segment: Arc<Segment>, segment_bytes: u64) -> Self {
        Self { segment, segment_bytes, start: 0, bytes: Vec::new() }
    }

    /// `length` bytes at a position of the segment; the caller stays within it.
    pub(super) fn get(&mut self, at: u64, length: usize) -> io::Result<&[u8]> {
        let held = at.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        let held = held.filter(|skip| skip + length <= self.bytes.len());
        let skip = match held {
            Some(skip) => skip,
            None => {
                let left = usize::try_from(self.segment_bytes - at).unwrap_or(usize::MAX);
                self.bytes.resize(length.max(WINDOW_BYTES).min(left), 0);
                self.start = at;
                self.segment.file.read_at(&mut self.bytes, at)?;
                0
            }
        };
        Ok(&self.bytes[skip..skip + length])
    }
}

/// What lies at a position.
pub(super) enum Found {
    Record(usize),
    /// The rest of the file is blank.
    Roll,
    Nothing,
    Damage(String),
}

impl Shared {
    /// Reads from `from` to the end of whole records.
    pub(super) fn scan(&self, from: u64) -> Result<Scan, OpenError> {
        let mut scan = Scan { from, end: from, ..Scan::default() };
        while let Some(segment) = self.log.segment_of(scan.end) {
            let path = segment.path.clone();
            let mut window = Window::new(segment, self.log.segment_bytes);
            let rolled = self.scan_segment(&mut window, &mut scan).map_err(OpenError::io(&path))?;
            if !rolled {
                if scan.reason.is_some() {
                    let at = scan.end - window.segment.base;
                    scan.lost_behind_cut = count_behind(&mut window, at).map_err(OpenError::io(&path))?;
                }
                break;
            }
            scan.end = window.segment.base + self.log.segment_bytes;
        }
        Ok(scan)
    }

    /// Reads one file; `true` when it ended in a blank record.
    fn scan_segment(&self, window: &mut Window, scan: &mut Scan) -> io::Result<bool> {
        loop {
            let at = scan.end - window.segment.base;
            match find(window, at)? {
                Found::Record(size) => {
                    let offset = scan.end;
                    let view = RecordView::parse(window.get(at, size)?).map_err(io::Error::other)?;
                    self.index_record(&view, offset);
                    self.digest_recovered(&view, offset);
                    scan.records += 1;
                    scan.last_record = Some(offset);
                    scan.store_timestamp = scan.store_timestamp.max(view.store_timestamp());
                    scan.end += size as u64;
                }
                Found::Roll => return Ok(true),
                Found::Nothing => return Ok(false),
                Found::Damage(reason) => {
                    scan.reason = Some(reason);
                    return Ok(false);
                }
            }
            if self.queues.unwritten_units.load(Ordering::Relaxed) > UNITS_MAX {
                self.spill_tails(scan.end)?;
            }
        }
    }

    /// The place of a stored record in its queue, if it has one.
    fn place_of<'a>(&self, view: &RecordView<'a>) -> Option<Place<'a>> {
        if !is_indexed(view.sys_flag()) {
            return None;
        }
        let topic = view.topic_str()?;
        let tags = Tags::of(crate::queue::is_schedule(topic), view.properties(), self.delays());
        Some(Place { topic, queue_id: view.queue_id(), queue_offset: view.queue_offset().get(), tags })
    }

    /// The places of a stored record in all its queues.
    pub(super) fn places_of<'a>(&self, view: &RecordView<'a>) -> impl Iterator<Item = Place<'a>> {
        let place = self.place_of(view);
        let further = place.filter(|_| self.config.multi_dispatch).map(|place| {
            let at = move |(topic, queue_id, queue_offset)| Place { topic, queue_id, queue_offset, ..place };
            multi::places(view).into_iter().map(at)
        });
        place.into_iter().chain(further.into_iter().flatten())
    }

    /// Adds a stored record to its queues, as appending it did.
    fn index_record(&self, view: &RecordView<'_>, offset: u64) {
        self.places_of(view).for_each(|place| self.index_place(view, offset, place));
    }

    fn index_place(&self, view: &RecordView<'_>, offset: u64, place: Place<'_>) {
        let Ok(queue) = self.queues.find_or_create(place.topic, place.queue_id) else {
            tracing::error!(
                offset,
                queue_id = place.queue_id,
                "a record's topic cannot be a queue; it is passed over"
            );
            return;
        };
        let (wanted, next) = (place.queue_offset, queue.max().get());
        if wanted < next {
            return;
        }
        if wanted > next {
            if queue.min() == queue.max() {
                queue.start_at(wanted);
            } else if wanted - next > GAP_MAX {
                tracing::error!(
                    offset,
                    ?queue,
                    wanted,
                    "a record's queue offset is far ahead; it is passed over"
                );
                return;
            } else {
                tracing::warn!(offset, ?queue, wanted, "a queue misses messages; their places stay blank");
            }
        }
        let tags_code = place.tags.at(view.store_timestamp());
        let size = u32::try_from(view.size()).expect("a record's size fits its 4-byte field");
        let unit = Unit { log_offset: LogOffset::new(offset), size, tags_code };
        for place in queue.max().get()..=wanted {
            queue.take_next();
            queue.push(if place == wanted { unit } else { Unit::PRE_BLANK }, &self.queues.unwritten);
            self.queues.unwritten_units.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the tails to the queue files so that rebuilding a big store needs little memory.
    fn spill_tails(&self, end: u64) -> io::Result<()> {
        let written = self.write_round(&mut lock(&self.checkpointing), end, &mut lock(&self.touched));
        match written {
            Ok(queues) => queues.iter().for_each(|queue| queue.trim_tail(true)),
            Err(crate::checkpoint::Interrupted::NoSpace(error)) => return Err(error),
            Err(crate::checkpoint::Interrupted::Fenced) => {
                return Err(io::Error::other(self.fence.reason().unwrap_or_default()));
            }
        }
        Ok(())
    }
}

pub(super) fn find(window: &mut Window, at: u64) -> io::Result<Found> {
    let left = window.segment_bytes - at;
    if left < 8 {
        return Ok(Found::Damage(format!("{left} bytes are left in the file, a blank record needs 8")));
    }
    let base = window.segment.base;
    let Some((size, magic)) = peek(window.get(at, 8)?) else { return Ok(Found::Nothing) };
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
    // From the low byte of their length on: a sector that begins there and is lost does not show in the length
    // when that byte is zero by right.
    let skip = view.size() - properties.len() - 1;
    let from = at + skip as u64;
    let to_sector = usize::try_from(from.next_multiple_of(SECTOR_BYTES) - from).expect("less than a sector");
    let is_lost = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    let behind = view.bytes().get(skip + to_sector..).unwrap_or_default();
    view.topic().contains(&0) || behind.chunks(SECTOR_BYTES as usize).any(is_lost)
}

/// How far behind a cut whole records are counted; the number is for the log, and a torn record at the end of a large
/// file must not delay the start.
const COUNTED_BYTES: u64 = 8 << 20;

/// Counts whole records close behind damage in the same file, by their magic and position: what the cut loses at least.
fn count_behind(window: &mut Window, from: u64) -> io::Result<u64> {
    let mut count = 0;
    let mut at = from;
    let end = window.segment_bytes.min(from + COUNTED_BYTES);
    while let Some(next) = next_whole(window, at, end)? {
        count += 1;
        // Whole records lie side by side.
        at = next;
        while let Found::Record(size) = find(window, at)? {
            if at > next {
                count += 1;
            }
            at += size as u64;
            if at >= end {
                return Ok(count);
            }
        }
    }
    Ok(count)
}

/// The first whole record behind damage at `from`, before `end` of the same file, told by its magic and position.
pub(super) fn next_whole(window: &mut Window, from: u64, end: u64) -> io::Result<Option<u64>> {
    let mut at = from + 1;
    while at + RECORD_BYTES_MIN as u64 <= end {
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
