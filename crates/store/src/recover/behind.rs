//! Collects the facts about a broken position of the log: a position where a record should begin and no whole record
//! does. The main fact is the whole records behind it. [`super::evidence`] decides from the facts whether the
//! position is the log's end or damage.

use super::Recovery;
use super::evidence::{BrokenKind, Facts, FlushDelay, Meaning, RecordsBehind, judge};
use super::scan::Scan;
use super::window::{LogContent, Window, find, header_size, next_whole_behind};
use crate::dispatch::Dispatch;
use crate::log::Segment;
use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use wire::record::{MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, RecordView, peek};

/// Most whole records behind a broken position that are examined when their exact number is not needed.
const SAMPLE: u64 = 1000;
/// Bytes of a file that may be unreadable before the rest of the file counts as empty. Bad sectors behind the log's
/// end must not keep the store from opening.
const UNREADABLE_BYTES_MAX: u64 = 1 << 20;
/// Unit in which a power cut loses writes, in bytes.
const SECTOR_BYTES: u64 = 512;
/// Zero bytes before the end of a sector that prove no lost write: the 4-byte size of a record below 256 bytes begins with
/// three zeros.
const NATURAL_ZEROS: u64 = 3;

/// Meaning of a broken position of the log, with the records behind it.
pub(super) struct BrokenPosition {
    pub(super) verdict: Meaning,
    /// Position of the next whole record.
    pub(super) next: Option<u64>,
    /// Position of the last whole record that was examined.
    pub(super) last: Option<u64>,
    pub(super) behind: RecordsBehind,
}

/// The whole records behind a broken position, and how well they continue the records before it.
#[derive(Default)]
struct BehindSearch {
    behind: RecordsBehind,
    next: Option<u64>,
    last: Option<u64>,
    /// Next expected queue offset by topic and queue id.
    queues: HashMap<(String, i32), u64>,
}

