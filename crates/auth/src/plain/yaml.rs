//! YAML of `plain_acl.yml` as a tree of texts. Scalars keep their text, so that a secret such as `12345678` stays
//! unchanged. RocketMQ converts it to a number and back.

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Deepest nesting that is read; the files need four levels.
const DEPTH_MAX: usize = 16;

/// Value of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A text, and whether it was written without quotes.
    Scalar(String, bool),
    List(Vec<Node>),
    /// Keys and values in the order of the file; a key appears once.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Reads the only document of a file, which is a mapping. Returns `None` if the file is empty.
    ///
    /// # Errors
    /// Errors of [`Node::parse`], and for every other document.
    pub(crate) fn parse_file(text: &str) -> Result<Option<Self>, String> {
        let found = match Self::parse(text)? {
            Some(Self::List(_)) => "a list",
            Some(Self::Scalar(..)) => "a text",
            root => return Ok(root),
        };
        Err(format!(
            "the document is not a mapping: expected accounts and white lists by name, found {found}"
        ))
    }

    /// Reads the only document of a text. Returns `None` if the text is empty.
    ///
    /// # Errors
    /// Description and position of the error, for people. The text never repeats a value of the file.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        // The lists and mappings that are being read, each with the key whose value comes next.
        let mut open: Vec<(Self, Option<String>)> = Vec::new();
        let mut root = None;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| error.to_string())?;
            let at = |what: &str| format!("{what} in line {}", span.start.line());
            let node = match event {
                Event::Scalar(text, style, ..) => {
                    Self::Scalar(text.into_owned(), style == ScalarStyle::Plain)
                }
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    if open.len() == DEPTH_MAX {
                        return Err(at("nested too deeply"));
                    }
                    let is_list = matches!(event, Event::SequenceStart(..));
                    open.push((if is_list { Self::List(Vec::new()) } else { Self::Map(Vec::new()) }, None));
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => open.pop().ok_or_else(|| at("nothing to end"))?.0,
                Event::Alias(_) => return Err(at("aliases are not accepted, found one")),
                Event::DocumentStart(_) if root.is_some() => return Err(at("a second document begins")),
                _ => continue,
            };
            match open.last_mut() {
                None => root = Some(node),
                Some((Self::List(items), _)) => items.push(node),
                Some((map, key)) => match (key.take(), node) {
                    (Some(key), value) => map.set(&key, value),
                    (None, Self::Scalar(text, _)) => *key = Some(text),
                    (None, _) => return Err(at("a key that is not a text")),
                },
            }
        }
        Ok(root.filter(|root| !root.is_null()))
    }

    /// Whether the value is a word for null.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(text, true) if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Returns the member of a mapping, or `None` if it is absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        members.iter().find(|(found, value)| found == key && !value.is_null()).map(|(_, value)| value)
    }

    /// Returns the member of a mapping to change. An absent member becomes `empty`. A value of another kind becomes a
    /// mapping.
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

    /// Sets the member of a mapping. A value of another kind becomes a mapping.
    pub(crate) fn set(&mut self, key: &str, value: Self) {
        *self.entry(key, Self::text("")) = value;
    }

    /// Makes a text that is written with quotes.
    pub(crate) fn text(text: &str) -> Self {
        Self::Scalar(text.to_owned(), false)
    }

    /// A list of texts.
    pub(crate) fn texts(texts: &[String]) -> Self {
        Self::List(texts.iter().map(|text| Self::text(text)).collect())
    }

    /// Writes the value as a document. Comments of a file that was read are lost, as with RocketMQ.
    pub(crate) fn write(&self) -> String {
        self.write_at(0)
    }

    /// Writes the members of a list or mapping. A scalar has none.
    fn write_at(&self, indent: usize) -> String {
        let line = |start: String, child: &Self| {
            let behind = match child {
                Self::Scalar(text, is_plain) => format!(" {}", scalar(text, *is_plain)),
                Self::List(items) if items.is_empty() => " []".to_owned(),
                Self::Map(members) if members.is_empty() => " {}".to_owned(),
                _ => String::new(),
            };
            format!("{:indent$}{start}{behind}\n{}", "", child.write_at(indent + 2))
        };
        match self {
            Self::Scalar(..) => String::new(),
            Self::List(items) => items.iter().map(|item| line("-".to_owned(), item)).collect(),
            Self::Map(members) => {
                members.iter().map(|(key, value)| line(scalar(key, true) + ":", value)).collect()
            }
        }
    }
}

/// Returns the first wanted item of a list, or adds a new item at its end.
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

fn scalar(text: &str, is_plain: bool) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    if is_plain && !text.is_empty() && text.bytes().all(is_word) {
        return text.to_owned();
    }
    let escaped = |letter: char| match letter {
        '"' | '\\' => format!("\\{letter}"),
        letter if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
            format!("\\U{:08x}", u32::from(letter))
        }
        letter => letter.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}
