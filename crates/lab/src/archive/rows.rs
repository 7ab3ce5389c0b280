//! CSV files with one row per second.

use crate::Error;
use client::calendar;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A CSV file to which rows are appended. A row is in the file when [`Rows::append`] returns, so an interrupted run
/// keeps its figures.
#[derive(Debug)]
pub struct Rows<T> {
    writer: csv::Writer<File>,
    path: PathBuf,
    /// Returns the time of a row, milliseconds since 1970.
    at_ms: fn(&T) -> u64,
}

/// The first column of every row: its time as ISO 8601.
#[derive(Serialize)]
struct Moment {
    at: String,
}

impl<T: Serialize> Rows<T> {
    /// Creates the file and replaces an existing one. `at_ms` returns the time of a row, which the first column shows.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn create(path: &Path, at_ms: fn(&T) -> u64) -> Result<Self, Error> {
        let writer = csv::Writer::from_path(path).map_err(|error| unusable(path, error))?;
        Ok(Self { writer, path: path.to_owned(), at_ms })
    }

    /// Appends a row. The first row is preceded by a line of column names.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn append(&mut self, row: &T) -> Result<(), Error> {
        let moment = Moment { at: calendar::utc((self.at_ms)(row), "%Y-%m-%dT%H:%M:%S.%3fZ") };
        let written = self.writer.serialize((moment, row)).and_then(|()| Ok(self.writer.flush()?));
        written.map_err(|error| unusable(&self.path, error))
    }
}

/// Reads all rows of a file; an absent file gives none. An incomplete last line, left by a kill, is ignored.
///
/// # Errors
/// [`Error::File`] when the file cannot be read, or a line other than the last has other columns or no numbers.
pub fn read_rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).map_err(|error| unusable(path, error))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let mut reader = csv::Reader::from_reader(whole.as_bytes());
    reader.deserialize().collect::<Result<_, _>>().map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::File { path: path.to_owned(), source: io::Error::other(error) }
}
