//! Sentences in the two languages of the reports.

use serde::{Deserialize, Deserializer, Serialize};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    /// A text of two words that need no formatting.
    pub fn of((en, zh): (&str, &str)) -> Self {
        Self { en: en.to_owned(), zh: zh.to_owned() }
    }

    /// Makes a text that is the same in both languages, such as a name.
    pub fn same(text: impl Into<String>) -> Self {
        let en = text.into();
        Self { zh: en.clone(), en }
    }
}

/// Makes a [`Text`] from two format strings, English and Chinese.
macro_rules! both {
    ($en:literal, $zh:literal) => {
        $crate::judge::Text { en: format!($en), zh: format!($zh) }
    };
}
pub(crate) use both;
