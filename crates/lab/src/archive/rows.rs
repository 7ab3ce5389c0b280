//! CSV files of a row a second.

use crate::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// A CSV file that rows are added to. Every row is in the file when [`Rows::append`] returns, so that an interrupted
/// run keeps what it measured.
#[derive(Debug)]
pub struct Rows<T> {
    writer: csv::Writer<File>,
    path: PathBuf,
    row: PhantomData<fn(&T)>,
}

impl<T: Serialize> Rows<T> {
    /// Begins a file; what was there is replaced.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let writer = csv::Writer::from_path(path).map_err(|error| unusable(path, error))?;
        Ok(Self { writer, path: path.to_owned(), row: PhantomData })
    }

    /// Adds a row; the first brings the line of column names.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, row: &T) -> Result<(), Error> {
        let written = self.writer.serialize(row).and_then(|()| Ok(self.writer.flush()?));
        written.map_err(|error| unusable(&self.path, error))
    }
}

/// All rows of a file; none when it is not there. A last line that was cut by a kill is left out.
///
/// # Errors
/// The file cannot be read, or a line that is not the last has other columns or no numbers.
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
