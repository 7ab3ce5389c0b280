//! `vostok top`: live figures of a cluster of Vostok or Apache RocketMQ in a terminal.
//!
//! A *look* asks the operations of the table (`look.rs`): a call for the cluster, a few for each broker, and in turn calls
//! for a bounded number of topics and groups without a common call. There is never a call for each row. Two looks make a
//! *sample*, rows with rates (`sample.rs`). The screens (`screen.rs`) turn a sample into tables. The view (`view.rs`) is the
//! state that keys change, and drawing (`draw.rs`) is a function of both. Only `terminal.rs` reads keys and the clock.

mod command;
mod draw;
mod look;
mod rates;
mod sample;
mod screen;
mod terminal;
mod view;

pub use command::TopCommand;
#[cfg(test)]
pub(crate) use draw::{HELP, HINTS};

/// Names of the screens and titles of their columns.
#[cfg(test)]
pub(crate) fn titles() -> impl Iterator<Item = &'static str> {
    let all = screen::Screen::ALL.into_iter();
    all.flat_map(|screen| screen.columns().iter().map(|column| column.title).chain([screen.name()]))
}
