//! The whole product: the binary as a process, real ports, the bytes of the protocol. Section numbers are those of
//! the project's description of the broker's remoting interface.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod access;
mod acting;
mod admin;
mod apps;
mod clients;
mod cluster;
mod console;
mod console_bounds;
mod console_pages;
mod console_views;
mod controller;
mod damage;
mod doctor;
mod edges;
mod failover;
mod frames;
mod grpc;
mod guarded_routes;
mod hostile;
mod judge;
mod lab;
mod lab_grpc;
mod listens;
mod many;
mod masters;
mod metrics;
mod mtls;
mod pops;
mod process;
mod proxy;
mod proxy_port;
mod pulls;
mod queries;
mod replication;
mod replies;
mod retention;
mod retries;
mod sends;
mod stage;
mod timers;
