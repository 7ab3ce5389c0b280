//! Garbage collection pauses of a Java process, from the JVM's unified log (JDK 9 and later).
//!
//! A JVM that writes no such log is asked by `jcmd` to write one. This needs the same user and changes nothing else.
//! The log is turned off again when the observation ends.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Reads the growth of a garbage collection log.
#[derive(Debug)]
pub struct Collector {
    file: File,
    /// The beginning of a line that is not complete yet.
    rest: String,
    /// Whether the log reports the length of every safepoint. Collections are part of these and are then not added.
    has_safepoints: bool,
    /// The process that was asked to write the log, and the path of the log.
    asked: Option<(i32, PathBuf)>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some((pid, path)) = &self.asked {
            // If the process or its log is gone, there is nothing to turn off.
            let _ = command(*pid, path, &["what=all=off"]);
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The pauses since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pauses {
    pub young: u64,
    pub full: u64,
    pub stopped_ms: f64,
    pub longest_ms: f64,
}

impl Pauses {
    fn add(&mut self, stopped_ms: f64) {
        self.stopped_ms += stopped_ms;
        self.longest_ms = self.longest_ms.max(stopped_ms);
    }
}

impl Collector {
    /// Watches the garbage collection of a process, by the given log or by one that the JVM is asked to write; `None`
    /// when neither is possible.
    pub fn of(pid: Option<i32>, log: Option<&Path>) -> Option<Self> {
        let (path, asked) = match log {
            Some(path) => (path.to_owned(), None),
            None => {
                let path = ask(pid?)?;
                (path.clone(), Some((pid?, path)))
            }
        };
        let mut file = File::open(path).ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self { file, rest: String::new(), has_safepoints: false, asked })
    }

    /// Returns the pauses since the last call.
    pub(super) fn take(&mut self) -> Pauses {
        let mut bytes = Vec::new();
        // A log that can no longer be read has nothing new.
        let _ = self.file.read_to_end(&mut bytes);
        self.rest.push_str(&String::from_utf8_lossy(&bytes));
        let whole = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(whole);
        let text = std::mem::replace(&mut self.rest, rest);
        self.has_safepoints |= text.contains("Safepoint \"");
        read(&text, self.has_safepoints)
    }
}

/// Asks a JVM to write its log from now on. Only a JVM may be asked, because `jcmd` sends a signal that ends other
/// processes.
fn ask(pid: i32) -> Option<PathBuf> {
    if !is_java(pid) {
        return None;
    }
    let path = std::env::temp_dir().join(format!("vostok-lab-gc-{pid}-{}.log", std::process::id()));
    let wanted = ["output_options=filesize=0", "what=gc=info,safepoint=info", "decorators=uptime,tags"];
    command(pid, &path, &wanted).filter(|()| path.exists()).map(|()| path)
}

/// Whether a process has loaded a Java virtual machine.
pub(super) fn is_java(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("/libjvm.so"))
}

/// Changes the log configuration of a JVM by `jcmd`; `None` when the JVM cannot be reached.
fn command(pid: i32, path: &Path, words: &[&str]) -> Option<()> {
    let asked = Command::new("jcmd")
        .args([&pid.to_string(), "VM.log", &format!("output=file={}", path.display())])
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.ok().filter(|status| status.success()).map(|_| ())
}

/// Reads lines such as `[8.1s][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(64M) 3.456ms` and
/// `[8.1s][safepoint] Safepoint "G1CollectForAllocation", Time since last: 1 ns, ..., Total: 345678 ns`.
pub(super) fn read(text: &str, has_safepoints: bool) -> Pauses {
    let mut pauses = Pauses::default();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Safepoint \"") {
            let total = rest.rsplit_once("Total: ").and_then(|(_, text)| text.split(' ').next());
            pauses.add(total.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 1e6);
        } else if let Some((_, rest)) = line.split_once(" Pause ")
            && let Some(time) = rest.strip_suffix("ms").and_then(|rest| rest.rsplit(' ').next())
        {
            if rest.starts_with("Full") {
                pauses.full += 1;
            } else if rest.starts_with("Young") {
                pauses.young += 1;
            }
            if !has_safepoints {
                pauses.add(time.parse().unwrap_or(0.0));
            }
        }
    }
    pauses
}
