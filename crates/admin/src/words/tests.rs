use super::*;
use crate::table::operations;
use crate::{AdminCommand, DoctorCommand, Error, TopCommand};
use clap::Args as _;
use std::collections::BTreeSet;

/// Whether a text has Chinese letters.
fn is_chinese(text: &str) -> bool {
    text.chars().any(|letter| ('\u{4e00}'..='\u{9fff}').contains(&letter))
}

/// The keys of a table that occur twice, or that nothing needs.
fn superfluous(words: &'static Words, needed: &BTreeSet<String>) -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    words.iter().map(|(key, _)| key).filter(|key| !needed.contains(*key) || !seen.insert(*key)).collect()
}

#[test]
fn every_operation_and_argument_has_chinese_and_no_text_is_left_over() {
    let names: BTreeSet<String> = operations().map(|it| format!("{} {}", it.noun, it.verb)).collect();
    let helps: BTreeSet<String> =
        operations().flat_map(|it| it.arguments).map(|argument| argument.help.to_owned()).collect();
    let missing: Vec<_> = names.iter().filter(|name| ABOUT.get(name).is_none()).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let missing: Vec<_> = helps.iter().filter(|help| HELP.get(help).is_none()).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert_eq!(superfluous(&ABOUT, &names), [""; 0]);
    assert_eq!(superfluous(&HELP, &helps), [""; 0]);
}

#[test]
fn every_flag_has_chinese() {
    let root = Command::new("vostok")
        .subcommand(AdminCommand::augment_args(Command::new("admin")))
        .subcommand(DoctorCommand::augment_args(Command::new("doctor")))
        .subcommand(TopCommand::augment_args(Command::new("top")));
    assert_eq!(untranslated(&root, &Words::new("")), [""; 0]);
}

#[test]
fn every_line_is_a_text_and_its_translation_once() {
    for words in [&ABOUT, &HELP, &COLUMNS, &ERRORS, &FLAGS, &SCREEN, &CLAP] {
        let lines: BTreeSet<_> = words.file.lines().collect();
        let texts: BTreeSet<_> = words.iter().map(|(english, _)| english).collect();
        assert!(!texts.is_empty() && lines.iter().all(|line| line.matches('\t').count() == 1), "{lines:#?}");
        assert_eq!(words.file.lines().count(), texts.len(), "a text twice among {texts:#?}");
    }
}

#[test]
fn chinese_texts_are_chinese() {
    let all = [&ABOUT, &HELP, &COLUMNS, &ERRORS, &SCREEN, &CLAP];
    for (english, chinese) in all.into_iter().flat_map(|words| words.iter()) {
        let is_term = !chinese.contains(' ') && chinese.len() < 16;
        assert!(is_chinese(chinese) || is_term || chinese == "'", "{english}: {chinese}");
        assert!(!is_chinese(english) || english == chinese, "{english}");
    }
}

/// The templates of errors in the sources: texts of [`Error::Usage`] and [`Error::NotFound`] with `{}` for each value.
fn templates(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default().replace("\\\n", "");
    let mut found = Vec::new();
    for kind in ["Error::Usage(", "Error::NotFound(", "Some(format!("] {
        for rest in source.split(kind).skip(1) {
            let rest = rest.trim_start().trim_start_matches("format!(").trim_start();
            let Some(text) = rest.strip_prefix('"') else { continue };
            let text = text.replace("\\\"", "\u{1}");
            let Some((text, _)) = text.split_once('"') else { continue };
            // Units of figures are no sentences.
            if text.split(' ').count() > 2 {
                found.push(text.replace('\u{1}', "\""));
            }
        }
    }
    found
}

/// The template with a plain `{}` for every place.
fn plain(template: &str) -> String {
    let mut out = String::new();
    for (index, part) in template.split('{').enumerate() {
        match part.split_once('}') {
            Some((_, rest)) if index > 0 => out.extend(["{}", rest]),
            _ => out.push_str(part),
        }
    }
    out
}

#[test]
fn every_error_has_chinese() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut missing = BTreeSet::new();
    let mut directories = vec![std::path::PathBuf::from(directory)];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            // The doctor's texts have both languages beside each other.
            if path.is_dir() && !path.ends_with("doctor") {
                directories.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
                let source = std::fs::read_to_string(&path).unwrap();
                let texts = templates(&source).into_iter().map(|text| plain(&text));
                missing.extend(texts.filter(|text| ERRORS.get(text).is_none()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn errors_keep_their_values() {
    let error = Error::NotFound("no broker knows the group payments".to_owned()).to_string();
    assert_eq!(Lang::En.error(&error), error);
    assert_eq!(Lang::Zh.error(&error), "没有 broker 知道消费组 payments");
    assert_eq!(Lang::Zh.error("a server's own words"), "a server's own words");
    let filled = |english: &str| fill(english, "expected {} as {}, found {}", "{1} 应为 {2}，实际为 {3}");
    assert_eq!(filled("expected a as b, found c, found d").unwrap(), "a 应为 b，实际为 c, found d");
    assert_eq!(filled("expected a as b"), None);
    assert_eq!(fill("not confirmed", "not confirmed", "未确认").unwrap(), "未确认");
}

#[test]
fn help_is_printed_in_chinese() {
    let command = AdminCommand::augment_args(Command::new("admin"));
    let command = localize(command, Lang::Zh, &Words::new(""));
    let output =
        command.try_get_matches_from(["admin", "topic", "create", "--help"]).unwrap_err().to_string();
    let output = localize_output(&output, Lang::Zh);
    for text in ["用法：", "选项：", "创建主题", "mqadmin 命令：updateTopic", "--namesrv", "打印帮助"]
    {
        assert!(output.contains(text), "{text}: {output}");
    }
    for text in ["Usage", "Options", "otherwise", "Name servers"] {
        assert!(!output.contains(text), "{text}: {output}");
    }
}

#[test]
fn the_screens_of_top_are_chinese() {
    let mut texts: BTreeSet<String> = crate::top::titles().map(str::to_owned).collect();
    // Texts at one place each in the drawing.
    let drawn = include_str!("../top/draw.rs").split("say(\"").skip(1);
    texts.extend(drawn.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    texts.extend([crate::top::HELP, crate::top::HINTS].map(str::to_owned));
    let missing: Vec<_> = texts.iter().filter(|text| SCREEN.get(text).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(superfluous(&SCREEN, &texts), [""; 0]);
}
