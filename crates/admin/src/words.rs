//! Texts of the command line in Chinese. The English text, as it stands beside its subject, is the key.

use crate::{Argument, Lang, Operation};
use clap::Command;
use clap::builder::StyledStr;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// English texts and their translations, from a file with a text in each line, a tab and the translation. `\n` stands for
/// the end of a line within a text.
#[derive(Debug)]
pub struct Words {
    file: &'static str,
    rows: OnceLock<Rows>,
}

/// Rows of a file in their order, and the number of the row of each English text.
#[derive(Debug)]
struct Rows {
    texts: Vec<[Cow<'static, str>; 2]>,
    by_english: HashMap<Cow<'static, str>, usize>,
}

impl Words {
    /// The texts of a file, which is parsed when the first text is looked up.
    pub const fn new(file: &'static str) -> Self {
        Self { file, rows: OnceLock::new() }
    }

    fn rows(&self) -> &Rows {
        self.rows.get_or_init(|| {
            let unescaped = |text: &'static str| match text.contains('\\') {
                true => Cow::from(text.replace("\\n", "\n")),
                false => Cow::from(text),
            };
            let pairs = self.file.lines().filter_map(|line| line.split_once('\t'));
            let texts: Vec<_> =
                pairs.map(|(english, other)| [unescaped(english), unescaped(other)]).collect();
            let by_english =
                texts.iter().enumerate().map(|(row, [english, _])| (english.clone(), row)).collect();
            Rows { texts, by_english }
        })
    }

    /// English texts and their translations, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows().texts.iter().map(|[english, other]| (&**english, &**other))
    }

    /// The translation of an English text.
    pub fn get(&self, english: &str) -> Option<&str> {
        let rows = self.rows();
        rows.by_english.get(english).map(|row| &*rows.texts[*row][1])
    }
}

/// Sentences about operations, by noun and verb.
static ABOUT: Words = Words::new(include_str!("words/zh/about.tsv"));
/// Titles of columns, by the name of the member of an answer.
static COLUMNS: Words = Words::new(include_str!("words/zh/columns.tsv"));
/// Errors, warnings and questions with `{}` for each value; `{1}`, `{2}` stand for the values in the translation.
static ERRORS: Words = Words::new(include_str!("words/zh/errors.tsv"));
/// Help of `vostok admin`, `vostok doctor` and `vostok top`.
static FLAGS: Words = Words::new(include_str!("words/zh/flags.tsv"));
/// Help of arguments.
static HELP: Words = Words::new(include_str!("words/zh/help.tsv"));
/// Screens of `vostok top`.
static SCREEN: Words = Words::new(include_str!("words/zh/screen.tsv"));
/// Texts of `clap` itself, in the order in which they are replaced in its output.
static CLAP: Words = Words::new(include_str!("words/zh/clap.tsv"));

impl Lang {
    /// The sentence about an operation.
    pub fn about(self, operation: &Operation) -> &'static str {
        let name = format!("{} {}", operation.noun, operation.verb);
        self.pick(None, ABOUT.get(&name)).unwrap_or(operation.about)
    }

    /// The help of an argument.
    pub fn help(self, argument: &Argument) -> &'static str {
        self.pick(None, HELP.get(argument.help)).unwrap_or(argument.help)
    }

    /// The title of a column, from the name of the member of an answer.
    pub(crate) fn title(self, name: &str) -> String {
        match self.pick(None, COLUMNS.get(name)) {
            Some(title) => title.to_owned(),
            None => name.to_uppercase(),
        }
    }

    /// A text of a screen of `vostok top`.
    pub(crate) fn say(self, english: &'static str) -> &'static str {
        self.pick(None, SCREEN.get(english)).unwrap_or(english)
    }

    /// The text of an error, warning or question. Texts of servers stay as they are.
    pub fn error(self, english: &str) -> String {
        let translated = || ERRORS.iter().find_map(|(from, to)| fill(english, from, to));
        self.pick(None, Some(())).and_then(|()| translated()).unwrap_or_else(|| english.to_owned())
    }
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
    let value = |value: &str| FLAGS.get(value).unwrap_or(value).to_owned();
    rest.is_empty().then(|| {
        numbered.fold(to.to_owned(), |text, (number, it)| text.replace(&format!("{{{number}}}"), &value(it)))
    })
}

/// Translates the help of a command and of all commands below. `more` are the texts of commands outside of this crate.
pub fn localize(command: Command, lang: Lang, more: &Words) -> Command {
    if lang == Lang::En { command } else { translated(command, more) }
}

fn translated(command: Command, more: &Words) -> Command {
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
fn find(english: &str, more: &Words) -> Option<String> {
    let listed = [more, &FLAGS, &HELP].into_iter().find_map(|words| words.get(english));
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

/// Translates the output of `clap`: help, and errors about arguments.
pub fn localize_output(output: &str, lang: Lang) -> String {
    let all = CLAP.iter().filter(|_| lang == Lang::Zh);
    let text = all.fold(output.to_owned(), |text, (english, chinese)| text.replace(english, chinese));
    if lang == Lang::Zh { text.replace("： ", "：") } else { text }
}

/// The texts of the help of a command and of all commands below that have no translation.
pub fn untranslated(command: &Command, more: &Words) -> Vec<String> {
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
