//! Log of `vostok serve`: standard error, or files with the names, sizes and numbers of RocketMQ's
//! `rmq.broker.logback.xml`, `rmq.namesrv.logback.xml` and `rmq.controller.logback.xml`.

mod json;
mod rotation;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::{Args, ValueEnum};
use tracing::Metadata;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{MakeWriter, SubscriberBuilder};
use tracing_subscriber::prelude::*;

use crate::roles::Error;
use crate::settings::Role;
use rotation::RotatedFile;

/// Arguments of the command line about the log.
#[derive(Args)]
#[group(id = "log-settings")]
pub struct Settings {
    /// Format of lines of the log.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: Format,
    /// Write the log to broker.log, store.log and others in this directory, with RocketMQ's names and rotation, instead of
    /// standard error.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
}

/// Format of lines of the log.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people.
    Text,
    /// A JSON object a line, with the members timestamp, level, thread, target, message and those of the line.
    Json,
}

/// A log file: its name, the module whose lines it takes, its size in MiB, and how many older files are kept.
type Row = (&'static str, &'static str, u64, u32);

/// The files for lines of one module. The first row that fits takes the line.
const FILES: [Row; 9] = [
    ("transaction.log", "broker::transaction", 100, 10),
    ("pop.log", "broker::pop", 128, 20),
    ("broker_metrics.log", "broker::metrics::logging", 512, 3),
    ("broker.log", "broker", 128, 20),
    ("store.log", "store", 128, 10),
    ("remoting.log", "net", 100, 10),
    ("namesrv.log", "namesrv", 100, 5),
    ("controller.log", "controller", 100, 5),
    ("proxy.log", "proxy", 128, 10),
];

impl Settings {
    /// Begins the log of the process, which has these roles.
    ///
    /// # Errors
    /// The directory cannot be made, or no file opened in it.
    pub fn begin(&self, roles: &[Role]) -> Result<(), Error> {
        let filter = filter(std::env::var("RUST_LOG").ok().as_deref());
        let writer = match &self.log_dir {
            Some(directory) => {
                let failed = |error| Error::new(format!("the log directory {}", directory.display()), error);
                BoxMakeWriter::new(LogFiles::open(directory, roles).map_err(failed)?)
            }
            None => BoxMakeWriter::new(io::stderr),
        };
        let log = lines(&filter).with_writer(writer).with_target(false);
        match self.log {
            Format::Text => {
                log.with_thread_names(self.log_dir.is_some()).finish().with(filter).init();
            }
            Format::Json => log.event_format(json::Lines).finish().with(filter).init(),
        }
        Ok(())
    }

    /// The arguments that give a member of a local cluster the same log, in a directory of its own.
    pub fn of_member(&self, name: &str) -> Vec<OsString> {
        let mut arguments = Vec::new();
        if self.log == Format::Json {
            arguments.extend(["--log".into(), "json".into()]);
        }
        if let Some(directory) = &self.log_dir {
            arguments.extend(["--log-dir".into(), directory.join(name).into()]);
        }
        arguments
    }
}

/// The filter of the log, from the text of `RUST_LOG`: levels and `target=level`, separated by commas. A target without
/// a level has all lines. Without a valid text, lines from level info on.
fn filter(text: Option<&str>) -> Targets {
    let parts = text.map(|text| text.split(',').map(|part| part.trim().trim_end_matches('=')));
    // An empty part would count as level error for all targets.
    let text = parts.map(|parts| parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(","));
    text.and_then(|text| text.parse().ok()).unwrap_or(Targets::new().with_default(LevelFilter::INFO))
}

/// The writer of lines. Its level is the most verbose of the filter, so that lines that no target has are discarded by
/// one comparison of levels.
fn lines(filter: &Targets) -> SubscriberBuilder {
    let level = filter.iter().map(|(_, level)| level).chain(filter.default_level()).max();
    tracing_subscriber::fmt().with_max_level(level.unwrap_or(LevelFilter::OFF))
}

/// The files in the order of [`FILES`], opened with their first line; the last one takes the lines of all other modules.
struct LogFiles(Vec<Mutex<RotatedFile>>);

