//! Reading the log from a position to its end, indexing every record.

use super::restarts::Restarts;
use super::window::{Found, Walk, Window, count_behind, find, next_whole, walk};
use crate::batch::is_indexed;
use crate::batch::tags::Tags;
use crate::error::OpenError;
use crate::log::Segment;
use crate::multi;
use crate::queue::{Unit, batched};
use crate::store::Shared;
use crate::wake::lock;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};
use wire::record::{RECORD_BYTES_MIN, RecordView};
use wire::units::LogOffset;

/// Places a queue may miss, besides those that damaged parts of the log may have held, before a record's queue offset is
/// taken for damaged.
const GAP_MAX: u64 = 1 << 16;
/// How many messages a record of a queue of batches can be. How small they are says nothing: they may be compressed.
const BATCH_COUNT_MAX: u64 = i16::MAX as u64;
/// Records between two looks at the clock.
const STEPS: u64 = 4096;
/// How often the log says how far reading is.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// Threads that check records ahead of the one that indexes them.
const WALKERS: usize = 2;

/// Where a record belongs.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) topic: &'a str,
    pub(super) queue_id: i32,
    pub(super) queue_offset: u64,
    /// How many messages of the queue the record is.
    pub(super) count: u16,
    pub(super) tags: Tags,
}

/// What reading the log found.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) from: u64,
    pub(super) end: u64,
    pub(super) records: u64,
    pub(super) last_record: Option<u64>,
    pub(super) store_timestamp: i64,
    /// Why it ended, unless at empty space.
    pub(super) reason: Option<String>,
    pub(super) lost_behind_cut: u64,
    /// Everything before this position was durable once.
    sure: u64,
    pub(super) gaps: Vec<Gap>,
    gap_bytes: u64,
    /// Queues that were deleted and made again by another broker, as far as this reading tells.
    pub(super) restarts: Restarts,
    /// Those that earlier readings told.
    pub(super) known: Restarts,
    reported: Instant,
}

/// A part of the log that cannot be read, with whole records behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where it begins.
    pub at: u64,
    /// Its length in bytes.
    pub length: u64,
}

impl Scan {
    fn new(from: u64, sure: u64, known: Restarts) -> Self {
        Self {
            from,
            end: from,
            records: 0,
            last_record: None,
            store_timestamp: 0,
            reason: None,
            lost_behind_cut: 0,
            sure,
            gaps: Vec::new(),
            gap_bytes: 0,
            restarts: Restarts::default(),
            known,
            reported: Instant::now(),
        }
    }

    /// Whether queues began anew of which nothing was known when this began. They are known now.
    pub(super) fn learn(&mut self) -> bool {
        self.known.learn(std::mem::take(&mut self.restarts))
    }

    fn is_time_to_report(&mut self) -> bool {
        let is_time = self.reported.elapsed() >= REPORT_INTERVAL;
        if is_time {
            self.reported = Instant::now();
        }
        is_time
    }
}

/// Lets a bounded number of threads run ahead.
struct Semaphore(Mutex<usize>, Condvar);

impl Semaphore {
    fn new(count: usize) -> Self {
        Self(Mutex::new(count), Condvar::new())
    }

    fn take(&self) {
        let mut count = lock(&self.0);
        while *count == 0 {
            count = self.1.wait(count).unwrap_or_else(|poison| poison.into_inner());
        }
        *count -= 1;
    }

    fn give(&self, count: usize) {
        *lock(&self.0) += count;
        self.1.notify_all();
    }
}

impl Shared {
    /// Reads from `from` to the end of whole records. What lies before `sure` was durable: damage there is passed over and
    /// reported, and does not end the log.
    /// Of the queues in `known` nothing counts that lies before they began anew.
    pub(super) fn scan(&self, from: u64, sure: u64, known: Restarts) -> Result<Scan, OpenError> {
        let mut scan = Scan::new(from, sure, known);
        if scan.end.is_multiple_of(self.log.segment_bytes) {
            self.scan_ahead(&mut scan)?;
        }
        while let Some(segment) = self.log.segment_of(scan.end) {
            let path = segment.path.clone();
            let mut window = Window::new(segment, self.log.segment_bytes);
            let goes_on = self.scan_segment(&mut window, &mut scan).map_err(OpenError::io(&path))?;
            if !goes_on {
                if scan.reason.is_some() {
                    let at = scan.end - window.base();
                    scan.lost_behind_cut = count_behind(&mut window, at).map_err(OpenError::io(&path))?;
                }
                break;
            }
        }
        Ok(scan)
    }

