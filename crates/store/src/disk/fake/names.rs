//! Names of files. Their changes become durable without a sync, in order: a prefix of them survives a power cut.

use super::file::FakeFile;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) type Names = BTreeMap<PathBuf, Arc<FakeFile>>;

/// A change of names that is not durable yet.
pub(super) enum Change {
    Link(PathBuf, Arc<FakeFile>),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf, Arc<FakeFile>),
}

impl Change {
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Link(path, _) | Self::Unlink(path) | Self::Rename(_, path, _) => path.parent(),
        }
    }

    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            Self::Link(path, file) => drop(names.insert(path.clone(), file.clone())),
            Self::Unlink(path) => drop(names.remove(path)),
            Self::Rename(source, target, file) => {
                names.remove(source);
                names.insert(target.clone(), file.clone());
            }
        }
    }
}

/// The names of files and directories, and which of the names are durable.
#[derive(Default)]
pub(super) struct NamesState {
    pub(super) names: Names,
    pub(super) durable: Names,
    pub(super) changes: Vec<Change>,
    pub(super) directories: BTreeSet<PathBuf>,
    pub(super) locked: BTreeSet<PathBuf>,
}
