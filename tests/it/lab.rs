//! The lab against a server that stops for half a second: no latency may be left out because the load waited too
//! (coordinated omission), neither in an open loop nor, once corrected, in a closed one.

use crate::common::os::signal;
use crate::common::server::await_end;
use crate::stage::{Stage, eventually};
use lab::archive::{Archive, corrected, empty_histogram};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use wire::codes::request;

/// Numbers of the signals on Linux.
const STOP: i32 = 19;
const CONTINUE: i32 = 18;
const INTERRUPT: i32 = 2;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;

/// How long the server stops.
const PAUSE: Duration = Duration::from_millis(500);

/// Ends with the test, also when that fails.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn vostok(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vostok"));
    command.args(arguments).stdout(Stdio::piped()).stdin(Stdio::null());
    command
}

/// The 99.9th percentile of a run in which the server pauses, microseconds.
fn paused(load: &[&str], threads: u32, is_closed: bool) -> u64 {
    eventually("a run with a pause", || paused_once(load, threads, is_closed))
}

/// As [`paused`]; `None` when the run ended too soon after the pause, which then may lie outside of what is measured.
fn paused_once(load: &[&str], threads: u32, is_closed: bool) -> Option<u64> {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run");
    let mut echo = Process(vostok(&["lab", "echo", "--port", "0"]).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(echo.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split([' ', ',']).nth(3).unwrap().to_owned();
    let threads_text = threads.to_string();
    let fixed = ["lab", "matrix", "-n", &address, "--threads", &threads_text, "--out", out.to_str().unwrap()];
    let times = ["--warmup", "1", "--duration", "12", "--repeats", "1", "--no-selftest"];
    let mut run = Process(vostok(&[&fixed[..], &times, load].concat()).spawn().unwrap());
    eventually("some seconds of load", || (rows(&out) > 4).then_some(()));
    signal(echo.0.id(), STOP).unwrap();
    std::thread::sleep(PAUSE);
    signal(echo.0.id(), CONTINUE).unwrap();
    let since = rows(&out);
    let goes_on = eventually("two more seconds of load, or the end", || {
        let has_ended = run.0.try_wait().unwrap().is_some();
        (rows(&out) >= since + 2).then_some(true).or(has_ended.then_some(false))
    });
    assert!(ended(&mut run).success());
    if !goes_on {
        return None;
    }
    let record = Archive::open(&out).unwrap().record().unwrap();
    let window = &record.windows(&record.cells[0], "steady")[0];
    let sent = window.load.iter().map(|row| row.sent as f64).sum::<f64>() / window.load.len() as f64;
    let mut all = empty_histogram();
    let (first, last) = (window.load[0].at_ms, window.load[window.load.len() - 1].at_ms);
    let repeat = &record.cells[0].repeats[0];
    for (at_ms, histogram) in repeat.latency.iter().filter(|(at_ms, _)| (first..=last).contains(at_ms)) {
        assert!(*at_ms > 0);
        histogram.add_to(&mut all);
    }
    let seen = if is_closed { corrected(&all, threads, sent) } else { all };
    Some(seen.value_at_quantile(0.999))
}

/// Lines in the first cell's table of load.
fn rows(out: &Path) -> usize {
    let cell = std::fs::read_dir(out.join("cells")).ok().and_then(|mut cells| cells.next()?.ok());
    let text = cell.map(|cell| std::fs::read_to_string(cell.path().join("1/load.csv")).unwrap_or_default());
    text.map_or(0, |text| text.lines().count())
}

/// Exit status of a process, which has to end.
fn ended(process: &mut Process) -> ExitStatus {
    await_end(&mut process.0).expect("the process ends")
}

#[test]
fn a_pause_is_seen_by_open_and_closed_loops_alike() {
    let closed = std::thread::spawn(|| paused(&[], 8, true));
    let open = paused(&["--rate", "3000"], 4000, false);
    let closed = closed.join().unwrap();
    // What a busy machine adds, however much, is no matter; a closed loop that is not corrected sees a few milliseconds.
    for (seen, of) in [(open, "open"), (closed, "closed")] {
        assert!(seen >= 400_000, "{of} loop: {seen} us");
    }
}

#[test]
fn wrong_flags_of_the_lab_end_as_those_of_the_server() {
    for line in ["lab producer -w abc", "lab nothing", "lab safe-tps --rate 5", "serve --nothing"] {
        let mut command = vostok(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(command.stderr(Stdio::null()).status().unwrap().code(), Some(2), "{line}");
    }
}

/// Every second of every repeat of a run, cell by cell.
fn cells(run: &Path) -> Vec<(lab::archive::Factors, Vec<lab::archive::LoadSecond>)> {
    let record = Archive::open(run).unwrap().record().unwrap();
    let rows = |cell: lab::archive::RecordedCell| {
        (cell.cell.factors, cell.repeats.into_iter().flat_map(|repeat| repeat.load).collect())
    };
    record.cells.into_iter().map(rows).collect()
}

/// A run said how far it was, and wrote its reports.
fn check_progress_and_report(told: &str, out: &Path) {
    let count = std::fs::read_dir(out.join("cells")).unwrap().count();
    for number in 1..=count {
        assert!(
            told.contains(&format!("[cell {number} of {count}")),
            "{number} of {count} is not told: {told}"
        );
    }
    assert!(told.contains("finished") && told.contains("Confidence: "), "no verdict: {told}");
    for name in ["report.html", "report.md", "report.json", "cells.csv"] {
        assert!(out.join(name).exists(), "{name}");
    }
}

#[test]
fn every_way_to_send_and_consume_reaches_the_consumers() {
    let stage = Stage::start(&[]);
    let address = stage.server.setup().namesrv().to_string();
    let run = |name: &str, more: &[&str]| {
        let out = stage.home.path().join(name);
        let fixed = ["lab", "matrix", "-n", &address, "--threads", "4", "--out", out.to_str().unwrap()];
        let times =
            ["--warmup", "1", "--duration", "4", "--repeats", "1", "--no-selftest", "--free-min", "0"];
        // Slow enough for any machine, and one-way sends need a rate.
        let load = ["--rate", "200", "--groups", "2", "--consumers", "2"];
        let told = vostok(&[&fixed[..], &times, &load, more].concat()).output().unwrap();
        assert!(told.status.success());
        check_progress_and_report(&String::from_utf8(told.stdout).unwrap(), &out);
        cells(&out)
    };
    let sends = vec!["--vary", "send=sync,async,oneway,transaction", "--json-headers"];
    let consumes = vec!["--vary", "consume=push,orderly", "--topics", "2", "-t", "pushed"];
    for (name, more) in [("sends", sends), ("consumes", consumes)] {
        let mut number = 0;
        eventually("a run that the machine did not hold up", || {
            number += 1;
            let found = run(&format!("{name}{number}"), &more);
            assert_eq!(found.len(), if name == "sends" { 4 } else { 2 });
            found.iter().all(is_served_to_two_groups).then_some(())
        });
    }
}

/// Whether two groups got what was sent in a cell; what is still on its way at the end is missing.
fn is_served_to_two_groups((factors, rows): &(lab::archive::Factors, Vec<lab::archive::LoadSecond>)) -> bool {
    let sum = |of: fn(&lab::archive::LoadSecond) -> u64| rows.iter().map(of).sum::<u64>();
    let (sent, consumed) = (sum(|row| row.sent), sum(|row| row.consumed));
    let unsent = sum(|row| row.failed) + sum(|row| row.refused);
    println!("{factors:?}: {sent} sent, {unsent} not, {consumed} consumed");
    let is_one_way = factors.more.get("send").is_some_and(|send| send == "oneway");
    assert_eq!(sum(|row| row.max_us) == 0, is_one_way, "nobody answers what is sent one way");
    unsent == 0 && sent > 300 && consumed > sent && consumed <= sent * 2 + 400
}

#[test]
fn brokers_flush_again_as_they_did() {
    let stage = Stage::start(&[]);
    let address = stage.server.setup().namesrv().to_string();
    let modes = |name: &str, seconds: &str| {
        let out = stage.home.path().join(name);
        let fixed = ["lab", "modes", "-n", &address, "--threads", "2", "--out", out.to_str().unwrap()];
        let times =
            ["--warmup", "0", "--duration", seconds, "--repeats", "1", "--no-selftest", "--free-min", "0"];
        (vostok(&[&fixed[..], &times].concat()), out)
    };
    // What the next run finds is what the one before left.
    let flushed = |out: &Path| {
        let run = Archive::open(out).unwrap().run().unwrap();
        run.target.brokers[0].settings["flushDiskType"].clone()
    };
    let (mut whole, first) = modes("whole", "2");
    assert!(whole.status().unwrap().success());
    let mut number = 0;
    let second = eventually("a run that is interrupted in its second cell", || {
        number += 1;
        let (mut command, out) = modes(&format!("ended{number}"), "10");
        let mut run = Process(command.spawn().unwrap());
        eventually("the second cell", || {
            out.join("cells/002-w2-s2048-q8-sync/1/load.csv").exists().then_some(())
        });
        signal(run.0.id(), INTERRUPT).unwrap();
        let code = ended(&mut run).code();
        // A run that is not interrupted in time ends by itself.
        assert!([Some(0), Some(128 + INTERRUPT)].contains(&code), "{code:?}");
        (code != Some(0)).then_some(out)
    });
    assert!(second.join("report.html").exists(), "what there is of a run that was ended early is reported");
    let (mut last, third) = modes("last", "2");
    assert!(last.status().unwrap().success());
    assert_eq!([&first, &second, &third].map(|out| flushed(out)), ["ASYNC_FLUSH"; 3]);
}

/// Whether a table of the broker names a topic, a group or an offset of the lab.
fn knows_the_lab(stage: &Stage) -> bool {
    let mut connection = stage.connect();
    let tables = [
        request::GET_ALL_TOPIC_CONFIG,
        request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        request::GET_ALL_CONSUMER_OFFSET,
    ];
    tables.iter().any(|code| {
        let answer = connection.call(*code, |frame| frame, b"");
        String::from_utf8_lossy(&answer.body).contains("lab_")
    })
}

#[test]
fn a_run_leaves_nothing_on_the_cluster_however_it_ends() {
    let stage = Stage::start(&[]);
    let address = stage.server.setup().namesrv().to_string();
    let out = |name: &str| stage.home.path().join(name);
    let matrix = |name: &str, more: &[&str]| {
        let out = out(name);
        let fixed = ["lab", "matrix", "-n", &address, "--threads", "2", "--out", out.to_str().unwrap()];
        let load = ["--groups", "1", "--warmup", "0", "--repeats", "1", "--no-selftest", "--free-min", "0"];
        vostok(&[&fixed[..], &load, more].concat())
    };
    for consume in ["pull", "push"] {
        let mut whole = matrix(consume, &["--duration", "1", "--consume", consume]);
        assert!(whole.status().unwrap().success() && !knows_the_lab(&stage), "{consume}");
    }
    for (name, ending) in [("interrupted", INTERRUPT), ("terminated", TERMINATE), ("killed", KILL)] {
        let mut run = Process(matrix(name, &["--duration", "600"]).spawn().unwrap());
        eventually("some load", || (rows(&out(name)) > 1).then_some(()));
        assert!(knows_the_lab(&stage), "while it runs");
        signal(run.0.id(), ending).unwrap();
        let code = ended(&mut run).code();
        assert_eq!(code, (ending != KILL).then_some(128 + ending), "{name}");
        if ending == KILL {
            assert!(knows_the_lab(&stage), "nothing was left that could remove it");
            let run = out(name);
            assert!(vostok(&["lab", "clean", run.to_str().unwrap()]).status().unwrap().success());
        }
        assert!(!knows_the_lab(&stage), "{name}");
    }
}

#[test]
fn the_rows_of_a_run_add_up_to_what_was_stored() {
    let stage = Stage::start(&[]);
    let address = stage.server.setup().namesrv().to_string();
    // A topic that is there before stays.
    let first = ["lab", "producer", "-n", &address, "-t", "whole8", "--queues", "8", "-q", "1", "-w", "1"];
    assert!(vostok(&first).status().unwrap().success());
    let out = stage.home.path().join("run");
    let fixed =
        ["lab", "matrix", "-n", &address, "-t", "whole", "--threads", "16", "--out", out.to_str().unwrap()];
    let times = ["--warmup", "1", "--duration", "2", "--repeats", "2", "--no-selftest", "--free-min", "0"];
    assert!(vostok(&[&fixed[..], &times].concat()).status().unwrap().success());
    let cells = cells(&out);
    let sum = |of: fn(&lab::archive::LoadSecond) -> u64| {
        cells.iter().flat_map(|(_, rows)| rows).map(of).sum::<u64>()
    };
    let sent = sum(|row| row.sent);
    // A message whose answer came too late is stored, and counts as failed.
    let unknown = sum(|row| row.failed);
    let mut connection = stage.connect();
    let end = |queue: u32| {
        let code = request::GET_MAX_OFFSET;
        let answer =
            connection.call(code, |frame| frame.text("topic", "whole8").number("queueId", queue), b"");
        answer.number("offset")
    };
    let stored: i64 = (0..8).map(end).sum();
    let stored = u64::try_from(stored - 1).unwrap();
    assert!((sent..=sent + unknown).contains(&stored), "{sent} and {unknown}: {stored}");
}

#[test]
fn several_machines_share_a_load() {
    let place = tempfile::tempdir().unwrap();
    let mut echo = Process(vostok(&["lab", "echo", "--port", "0"]).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(echo.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split([' ', ',']).nth(3).unwrap().to_owned();
    let agents: Vec<_> = (0..2).map(|_| agent()).collect();
    let names: Vec<&str> = agents.iter().map(|(_, address)| address.as_str()).collect();
    let out = place.path().join("run");
    let run = [
        "lab",
        "matrix",
        "-n",
        &address,
        "--threads",
        "300",
        "--rate",
        "900",
        "--out",
        out.to_str().unwrap(),
    ];
    let times = ["--warmup", "1", "--duration", "4", "--repeats", "1", "--no-selftest"];
    let names = names.join(",");
    assert!(vostok(&[&run[..], &times, &["--load-agents", &names]].concat()).status().unwrap().success());
    let record = Archive::open(&out).unwrap().record().unwrap();
    assert!(record.file.clock_skew_us > 0, "how far the clocks of producers and consumers may be apart");
    let repeat = &record.cells[0].repeats[0];
    let sum = |of: fn(&lab::archive::LoadSecond) -> u64| repeat.load.iter().map(of).sum::<u64>();
    let sent = sum(|row| row.sent);
    assert!(sent > 0, "{:?}", repeat.load);
    let counted: u64 = repeat.latency.iter().map(|(_, latency)| latency.len()).sum();
    assert_eq!(counted, sent, "by the histograms and by the rows");
}

/// An agent that runs load, and its address.
fn agent() -> (Process, String) {
    let mut agent = Process(vostok(&["lab", "agent", "--load", "--listen", "127.0.0.1:0"]).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(agent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("agent on ").expect("the address it listens on").to_owned();
    (agent, address)
}

/// A benchmark of a server and a load without an end, in a directory of its own.
const BENCH: &str = "
import sys
from pathlib import Path
from bench import children, measure, servers
children.watch_signals()
place = Path(sys.argv[1])
server = servers.Vostok(place / 'data', '')
try:
    server.start()
    measure.load(server, {'w': 1, 'size': 64}, 3600, place, '')
finally:
    server.stop()
";

/// The processes that a process started and that run.
fn children(of: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_bench_that_is_ended_leaves_nothing_running() {
    for ending in [TERMINATE, INTERRUPT, KILL] {
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new("python3");
        command.args(["-c", BENCH]).arg(place.path()).env("VOSTOK", env!("CARGO_BIN_EXE_vostok"));
        let mut bench = Process(command.current_dir(env!("CARGO_MANIFEST_DIR")).spawn().unwrap());
        let pid = bench.0.id();
        // A child that still has Python's command line may not have asked yet to end with its parent.
        let is_load = |child: &u32| {
            let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|argument| argument == b"producer")
        };
        eventually("server and load", || {
            (children(pid).len() == 2 && children(pid).iter().any(is_load)).then_some(())
        });
        let started = children(pid);
        signal(pid, ending).unwrap();
        let code = ended(&mut bench).code();
        assert_eq!(code, (ending != KILL).then_some(128 + ending));
        let is_gone = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // Nobody may be there to take note of its end.
            stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
        };
        eventually("the end of both", || started.iter().all(is_gone).then_some(()));
    }
}
