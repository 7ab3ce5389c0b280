//! The report of a run: a self-contained HTML page, Markdown, the table of the earlier report 003
//! (docs/lab.md) as CSV, and JSON.
//!
//! - [`html`]: the page and its chapters, with [`answer`] first. Charts are SVG inside the page, and nothing is
//!   fetched.
//! - [`markdown`], [`columns`], [`json`]: the same content in other formats.
//!
//! Every figure names its data file. The page is in the same directory as these files.

pub(crate) mod answer;
mod backlog;
mod cases;
pub(crate) mod chart;
pub mod columns;
mod curves;
mod defaults;
pub(crate) mod environment;
pub mod failover;
pub(crate) mod figure;
pub mod html;
pub mod json;
mod latency;
pub mod markdown;
mod matrix;

mod timeline;
pub(crate) mod verdict;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use html::page;
pub(crate) use words::{moment, says, words};
