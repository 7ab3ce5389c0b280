//! Decides which digest entries still belong to records in the log.
//!
//! Entries are written after their records are durable, so after a crash of Vostok they agree with the log. Recovery
//! also removes the entries of the records that it cuts off ([`crate::digest::Digests::cut`]) before the first
//! append. But a RocketMQ broker, which does not know the entries, may have run in between. It may have cut the log's
//! tail (after damage, or as a diverged replica) and written other records there. Two rules, in this order:
//!
//! 1. *No other broker ran* when `checkpoint` carries Vostok's seal and `abort` is absent or has Vostok's mark. A RocketMQ
//!    broker writes new times into `checkpoint` with the first message it flushes, and its own process id into `abort`. If no
//!    other broker ran, every entry counts, and a record that differs from its entry is damaged.
//! 2. Otherwise entries count up to the newest one that agrees with the log: a cut takes a suffix, so a record that agrees
//!    was not rewritten, nor was any before it. Later entries are discarded.
//!
//! The second rule alone is not enough: damage of the newest records would look like a rewritten tail.

use super::Recovery;
use crate::checkpoint_file::Checkpoint;
use crate::digest::{RecordDigest, sum};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::log::Segment;
use crate::wake::lock;
use std::io;
use std::path::Path;
use wire::record::{RecordView, peek};
use wire::units::LogOffset;

/// Text that Vostok writes behind the process id in `abort`. RocketMQ only tests whether the file exists.
pub(crate) const MARK: &str = " vostok";

impl Recovery<'_> {
    /// Loads the valid digests. Runs after the log's files are known and before any change.
    pub(crate) fn load_digests(&self) -> Result<(), OpenError> {
        let ours = is_untouched(&*self.state.disk, &self.state.config.root)
            .map_err(OpenError::io(&self.state.config.root))?;
        let digests = &self.state.digests;
        let loaded = digests.load(self.state.log.min(), self.state.log.capacity_end()).and_then(|()| {
            let Some(newest) = digests.newest() else { return Ok(()) };
            let end = if ours { newest + 1 } else { digests.agreed_end(|entry| {
                self.state.log.segment_of(entry.at.get()).is_some_and(|segment| agrees(&segment, self.state.log.segment_bytes, entry))
            }) };
            if end.get() <= newest.get() {
                tracing::warn!(from = %end, to = %newest, "another broker rewrote the end of the log; checksums of it are discarded");
                digests.cut(end.get())?;
            }
            Ok(())
        });
        loaded.map_err(OpenError::io(&digests.directory))
    }

    /// Keeps the digest of a record that recovery read, if it is newer than all others.
    pub(crate) fn digest_recovered(&self, view: &RecordView<'_>, offset: u64) {
        let at = LogOffset::new(offset);
        let fresh = &mut lock(self.checkpointer.appender).fresh;
        if !self.state.config.digests || fresh.last().max(self.state.digests.newest()) >= Some(at) {
            return;
        }
        fresh.push(RecordDigest { at, digest: sum::of(view) });
        if fresh.is_large() {
            self.state.digests.stage(std::mem::take(fresh));
            self.state.digests.write(self.state.log.min());
        }
    }
}

/// Whether only Vostok used this store since the checkpoint was written.
pub(crate) fn is_untouched(disk: &dyn Disk, root: &Path) -> io::Result<bool> {
    let entries = disk.list(root)?;
    let read = |name: &str| -> io::Result<Option<Vec<u8>>> {
        let Some(entry) = entries.iter().find(|entry| entry.name == name) else { return Ok(None) };
        let mut bytes = vec![0; usize::try_from(entry.length.min(4096)).unwrap_or(0)];
        disk.open(&root.join(name))?.read_at(&mut bytes, 0)?;
        Ok(Some(bytes))
    };
    let sealed = read("checkpoint")?.is_some_and(|page| Checkpoint::is_sealed(&page));
    Ok(sealed && read("abort")?.is_none_or(|text| text.ends_with(MARK.as_bytes())))
}

/// Whether the record of an entry is in its log file and has this digest.
pub(crate) fn agrees(segment: &Segment, segment_bytes: u64, entry: RecordDigest) -> bool {
    let position = entry.at.get() - segment.base;
    let mut head = [0; 8];
    if position + 8 > segment_bytes || segment.file.read_at(&mut head, position).is_err() {
        return false;
    }
    let size = peek(&head).map_or(0, |(size, _)| u64::from(size));
    if position + size > segment_bytes {
        return false;
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    segment.file.read_at(&mut bytes, position).is_ok()
        && RecordView::parse(&bytes)
            .is_ok_and(|view| view.log_offset() == Some(entry.at) && sum::of(&view) == entry.digest)
}
