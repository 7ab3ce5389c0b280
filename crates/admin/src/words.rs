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
/// Errors, warnings and questions with `{}` for each value. In the translation `{1}`, `{2}` stand for the values, and `{1*}`
/// for a value that is translated as a message of its own.
static ERRORS: Words = Words::new(include_str!("words/zh/errors.tsv"));
/// Help of `vostok admin`, `vostok doctor` and `vostok top`.
static FLAGS: Words = Words::new(include_str!("words/zh/flags.tsv"));
/// Help of arguments.
static HELP: Words = Words::new(include_str!("words/zh/help.tsv"));
/// Screens of `vostok top`.
static SCREEN: Words = Words::new(include_str!("words/zh/screen.tsv"));
/// Errors of the operating system and of the standard library, like [`ERRORS`].
static SYSTEM: Words = Words::new(include_str!("words/zh/system.tsv"));
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
        self.message(english, &[])
    }

    /// The text of a message; `more` are tables of messages outside of this crate. Lines without a translation, and values
    /// that a row does not mark as messages, stay as they are.
    pub fn message(self, english: &str, more: &[&Words]) -> String {
        let line = |line: &str| message(line, more, DEPTH_MAX).unwrap_or_else(|| line.to_owned());
        let lines = |text: &str| text.split('\n').map(line).collect::<Vec<_>>().join("\n");
        let whole = || best_row(english, more).filter(|_| english.contains('\n'));
        let chinese =
            || whole().map_or_else(|| lines(english), |(to, values)| fill(to, &values, more, DEPTH_MAX));
        self.pick(None, Some(())).map_or_else(|| english.to_owned(), |()| chinese())
    }
}

/// Most messages that a message may hold as values or causes. The rest of a longer message stays as it is.
const DEPTH_MAX: usize = 8;

/// The Chinese of a message: of the row that fits with most text, or of the parts before and after its first colon.
fn message(english: &str, more: &[&Words], depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let whole = best_row(english, more);
    // A value with a colon is rather a part with its cause.
    if let Some((to, values)) = &whole
        && !values.iter().any(|value| value.contains(": "))
    {
        return Some(fill(to, values, more, depth));
    }
    if let Some((first, rest)) = english.split_once(": ") {
        let known_first = best_row(first, more).map(|(to, values)| fill(to, &values, more, depth));
        // A single word is a name as well as a message.
        let known_rest = Some(rest).filter(|it| it.contains(' ')).and_then(|it| message(it, more, depth));
        if known_first.is_some() || whole.is_none() && known_rest.is_some() {
            let first = known_first.unwrap_or_else(|| first.to_owned());
            return Some(format!("{first}：{}", known_rest.unwrap_or_else(|| rest.to_owned())));
        }
    }
    whole.map(|(to, values)| fill(to, &values, more, depth))
}

/// The translation of the row that fits a text with most letters beside the values, and the values.
fn best_row<'a>(english: &'a str, more: &[&'a Words]) -> Option<(&'a str, Vec<&'a str>)> {
    let tables = more.iter().copied().chain([&ERRORS, &SYSTEM]);
    let fitting =
        tables.flat_map(Words::iter).filter_map(|(from, to)| Some((from, to, values(english, from)?)));
    let (_, to, values) = fitting.max_by_key(|(from, _, values)| from.len() - "{}".len() * values.len())?;
    Some((to, values))
}

/// A translation with its values: `{1}` is the first one as it stands, `{1*}` the first one as a message of its own. A
/// space separates a Chinese letter from a value in Latin letters.
fn fill(to: &str, values: &[&str], more: &[&Words], depth: usize) -> String {
    let mut text = String::new();
    let mut parts = to.split('{');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let place = part.split_once('}').and_then(|(place, rest)| {
            let number: usize = place.trim_end_matches('*').parse().ok()?;
            Some((*values.get(number.checked_sub(1)?)?, place.ends_with('*'), rest))
        });
        let Some((value, is_message, rest)) = place else {
            text.extend(["{", part]);
            continue;
        };
        let translated = || FLAGS.get(value).map(str::to_owned).or_else(|| message(value, more, depth));
        let value = is_message.then(translated).flatten().unwrap_or_else(|| value.to_owned());
        let is_latin = value.starts_with(|it: char| it.is_ascii_alphanumeric());
        if is_latin && text.ends_with(|it: char| ('\u{4e00}'..='\u{9fff}').contains(&it)) {
            text.push(' ');
        }
        text.extend([&value, rest]);
    }
    text
}

/// The values that a text has at the places `{}` of a template; `None` if the texts differ elsewhere.
fn values<'a>(text: &'a str, template: &str) -> Option<Vec<&'a str>> {
    let mut parts = template.split("{}");
    let mut rest = text.strip_prefix(parts.next()?)?;
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
    rest.is_empty().then_some(values)
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

/// Translates the output of `clap`: help, and errors about arguments. `more` has the reasons for which a value is refused.
pub fn localize_output(output: &str, lang: Lang, more: &[&Words]) -> String {
    if lang == Lang::En {
        return output.to_owned();
    }
    let line = |line: &str| {
        let reason = line.find("' for '").and_then(|at| Some(at + line[at..].find("': ")? + "': ".len()));
        let reason = reason.filter(|_| line.starts_with("error: invalid value '"));
        reason.map_or_else(
            || line.to_owned(),
            |at| line[..at - ": ".len()].to_owned() + "：" + &lang.message(&line[at..], more),
        )
    };
    let text = output.split('\n').map(line).collect::<Vec<_>>().join("\n");
    CLAP.iter().fold(text, |text, (english, chinese)| text.replace(english, chinese)).replace("： ", "：")
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
