//! Completion of a command line: commands, options, and names that the cluster knows. The scripts of the shells ask for
//! it with each press of the key.

use crate::Arguments;
use crate::mqadmin::{names_and_options, option};
use crate::shell::{Access, perform};
use crate::table::operation;
use clap::{Arg, Command};

/// A shell whose command lines can be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    /// GNU Bash.
    Bash,
    /// Z shell.
    Zsh,
    /// Fish.
    Fish,
}

/// The script that a shell reads to complete command lines of `vostok` and of a link named `mqadmin`.
pub fn completion_script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("complete/vostok.bash"),
        Shell::Zsh => include_str!("complete/vostok.zsh"),
        Shell::Fish => include_str!("complete/vostok.fish"),
    }
}

/// Completions of the last word, which may be incomplete.
pub fn complete(command: Command, words: &[String]) -> Vec<String> {
    let server = words.iter().position(|word| ["-n", "--namesrv", "--namesrvAddr"].contains(&word.as_str()));
    let server = server.and_then(|at| words.get(at + 1)).cloned();
    candidates(command, words, &|kind| live(kind, server.clone()))
}

/// The names of a kind that the cluster knows; none when it does not answer.
fn live(kind: &str, name_servers: Option<String>) -> Vec<String> {
    let (noun, verb, member) = match kind {
        "topic" | "parent" => ("topic", "list", "topic"),
        "group" => ("group", "names", "group"),
        "cluster" | "clusters" => ("cluster", "list", "cluster"),
        "broker" | "brokers" | "from" | "to" => ("cluster", "list", "broker"),
        _ => return Vec::new(),
    };
    let mut names = Vec::new();
    if let Some(operation) = operation(noun, verb) {
        let access = Access { name_servers, ..Access::default() };
        // The user sees no names, which says enough.
        let _ = perform(operation, &Arguments::default(), &access, None, |outcome| {
            let rows = outcome.answer.value();
            let rows = rows.as_array().into_iter().flatten();
            names.extend(rows.filter_map(|row| row[member].as_str().map(str::to_owned)));
            Ok(true)
        });
    }
    names
}

fn candidates(mut command: Command, words: &[String], live: &dyn Fn(&str) -> Vec<String>) -> Vec<String> {
    command.build();
    let Some((last, before)) = words.split_last() else { return Vec::new() };
    let (mut at, mut places, mut waiting) = (&command, 0, None);
    let mut rest = before.iter();
    for word in rest.by_ref() {
        if waiting.take().is_some() {
            continue;
        }
        match at.find_subcommand(word) {
            _ if word.starts_with('-') => {
                let takes = |arg: &&Arg| is_named(arg, word) && arg.get_action().takes_values();
                waiting = at.get_arguments().find(takes);
            }
            Some(next) => (at, places) = (next, 0),
            None => places += 1,
        }
        if at.get_name() == "mqadmin" {
            break;
        }
    }
    let mut found: Vec<String> = match waiting {
        Some(arg) => values(arg, live),
        None if at.get_name() == "mqadmin" => match rest.as_slice() {
            [] => names_and_options(None),
            [.., given] if option(rest.as_slice()[0].as_str(), given).is_some() => {
                live(option(rest.as_slice()[0].as_str(), given).unwrap_or_default())
            }
            [name, ..] => names_and_options(Some(name)),
        },
        None if last.starts_with('-') => {
            at.get_arguments().filter_map(Arg::get_long).map(|long| format!("--{long}")).collect()
        }
        None => {
            let commands = at.get_subcommands().filter(|command| !command.is_hide_set());
            let names = commands.map(|command| command.get_name().to_owned());
            names
                .chain(at.get_positionals().nth(places).into_iter().flat_map(|arg| values(arg, live)))
                .collect()
        }
    };
    found.retain(|word| word.starts_with(last.as_str()));
    found.sort_unstable();
    found.dedup();
    found
}

fn is_named(arg: &Arg, word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => {
            arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.to_string().as_str()))
        }
    }
}

/// The values of an argument, as far as they are known.
fn values(arg: &Arg, live: &dyn Fn(&str) -> Vec<String>) -> Vec<String> {
    let fixed: Vec<_> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if fixed.is_empty() { live(arg.get_id().as_str()) } else { fixed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AdminCommand;
    use clap::Args;

    fn check(line: &str, expected: &[&str]) {
        let admin = AdminCommand::augment_args(Command::new("admin"));
        let command = Command::new("vostok").subcommand(admin).subcommand(Command::new("mqadmin"));
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let live = |kind: &str| vec![format!("{kind}-a"), format!("{kind}-b")];
        assert_eq!(candidates(command, &words, &live), expected, "{line}");
    }

    #[test]
    fn commands_options_and_names_are_completed() {
        check("ad", &["admin"]);
        check("admin topic st", &["static", "status"]);
        check("admin topic status ", &["topic-a", "topic-b"]);
        check("admin topic status One --cred", &["--credentials"]);
        check("admin topic create One --cluster cluster-", &["cluster-a", "cluster-b"]);
        check("admin topic list -o ", &["csv", "json", "table", "yaml"]);
        check("admin -n a:1 group progress group-b", &["group-b"]);
        check("mqadmin topicC", &["topicClusterList"]);
        check("mqadmin topicRoute -", &["-h", "-l", "-n", "-t"]);
        check("mqadmin topicRoute -l -t ", &["topic-a", "topic-b"]);
    }
}
