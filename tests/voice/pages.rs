//! English pages for users and developers: README, changelog, and the pages of `docs/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::rules::{self, Ratchet};

/// Faults of each page. Pages that are not listed have none. The number of a page only falls.
const FAULTS: [(&str, usize); 5] = [
    ("docs/admin.md", 2),
    ("docs/doctor.md", 11),
    ("docs/metrics.md", 2),
    ("docs/proxy-settings.md", 3),
    ("docs/settings.md", 5),
];

/// Sentences of 26 to 35 words of each page. Pages that are not listed have none. The number of a page only falls.
const LONG: [(&str, usize); 6] = [
    ("docs/admin.md", 6),
    ("docs/doctor.md", 3),
    ("docs/metrics.md", 5),
    ("docs/proxy-settings.md", 2),
    ("docs/requests.md", 2),
    ("docs/settings.md", 6),
];

/// Faults or long sentences that a page may lose before its number has to be lowered.
const SLACK: usize = 3;

/// A paragraph, list item, heading or table cell with the line on which it begins.
struct Piece {
    line: usize,
    text: String,
    is_heading: bool,
}

/// The pieces of a page, without code and without the targets of links.
fn pieces(page: &str) -> Vec<Piece> {
    let (mut pieces, mut is_code, mut is_open) = (Vec::<Piece>::new(), false, false);
    for (index, line) in page.lines().enumerate() {
        let text = line.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        let is_indented_code = !is_open && line.starts_with("    ") && !rules::is_item(text);
        if is_code || is_fence || is_indented_code || text.is_empty() || text.starts_with("![") {
            is_open = false;
            continue;
        }
        let text = plain(text);
        let is_heading = text.starts_with('#');
        let mut push =
            |text: &str| pieces.push(Piece { line: index + 1, text: text.trim().to_owned(), is_heading });
        if let Some(row) = text.strip_prefix('|') {
            row.trim_end_matches('|').split('|').for_each(push);
            is_open = false;
        } else if is_heading {
            push(text.trim_start_matches('#'));
            is_open = false;
        } else if rules::is_item(&text) {
            push(text.split_once(' ').map_or("", |(_, rest)| rest));
            is_open = true;
        } else if is_open {
            let last = pieces.last_mut().expect("a piece is open");
            last.text.push(' ');
            last.text.push_str(&text);
        } else {
            push(&text);
            is_open = true;
        }
    }
    pieces
}

/// A line with each piece of inline code as one word, and links as their text.
fn plain(line: &str) -> String {
    let code = rules::without_code(line);
    let mut parts = code.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    text.replace(['[', ']'], "").replace("**", "")
}

/// The faults of a page, and its long sentences.
fn faults(page: &str) -> (Vec<String>, Vec<String>) {
    let (mut faults, mut long) = (Vec::new(), Vec::new());
    for Piece { line, text, is_heading } in pieces(page) {
        let mut add = |fault: String| faults.push(format!("{line}: {fault}"));
        rules::phrases(&text).into_iter().for_each(&mut add);
        rules::persons(&text).into_iter().for_each(&mut add);
        for sentence in rules::sentences(&text) {
            rules::stand_in(&sentence).filter(|_| !is_heading).into_iter().for_each(&mut add);
            rules::too_long(&sentence).into_iter().for_each(&mut add);
            let words = rules::length(&sentence);
            if words > rules::WORDS_GOOD && words <= rules::WORDS_MAX {
                long.push(format!("{line}: {words} words: {sentence}"));
            }
        }
    }
    (faults, long)
}

/// The English pages, by their path from the root.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("an entry").path());
    let is_english = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are text");
        name.ends_with(".md") && !name.contains("zh-CN")
    };
    let mut pages: Vec<PathBuf> = entries.filter(is_english).collect();
    pages.extend(
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root.join(name)),
    );
    for entry in fs::read_dir(root.join("crates")).expect("the crates") {
        pages.push(entry.expect("an entry").path().join("ARCHITECTURE.md"));
    }
    pages.iter().map(|page| page.strip_prefix(root).expect("below the root").to_owned()).collect()
}

#[test]
fn pages_are_plain_english() {
    let (mut bad, mut long) = (BTreeMap::new(), BTreeMap::new());
    for page in pages() {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&page)).expect("a page");
        let (faults, sentences) = faults(&text);
        let name = page.display().to_string();
        bad.insert(name.clone(), faults);
        long.insert(name, sentences);
    }
    let mut differences = Ratchet { kind: "faults", numbers: &FAULTS, slack: SLACK }.differences(&bad);
    differences.extend(Ratchet { kind: "long sentences", numbers: &LONG, slack: SLACK }.differences(&long));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn planted_faults_are_found() {
    let fault = |page: &str| faults(page).0;
    assert_eq!(fault("# Page\n\nWhat is served is listed.\n"), ["3: begins with \"What\""]);
    assert_eq!(fault("| cell | Who may come. |\n|---|---|\n"), ["1: begins with \"Who\""]);
    assert_eq!(fault("A port that\nnobody reaches.\n"), ["1: says \"nobody\""]);
    assert_eq!(fault("- An item.\n- Steps run in vain.\n"), ["2: says \"in vain\""]);
    let words = |count: usize| format!("{}end.\n", "word ".repeat(count - 1));
    assert_eq!(fault(&words(rules::WORDS_MAX + 1)).len(), 1);
    assert_eq!(
        faults(&words(rules::WORDS_MAX)),
        (vec![], vec![format!("1: 35 words: {}end. ", "word ".repeat(34))])
    );
    assert_eq!(faults(&words(rules::WORDS_GOOD)), (vec![], vec![]));
}

#[test]
fn code_links_and_questions_have_no_fault() {
    let words = "word ".repeat(rules::WORDS_MAX);
    let plain = [
        format!("```\nnobody {words}{words}\n```\n"),
        format!("Text:\n\n    nobody {words}{words}\n"),
        format!("`nobody {words}` and [a link](nobody/{words}.md).\n"),
        "# What failed\n\nWhat failed? Whose and Ones are words of their own.\n".to_owned(),
        format!("- {0}\n- {0}\n", "word ".repeat(rules::WORDS_GOOD)),
    ];
    for page in plain {
        assert_eq!(faults(&page), (vec![], vec![]), "{page}");
    }
}
