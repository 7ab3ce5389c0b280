//! The flags of RocketMQ's benchmark scripts come from Apache Commons CLI, which allows several letters after one dash
//! (`-ak rocketmq2`). They are turned into long options before clap sees them.

use crate::archive::SECRET;

/// Flags of more than one letter in all scripts.
const LETTERS: [&str; 10] = ["ak", "sk", "ct", "cl", "ch", "ri", "sr", "su", "cr", "cu"];

/// Turns `-ak value` into `--ak value` and `-ak=value` into `--ak=value`; all other arguments stay.
pub fn long_options(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    arguments.into_iter().map(long_option).collect()
}

fn long_option(argument: String) -> String {
    let Some(name) = argument.strip_prefix('-') else { return argument };
    let letters = name.split_once('=').map_or(name, |(letters, _)| letters);
    if LETTERS.contains(&letters) { format!("-{argument}") } else { argument }
}

/// A command line as runs keep it, with [`SECRET`] in place of the secret key, so that it cannot be mistaken for a key.
pub fn without_secrets(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut is_value = false;
    let hide = |argument: String| {
        let (name, value) = argument.split_once('=').map_or((argument.as_str(), None), |(n, v)| (n, Some(v)));
        let is_secret = ["-sk", "--sk", "--secretKey"].contains(&name);
        let hidden = is_value;
        is_value = is_secret && value.is_none() && !hidden;
        match value {
            Some(_) if is_secret => format!("{name}={SECRET}"),
            _ if hidden => SECRET.to_owned(),
            _ => argument,
        }
    };
    arguments.into_iter().map(hide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_kept() {
        let check = |given: &str, expected: &str| {
            let given = given.split(' ').map(str::to_owned);
            assert_eq!(without_secrets(given).join(" "), expected);
        };
        check("matrix -a true -ak me -sk hush --size 1k", "matrix -a true -ak me -sk SECRET --size 1k");
        check("--secretKey=hush --sk hush", "--secretKey=SECRET --sk SECRET");
        check("-sk -sk -n h:1", "-sk SECRET -n h:1");
    }

    #[test]
    fn several_letters_after_one_dash() {
        let check = |given: &str, expected: &str| {
            let given = given.split(' ').map(str::to_owned);
            assert_eq!(long_options(given).join(" "), expected);
        };
        check("-n h:1 -ak a -sk b", "-n h:1 --ak a --sk b");
        check("-ct=LZ4 -ri 5000", "--ct=LZ4 --ri 5000");
        check("-a true -c true -s 1024 --queues 8", "-a true -c true -s 1024 --queues 8");
        check("-s1024 -", "-s1024 -");
    }
}
