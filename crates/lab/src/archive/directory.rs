//! The directories of a run and their files.

use super::histograms::{END_TO_END, Histograms, Interval, LATE, SEND_LATENCY, read_histograms};
use super::rows::{Rows, read_rows};
use super::{
    BrokerSecond, Cell, Event, Factors, HostSecond, LoadSecond, Record, RecordedCell, Repeat, Round, RunFile,
};
use crate::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The directory of a run.
#[derive(Clone, Debug)]
pub struct Archive {
    root: PathBuf,
}

/// The directory of a cell.
#[derive(Clone, Debug)]
pub struct CellDirectory {
    path: PathBuf,
}

/// The directory of one repeat of a cell.
#[derive(Clone, Debug)]
pub struct RepeatDirectory {
    path: PathBuf,
}

/// The directory of a run from what a user typed: the directory itself, or a file in it such as `run.json` or
/// `report.json`.
///
/// # Errors
/// Never fails. Opening the directory shows whether it holds a run.
pub(crate) fn run_directory(named: &str) -> Result<PathBuf, std::convert::Infallible> {
    let path = Path::new(named);
    Ok(match path.parent().filter(|_| path.is_file()) {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    })
}

impl Archive {
    /// Creates the directory of a new run, with its `run.json`.
    ///
    /// # Errors
    /// [`Error::File`] when the directory holds a run already, or cannot be written.
    pub fn create(root: &Path, run: &RunFile) -> Result<Self, Error> {
        let archive = Self { root: root.to_owned() };
        if archive.run_path().exists() {
            let source = io::Error::other("a run is here already; resume it, or name another directory");
            return Err(Error::File { path: root.to_owned(), source });
        }
        make(&root.join("cells"))?;
        archive.save(run)?;
        Ok(archive)
    }

    /// Opens the directory of an existing run.
    ///
    /// # Errors
    /// [`Error::File`] when the directory holds no run.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let archive = Self { root: root.to_owned() };
        if !archive.run_path().exists() {
            let why = "expected the directory of a run (what --out named), found no run.json in it";
            return Err(Error::File { path: root.to_owned(), source: io::Error::other(why) });
        }
        archive.run()?;
        Ok(archive)
    }

    /// The path of the run's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be read.
    pub fn run(&self) -> Result<RunFile, Error> {
        read_json(&self.run_path())
    }

    /// Writes `run.json`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn save(&self, run: &RunFile) -> Result<(), Error> {
        write_json(&self.run_path(), run)
    }

    /// The directory of the cell with this number, counted from 1. An existing directory is found by its number alone,
    /// because earlier versions of the lab put fewer factors into its name.
    pub fn cell(&self, number: u32, factors: &Factors) -> CellDirectory {
        let (cells, prefix) = (self.root.join("cells"), format!("{number:03}-"));
        let begins = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&prefix);
        let found = std::fs::read_dir(&cells).ok().and_then(|entries| entries.flatten().find(begins));
        CellDirectory { path: found.map_or_else(|| cells.join(factors.name(number)), |entry| entry.path()) }
    }

    /// The cells that have any data, finished or not, by number, with their directories.
    ///
    /// # Errors
    /// [`Error::File`] when `run.json` or a `cell.json` cannot be read.
    pub fn cells(&self) -> Result<Vec<(Cell, CellDirectory)>, Error> {
        let mut found = Vec::new();
        for (number, factors) in (1..).zip(&self.run()?.cells) {
            let directory = self.cell(number, factors);
            let cell = if directory.is_finished() {
                Some(directory.read()?)
            } else {
                directory.read_partial()?.filter(|cell| cell.repeats > 0)
            };
            found.extend(cell.map(|cell| (cell, directory)));
        }
        Ok(found)
    }

    /// Reads the whole run with everything that was recorded.
    ///
    /// # Errors
    /// [`Error::File`] when a file cannot be read.
    pub fn record(&self) -> Result<Record, Error> {
        let cells = self.cells()?.into_iter().map(|(cell, directory)| directory.recorded(cell));
        Ok(Record { file: self.run()?, cells: cells.collect::<Result<_, Error>>()? })
    }

    fn run_path(&self) -> PathBuf {
        self.root.join("run.json")
    }
}

