//! Surveys the files of a store from the directories alone. The size of the first file of a kind counts for the kind.

use super::past::NewestTable;
use crate::checkpoint_file::Checkpoint;
use crate::disk::Disk;
use crate::disk::file_name;
use crate::index::Geometry;
use crate::log::Segment;
use crate::queue::UNIT_BYTES;
use crate::queue::batched::reader::BatchUnitReader;
use crate::queue::batched::{BATCH_UNIT_BYTES, JAVA_DIR, VOSTOK_DIR};
use crate::queue::table;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Errors of surveying a store.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// The directory holds no commit log.
    #[error(
        "{path} holds no commit log file: expected the storePathRootDir of a broker, with commitlog/ in it, or the commit log's own directory"
    )]
    NoLog {
        /// The directory that was searched.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operation.
        source: io::Error,
    },
}

impl SurveyError {
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// A defect that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file with the defect.
    pub file: PathBuf,
    /// Position in the file, if the defect has one.
    pub at: Option<u64>,
    /// Expected and actual content.
    pub what: String,
}

impl Finding {
    pub(super) fn new(file: &Path, at: impl Into<Option<u64>>, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), at: at.into(), what: what.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} at {at}: {}", self.file.display(), self.what),
            None => write!(f, "{}: {}", self.file.display(), self.what),
        }
    }
}

/// Files of a queue.
#[derive(Debug)]
pub(super) struct QueueDir {
    pub(super) topic: String,
    pub(super) queue_id: i32,
    pub(super) directory: PathBuf,
    /// Paths by the queue offset of each file's first unit.
    pub(super) files: BTreeMap<u64, PathBuf>,
}

/// The files of a store.
pub struct Survey {
    pub(super) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    /// Size of a commit log file in bytes.
    pub(super) segment_bytes: u64,
    /// Commit log files, ascending.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(super) queue_file_bytes: u64,
    /// Queue files by topic and queue id.
    pub(super) queues: BTreeMap<(String, i32), QueueDir>,
    /// Topics with batch consume queues. Their files in `queues` are Vostok's, and count only together with the queue table.
    pub(super) batched: BTreeSet<String>,
    /// RocketMQ's files of batch consume queues: directory, and size of a file in bytes.
    pub(super) batches: BTreeMap<(String, i32), (PathBuf, u64)>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Number of slots and items in a key index file.
    pub(super) geometry: Geometry,
    pub(super) has_index: bool,
    /// Whether the store is open, or was not closed cleanly.
    pub(super) is_running: bool,
    /// Files with a wrong name or size.
    pub(super) findings: Vec<Finding>,
    /// Records of the log that left their queues.
    pub(super) past: NewestTable,
}

impl Survey {
    /// Surveys the store at `root`. `commit_logs` are the directories of the commit log; when empty, `<root>/commitlog`.
    ///
    /// # Errors
    /// [`SurveyError`]: there is no commit log, or a directory or file cannot be read.
    pub fn of(disk: Arc<dyn Disk>, root: &Path, commit_logs: &[PathBuf]) -> Result<Self, SurveyError> {
        let mut survey = Self {
            disk,
            root: root.to_owned(),
            segment_bytes: 0,
            segments: Vec::new(),
            queue_file_bytes: 0,
            queues: BTreeMap::new(),
            batched: BTreeSet::new(),
            batches: BTreeMap::new(),
            checkpoint: None,
            geometry: Geometry { slots: 5_000_000, items: 20_000_000 },
            has_index: false,
            is_running: false,
            findings: Vec::new(),
            past: NewestTable::default(),
        };
        let own = [root.join("commitlog")];
        let directories = if commit_logs.is_empty() { &own[..] } else { commit_logs };
        survey.find_segments(directories)?;
        if survey.segments.is_empty() {
            return Err(SurveyError::NoLog { path: directories[0].clone() });
        }
        survey.find_queues(&root.join("consumequeue")).map_err(SurveyError::io(root.join("consumequeue")))?;
        survey.find_queues(&root.join(VOSTOK_DIR)).map_err(SurveyError::io(root.join(VOSTOK_DIR)))?;
        survey.find_batches().map_err(SurveyError::io(root.join(JAVA_DIR)))?;
        survey.has_index = !survey.disk.list(&root.join("index")).map_err(SurveyError::io(root))?.is_empty();
        survey.find_marks().map_err(SurveyError::io(root))?;
        survey.find_past().map_err(SurveyError::io(root))?;
        let Self { past: NewestTable { leaving, .. }, queues, batches, .. } = &mut survey;
        queues.retain(|(topic, _), _| !leaving.contains_key(topic.as_str()));
        batches.retain(|(topic, _), _| !leaving.contains_key(topic.as_str()));
        Ok(survey)
    }

