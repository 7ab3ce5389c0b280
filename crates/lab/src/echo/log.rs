//! The file of the logging echo: preallocated, appended to by position.

use crate::Error;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Size of a file in bytes.
const FILE_BYTES: u64 = if cfg!(test) { 4096 } else { 1 << 30 };

/// The current file. The previous file is kept, the one before that is deleted.
#[derive(Debug)]
pub(super) struct Log {
    directory: PathBuf,
    number: u64,
    file: File,
    position: u64,
}

impl Log {
    /// Creates the directory and the first file.
    pub fn create(directory: &Path) -> Result<Self, Error> {
        let failed = |source| Error::File { path: directory.to_owned(), source };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let file = prepare(&path(directory, 0)).map_err(failed)?;
        Ok(Self { directory: directory.to_owned(), number: 0, file, position: 0 })
    }

    /// Appends bytes in one write.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        if self.position + length > FILE_BYTES {
            self.roll()?;
        }
        self.file.write_all_at(bytes, self.position)?;
        self.position += length;
        Ok(())
    }

    fn roll(&mut self) -> io::Result<()> {
        self.number += 1;
        self.file = prepare(&path(&self.directory, self.number))?;
        self.position = 0;
        match self.number.checked_sub(2) {
            Some(old) => std::fs::remove_file(path(&self.directory, old)),
            None => Ok(()),
        }
    }
}

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:08}.echo"))
}

fn prepare(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_roll_and_two_stay() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("log");
        let mut log = Log::create(&directory).unwrap();
        for _ in 0..10 {
            log.append(&[7; 1500]).unwrap();
        }
        let mut names: Vec<_> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["00000003.echo", "00000004.echo"]);
        assert_eq!(std::fs::read(directory.join("00000004.echo")).unwrap()[..3000], [7; 3000]);
    }
}
