//! File `auth_audit.log`: a line for each refused request with its sender and reason. Served requests have a
//! line only at level debug. At a size limit a new file begins, and the previous file is kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use client::calendar;
use parking_lot::Mutex;

/// Most bytes of the file.
const BYTES_MAX: u64 = if cfg!(test) { 1000 } else { 64 << 20 };

/// The audit log of a broker. The file is made with the first line.
pub(crate) struct AuditLog {
    path: PathBuf,
    /// The open file and its length.
    open: Mutex<Option<(File, u64)>>,
}

impl AuditLog {
    /// The log in a directory, which is made with the first line.
    pub fn new(directory: &Path) -> Self {
        Self { path: directory.join("auth_audit.log"), open: Mutex::default() }
    }

    /// Writes a line. If that fails, the line and the reason are written to the broker's log, and the next
    /// line is tried again.
    pub fn write(&self, now_ms: i64, line: &str) {
        let time = calendar::utc(u64::try_from(now_ms).unwrap_or_default(), "%Y-%m-%d %H:%M:%S.%3fZ");
        let mut open = self.open.lock();
        if let Err(error) = self.append(&mut open, &format!("{time} {line}\n")) {
            *open = None;
            tracing::warn!(%error, path = %self.path.display(), line, "a line of the audit log is not written");
        }
    }

    fn append(&self, open: &mut Option<(File, u64)>, line: &str) -> io::Result<()> {
        let length = line.len() as u64;
        if open.as_ref().is_some_and(|(_, bytes)| bytes + length > BYTES_MAX) {
            *open = None;
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        if open.is_none() {
            fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            let bytes = file.metadata()?.len();
            *open = Some((file, bytes));
        }
        let Some((file, bytes)) = open else { return Ok(()) };
        *bytes += length;
        file.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_file_is_for_its_owner_and_begins_anew_at_the_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs");
        for line in ["first", "second", &"third".repeat(120)] {
            AuditLog::new(&path).write(0, "opened again");
            AuditLog::new(&path).write(0, line);
        }
        let log = AuditLog::new(&path);
        log.write(0, &"x".repeat(600));
        log.write(0, &"y".repeat(600));
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
        assert!(read("auth_audit.log").ends_with(&format!("{}\n", "y".repeat(600))));
        assert!(read("auth_audit.log.1").contains("first\n") && read("auth_audit.log.1").contains("xxx"));
        assert!(!read("auth_audit.log").contains('x'));
        assert_eq!(fs::metadata(path.join("auth_audit.log")).unwrap().mode() & 0o777, 0o600);
    }
}
