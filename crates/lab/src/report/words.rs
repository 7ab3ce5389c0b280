//! Text in both languages in one page, of which the language switch shows one.

use crate::judge::Text;
use maud::{Markup, html};

/// Marks up a text in both languages.
pub fn says(text: &Text) -> Markup {
    if text.en == text.zh {
        return html! { (text.en) };
    }
    words(&text.en, &text.zh)
}

/// Marks up words in both languages.
pub fn words(en: &str, zh: &str) -> Markup {
    html! { span.en lang="en" { (en) } span.zh lang="zh-CN" { (zh) } }
}
