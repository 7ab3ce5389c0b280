//! The words of the pages in English and Chinese. The English text is the key.

mod table;

use http::{HeaderMap, header};

/// A language of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lang {
    En,
    Zh,
}

impl Lang {
    /// The language of a code, if it is one of the two.
    pub fn of(code: &str) -> Option<Self> {
        match code.get(..2)? {
            "en" => Some(Self::En),
            "zh" => Some(Self::Zh),
            _ => None,
        }
    }

    /// The language that a browser prefers.
    pub fn preferred(headers: &HeaderMap) -> Self {
        let text = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        text.unwrap_or_default().split(',').find_map(|code| Self::of(code.trim())).unwrap_or(Self::En)
    }

    /// Its code in HTML.
    pub fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-CN",
        }
    }

    /// A text of the pages.
    pub fn say(self, english: &str) -> &str {
        match (self, chinese(english)) {
            (Self::Zh, Some(text)) => text,
            _ => english,
        }
    }

    /// The name of a column or member of an answer.
    pub fn column(self, name: &str) -> String {
        let plain = name.replace('_', " ");
        self.say(&plain).to_owned()
    }

    /// What an operation does, from the table of `docs/admin.zh-CN.md`.
    pub fn about(self, operation: &admin::Operation) -> &'static str {
        const TABLE: &str = include_str!("../../../docs/admin.zh-CN.md");
        if self == Self::En {
            return operation.about;
        }
        let begin = format!("| `{} {}", operation.noun, operation.verb);
        let is_row =
            |line: &&str| line.strip_prefix(begin.as_str()).is_some_and(|rest| rest.starts_with([' ', '`']));
        let row = TABLE.lines().find(is_row);
        row.and_then(|row| row.trim_end_matches([' ', '|']).rsplit('|').next())
            .map_or(operation.about, str::trim)
    }
}

fn chinese(english: &str) -> Option<&'static str> {
    table::WORDS.iter().find(|(key, _)| *key == english).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_of_the_pages_has_a_translation() {
        let mut count = 0;
        for source in crate::pages::SOURCES {
            for rest in source.split("say(\"").skip(1) {
                let text = rest.split('"').next().unwrap_or_default();
                assert!(chinese(text).is_some(), "{text:?} has no Chinese text");
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn the_language_is_the_first_that_is_known() {
        let mut headers = HeaderMap::new();
        assert_eq!(Lang::preferred(&headers), Lang::En);
        headers.insert(header::ACCEPT_LANGUAGE, "fr, zh-TW;q=0.8, en".parse().unwrap());
        assert_eq!(Lang::preferred(&headers), Lang::Zh);
        assert_eq!((Lang::of("x"), Lang::of("中文")), (None, None));
    }

    #[test]
    fn operations_are_described_in_chinese() {
        let operations = admin::OPERATIONS.into_iter().flatten();
        for operation in operations {
            let about = Lang::Zh.about(operation);
            assert!(
                !about.is_ascii(),
                "{} {} has no row in docs/admin.zh-CN.md",
                operation.noun,
                operation.verb
            );
        }
    }
}
