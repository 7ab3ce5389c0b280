//! The pages `docs/admin.md` and `docs/admin.zh-CN.md`, made from the table of operations.

use crate::table::operations;
use crate::{Effect, Kind, Lang, Operation};
use std::fmt::Write as _;

/// Writes the page in a language.
pub fn page(lang: Lang) -> String {
    let introduction =
        lang.pick(include_str!("page/introduction.md"), include_str!("page/introduction.zh-CN.md"));
    let mut out = introduction.to_owned();
    for operation in operations() {
        let names: Vec<_> = operation.mqadmin.iter().map(|name| format!("`{name}`")).collect();
        let effect = match operation.effect {
            Effect::Look => lang.pick("look", "查看"),
            Effect::Change => lang.pick("change", "修改"),
            Effect::Destroy => lang.pick("destroy", "不可恢复"),
        };
        let (names, about) = (names.join(", "), lang.about(operation));
        let _ = writeln!(out, "| `{}` | {names} | {effect} | {about} |", synopsis(operation));
    }
    out
}

/// An operation with its arguments, as it is typed.
fn synopsis(operation: &Operation) -> String {
    let mut words = vec![format!("{} {}", operation.noun, operation.verb)];
    words.extend(operation.arguments.iter().map(|argument| match argument.kind {
        Kind::Place => format!("<{}>", argument.name),
        Kind::Required => format!("--{} VALUE", argument.name),
        Kind::Optional => format!("[--{} VALUE]", argument.name),
        Kind::Switch => format!("[--{}]", argument.name),
    }));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To write the pages after a change of the table, run with `VOSTOK_WRITE_DOCS=1`.
    #[test]
    fn the_pages_in_docs_are_made_from_the_table() {
        for (lang, name) in [(Lang::En, "admin.md"), (Lang::Zh, "admin.zh-CN.md")] {
            let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("VOSTOK_WRITE_DOCS").is_some() {
                std::fs::write(&path, page(lang)).unwrap();
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == page(lang),
                "docs/{name} is not what the table says; run with VOSTOK_WRITE_DOCS=1"
            );
        }
    }
}
