//! Authentication and authorization of RocketMQ requests, in both generations: Auth 2.0 (users and acls) and ACL 1.0
//! (`plain_acl.yml`). Pure except for its files: no sockets, no threads, and the time is an argument.
//!
//! - [`AuthConfig`]: the settings.
//! - [`Auth`]: users, acls and decisions, and the operations of requests 3001 to 3010.
//! - [`Signable`], [`Metadata`]: the verified parts of a remoting request and of a gRPC request.
//! - [`Auth::authenticate`], [`Auth::authorize`]: admission of a request, with its audit lines.
//! - [`Permission`], [`Resource`], [`Actions`]: the permissions that a request needs.
//! - [`PlainAcl`]: ACL 1.0 with the same two verbs, `verify` and `decide`.
//! - [`Explanation`]: the rules that are examined for a request, for people.
//! - [`Failures`]: slows down addresses from which many requests fail.
//! - [`audit`]: the lines of the audit log.
//! - [`AuthError`]: every refusal with RocketMQ's code and text.

mod accounts;
mod admin;
mod admission;
pub mod audit;
mod auth;
mod config;
mod error;
mod explain;
mod failures;
mod file;
mod names;
mod plain;
mod policy;
mod resource;
mod seal;
mod signature;
mod source;
#[cfg(test)]
mod testing;

pub use accounts::{LoadError, PASSWORD_BYTES_MAX, USER_NAME_BYTES_MAX};
pub use auth::{Attempt, Auth, DecidingEntry, Denial, Rule, Ruling, StartError, Subject};
pub use config::{AuthConfig, ConfigError, Request, Secret, Settings, Switch, Whitelist};
pub use error::AuthError;
pub use explain::Explanation;
pub use failures::{FREE_FAILURES, Failures, Mark, PACE_MS, ResponseTime, WAIT_MAX_MS, WINDOW_MS};
pub use file::{FileError, read as read_file, write as write_file};
pub use names::{Action, Actions, ResourceType};
pub use plain::{
    PlainAccount, PlainAcl, PlainError, PlainFiles, PlainSubject, PlainVersion, RELOAD_INTERVAL_MS,
};
pub use resource::{Permission, Resource};
pub use seal::Arrival;
pub use signature::{ACCESS_KEY, Metadata, SECURITY_TOKEN, SIGNATURE, Signable};
