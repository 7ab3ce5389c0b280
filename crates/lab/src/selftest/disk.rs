//! The disk past the page cache.

use crate::Error;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of one write.
const BLOCK_BYTES: usize = 1 << 20;

/// Bytes that are flushed at a time, as a broker does for one message.
const PAGE_BYTES: u64 = 4096;

/// What a disk can do.
pub(super) struct Disk {
    pub written: f64,
    pub read: f64,
    pub flushes: f64,
    pub await_ms: f64,
}

/// Writes, flushes and reads a file, which is removed.
pub(super) fn measure(directory: &Path, bytes: u64, time: Duration) -> Result<Disk, Error> {
    let path = directory.join(format!("vostok-selftest-{}", std::process::id()));
    let measured = with_file(&path, bytes.max(BLOCK_BYTES as u64), time);
    let removed = std::fs::remove_file(&path);
    let failed = |source| Error::File { path: path.clone(), source };
    let disk = measured.map_err(failed)?;
    removed.map_err(failed)?;
    Ok(disk)
}

fn with_file(path: &Path, bytes: u64, time: Duration) -> io::Result<Disk> {
    let file = File::options().create_new(true).read(true).write(true).open(path)?;
    let block: Vec<u8> = crate::load::body(BLOCK_BYTES, 7);
    let (begin, mut length) = (Instant::now(), 0);
    // Not for longer than ten times what the other parts take: the disk may be slow.
    while length < bytes && begin.elapsed() < time * 10 {
        file.write_all_at(&block, length)?;
        length += block.len() as u64;
    }
    file.sync_data()?;
    let written = length as f64 / begin.elapsed().as_secs_f64();
    let (flushes, await_ms) = flush(&file, length, time)?;
    Ok(Disk { written, flushes, await_ms, read: read(&file, path)? })
}

/// Flushes a page at a time into what was written before.
fn flush(file: &File, length: u64, time: Duration) -> io::Result<(f64, f64)> {
    let page = [0x33; PAGE_BYTES as usize];
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < time {
        file.write_all_at(&page, count * PAGE_BYTES % length)?;
        file.sync_data()?;
        count += 1;
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok((count as f64 / seconds, seconds * 1000.0 / count.max(1) as f64))
}

/// Reads the file after the kernel forgot it.
fn read(file: &File, path: &Path) -> io::Result<f64> {
    fadvise(file, 0, None, Advice::DontNeed)?;
    let mut reader = File::open(path)?;
    let mut block = vec![0; BLOCK_BYTES];
    let (begin, mut bytes) = (Instant::now(), 0);
    loop {
        match reader.read(&mut block)? {
            0 => return Ok(bytes as f64 / begin.elapsed().as_secs_f64()),
            count => bytes += count,
        }
    }
}
