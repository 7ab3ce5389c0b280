//! Plans and performs the repair of a store. Findings and their repair steps:
//!
//! - A range of the log without a whole record, with whole ones behind it in the same file: it is filled with records of type
//!   "rolled back", which are in no queue. Readers of the log pass over them; RocketMQ's recovery ends at damage and cuts off
//!   all that follows.
//! - The same up to the end of a file that is not the last: a blank record, as at the end of every file.
//! - The same at the end of the log: cut, as the next opening does.
//! - A position of which opening could not tell whether it is damage: as an operator decides ([`Decision`]), records behind
//!   it are kept, as above, or the log ends there.
//! - A record that does not match its digest: left alone. Its body is whole and RocketMQ serves it; Vostok skips it.
//! - Queues that do not agree with the log: their files are removed; the next opening rebuilds them from the log. Where the
//!   queue table does not count, or the log was repaired as well, a crash mark is left, and the checkpoint and the files of
//!   all queues with messages in the log are removed.
//! - Index files that do not agree with the log: removed with all newer ones; the next opening rebuilds them from the log.
//! - A part of the log that the disk cannot read: nothing is repaired, as its records may be whole, and opening would read
//!   them. A copy on another disk, with zeros in that part, can be repaired.
//! - Files of a wrong name or size, and broken JSON: reported, never changed.
//!
//! Before anything is overwritten, the old bytes are copied to a directory beside the store.

use super::result::{DamagedRange, VerifyResult};
use super::survey::{Survey, SurveyError};
use crate::digest::Digests;
use crate::recover::FILLER_TOPIC;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use wire::record::{self, Placement, RECORD_BYTES_MIN, RecordFields, sys_flag};
use wire::units::{LogOffset, QueueOffset};

/// Largest filler record in bytes. RocketMQ's recovery reads a record as a whole, so a filler must not be huge.
const FILLER_BYTES_MAX: u64 = 1 << 20;

/// A step of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Overwrites a range of log positions with records that are in no queue.
    Fill(u64, u64),
    /// Writes a blank record from the first log position to the second, which is the end of the file.
    Blank(u64, u64),
    /// Writes zeros from the first log position to the second, which is the end of the file.
    Cut(u64, u64),
    /// Removes these commit log files.
    RemoveLog(Vec<PathBuf>),
    /// Removes the files of these queues. The next opening finds by the queue table that the files are missing, and
    /// rebuilds them from the log.
    RebuildQueues(Vec<(String, i32)>),
    /// Leaves a crash mark and removes the checkpoint, the files of these queues, and those of all other queues with
    /// messages in the log. The next opening then rebuilds all of them from the log.
    RebuildAllQueues(Vec<(String, i32)>),
    /// Removes these key index files; the next opening rebuilds them from the log.
    RemoveIndex(Vec<PathBuf>),
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fill(from, end) => write!(
                f,
                "fill log offsets {from} to {end} ({} bytes) with records that are in no queue",
                end - from
            ),
            Self::Blank(from, end) => {
                write!(f, "end the log file at offset {from} ({} bytes are lost)", end - from)
            }
            Self::Cut(from, _) => write!(f, "cut the log at offset {from}"),
            Self::RemoveLog(files) => write!(f, "remove {} files of the log behind the cut", files.len()),
            Self::RebuildQueues(queues) => write!(
                f,
                "remove the queue files of {}; open the store with Vostok next, which makes them from the log while it serves",
                named(queues)
            ),
            Self::RemoveIndex(files) => {
                write!(f, "remove {} key index files; opening the store makes them from the log", files.len())
            }
            Self::RebuildAllQueues(queues) => write!(
                f,
                "leave a crash mark (abort), remove the checkpoint and the files of all queues with messages in the log; opening the store makes them from the log (because of {})",
                named(queues)
            ),
        }
    }
}

/// Names the first few of many queues.
fn named(queues: &[(String, i32)]) -> String {
    let mut words: Vec<String> = queues.iter().take(5).map(|(topic, id)| format!("{topic}/{id}")).collect();
    if queues.len() > 5 {
        words.push(format!("and {} others", queues.len() - 5));
    }
    words.join(" ")
}

/// An operator's decision on a damaged position of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Records behind this log position are kept.
    KeepBehind(u64),
    /// The log ends at this position.
    CutAt(u64),
}

/// The steps that repair a store.
pub struct Repair<'a> {
    survey: &'a Survey,
    steps: Vec<Step>,
}

impl<'a> Repair<'a> {
    /// Plans the repair of everything that was found.
    pub fn of(survey: &'a Survey, verified: &VerifyResult) -> Self {
        let mut steps = Vec::new();
        if verified.unreadable_bytes > 0 || survey.past.is_unreadable {
            return Self { survey, steps };
        }
        steps.extend(verified.damages.iter().map(|damage| mend(survey, verified, damage)));
        if !verified.bad_queues.is_empty() {
            let queues = verified.bad_queues.clone();
            let is_known = steps.is_empty() && survey.past.is_sure;
            steps.push(if is_known { Step::RebuildQueues(queues) } else { Step::RebuildAllQueues(queues) });
        }
        if !verified.bad_index.is_empty() {
            steps.push(Step::RemoveIndex(verified.bad_index.clone()));
        }
        Self { survey, steps }
    }

