//! Both languages in one page: the switch shows one of them.

use crate::judge::Text;
use maud::{Markup, html};

/// A text in both languages.
#[must_use]
pub fn says(text: &Text) -> Markup {
    if text.en == text.zh {
        return html! { (text.en) };
    }
    words(&text.en, &text.zh)
}

/// Words in both languages.
#[must_use]
pub fn words(en: &str, zh: &str) -> Markup {
    html! { span.en lang="en" { (en) } span.zh lang="zh-CN" { (zh) } }
}