    /// Sets the size of key index files that differs from RocketMQ's default (`maxHashSlotNum`, `maxIndexNum`).
    #[must_use]
    pub fn with_index(mut self, slots: u32, items: u32) -> Self {
        self.geometry = Geometry { slots: slots.max(1), items: items.max(2) };
        self
    }

    /// First log position held.
    pub(super) fn log_min(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.base)
    }

    /// Whether the next opening reads the record at this log position, so that a missing unit is no defect: the
    /// store is running or crashed, and the checkpoint does not cover the position.
    pub(super) fn is_new(&self, at: u64) -> bool {
        let durable = self.checkpoint.map_or(0, |page| page.logics_physical_offset.max(0).unsigned_abs());
        self.is_running && at >= durable
    }

    /// Bytes of all commit log files together.
    pub fn log_bytes(&self) -> u64 {
        self.segments.len() as u64 * self.segment_bytes
    }

    fn find_segments(&mut self, directories: &[PathBuf]) -> Result<(), SurveyError> {
        let mut files = Vec::new();
        for directory in directories {
            let entries = self.disk.list(directory).map_err(SurveyError::io(directory))?;
            let named =
                |entry: crate::disk::DirEntry| (entry.name.clone(), entry.length, directory.join(entry.name));
            files.extend(entries.into_iter().filter(|entry| !entry.is_dir).map(named));
        }
        files.sort();
        self.segment_bytes = files.iter().map(|file| file.1).find(|length| *length > 0).unwrap_or(0);
        let last = files.len().saturating_sub(1);
        for (index, (name, length, path)) in files.iter().enumerate() {
            let base = name.parse::<u64>().ok().filter(|base| file_name(*base) == *name);
            let Some(base) = base else {
                self.find(path, "its name is not a start offset of 20 digits; neither RocketMQ nor Vostok opens the store");
                continue;
            };
            if *length == 0 && index == last {
                // Left by an interrupted creation; Vostok and RocketMQ remove it at opening.
                continue;
            }
            if *length != self.segment_bytes {
                let expected = self.segment_bytes;
                self.find(
                    path,
                    format!(
                        "it is {length} bytes long, the first file {expected}; nobody opens such a store"
                    ),
                );
                continue;
            }
            let end = self.segments.last().map(|segment| segment.base + self.segment_bytes);
            if let Some(end) = end.filter(|end| *end != base) {
                self.find(path, format!("the file that starts at {end} is missing before it"));
            }
            let file = self.disk.open(path).map_err(SurveyError::io(path))?;
            let written_ahead = AtomicU64::new(0);
            self.segments.push(Arc::new(Segment { base, path: path.clone(), file, written_ahead }));
        }
        Ok(())
    }

    fn find(&mut self, path: &Path, what: impl Into<String>) {
        self.findings.push(Finding::new(path, None, what));
    }

    /// Finds RocketMQ's files of batch consume queues.
    fn find_batches(&mut self) -> io::Result<()> {
        for directory in [self.root.join(JAVA_DIR), self.root.join(VOSTOK_DIR)] {
            let topics = self.disk.list(&directory)?.into_iter().filter(|entry| entry.is_dir);
            self.batched.extend(topics.map(|topic| topic.name));
        }
        for topic in self.batched.clone() {
            let directory = self.root.join(JAVA_DIR).join(&topic);
            for entry in self.disk.list(&directory)? {
                let path = directory.join(&entry.name);
                let Ok(queue_id) = entry.name.parse::<i32>() else {
                    self.find(&path, "its name is not a queue id");
                    continue;
                };
                let files = self.disk.list(&path)?;
                let length = files.iter().map(|file| file.length).find(|length| *length > 0);
                let file_bytes = length.filter(|length| length.is_multiple_of(BATCH_UNIT_BYTES));
                let file_bytes = file_bytes.unwrap_or(BATCH_UNIT_BYTES);
                match BatchUnitReader::of(self.disk.clone(), path.clone(), file_bytes) {
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        self.find(&path, error.to_string())
                    }
                    reader => drop(reader?),
                }
                self.batches.insert((topic.clone(), queue_id), (path, file_bytes));
            }
        }
        Ok(())
    }

    fn find_queues(&mut self, directory: &Path) -> io::Result<()> {
        for topic in self.disk.list(directory)?.into_iter().filter(|entry| entry.is_dir) {
            let directory = directory.join(&topic.name);
            for entry in self.disk.list(&directory)?.into_iter().filter(|entry| entry.is_dir) {
                match entry.name.parse::<i32>() {
                    Ok(queue_id) if queue_id >= 0 => {
                        self.find_queue(&topic.name, queue_id, directory.join(&entry.name))?
                    }
                    _ => self.find(&directory.join(&entry.name), "its name is not a queue id"),
                }
            }
        }
        Ok(())
    }

    fn find_queue(&mut self, topic: &str, queue_id: i32, directory: PathBuf) -> io::Result<()> {
        let mut files = BTreeMap::new();
        for entry in self.disk.list(&directory)?.iter().filter(|entry| !entry.is_dir && entry.length > 0) {
            let path = directory.join(&entry.name);
            if self.queue_file_bytes == 0 && entry.length.is_multiple_of(UNIT_BYTES) {
                self.queue_file_bytes = entry.length;
            }
            let start = entry.name.parse::<u64>().ok().filter(|start| file_name(*start) == entry.name);
            match start {
                _ if entry.length != self.queue_file_bytes => {
                    let (length, expected) = (entry.length, self.queue_file_bytes);
                    self.find(&path, format!("it is {length} bytes long, other queue files {expected}; nobody opens such a store"));
                }
                Some(start) if start.is_multiple_of(self.queue_file_bytes) => {
                    files.insert(start / UNIT_BYTES, path);
                }
                _ => self.find(&path, "its name is not a start offset of 20 digits"),
            }
        }
        let units = self.queue_file_bytes / UNIT_BYTES;
        let starts: Vec<u64> = files.keys().copied().collect();
        for pair in starts.windows(2).filter(|pair| pair[0] + units != pair[1]) {
            let expected = file_name((pair[0] + units) * UNIT_BYTES);
            self.find(&files[&pair[1]], format!("the file {expected} is missing before it"));
        }
        let key = (topic.to_owned(), queue_id);
        self.queues.insert(key, QueueDir { topic: topic.to_owned(), queue_id, directory, files });
        Ok(())
    }

    fn find_marks(&mut self) -> io::Result<()> {
        let entries = self.disk.list(&self.root)?;
        let length = |name: &str| entries.iter().find(|entry| entry.name == name).map(|entry| entry.length);
        self.is_running = length("abort").is_some();
        let path = self.root.join("checkpoint");
        match length("checkpoint") {
            None => {}
            Some(length) if length < 48 => {
                self.find(&path, format!("it is {length} bytes long, expected 4096"))
            }
            Some(_) => self.checkpoint = Some(Checkpoint::load(&*self.disk, &path)?),
        }
        Ok(())
    }

    /// Loads the queue table. Everything else can be examined without it.
    fn find_past(&mut self) -> io::Result<()> {
        let is_gone = |past: &io::Result<NewestTable>| {
            past.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let mut past = NewestTable::of(self);
        if is_gone(&past) && self.checkpoint.is_some() {
            // A running broker removes the old table after it wrote the `checkpoint` file that names the next one.
            self.checkpoint = Some(Checkpoint::load(&*self.disk, &self.root.join("checkpoint"))?);
            past = NewestTable::of(self);
        }
        if is_gone(&past) {
            past = NewestTable::newest(self);
        }
        self.past = past.unwrap_or_else(|error| {
            let what = format!(
                "the queue table cannot be read: {error}; messages of removed topics and expired ones may be missed \
                 below, and repair changes nothing before the table can be read"
            );
            self.find(&table::directory(&self.root), what);
            NewestTable::unreadable()
        });
        Ok(())
    }

    /// Reads a whole small file. Returns `None` if it does not exist.
    pub(super) fn read_file(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let entries = self.disk.list(directory)?;
        let name = name.to_string_lossy();
        let Some(entry) = entries.iter().find(|entry| entry.name == name) else { return Ok(None) };
        let mut bytes = vec![0; usize::try_from(entry.length).map_err(io::Error::other)?];
        self.disk.open(path)?.read_at(&mut bytes, 0)?;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests;
