//! Measures the disk, bypassing the page cache.
//!
//! The file that is measured has no name. A file left behind by a kill in a commit log directory would prevent a Java
//! broker from starting, because it takes every file there for its own (`MappedFileQueue.load`).

use crate::Error;
use rustix::fs::{Advice, OFlags, fadvise};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of one write.
const BLOCK_BYTES: usize = 1 << 20;

/// Bytes that are flushed at a time, about as by a broker for one message.
const PAGE_BYTES: usize = 4096;

/// Number of writes in flight when random writes are counted.
const WRITERS: u64 = 16;

/// The limits of a disk.
#[derive(Default)]
pub(super) struct Disk {
    pub written: f64,
    pub read: f64,
    pub flushes: f64,
    pub await_ms: f64,
    pub random_writes: f64,
}

/// A page with the alignment that direct I/O needs.
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Writes, flushes and reads a file, which is removed afterwards.
pub(super) fn measure(directory: &Path, bytes: u64, time: Duration) -> Result<Disk, Error> {
    let path = directory.join(format!("vostok-selftest-{}", std::process::id()));
    with_file(&path, bytes.max(BLOCK_BYTES as u64), time).map_err(|source| Error::File { path, source })
}

fn with_file(path: &Path, bytes: u64, time: Duration) -> io::Result<Disk> {
    let (file, direct) = nameless(path)?;
    let block: Vec<u8> = crate::load::body(BLOCK_BYTES, 7);
    let (begin, mut length) = (Instant::now(), 0);
    // The disk may be slow: writing takes at most ten times as long as the other parts.
    while length < bytes && begin.elapsed() < time * 10 {
        file.write_all_at(&block, length)?;
        length += block.len() as u64;
    }
    file.sync_data()?;
    let written = length as f64 / begin.elapsed().as_secs_f64();
    // Reading comes before random writes. A file system that writes to a new place every time would fragment the file.
    let read = read(&file)?;
    let (flushes, await_ms) = flush(&file, length, time)?;
    let random_writes = direct.map_or(0.0, |direct| random_writes(&direct, length, time));
    Ok(Disk { written, read, flushes, await_ms, random_writes })
}

/// Creates a file without a name, and opens it a second time for direct I/O if the file system supports that.
pub(super) fn nameless(path: &Path) -> io::Result<(File, Option<File>)> {
    let file = File::options().create_new(true).read(true).write(true).open(path)?;
    let flags = OFlags::DIRECT.bits().cast_signed();
    let direct = File::options().write(true).custom_flags(flags).open(path).ok();
    std::fs::remove_file(path)?;
    Ok((file, direct))
}

/// Writes and flushes a page at a time into space that was written before. Returns flushes per second and milliseconds
/// per write.
fn flush(file: &File, length: u64, time: Duration) -> io::Result<(f64, f64)> {
    let page = [0x33; PAGE_BYTES];
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < time {
        file.write_all_at(&page, count * PAGE_BYTES as u64 % length)?;
        file.sync_data()?;
        count += 1;
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok((count as f64 / seconds, seconds * 1000.0 / count.max(1) as f64))
}

/// Random writes of a page per second, with several in flight; 0 when a write fails.
fn random_writes(direct: &File, length: u64, time: Duration) -> f64 {
    let begin = Instant::now();
    let counts = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| {
                let named = std::thread::Builder::new().name("selftest".to_owned());
                named.spawn_scoped(scope, move || scattered(direct, (length, seed), time))
            })
            .collect();
        let counts = writers.into_iter().map(|writer| writer.ok()?.join().ok()?.ok());
        counts.collect::<Option<Vec<u64>>>()
    });
    counts.map_or(0.0, |counts| counts.iter().sum::<u64>() as f64 / begin.elapsed().as_secs_f64())
}

fn scattered(direct: &File, (length, seed): (u64, u64), time: Duration) -> io::Result<u64> {
    let page = Box::new(Page([0x44; PAGE_BYTES]));
    let pages = (length / PAGE_BYTES as u64).max(1);
    let mut random = fastrand::Rng::with_seed(seed);
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < time {
        direct.write_all_at(&page.0, random.u64(..pages) * PAGE_BYTES as u64)?;
        count += 1;
    }
    Ok(count)
}

/// Reads the file after its pages were dropped from the page cache; returns bytes per second.
fn read(mut file: &File) -> io::Result<f64> {
    file.sync_data()?;
    fadvise(file, 0, None, Advice::DontNeed)?;
    file.rewind()?;
    let mut block = vec![0; BLOCK_BYTES];
    let (begin, mut bytes) = (Instant::now(), 0);
    loop {
        match file.read(&mut block)? {
            0 => return Ok(bytes as f64 / begin.elapsed().as_secs_f64()),
            count => bytes += count,
        }
    }
}
