//! Derived files equal a rebuild from the log (P11): they are set aside, built again by the server, and compared.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::common::disk::files;
use crate::common::server::{Server, Setup};
use crate::round::TOPIC;

/// What the log alone decides.
const DERIVED: [&str; 1] = ["consumequeue"];
/// What goes with it, and is not compared: its numbers are times of the run.
const HINTS: [&str; 1] = ["checkpoint"];
const TEXTS_MAX: usize = 5;

/// Stops `server`, has it rebuild its derived files and compares them with what they were; what differs.
pub fn compare(server: Server, aside: &Path) -> io::Result<Vec<String>> {
    let setup = server.setup().clone();
    stop(server)?;
    fs::create_dir_all(aside)?;
    for name in DERIVED.iter().chain(&HINTS) {
        let path = setup.data.join(name);
        if path.exists() {
            fs::rename(&path, aside.join(name))?;
        }
    }
    stop(setup.start()?)?;
    let wrong = DERIVED.iter().flat_map(|name| differences(&aside.join(name), &setup, name)).collect();
    fs::remove_dir_all(aside)?;
    Ok(wrong)
}

fn stop(server: Server) -> io::Result<()> {
    let status = server.terminate();
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("a clean stop ended with {status}"))) }
}

fn differences(before: &Path, setup: &Setup, name: &str) -> Vec<String> {
    let after = setup.data.join(name);
    let (old, new) = (relative(before), relative(&after));
    let mut wrong = Vec::new();
    for path in old.iter().filter(|path| !new.contains(path)) {
        wrong.push(format!("P11 {name}/{} is not there after a rebuild", path.display()));
    }
    for path in &new {
        match (fs::read(before.join(path)), fs::read(after.join(path))) {
            (Ok(old), Ok(new)) if old == new || (delivers(path) && has_grown(&old, &new)) => {}
            (Ok(old), Ok(new)) => {
                let at = old
                    .iter()
                    .zip(&new)
                    .position(|(old, new)| old != new)
                    .unwrap_or(old.len().min(new.len()));
                let path = path.display();
                wrong.push(format!("P11 {name}/{path} differs from a rebuild at byte {at} of {}", new.len()));
            }
            (Err(_), _) if delivers(path) => {}
            (Err(_), _) => wrong.push(format!("P11 {name}/{} is there only after a rebuild", path.display())),
            (_, Err(error)) => wrong.push(format!("P11 {name}/{}: {error}", path.display())),
        }
    }
    wrong.truncate(TEXTS_MAX);
    wrong
}

/// Whether the server itself appends to the queue of this file: it delivers delayed messages as soon as it serves.
fn delivers(path: &Path) -> bool {
    !path.starts_with(TOPIC)
}

/// Whether `new` is `old` with more units where `old` has none yet.
fn has_grown(old: &[u8], new: &[u8]) -> bool {
    let used = old.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    old.len() == new.len() && old[..used] == new[..used]
}

fn relative(directory: &Path) -> Vec<PathBuf> {
    let strip = |path: PathBuf| path.strip_prefix(directory).map(Path::to_path_buf).unwrap_or(path);
    files(directory).into_iter().map(strip).collect()
}
