//! A log file of bounded size with a bounded number of compressed older ones beside it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use flate2::Compression;
use flate2::write::GzEncoder;

/// A file that begins anew when a line would make it too large. As RocketMQ's logback settings name them, older files are
/// `otherdays/NAME.1.log.gz`, the newest, and so on.
pub(super) struct RotatedFile {
    path: PathBuf,
    older: OlderFiles,
    file: Option<File>,
    bytes: u64,
    bytes_max: u64,
    compressing: Option<JoinHandle<()>>,
}

impl RotatedFile {
    /// The file `name` in `directory`, which is not opened yet.
    pub fn new(directory: &Path, name: &str, bytes_max: u64, kept: u32) -> Self {
        let stem = directory.join("otherdays").join(name.trim_end_matches(".log"));
        let older = OlderFiles { stem: stem.to_string_lossy().into_owned(), kept };
        Self { path: directory.join(name), older, file: None, bytes: 0, bytes_max, compressing: None }
    }

    /// Opens the file for appending, unless it is open.
    pub fn open(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            self.bytes = file.metadata()?.len();
            self.file = Some(file);
            if self.compressing.is_none() && Path::new(&self.older.set_aside()).exists() {
                // The process ended before it was compressed.
                self.compress()?;
            }
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Appends a line.
    pub fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.open()?;
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max {
            // When that fails, lines go on in the same file, and the next attempt comes after as many bytes again.
            self.bytes = 0;
            self.rotate()?;
        }
        self.open()?.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(line.len())
    }

    /// Renames the full file, so that it can be compressed.
    fn rotate(&mut self) -> io::Result<()> {
        self.finish();
        fs::rename(&self.path, self.older.set_aside())?;
        self.file = None;
        self.compress()
    }

    /// Compresses the renamed file on a thread of its own.
    fn compress(&mut self) -> io::Result<()> {
        let older = self.older.clone();
        let thread = std::thread::Builder::new().name("log-rotation".to_owned());
        let compress = move || {
            if let Err(error) = older.compress() {
                // The log itself is of no use here: its writer may be waiting for this thread.
                let _ = writeln!(io::stderr(), "vostok: an older log file cannot be compressed: {error}");
            }
        };
        self.compressing = Some(thread.spawn(compress)?);
        Ok(())
    }

    /// Waits until the last renamed file is compressed.
    fn finish(&mut self) {
        if let Some(thread) = self.compressing.take() {
            // A panic was printed by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Drop for RotatedFile {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The older files of one log file.
#[derive(Clone)]
struct OlderFiles {
    /// Their path without number and ending.
    stem: String,
    /// Largest number of older files.
    kept: u32,
}

impl OlderFiles {
    /// Path of the renamed file until it is compressed.
    fn set_aside(&self) -> String {
        format!("{}.log.tmp", self.stem)
    }

    fn numbered(&self, number: u32) -> String {
        format!("{}.{number}.log.gz", self.stem)
    }

    /// Compresses the renamed file into number 1. The older files move up by one, and the last one is removed.
    fn compress(&self) -> io::Result<()> {
        let (plain, compressed) = (self.set_aside(), format!("{}.log.gz.tmp", self.stem));
        let mut encoder = GzEncoder::new(File::create(&compressed)?, Compression::default());
        io::copy(&mut File::open(&plain)?, &mut encoder)?;
        encoder.finish()?;
        for number in (1..self.kept).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(compressed, self.numbered(1))?;
        fs::remove_file(plain)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn file(directory: &Path, bytes_max: u64, kept: u32) -> RotatedFile {
        fs::create_dir_all(directory.join("otherdays")).unwrap();
        RotatedFile::new(directory, "store.log", bytes_max, kept)
    }

    fn plain(directory: &Path) -> String {
        fs::read_to_string(directory.join("store.log")).unwrap()
    }

    fn older(directory: &Path, number: u32) -> Option<String> {
        let path = directory.join(format!("otherdays/store.{number}.log.gz"));
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(path).ok()?).read_to_string(&mut text).unwrap();
        Some(text)
    }

    #[test]
    fn a_full_file_begins_anew_and_only_some_older_ones_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let mut written = file(directory.path(), 10, 2);
        for letter in b'a'..=b'e' {
            written.write(&[letter; 8]).unwrap();
        }
        drop(written);
        assert_eq!(plain(directory.path()), "eeeeeeee");
        let found = [1, 2, 3].map(|number| older(directory.path(), number));
        assert_eq!(found, [Some("dddddddd".to_owned()), Some("cccccccc".to_owned()), None]);
        let left = fs::read_dir(directory.path().join("otherdays")).unwrap().count();
        assert_eq!(left, 2, "nothing else stays");
    }

    #[test]
    fn a_start_appends_to_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        for _ in 0..3 {
            file(directory.path(), 10, 2).write(b"12345").unwrap();
        }
        assert_eq!(plain(directory.path()), "12345");
        assert_eq!(older(directory.path(), 1).unwrap(), "1234512345");
    }

    #[test]
    fn a_start_compresses_what_an_earlier_process_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let mut written = file(directory.path(), 10, 2);
        fs::write(directory.path().join("otherdays/store.log.tmp"), "left").unwrap();
        written.write(b"new").unwrap();
        drop(written);
        assert_eq!(
            (plain(directory.path()), older(directory.path(), 1)),
            ("new".to_owned(), Some("left".to_owned()))
        );
    }

    #[test]
    fn a_line_above_the_limit_is_written_whole() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(file(directory.path(), 4, 1).write(b"123456789").unwrap(), 9);
        assert_eq!(plain(directory.path()), "123456789");
    }

    #[test]
    fn a_file_that_cannot_be_set_aside_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let mut written = file(directory.path(), 10, 2);
        written.write(b"12345678").unwrap();
        fs::remove_dir(directory.path().join("otherdays")).unwrap();
        assert!(written.write(b"abcdefgh").is_err());
        written.write(b"ABC").unwrap();
        drop(written);
        assert_eq!(plain(directory.path()), "12345678ABC");
    }
}
