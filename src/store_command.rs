//! `vostok store verify|repair|dump`: looking into a store directory. Exit code 0: nothing found; 1: something found; 2:
//! cannot run.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use store::inspect::{Decision, DumpPart, Repair, Selection, Survey, VerifyProgress, VerifyResult, verify};
use store::{Disk, ReadOnlyDisk, RealDisk};

use crate::words;

/// Lines of lost messages that are printed.
const LOST_LINES: usize = 100;

/// Subcommands of `vostok store`.
#[derive(Subcommand)]
pub enum StoreCommand {
    /// Read every file once and compare what belongs together.
    #[command(after_help = "Examples:
  vostok store verify --data /data/rocketmq/store
  vostok store verify --data ./data --commit-log /disk1/commitlog,/disk2/commitlog

Each line names a file, a position in it, what was expected and what was found. Exit code 0: clean, 1: findings, 2: the store
cannot be read. A store in use may show findings at its end that are none.")]
    Verify(StoreLocation),
    /// Say what would mend a store, and do it with --apply.
    #[command(after_help = "Examples:
  vostok store repair --data /data/rocketmq/store            what would be done, and which messages are lost
  vostok store repair --data /data/rocketmq/store --apply    do it; the broker must not run

A broker that cannot tell damage from what a power cut left refuses to start and names the place. Then decide:
  vostok store repair --data DIR --keep-behind OFFSET --apply   the messages behind it stay, those in it are lost
  vostok store repair --data DIR --cut-at OFFSET --apply        the log ends there

Overwritten or removed bytes are copied to a directory beside the store first.")]
    Repair(RepairFlags),
    /// Print records, queue units, the checkpoint, the key index, timers and the files of config/.
    #[command(after_help = "Examples:
  vostok store dump --data /data/rocketmq/store --topic Orders --limit 10
  vostok store dump --data ./data log --from 5858 --body --json
  vostok store dump --data ./data queues --topic Orders --queue 3 --queue-from 100
  vostok store dump --data ./data checkpoint")]
    Dump(DumpFlags),
}

/// Location of a store, and the sizes of its key index files.
#[derive(Args)]
pub struct StoreLocation {
    /// The store's directory: --data of vostok serve, storePathRootDir of a RocketMQ broker.
    #[arg(long = "data", alias = "root", value_name = "DIR")]
    root: PathBuf,
    /// Directories of the commit log, when it is not in commitlog/ below the root (storePathCommitLog).
    #[arg(long, value_delimiter = ',', value_name = "DIR,...")]
    commit_log: Vec<PathBuf>,
    /// Slots of a key index file (maxHashSlotNum of the broker).
    #[arg(long, default_value_t = 5_000_000, value_name = "N")]
    index_slots: u32,
    /// Places for items in a key index file (maxIndexNum of the broker).
    #[arg(long, default_value_t = 20_000_000, value_name = "N")]
    index_items: u32,
}

/// Flags of `vostok store repair`.
#[derive(Args)]
pub struct RepairFlags {
    #[command(flatten)]
    place: StoreLocation,
    /// Change the files. Without it nothing is written.
    #[arg(long)]
    apply: bool,
    /// Only this: keep what lies behind the damage that begins at this position of the commit log.
    #[arg(long, value_name = "OFFSET")]
    keep_behind: Option<u64>,
    /// Only this: end the commit log at this position, where damage begins.
    #[arg(long, value_name = "OFFSET", conflicts_with = "keep_behind")]
    cut_at: Option<u64>,
}

/// A kind of file.
#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Records of the commit log.
    Log,
    /// Units of the queues.
    Queues,
    /// The checkpoint.
    Checkpoint,
    /// Files and items of the key index.
    Index,
    /// Units of the timer log and slots of the wheel.
    Timers,
    /// The JSON files of config/.
    Config,
}

