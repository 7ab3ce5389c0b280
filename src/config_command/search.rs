//! Search for settings by their subject in an operator's words.

use broker::{Setting, Treatment};

/// Subjects of settings: words of a search, a tab, and names of settings, each separated by commas.
const SUBJECTS: &str = include_str!("subjects.tsv");

/// The settings with a word in their names or meanings, or about the subject of that word; settings with an effect first.
pub fn search(word: &str) -> Vec<Setting> {
    let word = word.trim().to_lowercase();
    let subjects = SUBJECTS.lines().filter_map(|line| line.split_once('\t'));
    let about = subjects.filter(|(words, _)| words.split(", ").any(|it| it == word));
    let about: Vec<&str> = about.flat_map(|(_, keys)| keys.split(", ")).collect();
    let is_meant = |it: &Setting| {
        let has_word = it.name.to_lowercase().contains(&word) || it.text.to_lowercase().contains(&word);
        has_word || about.contains(&it.name)
    };
    let mut found: Vec<Setting> = broker::settings().into_iter().filter(is_meant).collect();
    if !word.is_empty() {
        found.sort_by_key(|it| !matches!(it.treatment, Treatment::Served(_)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(word: &str) -> Vec<&'static str> {
        search(word).iter().map(|it| it.name).collect()
    }

    #[test]
    fn settings_of_the_subjects_exist() {
        for line in SUBJECTS.lines() {
            let (_, keys) = line.split_once('\t').expect("words and settings");
            keys.split(", ")
                .for_each(|key| assert!(broker::setting(key).is_ok_and(|it| it.name == key), "{key}"));
        }
    }

    #[test]
    fn a_subject_finds_settings_that_do_not_have_its_word() {
        for word in ["retention", "Retention", "expire", "保留"] {
            let found = names(word);
            let expected =
                ["fileReservedTime", "deleteWhen", "diskMaxUsedSpaceRatio", "commitLogRetentionBytes"];
            assert!(expected.iter().all(|key| found.contains(key)), "{word}: {found:?}");
        }
        let place = |key: &str| names("expire").iter().position(|name| *name == key).unwrap();
        assert!(
            place("fileReservedTime") < place("aclCacheExpiredSecond"),
            "settings without effect are last"
        );
        assert_eq!(names("").len(), broker::settings().len());
        assert!(names("no such word").is_empty());
    }
}
