//! What the figures of a run mean: rules that are pure functions over [`crate::archive`], each in its own file.
//!
//! A rule takes rows and gives a verdict with its evidence, in English and Chinese. None reads a file, a clock or a
//! random source; the bootstrap gets its seed as an argument.

pub mod guards;
pub mod numbers;
pub mod stats;
mod text;

pub(crate) use text::both;
pub use text::{Language, Text};
