//! Power cuts under load, with a random part of the unwritten pages on the disk all the same.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::judge::{Judge, Promise};
use crate::common::os;
use crate::common::random::Random;
use crate::common::server::{Server, Setup};
use crate::disk::{LoopDisk, keep_some_pages};
use crate::later::Later;
use crate::round::{Load, QUEUES, create_topic, describe, settle, spread};
use crate::{Options, Tally};

/// Cuts of one store, before a new one with other settings begins.
const CUTS_PER_STORE: u64 = 20;
/// `flushIntervalCommitLog` of the stores with async flush.
const FLUSH_INTERVAL: Duration = Duration::from_millis(100);
/// What one flush of the tests' load may take on top of it.
const FLUSH_ALLOWANCE: Duration = Duration::from_millis(400);
/// Cuts after which a planted bug must have been noticed.
const PLANTED_CUTS: u64 = 4;

const SYNC: &str = "flushDiskType=SYNC_FLUSH";
/// Files so small that they roll within a round.
const SMALL_LOG: &str = "mappedFileSizeCommitLog=8388608";
const SMALL_QUEUES: &str = "mappedFileSizeConsumeQueue=20000";
const ASYNC: &str = "flushDiskType=ASYNC_FLUSH";
const OFTEN: &str = "flushIntervalCommitLog=100";

/// A kind of store, and the bug of the test that is planted in it.
#[derive(Clone, Copy, Debug)]
struct Kind {
    lines: &'static [&'static str],
    sync: bool,
    planted: Planted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// Messages count as acknowledged when they are written to the socket.
    EarlyAcknowledgement,
    /// The server answers before it flushed, and is judged as if it had flushed.
    UnflushedAcknowledgement,
}

const KINDS: [Kind; 4] = [
    Kind { lines: &[SYNC, SMALL_LOG, SMALL_QUEUES], sync: true, planted: Planted::Nothing },
    Kind { lines: &[SYNC, "mappedFileSizeCommitLog=134217728"], sync: true, planted: Planted::Nothing },
    Kind { lines: &[ASYNC, OFTEN, SMALL_LOG, SMALL_QUEUES], sync: false, planted: Planted::Nothing },
    Kind { lines: &[SYNC], sync: true, planted: Planted::Nothing },
];

const PLANTED: [Kind; 2] = [
    Kind { lines: &[SYNC], sync: true, planted: Planted::EarlyAcknowledgement },
    Kind { lines: &[ASYNC], sync: true, planted: Planted::UnflushedAcknowledgement },
];

/// Runs the planted bugs, then all cuts.
pub fn run(options: &Options) -> Tally {
    println!("powercut: {} cuts, seed {}", options.rounds, options.seed);
    let mut tally = Tally::default();
    if let Err(why) = possible() {
        println!("SKIPPED, LOUDLY: no power cuts on this machine, sync flush is NOT shown here: {why}");
        tally.skipped = options.rounds + PLANTED.len() as u64;
        return tally;
    }
    for kind in PLANTED {
        let caught = Life::new(options, kind, 0).and_then(|mut life| life.run(PLANTED_CUTS));
        match caught {
            Ok(passed) if passed < PLANTED_CUTS => {
                println!("powercut: planted {:?}: noticed in {} cuts", kind.planted, PLANTED_CUTS - passed);
                tally.passed += 1;
            }
            Ok(_) => {
                println!("FAILED: planted {:?} was not noticed in {PLANTED_CUTS} cuts", kind.planted);
                tally.failed += 1;
            }
            Err(error) => {
                println!("FAILED: planted {:?}: {error}", kind.planted);
                tally.failed += 1;
            }
        }
    }
    let per_store = CUTS_PER_STORE.min(options.rounds.div_ceil(KINDS.len() as u64));
    let mut done = 0;
    for kind in KINDS.iter().cycle() {
        let cuts = per_store.min(options.rounds - done);
        if cuts == 0 {
            break;
        }
        match Life::new(options, *kind, done).and_then(|mut life| life.run(cuts)) {
            Ok(passed) => {
                tally.passed += passed;
                tally.failed += cuts - passed;
            }
            Err(error) => {
                println!("FAILED {kind:?} seed {}: {error}", options.seed);
                tally.failed += cuts;
            }
        }
        done += cuts;
    }
    tally
}

