//! `vostok admin NOUN VERB`: the command line, made from the table of operations.

use crate::output::{Format, render};
use crate::shell::{Access, Outcome, perform};
use crate::table::operations;
use crate::{Argument, Arguments, Effect, Error, Kind, Operation};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Short options that all operations have.
const TAKEN: [char; 4] = ['n', 'o', 'h', 'V'];

/// An operation as it was given on the command line.
pub struct AdminCommand {
    operation: &'static Operation,
    arguments: Arguments,
    access: Access,
    format: Format,
    is_confirmed: bool,
    /// After how long the operation is performed again.
    pause: Option<Duration>,
}

impl AdminCommand {
    /// Performs the operation and prints its answer; a dry run prints the requests that it would send.
    ///
    /// # Errors
    /// [`Error`] when the arguments do not fit, the operator does not confirm, or a server refuses.
    pub fn run(&self) -> Result<(), Error> {
        if self.operation.effect == Effect::Destroy && !self.is_confirmed && !self.access.is_dry_run {
            self.confirm()?;
        }
        let is_repeatable = self.operation.effect == Effect::Look || self.arguments.get("interval").is_some();
        if self.pause.is_some() && !is_repeatable {
            return Err(Error::Usage(
                "only operations that change nothing are repeated by --watch".to_owned(),
            ));
        }
        perform(self.operation, &self.arguments, &self.access, self.pause, |Outcome { answer, planned }| {
            let value = match planned {
                Some(planned) if self.operation.effect != Effect::Look => {
                    serde_json::to_value(planned).expect("text only")
                }
                _ => match answer.missing(&self.arguments) {
                    Some(missing) => return Err(Error::NotFound(missing)),
                    None => answer.value(),
                },
            };
            print(&render(&value, self.format))
        })
    }

    /// Asks the operator on a terminal.
    fn confirm(&self) -> Result<(), Error> {
        let Operation { noun, verb, about, .. } = self.operation;
        if !std::io::stdin().is_terminal() {
            return Err(Error::Usage(format!(
                "{noun} {verb} cannot be undone; give --yes to confirm, or --dry-run to see its requests"
            )));
        }
        let names = self.operation.arguments.iter().filter_map(|argument| self.arguments.get(argument.name));
        let names = names.collect::<Vec<_>>().join(" ");
        let _ = write!(std::io::stderr(), "{about}: {names}. This cannot be undone. Type yes to go on: ");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        match line.trim() {
            "yes" => Ok(()),
            _ => Err(Error::Usage("not confirmed, nothing was changed".to_owned())),
        }
    }
}

/// Prints to standard output. `false` when its reader is gone, as with `| head`.
pub(crate) fn print(text: &str) -> Result<bool, Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        done => Ok(done.is_ok()),
    }
}

