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
fn lines_of_authentication_are_in_order_and_have_a_test() {
    let section =
        TABLE.split("\n## ").find(|part| part.starts_with("Authentication")).expect("the section is there");
    let row = |line: &'static str| {
        let (cell, rest) = line.strip_prefix("| A")?.split_once(" | ")?;
        Some((cell.parse::<u32>().ok()?, rest))
    };
    let rows: Vec<_> = section.lines().filter_map(row).collect();
    assert!(rows.len() > 20 && rows.is_sorted_by(|(one, _), (next, _)| one < next), "{rows:?}");
    for (line, rest) in rows {
        assert!(names(rest).any(|name| name.contains('/')), "A{line}: {rest}");
    }
}

#[test]
fn every_line_of_grpc_has_a_test_or_is_named_as_missing() {
    let section = TABLE.split("\n## ").find(|part| part.starts_with("gRPC")).expect("the section is there");
    let mut lines = Vec::new();
    for row in section.lines().filter(|line| line.starts_with("| G")) {
        let (cell, rest) = row[2..].split_once(" | ").expect("three cells");
        assert!(names(rest).any(|name| name.contains('/')) || rest.contains("| missing: "), "{row}");
        let numbers = |text: &str| -> Vec<u32> {
            text.split(['G', ',', ' ', 't', 'o']).filter_map(|number| number.parse().ok()).collect()
        };
        match *numbers(cell) {
            [first, last] if cell.contains(" to ") => lines.extend(first..=last),
            ref single => lines.extend(single),
        }
    }
    let parts = [1..=5, 10..=14, 20..=26, 30..=34, 40..=60, 70..=81, 90..=92, 95..=98];
    lines.sort_unstable();
    assert_eq!(lines, parts.into_iter().flatten().collect::<Vec<u32>>());
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
