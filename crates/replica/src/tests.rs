//! Conversations and properties of master and slave, by protocol.

mod classic;
mod switch;