/// Flags of `vostok store dump`.
#[derive(Args)]
pub struct DumpFlags {
    #[command(flatten)]
    place: StoreLocation,
    /// Part of the store to print.
    #[arg(default_value = "log")]
    what: What,
    /// First position of the commit log.
    #[arg(long, default_value_t = 0, value_name = "OFFSET")]
    from: u64,
    /// Position of the commit log behind the last record.
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true, value_name = "OFFSET")]
    to: u64,
    /// Only this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only this queue.
    #[arg(long, value_name = "ID")]
    queue: Option<i32>,
    /// First queue offset.
    #[arg(long, default_value_t = 0, value_name = "OFFSET")]
    queue_from: u64,
    /// Lines at most.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print bodies, as text.
    #[arg(long)]
    body: bool,
    /// A JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Runs a command to its end.
pub fn run(command: &StoreCommand) -> ExitCode {
    let done = match command {
        StoreCommand::Verify(place) => run_verify(place),
        StoreCommand::Repair(flags) => run_repair(flags),
        StoreCommand::Dump(flags) => run_dump(flags).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(text) => {
            words::complain(text);
            ExitCode::from(2)
        }
    }
}

fn survey(place: &StoreLocation, disk: Arc<dyn Disk>) -> Result<Survey, String> {
    let survey = Survey::of(disk, &place.root, &place.commit_log).map_err(|error| error.to_string())?;
    Ok(survey.with_index(place.index_slots, place.index_items))
}

/// Prints a warning if a process uses the store. The command reads the store all the same.
fn warn_if_used(place: &StoreLocation) {
    if let Some(holder) = store::lock_holder(&place.root) {
        words::complain(format!(
            "the store is in use by {holder}; what is being written may look incomplete"
        ));
    }
}

fn verified(survey: &Survey) -> Result<VerifyResult, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let shown = AtomicU64::new(0);
    let terminal = std::io::stderr().is_terminal();
    let progress = |VerifyProgress { done, total }: VerifyProgress| {
        let percent = done * 100 / total.max(1);
        // A line for every twentieth, or one that changes on a terminal.
        let step = if terminal { percent } else { percent / 5 * 5 };
        if shown.swap(step, Ordering::Relaxed) != step {
            let end = if terminal { "\r" } else { "\n" };
            let text = format!("{step:3} % of the commit log read, {} MiB", done >> 20);
            // The output may have no reader.
            let _ = write!(std::io::stderr(), "{}{end}", words::said(&text));
        }
    };
    let verified = verify(survey, threads, &progress).map_err(|error| error.to_string())?;
    if terminal {
        let _ = writeln!(std::io::stderr());
    }
    Ok(verified)
}

