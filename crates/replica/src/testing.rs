//! Conversations as text: a script holds events, and below each the exact actions that follow.
//!
//! ```text
//! # What is tested.
//! @250 report 1 0
//!   Send { .. }
//! ```
//!
//! With `REWRITE=1` in the environment a script that differs is written anew, to be read before it is committed.

use std::fmt::Debug;
use std::path::PathBuf;

/// Runs a script of `crates/replica/src` line by line, and fails if the actions differ from the script.
pub(crate) fn check<A: Debug>(path: &str, mut step: impl FnMut(u64, &[&str], &mut Vec<A>)) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
    let script = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut found = String::new();
    for line in script.lines() {
        if line.starts_with("  ") {
            continue;
        }
        found.push_str(line);
        found.push('\n');
        let Some(event) = line.strip_prefix('@') else { continue };
        let words: Vec<&str> = event.split(' ').collect();
        let now_ms = words[0].parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut actions = Vec::new();
        step(now_ms, &words[1..], &mut actions);
        for action in actions {
            found.push_str(&format!("  {action:?}\n"));
        }
    }
    if found != script && std::env::var_os("REWRITE").is_some() {
        std::fs::write(&file, &found).expect("the script can be written");
    } else {
        assert_eq!(found, script, "{}", file.display());
    }
}

/// A number of a script.
pub(crate) fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|error| panic!("{word}: {error}"))
}

/// A log offset of a script.
pub(crate) fn offset(word: &str) -> wire::units::LogOffset {
    wire::units::LogOffset::new(number(word))
}
