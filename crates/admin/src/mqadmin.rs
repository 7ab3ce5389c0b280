//! `vostok mqadmin NAME`: the operations under the names, flags and texts of Apache RocketMQ's `mqadmin`
//! (`MQAdminStartup`). Failures end with exit code 1, where `mqadmin` ends with 0.

mod groups;
mod options;

use crate::command::print;
use crate::shell::{Access, Outcome, perform};
use crate::table::operations;
use crate::{Argument, Effect, Error, Kind, Operation};
use options::{options, parse};
use std::fmt::Write as _;
use std::time::Duration;
use wire::codes::response;

/// Names of `mqadmin` 5.5.0 in the order of its help, each with the class behind it (`MQAdminStartup.initCommand`), which the text of a
/// failure names.
const NAMES: &str = include_str!("mqadmin/names.tsv");

/// Text that `mqadmin` prints when a command failed (`FAQUrl`).
const FAQ: &str =
    "For more information, please visit the url, https://rocketmq.apache.org/docs/bestPractice/06FAQ";

/// Commands that do not end by themselves, and the seconds after which they begin anew.
const ENDLESS: [(&str, u64); 2] = [("clusterRT", 10), ("startMonitoring", 60)];

/// Runs a command of `mqadmin`: its name in any case, and its options. Returns the exit code.
///
/// # Errors
/// [`Error::System`] when the answer cannot be printed.
pub fn mqadmin(words: &[String]) -> Result<u8, Error> {
    match words {
        [] => print(&overview()).map(|_| 0),
        [help, name] if help == "help" => explain(name),
        [name, rest @ ..] => match named(name) {
            found if found.is_empty() => explain(name),
            found => command(&found, rest),
        },
    }
}

/// Completions: the names of all commands, or the options of a command.
pub(crate) fn names_and_options(name: Option<&str>) -> Vec<String> {
    let Some(name) = name else { return names().map(|(name, _)| name.to_owned()).collect() };
    let shorts = options(&named(name)).into_iter().map(|argument| argument.short).filter(|it| !it.is_empty());
    shorts.chain(["n", "h"]).map(|short| format!("-{short}")).collect()
}

/// Returns the argument that an option of a command gives, if the option has a value, for completion.
pub(crate) fn option(name: &str, given: &str) -> Option<&'static str> {
    let options = options(&named(name)).into_iter();
    let mut valued = options.filter(|argument| argument.kind != Kind::Switch);
    valued.find(|argument| options::is_named(argument, given)).map(|argument| argument.name)
}

/// All names of `mqadmin`, each with its class.
fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES.lines().filter_map(|line| line.split_once('\t'))
}

/// The operations under a name, in any case.
fn named(name: &str) -> Vec<&'static Operation> {
    let is_meant = |operation: &&Operation| operation.mqadmin.iter().any(|it| it.eq_ignore_ascii_case(name));
    operations().filter(is_meant).collect()
}