impl CellDirectory {
    /// The path of the cell's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of the cell's directory, the same as in [`Cell::name`].
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether all repeats of the cell are finished.
    pub fn is_finished(&self) -> bool {
        self.path.join("cell.json").exists()
    }

    /// Reads `cell.json`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be read.
    pub fn read(&self) -> Result<Cell, Error> {
        read_json(&self.path.join("cell.json"))
    }

    /// Reads the finished cell with all its series.
    ///
    /// # Errors
    /// [`Error::File`] when the cell is not finished, or a file cannot be read.
    pub fn record(&self) -> Result<RecordedCell, Error> {
        self.recorded(self.read()?)
    }

    fn recorded(&self, cell: Cell) -> Result<RecordedCell, Error> {
        let repeats = (1..=cell.repeats).map(|number| self.repeat(number).read());
        Ok(RecordedCell { repeats: repeats.collect::<Result<_, Error>>()?, cell })
    }

    /// Writes `cell.json`, which marks the cell as finished.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn finish(&self, cell: &Cell) -> Result<(), Error> {
        write_json(&self.path.join("cell.json"), cell)?;
        match std::fs::remove_file(self.partial_path()) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::File { path: self.partial_path(), source })
            }
            _ => Ok(()),
        }
    }

    /// Reads `cell.partial.json`, which lists the finished repeats of an unfinished cell; `None` when there is no such
    /// file.
    ///
    /// # Errors
    /// [`Error::File`] when the file exists but cannot be read.
    pub fn read_partial(&self) -> Result<Option<Cell>, Error> {
        let path = self.partial_path();
        if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
    }

    /// Writes `cell.partial.json`, which lists the finished repeats of an unfinished cell.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn save_partial(&self, cell: &Cell) -> Result<(), Error> {
        make(&self.path)?;
        write_json(&self.partial_path(), cell)
    }

    /// The directory of repeat `number`, counted from 1.
    pub fn repeat(&self, number: u32) -> RepeatDirectory {
        RepeatDirectory { path: self.path.join(number.to_string()) }
    }

    fn partial_path(&self) -> PathBuf {
        self.path.join("cell.partial.json")
    }
}

