//! Examines a store from outside: dumps its files ([`Survey::dump`]), verifies their consistency ([`verify()`]), and
//! plans a repair ([`Repair`]). Works on RocketMQ's directories and on Vostok's, with the parsing functions of the
//! store itself. Opens files for writing only in [`Repair::apply`].

mod batches;
mod dump;
mod expected;
mod index;
mod past;
mod queues;
mod repair;
mod result;
mod row;
mod survey;
mod timers;
mod verify;
mod walk;

pub use dump::{DumpPart, Selection};
pub use repair::{Decision, Repair, Step};
pub use result::{MissingMessage, VerifyResult};
pub use row::Row;
pub use survey::{Finding, Survey, SurveyError};
pub use verify::{VerifyProgress, verify};
