//! One store whose power is cut again and again, and what is known of it.

use std::fs;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::common::disk::{LoopDisk, keep_some_pages};
use crate::common::judge::{Cut, Judge, Promise};
use crate::common::os;
use crate::common::random::Random;
use crate::common::read;
use crate::common::server::{Server, Setup};
use crate::common::wire_client::Connection;
use crate::derived;
use crate::kind::{Kind, Planted};
use crate::later::Later;
use crate::round::{Load, Mix, TOPIC, create_topic, describe, settle, spread};

/// Bytes of the log that are acknowledged before a cut that has to bring a planted bug to light.
const PLANTED_BYTES: u64 = 256 << 10;
/// Pause of gentle producers.
const PAUSE: Duration = Duration::from_millis(10);
/// One request in so many does not wait for the disk.
const UNWAITED: u64 = 8;
/// Offsets that are read again after every cut although they were read before.
const OVERLAP: i64 = 32;
/// The server is cut off this often in a row while it starts.
const CUTS_OF_A_START: u64 = 3;

/// One store on a disk.
pub struct Life<'a> {
    kind: Kind,
    setup: Setup,
    random: Random,
    judge: Judge,
    later: Later,
    disk: &'a mut LoopDisk,
    restarts: Vec<Duration>,
    recovery_cuts: u64,
    rebuilds: u64,
    /// Violations beside the judge's.
    wrong: Vec<String>,
}

/// What a life came to.
pub struct Outcome {
    /// Cuts after which everything was as promised.
    pub passed: u64,
    /// Cuts, with those of a starting server.
    pub cuts: u64,
    pub text: String,
    pub violations: Vec<String>,
}

impl<'a> Life<'a> {
    /// A new store on an emptied `disk`, with everything else in `desk`.
    pub fn new(binary: &Path, kind: Kind, disk: &'a mut LoopDisk, desk: &Path) -> io::Result<Self> {
        let data = disk.path().join("data");
        let _ = fs::remove_dir_all(disk.path().join("aside"));
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        fs::create_dir_all(desk)?;
        let _ = fs::remove_file(desk.join("server.log"));
        let mut setup = Setup::new(binary, data, desk);
        setup.lines.extend(kind.lines());
        if let Planted::Server(bug) = kind.planted {
            setup.environment.push(("VOSTOK_PLANTED".to_owned(), bug.to_owned()));
        }
        Ok(Self {
            setup,
            random: Random::new(kind.seed),
            judge: Judge::new(kind.queues),
            later: Later::default(),
            disk,
            restarts: Vec::new(),
            recovery_cuts: 0,
            rebuilds: 0,
            wrong: Vec::new(),
            kind,
        })
    }

    /// Runs `cuts`, or fewer when `enough` violations are known.
    pub fn run(&mut self, cuts: u64, enough: u64) -> io::Result<Outcome> {
        let mut server = self.setup.start()?;
        create_topic(&server, self.kind.queues)?;
        let mut passed = 0;
        let mut done = 0;
        for round in 0..cuts {
            done = round + 1;
            let before = self.violations();
            let last = round + 1 == cuts;
            server = self.cut(server, round, last)?;
            if self.kind.planted != Planted::EarlyAcknowledgement && (last || self.random.one_in(8)) {
                server = self.rebuild(server)?;
            }
            passed += u64::from(self.violations() == before);
            if self.violations() >= enough {
                break;
            }
        }
        let (wrong, delayed) = self.later.check(&server)?;
        let before = self.violations();
        self.wrong.extend(wrong);
        if self.judge.counts().acknowledged == 0 {
            self.wrong.push("no message was acknowledged".to_owned());
        }
        if self.kind.planted == Planted::Nothing {
            self.await_flush()?;
        }
        if self.violations() > before {
            passed = passed.min(cuts - 1);
        }
        server.kill9();
        let text = format!(
            "{}: {done} cuts, {} more of starts, {} rebuilds compared: {}; {delayed}; restart {}",
            self.kind,
            self.recovery_cuts,
            self.rebuilds,
            describe(self.judge.counts()),
            spread(&mut self.restarts),
        );
        let violations = self.wrong.iter().chain(self.judge.violations().1).cloned().collect();
        Ok(Outcome { passed, cuts: done + self.recovery_cuts, text, violations })
    }