impl RepeatDirectory {
    /// Creates the repeat's directory, empty.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn begin(&self) -> Result<(), Error> {
        self.remove()?;
        make(&self.path)
    }

    fn remove(&self) -> Result<(), Error> {
        match std::fs::remove_dir_all(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::File { path: self.path.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Renames the repeat's directory, for example `1` to `1-ended-early`, so that the repeat can be run again and
    /// people can still look at it. A directory that was put aside earlier is removed.
    ///
    /// # Errors
    /// [`Error::File`] when the directory cannot be moved.
    pub fn put_aside(&self) -> Result<(), Error> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push("-ended-early");
        let aside = Self { path: self.path.with_file_name(name) };
        aside.remove()?;
        match std::fs::rename(&self.path, &aside.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::File { path: self.path.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Reads all files of the repeat.
    ///
    /// # Errors
    /// [`Error::File`] when a file cannot be read.
    pub fn read(&self) -> Result<Repeat, Error> {
        let plain = |log: Vec<Interval>| {
            log.into_iter().map(|interval| (interval.at_ms, interval.latencies)).collect()
        };
        let mut events = self.events()?;
        // An event that lasts is written when it ends, with the time at which it began.
        events.sort_by_key(|event| event.at_ms);
        Ok(Repeat {
            load: self.load()?,
            latency: plain(self.histograms(SEND_LATENCY)?),
            end_to_end: plain(self.histograms(END_TO_END)?),
            late: plain(self.histograms(LATE)?),
            hosts: self.hosts()?,
            brokers: self.brokers()?,
            events,
            round: self.round()?,
        })
    }

    /// The path of the repeat's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads `load.csv`, one row per second.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be read.
    pub fn load(&self) -> Result<Vec<LoadSecond>, Error> {
        read_rows(&self.path.join("load.csv"))
    }

    /// Creates `load.csv`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn write_load(&self) -> Result<Rows<LoadSecond>, Error> {
        Rows::create(&self.path.join("load.csv"), |row| row.at_ms)
    }

    /// Reads `NAME.hlog`: a histogram per second, of [`SEND_LATENCY`], [`END_TO_END`] or [`LATE`].
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be read.
    pub fn histograms(&self, name: &str) -> Result<Vec<Interval>, Error> {
        read_histograms(&self.path.join(format!("{name}.hlog")))
    }

    /// Creates `NAME.hlog`, as [`Self::histograms`] reads it.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn write_histograms(&self, name: &str) -> Result<Histograms, Error> {
        Histograms::create(&self.path.join(format!("{name}.hlog")))
    }

    /// Reads the `host-NAME.csv` files: the rows of each machine, by the machine's name.
    ///
    /// # Errors
    /// [`Error::File`] when a file cannot be read.
    pub fn hosts(&self) -> Result<BTreeMap<String, Vec<HostSecond>>, Error> {
        self.named("host-")
    }

    /// Creates `host-NAME.csv` for the rows of a machine.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn write_host(&self, name: &str) -> Result<Rows<HostSecond>, Error> {
        Rows::create(&self.path.join(format!("host-{}.csv", plain(name))), |row| row.at_ms)
    }

    /// Reads the `broker-NAME.csv` files: the rows of each broker, by the broker's name.
    ///
    /// # Errors
    /// [`Error::File`] when a file cannot be read.
    pub fn brokers(&self) -> Result<BTreeMap<String, Vec<BrokerSecond>>, Error> {
        self.named("broker-")
    }

    /// Creates `broker-NAME.csv` for the rows of a broker.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn write_broker(&self, name: &str) -> Result<Rows<BrokerSecond>, Error> {
        Rows::create(&self.path.join(format!("broker-{}.csv", plain(name))), |row| row.at_ms)
    }

    /// Reads `events.csv`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be read.
    pub fn events(&self) -> Result<Vec<Event>, Error> {
        read_rows(&self.path.join("events.csv"))
    }

    /// Creates `events.csv`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn write_events(&self) -> Result<Rows<Event>, Error> {
        Rows::create(&self.path.join("events.csv"), |row| row.at_ms)
    }

    /// Reads `round.json`; `None` when there is no such file.
    ///
    /// # Errors
    /// [`Error::File`] when the file exists but cannot be read.
    pub fn round(&self) -> Result<Option<Round>, Error> {
        let path = self.path.join("round.json");
        if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
    }

    /// Writes `round.json`.
    ///
    /// # Errors
    /// [`Error::File`] when the file cannot be written.
    pub fn write_round(&self, round: &Round) -> Result<(), Error> {
        write_json(&self.path.join("round.json"), round)
    }

    fn named<T: DeserializeOwned>(&self, prefix: &str) -> Result<BTreeMap<String, Vec<T>>, Error> {
        let failed = |source| Error::File { path: self.path.clone(), source };
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let file = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            let name = file.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".csv"));
            if let Some(name) = name {
                found.insert(name.to_owned(), read_rows(&self.path.join(&file))?);
            }
        }
        Ok(found)
    }
}

/// Replaces the characters of a name that do not belong in a file name.
pub(crate) fn plain(name: &str) -> String {
    name.chars()
        .map(|letter| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '_' })
        .collect()
}

fn make(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = std::fs::read(path);
    let read = text.and_then(|text| serde_json::from_slice(&text).map_err(io::Error::other));
    read.map_err(|source| Error::File { path: path.to_owned(), source })
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).expect("texts and numbers become JSON") + "\n";
    write_whole(path, &text)
}

/// Writes a file atomically: the text goes to a second file, which is renamed to `path` once it is on disk. A path that
/// is no regular file, such as `/dev/stdout`, is written directly.
///
/// # Errors
/// [`Error::File`] when the file cannot be written.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    // A symbolic link is followed, so that its target is replaced and not the link.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_special = target.metadata().is_ok_and(|found| !found.is_file());
    let written = if is_special { std::fs::write(&target, text) } else { replace(&target, text) };
    written.map_err(|source| Error::File { path: path.to_owned(), source })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    let written = write();
    if written.is_err() {
        // The temporary file is useless now. The error of the write is what is returned, not one of the removal.
        let _ = std::fs::remove_file(&beside);
    }
    written
}
