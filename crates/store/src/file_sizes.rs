//! File sizes of an existing store.
//!
//! Files of a kind have the same size. Settings define the size for a new store; the existing files define it for an
//! existing store. RocketMQ rejects a store whose files differ from the settings (`MappedFileQueue.doLoad`).

use crate::config::Config;
use crate::disk::{Disk, file_name};
use crate::error::OpenError;
use crate::queue::UNIT_BYTES;
use crate::queue::batched::BATCH_UNIT_BYTES;
use crate::timer::TimerConfig;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Size of a store's files that differs from the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeMismatch {
    /// Name of the setting.
    pub setting: &'static str,
    /// The setting's value in bytes.
    pub configured: u64,
    /// The size of the files in bytes.
    pub found: u64,
}

/// File whose name is its start offset.
struct File {
    base: u64,
    length: u64,
    path: PathBuf,
}

/// Most queues that are examined for the size of queue files.
const QUEUES_MAX: usize = 4096;
/// Bytes at the end of a single file that are zero while the file is not full.
const TAIL_BYTES: u64 = 64;
/// Bytes of a page. A single file of the commit log has whole pages, and its last page is zero while the file
/// is not full. A copy that ended early, inside a message, rarely has such a page.
const PAGE_BYTES: u64 = 4096;

impl Config {
    /// Takes over the sizes of existing commit log and queue files. Returns the sizes that differ from the settings.
    ///
    /// # Errors
    /// [`OpenError::Io`] when a directory or a file cannot be read.
    pub fn take_file_sizes(&mut self, disk: &dyn Disk) -> Result<Vec<SizeMismatch>, OpenError> {
        let directories = [&self.commit_log].into_iter().chain(&self.commit_log_more);
        let mut log = Vec::new();
        for directory in directories.chain(&self.commit_log_read_only) {
            log.extend(files(disk, directory)?);
        }
        log.sort_by_key(|file| file.base);
        let queue = |directory: &str, bytes: u64, unit: u64| {
            size_of_queues(disk, &self.root.join(directory), (bytes.next_multiple_of(unit), unit))
        };
        let found = [
            ("mappedFileSizeCommitLog", size_of_log(disk, &log, self.segment_bytes)?),
            ("mappedFileSizeConsumeQueue", queue("consumequeue", self.queue_file_bytes, UNIT_BYTES)?),
            (
                "mapperFileSizeBatchConsumeQueue",
                queue("batchconsumequeue", self.batch_file_bytes, BATCH_UNIT_BYTES)?,
            ),
        ];
        let fields = [&mut self.segment_bytes, &mut self.queue_file_bytes, &mut self.batch_file_bytes];
        Ok(fields
            .into_iter()
            .zip(found)
            .filter_map(|(field, (setting, size))| take(field, setting, size))
            .collect())
    }
}

impl TimerConfig {
    /// Takes over the size of the timer log files that are already there, and returns it if it differs from the setting.
    ///
    /// # Errors
    /// [`OpenError::Io`] when the directory or a file cannot be read.
    pub fn take_file_size(&mut self, disk: &dyn Disk) -> Result<Option<SizeMismatch>, OpenError> {
        let log = files(disk, &self.root.join("timerlog"))?;
        let found = size(disk, &log, (self.log_file_bytes, 1))?;
        Ok(take(&mut self.log_file_bytes, "mappedFileSizeTimerLog", found))
    }
}

fn take(field: &mut u64, setting: &'static str, size: Option<u64>) -> Option<SizeMismatch> {
    let found = size?;
    Some(SizeMismatch { setting, configured: std::mem::replace(field, found), found })
}

/// Returns the files of a directory that can hold messages, in the order of their offsets.
fn files(disk: &dyn Disk, directory: &Path) -> Result<Vec<File>, OpenError> {
    let entries = disk.list(directory).map_err(OpenError::io(directory))?;
    let file = |entry: crate::disk::DirEntry| {
        let base = entry.name.parse::<u64>().ok().filter(|base| file_name(*base) == entry.name)?;
        let path = directory.join(&entry.name);
        (!entry.is_dir && entry.length > 0).then_some(File { base, length: entry.length, path })
    };
    Ok(entries.into_iter().filter_map(file).collect())
}

/// Returns the size of the commit log files, if it is known and differs from the configured size.
fn size_of_log(disk: &dyn Disk, log: &[File], configured: u64) -> Result<Option<u64>, OpenError> {
    let found = size(disk, log, (configured, 1))?;
    match (log, found) {
        ([file], Some(length)) => {
            let has_whole_pages = length.is_multiple_of(PAGE_BYTES);
            Ok((has_whole_pages && ends_in_zeros(disk, file, PAGE_BYTES)?).then_some(length))
        }
        _ => Ok(found),
    }
}

/// The size of the queue files below a directory, if no file of the first queues has the configured size.
fn size_of_queues(
    disk: &dyn Disk,
    directory: &Path,
    (configured, unit): (u64, u64),
) -> Result<Option<u64>, OpenError> {
    let list = |path: &Path| disk.list(path).map_err(OpenError::io(path));
    let (mut all, mut queues) = (Vec::new(), 0);
    for topic in list(directory)?.into_iter().filter(|entry| entry.is_dir) {
        let topic = directory.join(topic.name);
        for queue in list(&topic)?.into_iter().filter(|entry| entry.is_dir) {
            let found = files(disk, &topic.join(queue.name))?;
            if found.iter().any(|file| file.length == configured) {
                return Ok(None);
            }
            all.extend(found);
            queues += 1;
            if queues == QUEUES_MAX {
                return size(disk, &all, (configured, unit));
            }
        }
    }
    size(disk, &all, (configured, unit))
}

/// Returns the file size, if it is known and differs from the configured size. File sizes are multiples of `unit`
/// bytes. A truncated file does not decide.
fn size(disk: &dyn Disk, files: &[File], (configured, unit): (u64, u64)) -> Result<Option<u64>, OpenError> {
    if files.iter().any(|file| file.length == configured) {
        return Ok(None);
    }
    let mut counts = BTreeMap::<u64, usize>::new();
    for file in files {
        *counts.entry(file.length).or_default() += 1;
    }
    let is_size = |length: u64| {
        length.is_multiple_of(unit) && files.iter().all(|file| file.base.is_multiple_of(length))
    };
    let most = counts.into_iter().filter(|(length, _)| is_size(*length)).max_by_key(|(_, count)| *count);
    match (most, files) {
        (Some((length, _)), [file]) => Ok(ends_in_zeros(disk, file, TAIL_BYTES)?.then_some(length)),
        // A file that ends where the next begins has its whole size.
        (Some((length, 1)), files) => {
            let ends = |file: &File| files.iter().any(|next| next.base == file.base + file.length);
            Ok(files.iter().any(|file| file.length == length && ends(file)).then_some(length))
        }
        (Some((length, _)), _) => Ok(Some(length)),
        (None, _) => Ok(None),
    }
}

/// Whether the last `bytes` of a file, a page at most, are zeros, as at the end of every file that is not full.
fn ends_in_zeros(disk: &dyn Disk, file: &File, bytes: u64) -> Result<bool, OpenError> {
    let mut tail = [0; PAGE_BYTES as usize];
    let count = file.length.min(bytes);
    let tail = &mut tail[..usize::try_from(count).unwrap_or_default()];
    let open = disk.open(&file.path).and_then(|open| open.read_at(tail, file.length - count));
    open.map_err(OpenError::io(&file.path))?;
    Ok(tail.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests;
