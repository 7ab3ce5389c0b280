//! The lab without the rest of the product: `cargo run --release -p vostok-lab --example lab -- producer -h`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match lab::run(lab::command::Lab::new(std::env::args().skip(1))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
