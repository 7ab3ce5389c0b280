//! Sentences in the two languages of the reports.

use serde::{Deserialize, Serialize};

/// A sentence in English and in Simplified Chinese.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The sentence in English.
    pub en: String,
    /// The sentence in Simplified Chinese.
    pub zh: String,
}

/// The language in which a report opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// The report opens in English.
    #[default]
    En,
    /// The report opens in Simplified Chinese.
    Zh,
}

impl Text {
    /// The sentence in one language.
    #[must_use]
    pub fn get(&self, language: Language) -> &str {
        match language {
            Language::En => &self.en,
            Language::Zh => &self.zh,
        }
    }

    /// Joins several sentences with semicolons; `None` when there are no sentences.
    #[must_use]
    pub fn joined(parts: &[Self]) -> Option<Self> {
        let join = |words: fn(&Self) -> &str, by| parts.iter().map(words).collect::<Vec<_>>().join(by);
        let [en, zh] = [join(|text| &text.en, "; "), join(|text| &text.zh, "；")];
        (!parts.is_empty()).then_some(Self { en, zh })
    }

    /// Makes a text that is the same in both languages, such as a name.
    #[must_use]
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