    /// Waits until everything that was stored is on the disk, which no sender may wait for.
    fn await_flush(&mut self) -> io::Result<()> {
        let (mut connection, began) = (Connection::open(self.setup.broker())?, Instant::now());
        let end = read::flushed(&mut connection)?.1;
        while read::flushed(&mut connection)?.0 < end {
            if began.elapsed() > PATIENCE {
                self.wrong.push(format!("P1 the log is not on the disk up to {end} after {PATIENCE:?}"));
                break;
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn violations(&self) -> u64 {
        self.judge.violations().0 + self.wrong.len() as u64
    }

    /// The end of what its servers printed.
    pub fn log_tail(&self) -> String {
        self.setup.log_tail()
    }

    /// Copies the store for whoever looks into a failure.
    pub fn keep(&self, place: &Path) -> Result<String, String> {
        let copy = ["-a", "--sparse=always"];
        fs::create_dir_all(place).map_err(|error| error.to_string())?;
        for source in [&self.setup.data, &self.setup.log()] {
            let mut command = std::process::Command::new("cp");
            crate::common::disk::run(command.args(copy).arg(source).arg(place))?;
        }
        Ok(place.display().to_string())
    }

    fn cut(&mut self, server: Server, round: u64, last: bool) -> io::Result<Server> {
        let honest = self.kind.planted == Planted::Nothing;
        let early = self.kind.planted == Planted::EarlyAcknowledgement;
        let unwaited = if honest { UNWAITED } else { 0 };
        let pause = if self.kind.gentle { PAUSE } else { Duration::ZERO };
        let mix = Mix { round, queues: self.kind.queues, unwaited, pause, early };
        let load = Load::start(&self.setup, &mut self.random, mix, self.judge.ends());
        if self.kind.delayed {
            self.later.start(self.setup.broker());
        }
        let longest = if honest { self.random.one_of(&[3, 30, 100, 400]) } else { 300 };
        sleep(Duration::from_micros(self.random.within(1_000, longest * 1_000)));
        if last || !honest {
            load.await_position(1);
        }
        if !honest {
            load.await_position(load.log_end() + PLANTED_BYTES);
        }
        let at = self.power_off(server, load.log_end())?;
        let cut = Cut { at, flushed: load.flushed() };
        self.later.finish();
        let result = load.join();
        self.disk.power_up().map_err(io::Error::other)?;
        if honest && self.random.one_in(4) {
            for _ in 0..CUTS_OF_A_START {
                self.cut_a_start()?;
            }
        }
        let server = self.setup.start()?;
        self.restarts.push(server.ready_after);
        let promise = if self.kind.sync { Promise::Waited(cut) } else { Promise::AllButTheEnd(cut) };
        // Everything is read again now and then; most of it was settled long before.
        let everything = last || self.random.one_in(8);
        let again = |end: &i64| if everything { 0 } else { (end - OVERLAP).max(0) };
        let from: Vec<i64> = self.judge.ends().iter().map(again).collect();
        settle(&mut self.judge, &server, result, &from, promise)?;
        Ok(server)
    }

    /// Cuts the power of a running server and ends it; when the power went away.
    fn power_off(&mut self, server: Server, log_end: u64) -> io::Result<Instant> {
        // Half of the cuts find a process that stands still, so that the pages kept are exactly those chosen.
        let stopped = self.random.one_in(2);
        if stopped {
            os::signal(server.pid(), os::SIGSTOP)?;
        }
        let stood = Instant::now();
        let tenths = self.random.one_of(&[0, 2, 5, 9]);
        // Pages that reach the disk would hide that nothing was flushed.
        let hides =
            matches!(self.kind.planted, Planted::EarlyAcknowledgement | Planted::UnflushedAcknowledgement);
        if !hides {
            keep_some_pages(&self.setup.data, log_end, tenths, &mut self.random)?;
        }
        let cut = if stopped { stood } else { Instant::now() };
        self.disk.cut()?;
        if !stopped {
            // What the server answers now must be true all the same.
            sleep(Duration::from_millis(self.random.within(0, 20)));
        }
        server.kill9();
        Ok(cut)
    }

    /// Starts the server and cuts the power before it serves, or just after.
    fn cut_a_start(&mut self) -> io::Result<()> {
        let server = self.setup.spawn()?;
        sleep(Duration::from_micros(self.random.within(0, 60_000)));
        self.power_off(server, 0)?;
        self.disk.power_up().map_err(io::Error::other)?;
        self.recovery_cuts += 1;
        Ok(())
    }

    /// Has the derived files built again and compared, and reads everything from the new ones.
    fn rebuild(&mut self, server: Server) -> io::Result<Server> {
        self.rebuilds += 1;
        self.wrong.extend(derived::compare(server, &self.disk.path().join("aside"))?);
        let server = self.setup.start()?;
        let before = self.judge.ends();
        let mut connection = Connection::open(self.setup.broker())?;
        let everything = vec![0; self.kind.queues];
        let ends = read::drain(&mut connection, TOPIC, &everything, |read| self.judge.read(read))?;
        if ends != before {
            self.wrong.push(format!("P11 queues ended at {before:?}, after a rebuild at {ends:?}"));
        }
        Ok(server)
    }
}
