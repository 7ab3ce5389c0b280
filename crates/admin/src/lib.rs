//! Operations of operators on a cluster of Vostok or Apache RocketMQ: look, change, destroy.
//!
//! - [`OPERATIONS`]: the one table of operations. The command line, the twin of `mqadmin`, their help and
//!   `docs/admin.md` are made from its rows.
//! - [`Lang`]: the language of texts for people.
//! - [`Cluster`]: a lasting connection, for fronts that perform operations of several operators; [`diagnose`] is the
//!   doctor's verdict as data.
//! - [`AdminCommand`]: `vostok admin NOUN VERB`.
//! - [`DoctorCommand`]: `vostok doctor`, which gathers a [`Bundle`] of a cluster and judges it.
//! - [`complete`]: what may come next on a command line.
//! - [`TopCommand`]: `vostok top`, live figures in a terminal.
//! - [`mqadmin`]: `vostok mqadmin NAME`, with the names, flags and texts of Apache RocketMQ's `mqadmin`.

mod acl;
mod arguments;
mod broker;
mod cluster;
mod command;
mod command_line;
mod complete;
mod connection;
mod container;
mod controller;
mod copy;
mod dlq;
mod doctor;
mod error;
mod export;
mod group;
mod kv;
mod lag;
mod lang;
mod lite;
mod message;
mod mqadmin;
mod name_server;
mod offset;
mod operation;
mod output;
mod page;
mod pages;
mod request;
mod rocksdb;
mod session;
mod shell;
mod stats;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod top;
mod topic;
mod user;
mod words;
mod yaml;
mod zone;

pub use acl::{AclEntries, AclEntry};
pub use arguments::{Argument, Arguments, Kind};
pub use broker::{
    BrokerProgress, Figure, GroupQueue, ReplicaStatus, Replicas, Setting, Settings, slave_behind,
};
pub use cluster::BrokerRow;
pub use command::AdminCommand;
pub use complete::{Shell, complete, completion_script};
pub use connection::{Consumers, Member, ProducerRow, Subscription};
pub use controller::{Epoch, Epochs, InSync, Metadata, Replica};
pub use dlq::DeadLetterGroup;
pub use doctor::page as doctor_page;
pub use doctor::{
    Bundle, Diagnosis, DoctorCommand, Finding, Fix, Health, Level, Memory, Severity, State, Text, Things,
    Verdict, diagnose, is_hidden, without_secrets,
};
pub use error::Error;
pub use group::{CauseKind, GroupLag, LagCause, LagMember, LagQueue, LagTopic, QueueOwner, QueueState};
pub use group::{GroupFigures, GroupName, GroupProgress, GroupSetting, QueueProgress};
pub use lag::Lag;
pub use lang::Lang;
pub use message::{
    DueCount, MessageView, MessagesByKey, Newest, TraceEvent, Track, Transaction, TransactionState,
    Transactions, Waiting,
};
pub use mqadmin::mqadmin;
pub use offset::{Reset, ResetQueue};
pub use operation::{Answer, Effect, Operation};
pub use output::{Format, Look, render, render_for};
pub use page::page;
pub use session::{Planned, Session};
pub use shell::{Cluster, settings_of};
pub use table::{OPERATIONS, operation};
pub use text::{parse_time, threads, time};
pub use top::TopCommand;
pub use topic::{QueueStatus, Route, RouteRow, TopicFigures, TopicRates, TopicRow, TopicStatus};
pub use user::UserRow;
pub use words::{Words, localize, localize_output, untranslated};
pub use zone::Zone;