    /// Plans the repair of a position that an operator decided on.
    ///
    /// # Errors
    /// Text with the reason: no damage begins at the position, or a part of the log cannot be read.
    pub fn deciding(survey: &'a Survey, verified: &VerifyResult, decision: Decision) -> Result<Self, String> {
        if verified.unreadable_bytes > 0 {
            return Err("nothing is changed while parts of the log cannot be read".to_owned());
        }
        let (Decision::KeepBehind(at) | Decision::CutAt(at)) = decision;
        let damage = verified.damages.iter().find(|damage| damage.from == at).ok_or_else(|| {
            let places: Vec<_> = verified.damages.iter().map(|damage| damage.from.to_string()).collect();
            format!("no damage begins at log offset {at}; expected one of: {}", places.join(" "))
        })?;
        let steps = match decision {
            // A power cut may leave several holes; records behind the later ones are kept too.
            Decision::KeepBehind(_) => {
                let from_there = verified.damages.iter().filter(|other| other.from >= damage.from);
                from_there.map(|damage| mend(survey, verified, damage)).collect()
            }
            Decision::CutAt(_) => {
                let file_end = at / survey.segment_bytes * survey.segment_bytes + survey.segment_bytes;
                let behind = survey.segments.iter().filter(|segment| segment.base >= file_end);
                let files: Vec<_> = behind.map(|segment| segment.path.clone()).collect();
                let cut = Step::Cut(at, file_end);
                if files.is_empty() { vec![cut] } else { vec![Step::RemoveLog(files), cut] }
            }
        };
        Ok(Self { survey, steps })
    }

    /// The steps of the repair, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Performs the repair. Overwritten and removed data is copied to `kept`, which must not exist yet. The caller holds the
    /// store's lock and has surveyed the store on a writable disk.
    ///
    /// # Errors
    /// [`SurveyError::Io`] when a file operation fails. Steps that were done stay done.
    pub fn apply(&self, kept: &Path) -> Result<(), SurveyError> {
        self.steps.iter().try_for_each(|step| match step {
            Step::Fill(from, end) => self.overwrite(*from, *end, kept, filler(*from, *end)),
            Step::Blank(from, end) => {
                let left = u32::try_from(end - from).unwrap_or(u32::MAX);
                let mut bytes = record::encode_blank(left).to_vec();
                bytes.truncate(usize::try_from(end - from).unwrap_or(usize::MAX));
                self.overwrite(*from, *end, kept, bytes)
            }
            Step::Cut(from, end) => {
                let length = usize::try_from(end - from).unwrap_or(usize::MAX);
                self.overwrite(*from, *end, kept, vec![0; length])
            }
            Step::RebuildQueues(queues) => self.remove(self.files_of(|queue| queues.contains(queue)), kept),
            Step::RemoveIndex(files) => self.remove(files.clone(), kept),
            Step::RemoveLog(files) => self.set_aside(files, kept),
            Step::RebuildAllQueues(bad) => {
                // First the crash mark, then the checkpoint: with either one alone, partially removed queues are not
                // believed.
                let mark = self.survey.root.join("abort");
                if !self.survey.is_running {
                    self.keep(&mark, b"0").map_err(SurveyError::io(&mark))?;
                }
                let mut paths = vec![self.survey.root.join("checkpoint")];
                let is_idle = |key: &(String, i32)| {
                    let queue = self.survey.queues.get(key).filter(|_| !bad.contains(key));
                    queue.is_some_and(|queue| queue.is_idle(self.survey).unwrap_or(false))
                };
                paths.extend(self.files_of(|key| !is_idle(key)));
                self.remove(paths, kept)
            }
        })
    }

    fn overwrite(&self, from: u64, end: u64, kept: &Path, bytes: Vec<u8>) -> Result<(), SurveyError> {
        let segment = self.survey.segments.iter().rfind(|segment| segment.base <= from);
        let Some(segment) = segment else { return Ok(()) };
        let position = from - segment.base;
        let done = || -> io::Result<()> {
            let mut before = vec![0; usize::try_from(end - from).map_err(io::Error::other)?];
            segment.file.read_at(&mut before, position)?;
            let name = segment.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.keep(&kept.join("commitlog").join(format!("{name}.{position}")), &before)?;
            // Digests before the log: a record without a digest is served, but a record that does not match its
            // digest is not.
            let survey = self.survey;
            Digests::new(&survey.root, survey.segment_bytes, survey.disk.clone()).forget(from, end)?;
            segment.file.write_at(&bytes, position)?;
            segment.file.sync()
        };
        done().map_err(SurveyError::io(&segment.path))
    }