    /// Reads one file from the end of what was read; `true` when the log goes on in the next one.
    fn scan_segment(&self, window: &mut Window, scan: &mut Scan) -> io::Result<bool> {
        let file_end = window.base() + self.log.segment_bytes;
        while scan.end < file_end {
            let at = scan.end - window.base();
            let reason = match find(window, at)? {
                Found::Record(size) => {
                    self.scan_record(window, scan, size)?;
                    continue;
                }
                Found::Roll => {
                    scan.end = file_end;
                    return Ok(true);
                }
                Found::Nothing => None,
                Found::Damage(reason) => Some(reason),
            };
            let Some(next) = self.next_behind_damage(window, scan)? else {
                scan.reason = reason;
                return Ok(false);
            };
            let what = reason.unwrap_or_else(|| "zeros".to_owned());
            let gap = Gap { at: scan.end, length: next - scan.end };
            tracing::error!(
                at = gap.at,
                length = gap.length,
                what,
                "a part of the log is damaged and cannot be read; what lies behind it is kept"
            );
            scan.gaps.push(gap);
            scan.gap_bytes += gap.length;
            scan.end = next;
        }
        Ok(true)
    }

    /// Where reading goes on behind damage at the end of what was read; `None` when the log ends there. Only whole records
    /// behind it prove that there was something: the claim of what is sure may be wrong.
    fn next_behind_damage(&self, window: &mut Window, scan: &Scan) -> io::Result<Option<u64>> {
        let (at, base, segment_bytes) = (scan.end, window.base(), self.log.segment_bytes);
        if at >= scan.sure {
            return Ok(None);
        }
        let limit = (scan.sure - base + RECORD_BYTES_MIN as u64).min(segment_bytes);
        if let Some(next) = next_whole(window, at - base, limit)? {
            return Ok(Some(base + next));
        }
        if scan.sure < base + segment_bytes {
            // Only behind what is sure: then that is no wrong claim, and the log ends there at the earliest.
            return Ok(next_whole(window, scan.sure - base, segment_bytes)?.map(|_| scan.sure));
        }
        for segment in self.log.segments_in(base + segment_bytes, scan.sure) {
            let mut window = Window::new(segment, segment_bytes);
            if matches!(find(&mut window, 0)?, Found::Record(_))
                || next_whole(&mut window, 0, segment_bytes)?.is_some()
            {
                return Ok(Some(base + segment_bytes));
            }
        }
        Ok(None)
    }

    /// Takes the whole record that begins at the end of what was read.
    fn scan_record(&self, window: &mut Window, scan: &mut Scan, size: usize) -> io::Result<()> {
        let offset = scan.end;
        let view = RecordView::parse(window.get(offset - window.base(), size)?).map_err(io::Error::other)?;
        if !self.is_altered(&view, offset) {
            self.index_record(&view, scan);
            self.digest_recovered(&view, offset);
        }
        scan.records += 1;
        scan.last_record = Some(offset);
        scan.store_timestamp = scan.store_timestamp.max(view.store_timestamp());
        scan.end += size as u64;
        if self.queues.unwritten_units.load(Ordering::Relaxed) > self.config.unwritten_units_max {
            self.spill_tails(scan.end)?;
        }
        if scan.records.is_multiple_of(STEPS) && scan.is_time_to_report() {
            let (at, capacity, records) = (scan.end, self.log.capacity_end(), scan.records);
            tracing::info!(at, from = scan.from, capacity, records, "reading the log");
        }
        Ok(())
    }

    /// Reads whole files, all but the last, as long as they are undamaged: threads find and check their records, and this
    /// one indexes them in the order of the log.
    fn scan_ahead(&self, scan: &mut Scan) -> Result<(), OpenError> {
        let mut segments = self.log.segments_in(scan.end, u64::MAX);
        segments.pop();
        if segments.len() < 2 {
            return Ok(());
        }
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let (senders, receivers): (Vec<_>, Vec<_>) = segments.iter().map(|_| mpsc::sync_channel(1)).unzip();
        let ahead = Semaphore::new(WALKERS + 1);
        std::thread::scope(|scope| {
            for _ in 0..WALKERS {
                scope.spawn(|| {
                    loop {
                        ahead.take();
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(segment) = segments.get(index).filter(|_| !stop.load(Ordering::Relaxed))
                        else {
                            break;
                        };
                        let walked = walk(&mut Window::new(segment.clone(), self.log.segment_bytes));
                        // Room for one is there.
                        let _ = senders[index].send(walked);
                    }
                });
            }
            let mut result = Ok(());
            for (segment, walked) in segments.iter().zip(&receivers) {
                result = walked
                    .recv()
                    .map_err(io::Error::other)
                    .and_then(|walked| self.scan_walked(segment, &walked?, scan))
                    .map_err(OpenError::io(&segment.path));
                ahead.give(1);
                if result.is_err() || scan.end < segment.base + self.log.segment_bytes {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            ahead.give(segments.len());
            result
        })
    }

    fn scan_walked(&self, segment: &Arc<Segment>, walked: &Walk, scan: &mut Scan) -> io::Result<()> {
        let mut window = Window::new(segment.clone(), self.log.segment_bytes);
        for (at, size) in &walked.records {
            assert_eq!(segment.base + u64::from(*at), scan.end, "records lie one behind the other");
            self.scan_record(&mut window, scan, *size as usize)?;
        }
        self.scan_segment(&mut window, scan).map(|_| ())
    }

    /// The place of a stored record in its queue, if it has one.
    fn place_of<'a>(&self, view: &RecordView<'a>) -> Option<Place<'a>> {
        let topic = view.topic_str()?;
        let is_batched = self.queues.is_batched(topic);
        if !is_indexed(view.sys_flag(), is_batched) {
            return None;
        }
        let (queue_offset, count) = match is_batched {
            true => batched::place_in(view.properties())?,
            false => (view.queue_offset().get(), 1),
        };
        let tags = Tags::of(crate::queue::is_schedule(topic), view.properties(), self.delays());
        Some(Place { topic, queue_id: view.queue_id(), queue_offset, count, tags })
    }

