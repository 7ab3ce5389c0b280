//! The voice of the doc comments: first words, sentence length and phrases that the house style forbids, counted per crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Exceptions of each crate today, with the root package as `vostok`. The number of a crate only falls.
const RATCHET: [(&str, usize); 17] = [
    ("admin", 0),
    ("auth", 0),
    ("broker", 0),
    ("client", 0),
    ("console", 0),
    ("controller", 0),
    ("grpc", 0),
    ("host", 0),
    ("lab", 0),
    ("namesrv", 0),
    ("net", 0),
    ("proxy", 0),
    ("replica", 0),
    ("sim", 0),
    ("store", 0),
    ("vostok", 0),
    ("wire", 0),
];

/// Words of one sentence at most.
const WORDS_MAX: usize = 35;

/// First words of a doc comment that leave the reader without a noun.
const FIRST_WORDS: [&str; 24] = [
    "What", "Who", "Where", "How", "Of", "Those", "One", "It", "Its", "The same", "That", "As", "Up to",
    "Nothing", "Nobody", "Somebody", "For", "With", "Without", "By", "In", "They", "None", "Also",
];

/// Phrases without a place in plain technical English.
const PHRASES: [&str; 10] = [
    "in vain",
    "is nobody's",
    "are nobody's",
    "what is known",
    "what was known",
    "what is said",
    "what was said",
    "of those that",
    "that of those",
    "the one that is",
];

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

/// The sentences of a comment's prose. Code blocks, tables, lists and headings are left out.
fn sentences(comment: &Comment) -> Vec<String> {
    let (mut is_code, mut is_list) = (false, false);
    let mut sentences = vec![String::new()];
    for line in &comment.text {
        let text = line.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        let is_item = text.starts_with("- ")
            || text.starts_with("* ")
            || text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        is_list = is_item || (is_list && line.starts_with(' '));
        if is_code || is_fence || is_list || text.is_empty() || text.starts_with(['|', '#']) {
            sentences.push(String::new());
            continue;
        }
        for word in text.split_whitespace() {
            let sentence = sentences.last_mut().expect("never empty");
            sentence.push_str(word);
            sentence.push(' ');
            if word.trim_end_matches([')', '"', '`', '*']).ends_with(['.', '!', '?']) {
                sentences.push(String::new());
            }
        }
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// The faults of a comment, each named for the reader of a failed test.
fn faults(comment: &Comment) -> Vec<String> {
    let text = comment.text.join(" ");
    let starts_with = |word: &&&str| {
        text.trim_start().strip_prefix(**word).is_some_and(|rest| {
            !rest.starts_with(|letter: char| letter.is_alphanumeric() || "_-".contains(letter))
        })
    };
    let mut faults = Vec::new();
    faults.extend(FIRST_WORDS.iter().find(starts_with).map(|word| format!("begins with {word:?}")));
    let lower = text.to_lowercase();
    faults.extend(
        PHRASES.iter().filter(|phrase| lower.contains(**phrase)).map(|phrase| format!("says {phrase:?}")),
    );
    if lower.split_once("as long as").is_some_and(|(_, rest)| {
        rest.split(['.', ',', ';', ':']).next().is_some_and(|clause| clause.contains(" that "))
    }) {
        faults.push("says \"as long as ... that\"".to_owned());
    }
    faults.extend(sentences(comment).into_iter().filter_map(|sentence| {
        let words = sentence.split_whitespace().count();
        (words > WORDS_MAX).then(|| format!("has a sentence of {words} words: {sentence}"))
    }));
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

/// Differences between the faults that are there and the ratchet.
fn differences(faults: &BTreeMap<String, Vec<String>>, ratchet: &[(&str, usize)]) -> Vec<String> {
    let allowed: BTreeMap<_, _> = ratchet.iter().copied().collect();
    let mut differences = Vec::new();
    for (name, lines) in faults {
        let Some(&allowed) = allowed.get(name.as_str()) else {
            differences.push(format!("{name} has no number in the ratchet"));
            continue;
        };
        if lines.len() > allowed {
            differences.push(format!(
                "{name}: {} faults, {allowed} are allowed:\n{}",
                lines.len(),
                lines.join("\n")
            ));
        } else if lines.len() < allowed {
            differences.push(format!(
                "{name}: only {} faults are left, lower {allowed} in the ratchet",
                lines.len()
            ));
        }
    }
    differences
}

#[test]
fn doc_comments_are_plain_english() {
    let differences = differences(&faults_by_crate(), &RATCHET);
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
    assert_eq!(faults_of("/// Steps that were run in\n/// vain.\n"), ["says \"in vain\""]);
    assert_eq!(faults_of("/// Kept as long as the log has that record.\n"), ["says \"as long as ... that\""]);
    let long = |words: usize| format!("/// {}end.\n", "word\n/// ".repeat(words - 1));
    assert_eq!(faults_of(&long(WORDS_MAX + 1)).len(), 1);
    assert_eq!(faults_of(&long(WORDS_MAX)), Vec::<String>::new());
}

#[test]
fn plain_comments_have_no_fault() {
    let words = "word ".repeat(WORDS_MAX + 1);
    let plain = [
        "/// Settings of a client. One of three kinds.".to_owned(),
        "/// Ordinal, Items, In-flight, Without_end: words that only begin like a forbidden word.".to_owned(),
        "/// In-sync set.".to_owned(),
        "// What an ordinary comment says is not checked.".to_owned(),
        "//// What a rule of slashes is.".to_owned(),
        "/// Valid as long as the log is open. That is all.".to_owned(),
        format!("/// Table.\n///\n/// | {words} |\n"),
        format!("/// List:\n/// - {words}\n///   {words}\n"),
        format!("/// Code:\n/// ```text\n/// {words}\n/// ```\n"),
        format!("/// Two sentences. {}end. {}", "word ".repeat(WORDS_MAX - 1), "word ".repeat(WORDS_MAX)),
    ];
    for source in plain {
        assert_eq!(faults_of(&source), Vec::<String>::new(), "{source}");
    }
}

#[test]
fn the_ratchet_fails_in_both_directions() {
    let faults = BTreeMap::from([("planted".to_owned(), vec!["a".to_owned(), "b".to_owned()])]);
    assert!(differences(&faults, &[("planted", 2)]).is_empty());
    assert_eq!(differences(&faults, &[("planted", 1)]).len(), 1);
    assert_eq!(differences(&faults, &[("planted", 3)]).len(), 1);
    assert_eq!(differences(&faults, &[("another", 2)]).len(), 1);
}
