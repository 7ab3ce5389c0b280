//! The checkpoint: queue tails go to their files, files and log become durable, and then one page says up to
//! which position everything is. Recovery reads the log only from there.

use crate::disk::{Disk, Space};
use crate::queue::Queue;
use crate::queue::files::Touched;
use crate::store::Shared;
use crate::wake::lock;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use wire::units::LogOffset;

/// Size of the checkpoint file.
const PAGE_BYTES: usize = 4096;
/// Stands behind the six numbers, before the checksum of what precedes it.
const SEAL: [u8; 4] = *b"VSTK";
/// Longest pause between two checkpoints when one takes long.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The content of the `checkpoint` file (`StoreCheckpoint`): six numbers at the start of a 4,096-byte page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Store time of the newest flushed message.
    pub physic_msg_timestamp: i64,
    /// Store time of the newest message whose queue unit is flushed.
    pub logics_msg_timestamp: i64,
    /// End time of the newest full key index file. Kept as found.
    pub index_msg_timestamp: i64,
    /// Kept as found.
    pub master_flushed_offset: i64,
    /// Start of the newest flushed message.
    pub confirm_phy_offset: i64,
    /// Everything before this position is durable in the log and in the queue files.
    pub logics_physical_offset: i64,
}

impl Checkpoint {
    /// Reads a page; missing bytes count as zero.
    #[must_use]
    pub fn from_bytes(page: &[u8]) -> Self {
        let field = |index: usize| {
            let bytes = page.get(index * 8..index * 8 + 8).unwrap_or(&[0; 8]);
            i64::from_be_bytes(bytes.try_into().expect("eight bytes sliced"))
        };
        Self {
            physic_msg_timestamp: field(0),
            logics_msg_timestamp: field(1),
            index_msg_timestamp: field(2),
            master_flushed_offset: field(3),
            confirm_phy_offset: field(4),
            logics_physical_offset: field(5),
        }
    }

    /// The page.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(PAGE_BYTES);
        for field in [
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
            self.logics_physical_offset,
        ] {
            page.extend_from_slice(&field.to_be_bytes());
        }
        page.extend_from_slice(&SEAL);
        page.extend_from_slice(&crc32fast::hash(&page).to_be_bytes());
        page.resize(PAGE_BYTES, 0);
        page
    }

    /// Whether a page is as we wrote it: a Java broker changes the numbers and leaves the seal.
    pub(crate) fn is_sealed(page: &[u8]) -> bool {
        let seal = page.get(48..56).and_then(|seal| seal.strip_prefix(&SEAL));
        seal.is_some_and(|sum| sum == crc32fast::hash(&page[..52]).to_be_bytes())
    }

    pub(crate) fn load(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = match disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            file => file?,
        };
        let mut page = [0; 48];
        match file.read_at(&mut page, 0) {
            // A file that was being made when the power went away.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(Self::default()),
            done => done.map(|()| Self::from_bytes(&page)),
        }
    }

    pub(crate) fn save(&self, disk: &dyn Disk, path: &Path) -> io::Result<()> {
        // Overwritten in place: the six numbers lie in one sector. The first time the name must last as well.
        let (file, is_new) = match disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (disk.create(path, PAGE_BYTES as u64, Space::Reserved)?, true)
            }
            file => (file?, false),
        };
        file.write_at(&self.to_bytes(), 0)?;
        file.sync()?;
        match path.parent() {
            Some(directory) if is_new => disk.sync_dir(directory),
            _ => Ok(()),
        }
    }
}

/// Why a checkpoint was not finished.
pub(crate) enum Interrupted {
    /// The disk is full; nothing is lost, the next round tries again.
    NoSpace(io::Error),
    /// The store is fenced.
    Fenced,
}

/// Bytes of the log taken out of memory in one step, about a millisecond of work.
const FORGOTTEN_BYTES: u64 = 4 << 20;

/// Pause between two such steps.
const FORGET_PAUSE: Duration = Duration::from_millis(1);

impl Shared {
    /// The checkpoint thread.
    pub(crate) fn run_checkpoints(&self) {
        // Queues whose tails were written last round: they keep a window for their readers until the next.
        let mut settled: Vec<Arc<Queue>> = Vec::new();
        // Nobody waits for this thread: the processor belongs to those who append. Where it may not step back, it does not.
        let _ = rustix::process::nice(10);
        let mut pause = self.config.checkpoint_interval;
        let mut forgotten = self.flushed.load(Ordering::Acquire);
        while !self.stopping.load(Ordering::Acquire) && !self.fence.is_up() {
            self.sleep_for(pause);
            if self.stopping.load(Ordering::Acquire) {
                break;
            }
            let began = Instant::now();
            if self.is_checkpointed() {
                settled.drain(..).for_each(|queue| queue.trim_tail(true));
                self.checkpoint_idle.store(true, Ordering::SeqCst);
                if self.is_checkpointed() {
                    self.checkpoint.sleep(None);
                }
                continue;
            }
            match self.checkpoint_now() {
                Ok(written) => {
                    settled.iter().for_each(|queue| queue.trim_tail(false));
                    settled = written;
                    self.forget_old(&mut forgotten);
                }
                Err(Interrupted::NoSpace(error)) => {
                    tracing::warn!(%error, "no space for the queue files; they stay in memory until there is");
                }
                Err(Interrupted::Fenced) => break,
            }
            pause = self.config.checkpoint_interval.max((began.elapsed() * 4).min(PAUSE_MAX));
        }
    }

