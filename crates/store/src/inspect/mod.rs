//! Looking at a store from outside: what its files hold ([`Survey::dump`]), whether they fit together ([`verify()`]), and
//! what would mend them ([`Repair`]). Works on the directories of RocketMQ and on ours, with the parsing functions the store
//! itself uses, and opens nothing for writing but in [`Repair::apply`].

mod batches;
mod dump;
mod expected;
mod index;
mod past;
mod queues;
mod repair;
mod row;
mod survey;
mod timers;
mod verify;
mod walk;

pub use dump::{Part, Wanted};
pub(crate) use repair::is_filler;
pub use repair::{Decision, Repair, Step};
pub use row::Row;
pub use survey::{Finding, Survey, SurveyError};
pub use verify::{Lost, Progress, Verified, verify};