fn command(found: &[&'static Operation], words: &[String]) -> Result<u8, Error> {
    let given = match parse(words, &options(found)) {
        Ok(given) if given.wants_help => return print(&usage(found)).map(|_| 0),
        Ok(given) => given,
        Err(why) => return complain(&format!("{why}\n{}", usage(found))),
    };
    let missing = |operation: &Operation| {
        let required = operation.arguments.iter().filter(|argument| argument.is_required());
        required.filter(|argument| given.arguments.get(argument.name).is_none()).collect::<Vec<&Argument>>()
    };
    let Some(operation) = found.iter().find(|operation| missing(operation).is_empty()) else {
        let names: Vec<_> = missing(found[0]).iter().map(|argument| argument.short).collect();
        return complain(&format!("Missing required option: {}\n{}", names.join(", "), usage(found)));
    };
    let name = operation.mqadmin[0];
    if let Err(why) = groups::check(name, &options(found), &given) {
        return complain(&format!("{why}\n{}", usage(found)));
    }
    let access = Access { name_servers: given.name_servers, needs_target: true, ..Access::default() };
    let endless = ENDLESS.into_iter().find(|(endless, _)| *endless == name).map(|(_, seconds)| seconds);
    let pause = match given.arguments.parse("interval") {
        Ok(given) => given.or(endless).map(Duration::from_secs),
        Err(error) => return complain(&failure(name, &error)),
    };
    let show = |outcome: Outcome| print(&outcome.answer.mqadmin(&given.arguments));
    match perform(operation, &given.arguments, &access, pause, show) {
        Ok(()) => Ok(0),
        Err(error) => complain(&failure(name, &error)),
    }
}

/// Prints the failure to standard error.
fn complain(text: &str) -> Result<u8, Error> {
    use std::io::Write as _;
    // The reader of standard error may be gone.
    let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
    Ok(1)
}

/// The text of a failed command, as far as scripts look for it.
fn failure(name: &str, error: &Error) -> String {
    let class = names().find(|(known, _)| *known == name).map_or(name, |(_, class)| class);
    let why = match error {
        Error::Client(client::Error::Refused { address, code, remark }) => {
            let exception = match *code {
                response::TOPIC_NOT_EXIST | response::QUERY_NOT_FOUND => "MQClientException",
                _ => "MQBrokerException",
            };
            format!(
                "org.apache.rocketmq.client.exception.{exception}: CODE: {code}  DESC: {remark} BROKER: {address}\n{FAQ}"
            )
        }
        Error::Client(client::Error::Connect { address, source }) => format!(
            "org.apache.rocketmq.remoting.exception.RemotingConnectException: connect to {address} failed: {source}"
        ),
        Error::Incomplete(failures) => {
            return failures.iter().map(|why| failure(name, why)).collect::<Vec<_>>().join("\n");
        }
        Error::Partly { why, .. } => return format!("{}\n{error}", failure(name, why)),
        other => other.to_string(),
    };
    format!("org.apache.rocketmq.tools.command.SubCommandException: {class} command failed\nCaused by: {why}")
}

fn overview() -> String {
    let mut out = "The most commonly used mqadmin commands are:\n".to_owned();
    for (name, _) in names() {
        // Of several operations, the one that scripts and people mean when they give no more options than they must.
        let found = named(name);
        let looks = found.iter().find(|operation| operation.effect == Effect::Look);
        if let Some(operation) = looks.or(found.first()) {
            let _ = writeln!(out, "   {name:<35} {}", operation.about);
        }
    }
    out + "\nSee 'mqadmin help <command>' for more information on a specific command.\n"
}

/// Prints how a command is used, or why there is none.
fn explain(name: &str) -> Result<u8, Error> {
    match named(name) {
        found if !found.is_empty() => print(&usage(&found)).map(|_| 0),
        _ => complain(&format!("The sub command {name} not exist.")),
    }
}

fn usage(found: &[&'static Operation]) -> String {
    let options = options(found);
    let name = |argument: &Argument| match argument.short {
        "" => format!("--{}", argument.long),
        short => format!("-{short}"),
    };
    let mark = |argument: &Argument| match argument.kind {
        Kind::Switch => name(argument),
        _ => name(argument) + " <arg>",
    };
    let is_needed = |argument: &Argument| found.len() == 1 && argument.is_required();
    let words = options.iter().map(|argument| match is_needed(argument) {
        true => mark(argument),
        false => format!("[{}]", mark(argument)),
    });
    let mut out = format!("usage: mqadmin {} {}\n", found[0].mqadmin[0], words.collect::<Vec<_>>().join(" "));
    let mut line = |option: String, help: &str| {
        let _ = writeln!(out, " {option:<32} {help}");
    };
    for argument in &options {
        let both = format!("-{},--{}", argument.short, argument.long);
        line(both.trim_start_matches("-,").to_owned(), argument.help);
    }
    line("-n,--namesrvAddr".to_owned(), "name servers, separated by semicolons");
    line("-h,--help".to_owned(), "print this help");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_of_the_table_is_one_of_mqadmin() {
        let names: BTreeSet<_> = names().map(|(name, _)| name).collect();
        assert_eq!((names.len(), NAMES.lines().count()), (96, 96));
        for operation in operations() {
            for name in operation.mqadmin {
                assert!(names.contains(name), "{name}");
            }
            for argument in operation.arguments.iter().filter(|it| it.is_required()) {
                let is_reachable = operation.mqadmin.is_empty() || !argument.long.is_empty();
                assert!(is_reachable, "{} {} {}", operation.noun, operation.verb, argument.name);
            }
        }
    }

    #[test]
    fn every_name_of_mqadmin_has_an_operation() {
        for (name, class) in names() {
            assert!(!named(name).is_empty(), "{name}");
            assert!(class.ends_with("Command"), "{class}");
        }
    }

    #[test]
    fn of_exclusive_options_one_is_taken() {
        let check = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let options = options(&named(&words[0]));
            let given = parse(&words[1..], &options).unwrap();
            groups::check(&words[0], &options, &given)
        };
        let said =
            "The option 'c' was specified but an option from this group has already been selected: 'b'";
        assert_eq!(check("updateTopic -t One -c C -b a:1"), Err(said.to_owned()));
        assert_eq!(check("updateTopic -t One -c C"), Ok(()));
        assert!(check("updateUser -u alice -b a:1 -p secret -s enable").is_err());
        assert_eq!(check("updateUser -u alice -b a:1 -s enable"), Ok(()));
        assert_eq!(check("updateBrokerConfig -k a -v b -b a:1 -c C"), Ok(()), "mqadmin takes the broker");
    }

    #[test]
    fn options_of_mqadmin_5_5_0_are_recognized() {
        for line in [
            "updateTopic -t One -c C -o true",
            "topicStatus -t One -c C",
            "consumerProgress -g G -c C",
            "resetOffsetByTime -g G -t One -s now -c C",
            "skipAccumulatedMessage -g G -t One -c C",
            "queryMsgById -t One -i 1 -u unit -f UTF-8 -c C",
            "queryMsgByKey -t One -k key -c C -l last",
            "queryMsgByUniqueKey -t One -i 1 -c C",
            "queryMsgByOffset -t One -b a -i 0 -o 0 -f UTF-8 -r One",
            "printMsg -t One -l parent",
            "sendMessage -t One -p body -m true",
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let parsed = parse(&words[1..], &options(&named(&words[0])));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(named("CLUSTERLIST")[0].noun, "cluster");
        assert!(named("nothing").is_empty());
        assert!(usage(&named("topicRoute")).starts_with("usage: mqadmin topicRoute -t <arg> [-l]\n"));
        assert!(overview().contains("\n   topicStatus                         Show"));
        assert!(overview().contains("\n   queryMsgById                        Show a message by its id"));
        assert!(overview().contains("\n   queryMsgByUniqueKey                 Show messages by the id"));
    }

    #[test]
    fn failures_keep_the_text_that_scripts_look_for() {
        let (address, remark) = ("a:1".to_owned(), "No topic route info".to_owned());
        let error = client::Error::Refused { address, code: 17, remark }.into();
        let text = failure("topicRoute", &error);
        assert_eq!(failure("topicRoute", &Error::Incomplete(vec![error])), text);
        assert!(
            text.contains("Exception: TopicRouteSubCommand command failed\nCaused by: ")
                && text.contains("CODE: 17  DESC: No topic"),
            "{text}"
        );
    }
}
