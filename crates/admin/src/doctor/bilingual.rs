//! Texts of the doctor in both languages. The English text in the source is the key of the Chinese text in
//! `words/zh/doctor.tsv`.

use crate::{Lang, Words, Zone};
use std::fmt::{Display, Write as _};

/// Chinese texts by their English texts, with `{name}` for values in both.
pub(super) static CHINESE: Words = Words::new(include_str!("../words/zh/doctor.tsv"));

/// A constant text in English, which has a Chinese text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phrase(pub &'static str);

impl Phrase {
    /// Returns the text in a language.
    pub fn of(self, lang: Lang) -> &'static str {
        lang.pick(None, CHINESE.get(self.0)).unwrap_or(self.0)
    }
}

/// A text in both languages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    en: String,
    zh: String,
}

impl Text {
    /// Makes a text from an English template. A test proves that all templates and names of values exist.
    pub(crate) fn filled(template: &'static str, values: &[(&str, &dyn Value)]) -> Self {
        let fill = |lang| fill(Phrase(template).of(lang), lang, values);
        Self { en: fill(Lang::En), zh: fill(Lang::Zh) }
    }

    /// Joins texts with semicolons.
    pub(crate) fn joined(parts: &[Self]) -> Self {
        let join =
            |lang: Lang| parts.iter().map(|it| it.of(lang)).collect::<Vec<_>>().join(lang.pick("; ", "；"));
        Self { en: join(Lang::En), zh: join(Lang::Zh) }
    }

    /// Returns the text in a language.
    pub fn of(&self, lang: Lang) -> &str {
        lang.pick(&self.en, &self.zh)
    }

    /// Returns the text in a language, with times in a zone instead of UTC.
    pub fn in_zone(&self, lang: Lang, zone: &Zone) -> String {
        zone.localized(self.of(lang))
    }
}

/// Names and figures are the same in both languages.
impl From<String> for Text {
    fn from(data: String) -> Self {
        Self { en: data.clone(), zh: data }
    }
}

impl From<&String> for Text {
    fn from(data: &String) -> Self {
        data.clone().into()
    }
}

impl From<&str> for Text {
    fn from(data: &str) -> Self {
        data.to_owned().into()
    }
}

impl From<Phrase> for Text {
    fn from(phrase: Phrase) -> Self {
        Self::filled(phrase.0, &[])
    }
}

/// A value in a text: a figure or name, or a text that itself has two languages.
pub(crate) trait Value {
    /// Appends the value in a language.
    fn append(&self, lang: Lang, text: &mut String);
}

impl<T: Display> Value for T {
    fn append(&self, _: Lang, text: &mut String) {
        // Writing to a string does not fail.
        let _ = write!(text, "{self}");
    }
}

impl Value for Text {
    fn append(&self, lang: Lang, text: &mut String) {
        text.push_str(self.of(lang));
    }
}

impl Value for &Text {
    fn append(&self, lang: Lang, text: &mut String) {
        text.push_str(self.of(lang));
    }
}

impl Value for Phrase {
    fn append(&self, lang: Lang, text: &mut String) {
        text.push_str(self.of(lang));
    }
}

fn fill(template: &str, lang: Lang, values: &[(&str, &dyn Value)]) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (name, rest) in parts.filter_map(|part| part.split_once('}')) {
        if let Some((_, value)) = values.iter().find(|(known, _)| *known == name) {
            value.append(lang, &mut text);
        }
        text.push_str(rest);
    }
    text
}

/// Makes a [`Text`] from an English template. Values replace their names in braces: `name = value`, or the name of a
/// variable in scope.
macro_rules! text {
    ($en:literal $(, $name:ident $(= $value:expr)?)*) => {
        $crate::doctor::bilingual::Text::filled($en, &[$((stringify!($name), text!(@value $name $(= $value)?))),*])
    };
    (@value $name:ident) => {
        &$name as &dyn $crate::doctor::bilingual::Value
    };
    (@value $name:ident = $value:expr) => {
        &$value as &dyn $crate::doctor::bilingual::Value
    };
}
pub(crate) use text;

#[cfg(test)]
mod tests;
