//! Texts of the command line in Chinese. The English text, as it stands beside its subject, is the key.

mod about;
mod columns;
mod errors;
mod flags;
mod help;
mod screen;

use crate::{Argument, Lang, Operation};
use clap::Command;
use clap::builder::StyledStr;

/// English texts and their Chinese translations.
pub type Words = &'static [(&'static str, &'static str)];

/// Texts of `clap` itself, in the order in which they are replaced in its output.
const CLAP: Words = &[
    ("[OPTIONS]", "[选项]"),
    ("<COMMAND>", "<命令>"),
    ("[COMMAND]", "[命令]"),
    ("Usage:", "用法："),
    ("Commands:", "命令："),
    ("Arguments:", "参数："),
    ("Options:", "选项："),
    ("Possible values:", "可选值："),
    ("[possible values: ", "[可选值："),
    ("[default: ", "[默认值："),
    ("Print help (see more with '--help')", "打印帮助（--help 显示更多）"),
    ("Print help (see a summary with '-h')", "打印帮助（-h 显示摘要）"),
    ("Print this message or the help of the given subcommand(s)", "打印本帮助或子命令的帮助"),
    ("Print help", "打印帮助"),
    ("Print version", "打印版本"),
    ("error:", "错误："),
    ("the following required arguments were not provided:", "缺少必需的参数："),
    ("unexpected argument '", "未知的参数 '"),
    ("unrecognized subcommand '", "未知的子命令 '"),
    ("invalid value '", "无效的值 '"),
    ("a value is required for '", "缺少参数值 '"),
    ("the argument '", "参数 '"),
    ("' cannot be used with '", "' 不能同时使用 '"),
    ("' cannot be used multiple times", "' 只能使用一次"),
    ("' requires a subcommand but one was not provided", "' 需要子命令"),
    ("  [subcommands: ", "  [子命令："),
    ("' but none was supplied", "'"),
    ("' found", "'"),
    ("' for '", "'，参数 '"),
    ("tip: a similar argument exists:", "提示：相近的参数："),
    ("tip: some similar arguments exist:", "提示：相近的参数："),
    ("tip: a similar subcommand exists:", "提示：相近的子命令："),
    ("tip: some similar subcommands exist:", "提示：相近的子命令："),
    ("tip: a similar value exists:", "提示：相近的值："),
    ("tip: some similar values exist:", "提示：相近的值："),
    ("tip: to pass '", "提示：要把 '"),
    ("' as a value, use '", "' 作为值，请用 '"),
    ("For more information, try '", "更多信息请用 '"),
];

impl Lang {
    /// The sentence about an operation.
    #[must_use]
    pub fn about(self, operation: &Operation) -> &'static str {
        let name = format!("{} {}", operation.noun, operation.verb);
        self.pick(None, word(about::ABOUT, &name)).unwrap_or(operation.about)
    }

    /// The help of an argument.
    #[must_use]
    pub fn help(self, argument: &Argument) -> &'static str {
        self.pick(None, word(help::HELP, argument.help)).unwrap_or(argument.help)
    }

    /// The title of a column, from the name of the member of an answer.
    pub(crate) fn title(self, name: &str) -> String {
        match self.pick(None, word(columns::COLUMNS, name)) {
            Some(title) => title.to_owned(),
            None => name.to_uppercase(),
        }
    }

    /// A text of a screen of `vostok top`.
    pub(crate) fn say(self, english: &'static str) -> &'static str {
        self.pick(None, word(screen::SCREEN, english)).unwrap_or(english)
    }

    /// The text of an error, warning or question. Texts of servers stay as they are.
    #[must_use]
    pub fn error(self, english: &str) -> String {
        let translated = || errors::ERRORS.iter().find_map(|(from, to)| fill(english, from, to));
        self.pick(None, Some(())).and_then(|()| translated()).unwrap_or_else(|| english.to_owned())
    }
}

/// The translation of a text in a table.
fn word(words: Words, english: &str) -> Option<&'static str> {
    words.iter().find(|(key, _)| *key == english).map(|(_, text)| *text)
}

