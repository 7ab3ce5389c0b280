//! Verifies a store: reads everything once and compares it.
//!
//! The log is read file by file, several at a time. The units that the log's records require are then compared with
//! the queue files. So each queue file is read once and in order too.

use super::batches::BatchCheck;
use super::expected::UnitsByQueue;
use super::index::IndexCheck;
use super::queues::QueueCheck;
use super::result::{DamagedRange, VerifyResult};
use super::survey::{Finding, Survey, SurveyError};
use super::timers::check_timers;
use super::walk::LogPiece;
use crate::digest::{Digests, sum};
use crate::keys::{Keys, is_keyed, seed_of};
use crate::log::Segment;
use crate::queue::batched::VOSTOK_DIR;
use crate::recover::{FILLER_TOPIC as FILLED_TOPIC, Restarts, agrees, is_untouched};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::record::{RecordView, sys_flag};

/// Progress of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Bytes of the commit log that are read.
    pub done: u64,
    /// Bytes of all commit log files.
    pub total: u64,
}

/// Result of reading a commit log file.
#[derive(Default)]
struct FileResult {
    findings: Vec<Finding>,
    damages: Vec<DamagedRange>,
    queues: UnitsByQueue,
    /// Hashes of keys with the log positions of their records, ascending.
    keys: Vec<(u64, u32)>,
    filled: Vec<(u64, u64)>,
    unreadable_bytes: u64,
    records: u64,
    digests: u64,
    /// Log position behind the last whole record.
    end: u64,
    last_time: i64,
}

/// Finds the digest files and returns the log position up to which their entries count.
fn trusted_end(survey: &Survey, digests: &Digests) -> std::io::Result<u64> {
    digests.look()?;
    if is_untouched(&*survey.disk, &survey.root)? {
        return Ok(u64::MAX);
    }
    let end = digests.agreed_end(|entry| {
        let base = entry.at.get() / survey.segment_bytes * survey.segment_bytes;
        let segment = survey.segments.iter().find(|segment| segment.base == base);
        segment.is_some_and(|segment| agrees(segment, survey.segment_bytes, entry))
    });
    Ok(end.get())
}

/// Reads the whole store with the given number of threads and checks that its files agree.
///
/// # Errors
/// [`SurveyError::Io`] when a file cannot be read.
pub fn verify(
    survey: &Survey,
    threads: usize,
    progress: &(dyn Fn(VerifyProgress) + Sync),
) -> Result<VerifyResult, SurveyError> {
    let mut verified = VerifyResult { findings: survey.findings.clone(), ..VerifyResult::default() };
    let mut queues: BTreeMap<(String, i32), QueueCheck> = BTreeMap::new();
    let mut restarts = Restarts::default();
    let mut batches: BTreeMap<(String, i32), BatchCheck> = BTreeMap::new();
    let digests = Digests::new(&survey.root, survey.segment_bytes, survey.disk.clone());
    let trusted = trusted_end(survey, &digests).map_err(SurveyError::io(&survey.root))?;
    let mut index = IndexCheck::of(survey).map_err(SurveyError::io(survey.root.join("index")))?;
    let done = AtomicU64::new(0);
    let report = |bytes: u64| {
        let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        progress(VerifyProgress { done, total: survey.log_bytes() });
    };
    for segments in survey.segments.chunks(threads.max(1)) {
        let results: Vec<Result<FileResult, SurveyError>> = std::thread::scope(|scope| {
            let (digests, report) = (&digests, &report);
            let read = |segment| scope.spawn(move || read_file(survey, segment, digests, trusted, report));
            let threads: Vec<_> = segments.iter().map(read).collect();
            threads.into_iter().map(|thread| thread.join().expect("a reader does not panic")).collect()
        });
        for (segment, result) in segments.iter().zip(results) {
            let result = result?;
            let end = segment.base + survey.segment_bytes;
            index
                .check(segment.base, end, &result.keys)
                .map_err(SurveyError::io(survey.root.join("index")))?;
            for (key, units) in &result.queues.batches {
                let check = batches.entry(key.clone()).or_insert_with(|| BatchCheck::of(survey, key));
                check
                    .check(units, |at| survey.is_new(at))
                    .map_err(SurveyError::io(check.directory.clone()))?;
            }
            take_over(survey, result, &mut verified, &mut queues, &mut restarts)?;
        }
    }
    // The killed broker was writing these records.
    let torn = std::mem::take(&mut verified.torn);
    verified.notes.extend(torn.into_iter().map(|(finding, _)| finding));
    index.finish(&mut verified).map_err(SurveyError::io(survey.root.join("index")))?;
    check_timers(survey, &mut verified).map_err(SurveyError::io(survey.root.join("timerlog")))?;
    finish_queues(survey, &mut verified, queues, restarts)?;
    for key in survey.batches.keys() {
        batches.entry(key.clone()).or_insert_with(|| BatchCheck::of(survey, key));
    }
    for (key, check) in batches {
        let directory = check.directory.clone();
        check.finish(key, &mut verified).map_err(SurveyError::io(directory))?;
    }
    check_checkpoint(survey, &mut verified);
    check_config(survey, &mut verified.findings).map_err(SurveyError::io(&survey.root))?;
    Ok(verified)
}

