//! The words of the pages in English and Chinese. The English text is the key.

use admin::Words;
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

    /// Code of the language in HTML.
    pub fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-CN",
        }
    }

    /// A text of the pages.
    pub fn say(self, english: &str) -> &str {
        match (self, CHINESE.get(english)) {
            (Self::Zh, Some(text)) => text,
            _ => english,
        }
    }

    /// The name of a column or member of an answer.
    pub fn column(self, name: &str) -> String {
        let plain = name.replace('_', " ");
        if self == Self::Zh {
            return self.say(&plain).to_owned();
        }
        let words = plain
            .split(' ')
            .map(|word| if ["ip", "tps"].contains(&word) { word.to_uppercase() } else { word.to_owned() });
        let title = words.collect::<Vec<_>>().join(" ");
        let mut letters = title.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }

    /// Colon between a title and its value.
    pub fn colon(self) -> &'static str {
        admin::Lang::from(self).pick(": ", "：")
    }

    /// Comma between parts of a sentence.
    pub fn comma(self) -> &'static str {
        admin::Lang::from(self).pick(", ", "，")
    }

    /// Full stop before another sentence.
    pub fn stop(self) -> &'static str {
        admin::Lang::from(self).pick(". ", "。")
    }

    /// The sentence about an operation.
    pub fn about(self, operation: &admin::Operation) -> &'static str {
        admin::Lang::from(self).about(operation)
    }

    /// The text of an error of an operation.
    pub fn error(self, english: &str) -> String {
        admin::Lang::from(self).error(english)
    }

    /// The help of an argument of an operation.
    pub fn help(self, argument: &admin::Argument) -> &'static str {
        admin::Lang::from(self).help(argument)
    }
}

impl From<Lang> for admin::Lang {
    fn from(lang: Lang) -> Self {
        match lang {
            Lang::En => Self::En,
            Lang::Zh => Self::Zh,
        }
    }
}

/// English texts of the pages and their Chinese translations.
static CHINESE: Words = Words::new(include_str!("words/zh.tsv"));

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// The sources of a crate of this workspace without tests, each on its own.
    fn sources(krate: &str) -> Vec<String> {
        let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("src")];
        let mut sources = Vec::new();
        while let Some(directory) = open.pop() {
            let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
            let (directories, files): (Vec<_>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
            open.extend(directories);
            let files = files.iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
            sources.extend(files.map(|path| {
                let text = std::fs::read_to_string(path).unwrap();
                text.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
            }));
        }
        sources
    }

    /// Texts of the file that no page can show: neither in quotes in a source nor the name of a member of an answer.
    #[test]
    fn no_translation_is_left_over() {
        let own = sources("console").concat();
        let lines = own.split("\\\n").collect::<Vec<_>>();
        let own = lines.iter().map(|line| line.trim_start()).collect::<String>();
        let all = own.clone() + &sources("admin").concat();
        let names: BTreeSet<_> =
            all.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
        let is_needed = |text: &str| {
            own.contains(&format!("\"{text}\""))
                || own.contains(&format!("\"#{text}\""))
                || names.contains(&*text.replace(' ', "_"))
        };
        let texts: Vec<_> = CHINESE.iter().map(|(english, _)| english).collect();
        let left_over: Vec<_> = texts.iter().filter(|text| !is_needed(text)).collect();
        assert!(left_over.is_empty(), "{left_over:#?}");
        assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len(), "a text has two translations");
        assert!(texts.len() > 500 && !is_needed("a text of no page"));
    }

    #[test]
    fn every_text_of_the_pages_has_a_translation() {
        let mut count = 0;
        for source in sources("console") {
            let said = source.split("say(\"").skip(1).filter_map(|rest| rest.split('"').next());
            let lists = source.split("Column::all(").skip(1);
            let lists = lists.filter_map(|rest| rest.split_once('[')?.1.split(']').next());
            let titles = lists.flat_map(|list| list.split('"').skip(1).step_by(2));
            for text in said.chain(titles.map(|title| title.trim_start_matches('#'))) {
                assert!(CHINESE.get(text).is_some(), "{text:?} has no Chinese text");
                count += 1;
            }
        }
        assert!(count > 50, "{count}");
    }

    /// The columns that pages name: in constants, in lists for a table that is made below, or beside it.
    fn columns(source: &str) -> Vec<&str> {
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        let constants = source.split(": [&str; ").skip(1).filter_map(|rest| rest.split_once('['));
        let beside = source.split("columns_table(").skip(1);
        let beside = beside.filter_map(|rest| rest.lines().next()?.split_once("&["));
        let lists = source.split("let columns = [").skip(1).chain(constants.chain(beside).map(|it| it.1));
        let lists = lists.filter_map(|rest| rest.split(']').next());
        let names = lists.map(|list| list.split('"').skip(1).step_by(2).collect::<Vec<_>>());
        // Others are names of settings, figures and checks.
        let is_column =
            |name: &&str| name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_' || it.is_ascii_digit());
        names.filter(|names| names.iter().all(is_column)).flatten().collect()
    }

    /// Members of answers that pages show whole.
    const MEMBERS: &str = "message_id offset_id topic tags keys broker queue queue_offset log_offset reconsume_times born_time \
        store_time born_host store_host sys_flag flag group type reason client_host time cost_ms status retries user subject \
        policy resource actions sources decision role bodies server key name value setting consume_tps diff_total inflight_total \
        queues client_ip client_id diff lag_seconds inflight last_time consume_type message_model consume_from_where members \
        subscriptions address language version expression in_tps out_tps in_day out_day cluster addresses read_queues \
        write_queues perm min_offset max_offset last_updated broker_offset consumer_offset request content offset outcome \
        master slave master_offset slave_offset behind_bytes in_sync bytes_per_second put_tps figure error clients failures tracks_error";

    #[test]
    fn every_column_of_the_pages_has_a_translation() {
        let sources = sources("console");
        let with_tables = sources.iter().filter(|it| it.contains("columns_table("));
        let named: Vec<&str> = with_tables.flat_map(|source| columns(source)).collect();
        for column in ["id", "cells", "p99_ms", "scenario"] {
            assert!(named.contains(&column), "{column} is not among {named:?}");
        }
        for column in named.into_iter().chain(MEMBERS.split_whitespace()) {
            assert!(CHINESE.get(&column.replace('_', " ")).is_some(), "{column} has no Chinese text");
        }
    }

    #[test]
    fn members_of_answers_are_titles() {
        let titles =
            ["last_heartbeat", "consume_tps", "client_ip", "id", ""].map(|name| Lang::En.column(name));
        assert_eq!(titles, ["Last heartbeat", "Consume TPS", "Client IP", "Id", ""]);
        assert_eq!(Lang::Zh.column("client_id"), CHINESE.get("client id").unwrap());
    }

    #[test]
    fn the_language_is_the_first_that_is_known() {
        let mut headers = HeaderMap::new();
        assert_eq!(Lang::preferred(&headers), Lang::En);
        headers.insert(header::ACCEPT_LANGUAGE, "fr, zh-TW;q=0.8, en".parse().unwrap());
        assert_eq!(Lang::preferred(&headers), Lang::Zh);
        assert_eq!((Lang::of("x"), Lang::of("中文")), (None, None));
    }
}
