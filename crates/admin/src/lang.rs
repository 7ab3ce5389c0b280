//! Languages of texts for people.

/// A language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// Simplified Chinese.
    Zh,
}

impl Lang {
    /// Returns the language of a tag such as `zh_CN.UTF-8` or `en-US`; `None` for other languages.
    pub fn of(tag: &str) -> Option<Self> {
        let language = tag.split(['_', '-', '.', '@']).next().unwrap_or_default();
        match language.to_ascii_lowercase().as_str() {
            "en" | "c" | "posix" => Some(Self::En),
            "zh" => Some(Self::Zh),
            _ => None,
        }
    }

    /// Returns the language of messages in an environment: the first of `LC_ALL`, `LC_MESSAGES` and `LANG` that is set decides, as
    /// in POSIX. Other languages give English.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut set = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(variable);
        set.find(|tag| !tag.is_empty()).and_then(|tag| Self::of(&tag)).unwrap_or_default()
    }

    /// Returns the text of this language.
    pub fn pick<T>(self, english: T, chinese: T) -> T {
        match self {
            Self::En => english,
            Self::Zh => chinese,
        }
    }
}

impl std::str::FromStr for Lang {
    type Err = String;

    fn from_str(tag: &str) -> Result<Self, String> {
        Self::of(tag).ok_or_else(|| format!("expected a language, en or zh, found {tag}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_a_language() {
        let tags = [("zh_CN.UTF-8", Some(Lang::Zh)), ("zh", Some(Lang::Zh)), ("ZH-tw", Some(Lang::Zh))];
        tags.iter().for_each(|(tag, lang)| assert_eq!(Lang::of(tag), *lang, "{tag}"));
        assert_eq!([Lang::of("en-US"), Lang::of("C.UTF-8")], [Some(Lang::En); 2]);
        assert_eq!([Lang::of("fr"), Lang::of(""), Lang::of("中文"), Lang::of("zhx")], [None; 4]);
    }

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let of = |set: &[(&str, &str)]| {
            let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|it| it.1.to_owned());
            Lang::of_environment(variable)
        };
        assert_eq!(of(&[]), Lang::En);
        assert_eq!(of(&[("LANG", "zh_CN.UTF-8")]), Lang::Zh);
        assert_eq!(of(&[("LC_ALL", "C"), ("LANG", "zh_CN.UTF-8")]), Lang::En);
        assert_eq!(of(&[("LC_ALL", ""), ("LC_MESSAGES", "zh_CN"), ("LANG", "en_US")]), Lang::Zh);
    }
}