fn read_file(
    survey: &Survey,
    segment: &Arc<Segment>,
    digests: &Digests,
    trusted: u64,
    report: &(dyn Fn(u64) + Sync),
) -> Result<FileResult, SurveyError> {
    let mut result = FileResult { end: segment.base, ..FileResult::default() };
    let mut reported = segment.base;
    let mut hashes = Vec::new();
    survey.walk(segment, &mut |piece| {
        match piece {
            LogPiece::Record(at, view) => {
                result.records += 1;
                result.end = at + view.size() as u64;
                result.last_time = result.last_time.max(view.store_timestamp());
                match check_record(at, &view, digests, trusted) {
                    Ok(compared) => {
                        result.digests += u64::from(compared);
                        result.queues.add(at, &view, survey);
                        if survey.has_index && is_keyed(view.sys_flag()) {
                            hashes.clear();
                            Keys::of(view.properties()).hash_into(seed_of(view.topic()), &mut hashes);
                            result.keys.extend(hashes.iter().map(|hash| (at, *hash)));
                        }
                        if view.topic() == FILLED_TOPIC.as_bytes() && is_rolled_back(view.sys_flag()) {
                            result.filled.push((at, result.end));
                        }
                    }
                    // A record that fails its check is not compared with queues: its topic, queue or queue offset may be what
                    // is damaged.
                    Err(what) => result.findings.push(Finding::new(&segment.path, at - segment.base, what)),
                }
                if result.end - reported > 64 << 20 {
                    report(result.end - reported);
                    reported = result.end;
                }
            }
            LogPiece::Blank(at, size) => result.end = at + size,
            LogPiece::Empty(_) => {}
            LogPiece::Unreadable(from, end, error) => {
                result.unreadable_bytes += end - from;
                let what = format!(
                    "{} bytes cannot be read: {error}; repair changes nothing before the store was copied to another disk",
                    end - from
                );
                result.findings.push(Finding::new(&segment.path, from - segment.base, what));
            }
            LogPiece::Damage(from, end, what) => {
                let is_followed = end < segment.base + survey.segment_bytes;
                result.damages.push(DamagedRange { from, end, is_followed });
                let what = match is_followed {
                    true => {
                        format!("no whole record up to {} ({} bytes): {what}", end - segment.base, end - from)
                    }
                    false => format!("no whole record from here to the end of the file: {what}"),
                };
                result.findings.push(Finding::new(&segment.path, from - segment.base, what));
            }
        }
        ControlFlow::Continue(())
    })?;
    report(segment.base + survey.segment_bytes - reported);
    Ok(result)
}

/// Checks a record by its own checksums and its digest. Returns whether it had a digest.
fn check_record(at: u64, view: &RecordView<'_>, digests: &Digests, trusted: u64) -> Result<bool, String> {
    view.check_crc_property().map_err(|error| format!("the record's checksum property: {error}"))?;
    let known = (at < trusted).then(|| digests.find(wire::units::LogOffset::new(at))).flatten();
    let Some(expected) = known else { return Ok(false) };
    let found = sum::of(view);
    if found == expected {
        return Ok(true);
    }
    Err(format!(
        "the record's checksum of all but the body is {found:#010x}, when it was stored it was {expected:#010x}"
    ))
}

