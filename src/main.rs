//! The `vostok` binary: arguments, configuration, roles, run.

mod address;
mod roles;
mod security;
mod serve;
mod store_command;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A drop-in replacement for Apache RocketMQ in one binary.
#[derive(Parser)]
#[command(name = "vostok", version = env!("VOSTOK_VERSION"))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the name server and the broker, or some of the roles.
    Serve(serve::Serve),
    /// Generate load and measure, against Vostok or any Apache RocketMQ cluster.
    Lab(lab::command::Lab),
    /// Look into a store directory, of Vostok or Apache RocketMQ: verify, repair, dump.
    #[command(subcommand)]
    Store(store_command::StoreCommand),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Store(command) => return store_command::run(&command),
        Command::Serve(serve) => serve::run(serve).map_err(|error| error.to_string()),
        Command::Lab(lab) => match lab::run(lab) {
            // The lab reads its flags itself; wrong ones end as those of the others do.
            Err(lab::Error::Usage(text)) => text.exit(),
            Err(error) => {
                complain(&error);
                return ExitCode::from(error.exit_code());
            }
            Ok(()) => Ok(()),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            complain(&text);
            ExitCode::FAILURE
        }
    }
}

/// Says on standard error why a command ended, where somebody reads that.
fn complain(why: &dyn std::fmt::Display) {
    // There is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "vostok: {why}");
}
