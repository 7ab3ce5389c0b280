//! The tools against the echo server, over real sockets: what is counted must be what was sent.

#![allow(clippy::unwrap_used, reason = "tests")]

mod early;
mod others;
mod producer;
mod report;
mod settings;

use std::time::{Duration, Instant};

use lab::command::Lab;
use lab::echo::{Echo, EchoOptions};

/// Starts an echo server on a free port and returns its address.
fn echo() -> String {
    let options = EchoOptions::local(4);
    let echo = Echo::bind(&options).unwrap();
    let address = echo.address().unwrap().to_string();
    std::thread::spawn(move || echo.serve());
    address
}

/// Runs a tool until no request failed, and returns the result: a request that is answered after three seconds has failed.
fn result_without_failures(line: &str) -> serde_json::Value {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let found = result(line);
        if found["failures"] == 0 {
            return found;
        }
        assert!(Instant::now() < end, "{line}: {found}");
    }
}

/// Runs a tool with `--json` and returns the result it wrote.
fn result(line: &str) -> serde_json::Value {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("result.json");
    let line = format!("{line} --json {}", file.display());
    lab::run(Lab::new(line.split_whitespace().map(str::to_owned))).unwrap();
    serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
}