    /// Takes the log behind its newest [`crate::Config::cached_bytes`] out of memory, from `forgotten` on.
    fn forget_old(&self, forgotten: &mut u64) {
        let end = self.flushed.load(Ordering::Acquire).saturating_sub(self.config.cached_bytes);
        if end <= *forgotten {
            return;
        }
        *forgotten = (*forgotten).max(self.log.min());
        while *forgotten < end && !self.stopping.load(Ordering::Acquire) {
            let Some(segment) = self.log.segment_of(*forgotten) else { break };
            let first = *forgotten - segment.base;
            let length = FORGOTTEN_BYTES.min(self.config.segment_bytes - first).min(end - *forgotten);
            segment.file.forget(first, length);
            *forgotten += length;
            // In small steps: the kernel does this work on the processor that appends need.
            self.sleep_for(FORGET_PAUSE);
        }
    }

    fn sleep_for(&self, pause: Duration) {
        self.checkpoint.sleep(Some(Instant::now() + pause));
    }

    fn is_checkpointed(&self) -> bool {
        let done = lock(&self.page).logics_physical_offset;
        done == self.appended.load(Ordering::SeqCst).cast_signed() && lock(&self.touched).is_empty()
    }

    /// Makes everything appended so far durable and says so in the checkpoint file. Answers the queues whose
    /// units were written.
    pub(crate) fn checkpoint_now(&self) -> Result<Vec<Arc<Queue>>, Interrupted> {
        let _alone = lock(&self.checkpointing);
        if self.fence.is_up() {
            return Err(Interrupted::Fenced);
        }
        let (end, store_timestamp, last_record) = {
            let mut appender = lock(&self.appender);
            self.digests.stage(std::mem::take(&mut appender.fresh));
            (self.appended.load(Ordering::Acquire), appender.store_timestamp, appender.last_record)
        };
        let mut touched = lock(&self.touched);
        let written = self.write_tails(&mut touched)?;
        self.sync_touched(&mut touched)?;
        drop(touched);
        self.wait_flushed(end)?;
        self.digests.write(self.log.min());
        let mut page = lock(&self.page);
        if page.logics_physical_offset != end.cast_signed() {
            if last_record > 0 || end > 0 {
                page.physic_msg_timestamp = store_timestamp;
                page.logics_msg_timestamp = store_timestamp;
                page.confirm_phy_offset = last_record.cast_signed();
            }
            page.logics_physical_offset = end.cast_signed();
            let path = self.config.root.join("checkpoint");
            page.save(&*self.disk, &path).map_err(|error| self.failed("writing the checkpoint", error))?;
        }
        Ok(written)
    }

    pub(crate) fn write_tails(&self, touched: &mut Touched) -> Result<Vec<Arc<Queue>>, Interrupted> {
        let queues = self.queues.take_unwritten();
        for (index, queue) in queues.iter().enumerate() {
            match queue.write_tail(touched) {
                Ok(count) => drop(self.queues.unwritten_units.fetch_sub(count, Ordering::Relaxed)),
                Err(error) => {
                    queues[index..].iter().for_each(|queue| queue.relist(&self.queues.unwritten));
                    return Err(self.failed("writing queue files", error));
                }
            }
        }
        Ok(queues)
    }

    fn sync_touched(&self, touched: &mut Touched) -> Result<(), Interrupted> {
        touched.sync(&*self.disk, &self.sync_all).map_err(|error| self.fatal("flushing queue files", &error))
    }

    fn wait_flushed(&self, end: u64) -> Result<(), Interrupted> {
        while self.flushed.load(Ordering::Acquire) < end {
            let (sender, receiver) = mpsc::channel();
            self.when_flushed(LogOffset::new(end), Box::new(move |outcome| drop(sender.send(outcome))));
            match receiver.recv() {
                Ok(crate::FlushOutcome::Flushed | crate::FlushOutcome::TimedOut) => {}
                _ => return Err(Interrupted::Fenced),
            }
        }
        Ok(())
    }

    /// A failed write: without space it may be tried again, as nothing of it counts yet.
    fn failed(&self, what: &str, error: io::Error) -> Interrupted {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Interrupted::NoSpace(error),
            _ => self.fatal(what, &error),
        }
    }

    fn fatal(&self, what: &str, error: &io::Error) -> Interrupted {
        self.put_up_fence(&format!("{what}: {error}"));
        Interrupted::Fenced
    }
}

#[cfg(test)]
mod tests;
