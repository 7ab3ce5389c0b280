//! The list of checks in `docs/doctor.md`, made from the table of checks.

use super::checks::PARTS;
use std::fmt::Write as _;

const INTRODUCTION: &str = include_str!("page_introduction.md");

/// Writes the page.
#[must_use]
pub fn page() -> String {
    let mut out = INTRODUCTION.to_owned();
    for part in PARTS {
        let _ = writeln!(
            out,
            "\n### {}\n\n| check | severity | what is wrong | needs |\n|---|---|---|---|",
            part.title
        );
        for check in part.checks {
            let (code, severity) = (check.code, check.severity.name());
            let _ = writeln!(out, "| `{code}` | {severity} | {} | {} |", check.about, check.needs);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::checks;
    use super::*;

    /// To write the page after a change of the table, run with `VOSTOK_WRITE_DOCS=1`.
    #[test]
    fn the_page_in_docs_is_made_from_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
        if std::env::var_os("VOSTOK_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == page(), "docs/doctor.md is not what the table says; run with VOSTOK_WRITE_DOCS=1");
    }

    #[test]
    fn the_translated_page_has_every_check_with_its_severity() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.zh-CN.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        for check in checks::all() {
            let start = format!("| `{}` | {} |", check.code, check.severity.name());
            assert!(rows.iter().any(|row| row.starts_with(&start)), "docs/doctor.zh-CN.md lacks {start}");
        }
        assert_eq!(
            rows.len(),
            checks::all().count(),
            "docs/doctor.zh-CN.md has a check that is not in the table"
        );
    }
}
