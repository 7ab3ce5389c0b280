//! Code lines of each crate, as a ratchet: lines of `src` that are neither blank, nor a comment, nor a test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Code lines of each crate at most, with the root package as `vostok`.
const RATCHET: [(&str, usize); 17] = [
    ("admin", 15_641),
    ("auth", 2712),
    ("broker", 32_445),
    ("client", 4403),
    ("console", 7918),
    ("controller", 1405),
    ("grpc", 974),
    ("host", 269),
    ("lab", 20_492),
    ("namesrv", 2423),
    ("net", 2784),
    ("proxy", 6552),
    ("replica", 4126),
    ("sim", 3407),
    ("store", 17_059),
    ("vostok", 3398),
    ("wire", 5515),
];

/// Lines that a crate may be below its number before the test asks for a lower number.
const SLACK: usize = 100;

/// Goal for the sum of all crates; a failed test names the distance.
const GOAL: usize = 110_000;

/// Whether a file or directory holds tests alone.
fn is_test(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|name| name.to_str()).expect("names are text");
    matches!(stem, "tests" | "testing") || stem.ends_with("_tests")
}

/// The Rust files below a directory, without tests.
fn sources(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the repository") {
        let path = entry.expect("an entry").path();
        if is_test(&path) {
            continue;
        }
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Code lines of a source text. A module of tests ends at the next `}` at the beginning of a line.
fn code_lines(text: &str) -> usize {
    let (mut count, mut is_test, mut is_marked) = (0, false, false);
    for line in text.lines() {
        let code = line.trim();
        if is_test {
            is_test = line != "}";
            continue;
        }
        if is_marked && code.starts_with("mod tests {") {
            count -= 1;
            is_test = true;
        } else if !code.is_empty() && !code.starts_with("//") {
            count += 1;
        }
        is_marked = line == "#[cfg(test)]";
    }
    count
}

/// Code lines of each crate.
fn lines_by_crate() -> BTreeMap<String, usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut directories = vec![("vostok".to_owned(), root.join("src"))];
    for entry in fs::read_dir(root.join("crates")).expect("the crates") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        directories.push((name, path.join("src")));
    }
    let mut lines = BTreeMap::new();
    for (name, directory) in directories {
        let mut files = Vec::new();
        sources(&directory, &mut files);
        let texts = files.iter().map(|path| fs::read_to_string(path).expect("a source file is text"));
        lines.insert(name, texts.map(|text| code_lines(&text)).sum());
    }
    lines
}

/// Differences between the code lines that are there and the ratchet, each with the remedy.
fn differences(lines: &BTreeMap<String, usize>, ratchet: &[(&str, usize)]) -> Vec<String> {
    let allowed: BTreeMap<_, _> = ratchet.iter().copied().collect();
    let mut differences = Vec::new();
    for (name, &count) in lines {
        match allowed.get(name.as_str()) {
            None => differences.push(format!("(\"{name}\", {count}) is missing in RATCHET: add the line")),
            Some(&most) if count > most => differences.push(format!(
                "{name} has {count} code lines, {most} are allowed: delete {} lines, here or by a change of what the \
                 new code makes superfluous; raise the number only in a commit whose body says what users get for it",
                count - most
            )),
            Some(&most) if count + SLACK < most => {
                differences.push(format!("{name} has only {count} code lines: lower {most} in RATCHET to {count}"));
            }
            Some(_) => {}
        }
    }
    differences
}

#[test]
fn crates_do_not_grow() {
    let lines = lines_by_crate();
    let total: usize = lines.values().sum();
    let differences = differences(&lines, &RATCHET);
    assert!(
        differences.is_empty(),
        "{}\nall crates: {total} code lines, the goal is {GOAL}",
        differences.join("\n")
    );
}

#[test]
fn comments_blank_lines_and_tests_do_not_count() {
    let text = "//! Page.\n\nuse a::B;\n\n/// Function.\nfn f() { // with a comment\n    // Reason.\n    g()\n}\n\n\
                #[cfg(test)]\nmod tests {\n    fn h() {\n    }\n}\n\n#[cfg(test)]\nmod testing;\nfn i() {}\n";
    assert_eq!(code_lines(text), 7);
    assert!(is_test(Path::new("src/tests")) && is_test(Path::new("src/a/testing.rs")));
    assert!(is_test(Path::new("src/queue_tests.rs")) && !is_test(Path::new("src/contests.rs")));
}

#[test]
fn the_ratchet_fails_in_both_directions() {
    let lines = BTreeMap::from([("planted".to_owned(), 1000)]);
    assert!(differences(&lines, &[("planted", 1000)]).is_empty());
    assert!(differences(&lines, &[("planted", 1000 + SLACK)]).is_empty());
    for ratchet in [("planted", 999), ("planted", 1001 + SLACK), ("another", 1000)] {
        assert_eq!(differences(&lines, &[ratchet]).len(), 1, "{ratchet:?}");
    }
}
