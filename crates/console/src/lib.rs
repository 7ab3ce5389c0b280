//! The web console: pages and JSON over the operations of [`admin`], for clusters of Vostok and of Apache RocketMQ.
//!
//! - [`RunningConsole`]: the server, on a thread of its own.
//! - [`Config`]: where it listens, whom it believes, where its files are.
//! - [`ConsoleCommand`]: `vostok console user NAME`, which makes a login.

mod answers;
mod app;
mod assets;
mod audit;
mod command;
mod connections;
mod guard;
mod history;
mod lab;
mod lag;
mod live;
mod offsets;
mod pages;
mod refusal;
mod request;
mod sampler;
mod server;
mod start;
mod users;
mod view;
mod words;

pub use app::Config;
pub use command::ConsoleCommand;
pub use start::{RunningConsole, StartError};
