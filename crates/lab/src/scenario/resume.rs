//! Resuming an interrupted run, which is possible only with the same target, the same load and the same agents.
//! Otherwise cells of different clusters or durations would be compared as if only their factors differed.

use super::design::{CellLoad, Design, FAILOVER, RunOptions};
use super::settings::changes;
use crate::Error;
use crate::archive::{Archive, BrokerFile, Factors, HostFile, RunFile};
use crate::generator::Payload;
use crate::judge::factor::Factor;
use crate::output::language;
use std::collections::BTreeMap;
use std::path::Path;

/// Most differences that are printed.
const TOLD_MAX: usize = 5;

/// Starts a run, or resumes the one in the directory.
///
/// # Errors
/// [`Error::File`] when the directory cannot be written, [`Error::Flag`] when it holds a run that differs.
pub(super) fn begin_or_resume(root: &Path, mut run: RunFile) -> Result<(Archive, RunFile), Error> {
    run.id = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !root.join("run.json").exists() {
        return Ok((Archive::create(root, &run)?, run));
    }
    let archive = Archive::open(root)?;
    let before = archive.run()?;
    let mut different = differences(&before, &run);
    if different.is_empty() {
        let clock_skew_us = before.clock_skew_us.max(run.clock_skew_us);
        return Ok((archive, RunFile { ended_ms: None, clock_skew_us, ..before }));
    }
    different.truncate(TOLD_MAX);
    let why =
        format!("{} holds another run, name another directory; {}", root.display(), different.join("; "));
    Err(Error::Flag { flag: "--out", why })
}

