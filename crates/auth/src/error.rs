//! Reasons why a request is refused, with RocketMQ's texts and codes.

use wire::codes::response;

/// Outcome of a check that may refuse a request.
pub(crate) type Result<T, E = AuthError> = std::result::Result<T, E>;

/// Reason why a request is refused. The text is RocketMQ's. [`AuthError::code`] is the response code of the broker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request has no access key.
    #[error("username cannot be null.")]
    NoCredentials,
    /// A gRPC request has no `x-mq-date-time`.
    #[error("datetime is null.")]
    NoDateTime,
    /// The `authorization` of a gRPC request has no space.
    #[error("authentication header is incorrect.")]
    Header,
    /// An item of the `authorization` of a gRPC request has no `=`.
    #[error("authentication keyValues length is incorrect, actual length=1.")]
    KeyValue,
    /// The credential of a gRPC request is empty.
    #[error("authentication credential length is incorrect, actual length=0.")]
    Credential,
    /// The credentials of a gRPC request cannot be read for another reason, such as a signature that is not hexadecimal.
    #[error("create authentication context error.")]
    Context,
    /// No user has the access key of the request.
    #[error("User:{0} is not found.")]
    UnknownUser(String),
    /// The user of the request was removed after it was authenticated.
    #[error("User:{0} not found.")]
    RemovedUser(String),
    /// The user of the request is disabled.
    #[error("User:{0} is disabled.")]
    DisabledUser(String),
    /// The signature is missing or not that of the request.
    #[error("check signature failed.")]
    Signature,
    /// The seal of the request is missing or not valid. The text has the reason.
    #[error("{0}")]
    Seal(&'static str),
    /// Authentication is on without `authenticationMetadataProvider`.
    #[error("The authenticationMetadataProvider is not configured")]
    NoAuthenticationProvider,
    /// Authorization is on without `authorizationMetadataProvider`.
    #[error("The authorizationMetadataProvider is not configured")]
    NoAuthorizationProvider,
    /// The request has no user, and authorization needs one.
    #[error("Authorization failed. Please verify your access rights and try again.")]
    NoSubject,
    /// An entry of a policy denies the request.
    #[error("{user} has no permission to access {resource} from {source_ip}, {reason}")]
    NoPermission {
        /// `User:` and the user's name.
        user: String,
        /// The resource that the user has no permission for.
        resource: String,
        /// Address of the client.
        source_ip: std::net::IpAddr,
        /// `the decision is deny.` or `no matched policies.`.
        reason: &'static str,
    },
    /// The request was not served, right or wrong, because many requests of its address failed (`SYSTEM_BUSY`).
    #[error(
        "many requests of this address failed authentication, so this one was not served; send it again later"
    )]
    Slowed,
    /// A request about users has no name of a user (`INVALID_PARAMETER`).
    #[error("The username is blank")]
    BlankUser,
    /// A request about users or acls is not valid. The text is RocketMQ's.
    #[error("{0}")]
    Invalid(&'static str),
    /// A name or password is longer than this server accepts.
    #[error("the {what} has {bytes} bytes, at most {max} are accepted")]
    TooLong {
        /// Name of the value that is too long.
        what: &'static str,
        /// Length of the value in bytes.
        bytes: usize,
        /// The most that is accepted.
        max: usize,
    },
    /// An acl is for a user that does not exist.
    #[error("The subject of {0} is not exist.")]
    SubjectNotExist(String),
    /// The caller would make a super user without being one (`SYSTEM_ERROR`).
    #[error("The super user can only be {0} by super user")]
    SuperNeeded(&'static str),
    /// An acl comes without a body (`SYSTEM_ERROR`).
    #[error("The body of acl is null")]
    NoBody,
    /// The change could not be stored, and nothing changed (`SYSTEM_ERROR`). The log has the reason.
    #[error("An system error occurred, please try again later.")]
    NotStored,
    /// ACL 1.0 refuses the request; the text is that of RocketMQ 4.9.8.
    #[error("{0}")]
    Plain(String),
}

impl AuthError {
    /// RocketMQ's response code for the error.
    pub fn code(&self) -> i32 {
        match self {
            Self::BlankUser => response::INVALID_PARAMETER,
            Self::Slowed => response::SYSTEM_BUSY,
            Self::SuperNeeded(_) | Self::NoBody | Self::NotStored => response::SYSTEM_ERROR,
            _ => response::NO_PERMISSION,
        }
    }
}

/// Returns the part of a request's name that texts repeat, without control characters. So no line of a log can be
/// forged, and no response is as large as the request.
pub(crate) fn printable(name: &str) -> String {
    name.chars().take(256).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
