//! File `auth_audit.log`: a line for each refused request with its sender and reason. Served requests have a line
//! only at level debug. At a size bound the file starts anew, and the previous file is kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

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

    /// Whether served requests have a line, too.
    pub fn is_detailed() -> bool {
        tracing::enabled!(target: "auth_audit", tracing::Level::DEBUG)
    }

    /// Writes a line. If that fails, the line goes to the broker's log with the reason, and the next line is tried
    /// again.
    pub fn write(&self, now_ms: i64, line: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.append(&mut open, &format!("{} {line}\n", utc(now_ms))) {
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

/// A time in milliseconds since 1970 as date and time in UTC. Days are counted from March, so that leap days are the last of
/// their years, in eras of 400 years.
fn utc(ms: i64) -> String {
    let (seconds, millis) = (ms.div_euclid(1000), ms.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (year, hour, minute, second) =
        (era * 400 + year + carry, second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}Z")
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

    #[test]
    fn times_are_written_as_dates() {
        for (ms, expected) in [
            (0, "1970-01-01 00:00:00.000Z"),
            (951_782_400_000, "2000-02-29 00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29 23:59:59.999Z"),
            (1_735_689_600_001, "2025-01-01 00:00:00.001Z"),
        ] {
            assert_eq!(utc(ms), expected);
        }
    }
}
