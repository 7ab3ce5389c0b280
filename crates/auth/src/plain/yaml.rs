//! The YAML of `plain_acl.yml` as a tree of texts. Scalars keep their text, so that a secret such as `12345678` is what was
//! written; RocketMQ converts it to a number and back.

use std::fmt::Write as _;

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Deepest nesting that is read; the files need four levels.
const DEPTH_MAX: usize = 16;

/// One value of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A text, and whether it was written without quotes.
    Scalar(String, bool),
    List(Vec<Node>),
    /// Keys and values in the order of the file; a key appears once.
    Map(Vec<(String, Node)>),
}

/// A list or mapping that is being read.
enum Open {
    List(Vec<Node>),
    Map(Vec<(String, Node)>, Option<String>),
}

impl Node {
    /// Reads the only document of a text; `None` when it is empty.
    ///
    /// # Errors
    /// What is wrong and where, for people; the text never repeats a value of the file.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        let mut open: Vec<Open> = Vec::new();
        let mut root = None;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| error.to_string())?;
            let at = |what: &str| format!("{what} in line {}", span.start.line());
            let node = match event {
                Event::Scalar(text, style, ..) => {
                    Self::Scalar(text.into_owned(), style == ScalarStyle::Plain)
                }
                Event::SequenceStart(..) | Event::MappingStart(..) if open.len() == DEPTH_MAX => {
                    return Err(at("nested too deeply"));
                }
                Event::SequenceStart(..) => {
                    open.push(Open::List(Vec::new()));
                    continue;
                }
                Event::MappingStart(..) => {
                    open.push(Open::Map(Vec::new(), None));
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                    Some(Open::List(items)) => Self::List(items),
                    Some(Open::Map(members, None)) => Self::Map(members),
                    _ => return Err(at("a key without value")),
                },
                Event::Alias(_) => return Err(at("aliases are not accepted, found one")),
                Event::DocumentStart(_) if root.is_some() => return Err(at("a second document begins")),
                _ => continue,
            };
            match open.last_mut() {
                None => root = Some(node),
                Some(Open::List(items)) => items.push(node),
                Some(Open::Map(members, key)) => match (key.take(), node) {
                    (Some(key), value) => set(members, key, value),
                    (None, Self::Scalar(text, _)) => *key = Some(text),
                    (None, _) => return Err(at("a key that is not a text")),
                },
            }
        }
        Ok(root.filter(|root| !root.is_null()))
    }

    /// Whether the value is one of the words for nothing.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(text, true) if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The member of a mapping; `None` when it is absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        members.iter().find(|(found, value)| found == key && !value.is_null()).map(|(_, value)| value)
    }

    /// The member of a mapping to change; an absent one is `empty`. Whatever is not a mapping becomes one.
    pub(crate) fn entry(&mut self, key: &str, empty: Self) -> &mut Self {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(Vec::new());
        }
        let Self::Map(members) = self else { unreachable!("made one above") };
        let (_, value) =
            found_or_added(members, |(found, _)| found == key, || (key.to_owned(), empty.clone()));
        if value.is_null() {
            *value = empty;
        }
        value
    }

    /// A text as it is written with quotes.
    pub(crate) fn text(text: &str) -> Self {
        Self::Scalar(text.to_owned(), false)
    }

    /// A list of texts.
    pub(crate) fn texts(texts: &[String]) -> Self {
        Self::List(texts.iter().map(|text| Self::text(text)).collect())
    }

    /// Writes the value as a document. Comments of a file that was read are lost, as with RocketMQ.
    pub(crate) fn write(&self) -> String {
        let mut out = String::new();
        self.write_at(0, &mut out);
        out
    }

    fn write_at(&self, indent: usize, out: &mut String) {
        let children: Vec<(Option<&String>, &Self)> = match self {
            Self::Scalar(text, is_plain) => {
                write_scalar(text, *is_plain, out);
                return out.push('\n');
            }
            Self::List(items) => items.iter().map(|item| (None, item)).collect(),
            Self::Map(members) => members.iter().map(|(key, value)| (Some(key), value)).collect(),
        };
        for (key, child) in children {
            out.extend(std::iter::repeat_n(' ', indent));
            match key {
                Some(key) => {
                    write_scalar(key, true, out);
                    out.push(':');
                }
                None => out.push('-'),
            }
            match child {
                Self::List(items) if items.is_empty() => out.push_str(" []\n"),
                Self::Map(members) if members.is_empty() => out.push_str(" {}\n"),
                Self::Scalar(..) => {
                    out.push(' ');
                    child.write_at(0, out);
                }
                _ => {
                    out.push('\n');
                    child.write_at(indent + 2, out);
                }
            }
        }
    }
}

/// The first item of a list that is the wanted one, or a new one at its end.
pub(super) fn found_or_added<T>(
    list: &mut Vec<T>,
    is_wanted: impl FnMut(&T) -> bool,
    new: impl FnOnce() -> T,
) -> &mut T {
    let at = list.iter().position(is_wanted).unwrap_or(list.len());
    if at == list.len() {
        list.push(new());
    }
    &mut list[at]
}

fn set(members: &mut Vec<(String, Node)>, key: String, value: Node) {
    match members.iter_mut().find(|(found, _)| *found == key) {
        Some((_, old)) => *old = value,
        None => members.push((key, value)),
    }
}

fn write_scalar(text: &str, is_plain: bool, out: &mut String) {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    if is_plain && !text.is_empty() && text.bytes().all(is_word) {
        return out.push_str(text);
    }
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                write!(out, "\\U{:08x}", u32::from(letter)).expect("a text takes everything");
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}