impl LogFiles {
    fn open(directory: &Path, roles: &[Role]) -> io::Result<Self> {
        std::fs::create_dir_all(directory.join("otherdays"))?;
        let new = |(name, _, mebibytes, kept): Row| RotatedFile::new(directory, name, mebibytes << 20, kept);
        let mut files: Vec<_> = FILES.into_iter().map(new).collect();
        let mut others = new(file_of_others(roles));
        others.open()?;
        files.push(others);
        Ok(Self(files.into_iter().map(Mutex::new).collect()))
    }
}

/// The file for the lines that no row of [`FILES`] takes.
fn file_of_others(roles: &[Role]) -> Row {
    match roles {
        _ if roles.contains(&Role::Broker) => ("broker_default.log", "", 100, 10),
        _ if roles.contains(&Role::Namesrv) => ("namesrv_default.log", "", 100, 5),
        _ if roles.contains(&Role::Controller) => ("controller_default.log", "", 100, 5),
        _ => ("vostok.log", "", 100, 5),
    }
}

/// The index in [`LogFiles`] of the file for lines of the module `target`.
fn file_of(target: &str) -> usize {
    let is_of = |module: &str| {
        target.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    FILES.iter().position(|(_, module, ..)| is_of(module)).unwrap_or(FILES.len())
}

impl<'a> MakeWriter<'a> for LogFiles {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0[FILES.len()])
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line(&self.0[file_of(meta.target())])
    }
}

/// Writer of one line to its log file.
struct Line<'a>(&'a Mutex<RotatedFile>);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A line is written under the lock, so that lines of several threads do not mix.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::{Level, Subscriber as _};

    #[test]
    fn lines_are_filtered_by_level_and_module() {
        let check = |text: Option<&str>, target: &str, level: Level, expected: bool| {
            assert_eq!(filter(text).would_enable(target, &level), expected, "{text:?}: {target} {level}");
        };
        for text in
            [None, Some("no level=here"), Some("info,"), Some("INFO"), Some("info,,net=warn"), Some(" info ")]
        {
            check(text, "broker", Level::INFO, true);
            check(text, "broker", Level::DEBUG, false);
        }
        check(Some("debug"), "net", Level::DEBUG, true);
        check(Some("auth_audit=debug"), "auth_audit", Level::DEBUG, true);
        check(Some("auth_audit=debug"), "broker", Level::ERROR, false);
        check(Some("info,auth_audit=debug"), "broker", Level::INFO, true);
        check(Some("info, net=debug"), "net", Level::DEBUG, true);
        check(Some("net="), "net", Level::TRACE, true);
        check(Some("info,broker::pop=off"), "broker::pop::revive", Level::ERROR, false);
        check(Some(""), "broker", Level::ERROR, true);
        check(Some(""), "broker", Level::WARN, false);
    }

    #[test]
    fn the_most_verbose_level_of_the_filter_is_the_level_of_the_process() {
        let check = |text: &str, expected: LevelFilter| {
            let filter = filter(Some(text));
            let hint = lines(&filter).finish().with(filter).max_level_hint();
            assert_eq!(hint, Some(expected), "{text}");
        };
        check("info", LevelFilter::INFO);
        check("info,net=debug", LevelFilter::DEBUG);
        check("net=warn", LevelFilter::WARN);
        check("off", LevelFilter::OFF);
    }

    #[test]
    fn a_line_goes_to_the_file_of_its_module() {
        let check = |target, name| {
            let found = FILES.get(file_of(target)).map_or("others", |(name, ..)| name);
            assert_eq!(found, name, "{target}");
        };
        check("broker", "broker.log");
        check("broker::register::shell", "broker.log");
        check("broker::pop::revive", "pop.log");
        check("broker::popular", "broker.log");
        check("broker::transaction", "transaction.log");
        check("store::flusher", "store.log");
        check("namesrv::server", "namesrv.log");
        check("vostok::serve", "others");
        check("brokers", "others");
    }

    #[test]
    fn other_lines_go_to_the_file_of_the_process() {
        assert_eq!(file_of_others(&[Role::Namesrv, Role::Broker]).0, "broker_default.log");
        assert_eq!(file_of_others(&[Role::Namesrv, Role::Controller]).0, "namesrv_default.log");
        assert_eq!(file_of_others(&[Role::Console]).0, "vostok.log");
    }
}
