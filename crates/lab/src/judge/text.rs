//! Sentences in the two languages of the reports.

use super::numbers;
use clap::ValueEnum;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::sync::LazyLock;

/// Rows of a key, the English text and the Chinese text, separated by tabs.
const FILE: &str = include_str!("texts.tsv");

/// English and Chinese texts by their keys.
static TEXTS: LazyLock<HashMap<&str, [&str; 2]>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let mut fields = line.split('\t');
        Some((fields.next()?, [fields.next()?, fields.next()?]))
    };
    FILE.lines().filter_map(row).collect()
});

/// Writes a figure.
type Format = fn(f64) -> String;

/// Formats of figures in texts: `{share:percent}` shows the value `share` as a percentage.
const FORMATS: [(&str, Format); 8] = [
    ("bytes", numbers::bytes),
    ("change", numbers::change),
    ("count", numbers::count),
    ("micros", numbers::micros),
    ("percent", numbers::percent),
    ("rate", numbers::rate),
    ("short", numbers::short),
    ("whole", |value| format!("{value:.0}")),
];

/// A sentence in English and in Simplified Chinese.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The sentence in English.
    pub en: String,
    /// The sentence in Simplified Chinese.
    pub zh: String,
}

/// A verdict of this run, or the sentence that an earlier report has for it.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedVerdict<T> {
    /// A verdict of this run.
    Verdict(T),
    /// The sentence of an earlier report.
    Read(Text),
}

impl<'de, T> Deserialize<'de> for RecordedVerdict<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(Self::Read)
    }
}

/// The language in which a report opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// The report opens in English.
    #[default]
    En,
    /// The report opens in Simplified Chinese.
    Zh,
}

impl Text {
    /// The sentence in one language.
    pub fn get(&self, language: Language) -> &str {
        match language {
            Language::En => &self.en,
            Language::Zh => &self.zh,
        }
    }

    /// Joins several sentences with semicolons; `None` when there are no sentences.
    pub fn joined(parts: &[Self]) -> Option<Self> {
        let join = |words: fn(&Self) -> &str, by| parts.iter().map(words).collect::<Vec<_>>().join(by);
        let [en, zh] = [join(|text| &text.en, "; "), join(|text| &text.zh, "；")];
        (!parts.is_empty()).then_some(Self { en, zh })
    }

    /// The English and the Chinese template with a key; `None` if there is no such row.
    pub(crate) fn known(key: &str) -> Option<[&'static str; 2]> {
        TEXTS.get(key).copied()
    }

    /// The text with a key; `{name}` stands for the value of that name. A test proves that all keys and names exist.
    pub(crate) fn filled(key: &str, values: &[(&str, &dyn Value)]) -> Self {
        let [en, zh] = Self::known(key).unwrap_or([key; 2]);
        Self { en: fill(en, Language::En, values), zh: fill(zh, Language::Zh, values) }
    }

    /// The name of a value in reports, from the row `kind.value`; the value itself if there is no such row.
    pub(crate) fn named(kind: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        let value = value.as_str().unwrap_or_default();
        Self::known(&format!("{kind}.{value}"))
            .map_or_else(|| Self::same(value), |[en, zh]| Self::of((en, zh)))
    }

    /// Makes a text from its English form and its Chinese form, which are taken unchanged.
    pub fn of((en, zh): (&str, &str)) -> Self {
        Self { en: en.to_owned(), zh: zh.to_owned() }
    }

    /// Makes a text that is the same in both languages, such as a name.
    pub fn same(text: impl Into<String>) -> Self {
        let en = text.into();
        Self { zh: en.clone(), en }
    }
}

/// A value in a text: a figure or name, or a text that itself has two languages.
pub(crate) trait Value {
    /// Appends the value in a language.
    fn append(&self, language: Language, text: &mut String);
}

impl<T: Display> Value for T {
    fn append(&self, _: Language, text: &mut String) {
        // Writing to a string does not fail.
        let _ = write!(text, "{self}");
    }
}

impl Value for Text {
    fn append(&self, language: Language, text: &mut String) {
        text.push_str(self.get(language));
    }
}

fn fill(template: &str, language: Language, values: &[(&str, &dyn Value)]) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (place, rest) in parts.filter_map(|part| part.split_once('}')) {
        let (name, format) = place.split_once(':').unwrap_or((place, ""));
        if let Some((_, value)) = values.iter().find(|(known, _)| *known == name) {
            let mut shown = String::new();
            value.append(language, &mut shown);
            let format = FORMATS.iter().find(|(known, _)| *known == format);
            let formatted = format.zip(shown.parse().ok()).map(|((_, format), number)| format(number));
            text.push_str(&formatted.unwrap_or(shown));
        }
        text.push_str(rest);
    }
    text
}

impl Value for &Text {
    fn append(&self, language: Language, text: &mut String) {
        (**self).append(language, text);
    }
}

/// Makes a [`Text`] from the row of `texts.tsv` with a key. Values replace their names in braces: `name = value`, or the
/// name of a variable in scope.
macro_rules! both {
    ($key:literal $(, $name:ident $(= $value:expr)?)*) => {
        $crate::judge::Text::filled($key, &[$((stringify!($name), both!(@value $name $(= $value)?))),*])
    };
    (@value $name:ident) => {
        &$name as &dyn $crate::judge::Value
    };
    (@value $name:ident = $value:expr) => {
        &$value as &dyn $crate::judge::Value
    };
}
pub(crate) use both;

#[cfg(test)]
mod tests;
