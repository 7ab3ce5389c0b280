//! The store through its public face.
// The whole binary is tests, also its functions that are not marked so.
#![allow(clippy::unwrap_used)]

mod basic;
mod batched;
mod conformance;
mod damage;
mod digest;
mod elsewhere;
mod faults;
mod flips;
mod follow;
mod index;
mod inspect;
mod java;
mod java_index;
mod journal;
mod model;
mod multi;
mod past;
mod real;
mod removal;
mod retention;
mod retention_model;
mod single_damage;
mod tool;
mod unreadable;
mod visible;
mod without_threads;
