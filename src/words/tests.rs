use super::*;
use clap::CommandFactory as _;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_command_and_flag_has_chinese() {
    let mut command = crate::Arguments::command();
    command.build();
    // The help of `serve` lists the settings, for which the Chinese one has another text.
    let mut tools = ::lab::command::Lab::tools();
    tools.build();
    let missing = [admin::untranslated(&command, &PROGRAM), admin::untranslated(&tools, &LAB)].concat();
    let missing: Vec<_> = missing.iter().filter(|text| !CLAP.contains(&text.as_str())).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn no_translation_of_help_is_left_over() {
    let mut commands = [crate::Arguments::command(), ::lab::command::Lab::tools()];
    commands.iter_mut().for_each(Command::build);
    for (command, words) in commands.iter().zip([&PROGRAM, &LAB]) {
        // Without the words at hand, their English texts are missing.
        let needed = admin::untranslated(command, &Words::new(""));
        let needed: Vec<&str> = needed.iter().flat_map(|text| text.lines().chain([&**text])).collect();
        let left_over: Vec<_> = words.iter().filter(|(english, _)| !needed.contains(english)).collect();
        assert!(left_over.is_empty(), "{left_over:#?}");
    }
}

/// Texts that `clap` adds, which are replaced in its output.
const CLAP: [&str; 5] = [
    "Print help",
    "Print version",
    "Print help (see more with '--help')",
    "Print help (see a summary with '-h')",
    "Print this message or the help of the given subcommand(s)",
];

#[test]
fn every_setting_is_explained_in_chinese() {
    for setting in broker::settings() {
        assert!(meaning(setting.name).is_some_and(|text| !text.is_ascii()), "{}", setting.name);
        assert!(setting.unit().is_none_or(|it| !message(Lang::Zh, it).is_ascii()), "{}", setting.name);
    }
    assert_eq!(meaning("autoCreateTopicEnable"), Some("向未知主题发送第一条消息时自动创建该主题"));
    assert_eq!(meaning("no such setting"), None);
}

#[test]
fn the_first_language_that_is_named_counts() {
    let of = |line: &str| language(line.split(' ').map(str::to_owned));
    assert_eq!(of("vostok --lang zh admin topic list"), Lang::Zh);
    assert_eq!(of("vostok admin topic list --lang=zh_CN.UTF-8"), Lang::Zh);
    assert_eq!(of("vostok --lang en admin -- --lang zh"), Lang::En);
}

#[test]
fn help_of_each_command_is_chinese() {
    for words in [
        "vostok --help",
        "vostok serve -h",
        "vostok config list -h",
        "vostok auth import -h",
        "vostok admin topic -h",
    ] {
        let command = translated(crate::Arguments::command(), Lang::Zh);
        let error = command.try_get_matches_from(words.split(' ')).unwrap_err();
        let text = localize_output(&error.render().to_string(), Lang::Zh, &[]);
        assert!(text.contains("用法：") && text.contains("打印帮助"), "{text}");
        for english in ["Usage", "Options", "Commands", "Print ", "default:", " the "] {
            assert!(!text.contains(english), "{words} has {english:?}:\n{text}");
        }
    }
}

/// Calls whose texts no user reads, because they are reasons of panics.
const UNREAD: [&str; 7] =
    ["expect", "assert", "assert_eq", "assert_ne", "panic", "debug_assert", "unreachable"];

/// Texts in a Rust source before its tests, with `{}` for each value.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut code, mut found, mut skipped) = (String::new(), Vec::new(), 0_usize);
    let mut letters = source.chars().peekable();
    while let Some(letter) = letters.next() {
        let mut ahead = letters.clone();
        match letter {
            '/' if ahead.next() == Some('/') => while letters.next_if(|it| *it != '\n').is_some() {},
            // A letter, not a lifetime.
            '\'' if ahead.next() == Some('\\') => _ = letters.nth(2),
            '\'' if ahead.next() == Some('\'') => _ = letters.nth(1),
            '"' => {
                let text = literal(&mut letters);
                if skipped == 0 && !code.ends_with('b') {
                    found.push(template(&text));
                }
            }
            '(' | '[' | '{' if skipped > 0 => skipped += 1,
            '(' => {
                let word = code.rsplit(|it: char| !(it.is_alphanumeric() || "_!:".contains(it))).next();
                let word = word.unwrap_or_default().trim_end_matches('!');
                skipped = usize::from(word.starts_with("tracing::") || UNREAD.contains(&word));
                code.push(letter);
            }
            '[' if code.ends_with('#') || code.ends_with("#!") => {
                skipped = usize::from(!ahead.take(6).eq("error(".chars()));
                code.push(letter);
            }
            ')' | ']' | '}' if skipped > 0 => skipped -= 1,
            other => code.push(other),
        }
    }
    found
}