    /// Moves commit log files out of the store, the last file first, so that the remaining files never have a gap.
    fn set_aside(&self, files: &[PathBuf], kept: &Path) -> Result<(), SurveyError> {
        let (disk, directory) = (&self.survey.disk, kept.join("commitlog"));
        disk.create_dir_all(&directory).map_err(SurveyError::io(&directory))?;
        for path in files.iter().rev() {
            let target = directory.join(path.file_name().unwrap_or_default());
            let moved = match disk.rename(path, &target) {
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                    self.copy(path, &target).and_then(|()| disk.remove(path))
                }
                moved => moved,
            };
            let source = path.parent().unwrap_or(Path::new("/"));
            let done = moved.and_then(|()| disk.sync_dir(&directory)).and_then(|()| disk.sync_dir(source));
            done.map_err(SurveyError::io(path))?;
        }
        Ok(())
    }

    /// Copies a file piece by piece.
    fn copy(&self, source: &Path, target: &Path) -> io::Result<()> {
        let file = self.survey.disk.open(source)?;
        let length = file.length()?;
        let copy = self.survey.disk.create(target, length, crate::disk::Space::Sparse)?;
        let mut bytes = vec![0; 1 << 20];
        let mut at = 0;
        while at < length {
            let step = usize::try_from(length - at).map_or(bytes.len(), |left| left.min(bytes.len()));
            file.read_at(&mut bytes[..step], at)?;
            copy.write_at(&bytes[..step], at)?;
            at += step as u64;
        }
        copy.sync()
    }

    fn keep(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let disk = &self.survey.disk;
        let directory = path.parent().unwrap_or(Path::new("/"));
        disk.create_dir_all(directory)?;
        let file = disk.create(path, bytes.len() as u64, crate::disk::Space::Reserved)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        disk.sync_dir(directory)
    }

    fn files_of(&self, wanted: impl Fn(&(String, i32)) -> bool) -> Vec<PathBuf> {
        let queues = self.survey.queues.iter().filter(|(key, _)| wanted(key));
        let mut files: Vec<_> = queues.flat_map(|(_, queue)| queue.files.values().cloned()).collect();
        for (_, (directory, _)) in self.survey.batches.iter().filter(|(key, _)| wanted(key)) {
            let entries = self.survey.disk.list(directory).unwrap_or_default();
            files.extend(entries.into_iter().map(|entry| directory.join(entry.name)));
        }
        files
    }

    fn remove(&self, paths: Vec<PathBuf>, kept: &Path) -> Result<(), SurveyError> {
        let survey = self.survey;
        for path in paths {
            let Some(bytes) = survey.read_file(&path).map_err(SurveyError::io(&path))? else { continue };
            let name = path.strip_prefix(&survey.root).unwrap_or(&path);
            self.keep(&kept.join(name), &bytes).map_err(SurveyError::io(kept))?;
            let removed = survey.disk.remove(&path);
            let directory = path.parent().unwrap_or(&survey.root);
            removed.and_then(|()| survey.disk.sync_dir(directory)).map_err(SurveyError::io(&path))?;
        }
        Ok(())
    }
}

/// The step that repairs a damaged range of the log.
fn mend(survey: &Survey, verified: &VerifyResult, damage: &DamagedRange) -> Step {
    let DamagedRange { from, end, is_followed } = *damage;
    let later = verified.log_end > end || survey.segments.iter().any(|segment| segment.base >= end);
    match (is_followed, later) {
        (true, _) => Step::Fill(from, end),
        (false, true) => Step::Blank(from, end),
        (false, false) => Step::Cut(from, end),
    }
}

/// Filler records for a range of log positions.
fn filler(from: u64, end: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let host = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let shortest = (RECORD_BYTES_MIN + FILLER_TOPIC.len()) as u64;
    let mut at = from;
    while at < end {
        let left = end - at;
        // The rest must be long enough for one more record.
        let size = if left <= FILLER_BYTES_MAX { left } else { FILLER_BYTES_MAX.min(left - shortest) };
        // A damaged record may have been too short for this topic.
        let topic = if size < shortest { "" } else { FILLER_TOPIC };
        let body = vec![0; usize::try_from(size).unwrap_or(0).saturating_sub(RECORD_BYTES_MIN + topic.len())];
        let fields = RecordFields {
            topic,
            queue_id: 0,
            flag: 0,
            sys_flag: sys_flag::TRANSACTION_ROLLBACK,
            born_timestamp: 0,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &body,
            properties: b"",
            crc_property: false,
        };
        let start = out.len();
        record::encode(&fields, &mut out).expect("all parts are short");
        let placement =
            Placement { queue_offset: QueueOffset::ZERO, log_offset: LogOffset::new(at), store_timestamp: 0 };
        record::place(&mut out[start..], &placement);
        at += size;
    }
    out
}