/// Adds the result of a file, in log order.
fn take_over(
    survey: &Survey,
    mut result: FileResult,
    verified: &mut VerifyResult,
    queues: &mut BTreeMap<(String, i32), QueueCheck>,
    restarts: &mut Restarts,
) -> Result<(), SurveyError> {
    if result.records > 0 {
        for (finding, damage) in std::mem::take(&mut verified.torn) {
            verified.findings.push(finding);
            verified.damages.push(damage);
        }
    }
    if survey.is_running
        && let Some(damage) = result.damages.pop_if(|damage| !damage.is_followed)
    {
        // The finding about this damage is the file's last one.
        let finding = result.findings.pop().expect("every damage has a finding");
        verified.torn.push((finding, damage));
    }
    verified.findings.append(&mut result.findings);
    verified.damages.append(&mut result.damages);
    verified.filled.append(&mut result.filled);
    verified.unreadable_bytes += result.unreadable_bytes;
    verified.records += result.records;
    verified.digests += result.digests;
    verified.log_end = verified.log_end.max(if result.records > 0 { result.end } else { 0 });
    for (topic, by_id) in result.queues.queues {
        for (queue_id, records) in by_id {
            let key = (topic.clone(), queue_id);
            if result.queues.batches.contains_key(&key) && !survey.past.is_sure {
                // Vostok's units are rebuilt at the next opening.
                continue;
            }
            let Some(directory) = survey.queues.get(&key) else {
                let first = records[0].unit.log_offset.get();
                // A message's further queues exist only where multi-dispatch is turned on.
                if !topic.starts_with("%LMQ%") && !survey.is_new(first) && !queues.contains_key(&key) {
                    let kind =
                        if result.queues.batches.contains_key(&key) { VOSTOK_DIR } else { "consumequeue" };
                    let path = survey.root.join(kind).join(&topic).join(queue_id.to_string());
                    verified.findings.push(Finding::new(
                        &path,
                        None,
                        format!("the queue has no files, the record at log offset {first} is in it"),
                    ));
                    verified.bad_queues.push(key.clone());
                    queues.insert(key, QueueCheck::default());
                }
                continue;
            };
            let checked = queues.entry(key).or_default();
            directory
                .check(survey, checked, restarts, &records)
                .map_err(SurveyError::io(&directory.directory))?;
        }
    }
    Ok(())
}

fn finish_queues(
    survey: &Survey,
    verified: &mut VerifyResult,
    mut queues: BTreeMap<(String, i32), QueueCheck>,
    found: Restarts,
) -> Result<(), SurveyError> {
    let mut restarts = Restarts::default();
    restarts.learn(found);
    let is_believed = |topic: &String| survey.past.is_sure || !survey.batched.contains(topic);
    let believed: Vec<_> = survey.queues.iter().filter(|(key, _)| is_believed(&key.0)).collect();
    for (key, directory) in believed {
        let mut checked = queues.remove(key).unwrap_or_default();
        if restarts.begin_of((&key.0, key.1)).is_none() {
            checked = checked.whole();
        }
        directory.check_end(survey, &mut checked).map_err(SurveyError::io(&directory.directory))?;
        verified.units += checked.units;
        if !checked.findings.is_empty() {
            verified.bad_queues.push(key.clone());
        }
        verified.findings.append(&mut checked.findings);
        verified.unlisted += checked.unlisted;
        verified.lost.append(&mut checked.lost);
    }
    Ok(())
}

fn is_rolled_back(flags: i32) -> bool {
    sys_flag::transaction(flags) == sys_flag::TRANSACTION_ROLLBACK
}

fn check_checkpoint(survey: &Survey, verified: &mut VerifyResult) {
    let Some(page) = survey.checkpoint else { return };
    let path = survey.root.join("checkpoint");
    let end = verified.log_end.cast_signed();
    for (at, name, value) in [
        (32, "confirmPhyOffset", page.confirm_phy_offset),
        (40, "logicsPhysicalOffset", page.logics_physical_offset),
    ] {
        if value < 0 || value > end {
            let what = format!("{name} is {value}, the log ends at {end}");
            verified.findings.push(Finding::new(&path, at, what));
        }
    }
}

/// Checks the JSON files in `config/`, and their backups.
fn check_config(survey: &Survey, findings: &mut Vec<Finding>) -> std::io::Result<()> {
    let directory = survey.root.join("config");
    for entry in survey.disk.list(&directory)? {
        let name = entry.name.strip_suffix(".bak").unwrap_or(&entry.name);
        if entry.is_dir || !name.ends_with(".json") {
            continue;
        }
        let path = directory.join(&entry.name);
        let text = survey.read_file(&path)?.unwrap_or_default();
        if text.trim_ascii().is_empty() {
            findings.push(Finding::new(&path, None, "it is empty; the broker reads its copy .bak instead"));
        } else if let Err(error) = wire::json::from_slice::<serde_json::Value>(&text) {
            findings.push(Finding::new(&path, None, format!("it is not JSON: {error}")));
        }
    }
    Ok(())
}
