//! kill -9 at random moments, also during recovery, and a clean stop now and then.

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::common::judge::{Judge, Promise};
use crate::common::random::Random;
use crate::common::read;
use crate::common::server::{Server, Setup};
use crate::common::wire_client::Connection;
use crate::later::Later;
use crate::round::{Load, Mix, TOPIC, create_topic, describe, settle, spread};
use crate::{Options, Tally};

const QUEUES: usize = 8;
/// One request in so many does not wait for the disk.
const UNWAITED: u64 = 8;
/// Rounds on one store, before a new one with other settings begins.
const ROUNDS_PER_STORE: u64 = 40;
/// Settings of the stores in turn: RocketMQ's sizes, and files so small that they roll within a round.
const STORES: [&[&str]; 3] = [
    &[],
    &["mappedFileSizeCommitLog=8388608", "mappedFileSizeConsumeQueue=100000"],
    &["mappedFileSizeCommitLog=16777216", "flushDiskType=SYNC_FLUSH"],
];
/// Offsets that are read again after every restart although they were read before.
const OVERLAP: i64 = 64;

/// Runs all rounds.
pub fn run(options: &Options) -> Tally {
    println!("kill9: {} rounds, seed {}", options.rounds, options.seed);
    let mut tally = Tally::default();
    let mut done = 0;
    let mut store = 0;
    while done < options.rounds {
        let rounds = ROUNDS_PER_STORE.min(options.rounds - done).min(options.rounds.div_ceil(3));
        let settings = STORES[store % STORES.len()];
        match Life::new(options, settings, done).and_then(|mut life| life.run(rounds)) {
            Ok(passed) => {
                tally.passed += passed;
                tally.failed += rounds - passed;
            }
            Err(error) => {
                println!("FAILED store {store} {settings:?} seed {}: {error}", options.seed);
                tally.failed += rounds;
            }
        }
        done += rounds;
        store += 1;
    }
    tally
}

/// One store and what is known of it.
struct Life {
    setup: Setup,
    random: Random,
    judge: Judge,
    later: Later,
    first: u64,
    restarts: Vec<Duration>,
    /// Removed with the life, but for one that ended badly.
    home: tempfile::TempDir,
}

impl Life {
    fn new(options: &Options, settings: &[&str], first: u64) -> io::Result<Self> {
        let home = tempfile::tempdir_in("target")?;
        let mut setup = Setup::new(&options.binary, home.path().join("data"), home.path());
        setup.lines.extend(settings.iter().map(|line| (*line).to_owned()));
        let random = Random::new(options.seed.wrapping_add(first));
        Ok(Self {
            setup,
            random,
            judge: Judge::new(QUEUES),
            later: Later::default(),
            first,
            restarts: Vec::new(),
            home,
        })
    }

    /// Runs `rounds`; how many were without a violation.
    fn run(&mut self, rounds: u64) -> io::Result<u64> {
        let mut server = self.setup.start()?;
        create_topic(&server, QUEUES)?;
        let mut passed = 0;
        for round in self.first..self.first + rounds {
            let before = self.judge.violations().0;
            server = self.round(server, round)?;
            passed += u64::from(self.judge.violations().0 == before);
        }
        let everything = [0; QUEUES];
        let mut connection = Connection::open(server.setup().broker())?;
        let before = self.judge.violations().0;
        let ends = read::drain(&mut connection, TOPIC, &everything, |read| self.judge.read(read))?;
        self.judge.end(Promise::Everything, &ends);
        drop(connection);
        let (wrong, delayed) = self.later.check(&server)?;
        wrong.iter().for_each(|text| println!("FAILED: {text}"));
        let mut bad = !server.terminate().success() || self.judge.violations().0 != before;
        bad |= !wrong.is_empty();
        if self.judge.counts().acknowledged == 0 {
            println!("FAILED: no message was acknowledged in {rounds} rounds");
            bad = true;
        }
        self.report(rounds, &delayed);
        if bad {
            passed = passed.min(rounds - 1);
        }
        Ok(passed)
    }

    fn round(&mut self, server: Server, round: u64) -> io::Result<Server> {
        let mix = Mix { round, queues: QUEUES, unwaited: UNWAITED, pause: Duration::ZERO, early: false };
        let load = Load::start(&self.setup, &mut self.random, mix, self.judge.ends());
        self.later.start(self.setup.broker());
        load.await_position(1);
        sleep(Duration::from_micros(self.random.within(5_000, 400_000)));
        let result = if self.random.one_in(10) {
            load.stop();
            self.later.finish();
            let result = load.join();
            if !server.terminate().success() {
                return Err(io::Error::other("a clean stop ended with an error"));
            }
            result
        } else {
            server.kill9();
            self.later.finish();
            load.join()
        };
        if self.random.one_in(4) {
            self.die_while_recovering()?;
        }
        let server = self.setup.start()?;
        self.restarts.push(server.ready_after);
        let from: Vec<i64> = self.judge.ends().iter().map(|end| (end - OVERLAP).max(0)).collect();
        settle(&mut self.judge, &server, result, &from, Promise::Everything)?;
        Ok(server)
    }

    /// Kills up to three starts before they serve, or just after.
    fn die_while_recovering(&mut self) -> io::Result<()> {
        for _ in 0..self.random.within(1, 4) {
            let server = self.setup.spawn()?;
            sleep(Duration::from_micros(self.random.within(0, 30_000)));
            server.kill9();
        }
        Ok(())
    }

    fn report(&mut self, rounds: u64, delayed: &str) {
        let (violations, texts) = self.judge.violations();
        println!(
            "kill9: {rounds} rounds {:?}: {}; {delayed}; restart to serving {}; log {} MB; {violations} violations",
            self.setup.lines,
            describe(self.judge.counts()),
            spread(&mut self.restarts),
            log_megabytes(&self.setup.data),
        );
        for text in texts {
            println!("  FAILED: {text}");
        }
        if violations > 0 {
            self.home.disable_cleanup(true);
            println!("  kept: {}\n{}", self.home.path().display(), self.setup.log_tail());
        }
    }
}

fn log_megabytes(data: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(data.join("commitlog")).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|meta| meta.blocks() * 512).sum::<u64>() >> 20
}