fn print(lines: impl IntoIterator<Item = String>) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match lines.into_iter().try_for_each(|line| writeln!(out, "{}", words::said(&line))) {
        // Who reads may have seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("the output cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}

fn lines_of(verified: &VerifyResult) -> Vec<String> {
    let mut lines: Vec<String> = verified.findings.iter().map(ToString::to_string).collect();
    if verified.unlisted > 0 {
        lines.push(format!("and {} more findings in queues", verified.unlisted));
    }
    let lost = |lost: &store::inspect::MissingMessage| match verified.is_filled(lost) {
        true => format!(
            "lost: {lost}: its record was damaged, and a repair put a filler in its place; consumers go on behind it"
        ),
        false => format!("lost: {lost}"),
    };
    lines.extend(verified.lost.iter().take(LOST_LINES).map(lost));
    if let Some(more) = verified.lost.len().checked_sub(LOST_LINES + 1) {
        lines.push(format!("and {} more lost messages", more + 1));
    }
    lines.extend(verified.unchecked.iter().map(|what| format!("not checked: {what}")));
    lines.extend(verified.notes.iter().map(|note| format!("note: {note} (opening the store mends it)")));
    lines
}

fn run_verify(place: &StoreLocation) -> Result<bool, String> {
    warn_if_used(place);
    let survey = survey(place, Arc::new(ReadOnlyDisk))?;
    let verified = verified(&survey)?;
    let mut lines = lines_of(&verified);
    let VerifyResult { records, digests, units, log_end, index_items, unindexed, timer_units, .. } = verified;
    lines.push(format!(
        "{records} records ({digests} with a checksum of all but the body), {units} queue units agree; the log ends at {log_end}"
    ));
    lines.push(format!(
        "{index_items} items of the key index agree, {unindexed} keys are in no index file; {timer_units} units in the timer log"
    ));
    let is_mended = verified.findings.is_empty() && verified.lost.iter().all(|lost| verified.is_filled(lost));
    lines.push(match verified.is_clean() {
        true => "clean".to_owned(),
        false if is_mended => format!(
            "nothing is damaged; {} messages were lost to damage that has been repaired, and stay lost",
            verified.lost.len()
        ),
        false => format!(
            "{} findings, {} messages lost; vostok store repair says what would mend it",
            verified.findings.len() as u64 + verified.unlisted,
            verified.lost.len()
        ),
    });
    print(lines)?;
    Ok(verified.is_clean())
}

fn run_repair(flags: &RepairFlags) -> Result<bool, String> {
    let root = &flags.place.root;
    let disk: Arc<dyn Disk> = if flags.apply { Arc::new(RealDisk) } else { Arc::new(ReadOnlyDisk) };
    let _lock = if flags.apply {
        let lock = disk.lock(&root.join("lock"));
        Some(lock.map_err(|error| format!("the store is in use by {error}; stop the broker first"))?)
    } else {
        warn_if_used(&flags.place);
        None
    };
    let survey = survey(&flags.place, disk)?;
    let verified = verified(&survey)?;
    print(lines_of(&verified))?;
    let decision = flags.keep_behind.map(Decision::KeepBehind).or(flags.cut_at.map(Decision::CutAt));
    let repair = match decision {
        Some(decision) => Repair::deciding(&survey, &verified, decision)?,
        None => Repair::of(&survey, &verified),
    };
    if repair.steps().is_empty() {
        let outcome = if verified.unreadable_bytes == 0 {
            "nothing to repair"
        } else {
            "nothing is repaired while parts of the log cannot be read; copy the store to another disk first"
        };
        print([outcome.to_owned()])?;
        return Ok(verified.is_clean());
    }
    let verb = if flags.apply { "doing" } else { "would" };
    print(repair.steps().iter().map(|step| format!("{verb}: {step}")))?;
    if flags.apply {
        let kept = beside(root);
        repair.apply(&kept).map_err(|error| error.to_string())?;
        print([format!("done; what was overwritten or removed is in {}", kept.display())])?;
    } else {
        print(["nothing was changed; --apply does it".to_owned()])?;
    }
    Ok(false)
}

/// Path beside the store, named after the time, for copies of the bytes that a repair overwrites or removes.
fn beside(root: &Path) -> PathBuf {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut name = root.canonicalize().unwrap_or_else(|_| root.to_owned()).into_os_string();
    name.push(format!(".repaired-{now}"));
    PathBuf::from(name)
}

fn run_dump(flags: &DumpFlags) -> Result<(), String> {
    warn_if_used(&flags.place);
    let survey = survey(&flags.place, Arc::new(ReadOnlyDisk))?;
    let part = match flags.what {
        What::Log => DumpPart::Log,
        What::Queues => DumpPart::Queues,
        What::Checkpoint => DumpPart::Checkpoint,
        What::Index => DumpPart::Index,
        What::Timers => DumpPart::Timers,
        What::Config => DumpPart::Config,
    };
    let wanted = Selection {
        from: flags.from,
        to: flags.to,
        topic: flags.topic.clone(),
        queue_id: flags.queue,
        queue_from: flags.queue_from,
        body: flags.body,
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut left = flags.limit.unwrap_or(u64::MAX);
    survey
        .dump(part, &wanted, &mut |row| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            let written =
                if flags.json { writeln!(out, "{}", row.to_json()) } else { writeln!(out, "{row}") };
            // Who reads may have seen enough.
            if written.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .map_err(|error| error.to_string())?;
    let _ = out.flush();
    Ok(())
}
