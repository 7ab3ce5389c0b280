//! Kills and power cuts under load, and what is left of the messages afterwards.
//!
//! ```text
//! crash kill9    [--rounds N] [--seed S] [--binary PATH]
//! crash powercut [--cuts N]   [--seed S] [--binary PATH]
//! ```
//! The server is the one that was built with this program, unless `--binary` names another. Power cuts switch its planted bugs on, one
//! after the other; a server without them, as it is shipped, is cut all the same.
//!
//! Each prints what it did and ends with `name: N passed, N failed, N skipped`; the exit code is zero only when nothing
//! failed. A failing run prints the line that repeats it.

#[path = "../../common/mod.rs"]
mod common;
mod derived;
mod kill9;
mod kind;
mod later;
mod life;
mod powercut;
mod round;

use std::path::PathBuf;
use std::process::ExitCode;

/// What the command line says.
struct Options {
    rounds: u64,
    seed: u64,
    binary: PathBuf,
}

/// What a run came to.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let mut options = Options {
        rounds: if name == "powercut" { 100 } else { 200 },
        seed: seed_of_now(),
        binary: common::server::built_binary(),
    };
    while let Some(flag) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| usage(&format!("{flag} needs a value")));
        let number =
            || value.parse().unwrap_or_else(|_| usage(&format!("{flag} {value}: expected a number")));
        match flag.as_str() {
            "--rounds" | "--cuts" => options.rounds = number(),
            "--seed" => options.seed = number(),
            "--binary" => options.binary = PathBuf::from(&value),
            _ => usage(&format!("unknown flag {flag}")),
        }
    }
    let tally = match name.as_str() {
        "kill9" => kill9::run(&options),
        "powercut" => powercut::run(&options),
        _ => usage("expected kill9 or powercut"),
    };
    println!("{name}: {} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage(why: &str) -> ! {
    eprintln!("crash: {why}\nusage: crash kill9|powercut [--rounds N] [--cuts N] [--seed S] [--binary PATH]");
    std::process::exit(2)
}

fn seed_of_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_millis() as u64)
}