/// Whether the power of a loop disk can be cut here: tries it.
fn possible() -> Result<(), String> {
    let home = tempfile::tempdir_in("target").map_err(|error| error.to_string())?;
    let mut disk = LoopDisk::new(home.path())?;
    let (synced, lost) = (disk.path().join("synced"), disk.path().join("lost"));
    let write = |path: &std::path::Path, sync: bool| -> io::Result<()> {
        use std::io::Write;
        let mut file = std::fs::File::create(path)?;
        file.write_all(b"content")?;
        if sync { file.sync_all() } else { Ok(()) }
    };
    write(&synced, true).and_then(|()| write(&lost, false)).map_err(|error| error.to_string())?;
    disk.cut().map_err(|error| format!("the ioctl that cuts the power: {error}"))?;
    disk.power_up()?;
    let there = |path| std::fs::read(path).is_ok_and(|content| content == b"content");
    if !there(&synced) {
        return Err("a flushed file did not survive a cut".to_owned());
    }
    if there(&lost) {
        return Err("a file that was not flushed survived a cut".to_owned());
    }
    Ok(())
}

/// One store on one disk, and what is known of it.
struct Life {
    kind: Kind,
    setup: Setup,
    random: Random,
    judge: Judge,
    later: Later,
    first: u64,
    restarts: Vec<Duration>,
    // Dropped in this order: the file system is unmounted before its image is removed.
    disk: LoopDisk,
    _home: tempfile::TempDir,
}

impl Life {
    fn new(options: &Options, kind: Kind, first: u64) -> io::Result<Self> {
        let home = tempfile::tempdir_in("target")?;
        let disk = LoopDisk::new(home.path()).map_err(io::Error::other)?;
        let mut setup = Setup::new(&options.binary, disk.path().join("data"), home.path().join("desk"));
        setup.lines.extend(kind.lines.iter().map(|line| (*line).to_owned()));
        Ok(Self {
            kind,
            setup,
            random: Random::new(options.seed.wrapping_add(first)),
            judge: Judge::new(QUEUES),
            later: Later::default(),
            first,
            restarts: Vec::new(),
            disk,
            _home: home,
        })
    }

    /// Runs `cuts`; after how many of them everything was as promised.
    fn run(&mut self, cuts: u64) -> io::Result<u64> {
        let mut server = self.setup.start()?;
        create_topic(&server)?;
        let mut passed = 0;
        for round in self.first..self.first + cuts {
            let before = self.judge.violations().0;
            server = self.cut(server, round)?;
            passed += u64::from(self.judge.violations().0 == before);
        }
        let (wrong, delayed) = self.later.check(&server)?;
        if !wrong.is_empty() {
            passed = passed.min(cuts - 1);
        }
        server.kill9();
        self.report(cuts, &wrong, &delayed);
        Ok(passed)
    }

    fn cut(&mut self, server: Server, round: u64) -> io::Result<Server> {
        let early = self.kind.planted == Planted::EarlyAcknowledgement;
        let load = Load::start(&self.setup, &mut self.random, round, self.judge.ends(), early);
        if self.kind.sync && self.kind.planted == Planted::Nothing {
            self.later.start(self.setup.broker());
        }
        sleep(Duration::from_micros(self.random.within(20_000, 500_000)));
        // Half of the cuts find a process that stands still, so that the pages kept are exactly those chosen.
        let stopped = self.random.one_in(2);
        if stopped {
            os::signal(server.pid(), os::SIGSTOP)?;
        }
        let stood = Instant::now();
        let tenths = [0, 2, 5, 9][self.random.within(0, 4) as usize];
        if self.kind.planted == Planted::Nothing {
            keep_some_pages(&self.setup.data, load.log_end(), tenths, &mut self.random)?;
        }
        let cut = if stopped { stood } else { Instant::now() };
        self.disk.cut()?;
        if !stopped {
            // What the server answers now must be true all the same.
            sleep(Duration::from_millis(self.random.within(0, 20)));
        }
        server.kill9();
        self.later.finish();
        let result = load.join();
        self.disk.power_up().map_err(io::Error::other)?;
        let server = self.setup.start()?;
        self.restarts.push(server.ready_after);
        let promise = if self.kind.sync {
            Promise::Everything
        } else {
            Promise::AllButTheEnd { cut, window: FLUSH_INTERVAL + FLUSH_ALLOWANCE }
        };
        settle(&mut self.judge, &server, result, &[0; QUEUES], promise)?;
        Ok(server)
    }

    fn report(&mut self, cuts: u64, wrong: &[String], delayed: &str) {
        let (violations, texts) = self.judge.violations();
        println!(
            "powercut: {cuts} cuts {:?}: {}; {delayed}; restart to serving {}; {violations} violations",
            self.kind.lines,
            describe(self.judge.counts()),
            spread(&mut self.restarts),
        );
        if self.kind.planted == Planted::Nothing {
            for text in wrong.iter().chain(texts) {
                println!("  {text}");
            }
        }
    }
}
