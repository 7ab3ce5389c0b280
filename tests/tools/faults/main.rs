//! One fault of the disk or the machine at a time, and what the broker does with it.
//!
//! ```text
//! faults [--only NAME] [--binary PATH]
//! ```
//! The server is the one that was built with this program, unless `--binary` names another.
//!
//! Needs root, loop devices and nbdkit; a case that is not possible here says so and counts as skipped. Ends with
//! `faults: N passed, N failed, N skipped`.

mod bench;
#[path = "../../common/mod.rs"]
mod common;
mod errors;
mod full;
mod limits;
mod slow;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use bench::Trouble;

/// What the command line says.
pub struct Options {
    only: Option<String>,
    binary: PathBuf,
}

/// A case: what was seen, for people, or why it failed or could not be run.
type Case = fn(&Options) -> Result<String, Trouble>;

const CASES: [(&str, Case); 13] = [
    ("full-ext4", full::ext4),
    ("full-tmpfs", full::tmpfs),
    ("full-config", full::config),
    ("error-of-a-flush", errors::of_a_flush),
    ("error-of-an-async-flush", errors::of_an_async_flush),
    ("error-of-a-read", errors::of_a_read),
    ("planted-retry-flush", errors::planted_retry),
    ("slow-disk", slow::slow),
    ("hanging-disk", slow::hanging),
    ("frozen-file-system", slow::frozen),
    ("file-descriptors", limits::file_descriptors),
    ("copied-folder", limits::copied_folder),
    ("deleted-derived-files", limits::deleted_derived_files),
];

fn main() -> ExitCode {
    let options = options();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, case) in
        CASES.iter().filter(|(name, _)| options.only.as_ref().is_none_or(|only| name.contains(only)))
    {
        let began = Instant::now();
        match case(&options) {
            Ok(seen) => {
                passed += 1;
                println!("faults: {name} ({:.1} s): {seen}", began.elapsed().as_secs_f64());
            }
            Err(Trouble::Impossible(why)) => {
                skipped += 1;
                println!(
                    "SKIPPED, LOUDLY: {name} cannot be run on this machine and is NOT shown here: {why}"
                );
            }
            Err(Trouble::Failed(why)) => {
                failed += 1;
                println!("FAILED: {name} ({:.1} s): {why}", began.elapsed().as_secs_f64());
            }
        }
    }
    println!("faults: {passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options() -> Options {
    let mut options = Options { only: None, binary: common::server::built_binary() };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next();
        match (flag.as_str(), value) {
            ("--only", Some(name)) => options.only = Some(name),
            ("--binary", Some(path)) => options.binary = PathBuf::from(path),
            _ => {
                eprintln!("usage: faults [--only NAME] [--binary PATH]");
                std::process::exit(2)
            }
        }
    }
    options
}
