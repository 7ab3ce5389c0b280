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
    for words in [&ABOUT, &HELP, &COLUMNS, &ERRORS, &SYSTEM, &FLAGS, &SCREEN, &CLAP] {
        let lines: BTreeSet<_> = words.file.lines().collect();
        let texts: BTreeSet<_> = words.iter().map(|(english, _)| english).collect();
        assert!(!texts.is_empty() && lines.iter().all(|line| line.matches('\t').count() == 1), "{lines:#?}");
        assert_eq!(words.file.lines().count(), texts.len(), "a text twice among {texts:#?}");
    }
}

#[test]
fn chinese_texts_are_chinese() {
    let all = [&ABOUT, &HELP, &COLUMNS, &ERRORS, &SYSTEM, &SCREEN, &CLAP];
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
    let found = |english| values(english, "expected {} as {}, found {}");
    assert_eq!(found("expected a as b, found c, found d").unwrap(), ["a", "b", "c, found d"]);
    assert_eq!(found("expected a as b"), None);
    assert_eq!(values("not confirmed", "not confirmed"), Some(Vec::new()));
}

#[test]
fn messages_are_translated_with_their_causes() {
    static MORE: Words = Words::new(
        "the file {} is bad\t文件 {1} 有误\nthe file {} is {}\t文件 {1}：{2*}\ncannot {} {}: {}\t无法{1*} {2}：{3*}\nread\t读取\nno name\t没有名称",
    );
    let said = |english: &str| Lang::Zh.message(english, &[&MORE]);
    assert_eq!(said("the file a is bad"), "文件 a 有误", "the row with most text");
    assert_eq!(said("the file a is no name"), "文件 a：没有名称");
    assert_eq!(said("cannot read a: no name"), "无法读取 a：没有名称");
    assert_eq!(said("conf/a: no name"), "conf/a：没有名称");
    assert_eq!(said("the file a is bad: no name"), "文件 a 有误：没有名称");
    assert_eq!(said("conf/a: odd; words"), "conf/a: odd; words");
    assert_eq!(said("no name\nodd: words\nread"), "没有名称\nodd: words\n读取");
}

#[test]
fn values_of_messages_stay_as_they_are() {
    static MORE: Words =
        Words::new("lost {}\t已丢失 {1}\nread\t读取\nno access to {}: {}\t无法访问 {1}：{2*}");
    let said = |english: &str| Lang::Zh.message(english, &[&MORE]);
    assert_eq!(said("lost read"), "已丢失 read");
    assert_eq!(said("lost a, read"), "已丢失 a, read");
    assert_eq!(said("lost: read"), "lost: read", "a name like a row");
    assert_eq!(said("no access to /x{2}/{1}: read"), "无法访问 /x{2}/{1}：读取");
    assert_eq!(said(&"x, ".repeat(100_000)), "x, ".repeat(100_000));
    assert!(said(&"lost: ".repeat(10_000)).ends_with("lost: lost: "), "the depth is bounded");
}

#[test]
fn errors_of_the_system_are_chinese_and_no_row_is_left_over() {
    use std::io::Error as Io;
    let numbers = [
        1, 2, 5, 11, 12, 13, 16, 17, 20, 21, 22, 24, 28, 30, 32, 39, 98, 99, 101, 104, 110, 111, 113, 116,
        122,
    ];
    let mut texts: Vec<String> =
        numbers.iter().map(|number| Io::from_raw_os_error(*number).to_string()).collect();
    let parsed = [("", false), ("x", false), ("300", false), ("-300", true)];
    texts.extend(parsed.map(|(text, is_signed)| match is_signed {
        true => text.parse::<i8>().unwrap_err().to_string(),
        false => text.parse::<u8>().unwrap_err().to_string(),
    }));
    texts.extend(["x".parse::<f64>().unwrap_err().to_string(), "".parse::<f64>().unwrap_err().to_string()]);
    texts.push("x".parse::<std::net::IpAddr>().unwrap_err().to_string());
    texts.push("x".parse::<std::net::SocketAddr>().unwrap_err().to_string());
    texts.push("x".parse::<bool>().unwrap_err().to_string());
    // Of the C library.
    texts.push("stream did not contain valid UTF-8".to_owned());
    let resolver = "failed to lookup address information: ";
    texts.extend(
        ["Name or service not known", "Temporary failure in name resolution"]
            .map(|it| resolver.to_owned() + it),
    );
    let missing: Vec<_> = texts.iter().filter(|text| Lang::Zh.error(text) == **text).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let is_unused = |row: &&str| !texts.iter().any(|text| values(text, row).is_some());
    let rows = SYSTEM.iter().map(|(english, _)| english);
    let parts = [
        &resolver[..resolver.len() - 2],
        "Name or service not known",
        "Temporary failure in name resolution",
    ];
    assert_eq!(rows.filter(is_unused).filter(|row| !parts.contains(row)).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn errors_about_arguments_are_chinese() {
    let command = || {
        let number = clap::value_parser!(u8).range(1..=9);
        let arg = |name: &'static str| clap::Arg::new(name).long(name);
        let below = Command::new("list")
            .arg(arg("rows").value_parser(number))
            .arg(arg("one").value_parser(["a", "b"]).conflicts_with_all(["two", "three"]));
        let below = below.args([arg("two").num_args(2), arg("three").require_equals(true)]);
        let below = below.arg(arg("must").required(true).action(clap::ArgAction::Set));
        Command::new("vostok").subcommand_required(true).subcommand(below)
    };
    let check = |line: &str, expected: &str| {
        let error = command().try_get_matches_from(line.split(' ')).unwrap_err().to_string();
        let text = localize_output(&error, Lang::Zh, &[]);
        assert!(text.contains(expected), "{line}: {text}");
        for english in ["error", "value", "argument", "provided", "required", "tip", "Usage", "information"] {
            assert!(!text.contains(english), "{line} has {english}:\n{text}");
        }
    };
    check("vostok", "需要子命令");
    check("vostok lst", "未知的子命令 'lst'");
    check("vostok list", "缺少必需的参数");
    check("vostok list --rows 0 --must 1", "无效的值 '0'，参数 '--rows <rows>'：0 超出范围 1..=9");
    check("vostok list --rows x --must 1", "含有非数字字符");
    check("vostok list --one c --must 1", "[可选值：a, b]");
    check("vostok list --one --must 1", "缺少参数值");
    check("vostok list --must 1 --must 2", "只能使用一次");
    check("vostok list --must 1 --one a --three=b", "与以下参数冲突");
    check("vostok list --must 1 --one a --three=b --two a b", "与以下参数冲突");
    check("vostok list --must 1 --two a", "只提供了 1 个");
    check("vostok list --must 1 --three b", "等号");
    check("vostok list --must 1 --row 1", "未知的参数 '--row'");
    check("vostok list --must 1 more", "未知的参数 'more'");
}

#[test]
fn help_is_printed_in_chinese() {
    let command = AdminCommand::augment_args(Command::new("admin"));
    let command = localize(command, Lang::Zh, &Words::new(""));
    let output =
        command.try_get_matches_from(["admin", "topic", "create", "--help"]).unwrap_err().to_string();
    let output = localize_output(&output, Lang::Zh, &[]);
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
