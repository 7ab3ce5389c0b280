//! Power cuts under load, with a random part of the unwritten pages on the disk all the same.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::disk::{FileSystem, LoopDisk};
use crate::common::server::has_planted_bugs;
use crate::kind::{Kind, Planted};
use crate::life::{Life, Outcome};
use crate::{Options, Tally};

/// Cuts of one store, before a new one with other settings begins.
const CUTS_PER_STORE: u64 = 16;
/// Stores at least, so that a short run sees both file systems and flush modes twice.
const STORES_MIN: u64 = 8;
/// Cuts after which a planted bug must have been noticed. A torn record shows in every fifth cut or so.
const PLANTED_CUTS: u64 = 200;
/// Violations after which the rest of a store says nothing new.
const ENOUGH: u64 = 1000;
/// Size of the images; they are sparse.
const IMAGE_BYTES: u64 = 4 << 30;
/// In a long run a line now and then instead of one per store.
const LONG_RUN: u64 = 300;
const PROGRESS_EVERY: Duration = Duration::from_secs(20);
/// Failed stores that are kept for whoever looks into them.
const KEPT_MAX: u64 = 3;
const MEMORY: &str = "/dev/shm";

/// Bugs of the server that cuts must bring to light; see `store::planted`.
const SERVER_BUGS: [&str; 5] =
    ["answer-before-flush", "skip-crc", "reuse-offset", "serve-damaged", "wrong-tags"];

/// Runs the planted bugs, then all cuts.
pub fn run(options: &Options) -> Tally {
    println!("powercut: {} cuts, seed {}", options.rounds, options.seed);
    let mut tally = Tally::default();
    let mut bench = Bench::default();
    let mut file_systems = Vec::new();
    for kind in [FileSystem::Ext4, FileSystem::Xfs] {
        match possible(&mut bench, kind) {
            Ok(()) => file_systems.push(kind),
            Err(why) => {
                println!("SKIPPED, LOUDLY: no power cuts on {kind:?} here, it is NOT shown to be safe: {why}")
            }
        }
    }
    if file_systems.is_empty() {
        tally.skipped = options.rounds;
        return tally;
    }
    plant(options, &mut bench, file_systems[0], &mut tally);
    let mut run =
        Run { options, bench, file_systems, tally, done: 0, cuts: 0, kept: 0, began: Instant::now() };
    run.all();
    run.tally
}

/// Shows that the judge notices what it is there for.
fn plant(options: &Options, bench: &mut Bench, file_system: FileSystem, tally: &mut Tally) {
    let ours = [Planted::EarlyAcknowledgement, Planted::UnflushedAcknowledgement];
    let servers = SERVER_BUGS.iter().map(|bug| Planted::Server(bug));
    let binary = &options.binary;
    let has_bugs = has_planted_bugs(binary).unwrap_or(false);
    for (index, planted) in ours.into_iter().chain(servers).enumerate() {
        if matches!(planted, Planted::Server(_)) && !has_bugs {
            println!("SKIPPED, LOUDLY: {planted:?}: {} has no planted bugs", binary.display());
            tally.skipped += 1;
            continue;
        }
        let kind = Kind { file_system, ..Kind::with(planted, options.seed.wrapping_add(index as u64)) };
        match bench.live(binary, &kind, PLANTED_CUTS, 1) {
            Ok((outcome, _)) if outcome.violations.is_empty() => {
                println!("FAILED: planted {planted:?} was not noticed in {PLANTED_CUTS} cuts");
                tally.failed += 1;
            }
            Ok((outcome, _)) => {
                let (cuts, first) = (outcome.cuts, &outcome.violations[0]);
                println!("powercut: planted {planted:?} noticed after {cuts} cuts: {first}");
                tally.passed += 1;
            }
            // A pull that is refused for good is noticed as well as a wrong one.
            Err((error, _)) if error.to_string().starts_with("pull of") => {
                println!("powercut: planted {planted:?} noticed: {error}");
                tally.passed += 1;
            }
            Err((error, _)) => {
                println!("FAILED: planted {planted:?}: {error}");
                tally.failed += 1;
            }
        }
    }
}

struct Run<'a> {
    options: &'a Options,
    bench: Bench,
    file_systems: Vec<FileSystem>,
    tally: Tally,
    done: u64,
    /// With those of starting servers.
    cuts: u64,
    kept: u64,
    began: Instant,
}

