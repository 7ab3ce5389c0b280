//! The `vostok` binary: arguments, configuration, roles, run.

mod address;
mod auth_command;
mod auth_explain;
mod call;
mod cluster;
mod config_command;
mod console_role;
mod controller_command;
mod default_access;
mod logs;
mod namesake;
mod notify;
mod proxy_role;
mod roles;
mod security;
mod serve;
mod settings;
mod store_command;
mod words;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// First commands of a new user.
const FIRST: &str = "Begin with:
  vostok serve                    everything; the console is at http://127.0.0.1:8082/
  vostok lab producer -n 127.0.0.1:9876 -t Hello -w 1 -s 128 -q 10
  vostok admin message print-topic Hello -n 127.0.0.1:9876";

/// A drop-in replacement for Apache RocketMQ in one binary.
#[derive(Parser)]
#[command(name = "vostok", version = env!("VOSTOK_VERSION"), after_help = FIRST)]
struct Arguments {
    /// Language of help, tables and errors, en or zh; else that of LC_ALL, LC_MESSAGES or LANG.
    #[arg(long, global = true, value_name = "LANG")]
    lang: Option<admin::Lang>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the name server and the broker, or other roles.
    Serve(serve::Serve),
    /// Generate load and measure, against Vostok or any Apache RocketMQ cluster.
    Lab(lab::command::Lab),
    /// Look at a cluster of Vostok or Apache RocketMQ and change it.
    Admin(admin::AdminCommand),
    /// Find out what is wrong in a cluster of Vostok or Apache RocketMQ.
    Doctor(admin::DoctorCommand),
    /// Show live figures of a cluster of Vostok or Apache RocketMQ.
    Top(admin::TopCommand),
    /// Run a command of Apache RocketMQ's mqadmin, with its names, flags and texts.
    #[command(disable_help_flag = true)]
    Mqadmin {
        /// A command of mqadmin and its options; without any, the commands are listed.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "NAME")]
        words: Vec<String>,
    },
    /// Print the script that lets a shell complete commands, options and names of the cluster.
    Completion {
        /// The shell.
        shell: admin::Shell,
    },
    /// Print what may come next on a command line, for the scripts of `completion`.
    #[command(hide = true, disable_help_flag = true)]
    Complete {
        /// The words so far, the last of which may be incomplete.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Say what settings mean, find what is wrong with a configuration file, compare the settings of brokers.
    #[command(subcommand)]
    Config(config_command::ConfigCommand),
    /// Take over what other controllers know.
    #[command(subcommand)]
    Controller(controller_command::ControllerCommand),
    /// Read users and acls of a running broker into files, write them back, and explain decisions.
    #[command(subcommand)]
    Auth(auth_command::AuthCommand),
    /// Make logins of the web console.
    Console(console::ConsoleCommand),
    /// Look into a store directory, of Vostok or Apache RocketMQ: verify, repair, dump.
    #[command(subcommand)]
    Store(store_command::StoreCommand),
}

fn main() -> ExitCode {
    net::return_large_blocks();
    if is_called("mqadmin") {
        let words: Vec<String> =
            std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
        return mqadmin(&words);
    }
    let lang = words::language(std::env::args_os().map(|it| it.to_string_lossy().into_owned()));
    let matches = words::translated(Arguments::command(), lang).try_get_matches();
    let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return words::show(&error, lang),
    };
    words::choose(lang);
    let outcome = match arguments.command {
        Command::Mqadmin { words } => return mqadmin(&words),
        Command::Completion { shell } => print(admin::completion_script(shell)),
        Command::Complete { words } => print(
            &admin::complete(Arguments::command(), &words)
                .into_iter()
                .map(|it| it + "\n")
                .collect::<String>(),
        ),
        Command::Doctor(command) => {
            return match command.run(lang) {
                Ok(code) => ExitCode::from(code),
                Err(error) => {
                    words::complain(error);
                    // It could not look, which is neither clean nor a finding.
                    ExitCode::from(2)
                }
            };
        }
        Command::Admin(command) => match command.run() {
            Err(error) => {
                words::complain(&error);
                return ExitCode::from(error.exit_code());
            }
            Ok(()) => Ok(()),
        },
        Command::Top(command) => match command.run(lang) {
            Err(error) => {
                words::complain(&error);
                return ExitCode::from(error.exit_code());
            }
            Ok(()) => Ok(()),
        },
        Command::Store(command) => return store_command::run(&command),
        Command::Config(command) => return config_command::run(&command, lang),
        Command::Controller(command) => controller_command::run(&command).map_err(|error| error.to_string()),
        Command::Auth(command) => auth_command::run(&command).map_err(|error| error.to_string()),
        Command::Console(command) => command.run().map_err(|error| error.to_string()),
        Command::Serve(serve) => serve::run(serve).map_err(|error| error.to_string()),
        Command::Lab(lab) => match lab::run(words::lab(lab, lang)) {
            // The lab reads its flags itself; wrong ones end as those of the others do.
            Err(error @ lab::Error::Usage(_)) => {
                eprint!("{error}");
                return ExitCode::from(error.exit_code());
            }
            Err(error) => {
                // The reader of standard error may be gone.
                let _ =
                    writeln!(std::io::stderr(), "vostok: {}", words::lab_message(lang, &error.to_string()));
                return ExitCode::from(error.exit_code());
            }
            Ok(()) => Ok(()),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            words::complain(text);
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;

/// Whether the program was started under this name, through a link.
fn is_called(name: &str) -> bool {
    let path = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    path.file_name().is_some_and(|found| found == name)
}

/// Prints to standard output, whose reader may be gone.
fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => Err(why.to_string()),
        _ => Ok(()),
    }
}

/// Runs a command of `mqadmin`.
fn mqadmin(words: &[String]) -> ExitCode {
    match admin::mqadmin(words) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // The reader of standard error may be gone.
            let _ = writeln!(std::io::stderr(), "vostok: {error}");
            ExitCode::FAILURE
        }
    }
}