    /// The places of a stored record in all its queues.
    pub(super) fn places_of<'a>(&self, view: &RecordView<'a>) -> impl Iterator<Item = Place<'a>> {
        let place = self.place_of(view);
        let further =
            place.filter(|place| self.config.multi_dispatch && !self.queues.is_batched(place.topic));
        let further = further.map(|place| {
            let at = move |(topic, queue_id, queue_offset)| Place { topic, queue_id, queue_offset, ..place };
            multi::places(view).into_iter().map(at).filter(|place| !self.queues.is_batched(place.topic))
        });
        place.into_iter().chain(further.into_iter().flatten())
    }

    /// Adds a stored record to its queues, as appending it did.
    fn index_record(&self, view: &RecordView<'_>, scan: &mut Scan) {
        self.places_of(view).for_each(|place| self.index_place(view, scan, place));
    }

    fn index_place(&self, view: &RecordView<'_>, scan: &mut Scan, place: Place<'_>) {
        let Scan { end: offset, gap_bytes, ref known, ref mut restarts, .. } = *scan;
        let key = (place.topic, place.queue_id);
        let is_before = known.begin_of(key).is_some_and(|begin| offset < begin);
        if is_before || self.queues.tombstones.covers(place.topic, offset) {
            return;
        }
        let Ok(queue) = self.queues.find_or_create(place.topic, place.queue_id) else {
            tracing::error!(
                offset,
                queue_id = place.queue_id,
                "a record's topic cannot be a queue; it is passed over"
            );
            return;
        };
        let (wanted, next) = (place.queue_offset, queue.max().get());
        let end = wanted + u64::from(place.count);
        if restarts.repeats(key, wanted..end, offset, next) {
            return;
        }
        if wanted > next {
            // Every record before it took its part of the log.
            let is_empty = queue.min() == queue.max();
            let records = if is_empty { offset } else { gap_bytes } / RECORD_BYTES_MIN as u64;
            let room = records.saturating_mul(if queue.is_batched() { BATCH_COUNT_MAX } else { 1 });
            if wanted - next > room.saturating_add(GAP_MAX) {
                tracing::error!(
                    offset,
                    ?queue,
                    wanted,
                    "a record's queue offset is far ahead; it is passed over"
                );
                return;
            }
            if is_empty {
                queue.start_at(wanted);
            } else {
                tracing::warn!(offset, ?queue, wanted, "a queue misses messages; their places stay blank");
            }
        }
        let tags_code = place.tags.at(view.store_timestamp());
        let size = u32::try_from(view.size()).expect("a record's size fits its 4-byte field");
        let unit = Unit { log_offset: LogOffset::new(offset), size, tags_code };
        for number in queue.max().get()..end {
            queue.take_next(1);
            queue.push(if number >= wanted { unit } else { Unit::PRE_BLANK }, 1, &self.queues);
            self.queues.unwritten_units.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the tails to the queue files so that rebuilding a big store needs little memory.
    fn spill_tails(&self, end: u64) -> io::Result<()> {
        let written = self.write_round(&mut lock(&self.checkpointing), end, &mut lock(&self.touched));
        match written {
            Ok(queues) => {
                // The journal cannot know these: it begins anew behind the next checkpoint.
                lock(&self.journaling).give_up(&*self.disk, &self.config.root, end);
                queues.iter().for_each(|queue| queue.trim_written());
            }
            Err(crate::checkpoint::Interrupted::NoSpace(error)) => return Err(error),
            Err(crate::checkpoint::Interrupted::Fenced) => {
                return Err(io::Error::other(self.fence.reason().unwrap_or_default()));
            }
        }
        Ok(())
    }
}
