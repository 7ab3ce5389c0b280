//! The directories of a run and their files.

use super::histograms::{Histograms, Interval, read_histograms};
use super::rows::{Rows, read_rows};
use super::{
    BrokerSecond, Cell, Event, Factors, HostSecond, LoadSecond, Record, RecordedCell, Repeat, RunFile,
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

/// The directory of a run as people name it: by itself, or by a file in it such as `run.json` or `report.json`.
///
/// # Errors
/// None; who opens it sees whether a run is there.
pub(crate) fn run_directory(named: &str) -> Result<PathBuf, std::convert::Infallible> {
    let path = Path::new(named);
    Ok(match path.parent().filter(|_| path.is_file()) {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    })
}

impl Archive {
    /// Begins a run.
    ///
    /// # Errors
    /// There is a run already, or the directory cannot be written.
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

    /// Opens a run.
    ///
    /// # Errors
    /// The directory holds no run.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let archive = Self { root: root.to_owned() };
        if !archive.run_path().exists() {
            let why = "expected the directory of a run (what --out named), found no run.json in it";
            return Err(Error::File { path: root.to_owned(), source: io::Error::other(why) });
        }
        archive.run()?;
        Ok(archive)
    }

    /// The directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn run(&self) -> Result<RunFile, Error> {
        read_json(&self.run_path())
    }

    /// Writes `run.json`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, run: &RunFile) -> Result<(), Error> {
        write_json(&self.run_path(), run)
    }

    /// The directory of the cell with this number, counted from 1. Its number finds it: older labs named cells by less.
    #[must_use]
    pub fn cell(&self, number: u32, factors: &Factors) -> CellDirectory {
        let (cells, prefix) = (self.root.join("cells"), format!("{number:03}-"));
        let begins = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&prefix);
        let found = std::fs::read_dir(&cells).ok().and_then(|entries| entries.flatten().find(begins));
        CellDirectory { path: found.map_or_else(|| cells.join(factors.name(number)), |entry| entry.path()) }
    }

    /// The cells that hold anything by number, with their directories: those that are finished, and what there is of one
    /// that is not.
    ///
    /// # Errors
    /// `run.json` or a `cell.json` cannot be read.
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

    /// Reads the whole run: everything that is there.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn record(&self) -> Result<Record, Error> {
        let cells = self.cells()?.into_iter().map(|(cell, directory)| directory.recorded(cell));
        Ok(Record { file: self.run()?, cells: cells.collect::<Result<_, Error>>()? })
    }

    fn run_path(&self) -> PathBuf {
        self.root.join("run.json")
    }
}

impl CellDirectory {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name, the same as in [`Cell::name`].
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// True when all its repeats are there.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.path.join("cell.json").exists()
    }

    /// Reads `cell.json`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self) -> Result<Cell, Error> {
        read_json(&self.path.join("cell.json"))
    }

    /// Reads the cell with all its series.
    ///
    /// # Errors
    /// It is not finished, or a file cannot be read.
    pub fn record(&self) -> Result<RecordedCell, Error> {
        self.recorded(self.read()?)
    }

    fn recorded(&self, cell: Cell) -> Result<RecordedCell, Error> {
        let repeats = (1..=cell.repeats).map(|number| self.repeat(number).read());
        Ok(RecordedCell { repeats: repeats.collect::<Result<_, Error>>()?, cell })
    }

    /// Writes `cell.json`, which makes the cell a finished one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(&self, cell: &Cell) -> Result<(), Error> {
        write_json(&self.path.join("cell.json"), cell)?;
        match std::fs::remove_file(self.partial_path()) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::File { path: self.partial_path(), source })
            }
            _ => Ok(()),
        }
    }

    /// Reads what is known of a cell that is not finished: its finished repeats.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn read_partial(&self) -> Result<Option<Cell>, Error> {
        let path = self.partial_path();
        if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
    }

    /// Writes what is known of a cell that is not finished.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save_partial(&self, cell: &Cell) -> Result<(), Error> {
        make(&self.path)?;
        write_json(&self.partial_path(), cell)
    }

    /// The directory of repeat `number`, counted from 1.
    #[must_use]
    pub fn repeat(&self, number: u32) -> RepeatDirectory {
        RepeatDirectory { path: self.path.join(number.to_string()) }
    }

    fn partial_path(&self) -> PathBuf {
        self.path.join("cell.partial.json")
    }
}

