//! Three ways for a range of the log to reach a socket: read into the response and write it, write from a read-only
//! mapping, let the kernel send the file.
//!
//! `cargo bench -p vostok-store --bench pull_path`; docs/decisions/0002-pull-path.md holds a result.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails by panicking")]

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::time::Instant;

const FILE_BYTES: usize = 256 << 20;
const TOTAL_BYTES: usize = 2 << 30;
const HEADER: [u8; 200] = [1; 200];

fn cpu_us() -> f64 {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    usage.tv_sec as f64 * 1e6 + usage.tv_nsec as f64 / 1e3
}

/// Sends ranges of `size` bytes until enough went over; prints the sender's CPU per range.
fn measure(name: &str, size: usize, mut send: impl FnMut(&mut TcpStream, usize)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut reader = listener.accept().unwrap().0;
    let drain = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while reader.read(&mut buffer).unwrap() > 0 {}
    });
    let rounds = (TOTAL_BYTES / size).min(200_000);
    let (start, before) = (Instant::now(), cpu_us());
    for round in 0..rounds {
        send(&mut stream, (round * size) % (FILE_BYTES - size));
    }
    let cpu = (cpu_us() - before) / rounds as f64;
    let rate = (rounds * size) as f64 / start.elapsed().as_secs_f64() / 1e6;
    drop(stream);
    drain.join().unwrap();
    println!("{name:>8} {size:>7} bytes {cpu:>8.2} us CPU per answer {rate:>7.0} MB/s");
}

fn main() {
    let path = std::env::temp_dir().join(format!("vostok-pull-path-{}", std::process::id()));
    std::fs::write(&path, vec![7; FILE_BYTES]).unwrap();
    let file = File::open(&path).unwrap();
    // SAFETY: the file is ours alone and keeps its length until the mapping is gone.
    #[allow(unsafe_code, reason = "the mapping is what is measured")]
    let mapping = unsafe { memmap2::Mmap::map(&file).unwrap() };
    let mut answer = Vec::new();
    for size in [1 << 10, 36 << 10, 256 << 10] {
        for _ in 0..2 {
            measure("read", size, |stream, at| {
                answer.clear();
                answer.extend_from_slice(&HEADER);
                answer.resize(HEADER.len() + size, 0);
                file.read_exact_at(&mut answer[HEADER.len()..], at as u64).unwrap();
                stream.write_all(&answer).unwrap();
            });
            measure("mapping", size, |stream, at| {
                let mut parts = [IoSlice::new(&HEADER), IoSlice::new(&mapping[at..at + size])];
                let mut parts = &mut parts[..];
                while !parts.is_empty() {
                    let count = stream.write_vectored(parts).unwrap();
                    IoSlice::advance_slices(&mut parts, count);
                }
            });
            measure("sendfile", size, |stream, at| {
                stream.write_all(&HEADER).unwrap();
                let (mut from, end) = (at as u64, (at + size) as u64);
                while from < end {
                    let left = (end - from) as usize;
                    rustix::fs::sendfile(&*stream, &file, Some(&mut from), left).unwrap();
                }
            });
        }
    }
    std::fs::remove_file(&path).unwrap();
}
