//! Text in both languages in one page, of which the language switch shows one.

use crate::judge::{Text, numbers};
use maud::{Markup, html};

/// Marks up a text in both languages.
pub fn says(text: &Text) -> Markup {
    if text.en == text.zh {
        return html! { (text.en) };
    }
    words(&text.en, &text.zh)
}

/// A time given in milliseconds since 1970. The page shows it in the reader's zone where scripts run, otherwise in UTC.
pub fn moment(epoch_ms: u64) -> Markup {
    html! { time datetime=(numbers::iso(epoch_ms)) { (numbers::utc(epoch_ms)) } }
}

/// Marks up words in both languages.
pub fn words(en: &str, zh: &str) -> Markup {
    html! { span.en lang="en" { (en) } span.zh lang="zh-CN" { (zh) } }
}
