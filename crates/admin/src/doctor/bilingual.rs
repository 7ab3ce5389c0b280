//! Texts of the doctor in both languages, made from one template of each language with the same parameters.

use crate::Lang;

/// A constant text, in English and in Chinese.
pub(crate) type Both = (&'static str, &'static str);

/// A text in both languages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    en: String,
    zh: String,
}

impl Text {
    pub(crate) fn new(en: String, zh: String) -> Self {
        Self { en, zh }
    }

    /// Returns the text in a language.
    #[must_use]
    pub fn of(&self, lang: Lang) -> &str {
        lang.pick(&self.en, &self.zh)
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

impl From<Both> for Text {
    fn from((en, zh): Both) -> Self {
        Self::new(en.to_owned(), zh.to_owned())
    }
}

/// Formats a text in both languages from variables in scope: the English template, then the Chinese template.
macro_rules! text {
    ($en:literal, $zh:literal) => {
        $crate::doctor::bilingual::Text::new(
            std::fmt::format(format_args!($en)),
            std::fmt::format(format_args!($zh)),
        )
    };
}
pub(crate) use text;
