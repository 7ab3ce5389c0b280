//! `vostok serve` with the bugs of `store::planted`, which VOSTOK_PLANTED switches on by name. Never shipped: power cuts and
//! disk faults run it to show that they notice.

#[path = "../../../src/address.rs"]
mod address;
#[path = "../../../src/call.rs"]
mod call;
#[path = "../../../src/cluster/mod.rs"]
mod cluster;
#[path = "../../../src/console_role.rs"]
mod console_role;
#[path = "../../../src/default_access.rs"]
mod default_access;
#[path = "../../../src/logs/mod.rs"]
mod logs;
#[path = "../../../src/namesake.rs"]
mod namesake;
#[path = "../../../src/notify.rs"]
mod notify;
#[path = "../../../src/proxy_role.rs"]
mod proxy_role;
#[path = "../../../src/roles.rs"]
mod roles;
#[path = "../../../src/security.rs"]
mod security;
#[path = "../../../src/serve.rs"]
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
}

fn main() -> ExitCode {
    let Command::Serve(serve) = Arguments::parse().command;
    match serve::run(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("planted: {error}");
            ExitCode::FAILURE
        }
    }
}
