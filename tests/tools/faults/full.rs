//! A disk that is full, and then is not.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use wire::codes::{request, response};

use crate::Options;
use crate::bench::{
    Load, QUEUES, TOPIC, Trouble, answered, create, end, home, judge, must, prime, runs, setup, until,
};
use crate::common::disk::{FileSystem, LoopDisk, run};
use crate::common::judge::Promise;
use crate::common::read;
use crate::common::server::{Server, Setup};
use crate::common::wire_client::Connection;

const DISK_BYTES: u64 = 256 << 20;
/// Space set free at the end.
const BALLAST_BYTES: u64 = 96 << 20;
const LINES: [&str; 5] = [
    "mappedFileSizeCommitLog=4194304",
    "mappedFileSizeConsumeQueue=20000",
    "flushIntervalConsumeQueue=100",
    // Nothing goes that the group of the judge has not consumed; sends are refused instead.
    "unconsumedDataPolicy=REJECT",
    // What it has consumed must be on the disk before that is full.
    "flushConsumerOffsetInterval=100",
];

/// A full ext4 of 256 MB.
pub fn ext4(options: &Options) -> Result<String, Trouble> {
    let home = home()?;
    let disk = LoopDisk::new(home.path(), FileSystem::Ext4, DISK_BYTES).map_err(Trouble::Impossible)?;
    fill(&setup(options, disk.path(), home.path(), &LINES), disk.path())
}

/// A full tmpfs of 256 MB.
pub fn tmpfs(options: &Options) -> Result<String, Trouble> {
    let home = home()?;
    let memory = Memory::new(&home.path().join("mount")).map_err(Trouble::Impossible)?;
    fill(&setup(options, &memory.0, home.path(), &LINES), &memory.0)
}

/// A tmpfs; unmounted when dropped.
struct Memory(PathBuf);

impl Memory {
    fn new(mount: &Path) -> Result<Self, String> {
        fs::create_dir_all(mount).map_err(|error| error.to_string())?;
        let size = format!("size={DISK_BYTES}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(mount))?;
        Ok(Self(mount.to_owned()))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Nothing to be done about errors here.
        let _ = run(Command::new("umount").arg(&self.0));
    }
}

/// Writes `bytes` of ballast, or as much as there is space for.
fn ballast(path: &Path, bytes: u64) -> Result<(), Trouble> {
    let mut file = File::create(path)?;
    let mut left = bytes;
    // Smaller and smaller blocks, until not one byte fits.
    for size in [1 << 16, 4096, 1] {
        let block = vec![7; size as usize];
        while left >= size && file.write_all(&block).is_ok() {
            left -= size;
        }
        // What memory took may be refused by the disk; what is refused is no space either.
        let _ = file.sync_all();
    }
    // Without space there is nothing to flush that matters.
    let _ = file.sync_all();
    Ok(())
}

fn is_full(setup: &Setup) -> Result<bool, Trouble> {
    let (code, remark) = answered(setup)?;
    let known =
        code == response::SUCCESS || (code == response::SERVICE_NOT_AVAILABLE && remark.contains("disk"));
    must(known, || format!("a send is answered {code} {remark}, expected 14 and that the disk is full"))?;
    Ok(code != response::SUCCESS)
}

/// Says that the group of the judge has consumed nothing yet.
fn keep_all(setup: &Setup) -> Result<(), Trouble> {
    let mut connection = Connection::open(setup.broker())?;
    for queue in 0..QUEUES {
        let answer = connection.call(
            request::UPDATE_CONSUMER_OFFSET,
            |writer| {
                writer
                    .text("consumerGroup", "CG-judge")
                    .text("topic", TOPIC)
                    .number("queueId", queue)
                    .number("commitOffset", 0)
            },
            &[],
        );
        must(answer.code == 0, || format!("an offset is not taken: {answer:?}"))?;
    }
    Ok(())
}

/// Fills by sends, then completely, ends the server in the middle of it, sets space free.
fn fill(setup: &Setup, mount: &Path) -> Result<String, Trouble> {
    let (first, second) = (mount.join("ballast"), mount.join("ballast-2"));
    ballast(&first, BALLAST_BYTES)?;
    let mut server = setup.start()?;
    prime(setup)?;
    let load = Load::start(setup, 0, 32);
    load.go_on(0)?;
    keep_all(setup)?;
    until("the disk is full", || is_full(setup))?;
    // The rest of it, so that not even a queue file has space.
    ballast(&second, DISK_BYTES)?;
    must(is_full(setup)?, || "a send to a disk without a free block succeeds".to_owned())?;
    let (_, remark) = answered(setup)?;
    let mut connection = Connection::open(setup.broker())?;
    let consumed = read::drain(&mut connection, TOPIC, &[0; QUEUES], |_| {})?;
    must(consumed.iter().any(|end| *end > 0), || "nothing can be consumed from a full disk".to_owned())?;
    let histories = load.stop();
    runs(&mut server)?;
    // A crash in this state: the store must open without any space.
    server.kill9();
    let mut server = setup.start()?;
    let counts = judge(&server, histories, Promise::Everything)?;
    fs::remove_file(&first)?;
    fs::remove_file(&second)?;
    let recovered = until("sends succeed again", || Ok(!is_full(setup)?))?;
    let load = Load::start(setup, 1, 8);
    load.go_on(100 << 10)?;
    load.stop();
    runs(&mut server)?;
    end(server)?;
    Ok(format!("{counts}; sends succeed {recovered:?} after space was set free; refused with: {remark}"))
}

fn exists(server: &Server, topic: &str) -> Result<bool, Trouble> {
    let mut connection = Connection::open(server.setup().namesrv())?;
    let answer = connection.call(request::GET_ROUTEINFO_BY_TOPIC, |writer| writer.text("topic", topic), &[]);
    Ok(answer.code == response::SUCCESS)
}

/// Topics and groups while there is no space: what was there before stays, what was not saved was not answered.
pub fn config(options: &Options) -> Result<String, Trouble> {
    let home = home()?;
    let disk = LoopDisk::new(home.path(), FileSystem::Ext4, 64 << 20).map_err(Trouble::Impossible)?;
    let setup = setup(options, disk.path(), home.path(), &["mappedFileSizeCommitLog=1048576"]);
    let server = setup.start()?;
    for number in 0..50 {
        must(create(&setup, &format!("Before{number}"))? == 0, || "a topic cannot be created".to_owned())?;
    }
    let full = disk.path().join("ballast");
    ballast(&full, DISK_BYTES)?;
    let mut answers = Vec::new();
    for number in 0..50 {
        answers.push(create(&setup, &format!("While{number}"))?);
    }
    server.kill9();
    let mut server = setup.start()?;
    until("the first topic is there after a crash", || exists(&server, "Before0"))?;
    for (number, answer) in answers.iter().enumerate() {
        must(exists(&server, &format!("Before{number}"))?, || format!("the topic Before{number} is lost"))?;
        let created = *answer == 0;
        let there = exists(&server, &format!("While{number}"))?;
        must(there || !created, || format!("While{number} was created and is lost"))?;
    }
    fs::remove_file(&full)?;
    until("topics can be created again", || Ok(create(&setup, "After")? == 0))?;
    runs(&mut server)?;
    end(server)?;
    let refused = answers.iter().filter(|code| **code != 0).count();
    must(refused > 0, || "every topic was created on a full disk: this shows nothing".to_owned())?;
    Ok(format!("50 topics stay, {refused} of 50 refused while there was no space, created again afterwards"))
}
