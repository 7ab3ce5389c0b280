//! The options of a command of `mqadmin`, parsed as commons-cli does: `-t One`, `-tOne`, `--topic One`, `--topic=One`.

use crate::arguments::optional;
use crate::{Argument, Arguments, Kind, Operation};

/// Options of `mqadmin` that are accepted and have no effect: short and long name of options that take a value.
const UNHEEDED: &[(&str, &[Argument])] = &[
    ("queryMsgById", &[unheeded("u", "unitName"), unheeded("f", "bodyFormat"), unheeded("c", "cluster")]),
    ("queryMsgByKey", &[unheeded("l", "lastKey")]),
    ("queryMsgByOffset", &[unheeded("f", "bodyFormat"), unheeded("r", "routeTopic")]),
    ("printMsg", &[unheeded("l", "lmqParentTopic")]),
    ("sendMessage", &[unheeded("m", "msgTraceEnable")]),
];

const fn unheeded(short: &'static str, long: &'static str) -> Argument {
    optional(long, (short, long), "taken for compatibility, without effect")
}

/// Arguments of a command line.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub arguments: Arguments,
    pub name_servers: Option<String>,
    pub wants_help: bool,
}

/// The options of operations that share a name, each once; without arguments that `mqadmin` does not have.
pub(super) fn options(operations: &[&'static Operation]) -> Vec<&'static Argument> {
    let mut options: Vec<&'static Argument> = Vec::new();
    let is_meant = |name: &str| operations.iter().any(|operation| operation.mqadmin.contains(&name));
    let unheeded = UNHEEDED.iter().filter(|(name, _)| is_meant(name)).flat_map(|(_, arguments)| *arguments);
    for argument in operations.iter().flat_map(|operation| operation.arguments).chain(unheeded) {
        let is_new = options.iter().all(|other| other.long != argument.long);
        if !argument.long.is_empty() && is_new {
            options.push(argument);
        }
    }
    options
}

/// Parses the words after the name of a command.
///
/// # Errors
/// A text as commons-cli writes it: an unknown option, or one without its value.
pub(super) fn parse(words: &[String], options: &[&'static Argument]) -> Result<Given, String> {
    let mut given = Given::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, attached) = split(word, options);
        let value = |words: &mut std::slice::Iter<'_, String>| {
            let value = attached.map(str::to_owned).or_else(|| words.next().cloned());
            value.map(|value| value.trim().to_owned()).ok_or(format!("Missing argument for option: {name}"))
        };
        match name {
            "-h" | "--help" => given.wants_help = true,
            "-n" | "--namesrvAddr" => given.name_servers = Some(value(&mut words)?),
            name => {
                let option = options.iter().find(|option| is_named(option, name));
                let option = option.ok_or_else(|| format!("Unrecognized option: {word}"))?;
                match option.kind {
                    Kind::Switch => given.arguments.set(option.name, "true"),
                    _ => given.arguments.set(option.name, value(&mut words)?),
                }
            }
        }
    }
    Ok(given)
}

pub(super) fn is_named(option: &Argument, name: &str) -> bool {
    match name.strip_prefix("--") {
        Some(long) => option.long == long,
        None => name.strip_prefix('-').is_some_and(|short| !short.is_empty() && option.short == short),
    }
}

/// Takes a value apart that is attached to its option.
fn split<'a>(word: &'a str, options: &[&'static Argument]) -> (&'a str, Option<&'a str>) {
    if word.starts_with("--") {
        return word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    }
    let is_whole = word == "-h" || options.iter().any(|option| is_named(option, word));
    match word.split_at_checked(2) {
        Some((name, value)) if name.starts_with('-') && !is_whole && !value.is_empty() => {
            (name, Some(value.strip_prefix('=').unwrap_or(value)))
        }
        _ => (word, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{place, switch};

    const OPTIONS: [Argument; 3] = [
        place("topic", ("t", "topic"), ""),
        optional("total", ("qn", "totalQueueNum"), ""),
        switch("list", ("l", "list"), ""),
    ];

    fn check(line: &str, expected: &[(&str, &str)]) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let options: Vec<&'static Argument> = OPTIONS.iter().collect();
        let given = parse(&words, &options).unwrap();
        for (name, value) in expected {
            assert_eq!(given.arguments.get(name), Some(*value), "{line}");
        }
    }

    #[test]
    fn options_are_parsed_as_by_commons_cli() {
        check("-t One -l", &[("topic", "One"), ("list", "true")]);
        check("-tOne -qn 4", &[("topic", "One"), ("total", "4")]);
        check("--topic=One --totalQueueNum 4 -n a:1", &[("topic", "One"), ("total", "4")]);
        let options: Vec<&'static Argument> = OPTIONS.iter().collect();
        let parsed = |words: &[&str]| {
            parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &options)
        };
        assert_eq!(parsed(&["-x"]).unwrap_err(), "Unrecognized option: -x");
        assert_eq!(parsed(&["-t"]).unwrap_err(), "Missing argument for option: -t");
        assert_eq!(parsed(&["-n", "a:1;b:2"]).unwrap().name_servers.as_deref(), Some("a:1;b:2"));
        assert!(parsed(&["-h"]).unwrap().wants_help);
    }
}
