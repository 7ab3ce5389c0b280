//! The files of controller mode in the store's directory: `epochFileCheckpoint`, `brokerIdentity` and `brokerIdentity-temp`,
//! with Java's content, and two notes of ours in `vostok`.

use std::io;
use std::path::PathBuf;

use replica::agent::{BrokerIdentity, IdentityError};
use replica::epochs::{EpochFileError, EpochList};

use crate::config::Config;
use crate::parts::{Replication, Runtime, Tables};
use crate::persist::{self, ConfigFiles};

const EPOCHS: &str = "epochFileCheckpoint";
const IDENTITY: &str = "brokerIdentity";
const UNCONFIRMED_IDENTITY: &str = "brokerIdentity-temp";

/// Note: the text of `brokerIdentity` with its CRC-32. RocketMQ's file has no checksum, and a changed digit names another broker.
const IDENTITY_NOTE: &str = "vostok/identity";

/// File that marks acknowledgements before the flush, so that a crash may cost the end of the log. The configuration
/// may differ at the next start.
const FLUSHED_LATER: &str = "vostok/flushedLater";
/// Note: the end of the log may be lost, and this broker has had no role since.
const MAY_HAVE_LOST: &str = "vostok/mayHaveLost";

/// Errors of the files of controller mode.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    #[error(transparent)]
    Disk(#[from] persist::Error),
    #[error("{path}: {error}; a copy of the file, or another broker's store, has to take its place")]
    Epochs { path: PathBuf, error: EpochFileError },
    #[error("{path}: {error}")]
    Identity { path: PathBuf, error: IdentityError },
    #[error(
        "{path} says `{found}`, and this broker had the id of `{noted}`: the file is damaged, or this is a copy of another broker's \
         store. Write `{noted}` into it, or remove it with its note {}, and the broker gets a new id", note.display()
    )]
    OtherIdentity { path: PathBuf, note: PathBuf, found: String, noted: String },
    #[error("{path} cannot be removed: {error}")]
    Note { path: PathBuf, error: io::Error },
}

fn path(config: &Config, name: &str) -> PathBuf {
    config.store.root.join(name)
}

/// The epochs of the log: of the file, or of its copy when the file is broken. An empty list for a store that never had any.
pub(crate) fn load_epochs(config: &Config, files: &ConfigFiles) -> Result<EpochList, FilesError> {
    let copy = path(config, &format!("{EPOCHS}.bak"));
    let mut broken = None;
    for path in [path(config, EPOCHS), copy] {
        let text = files.at(path.clone()).read_text()?;
        match EpochList::from_file(&text) {
            _ if text.is_empty() => {}
            Ok(epochs) => return Ok(epochs),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "the epochs of the log cannot be read");
                broken.get_or_insert((path, error));
            }
        }
    }
    match broken {
        Some((path, error)) => Err(FilesError::Epochs { path, error }),
        None => Ok(EpochList::default()),
    }
}

/// Writes the epochs to the epoch file, and publishes them to readers.
///
/// # Errors
/// The file cannot be written. The broker's epochs stay unchanged then.
pub(super) fn save_epochs(
    tables: &Tables,
    replication: &Replication,
    runtime: &Runtime,
    epochs: EpochList,
) -> io::Result<()> {
    write_epochs(tables, runtime, &epochs)?;
    replication.replicas.elected().epochs = epochs;
    Ok(())
}

fn write_epochs(tables: &Tables, runtime: &Runtime, epochs: &EpochList) -> io::Result<()> {
    match epochs.to_file() {
        Some(text) => {
            tables.files.at(path(&runtime.config, EPOCHS)).write(text.as_bytes()).map_err(io::Error::other)
        }
        None => remove_with_copy(tables, runtime, EPOCHS),
    }
}

/// Whether the end of the log may be lost, by the last stop or by an earlier stop since which this broker had no
/// role. Missing files of the log count too, for example after a replaced or unmounted disk. Saves the result
/// durably, and the meaning of the flush mode for the next start.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn load_may_have_lost(tables: &Tables, runtime: &Runtime) -> Result<bool, FilesError> {
    // The existence of a note counts, whatever its text.
    let is_noted =
        |name| -> Result<bool, FilesError> { Ok(tables.files.at(path(&runtime.config, name)).exists()?) };
    let is_async = runtime.config.store.flush == store::FlushMode::Async;
    let flushed_later = is_noted(FLUSHED_LATER)?;
    let recovered = tables.store.recovered();
    let lacks_files = recovered.end < recovered.reached_before;
    if lacks_files {
        tracing::error!(
            end = recovered.end,
            reached_before = recovered.reached_before,
            "files of the log are gone: this broker is no member of the in-sync set until it has the log of its master again"
        );
    }
    let lost_now = lacks_files || recovered.after_crash && (is_async || flushed_later);
    let may_have_lost = lost_now || is_noted(MAY_HAVE_LOST)?;
    if lost_now {
        note(tables, runtime, MAY_HAVE_LOST)?;
    }
    match is_async {
        true => note(tables, runtime, FLUSHED_LATER)?,
        false => remove_with_copy(tables, runtime, FLUSHED_LATER)
            .map_err(|error| FilesError::Note { path: path(&runtime.config, FLUSHED_LATER), error })?,
    }
    Ok(may_have_lost)
}

