//! Language of the command line.

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::OnceLock;

use ::lab::command::Translation;
use admin::{Lang, Words, localize, localize_output};
use clap::Command;

/// Texts of the commands outside of `vostok admin`, `doctor` and `top`.
static PROGRAM: Words = Words::new(include_str!("words/zh/program.tsv"));

/// Texts of the help of `vostok lab`.
static LAB: Words = Words::new(include_str!("words/zh/lab.tsv"));

/// Errors and lines of the program and of its roles, with `{}` for each value; `{1}`, `{2}` stand for the values in the
/// translation.
static MESSAGES: Words = Words::new(include_str!("words/zh/messages.tsv"));

/// Errors and lines of `vostok lab`, like [`MESSAGES`].
static LAB_MESSAGES: Words = Words::new(include_str!("words/zh/lab_messages.tsv"));

/// Tables of messages of the lab, which are too general for other commands.
static OF_LAB: [&Words; 2] = [&LAB_MESSAGES, &MESSAGES];

/// Language of the messages of this process.
static LANG: OnceLock<Lang> = OnceLock::new();

/// Sets the language of [`said`] and [`complain`]. The first call decides.
pub fn choose(lang: Lang) {
    LANG.get_or_init(|| lang);
}

/// A message in a language.
pub fn message(lang: Lang, english: &str) -> String {
    lang.message(english, &[&MESSAGES])
}

/// A message of the lab in a language.
pub fn lab_message(lang: Lang, english: &str) -> String {
    lang.message(english, &OF_LAB)
}

/// A message in the language of this process.
pub fn said(english: &str) -> String {
    message(LANG.get().copied().unwrap_or_default(), english)
}

/// Prints the reason why a command ended to standard error, in the language of this process.
pub fn complain(why: impl Display) {
    // The reader of standard error may be gone.
    let _ = writeln!(std::io::stderr(), "vostok: {}", said(&why.to_string()));
}

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
        output: |text| localize_output(text, Lang::Zh, &OF_LAB),
        message: |text| lab_message(Lang::Zh, text),
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
    let text = localize_output(&error.render().to_string(), lang, &[&MESSAGES]);
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

#[cfg(test)]
mod tests;
