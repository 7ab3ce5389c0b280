//! The errors of operations.

use std::io;

/// Why an operation did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server could not be asked, refused, or answered with something that cannot be read.
    #[error("{0}")]
    Client(#[from] client::Error),
    /// The arguments are not valid; nothing was sent.
    #[error("{0}")]
    Usage(String),
    /// What was looked for does not exist.
    #[error("{0}")]
    NotFound(String),
    /// A change was made on some servers and then failed on another.
    #[error("{why}; done before that on {}", done.join(", "))]
    Partly {
        /// Addresses of the servers on which the change was made.
        done: Vec<String>,
        /// The failure.
        why: Box<Error>,
    },
    /// The answer was shown, without the part of the servers that failed so.
    #[error("the answer is not complete: {}", texts(.0).join("; "))]
    Incomplete(Vec<Error>),
    /// The system refused something, for example a thread or the standard output.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The text of each failure, for answers in JSON.
pub(crate) fn texts(failures: &[Error]) -> Vec<String> {
    failures.iter().map(Error::to_string).collect()
}

impl Error {
    /// The response code of the server that refused; `None` for other errors.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Client(error) => error.code(),
            Self::Partly { why, .. } => why.code(),
            _ => None,
        }
    }

    /// Process exit code: 2 for wrong arguments, as `clap` does, otherwise 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { 2 } else { 1 }
    }
}