/// Records durably that messages are acknowledged before they are on disk from now on.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn note_flushed_later(tables: &Tables, runtime: &Runtime) -> Result<(), persist::Error> {
    note(tables, runtime, FLUSHED_LATER)
}

/// Clears the mark of a possible loss, because this broker has a role.
pub(super) fn forget_loss(tables: &Tables, replication: &Replication, runtime: &Runtime) -> io::Result<()> {
    if std::mem::take(&mut replication.replicas.elected().may_have_lost) {
        // The start has dropped the epochs that went with the end of the log.
        let epochs = replication.replicas.elected().epochs.clone();
        let forgotten = write_epochs(tables, runtime, &epochs)
            .and_then(|()| remove_with_copy(tables, runtime, MAY_HAVE_LOST));
        replication.replicas.elected().may_have_lost = forgotten.is_err();
        forgotten?;
    }
    Ok(())
}

fn note(tables: &Tables, runtime: &Runtime, name: &str) -> Result<(), persist::Error> {
    tables.files.at(path(&runtime.config, name)).write(b"yes\n")
}

fn remove_with_copy(tables: &Tables, runtime: &Runtime, name: &str) -> io::Result<()> {
    [name.to_owned(), format!("{name}.bak")]
        .iter()
        .try_for_each(|name| remove(tables, path(&runtime.config, name)))
}

/// Epoch file of a broker with a role. Unwritten epochs are kept, and written before the log continues.
#[derive(Default)]
pub(super) struct EpochFile {
    unsaved: Option<EpochList>,
}

impl EpochFile {
    /// Publishes these epochs to readers, and writes them.
    pub(super) fn save(
        &mut self,
        tables: &Tables,
        replication: &Replication,
        runtime: &Runtime,
        epochs: EpochList,
    ) {
        replication.replicas.elected().epochs = epochs.clone();
        self.unsaved = Some(epochs);
        self.retry(tables, runtime);
    }

    /// Writes epochs that could not be written before. Returns whether the file is up to date.
    pub(super) fn retry(&mut self, tables: &Tables, runtime: &Runtime) -> bool {
        let Some(epochs) = &self.unsaved else { return true };
        match write_epochs(tables, runtime, epochs) {
            Ok(()) => self.unsaved = None,
            Err(error) => tracing::error!(%error, "the epochs of the log cannot be written"),
        }
        self.unsaved.is_none()
    }
}

fn remove(tables: &Tables, path: PathBuf) -> io::Result<()> {
    match tables.files.disk().remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The id of this broker, confirmed by the controllers or not; refuses that of another broker.
pub(crate) fn load_identity(
    config: &Config,
    files: &ConfigFiles,
) -> Result<Option<BrokerIdentity>, FilesError> {
    for name in [IDENTITY, UNCONFIRMED_IDENTITY] {
        let path = path(config, name);
        let text = files.at(path.clone()).read_text()?;
        if text.trim().is_empty() {
            continue;
        }
        let identity = BrokerIdentity::from_file(&text).and_then(|identity| {
            identity.check(&config.broker_cluster_name, &config.broker_name).map(|()| identity)
        });
        let identity = identity.map_err(|error| FilesError::Identity { path, error })?;
        if name == IDENTITY {
            check_identity(config, files, text.trim_end())?;
        }
        return Ok(Some(identity));
    }
    Ok(None)
}

/// Compares the text of `brokerIdentity` with the note. A note that is missing or damaged is written anew.
fn check_identity(config: &Config, files: &ConfigFiles, text: &str) -> Result<(), FilesError> {
    let note = path(config, IDENTITY_NOTE);
    let noted = files.disk().read(&note).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let noted = noted
        .as_deref()
        .and_then(|noted| Some(noted.rsplit_once(' ')?.0).filter(|it| identity_note(it) == noted));
    match noted {
        Some(noted) if noted != text => {
            let (path, found, noted) = (path(config, IDENTITY), text.to_owned(), noted.to_owned());
            Err(FilesError::OtherIdentity { path, note, found, noted })
        }
        Some(_) => Ok(()),
        None => Ok(files.at(note).write(identity_note(text).as_bytes())?),
    }
}

fn identity_note(text: &str) -> String {
    format!("{text} {:08x}\n", wire::hash::crc32(text.as_bytes()))
}

/// Writes an id. A confirmed id replaces the unconfirmed id.
pub(super) fn save_identity(tables: &Tables, runtime: &Runtime, identity: &BrokerIdentity) -> io::Result<()> {
    let name = if identity.check_code.is_some() { UNCONFIRMED_IDENTITY } else { IDENTITY };
    let file = tables.files.at(path(&runtime.config, name));
    file.write(identity.to_file().as_bytes()).map_err(io::Error::other)?;
    if identity.check_code.is_none() {
        let note = tables.files.at(path(&runtime.config, IDENTITY_NOTE));
        note.write(identity_note(&identity.to_file()).as_bytes()).map_err(io::Error::other)?;
        remove(tables, path(&runtime.config, UNCONFIRMED_IDENTITY))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
