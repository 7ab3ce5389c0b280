//! Parts of pages: figures with units, times, states in words, cards, links to things.

use super::level_name;
use crate::answers::now_ms;
use crate::request::query;
use crate::words::Lang;
use admin::Level;
use maud::{Markup, Render, html};

/// A number with a comma between thousands.
pub(crate) fn number(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with the noun that fits: `1 finding`, `2 findings`. Chinese has one form.
pub(crate) fn counted(lang: Lang, count: usize, one: &str, many: &str) -> String {
    let noun = if count == 1 && lang == Lang::En { one } else { many };
    format!("{} {noun}", number(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// A rate or mean: one digit after the point below 100, none above.
pub(crate) fn decimal(value: f64) -> String {
    if value.abs() < 99.95 { format!("{value:.1}") } else { number(value.round() as i64) }
}

/// A number of bytes in the largest unit of 1024 that leaves at least 1.
pub(crate) fn bytes(count: i64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value.abs() < 1000.0 || unit == "TiB" {
            return if unit == "B" { format!("{count} B") } else { format!("{} {unit}", decimal(value)) };
        }
        value /= 1024.0;
    }
    unreachable!("the last unit returns")
}

/// A time span in its two largest units; the units are those of SI in every language.
pub(crate) fn duration(ms: i64) -> String {
    let (seconds, ms) = (ms.max(0) / 1000, ms.max(0));
    let two = |large: i64, name: &str, small: i64, small_name: &str| match small {
        0 => format!("{} {name}", number(large)),
        _ => format!("{} {name} {small} {small_name}", number(large)),
    };
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{:.1} s", ms as f64 / 1000.0),
        10..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// A time as its distance from now, with the exact time under the pointer; a dash for a time that is not known.
pub(crate) fn ago(lang: Lang, time_ms: i64) -> Markup {
    if time_ms <= 0 {
        return html! { span.soft { "–" } };
    }
    let exact = admin::time(time_ms);
    let title = format!("{} UTC", exact.trim_end_matches('Z').replace('T', " "));
    html! { time datetime=(exact) title=(title) { (distance(lang, now_ms() - time_ms)) } }
}

/// The distance of a time in one unit: `2 min ago`, `in 5 s`.
fn distance(lang: Lang, age_ms: i64) -> String {
    let seconds = age_ms.abs() / 1000;
    let (count, unit) = match seconds {
        0..60 => (seconds, lang.say("s")),
        60..3600 => (seconds / 60, lang.say("min")),
        3600..86_400 => (seconds / 3600, lang.say("h")),
        _ => (seconds / 86_400, lang.say("d")),
    };
    match (seconds, lang, age_ms < 0) {
        (0..2, ..) => lang.say("just now").to_owned(),
        (_, Lang::En, false) => format!("{} {unit} ago", number(count)),
        (_, Lang::En, true) => format!("in {} {unit}", number(count)),
        (_, Lang::Zh, false) => format!("{} {unit}前", number(count)),
        (_, Lang::Zh, true) => format!("{} {unit}后", number(count)),
    }
}

/// A state in words, coloured by its level.
pub(crate) fn status(level: Level, word: &str) -> Markup {
    html! { span.status.(level_name(level)) { (word) } }
}

/// A share such as the use of a disk, as a percentage with a bar.
pub(crate) fn share(ratio: f64) -> Markup {
    html! { span.share { meter min="0" max="1" low="0.75" high="0.9" optimum="0" value=(format!("{ratio:.3}")) aria-label=(format!("{:.0} %", ratio * 100.0)) {} " " (format!("{:.0} %", ratio * 100.0)) } }
}

/// A figure that a page is opened for, in a box: its name, its value, and a note below it.
pub(crate) fn card(label: &str, value: impl Render, note: impl Render) -> Markup {
    html! { div.card { div.label { (label) } div.value { (value) } div.note { (note) } } }
}

/// A place for rows that has none, with a sentence that tells what to do.
pub(crate) fn empty(lang: Lang, advice: &str) -> Markup {
    html! { div.empty { p.title { (lang.say("Nothing to show")) } p { (advice) } } }
}

/// A version such as `V5_5_0` (`MQVersion.Version`) without its letter and underscores.
pub(crate) fn version(text: &str) -> String {
    text.trim_start_matches('V').replace('_', ".")
}

/// A link to the page of a topic.
pub(crate) fn topic_link(name: &str) -> Markup {
    html! { a href=(format!("/topic{}", query([("name", name)]))) { (name) } }
}

/// A link to the page of a group.
pub(crate) fn group_link(name: &str) -> Markup {
    html! { a href=(format!("/group{}", query([("name", name)]))) { (name) } }
}

/// A link to the page of a broker: by the name of its set to the master, to others by their address.
pub(crate) fn broker_link(name: &str, id: i64, address: &str) -> Markup {
    let place = if id == 0 || address.is_empty() { name } else { address };
    html! { a href=(format!("/broker{}", query([("name", place)]))) { (name) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_and_units() {
        let numbers = [0, 999, 1000, 1_234_567, -1000, i64::MIN].map(number);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567", "-1,000", "-9,223,372,036,854,775,808"]);
        assert_eq!(
            [0, 1, 2000].map(|it| counted(Lang::En, it, "finding", "findings")),
            ["0 findings", "1 finding", "2,000 findings"]
        );
        let decimals = [0.0, 0.04, 99.94, 99.96, 1_118_372.4].map(decimal);
        assert_eq!(decimals, ["0.0", "0.0", "99.9", "100", "1,118,372"]);
        let sizes = [0, 999, 1536, 1 << 30, 51 << 30, 5 << 50].map(bytes);
        assert_eq!(["V5_5_0", "V4_9_8"].map(version), ["5.5.0", "4.9.8"]);
        assert_eq!(sizes, ["0 B", "999 B", "1.5 KiB", "1.0 GiB", "51.0 GiB", "5,120 TiB"]);
    }

    #[test]
    fn spans_have_their_two_largest_units() {
        let check = |ms: i64, text: &str| assert_eq!(duration(ms), text);
        check(-5, "0 ms");
        check(850, "850 ms");
        check(3250, "3.2 s");
        check(59_999, "59 s");
        check(125_000, "2 min 5 s");
        check(3_600_000, "1 h");
        check(11_520_000, "3 h 12 min");
        check(90_000_000, "1 d 1 h");
    }

    #[test]
    fn times_are_distances_with_the_exact_time_under_the_pointer() {
        let check = |age_ms: i64, english: &str, chinese: &str| {
            assert_eq!(distance(Lang::En, age_ms), english);
            assert_eq!(distance(Lang::Zh, age_ms), chinese);
        };
        check(500, "just now", "刚刚");
        check(42_000, "42 s ago", "42 秒前");
        check(125_000, "2 min ago", "2 分钟前");
        check(7_300_000, "2 h ago", "2 小时前");
        check(200_000_000, "2 d ago", "2 天前");
        check(-300_000, "in 5 min", "5 分钟后");
        let text = ago(Lang::En, 1_000).into_string();
        assert!(
            text.starts_with(
                "<time datetime=\"1970-01-01T00:00:01.000Z\" title=\"1970-01-01 00:00:01.000 UTC\">"
            ),
            "{text}"
        );
        assert!(!ago(Lang::En, 0).into_string().contains("time"));
    }
}
