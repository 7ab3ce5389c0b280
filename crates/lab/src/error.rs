//! The errors that end a tool early.

use std::io;
use std::path::PathBuf;

/// Why a lab tool could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line cannot be parsed; holds the text to print.
    #[error("{0}")]
    Usage(String),
    /// A flag has a value that cannot work, or one that is not supported.
    #[error("{flag}: {why}")]
    Flag {
        /// The flag as typed.
        flag: &'static str,
        /// Text that was expected, and text that was found.
        why: String,
    },
    /// The cluster did not answer, or refused a request.
    #[error("{0}")]
    Cluster(#[from] client::Error),
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The run failed for the reason that the text describes.
    #[error("{0}")]
    Broken(String),
    /// A signal ended a run before it was finished.
    #[error("ended by signal {0} before it was finished")]
    Signal(i32),
    /// A socket or thread could not be set up.
    #[error("{what}: {source}")]
    System {
        /// Action that was attempted.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
}

impl Error {
    /// Exit code of a process that ends with this error: 2 for wrong flags, 128 plus the number of the signal that ended
    /// the run, as shells do, and 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Flag { .. } => 2,
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(1),
            _ => 1,
        }
    }

    /// Wraps a system error with a description of the attempt.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_a_signal_ended_exits_as_shells_have_it() {
        assert_eq!(Error::Signal(15).exit_code(), 143);
        assert_eq!(Error::Flag { flag: "-x", why: String::new() }.exit_code(), 2);
        assert_eq!(Error::Broken(String::new()).exit_code(), 1);
    }
}
