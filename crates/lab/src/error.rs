//! What ends a tool early.

use std::io;
use std::path::PathBuf;

/// Why a lab tool could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is not understood; holds the text to print.
    #[error("{0}")]
    Usage(clap::Error),
    /// A flag has a value that cannot work, or one that is not served.
    #[error("{flag}: {why}")]
    Flag {
        /// The flag as typed.
        flag: &'static str,
        /// What was expected and found.
        why: String,
    },
    /// The cluster does not answer, or refuses.
    #[error("{0}")]
    Cluster(#[from] client::Error),
    /// A file could not be used.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something of the lab itself failed.
    #[error("{0}")]
    Broken(String),
    /// A socket or thread could not be set up.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// Wraps a system error with what was attempted.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}
