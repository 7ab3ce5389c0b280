//! `vostok admin NOUN VERB`: the command line, made from the table of operations.

use crate::output::{Format, Look, is_empty, render_for, terminal_size};
use crate::shell::{Access, Outcome, lang, perform};
use crate::table::operations;
use crate::text::TIME_HELP;
use crate::{Argument, Arguments, Effect, Error, Kind, Lang, Operation};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use serde_json::Value;
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
    /// Language of titles, questions and errors.
    lang: Lang,
}

impl AdminCommand {
    /// Performs the operation and prints its answer; a dry run prints the requests that it would send.
    ///
    /// # Errors
    /// [`Error`] when the arguments do not fit, the operator does not confirm, or a server refuses.
    pub fn run(&self) -> Result<(), Error> {
        self.perform().map_err(Error::about_groups)
    }

    fn perform(&self) -> Result<(), Error> {
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
            self.show(&value)
        })
    }

    /// Prints an answer; on a terminal a repeated table replaces the one before.
    fn show(&self, value: &Value) -> Result<bool, Error> {
        let Operation { noun, verb, .. } = self.operation;
        let look = Look::stdout(self.lang);
        let text = render_for(value, self.format, &look);
        if is_empty(value) && matches!(self.format, Format::Table | Format::Csv) {
            // The reader of standard error may be gone.
            let _ =
                writeln!(std::io::stderr(), "{}", self.lang.error(&format!("{noun} {verb}: nothing found")));
        }
        match self.pause {
            Some(pause) if look.width.is_some() && self.format == Format::Table => {
                let title = self.lang.error(&format!("Every {} s", pause.as_secs()));
                let [_, height] = terminal_size();
                print(&redrawn(&format!("{title}  {noun} {verb}"), &text, height, self.lang))
            }
            _ => print(&text),
        }
    }

    /// Asks the operator on a terminal.
    fn confirm(&self) -> Result<(), Error> {
        let Operation { noun, verb, .. } = self.operation;
        let about = self.lang.about(self.operation);
        if !std::io::stdin().is_terminal() {
            return Err(Error::Usage(format!(
                "{noun} {verb} cannot be undone; give --yes to confirm, or --dry-run to see its requests"
            )));
        }
        let names = self.operation.arguments.iter().filter_map(|argument| self.arguments.get(argument.name));
        let names = names.collect::<Vec<_>>().join(" ");
        let question = format!("{about}: {names}. This cannot be undone. Type yes to go on: ");
        let _ = write!(std::io::stderr(), "{}", self.lang.error(&question));
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        match line.trim() {
            "yes" => Ok(()),
            _ => Err(Error::Usage("not confirmed, nothing was changed".to_owned())),
        }
    }
}

/// The text that replaces the contents of a terminal: a title, and as many lines as fit below.
fn redrawn(title: &str, text: &str, height: usize, lang: Lang) -> String {
    let room = height.saturating_sub(4).max(1);
    let count = text.lines().count();
    let kept = if count > room + 1 { room } else { count };
    let mut lines: Vec<String> =
        [title, ""].into_iter().chain(text.lines().take(kept)).map(str::to_owned).collect();
    if count > kept {
        lines.push(lang.error(&format!("{} more rows", count - kept)));
    }
    // Each line is cleared to its end, so that the screen does not flicker.
    let lines: String = lines.iter().map(|line| format!("{line}\x1b[K\r\n")).collect();
    format!("\x1b[H{lines}\x1b[J")
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
    let has_time =
        operation.arguments.iter().any(|argument| ["time", "begin", "end"].contains(&argument.name));
    let long = times(&command);
    let command = if has_time { command.after_long_help(long) } else { command };
    operation.arguments.iter().fold(command, |command, argument| command.arg(arg(argument)))
}

/// The text below the long help of an operation that takes times.
fn times(command: &Command) -> String {
    let names = command.get_after_help().map(|names| format!("{names}\n")).unwrap_or_default();
    format!("{names}{TIME_HELP}")
}

fn arg(argument: &'static Argument) -> Arg {
    let arg = Arg::new(argument.name).help(argument.help);
    if argument.kind == Kind::Place {
        // A time may be relative: -1h.
        return arg.required(true).value_name(argument.name).allow_hyphen_values(argument.name == "time");
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
            .help("Format of the answer"),
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
        let is_confirmed = inner.get_flag("yes");
        // The option is one of the whole program.
        let lang = inner.try_get_one::<Lang>("lang").ok().flatten().copied().unwrap_or_else(lang);
        Ok(Self { operation, arguments, access, format, is_confirmed, pause, lang })
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
        let command = parse("admin offset reset G T -1h --yes").unwrap();
        assert_eq!(command.arguments.get("time"), Some("-1h"));
        assert!(command.is_confirmed);
    }

    #[test]
    fn a_repeated_table_replaces_the_one_before() {
        let text: String = (0..30).map(|row| format!("row {row}\n")).collect();
        let screen = redrawn("Every 2 s  topic list", &text, 10, Lang::En);
        assert!(
            screen.starts_with("\x1b[HEvery 2 s") && screen.ends_with("24 more rows\x1b[K\r\n\x1b[J"),
            "{screen:?}"
        );
        assert!(screen.matches("\r\n").count() < 10);
        assert!(!redrawn("t", "a\nb\n", 10, Lang::En).contains("more rows"));
    }

    #[test]
    fn nothing_is_destroyed_unasked() {
        let command = parse("admin topic delete One --cluster C").unwrap();
        // The tests' standard input is no terminal, or no user types there.
        if !std::io::stdin().is_terminal() {
            let why = command.run().unwrap_err().to_string();
            assert!(why.contains("--yes"), "{why}");
        }
    }
}