/// The text of a literal up to its end.
fn literal(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(letter) = letters.next().filter(|it| *it != '"') {
        match letter {
            '\\' => match letters.next() {
                Some('\n') => while letters.next_if(|it| it.is_whitespace()).is_some() {},
                Some('n') => text.push('\n'),
                other => text.extend(other),
            },
            other => text.push(other),
        }
    }
    text
}

/// A text with `{}` for each value.
fn template(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_once('}') {
        Some((_, rest)) => text + "{}" + rest,
        None => text + "{" + part,
    })
}

/// Whether a text has two words at least.
fn is_sentence(text: &str) -> bool {
    let words = text.split(|it: char| !it.is_ascii_alphabetic()).filter(|word| word.len() > 1);
    words.count() > 1 && text.trim().contains(' ')
}

/// Rust sources below a path of the repository, without tests.
fn sources(path: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut paths, mut found) = (vec![root.join(path)], Vec::new());
    while let Some(path) = paths.pop() {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && !name.contains("/tests/") {
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// Asserts that every text is translated, whole or in parts, and that no row is left over: each is one of `all` texts or of `composed`.
fn check(words: &Words, needed: &BTreeSet<String>, all: &BTreeSet<String>, composed: &[&str]) {
    let is_missing = |text: &&String| words.get(text).is_none() && Lang::Zh.message(text, &[words]) == **text;
    let missing: Vec<_> = needed.iter().filter(is_missing).collect();
    let is_known = |row: &str| all.contains(row) || composed.contains(&row);
    let left_over: Vec<_> = words.iter().map(|(row, _)| row).filter(|row| !is_known(row)).collect();
    assert!(missing.is_empty() && left_over.is_empty(), "missing: {missing:#?}\nleft over: {left_over:#?}");
    for (english, chinese) in words.iter() {
        let places = english.matches("{}").count();
        let has = |number: usize| {
            chinese.contains(&format!("{{{number}}}")) || chinese.contains(&format!("{{{number}*}}"))
        };
        assert!((1..=places).all(has) && !has(places + 1), "{english}: {chinese}");
    }
}

/// Files whose errors reach the user of `vostok serve`, `vostok store` or `vostok auth`.
const ROLES: [&str; 20] = [
    "crates/auth/src/accounts.rs",
    "crates/auth/src/plain/files.rs",
    "crates/broker/src/config/reading.rs",
    "crates/broker/src/persist.rs",
    "crates/broker/src/replication/files.rs",
    "crates/broker/src/start.rs",
    "crates/client/src/error.rs",
    "crates/console/src/start.rs",
    "crates/controller/src/group.rs",
    "crates/controller/src/journal.rs",
    "crates/controller/src/server.rs",
    "crates/namesrv/src/kv.rs",
    "crates/namesrv/src/server.rs",
    "crates/net/src/proxies.rs",
    "crates/net/src/tls/settings.rs",
    "crates/replica/src/agent/identity.rs",
    "crates/store/src/inspect/survey.rs",
    "crates/wire/src/body/key_values.rs",
    "crates/wire/src/settings/file.rs",
    "crates/wire/src/settings/property.rs",
];

/// Texts of the program that no user of the command line reads, or that are RocketMQ's.
fn is_unread(text: &str) -> bool {
    let is_of_ip = ["-n {}", "-4 ", "netns ", "link ", "addr "].iter().any(|start| text.starts_with(start));
    let is_of_rocketmq = text.contains(" boot success") || text == "The user is existed";
    // Contents of files, and the answer to other machines.
    let is_kept = text.starts_with("# ")
        || text.starts_with("Started without")
        || text == crate::default_access::REFUSAL;
    is_of_ip || is_of_rocketmq || is_kept || !text.is_ascii() || PROGRAM.get(text).is_some()
}

#[test]
fn every_message_of_the_program_has_chinese_and_no_row_is_left_over() {
    let texts = |path: &str| sources(path).into_iter().flat_map(|(_, source)| literals(&source));
    let errors = |path: &&str| {
        let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        let attributes = source.split("#[error(").skip(1).filter_map(|it| it.split(")]").next());
        attributes.flat_map(literals).collect::<Vec<_>>()
    };
    let of_roles: BTreeSet<String> = ROLES.iter().flat_map(errors).collect();
    let own: BTreeSet<String> = texts("src").collect();
    let needed = own.iter().filter(|text| !is_unread(text)).chain(&of_roles);
    let needed = needed.filter(|text| is_sentence(text)).cloned().collect();
    let all = [
        "auth",
        "broker",
        "client",
        "controller",
        "namesrv",
        "net",
        "wire",
        "replica",
        "store",
        "console",
        "proxy",
    ];
    let all = all.iter().flat_map(|name| texts(&format!("crates/{name}/src"))).chain(own.clone()).collect();
    check(&MESSAGES, &needed, &all, &COMPOSED);
}

/// Rows for texts that the code composes.
const COMPOSED: [&str; 23] = [
    // Lines of texts with several lines.
    "Clients:  producer.setNamesrvAddr(\"{}\");   // Java, Go and others: the name server's address",
    "Next:     vostok lab producer -n {} -t Hello -w 1 -s 128 -q 10",
    // Values of other messages, and messages whose parts the code joins.
    "doing: {}",
    "would: {}",
    "found {}",
    "seconds",
    "hours",
    "topics",
    "percent",
    "{} queue {} message {} (log offset {})",
    "{}/{} at {}",
    "the configuration file {}, line {}: {}",
    "lost: {} queue {} message {}",
    "lost: {} queue {} message {} (log offset {})",
    "expected an object with accessKey and secretKey",
    "process {}",
    "needs {} on {}",
    "  no entry matches",
    "{}, because of: {}",
    "{}, because of: {}. The answer is code {}: {}",
    // Of the standard library.
    "exit status: {}",
    "signal: {} ({})",
    "expected {}",
];

/// Files of the lab whose texts are in its reports (which have both languages), or are those of RocketMQ's benchmark.
const LAB_UNREAD: [&str; 11] = [
    "/report/",
    "/judge/",
    "/sentences/",
    "/plan/page.rs",
    "/plan/files.rs",
    "/compare/page.rs",
    "/script/line.rs",
    "/script/deliveries.rs",
    "/load/latency.rs",
    "/echo/answer.rs",
    "/archive/histograms.rs",
];

/// Rows for texts of the lab that the code composes.
const LAB_COMPOSED: [&str; 7] = [
    "consumer groups {}",
    "consumer groups {} and {} more",
    "topics {}",
    "topics {} and {} more",
    "{} left",
    "{} left of this cell",
    "expected at least 1",
];

/// Texts of the lab for programs, or of RocketMQ's benchmark.
const LAB_RAW: [&str; 19] = [
    "vostok lab",
    "{} unexpected check: msgId={},txId={},checkTimes={},{}",
    "MQv2-HMAC-SHA1 Credential={}, SignedHeaders=x-mq-date-time, Signature={}",
    " request type {} not supported",
    "A broker is cut off with: ip -n ",
    "--send, --consume, --topics",
    "keyEnable: {}, propertySize: {}, tagCount: {}, traceEnable: {}, aclEnable: {}",
    " compressEnable: {}, reportInterval: {}",
    "{}\ncompressType: {} compressLevel: {}",
    "topic: {}, threadCount: {}, messageSize: {}, {}, messageQuantity: {}, delayEnable: {}, delayLevel: {}, asyncEnable: {}\n{}",
    "topic: {}, threadCount: {}, messageSize: {}, batchSize: {}, {}\n{}",
    "topic: {}, threadCount {}, group: {}, suffix: {}, filterType: {}, expression: {}, msgTraceEnable: {}, aclEnable: {}, reportInterval: {}",
    "Consumer Started.",
    "[Complete] Consume Total: {} | Consume TPS: {}",
    "Born to consumer {}",
    // Parts of composed texts.
    "consumer groups",
    " and {} more",
    " of this cell",
    // Of a panic.
    "a test reads all rows",
];

#[test]
fn every_message_of_the_lab_has_chinese_and_no_row_is_left_over() {
    let sources = sources("crates/lab/src");
    let all: BTreeSet<String> = sources.iter().flat_map(|(_, source)| literals(source)).collect();
    let read = sources.iter().filter(|(name, _)| !LAB_UNREAD.iter().any(|part| name.contains(part)));
    let needed = read.flat_map(|(_, source)| literals(source));
    let needed =
        needed.filter(|text| is_sentence(text) && !LAB_RAW.contains(&&**text) && LAB.get(text).is_none());
    check(&LAB_MESSAGES, &needed.collect(), &all, &LAB_COMPOSED);
}

#[test]
fn names_that_are_also_messages_stay_in_messages() {
    for words in [&MESSAGES, &LAB_MESSAGES] {
        let names: Vec<&str> = words.iter().map(|row| row.0).filter(|it| !it.contains([' ', '{'])).collect();
        assert!(!names.is_empty());
        for (english, chinese) in words.iter() {
            for number in 1..=english.matches("{}").count() {
                let is_message = chinese.contains(&format!("{{{number}*}}"));
                for name in names.iter().filter(|_| !is_message) {
                    let text =
                        english.replacen("{}", "7", number - 1).replacen("{}", name, 1).replace("{}", "7");
                    let said = Lang::Zh.message(&text, &[words]);
                    assert!(said.contains(*name), "{text}: {said}");
                }
            }
        }
    }
}
