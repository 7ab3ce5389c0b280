//! `vostok doctor`: faults of a cluster, found in a bundle that was gathered once and can be judged anywhere.
//!
//! `gather` asks the servers with RocketMQ's own requests and fills a [`Bundle`]. Each check is a pure function over
//! the bundle, a row of the table [`checks`]. A check without data is skipped, and never passes.

mod bilingual;
mod bundle;
mod causes;
mod chain;
mod checks;
mod command;
mod finding;
mod gather;
mod health;
mod machine;
mod memory;
mod os_script;
mod page;
mod remedy;
mod report;
mod secrets;
mod standstill;

pub use bilingual::Text;
pub use bundle::Bundle;
pub use command::{DoctorCommand, diagnose};
pub use finding::{Finding, Severity, State, Things, Verdict};
pub use health::{Health, Level};
pub use memory::Memory;
pub use page::page;
pub use remedy::Fix;
pub use report::Diagnosis;
pub use secrets::{is_hidden, without_secrets};
