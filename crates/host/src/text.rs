//! Small texts of procfs and sysfs.

use std::path::Path;

/// Returns the content of a small file without the line end, or `None` if it is not readable.
pub(crate) fn line(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// A number that is the whole content of a file.
pub(crate) fn number(path: &Path) -> Option<i64> {
    line(path)?.parse().ok()
}

/// The chosen word of a list like `always [madvise] never`; the whole text where none is in brackets.
pub(crate) fn chosen(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(word, _)| word).trim().to_owned()
}

/// The number after a name at the start of a line, as in `MemTotal:  1024 kB` or `oom_kill 3`.
pub(crate) fn named(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with([':', ' ', '\t']).then_some(rest)
    })?;
    rest.trim_start_matches(':').split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_found() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("none"), "none");
        let text = "MemTotalish: 7 kB\nMemTotal:       2048 kB\noom_kill 3\n";
        assert_eq!((named(text, "MemTotal"), named(text, "oom_kill")), (Some(2048), Some(3)));
        assert_eq!(named(text, "Swap"), None);
    }
}
