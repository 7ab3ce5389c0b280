//! Every test and program that `docs/conformance.md` names exists, and every line of the checklists has its row.

use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("../docs/conformance.md");

/// What stands in backticks.
fn names(row: &str) -> impl Iterator<Item = &str> {
    row.split('`').skip(1).step_by(2)
}

/// The rows of a section, by their first cell.
fn rows(heading: &str) -> Vec<(&str, &str)> {
    let section = TABLE.split("\n## ").find(|part| part.starts_with(heading)).expect("the section is there");
    let row = |line: &'static str| line.strip_prefix("| ")?.split_once(" | ");
    section.lines().filter_map(row).filter(|(cell, _)| cell.parse::<u32>().is_ok()).collect()
}

#[test]
fn every_line_has_one_row_with_a_test_or_a_reason() {
    for (heading, count) in [
        ("Files", 22),
        ("Behaviour", 25),
        ("Frames", 18),
        ("Messages", 14),
        ("Name server", 19),
        ("Clients", 39),
    ] {
        let rows = rows(heading);
        let numbers: Vec<u32> = rows.iter().map(|(cell, _)| cell.parse().expect("filtered")).collect();
        assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "{heading}");
        for (line, rest) in rows {
            let shown = rest.split_once(" | ").expect("three cells").1;
            let named = names(shown).any(|name| name.contains('/'));
            assert!(named || shown.starts_with("left out: "), "{heading} {line}: {shown}");
        }
    }
}

#[test]
fn everything_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut checked = 0;
    for name in names(TABLE).filter(|name| name.contains('/') && !name.ends_with('/')) {
        let (file, test) = name.split_once("::").unwrap_or((name, ""));
        let path = root.join(file);
        assert!(path.is_file(), "{file} does not exist");
        let text = if test.is_empty() { String::new() } else { fs::read_to_string(&path).expect("readable") };
        assert!(test.is_empty() || text.contains(&format!("fn {test}(")), "{file} has no test {test}");
        checked += 1;
    }
    assert!(checked > 60, "{checked} names found");
}