impl Recovery<'_> {
    /// Decides whether the position at which the scan stopped is the log's end or damage.
    pub(super) fn judge_end(&self, scan: &Scan) -> io::Result<BrokenPosition> {
        let Some(segment) = self.state.log.segment_of(scan.end) else {
            return Ok(BrokenPosition {
                verdict: Meaning::End,
                next: None,
                last: None,
                behind: RecordsBehind::default(),
            });
        };
        let broken = self.broken_at(&segment, scan.end)?;
        let unflushed =
            if scan.origin.has_followed { FlushDelay::UNKNOWN } else { FlushDelay::of(&self.state.config) };
        let decide = |limit: u64| -> io::Result<BrokenPosition> {
            let BehindSearch { behind, next, last, .. } = self.collect_behind(scan, limit, unflushed)?;
            let (was_durable, kept_pages) = (scan.end < scan.origin.sure, scan.origin.kept_pages);
            let is_checkpointed = scan.end < scan.origin.checkpointed;
            let facts = Facts { broken, is_checkpointed, was_durable, kept_pages, behind };
            let verdict = judge(&facts, unflushed);
            Ok(BrokenPosition { verdict, next, last, behind })
        };
        let place = decide(SAMPLE)?;
        if place.verdict == Meaning::Damage || place.behind.records < SAMPLE {
            return Ok(place);
        }
        // The verdict is a cut: count all records that it loses.
        decide(u64::MAX)
    }

    fn searching(&self, segment: &Arc<Segment>) -> Window {
        Window::new(segment.clone(), self.state.log.segment_bytes).giving_up_after(UNREADABLE_BYTES_MAX)
    }

    /// Whether sectors lost in a power cut can explain the bytes at a log position.
    fn broken_at(&self, segment: &Arc<Segment>, offset: u64) -> io::Result<BrokenKind> {
        let window = &mut self.searching(segment);
        let (at, file_end) = (offset - segment.base, self.state.log.segment_bytes);
        let next = next_whole_behind(window, at, file_end)?;
        if lost_first_bytes(window, at, next)? {
            return Ok(BrokenKind::Zeros);
        }
        let end = match next {
            Some(next) => next,
            None => at + header_size(window, at)?,
        };
        let mut from = at;
        while from < end {
            let to = (from / SECTOR_BYTES + 1) * SECTOR_BYTES;
            let to = to.min(file_end);
            let length = usize::try_from(to - from).expect("a sector at most");
            let is_zero = window.get(from, length)?.iter().all(|byte| *byte == 0);
            if is_zero && to - from > NATURAL_ZEROS {
                return Ok(BrokenKind::Zeros);
            }
            from = to;
        }
        Ok(BrokenKind::Altered)
    }

    /// Collects up to `limit` whole records behind the end of the scan. Stops earlier if they prove that the position
    /// is damage.
    fn collect_behind(&self, scan: &Scan, limit: u64, unflushed: FlushDelay) -> io::Result<BehindSearch> {
        let mut collected = BehindSearch::default();
        self.visit_behind(scan.end, &mut |offset, view| {
            self.collect(&mut collected, scan, offset, view);
            let RecordsBehind { records, .. } = collected.behind;
            let is_proof = records >= SAMPLE && collected.behind.is_proof(unflushed);
            if records < limit && !is_proof { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(collected)
    }

    fn collect(&self, collected: &mut BehindSearch, scan: &Scan, offset: u64, view: &RecordView<'_>) {
        let (time, behind) = (view.store_timestamp(), &mut collected.behind);
        let next = *collected.next.get_or_insert(offset);
        collected.last = Some(offset);
        if behind.records == 0 {
            (behind.first_ms, behind.newest_ms) = (time, time);
        }
        behind.records += 1;
        behind.pause_ms = behind.pause_ms.max(time.saturating_sub(behind.newest_ms));
        behind.newest_ms = behind.newest_ms.max(time);
        let room = (next - scan.end) / RECORD_BYTES_MIN as u64;
        let mut goes_on = time >= scan.last_timestamp;
        for Dispatch { queue: (topic, queue_id), first, count, .. } in
            self.state.rules().dispatches_of(view, offset)
        {
            let key = (topic.to_owned(), queue_id);
            let known = || {
                let queue = self.state.queues.find(topic, queue_id)?;
                (queue.min() < queue.max()).then(|| queue.max().get())
            };
            let expected = collected.queues.get(&key).copied().or_else(known);
            goes_on &= expected.is_none_or(|expected| {
                // A topic that was deleted and created again begins at queue offset 0.
                let missing = first.checked_sub(expected);
                first == 0 || missing.is_some_and(|missing| missing <= room * u64::from(u16::MAX))
            });
            collected.queues.insert(key, first + u64::from(count));
        }
        behind.fitting += u64::from(goes_on);
    }

    /// Visits all whole records behind a broken position of the log, in all files, until `visit` breaks.
    pub(super) fn visit_behind(
        &self,
        offset: u64,
        visit: &mut dyn FnMut(u64, &RecordView<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for segment in self.state.log.segments_in(offset, u64::MAX) {
            let window = &mut self.searching(&segment);
            let start = offset.saturating_sub(segment.base);
            let is_whole = start == 0 && matches!(find(window, 0)?, LogContent::Record(_));
            let first = match is_whole {
                true => Some(0),
                false => next_whole_behind(window, start, self.state.log.segment_bytes)?,
            };
            if self.visit_file(window, first, visit)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Visits the whole records of a file, beginning with the record at `first`.
    fn visit_file(
        &self,
        window: &mut Window,
        first: Option<u64>,
        visit: &mut dyn FnMut(u64, &RecordView<'_>) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        let (base, file_end) = (window.base(), self.state.log.segment_bytes);
        let mut next = first;
        while let Some(mut at) = next {
            while at < file_end {
                let size = match find(window, at)? {
                    LogContent::Record(size) => size,
                    LogContent::Roll => return Ok(ControlFlow::Continue(())),
                    LogContent::Nothing | LogContent::Damage(_) => break,
                };
                let view = RecordView::parse(window.get(at, size)?).map_err(io::Error::other)?;
                if visit(base + at, &view).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                at += size as u64;
            }
            next = if at < file_end { next_whole_behind(window, at, file_end)? } else { None };
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Whether a lost sector contained the first bytes of a record or blank record at `at`. The size field then has zeros
/// in place of the lost bytes, and the low bytes remain. If the next whole record of the file is at `next`, the
/// remaining bytes match the distance to it. Otherwise a blank record or more lost sectors may follow, so any
/// distance except the size is possible.
fn lost_first_bytes(window: &mut Window, at: u64, next: Option<u64>) -> io::Result<bool> {
    let in_sector = SECTOR_BYTES - at % SECTOR_BYTES;
    if in_sector > NATURAL_ZEROS || next.is_some_and(|next| next < at + 8) {
        return Ok(false);
    }
    let Some((size, magic)) = peek(window.get(at, 8)?) else { return Ok(false) };
    let low = (1 << (8 * (4 - in_sector))) - 1;
    if !matches!(magic, MAGIC_V1 | MAGIC_V2 | MAGIC_BLANK) || u64::from(size) > low {
        return Ok(false);
    }
    if let Some(next) = next {
        let distance = next - at;
        return Ok(u64::from(size) != distance && u64::from(size) == distance & low);
    }
    let length = header_size(window, at)?;
    let bytes = window.get(at, usize::try_from(length).expect("within a file"))?;
    Ok(RecordView::parse(bytes).is_err())
}