impl Run<'_> {
    fn all(&mut self) {
        let total = self.options.rounds;
        let per_store = CUTS_PER_STORE.min(total.div_ceil(STORES_MIN));
        let mut seed = self.options.seed;
        let mut reported = Instant::now();
        while self.done < total {
            let cuts = per_store.min(total - self.done);
            let kind = Kind::of(seed);
            if self.file_systems.contains(&kind.file_system) {
                self.store(&kind, cuts);
            } else {
                self.tally.skipped += cuts;
            }
            self.done += cuts;
            seed = seed.wrapping_add(1);
            if total > LONG_RUN && reported.elapsed() > PROGRESS_EVERY {
                reported = Instant::now();
                self.progress();
            }
        }
        self.progress();
    }

    fn store(&mut self, kind: &Kind, cuts: u64) {
        let place = PathBuf::from(format!("target/powercut-{}", kind.seed));
        let keep = (self.kept < KEPT_MAX).then_some(place.as_path());
        let again = format!("again with: crash powercut --seed {} --cuts {cuts}", kind.seed);
        match self.bench.live_kept(&self.options.binary, kind, cuts, ENOUGH, keep) {
            Ok((outcome, kept)) => {
                self.cuts += outcome.cuts;
                self.tally.passed += outcome.passed;
                self.tally.failed += cuts - outcome.passed;
                if self.options.rounds <= LONG_RUN || outcome.passed < cuts {
                    println!("powercut: {}", outcome.text);
                }
                if outcome.passed < cuts {
                    self.kept += 1;
                    println!("FAILED: {} of {cuts} cuts; {again}\n{kept}", cuts - outcome.passed);
                    outcome.violations.iter().take(5).for_each(|text| println!("  FAILED: {text}"));
                }
            }
            Err((error, kept)) => {
                self.kept += 1;
                self.tally.failed += cuts;
                println!("FAILED: {kind}: {error}; {again}\n{kept}");
            }
        }
    }

    fn progress(&self) {
        let (done, total) = (self.done, self.options.rounds);
        let per_cut = self.began.elapsed().as_secs_f64() / done.max(1) as f64;
        let left = per_cut * (total - done) as f64 / 60.0;
        println!(
            "powercut: {done} of {total} cuts and {} of starting servers, {} failed, {per_cut:.2} s per cut, about {left:.1} min left",
            self.cuts.saturating_sub(done),
            self.tally.failed,
        );
    }
}

/// The disks, made when first needed and used again by store after store.
#[derive(Default)]
struct Bench {
    disks: HashMap<(FileSystem, bool), Disk>,
}

/// Dropped in this order: the file system is unmounted before its image is removed.
struct Disk {
    disk: LoopDisk,
    home: tempfile::TempDir,
}

/// What a life came to, or its error; with the place where it was kept or an empty text.
type Lived = Result<(Outcome, String), (io::Error, String)>;

impl Bench {
    fn disk(&mut self, kind: FileSystem, in_memory: bool) -> Result<&mut Disk, String> {
        let in_memory = in_memory && Path::new(MEMORY).is_dir();
        match self.disks.entry((kind, in_memory)) {
            Entry::Occupied(disk) => Ok(disk.into_mut()),
            Entry::Vacant(place) => {
                let home = tempfile::tempdir_in(if in_memory { MEMORY } else { "target" });
                let home = home.map_err(|error| error.to_string())?;
                let disk = LoopDisk::new(home.path(), kind, IMAGE_BYTES)?;
                Ok(place.insert(Disk { disk, home }))
            }
        }
    }

    fn live(&mut self, binary: &Path, kind: &Kind, cuts: u64, enough: u64) -> Lived {
        self.live_kept(binary, kind, cuts, enough, None)
    }

    /// Runs the life of one store. One that ended badly is copied to `keep`.
    fn live_kept(
        &mut self,
        binary: &Path,
        kind: &Kind,
        cuts: u64,
        enough: u64,
        keep: Option<&Path>,
    ) -> Lived {
        let without = |error| (error, String::new());
        let Disk { disk, home } =
            self.disk(kind.file_system, kind.in_memory).map_err(|error| without(io::Error::other(error)))?;
        let mut life = Life::new(binary, kind.clone(), disk, &home.path().join("desk")).map_err(without)?;
        let outcome = life.run(cuts, enough);
        let bad = !outcome.as_ref().is_ok_and(|outcome| outcome.passed == cuts);
        let kept = match keep.filter(|_| bad) {
            Some(place) => {
                let place = life.keep(place).unwrap_or_else(|error| format!("could not be kept: {error}"));
                format!("  kept: {place}\n{}", life.log_tail())
            }
            None => String::new(),
        };
        match outcome {
            Ok(outcome) => Ok((outcome, kept)),
            Err(error) => {
                // Nobody knows what state the disk is in.
                self.disks.clear();
                Err((error, kept))
            }
        }
    }
}

/// Whether the power of a loop disk can be cut here: tries it.
fn possible(bench: &mut Bench, kind: FileSystem) -> Result<(), String> {
    let disk = &mut bench.disk(kind, true)?.disk;
    let (synced, lost) = (disk.path().join("synced"), disk.path().join("lost"));
    let write = |path: &Path, sync: bool| -> io::Result<()> {
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
