//! Language of the command line.

use std::process::ExitCode;

use ::lab::command::Translation;
use admin::{Lang, Words, localize, localize_output};
use clap::Command;

/// Texts of the commands outside of `vostok admin`, `doctor` and `top`.
static PROGRAM: Words = Words::new(include_str!("words/zh/program.tsv"));

/// Texts of the help of `vostok lab`.
static LAB: Words = Words::new(include_str!("words/zh/lab.tsv"));

/// The language that the arguments or the environment name. Needed before the arguments are parsed, which may print help.
pub fn language(arguments: impl IntoIterator<Item = String>) -> Lang {
    let mut arguments = arguments.into_iter().take_while(|it| it != "--");
    let mut named = None;
    while let Some(argument) = arguments.next() {
        let value = match argument.strip_prefix("--lang") {
            Some("") => arguments.next(),
            Some(value) => value.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        named = named.or(value.and_then(|value| Lang::of(&value)));
    }
    named.unwrap_or_else(|| Lang::of_environment(|name| std::env::var(name).ok()))
}

/// The command line with its help in a language.
pub fn translated(command: Command, lang: Lang) -> Command {
    let command = localize(command, lang, &PROGRAM);
    // The settings have no place in the table; docs and `vostok config` explain them.
    match lang {
        Lang::En => command,
        Lang::Zh => command.mut_subcommand("serve", |serve| serve.after_long_help(SETTINGS)),
    }
}

/// The arguments of `vostok lab`, with help in a language.
pub fn lab(arguments: ::lab::command::Lab, lang: Lang) -> ::lab::command::Lab {
    let translation = Translation {
        command: |command| localize(command, Lang::Zh, &LAB),
        output: |text| localize_output(text, Lang::Zh),
    };
    if lang == Lang::Zh { arguments.translated(translation) } else { arguments }
}

/// Chinese text below the help of `vostok serve`.
const SETTINGS: &str = "-c 文件的配置项与 RocketMQ 同名。vostok config list 列出全部配置项，vostok config explain 名称 说明单个配置项；
中文说明见 docs/settings.zh-CN.md。";

/// Prints help, the version, or what is wrong with the arguments.
pub fn show(error: &clap::Error, lang: Lang) -> ExitCode {
    if lang == Lang::En {
        error.exit();
    }
    use std::io::Write as _;
    let text = localize_output(&error.render().to_string(), lang);
    // The output may have no reader.
    let _ = match error.use_stderr() {
        true => write!(std::io::stderr(), "{text}"),
        false => write!(std::io::stdout(), "{text}"),
    };
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// The Chinese page about the settings, which a test compares with the table of settings.
const PAGE: &str = include_str!("../docs/settings.zh-CN.md");

/// The Chinese meaning of a setting, or why it has no effect.
pub fn meaning(setting: &str) -> Option<&'static str> {
    let row = format!("| `{setting}` |");
    let of_row = PAGE.lines().find(|line| line.starts_with(&row));
    let of_row = of_row.and_then(|line| line.trim_end_matches([' ', '|']).rsplit(" | ").next());
    let of_list = || {
        let lists = PAGE.lines().filter_map(|line| line.split_once('：'));
        lists.filter(|(_, names)| names.split(", ").any(|name| name == setting)).map(|(why, _)| why).next()
    };
    of_row.or_else(of_list)
}

/// The unit of a setting.
pub fn unit(lang: Lang, unit: &'static str) -> &'static str {
    let chinese = match unit {
        "milliseconds" => "毫秒",
        "seconds" => "秒",
        "hours" => "小时",
        "bytes" => "字节",
        "percent" => "百分比",
        "topics" => "主题",
        other => other,
    };
    lang.pick(unit, chinese)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

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
            assert!(setting.unit().is_none_or(|it| !unit(Lang::Zh, it).is_ascii()), "{}", setting.name);
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
            let text = localize_output(&error.render().to_string(), Lang::Zh);
            assert!(text.contains("用法：") && text.contains("打印帮助"), "{text}");
            for english in ["Usage", "Options", "Commands", "Print ", "default:", " the "] {
                assert!(!text.contains(english), "{words} has {english:?}:\n{text}");
            }
        }
    }
}
