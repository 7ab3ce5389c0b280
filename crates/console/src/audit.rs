//! The audit log: every change and every login, with who, when, from where, what and outcome, one JSON object a line.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Lines that are kept in memory for the page.
const SHOWN: usize = 500;
/// Bytes from which on a new file is begun. The file before is kept.
const FILE_BYTES_MAX: u64 = 10 << 20;

/// A line of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub time: String,
    pub user: String,
    pub address: String,
    pub action: String,
    pub outcome: String,
}

/// The log: a file with mode 0600, and its last lines.
#[derive(Debug)]
pub(crate) struct Audit {
    file: PathBuf,
    lines: VecDeque<Value>,
}

impl Audit {
    /// Opens the log. The file may be missing.
    pub fn open(home: &Path) -> Self {
        let file = home.join("audit.log");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let last = text.lines().rev().take(SHOWN).filter_map(|line| serde_json::from_str(line).ok());
        Self { file, lines: last.collect() }
    }

    /// Writes a line. An action whose line cannot be written must not be performed.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        if let Some(directory) = self.file.parent() {
            std::fs::create_dir_all(directory)?;
        }
        if std::fs::metadata(&self.file).is_ok_and(|file| file.len() > FILE_BYTES_MAX) {
            std::fs::rename(&self.file, self.file.with_extension("log.1"))?;
        }
        let value = serde_json::to_value(line)?;
        let mut out = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&self.file)?;
        out.write_all(format!("{value}\n").as_bytes())?;
        self.lines.push_front(value);
        self.lines.truncate(SHOWN);
        Ok(())
    }

    /// The last lines, the newest first.
    pub fn lines(&self) -> impl Iterator<Item = &Value> {
        self.lines.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_in_a_file_and_read_again() {
        let home = tempfile::tempdir().unwrap();
        let mut audit = Audit::open(home.path());
        for outcome in ["done", "refused\nforged"] {
            let outcome = outcome.to_owned();
            let [time, user, address] = ["t", "alice", "127.0.0.1"].map(str::to_owned);
            audit.write(&Line { time, user, address, action: "topic create".into(), outcome }).unwrap();
        }
        let text = std::fs::read_to_string(home.path().join("audit.log")).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        let again = Audit::open(home.path());
        assert_eq!(again.lines().next().unwrap()["outcome"], "refused\nforged");
    }
}
