//! Doc comments, counted per crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::rules::{self, Ratchet};

/// Exceptions of each crate today, with the root package as `vostok`. The number of a crate only falls.
const RATCHET: [(&str, usize); 17] = [
    ("admin", 0),
    ("auth", 0),
    ("broker", 3),
    ("client", 0),
    ("console", 0),
    ("controller", 0),
    ("grpc", 0),
    ("host", 0),
    ("lab", 0),
    ("namesrv", 0),
    ("net", 0),
    ("proxy", 1),
    ("replica", 0),
    ("sim", 0),
    ("store", 0),
    ("vostok", 0),
    ("wire", 0),
];

/// Faults that may be mended before a number has to be lowered.
const SLACK: usize = 5;

/// A doc comment: the number of its first line and its text, line by line.
struct Comment {
    line: usize,
    text: Vec<String>,
}

/// The text of a line that belongs to a doc comment with the given mark.
fn doc_text<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    let text = line.trim_start().strip_prefix(mark)?;
    (!text.starts_with('/')).then(|| text.strip_prefix(' ').unwrap_or(text))
}

/// The doc comments of a file. Consecutive lines with the same mark are one comment.
fn comments(source: &str) -> Vec<Comment> {
    let mut found: Vec<Comment> = Vec::new();
    let mut open = None;
    for (index, line) in source.lines().enumerate() {
        let next = ["///", "//!"].into_iter().find_map(|mark| Some((mark, doc_text(line, mark)?)));
        if let Some((mark, text)) = next {
            if open != Some(mark) {
                found.push(Comment { line: index + 1, text: Vec::new() });
            }
            found.last_mut().expect("pushed above").text.push(text.to_owned());
        }
        open = next.map(|(mark, _)| mark);
    }
    found
}

/// The sentences of a comment's paragraphs and list items. Code blocks, tables and headings are left out.
fn sentences(comment: &Comment) -> Vec<String> {
    let mut is_code = false;
    let mut paragraphs = vec![String::new()];
    for line in &comment.text {
        let mut text = line.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence || text.is_empty() || text.starts_with(['|', '#']) {
            paragraphs.push(String::new());
            continue;
        }
        if rules::is_item(text) {
            paragraphs.push(String::new());
            text = text.split_once(' ').map_or("", |(_, rest)| rest);
        }
        let paragraph = paragraphs.last_mut().expect("never empty");
        paragraph.push_str(text);
        paragraph.push(' ');
    }
    paragraphs.iter().flat_map(|paragraph| rules::sentences(paragraph)).collect()
}

/// The faults of a comment, each named for the reader of a failed test.
fn faults(comment: &Comment) -> Vec<String> {
    let text = comment.text.join(" ");
    let mut faults: Vec<String> = rules::first_word(&text, &rules::FIRST_WORDS).into_iter().collect();
    faults.extend(rules::phrases(&text));
    faults.extend(rules::persons(&rules::without_code(&text)));
    let sentences = sentences(comment);
    faults.extend(sentences.iter().skip(1).filter_map(|sentence| rules::stand_in(sentence)));
    faults.extend(sentences.iter().filter_map(|sentence| rules::too_long(sentence)));
    faults
}

/// All Rust files below a directory.
fn sources(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The faults of each crate, one line for each fault.
fn faults_by_crate() -> BTreeMap<String, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut directories = vec![("vostok".to_owned(), root.join("src"))];
    for entry in fs::read_dir(root.join("crates")).expect("the crates") {
        let path = entry.expect("an entry").path();
        directories.push((path.file_name().expect("a name").to_string_lossy().into_owned(), path));
    }
    let mut by_crate = BTreeMap::new();
    for (name, directory) in directories {
        let mut files = Vec::new();
        sources(&directory, &mut files);
        files.sort();
        let lines: &mut Vec<String> = by_crate.entry(name).or_default();
        for path in files {
            let source = fs::read_to_string(&path).expect("a source file is text");
            let path = path.strip_prefix(root).expect("below the root").display();
            for comment in comments(&source) {
                lines
                    .extend(faults(&comment).iter().map(|fault| format!("{path}:{}: {fault}", comment.line)));
            }
        }
    }
    by_crate
}

#[test]
fn doc_comments_are_plain_english() {
    let ratchet = Ratchet { kind: "faults", numbers: &RATCHET, slack: SLACK };
    let differences = ratchet.differences(&faults_by_crate());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The faults of a source text.
fn faults_of(source: &str) -> Vec<String> {
    comments(source).iter().flat_map(faults).collect()
}

#[test]
fn planted_faults_are_found() {
    assert_eq!(faults_of("/// What a client is.\nstruct Client;"), ["begins with \"What\""]);
    assert_eq!(faults_of("    //! The same as above.\n"), ["begins with \"The same\""]);
    assert_eq!(faults_of("/// One.\nfn a() {}\n/// Those of b.\nfn b() {}").len(), 2);
    assert_eq!(faults_of("/// Port.\n/// Whoever comes.\n").len(), 2);
    assert_eq!(faults_of(&format!("/// List:\n/// - {}\n", "word ".repeat(rules::WORDS_MAX + 1))).len(), 1);
    assert_eq!(faults_of("/// Steps that were run in\n/// vain.\n"), ["says \"in vain\""]);
    assert_eq!(faults_of("/// Kept as long as the log has that record.\n"), ["says \"as long as ... that\""]);
    let long = |words: usize| format!("/// {}end.\n", "word\n/// ".repeat(words - 1));
    assert_eq!(faults_of(&long(rules::WORDS_MAX + 1)).len(), 1);
    assert_eq!(faults_of(&long(rules::WORDS_MAX)), Vec::<String>::new());
}

#[test]
fn plain_comments_have_no_fault() {
    let words = "word ".repeat(rules::WORDS_MAX + 1);
    let plain = [
        "/// Settings of a client. One of three kinds.".to_owned(),
        "/// Ordinal, Items, In-flight, Without_end: words that only begin like a forbidden word.".to_owned(),
        "/// In-sync set.".to_owned(),
        "// What an ordinary comment says is not checked.".to_owned(),
        "//// What a rule of slashes is.".to_owned(),
        "/// Valid as long as the log is open. That is all.".to_owned(),
        format!("/// Table.\n///\n/// | {words} |\n"),
        format!("/// List:\n/// - {0}\n/// - {0}\n", "word ".repeat(rules::WORDS_MAX - 1)),
        "/// Value of `nobody`. What then?".to_owned(),
        format!("/// Code:\n/// ```text\n/// {words}\n/// ```\n"),
        format!(
            "/// Two sentences. {}end. {}",
            "word ".repeat(rules::WORDS_MAX - 1),
            "word ".repeat(rules::WORDS_MAX)
        ),
    ];
    for source in plain {
        assert_eq!(faults_of(&source), Vec::<String>::new(), "{source}");
    }
}
