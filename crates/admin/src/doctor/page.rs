//! `docs/doctor.md` and `docs/doctor.zh-CN.md`, whose lists of checks are made from the table of checks.

use super::bilingual::Phrase;
use super::checks::PARTS;
use crate::Lang;
use std::fmt::Write as _;

/// Writes the page in a language.
pub fn page(lang: Lang) -> String {
    let introduction =
        lang.pick(include_str!("page_introduction.md"), include_str!("page_introduction.zh-CN.md"));
    let mut out = introduction.to_owned();
    let text = |phrase: Phrase| phrase.of(lang);
    let heads = Phrase("check | severity | what is wrong | needs");
    for part in PARTS {
        let _ = writeln!(out, "\n### {}\n\n| {} |\n|---|---|---|---|", text(part.title), text(heads));
        for check in part.checks {
            let (code, severity) = (check.code, check.severity.word(lang));
            let _ =
                writeln!(out, "| `{code}` | {severity} | {} | {} |", text(check.about), text(check.needs));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To write the pages after a change of the table, run with `VOSTOK_WRITE_DOCS=1`.
    #[test]
    fn the_pages_in_docs_are_made_from_the_table() {
        for (lang, name) in [(Lang::En, "doctor.md"), (Lang::Zh, "doctor.zh-CN.md")] {
            let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("VOSTOK_WRITE_DOCS").is_some() {
                std::fs::write(&path, page(lang)).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == page(lang), "{name} is not what the table says; run with VOSTOK_WRITE_DOCS=1");
        }
    }
}
