use super::*;

#[test]
fn every_line_of_the_file_is_understood() {
    let text = include_str!("../without_effect.properties");
    let entries = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    assert_eq!(TABLE.len(), entries, "a name stands twice or a line has no =");
    for heading in text.lines().filter_map(|line| line.strip_prefix("## ")) {
        let (level, reason) = heading.split_once(": ").unwrap();
        assert!(["warn", "note"].contains(&level) && !reason.is_empty(), "{heading}");
    }
    for (name, known) in TABLE.iter() {
        assert!(!known.reason.is_empty() && !known.default.starts_with('@'), "{name}");
    }
}

#[test]
fn a_name_stands_in_one_table_only() {
    for name in PROPERTIES.iter().map(|property| property.name).chain(refused::names()) {
        assert!(!TABLE.contains_key(name), "{name}");
        assert_eq!(
            PROPERTIES.iter().filter(|property| property.name == name).count()
                + refused::names().filter(|other| *other == name).count(),
            1,
            "{name}"
        );
    }
}

#[test]
fn pool_sizes_follow_the_processors() {
    for (cpus, expected) in [(2, ["2", "2", "10", "20", "12"]), (40, ["4", "32", "48", "96", "88"])] {
        let found =
            ["@cpu4", "@cpu32", "@8+cpu", "@16+2cpu", "@transaction"].map(|text| default_text(text, cpus));
        assert_eq!(found, expected);
    }
}

#[test]
fn distances_are_counted_without_case() {
    for (left, right, expected) in
        [("", "abc", 3), ("abc", "ABC", 0), ("abc", "abd", 1), ("abc", "ac", 1), ("kitten", "sitting", 3)]
    {
        assert_eq!((distance(left, right), distance(right, left)), (expected, expected), "{left} {right}");
    }
}
