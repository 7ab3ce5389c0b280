//! `vostok lab selftest`: measures what this machine can do alone, the limits with which reports compare a run.
//!
//! Disk: sequential writes and reads that bypass the page cache, flushes into preallocated space, and random writes per
//! second. Network: round trips and bytes over loopback. Lab: 1 KiB messages that one core sends to the echo server.
//! Processor: CRC32. Each part takes a second or two.

mod disk;
mod network;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::archive::Roofline;
use crate::echo::{Echo, EchoOptions};
use crate::generator::{Generator, Workload};
use crate::output::{self, say};
use crate::runtime;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes and time of the self-test before a run.
const SHORT: (u64, Duration) = (256 << 20, Duration::from_secs(1));

/// Prints the figures of a self-test, for people or as JSON.
pub fn print(roofline: &Roofline, as_json: bool) {
    if as_json {
        output::raw(&serde_json::to_string_pretty(roofline).expect("numbers become JSON"));
        return;
    }
    let mega = |bytes: f64| bytes / 1e6;
    say!("disk, sequential write    {:>12.0} MB/s", mega(roofline.disk_write_bytes));
    say!("disk, sequential read     {:>12.0} MB/s", mega(roofline.disk_read_bytes));
    say!("disk, flushes of 4 KiB    {:>12.0} /s", roofline.disk_flushes);
    say!("disk, one such write      {:>12.3} ms", roofline.disk_write_await_ms);
    say!("disk, scattered writes    {:>12.0} /s", roofline.disk_random_writes);
    say!("loopback                  {:>12.0} MB/s", mega(roofline.net_bytes));
    say!("loopback, round trips     {:>12.0} /s", roofline.net_round_trips);
    say!("lab, 1 KiB, one core      {:>12.0} messages/s", roofline.lab_messages);
    say!("CRC32, one core           {:>12.0} MB/s", mega(roofline.cpu_crc_bytes));
}

/// Measures every limit within a few seconds, as before a run.
///
/// # Errors
/// Errors of [`measure`].
pub fn short(directory: &Path) -> Result<Roofline, Error> {
    measure(directory, SHORT.0, SHORT.1)
}

/// Measures every limit for about `time` each. `bytes` of the directory's disk are used and freed again. Without a
/// directory the disk is not measured, and its figures are 0.
///
/// # Errors
/// [`Error::File`] or [`Error::System`] when the directory cannot be written, or sockets and threads cannot be created.
pub fn measure(directory: &Path, bytes: u64, time: Duration) -> Result<Roofline, Error> {
    let has_disk = !directory.as_os_str().is_empty();
    let disk = if has_disk { disk::measure(directory, bytes, time)? } else { disk::Disk::default() };
    let (net_round_trips, net_bytes) = network::measure(time)?;
    Ok(Roofline {
        disk_write_bytes: disk.written,
        disk_read_bytes: disk.read,
        disk_flushes: disk.flushes,
        disk_write_await_ms: disk.await_ms,
        disk_random_writes: disk.random_writes,
        net_bytes,
        net_round_trips,
        lab_messages: lab(time)?,
        cpu_crc_bytes: crc(time),
    })
}

/// Messages per second and core that the generator sends to the echo server, by its own processor time, because the
/// echo may use the same core.
fn lab(time: Duration) -> Result<f64, Error> {
    let options = EchoOptions::local(8);
    let echo = Echo::bind(&options)?;
    let address = echo.address().map_err(Error::system("read the echo's address"))?;
    let served = std::thread::Builder::new().name("echo".to_owned()).spawn(move || {
        // The echo serves until the process ends.
        let _ = echo.serve();
    });
    served.map_err(Error::system("start the echo"))?;
    runtime::block_on(async {
        let workload = Workload { namesrv: address.to_string(), threads: 200, ..Workload::default() };
        let mut generator = Generator::start(&workload).await?;
        tokio::time::sleep(time / 4).await;
        generator.take();
        tokio::time::sleep(time).await;
        let sample = generator.take();
        generator.stop().await;
        Ok(sample.sent as f64 * 1000.0 / sample.lasted_ms as f64)
    })
}

fn crc(time: Duration) -> f64 {
    let block = vec![0x5a_u8; 64 << 10];
    let (begin, mut bytes) = (Instant::now(), 0_u64);
    while begin.elapsed() < time / 4 {
        for _ in 0..64 {
            black_box(crc32fast::hash(black_box(&block)));
            bytes += block.len() as u64;
        }
    }
    bytes as f64 / begin.elapsed().as_secs_f64()
}
