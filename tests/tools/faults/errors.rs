//! A disk that answers errors.

use std::time::Instant;

use wire::codes::response;

use crate::Options;
use crate::bench::{
    Load, QUEUES, TOPIC, Trouble, answered, end, home, judge, must, prime, runs, send, setup, until,
};
use crate::common::judge::{Cut, Promise};
use crate::common::read;
use crate::common::server::{Server, Setup, has_planted_bugs};
use crate::common::sick_disk::{SickDisk, Sickness};
use crate::common::wire_client::{Connection, pull_header};

const DISK_BYTES: u64 = 512 << 20;
const SYNC: [&str; 4] = [
    "flushDiskType=SYNC_FLUSH",
    "mappedFileSizeCommitLog=16777216",
    "flushIntervalConsumeQueue=3600000",
    "syncFlushTimeout=300000",
];
const ASYNC: [&str; 3] =
    ["flushDiskType=ASYNC_FLUSH", "mappedFileSizeCommitLog=16777216", "flushIntervalCommitLog=100"];
/// Bytes of the log that a load fills before something happens to the disk.
const LOAD_BYTES: u64 = 256 << 10;

/// Waits for the fence; what it says.
fn fenced(setup: &Setup) -> Result<String, Trouble> {
    let mut said = String::new();
    until("the store is fenced", || {
        let (code, remark) = answered(setup)?;
        let known = [response::SUCCESS, response::SERVICE_NOT_AVAILABLE].contains(&code);
        must(known, || format!("a send is answered {code} {remark}"))?;
        said = remark;
        Ok(code == response::SERVICE_NOT_AVAILABLE && said.contains("fenced"))
    })?;
    // After an error of its journal ext4 is read-only, and the next write of the store may come before the flush that fails.
    let is_said = ["Input/output error", "Read-only file system"].iter().any(|why| said.contains(why));
    must(is_said, || format!("the refusal does not say why: {said}"))?;
    Ok(said)
}

/// Load, errors of writes, fence, restart on a healthy disk; what was seen.
fn write_errors(options: &Options, lines: &[&str], promise: fn(Cut) -> Promise) -> Result<String, Trouble> {
    let home = home()?;
    let sickness = Sickness::Errors { writes_percent: 100 };
    let disk = SickDisk::new(home.path(), DISK_BYTES, sickness).map_err(Trouble::Impossible)?;
    let setup = setup(options, disk.path(), home.path(), lines);
    let mut server = setup.start()?;
    prime(&setup)?;
    let load = Load::start(&setup, 0, 16);
    load.go_on(LOAD_BYTES)?;
    let flushed = read::flushed(&mut Connection::open(setup.broker())?)?.0;
    disk.fail_writes(true);
    let broken = Cut { at: Instant::now(), flushed };
    let said = fenced(&setup)?;
    let histories = load.stop();
    let mut connection = Connection::open(setup.broker())?;
    let there = read::drain(&mut connection, TOPIC, &[0; QUEUES], |_| {})?;
    must(there.iter().any(|end| *end > 0), || "a fenced store does not serve consumers".to_owned())?;
    disk.fail_writes(false);
    let (code, remark) = answered(&setup)?;
    must(code == response::SERVICE_NOT_AVAILABLE, || {
        format!("a send is answered {code} {remark} because the disk works again: the flush was retried")
    })?;
    runs(&mut server)?;
    end(server)?;
    let disk = disk.healed()?;
    let server = setup.start()?;
    let counts = judge(&server, histories, promise(broken))?;
    must(answered(&setup)?.0 == response::SUCCESS, || {
        "no send after a restart on a healthy disk".to_owned()
    })?;
    end(server)?;
    drop(disk);
    Ok(format!("{counts}; fenced, consumers served, not retried; after a restart sends go on; said: {said}"))
}

/// The flush that answers wait for fails.
pub fn of_a_flush(options: &Options) -> Result<String, Trouble> {
    write_errors(options, &SYNC, |_| Promise::Everything)
}

/// The flush behind the answers fails: what came since the one before may be lost.
pub fn of_an_async_flush(options: &Options) -> Result<String, Trouble> {
    write_errors(options, &ASYNC, Promise::AllButTheEnd)
}

/// Times it is tried to have a flush fail whose second try succeeds.
const ATTEMPTS: u32 = 16;