/// The text of `to` with the values that `english` has at the places `{}` of `from`; `None` if the texts differ elsewhere.
/// `{1}` and so on in `to` name a place.
fn fill(english: &str, from: &str, to: &str) -> Option<String> {
    let mut parts = from.split("{}");
    let mut rest = english.strip_prefix(parts.next()?)?;
    let (mut values, mut parts) = (Vec::new(), parts.peekable());
    while let Some(part) = parts.next() {
        let end = match parts.peek() {
            // The last value may contain the text that ends it.
            None if part.is_empty() => rest.len(),
            None => rest.len().checked_sub(part.len()).filter(|end| rest.get(*end..) == Some(part))?,
            Some(_) => rest.find(part)?,
        };
        values.push(&rest[..end]);
        rest = &rest[end + part.len()..];
    }
    let numbered = (1..).zip(&values);
    let value = |value: &str| word(flags::FLAGS, value).unwrap_or(value).to_owned();
    rest.is_empty().then(|| {
        numbered.fold(to.to_owned(), |text, (number, it)| text.replace(&format!("{{{number}}}"), &value(it)))
    })
}

/// Translates the help of a command and of all commands below. `more` are the texts of commands outside of this crate.
#[must_use]
pub fn localize(command: Command, lang: Lang, more: Words) -> Command {
    if lang == Lang::En { command } else { translated(command, more) }
}

fn translated(command: Command, more: Words) -> Command {
    let find = |text: &StyledStr| find(&text.to_string(), more);
    let about = command.get_about().and_then(find);
    let long_about = command.get_long_about().and_then(find);
    let (after, after_long) =
        (command.get_after_help().and_then(find), command.get_after_long_help().and_then(find));
    let mut command = command;
    if let Some(text) = about {
        command = command.about(text);
    }
    if let Some(text) = long_about {
        command = command.long_about(text);
    }
    if let Some(text) = after {
        command = command.after_help(text);
    }
    if let Some(text) = after_long {
        command = command.after_long_help(text);
    }
    let arg = |arg: clap::Arg| {
        let (help, long) = (arg.get_help().and_then(find), arg.get_long_help().and_then(find));
        let arg = if let Some(text) = help { arg.help(text) } else { arg };
        if let Some(text) = long { arg.long_help(text) } else { arg }
    };
    command.mut_args(arg).mut_subcommands(|below| translated(below, more))
}

/// The Chinese of a text of the help.
fn find(english: &str, more: Words) -> Option<String> {
    let listed = [more, flags::FLAGS, help::HELP].into_iter().find_map(|words| word(words, english));
    let of_operation = || {
        let operation = crate::table::operations().find(|it| it.about == english)?;
        Some(Lang::Zh.about(operation))
    };
    let names = |prefix, chinese: &str| english.strip_prefix(prefix).map(|names| format!("{chinese}{names}"));
    let made = || names("In mqadmin: ", "mqadmin 命令：").or_else(|| names("Operations: ", "操作："));
    let lines = || {
        let lines: Option<Vec<String>> = english.lines().map(|line| find(line, more)).collect();
        lines.map(|lines| lines.join("\n"))
    };
    listed
        .or_else(of_operation)
        .map(str::to_owned)
        .or_else(made)
        .or_else(|| english.contains('\n').then(lines)?)
}

/// Translates what `clap` prints of help and wrong arguments.
#[must_use]
pub fn localize_output(output: &str, lang: Lang) -> String {
    let all = CLAP.iter().filter(|_| lang == Lang::Zh);
    let text = all.fold(output.to_owned(), |text, (english, chinese)| text.replace(english, chinese));
    if lang == Lang::Zh { text.replace("： ", "：") } else { text }
}

/// The texts of the help of a command and of all commands below that have no translation.
#[must_use]
pub fn untranslated(command: &Command, more: Words) -> Vec<String> {
    let mut missing = Vec::new();
    let mut check = |text: Option<&StyledStr>| {
        missing.extend(text.map(StyledStr::to_string).filter(|text| find(text, more).is_none()));
    };
    [command.get_about(), command.get_long_about(), command.get_after_help()]
        .into_iter()
        .for_each(&mut check);
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        [arg.get_help(), arg.get_long_help()].into_iter().for_each(&mut check);
        arg.get_possible_values()
            .iter()
            .filter(|_| !arg.is_hide_possible_values_set())
            .for_each(|value| check(value.get_help()));
    }
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    missing.extend(below.flat_map(|below| untranslated(below, more)));
    missing
}

#[cfg(test)]
mod tests;
