//! Reasons why a call has no response.

/// Reason why a call has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The connection ended, or its bytes are not gRPC.
    #[error("{0}")]
    Connection(String),
    /// The server ended the call with a status of gRPC other than OK.
    #[error("gRPC status {code}: {message}")]
    Status {
        /// The number of the status, such as 12 for `UNIMPLEMENTED`.
        code: i32,
        /// The trailer `grpc-message`, for people; empty when the server sent none.
        message: String,
    },
}

impl Failure {
    /// A failure of the connection.
    pub(crate) fn connection(error: impl std::fmt::Display) -> Self {
        Self::Connection(error.to_string())
    }
}
