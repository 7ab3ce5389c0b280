//! A run of the lab that an administrator started: `vostok lab` as a process of its own, with a cluster of its own on this machine.

use crate::refusal::Refusal;
use crate::request::Fields;
use http::StatusCode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// File with the output of the run, in the directory of the run.
const LOG: &str = "console.log";
/// Most lines of the output of a run that are shown.
const LINES_MAX: usize = 8;
/// Most bytes at the end of the output of a run that are read.
const WORDS_BYTES_MAX: u64 = 16 << 10;
/// Directory of the cluster's data, below the directory of the run.
const CLUSTER: &str = "cluster";
/// Longest time that a console waits for its run when it stops.
const END_WAIT: Duration = Duration::from_secs(10);

/// A kind of run: its name in forms, its English text, its scenario and the local cluster.
pub(crate) struct Kind {
    pub name: &'static str,
    pub text: &'static str,
    arguments: &'static [&'static str],
    is_failover: bool,
}

const fn failover(name: &'static str, text: &'static str, arguments: &'static [&'static str]) -> Kind {
    Kind { name, text, arguments, is_failover: true }
}

const fn modes(name: &'static str, text: &'static str, arguments: &'static [&'static str]) -> Kind {
    Kind { name, text, arguments, is_failover: false }
}

/// Runs that the console can start.
pub(crate) const KINDS: [Kind; 6] = [
    failover("kill", "Failover of 1m2s: kill the master", &["--local", "1m2s", "--fault", "leader-kill"]),
    failover("pause", "Failover of 1m2s: pause the master", &["--local", "1m2s", "--fault", "leader-pause"]),
    failover(
        "partition",
        "Failover of 1m2s: cut the master off (needs root)",
        &["--local", "1m2s", "--fault", "partition"],
    ),
    failover("switch", "Failover of 1m2s: planned switch", &["--local", "1m2s", "--fault", "switch"]),
    modes("async", "Throughput of 2m2s, asynchronous replication", &["--local", "2m2s", "--repl", "async"]),
    modes("sync", "Throughput of 2m2s, synchronous double write", &["--local", "2m2s", "--repl", "sync"]),
];

/// A number of the form, with the flag it becomes.
pub(crate) struct Figure {
    pub name: &'static str,
    pub text: &'static str,
    /// Least, usual and largest value.
    pub range: [u64; 3],
}

/// The numbers of the form. Rounds count for failover, seconds for throughput.
pub(crate) const FIGURES: [Figure; 4] = [
    Figure { name: "threads", text: "Threads", range: [1, 64, 1024] },
    Figure { name: "size", text: "Body size in bytes", range: [1, 1024, 4 << 20] },
    Figure { name: "rounds", text: "Rounds (failover)", range: [1, 5, 1000] },
    Figure { name: "duration", text: "Seconds (throughput)", range: [1, 30, 3600] },
];

/// The arguments of `vostok lab` for a form, without the directory.
///
/// # Errors
/// [`Refusal`] when the kind is none of [`KINDS`] or a number is outside its range.
pub(crate) fn arguments(form: &Fields) -> Result<Vec<String>, Refusal> {
    let kind = KINDS.iter().find(|kind| kind.name == form.text("kind")).ok_or_else(|| {
        let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        Refusal::wrong(format!("kind is {:?}, expected one of {}", form.text("kind"), known.join(", ")))
    })?;
    let scenario = if kind.is_failover { "failover" } else { "modes" };
    let mut arguments: Vec<String> =
        ["lab", scenario].iter().chain(kind.arguments).map(|it| (*it).into()).collect();
    let left_out = if kind.is_failover { "duration" } else { "rounds" };
    for Figure { name, range: [least, usual, largest], .. } in FIGURES.iter().filter(|it| it.name != left_out)
    {
        let given = form.get(name).map_or(Ok(*usual), str::parse);
        let value = given.ok().filter(|value| (*least..=*largest).contains(value)).ok_or_else(|| {
            Refusal::wrong(format!("{name} is {:?}, expected {least} to {largest}", form.text(name)))
        })?;
        arguments.extend([format!("--{name}"), value.to_string()]);
    }
    Ok(arguments)
}

struct Run {
    directory: PathBuf,
    process: Child,
    outcome: Option<ExitStatus>,
}

/// The run that was started last; one at a time, because two would measure each other.
#[derive(Default)]
pub(crate) struct Lab(Mutex<Option<Run>>);