/// The judge notices a server that tries a failed flush again.
pub fn planted_retry(options: &Options) -> Result<String, Trouble> {
    if !has_planted_bugs(&options.binary)? {
        return Err(Trouble::Impossible(format!("{} has no planted bugs", options.binary.display())));
    }
    for attempt in 1..=ATTEMPTS {
        if let Some(text) = retry(options)? {
            return Ok(format!("noticed at attempt {attempt}: {text}"));
        }
    }
    Err(Trouble::Failed(format!("a flush that is tried again is not noticed in {ATTEMPTS} attempts")))
}

/// One attempt: what the judge noticed.
fn retry(options: &Options) -> Result<Option<String>, Trouble> {
    let home = home()?;
    // Now and then a write fails: the second try of a flush finds nothing to write, and succeeds.
    let sickness = Sickness::Errors { writes_percent: 10 };
    let disk = SickDisk::new(home.path(), DISK_BYTES, sickness).map_err(Trouble::Impossible)?;
    let mut setup = setup(options, disk.path(), home.path(), &SYNC);
    setup.environment.push(("VOSTOK_PLANTED".to_owned(), "retry-flush".to_owned()));
    let server = setup.start()?;
    prime(&setup)?;
    let load = Load::start(&setup, 0, 16);
    load.go_on(LOAD_BYTES)?;
    disk.fail_writes(true);
    let reached = load.position();
    until("flushes fail", || {
        Ok(load.position() > reached + LOAD_BYTES || answered(&setup)?.0 != response::SUCCESS)
    })?;
    let histories = load.stop();
    server.kill9();
    disk.fail_writes(false);
    let disk = disk.healed()?;
    setup.environment.clear();
    let server = setup.start()?;
    let noticed = match judge(&server, histories, Promise::Everything) {
        Err(Trouble::Failed(text)) => Some(text.lines().next().unwrap_or_default().to_owned()),
        Err(impossible) => return Err(impossible),
        Ok(_) => None,
    };
    drop(server);
    drop(disk);
    Ok(noticed)
}

/// What lies on bad sectors is refused, everything else is served.
pub fn of_a_read(options: &Options) -> Result<String, Trouble> {
    let home = home()?;
    let sickness = Sickness::Errors { writes_percent: 100 };
    let mut disk = SickDisk::new(home.path(), DISK_BYTES, sickness).map_err(Trouble::Impossible)?;
    let setup = setup(options, disk.path(), home.path(), &SYNC);
    let server = setup.start()?;
    prime(&setup)?;
    let mut connection = Connection::open(setup.broker())?;
    for _ in 0..40 {
        let code = send(&mut connection, "Cold", 0, 500_000)?.code;
        must(code == response::SUCCESS, || format!("a send is answered {code}"))?;
    }
    end(server)?;
    // Out of memory with it.
    disk.remount()?;
    let mut server = setup.start()?;
    let mut connection = Connection::open(setup.broker())?;
    for _ in 0..10 {
        let code = send(&mut connection, "Warm", 1, 1000)?.code;
        must(code == response::SUCCESS, || format!("a send is answered {code}"))?;
    }
    let _ = pull(&server, "Warm", 1)?;
    disk.fail_reads(true);
    let (code, remark) = pull(&server, "Cold", 0)?;
    let refused = code != response::SUCCESS && !remark.is_empty();
    must(refused, || format!("a pull of a bad sector is answered {code} {remark:?}"))?;
    let (warm, text) = pull(&server, "Warm", 1)?;
    must(warm == response::SUCCESS, || format!("a queue in memory is answered {warm} {text}"))?;
    let sent = answered(&setup)?;
    must(sent.0 == response::SUCCESS, || format!("a send is answered {} {}", sent.0, sent.1))?;
    runs(&mut server)?;
    disk.fail_reads(false);
    until("the range is served when the disk reads it", || {
        Ok(pull(&server, "Cold", 0)?.0 == response::SUCCESS)
    })?;
    runs(&mut server)?;
    end(server)?;
    Ok(format!(
        "the range is refused ({code} {remark}), other queues and sends go on, served when it can be read"
    ))
}

fn pull(server: &Server, topic: &str, queue: i32) -> Result<(i32, String), Trouble> {
    let mut connection = Connection::open(server.setup().broker())?;
    let answer = connection.pull(&pull_header("CG", topic, queue, 0));
    Ok((answer.code, answer.remark().to_owned()))
}