impl RepeatDirectory {
    /// Makes it, empty.
    ///
    /// # Errors
    /// It cannot be written.
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

    /// Moves what is there out of the way, for people to look at: `1` becomes `1-ended-early`. What was moved before goes.
    ///
    /// # Errors
    /// It cannot be moved.
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

    /// Reads all its files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self) -> Result<Repeat, Error> {
        let plain = |log: Vec<Interval>| {
            log.into_iter().map(|interval| (interval.at_ms, interval.latencies)).collect()
        };
        let mut events = self.events()?;
        // What lasts is written when it is over, with the time that it began.
        events.sort_by_key(|event| event.at_ms);
        Ok(Repeat {
            load: self.load()?,
            latency: plain(self.latency()?),
            end_to_end: plain(self.end_to_end()?),
            late: plain(self.late()?),
            hosts: self.hosts()?,
            brokers: self.brokers()?,
            events,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The load, second by second.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(&self) -> Result<Vec<LoadSecond>, Error> {
        read_rows(&self.path.join("load.csv"))
    }

    /// Begins the file of the load.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_load(&self) -> Result<Rows<LoadSecond>, Error> {
        Rows::create(&self.path.join("load.csv"), |row| row.at_ms)
    }

    /// Send latencies, a histogram a second.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn latency(&self) -> Result<Vec<Interval>, Error> {
        read_histograms(&self.path.join("latency.hlog"))
    }

    /// Begins the file of send latencies.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_latency(&self) -> Result<Histograms, Error> {
        Histograms::create(&self.path.join("latency.hlog"))
    }

    /// Times from being sent to being consumed, a histogram a second.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn end_to_end(&self) -> Result<Vec<Interval>, Error> {
        read_histograms(&self.path.join("end-to-end.hlog"))
    }

    /// Begins the file of times from being sent to being consumed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_end_to_end(&self) -> Result<Histograms, Error> {
        Histograms::create(&self.path.join("end-to-end.hlog"))
    }

    /// How late requests of an open loop left, a histogram a second.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn late(&self) -> Result<Vec<Interval>, Error> {
        read_histograms(&self.path.join("late.hlog"))
    }

    /// Begins the file of how late requests left.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_late(&self) -> Result<Histograms, Error> {
        Histograms::create(&self.path.join("late.hlog"))
    }

    /// The machines, second by second, by name.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn hosts(&self) -> Result<BTreeMap<String, Vec<HostSecond>>, Error> {
        self.named("host-")
    }

    /// Begins the file of a machine.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_host(&self, name: &str) -> Result<Rows<HostSecond>, Error> {
        Rows::create(&self.path.join(format!("host-{}.csv", plain(name))), |row| row.at_ms)
    }

    /// The brokers, second by second, by name.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn brokers(&self) -> Result<BTreeMap<String, Vec<BrokerSecond>>, Error> {
        self.named("broker-")
    }

    /// Begins the file of a broker.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_broker(&self, name: &str) -> Result<Rows<BrokerSecond>, Error> {
        Rows::create(&self.path.join(format!("broker-{}.csv", plain(name))), |row| row.at_ms)
    }

    /// What happened.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn events(&self) -> Result<Vec<Event>, Error> {
        read_rows(&self.path.join("events.csv"))
    }

    /// Begins the file of events.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_events(&self) -> Result<Rows<Event>, Error> {
        Rows::create(&self.path.join("events.csv"), |row| row.at_ms)
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

/// A name without what does not belong into a file's.
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

/// Writes a file beside and renames it when it is on the disk: either it is whole, or what was there before is. What is no
/// file, as `/dev/stdout`, is written as it is.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    // Not the link is replaced, but what it leads to.
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
        // It is worth nothing; why it could not be written is what counts.
        let _ = std::fs::remove_file(&beside);
    }
    written
}