impl Lab {
    /// Starts a run in a directory that does not exist yet.
    ///
    /// # Errors
    /// [`Refusal`] when another run goes on, or the system refuses the directory or the process.
    pub fn start(&self, directory: &Path, arguments: &[String]) -> Result<(), Refusal> {
        let mut last = self.last();
        if last.as_mut().is_some_and(|run| run.outcome().is_none()) {
            let text = "a run goes on; wait for its end, or stop it".to_owned();
            return Err(Refusal { status: StatusCode::CONFLICT, text });
        }
        let process = spawn(directory, arguments).map_err(|error| {
            let text = format!("the run was not started in {}: {error}", directory.display());
            Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, text }
        })?;
        *last = Some(Run { directory: directory.to_owned(), process, outcome: None });
        Ok(())
    }

    /// Sends SIGTERM to the run, which then stops its cluster and ends. Does nothing when no run goes on.
    pub fn stop(&self) {
        if let Some(run) = self.last().as_mut().filter(|run| run.outcome.is_none()) {
            // A process that has ended is not signalled: its number is free only when its outcome was taken.
            let _ = kill_process(Pid::from_child(&run.process), Signal::TERM);
        }
    }

    /// Ends the run, and waits a little for that.
    pub fn end(&self) {
        self.stop();
        let began = Instant::now();
        while self.last().as_mut().is_some_and(|run| run.outcome().is_none()) && began.elapsed() < END_WAIT {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The run that was started last: its name, whether it goes on, how it ended, and the last
    /// lines of its output.
    pub fn state(&self) -> Value {
        let mut last = self.last();
        let Some(run) = last.as_mut() else { return Value::Null };
        let (outcome, directory) = (run.outcome(), run.directory.clone());
        drop(last);
        let words = last_words(&directory.join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = words.lines().rev().filter(|line| !line.is_empty()).take(LINES_MAX).collect();
        json!({
            "run": directory.file_name().unwrap_or_default().to_string_lossy(),
            "goes_on": outcome.is_none(),
            "outcome": outcome.map(|it| it.to_string()),
            "words": lines.into_iter().rev().collect::<Vec<_>>(),
        })
    }

    fn last(&self) -> MutexGuard<'_, Option<Run>> {
        self.0.lock().expect("short section")
    }
}

impl Run {
    /// Exit status of the run; `None` while the run goes on. When the run has ended, the data of its cluster is removed, because the
    /// report does not need the data.
    fn outcome(&mut self) -> Option<ExitStatus> {
        if self.outcome.is_none() {
            self.outcome = self.process.try_wait().ok().flatten();
            if self.outcome.is_some() {
                remove_beside(self.directory.join(CLUSTER));
            }
        }
        self.outcome
    }
}

/// Removes a directory of gigabytes on a thread of its own, because pages and sessions must not wait for that.
fn remove_beside(directory: PathBuf) {
    let removal = std::thread::Builder::new().name("lab-removal".to_owned());
    let removal = removal.spawn(move || {
        if let Err(error) = fs::remove_dir_all(&directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, directory = %directory.display(), "the data of a finished run could not be removed");
        }
    });
    if let Err(error) = removal {
        tracing::warn!(%error, "the data of a finished run is kept, because no thread can be started");
    }
}

/// The end of a run's output, at most [`WORDS_BYTES_MAX`] bytes.
fn last_words(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let begin = file.metadata()?.len().saturating_sub(WORDS_BYTES_MAX);
    file.seek(SeekFrom::Start(begin))?;
    let mut words = Vec::new();
    file.take(WORDS_BYTES_MAX).read_to_end(&mut words)?;
    Ok(String::from_utf8_lossy(&words).into_owned())
}

/// Starts `vostok lab` in a process group of its own: Ctrl-C ends the console first, which ends the run.
fn spawn(directory: &Path, arguments: &[String]) -> io::Result<Child> {
    fs::create_dir_all(directory)?;
    let log = File::create_new(directory.join(LOG))?;
    let program = std::env::current_exe()?;
    if !program.exists() {
        return Err(io::Error::other("the program's file was replaced; restart the console"));
    }
    Command::new(program)
        .args(arguments)
        .arg("--out")
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // A service manager is to hear of the console's process alone.
        .env_remove("NOTIFY_SOCKET")
        .process_group(0)
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Lang;

    fn until(holds: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(120);
        while !holds() {
            assert!(Instant::now() < end, "not within two minutes");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn forms_become_arguments_of_the_lab() {
        let of = |form: &str| arguments(&Fields::parse(form));
        let kill = of("kind=kill&threads=8&rounds=2&duration=9").unwrap().join(" ");
        assert_eq!(kill, "lab failover --local 1m2s --fault leader-kill --threads 8 --size 1024 --rounds 2");
        let partition = of("kind=partition").unwrap().join(" ");
        assert!(
            partition.starts_with("lab failover --local 1m2s --fault partition --threads 64"),
            "{partition}"
        );
        let sync = of("kind=sync&size=16").unwrap().join(" ");
        assert_eq!(sync, "lab modes --local 2m2s --repl sync --threads 64 --size 16 --duration 30");
        for wrong in
            ["", "kind=%2Dx", "kind=kill&threads=0", "kind=kill&threads=--out", "kind=sync&duration=3601"]
        {
            assert_eq!(of(wrong).unwrap_err().status, StatusCode::BAD_REQUEST, "{wrong}");
        }
    }

    #[test]
    fn the_form_is_in_chinese_too() {
        let texts = KINDS.iter().map(|kind| kind.text).chain(FIGURES.iter().map(|figure| figure.text));
        for text in texts {
            assert_ne!(Lang::Zh.say(text), text);
        }
    }

    #[test]
    fn the_end_of_a_run_is_told() {
        let home = tempfile::tempdir().unwrap();
        let lab = Lab::default();
        assert_eq!(lab.state(), Value::Null);
        // This test as the program: an argument that it does not know ends it with a message.
        fs::create_dir_all(home.path().join("one/cluster/broker-a")).unwrap();
        lab.start(&home.path().join("one"), &["--no-such-flag".to_owned()]).unwrap();
        until(|| lab.state()["goes_on"] == false);
        let state = lab.state();
        assert!(state["run"] == "one" && state["outcome"].to_string().contains("exit status"), "{state}");
        assert!(state["words"].to_string().contains("no-such-flag"), "{state}");
        until(|| !home.path().join("one/cluster").exists());
        assert_eq!(
            lab.start(&home.path().join("one"), &[]).unwrap_err().status,
            StatusCode::INTERNAL_SERVER_ERROR
        );
    }
}
