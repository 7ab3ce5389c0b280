//! Help texts of the command line, as the program prints them. The texts of `mqadmin` are RocketMQ's and not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use super::rules::{self, Ratchet};

/// Faults of the help of each command. The number of a command only falls.
const FAULTS: [(&str, usize); 4] = [("admin", 1), ("lab", 2), ("serve", 2), ("store", 1)];

/// Sentences of 26 to 35 words in the help of each command.
const LONG: [(&str, usize); 2] = [("lab", 3), ("serve", 7)];

/// Faults or long sentences that a command may lose before its number has to be lowered.
const SLACK: usize = 2;

/// Commands whose help is not written here.
const FOREIGN: [&str; 2] = ["help", "mqadmin"];

/// The help of a command, one line for each text.
fn help(command: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vostok"))
        .args(command)
        .arg("--help")
        .env("COLUMNS", "10000")
        .env("LANG", "en_US.UTF-8")
        .env_remove("LC_ALL")
        .env_remove("LC_MESSAGES")
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("help is text")
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<&str> {
    let list = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = list.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| !FOREIGN.contains(name)).collect()
}

/// The texts of a help: descriptions of commands, options and values, without usage and examples.
fn texts(help: &str) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for line in help.lines().filter(|line| !line.starts_with("Usage:")) {
        let text = line.trim_start().rsplit_once("  ").map_or(line.trim(), |(_, text)| text.trim());
        let is_syntax =
            text.starts_with(['-', '<', '[']) || text.starts_with("vostok ") || text.ends_with(':');
        let is_syntax = is_syntax || text.starts_with("In mqadmin: ");
        if !is_syntax && text.contains(' ') {
            texts.push(text.to_owned());
        }
    }
    texts
}

/// The faults of a help, and its long sentences.
fn faults(help: &str) -> (Vec<String>, Vec<String>) {
    let (mut faults, mut long) = (Vec::new(), Vec::new());
    for text in texts(help) {
        let found = rules::first_word(&text, &rules::FIRST_WORDS).into_iter();
        let found = found.chain(rules::phrases(&text)).chain(rules::persons(&text));
        faults.extend(found.map(|fault| format!("{fault}: {text}")));
        for sentence in rules::sentences(&text) {
            faults.extend(rules::too_long(&sentence));
            if (rules::WORDS_GOOD + 1..=rules::WORDS_MAX).contains(&rules::length(&sentence)) {
                long.push(sentence);
            }
        }
    }
    (faults, long)
}

/// The help of every command below `command`, by the first word of its name.
fn all_help(command: &[String], found: &mut BTreeMap<String, Vec<String>>) {
    let text = help(command);
    for name in commands(&text) {
        all_help(&[command, &[name.to_owned()]].concat(), found);
    }
    found.entry(command.first().cloned().unwrap_or("vostok".to_owned())).or_default().push(text);
}

#[test]
fn help_is_plain_english() {
    let mut by_command = BTreeMap::new();
    all_help(&[], &mut by_command);
    assert!(by_command.values().flatten().count() > 100, "only {:?} have help", by_command.keys());
    let (mut bad, mut long) = (BTreeMap::new(), BTreeMap::new());
    for (name, helps) in by_command {
        let found = helps.iter().map(|text| faults(text));
        let (faults, sentences): (Vec<_>, Vec<_>) = found.unzip();
        let unique = |texts: Vec<Vec<String>>| -> Vec<String> {
            texts.concat().into_iter().collect::<BTreeSet<_>>().into_iter().collect()
        };
        bad.insert(name.clone(), unique(faults));
        long.insert(name, unique(sentences));
    }
    let mut differences = Ratchet { kind: "faults", numbers: &FAULTS, slack: SLACK }.differences(&bad);
    differences.extend(Ratchet { kind: "long sentences", numbers: &LONG, slack: SLACK }.differences(&long));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn planted_faults_are_found() {
    let option =
        |text: &str| faults(&format!("About\n\nUsage: a\n\nOptions:\n      --a <A>\n          {text}\n")).0;
    assert_eq!(option("Where files are"), ["begins with \"Where\": Where files are"]);
    assert_eq!(option("Port that nobody uses"), ["says \"nobody\": Port that nobody uses"]);
    assert_eq!(option(&"word ".repeat(rules::WORDS_MAX + 1)).len(), 1);
    assert_eq!(option("Directory of files"), Vec::<String>::new());
    assert_eq!(texts("Options:\n  -h, --help  Print help\n\nExample:\n  vostok a b\n"), ["Print help"]);
    assert_eq!(
        commands("About\n\nCommands:\n  a  Text\n     more\n  help  Text\n\nOptions:\n  b  c\n"),
        ["a"]
    );
}