/// The flags that hold for every cell of a run, beside its factors, with their values.
pub(super) fn held(options: &RunOptions, design: &Design) -> BTreeMap<String, String> {
    let stages = |cell: &CellLoad| {
        let stages = cell.stages.iter().filter(|stage| stage.seconds > 0);
        stages.map(|stage| format!("{} {} s", stage.name, stage.seconds)).collect::<Vec<_>>().join(" + ")
    };
    let load = &options.load;
    let mut all: Vec<String> = design.cells.iter().map(stages).collect();
    all.dedup();
    let mut held: BTreeMap<String, String> = [
        ("stages", all.join(", ")),
        ("--seed", load.seed.to_string()),
        ("--cores", load.cores.to_string()),
        ("-t", load.topic.clone()),
        ("--ramp", load.ramp.map(|(_, seconds)| seconds.to_string()).unwrap_or_default()),
        ("--payload", payload(&load.payload)),
        ("--agents", options.agents.join(",")),
        ("--load-agents", options.load_agents.join(",")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    held.extend(design.held.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    held
}

/// The payload with its content: the file may have changed since the run began.
fn payload(payload: &Payload) -> String {
    match payload {
        Payload::Random => "random".to_owned(),
        Payload::Repeat(period) => format!("repeat:{period}"),
        // A file that cannot be read ends the run before its first cell.
        Payload::File(path) => {
            let bytes = std::fs::read(path).unwrap_or_default();
            let sum = crc32fast::hash(&bytes);
            format!("file:{} of {} bytes with CRC {sum:08x}", path.display(), bytes.len())
        }
    }
}

/// The differences between two runs that make their cells incomparable.
fn differences(before: &RunFile, now: &RunFile) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, was: String, is: String| {
        if was != is {
            found.push(format!("{what} was {}, is {}", or_nothing(&was), or_nothing(&is)));
        }
    };
    differ("scenario", before.scenario.clone(), now.scenario.clone());
    differ("--repeats", before.repeats.to_string(), now.repeats.to_string());
    // A search adds cells to those that it began with.
    if !before.cells.starts_with(&now.cells) {
        let (what, was, is) = first_different(&before.cells, &now.cells);
        differ(&what, was, is);
    }
    let target = |run: &RunFile| format!("{:?} {}", run.target.kind, run.target.version);
    differ("the target", target(before), target(now));
    differ("-n", before.target.namesrv.clone(), now.target.namesrv.clone());
    differ("the list of brokers", brokers(before), brokers(now));
    // A failover makes other brokers masters, whose settings say so.
    let compared = if now.scenario == FAILOVER { 0 } else { usize::MAX };
    for (one, other) in before.target.brokers.iter().zip(&now.target.brokers).take(compared) {
        for key in changed(one, other).into_iter().filter(|key| !changes(&now.cells, key)) {
            let of = |broker: &BrokerFile| broker.settings.get(&key).cloned().unwrap_or_default();
            differ(&format!("{key} of {}", one.name), of(one), of(other));
        }
    }
    let names =
        |hosts: &[HostFile]| hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
    differ("the machines", names(&before.hosts), names(&now.hosts));
    if !before.held.is_empty() {
        for (name, is) in &now.held {
            differ(name, before.held.get(name).cloned().unwrap_or_default(), is.clone());
        }
    }
    found
}

/// The first cell that differs: its number and the factor, the earlier level, and the level now.
fn first_different(before: &[Factors], now: &[Factors]) -> (String, String, String) {
    let pairs = (1..).zip(before.iter().zip(now));
    let mut different = pairs.filter(|(_, (was, is))| was != is);
    let Some((number, (was, is))) = different.next() else {
        let (was, is) = (before.len(), now.len());
        return ("the list of cells".to_owned(), format!("one of {was}"), format!("another one of {is}"));
    };
    match Factor::varied(&[was, is]).first() {
        Some(factor) => {
            (format!("cell {number}: {}", factor.name().get(language())), factor.level(was), factor.level(is))
        }
        // The levels differ but read the same.
        None => (format!("cell {number}"), format!("{was:?}"), format!("{is:?}")),
    }
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

fn brokers(run: &RunFile) -> String {
    let brokers = run.target.brokers.iter();
    let mut all: Vec<String> = match run.scenario.as_str() {
        // Ids change with the masters.
        FAILOVER => brokers.map(|broker| format!("{} at {}", broker.name, broker.address)).collect(),
        _ => brokers.map(|broker| format!("{} {} at {}", broker.name, broker.id, broker.address)).collect(),
    };
    if run.scenario == FAILOVER {
        all.sort();
    }
    all.join(", ")
}

/// The settings whose values differ between two descriptions of a broker; none if one of them has no settings.
fn changed(one: &BrokerFile, other: &BrokerFile) -> Vec<String> {
    if one.settings.is_empty() || other.settings.is_empty() {
        return Vec::new();
    }
    let keys: std::collections::BTreeSet<_> = one.settings.keys().chain(other.settings.keys()).collect();
    let differ = |key: &&&String| one.settings.get(**key) != other.settings.get(**key);
    keys.iter().filter(differ).map(|key| (*key).clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::FLUSH;
    use crate::judge::testing;

    fn run() -> RunFile {
        let held = [("stages".to_owned(), "warmup 5 s + steady 30 s".to_owned())].into();
        RunFile { id: String::new(), cells: vec![testing::factors(1)], held, ..testing::file() }
    }

    /// The message when a run is resumed after `change`; empty when it is resumed without error.
    fn resumed(change: impl Fn(&mut RunFile)) -> String {
        let place = tempfile::tempdir().unwrap();
        let began = run();
        begin_or_resume(place.path(), began.clone()).unwrap();
        let mut again = began;
        change(&mut again);
        begin_or_resume(place.path(), again).map_or_else(|error| error.to_string(), |_| String::new())
    }

    fn check(change: impl Fn(&mut RunFile), says: &str) {
        let said = resumed(change);
        assert!(said.starts_with("--out: ") && said.contains(says), "{said:?} should hold {says:?}");
    }

    #[test]
    fn a_run_goes_on_with_what_it_began_with_alone() {
        assert_eq!(resumed(|_| ()), "");
        assert_eq!(resumed(|run| run.started_ms += 1), "");
        check(
            |run| run.target.version = "V5_3_1".to_owned(),
            "the target was Rocketmq V5_5_0, is Rocketmq V5_3_1",
        );
        check(|run| run.target.namesrv = "h:1".to_owned(), "-n was 10.0.0.1:9876, is h:1");
        check(
            |run| run.target.brokers[0].address = "10.0.0.2:10911".to_owned(),
            "broker-a 0 at 10.0.0.2:10911",
        );
        check(
            |run| drop(run.held.insert("stages".to_owned(), "warmup 5 s + steady 60 s".to_owned())),
            "stages was warmup 5 s + steady 30 s, is warmup 5 s + steady 60 s",
        );
        check(|run| drop(run.hosts.pop()), "the machines was lab, b1, is lab");
        check(|run| run.repeats = 9, "--repeats was 3, is 9");
        check(|run| run.cells[0].threads = 2, "cell 1: threads was 1, is 2");
        check(
            |run| run.cells.push(testing::factors(9)),
            "the list of cells was one of 1, is another one of 2",
        );
        check(|run| run.cells[0].flush = "sync".to_owned(), "cell 1: flush was -, is sync");
        check(|run| run.cells[0].size += 1, "cell 1");
        let sync = |run: &mut RunFile| {
            drop(run.target.brokers[0].settings.insert(FLUSH.to_owned(), "SYNC".to_owned()))
        };
        check(sync, "flushDiskType of broker-a was ASYNC_FLUSH, is SYNC");
    }

    #[test]
    fn a_failover_run_goes_on_when_another_broker_is_master() {
        let place = tempfile::tempdir().unwrap();
        let mut began = RunFile { scenario: FAILOVER.to_owned(), ..run() };
        let slave =
            BrokerFile { id: 2, address: "10.0.0.2:10911".to_owned(), ..began.target.brokers[0].clone() };
        began.target.brokers.push(slave);
        begin_or_resume(place.path(), began.clone()).unwrap();
        (began.target.brokers[0].id, began.target.brokers[1].id) = (1, 0);
        began.target.brokers.reverse();
        began.target.brokers[0].settings.insert("brokerRole".to_owned(), "ASYNC_MASTER".to_owned());
        assert!(begin_or_resume(place.path(), began.clone()).is_ok());
        began.target.brokers[0].address = "10.0.0.3:10911".to_owned();
        assert!(begin_or_resume(place.path(), began).is_err(), "another broker");
    }

    #[test]
    fn modes_that_a_killed_run_left_behind_are_no_difference() {
        let place = tempfile::tempdir().unwrap();
        let mut began = run();
        began.cells[0].flush = "sync".to_owned();
        begin_or_resume(place.path(), began.clone()).unwrap();
        began.target.brokers[0].settings.insert(FLUSH.to_owned(), "SYNC_FLUSH".to_owned());
        let (_, went_on) = begin_or_resume(place.path(), began).unwrap();
        assert_eq!(went_on.target.brokers[0].settings[FLUSH], "ASYNC_FLUSH", "as it was found first");
    }

    #[test]
    fn settings_that_a_killed_sweep_left_behind_are_no_difference() {
        let place = tempfile::tempdir().unwrap();
        let mut began = run();
        began.cells[0].more.insert("set:flushLeastPages".to_owned(), "8".to_owned());
        began.target.brokers[0].settings.insert("flushLeastPages".to_owned(), "4".to_owned());
        begin_or_resume(place.path(), began.clone()).unwrap();
        began.target.brokers[0].settings.insert("flushLeastPages".to_owned(), "8".to_owned());
        let (_, went_on) = begin_or_resume(place.path(), began.clone()).unwrap();
        assert_eq!(went_on.target.brokers[0].settings["flushLeastPages"], "4", "as it was found first");
        began.target.brokers[0].settings.insert(FLUSH.to_owned(), "SYNC_FLUSH".to_owned());
        assert!(begin_or_resume(place.path(), began).is_err(), "nobody swept that");
    }
}
