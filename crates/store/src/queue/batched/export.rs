//! Writes RocketMQ's batch consume queue files from the units in Vostok's own files.

use super::reader::{BatchUnitReader, starts};
use super::{BATCH_UNIT_BYTES, BatchUnit, JAVA_DIR, group};
use crate::config::Config;
use crate::disk::{Disk, DiskFile, Space, file_name};
use crate::error::{ReadError, Result};
use crate::queue::files::SyncList;
use crate::queue::{Extent, Queue, Unit};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use wire::units::{LogOffset, QueueOffset};

/// State of RocketMQ's files of a queue.
pub(crate) struct Export {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    file_bytes: u64,
    /// Queue offset of the first message that is not in the files.
    pub(crate) next: u64,
    /// Position where the next unit is written.
    end: u64,
}

impl Export {
    /// Finds out how far RocketMQ's files go and whether they match the queue's own. Files that do not match are removed, to
    /// be written again from the first message on.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        config: &Config,
        queue: &Queue,
        touched: &mut SyncList,
    ) -> Result<Self> {
        let directory = config.root.join(JAVA_DIR).join(queue.topic()).join(queue.queue_id().to_string());
        let file_bytes = config.batch_file_bytes;
        let mut export = Self { disk, directory, file_bytes, next: queue.in_files().min, end: 0 };
        let reader = BatchUnitReader::of(export.disk.clone(), export.directory.clone(), file_bytes);
        let is_known = match reader.map_err(ReadError::Io).and_then(|reader| export.take_known(queue, reader))
        {
            Ok(is_known) => is_known,
            // The files are derived data: unreadable ones are written again.
            Err(ReadError::Io(error)) => {
                tracing::warn!(%error, ?queue, "RocketMQ's files of a queue of batches cannot be read");
                false
            }
            Err(error) => return Err(error),
        };
        for entry in export.disk.list(&export.directory)?.iter().filter(|entry| !entry.is_dir) {
            if !is_known || entry.name > file_name(export.end) {
                export.disk.remove(&export.directory.join(&entry.name))?;
                touched.add_directories([export.directory.as_path()].into_iter());
            }
        }
        Ok(export)
    }

    /// Continues behind the last unit in the files, if it matches the queue.
    fn take_known(&mut self, queue: &Queue, mut reader: BatchUnitReader) -> Result<bool> {
        // The last file may be preallocated and unused.
        let passed = reader.starts.len().saturating_sub(2);
        reader.starts.drain(..passed);
        let mut newest: Option<BatchUnit> = None;
        while let Some(unit) = reader.next()? {
            newest = Some(unit);
        }
        let Some(newest) = newest else { return Ok(false) };
        let Extent { min, max, .. } = queue.in_files();
        let is_ours = |number: u64| -> Result<bool> {
            let mut unit = Vec::with_capacity(1);
            queue.units_blocking(QueueOffset::new(number), 1, &mut unit)?;
            Ok(unit == [newest.unit])
        };
        let is_known = newest.end() <= min
            || newest.end() <= max && is_ours(newest.base.max(min))? && is_ours(newest.end() - 1)?;
        if is_known {
            (self.next, self.end) = (newest.end().max(min), reader.position());
        } else {
            tracing::warn!(?queue, "RocketMQ's files of a queue of batches are written anew");
        }
        Ok(is_known)
    }

    /// Writes the messages from [`Self::next`] on, given their units.
    pub(crate) fn add(
        &mut self,
        units: &[Unit],
        store_time: impl Fn(LogOffset) -> Result<i64>,
        touched: &mut SyncList,
    ) -> Result<()> {
        let (first, batches) = (self.next, group(self.next, units));
        let mut rest = batches.as_slice();
        while !rest.is_empty() {
            let (start, at) = (self.end / self.file_bytes * self.file_bytes, self.end % self.file_bytes);
            let room =
                usize::try_from((self.file_bytes - at) / BATCH_UNIT_BYTES).map_err(io::Error::other)?;
            let (now, later) = rest.split_at(rest.len().min(room));
            let mut bytes = Vec::with_capacity(now.len() * BATCH_UNIT_BYTES as usize);
            for batch in now {
                let store_time = store_time(batch.unit.log_offset)?;
                bytes.extend_from_slice(&BatchUnit { store_time, ..*batch }.to_bytes());
            }
            let path = self.directory.join(file_name(start));
            let file = self.file(&path, touched)?;
            file.write_at(&bytes, at)?;
            touched.add_file(path, file);
            // Advance at once: if the next file cannot be created, these units must not be written again.
            self.end += bytes.len() as u64;
            self.next = now.last().map_or(first, BatchUnit::end);
            rest = later;
        }
        self.next = first + units.len() as u64;
        Ok(())
    }

    fn file(&self, path: &std::path::Path, touched: &mut SyncList) -> io::Result<Arc<dyn DiskFile>> {
        match self.disk.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.disk.create_dir_all(&self.directory)?;
                touched.add_directories(self.directory.ancestors().take(4));
                self.disk.create(path, self.file_bytes, Space::Sparse)
            }
            file => file,
        }
    }

    /// Removes the files whose messages all lie before queue offset `number`, but never the last file.
    pub(crate) fn remove_before(&self, number: u64) -> io::Result<()> {
        let starts = starts(&*self.disk, &self.directory, self.file_bytes)?;
        for (start, next) in starts.iter().zip(starts.iter().skip(1)) {
            let mut bytes = [0; BATCH_UNIT_BYTES as usize];
            self.disk.open(&self.directory.join(file_name(*next)))?.read_at(&mut bytes, 0)?;
            if BatchUnit::from_bytes(&bytes).is_none_or(|first| first.base > number) {
                break;
            }
            self.disk.remove(&self.directory.join(file_name(*start)))?;
        }
        Ok(())
    }
}
