//! A disk that is slow, hangs, or is frozen for a while.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use wire::codes::response;

use crate::Options;
use crate::bench::{Load, QUEUES, TOPIC, Trouble, end, home, judge, must, runs, send, setup, until};
use crate::common::disk::{FileSystem, LoopDisk, run};
use crate::common::judge::Promise;
use crate::common::load::History;
use crate::common::read;
use crate::common::server::{Server, Setup};
use crate::common::sick_disk::{SickDisk, Sickness};
use crate::common::wire_client::Connection;

const DISK_BYTES: u64 = 256 << 20;
const LINES: [&str; 4] = [
    "flushDiskType=SYNC_FLUSH",
    "mappedFileSizeCommitLog=33554432",
    "syncFlushTimeout=30",
    "flushIntervalConsumeQueue=3600000",
];
/// Times that a reader gets everything while the disk does not answer.
const PASSES: u32 = 20;
/// Duration for which a file system is frozen.
const FROZEN: Duration = Duration::from_secs(4);
/// Messages that a load stores before something happens to the disk.
const STORED: i64 = 40;

/// Sends one message; the code of the answer and how long it took.
fn timed_send(setup: &Setup) -> Result<(i32, Duration), Trouble> {
    let mut connection = Connection::open(setup.broker())?;
    let began = Instant::now();
    Ok((send(&mut connection, "Probe", 0, 1000)?.code, began.elapsed()))
}

fn succeeds(setup: &Setup) -> Result<bool, Trouble> {
    Ok(timed_send(setup)?.0 == response::SUCCESS)
}

/// Reads everything from the start [`PASSES`] times; the longest time that a pull took.
fn timed_reads(setup: &Setup) -> Result<Duration, Trouble> {
    let mut connection = Connection::open(setup.broker())?;
    let mut longest = Duration::ZERO;
    for queue in (0..PASSES).flat_map(|_| 0..QUEUES) {
        let began = Instant::now();
        read::page(&mut connection, TOPIC, queue, 0)?;
        longest = longest.max(began.elapsed());
    }
    Ok(longest)
}

/// Makes the topic and the group of what follows; on a slow disk the send may be answered 10.
fn prime(setup: &Setup) -> Result<(), Trouble> {
    timed_send(setup)?;
    let mut connection = Connection::open(setup.broker())?;
    read::drain(&mut connection, TOPIC, &[0; QUEUES], |_| {})?;
    Ok(())
}

/// Waits until a load has stored some messages, whatever its sends are answered.
fn await_stored(setup: &Setup) -> Result<(), Trouble> {
    let mut connection = Connection::open(setup.broker())?;
    until("messages are stored", || {
        let ends: std::io::Result<Vec<i64>> =
            (0..QUEUES).map(|queue| Ok(read::page(&mut connection, TOPIC, queue, 0)?.max)).collect();
        Ok(ends?.iter().sum::<i64>() >= STORED)
    })?;
    Ok(())
}

/// A little load, so that there is something to read; what it sent.
fn warm(setup: &Setup) -> Result<Vec<History>, Trouble> {
    let load = Load::start(setup, 0, 8);
    await_stored(setup)?;
    let histories = load.stop();
    prime(setup)?;
    Ok(histories)
}

/// Judges after a crash: what was acknowledged is there, whatever the disk did.
fn after(setup: &Setup, server: Server, histories: Vec<History>) -> Result<String, Trouble> {
    server.kill9();
    let server = setup.start()?;
    let counts = judge(&server, histories, Promise::Everything)?;
    end(server)?;
    Ok(counts)
}

/// Every write takes 50 ms.
pub fn slow(options: &Options) -> Result<String, Trouble> {
    let home = home()?;
    let sickness = Sickness::Slow { write_ms: 50 };
    let disk = SickDisk::new(home.path(), DISK_BYTES, sickness).map_err(Trouble::Impossible)?;
    let lines: Vec<&str> = LINES
        .into_iter()
        .map(|line| if line.starts_with("mapped") { "mappedFileSizeCommitLog=1048576" } else { line })
        .collect();
    let setup = setup(options, disk.path(), home.path(), &lines);
    let mut server = setup.start()?;
    let histories = warm(&setup)?;
    let (code, took) = timed_send(&setup)?;
    must(code == response::FLUSH_DISK_TIMEOUT, || {
        format!("a send is answered {code} after {took:?}, expected 10")
    })?;
    let longest = timed_reads(&setup)?;
    runs(&mut server)?;
    let counts = after(&setup, server, histories)?;
    Ok(format!(
        "a send is answered 10 after {took:?}, {PASSES} x {QUEUES} pulls took {longest:?} at most; {counts}"
    ))
}

/// Maps all files below a directory into locked memory, which the kernel then reclaims from no one: a page that it took would
/// have to come from the disk.
fn lock_in_memory(directory: &Path) -> io::Result<Vec<MmapRaw>> {
    let mut locked = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            locked.extend(lock_in_memory(&path)?);
        } else if metadata.len() > 0 {
            let mapped = MmapOptions::new().map_raw_read_only(&File::open(&path)?)?;
            mapped.lock()?;
            locked.push(mapped);
        }
    }
    Ok(locked)
}

/// The disk does not answer for a while.
pub fn hanging(options: &Options) -> Result<String, Trouble> {
    let home = home()?;
    let sickness = Sickness::Errors { writes_percent: 0 };
    let disk = SickDisk::new(home.path(), DISK_BYTES, sickness).map_err(Trouble::Impossible)?;
    let setup = setup(options, disk.path(), home.path(), &LINES);
    let mut server = setup.start()?;
    let histories = warm(&setup)?;
    let locked = lock_in_memory(disk.path())?;
    disk.hang(true);
    let answers = (0..5).map(|_| timed_send(&setup)).collect::<Result<Vec<_>, _>>();
    // Pulls that wait for the disk never end.
    let longest = timed_reads(&setup);
    disk.hang(false);
    let (answers, longest) = (answers?, longest?);
    let codes: Vec<i32> = answers.iter().map(|answer| answer.0).collect();
    let all = codes.iter().all(|code| *code == response::FLUSH_DISK_TIMEOUT);
    must(all, || format!("sends to a hanging disk are answered {codes:?}, expected 10"))?;
    drop(locked);
    until("a send succeeds when the disk answers again", || succeeds(&setup))?;
    runs(&mut server)?;
    let counts = after(&setup, server, histories)?;
    Ok(format!(
        "sends are answered {codes:?}, {PASSES} x {QUEUES} pulls took {longest:?} at most, then sends succeed; {counts}"
    ))
}

/// The file system is frozen for a while: writers stand still in the kernel.
pub fn frozen(options: &Options) -> Result<String, Trouble> {
    let home = home()?;
    let disk = LoopDisk::new(home.path(), FileSystem::Ext4, DISK_BYTES).map_err(Trouble::Impossible)?;
    let setup = setup(options, disk.path(), home.path(), &LINES);
    let mut server = setup.start()?;
    timed_send(&setup)?;
    let load = Load::start(&setup, 0, 8);
    await_stored(&setup)?;
    run(Command::new("fsfreeze").arg("-f").arg(disk.path())).map_err(Trouble::Impossible)?;
    std::thread::sleep(FROZEN);
    run(Command::new("fsfreeze").arg("-u").arg(disk.path()))?;
    let recovered = until("a send succeeds after the thaw", || succeeds(&setup))?;
    let histories = load.stop();
    runs(&mut server)?;
    let counts = after(&setup, server, histories)?;
    Ok(format!("frozen for {FROZEN:?}, a send succeeds {recovered:?} after the thaw; {counts}"))
}