impl Args for AdminCommand {
    fn augment_args(command: Command) -> Command {
        let mut nouns: Vec<Command> = Vec::new();
        for operation in operations() {
            let verb = verb(operation);
            match nouns.last_mut().filter(|noun| noun.get_name() == operation.noun) {
                Some(noun) => *noun = noun.clone().subcommand(verb),
                None => nouns.push(noun(operation.noun).subcommand(verb)),
            }
        }
        command
            .subcommand_required(true)
            .arg_required_else_help(true)
            .args(common())
            .subcommands(nouns)
            .after_help("Works with clusters of Vostok and of Apache RocketMQ 4.x and 5.x.")
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn noun(name: &'static str) -> Command {
    let verbs = operations().filter(|operation| operation.noun == name).map(|operation| operation.verb);
    let about = format!("Operations: {}", verbs.collect::<Vec<_>>().join(", "));
    Command::new(name).about(about).subcommand_required(true).arg_required_else_help(true)
}

fn verb(operation: &'static Operation) -> Command {
    let command = Command::new(operation.verb).about(operation.about);
    let command = match operation.mqadmin {
        [] => command,
        names => command.after_help(format!("In mqadmin: {}", names.join(", "))),
    };
    operation.arguments.iter().fold(command, |command, argument| command.arg(arg(argument)))
}

fn arg(argument: &'static Argument) -> Arg {
    let arg = Arg::new(argument.name).help(argument.help);
    if argument.kind == Kind::Place {
        return arg.required(true).value_name(argument.name);
    }
    let mut letters = argument.short.chars();
    let short = letters.next().filter(|letter| letters.next().is_none() && !TAKEN.contains(letter));
    let arg = arg.long(argument.name).short(short);
    match argument.kind {
        Kind::Switch => arg.action(ArgAction::SetTrue),
        kind => arg.required(kind == Kind::Required).value_name("VALUE").allow_hyphen_values(true),
    }
}

/// The options of all operations.
fn common() -> [Arg; 6] {
    [
        Arg::new("watch")
            .long("watch")
            .global(true)
            .value_name("SECONDS")
            .value_parser(value_parser!(u64).range(1..))
            .help("Ask again after so many seconds, until interrupted"),
        Arg::new("namesrv")
            .short('n')
            .long("namesrv")
            .global(true)
            .value_name("HOST:PORT;...")
            .help("Name servers; otherwise those of NAMESRV_ADDR, otherwise 127.0.0.1:9876"),
        Arg::new("output")
            .short('o')
            .long("output")
            .global(true)
            .value_parser(value_parser!(Format))
            .default_value("table")
            .help("How the answer is printed"),
        Arg::new("credentials")
            .long("credentials")
            .global(true)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("File with accessKey and secretKey; otherwise conf/tools.yml of ROCKETMQ_HOME"),
        Arg::new("dry-run")
            .long("dry-run")
            .global(true)
            .action(ArgAction::SetTrue)
            .help("Print the requests that would change something, and do not send them"),
        Arg::new("yes")
            .long("yes")
            .global(true)
            .action(ArgAction::SetTrue)
            .help("Do not ask before something that cannot be undone"),
    ]
}

impl FromArgMatches for AdminCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (noun, inner) = matches.subcommand().ok_or_else(missing)?;
        let (verb, inner) = inner.subcommand().ok_or_else(missing)?;
        let is_meant = |operation: &&Operation| operation.noun == noun && operation.verb == verb;
        let operation = operations().find(is_meant).ok_or_else(missing)?;
        let mut arguments = Arguments::default();
        for argument in operation.arguments {
            match argument.kind {
                Kind::Switch if inner.get_flag(argument.name) => arguments.set(argument.name, "true"),
                Kind::Switch => {}
                _ => {
                    let value = inner.get_one::<String>(argument.name);
                    value.into_iter().for_each(|value| arguments.set(argument.name, value));
                }
            }
        }
        let access = Access {
            name_servers: inner.get_one("namesrv").cloned(),
            credentials: inner.get_one("credentials").cloned(),
            is_dry_run: inner.get_flag("dry-run"),
            needs_target: false,
        };
        let format = inner.get_one("output").copied().unwrap_or(Format::Table);
        let interval = arguments.get("interval").and_then(|seconds| seconds.parse().ok());
        let pause = inner.get_one("watch").copied().or(interval).map(Duration::from_secs);
        Ok(Self { operation, arguments, access, format, is_confirmed: inner.get_flag("yes"), pause })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<AdminCommand, clap::Error> {
        let command = AdminCommand::augment_args(Command::new("admin"));
        let matches = command.try_get_matches_from(line.split(' '))?;
        AdminCommand::from_arg_matches(&matches)
    }

    #[test]
    fn the_command_line_is_consistent() {
        AdminCommand::augment_args(Command::new("admin")).debug_assert();
    }

    #[test]
    fn operations_are_found_with_their_arguments() {
        let command = parse("admin topic create One -c C --read-queues 3 -n a:1 -o json --dry-run").unwrap();
        assert_eq!((command.operation.noun, command.operation.verb), ("topic", "create"));
        assert_eq!(command.arguments.get("topic"), Some("One"));
        assert_eq!(command.arguments.get("cluster"), Some("C"));
        assert_eq!(command.arguments.parse::<i32>("read-queues").unwrap(), Some(3));
        assert_eq!(command.access.name_servers.as_deref(), Some("a:1"));
        assert!(command.access.is_dry_run && command.format == Format::Json);
        assert!(parse("admin topic create").is_err() && parse("admin topic fly One").is_err());
    }

    #[test]
    fn nothing_is_destroyed_unasked() {
        let command = parse("admin topic delete One --cluster C").unwrap();
        // The tests' standard input is no terminal, or nobody types there.
        if !std::io::stdin().is_terminal() {
            let why = command.run().unwrap_err().to_string();
            assert!(why.contains("--yes"), "{why}");
        }
    }
}
