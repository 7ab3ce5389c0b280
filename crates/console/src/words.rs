//! The words of the pages in English and Chinese. The English text is the key.

mod table;
mod tasks;

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
        match (self, chinese(english)) {
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

    /// The sentence about an operation.
    pub fn about(self, operation: &admin::Operation) -> &'static str {
        admin::Lang::from(self).about(operation)
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

fn chinese(english: &str) -> Option<&'static str> {
    let mut words = table::WORDS.iter().chain(tasks::WORDS);
    words.find(|(key, _)| *key == english).map(|(_, text)| *text)
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

    /// The columns that pages name: in constants, in lists for a table that is made below, or beside it.
    fn columns(source: &'static str) -> Vec<&'static str> {
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
        let with_tables = crate::pages::SOURCES.iter().copied().filter(|it| it.contains("columns_table("));
        let named: Vec<&str> = with_tables.flat_map(columns).collect();
        for column in ["id", "cells", "last_heartbeat", "client_id"] {
            assert!(named.contains(&column), "{column} is not among {named:?}");
        }
        for column in named.into_iter().chain(MEMBERS.split_whitespace()) {
            assert!(chinese(&column.replace('_', " ")).is_some(), "{column} has no Chinese text");
        }
    }

    #[test]
    fn members_of_answers_are_titles() {
        let titles =
            ["last_heartbeat", "consume_tps", "client_ip", "id", ""].map(|name| Lang::En.column(name));
        assert_eq!(titles, ["Last heartbeat", "Consume TPS", "Client IP", "Id", ""]);
        assert_eq!(Lang::Zh.column("client_id"), chinese("client id").unwrap());
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
