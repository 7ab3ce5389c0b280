//! The rules, and the comparison of what breaks them with a ratchet.

use std::collections::BTreeMap;

/// Words of one sentence at most.
pub const WORDS_MAX: usize = 35;

/// Words of one sentence that the house style asks for. Longer sentences of pages and help are counted.
pub const WORDS_GOOD: usize = 25;

/// First words of a doc comment or help text that leave the reader without a noun.
pub const FIRST_WORDS: [&str; 24] = [
    "What", "Who", "Where", "How", "Of", "Those", "One", "It", "Its", "The same", "That", "As", "Up to",
    "Nothing", "Nobody", "Somebody", "For", "With", "Without", "By", "In", "They", "None", "Also",
];

/// First words of a paragraph, list item, table cell or sentence of a page that stand for a noun.
pub const STAND_INS: [&str; 9] =
    ["What", "Who", "Whoever", "Whatever", "Those", "Nobody", "Somebody", "Everybody", "None"];

/// Words without a place in texts that users read: the noun (client, user, operator, program) takes their place.
const PERSONS: [&str; 5] = ["nobody", "somebody", "anybody", "everybody", "whoever"];

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

/// The fault of a text that begins with one of `words`.
pub fn first_word(text: &str, words: &[&str]) -> Option<String> {
    let starts_with = |word: &&&str| {
        text.trim_start().strip_prefix(**word).is_some_and(|rest| {
            !rest.starts_with(|letter: char| letter.is_alphanumeric() || "_-".contains(letter))
        })
    };
    words.iter().find(starts_with).map(|word| format!("begins with {word:?}"))
}

/// The forbidden phrases of a text.
pub fn phrases(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut faults: Vec<String> = PHRASES
        .iter()
        .filter(|phrase| lower.contains(**phrase))
        .map(|phrase| format!("says {phrase:?}"))
        .collect();
    if lower.split_once("as long as").is_some_and(|(_, rest)| {
        rest.split(['.', ',', ';', ':']).next().is_some_and(|clause| clause.contains(" that "))
    }) {
        faults.push("says \"as long as ... that\"".to_owned());
    }
    faults
}

/// The fault of a sentence that begins with a word for a noun. A question may.
pub fn stand_in(sentence: &str) -> Option<String> {
    let is_question = sentence.trim_end().ends_with('?');
    first_word(sentence, &STAND_INS).filter(|_| !is_question)
}

/// A text with each piece of inline code as one word.
pub fn without_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 0 { part } else { "`code`" }).collect()
}

/// The words for unnamed persons in a text for users.
pub fn persons(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|letter: char| !letter.is_alphabetic()).collect();
    PERSONS.iter().filter(|person| words.contains(person)).map(|person| format!("says {person:?}")).collect()
}

/// Words of a sentence.
pub fn length(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// The fault of a sentence with too many words.
pub fn too_long(sentence: &str) -> Option<String> {
    let words = length(sentence);
    (words > WORDS_MAX).then(|| format!("has a sentence of {words} words: {sentence}"))
}

/// Whether a line begins an item of a list.
pub fn is_item(line: &str) -> bool {
    line.starts_with("- ")
        || line.starts_with("* ")
        || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

/// The sentences of a text without markup.
pub fn sentences(text: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    for word in text.split_whitespace() {
        let sentence = sentences.last_mut().expect("never empty");
        sentence.push_str(word);
        sentence.push(' ');
        if word.trim_end_matches([')', '"', '`', '*']).ends_with(['.', '!', '?']) {
            sentences.push(String::new());
        }
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// Numbers that faults may not exceed.
pub struct Ratchet<'a> {
    /// Plural of the fault.
    pub kind: &'a str,
    /// Name of a crate, page or command, and its number. Names that are not listed have none.
    pub numbers: &'a [(&'a str, usize)],
    /// Faults that may be mended before a number has to be lowered.
    pub slack: usize,
}

impl Ratchet<'_> {
    /// Differences between the faults that are there and the numbers.
    pub fn differences(&self, faults: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        let Ratchet { kind, numbers, slack } = *self;
        let allowed: BTreeMap<_, _> = numbers.iter().copied().collect();
        let mut differences = Vec::new();
        for (name, lines) in faults {
            let (count, allowed) = (lines.len(), allowed.get(name.as_str()).copied().unwrap_or(0));
            if count > allowed {
                differences
                    .push(format!("{name}: {count} {kind}, {allowed} are allowed:\n{}", lines.join("\n")));
            } else if count + slack < allowed {
                differences
                    .push(format!("{name}: only {count} {kind} are left, lower {allowed} in the ratchet"));
            }
        }
        differences
    }
}

#[test]
fn the_ratchet_fails_in_both_directions() {
    let faults = BTreeMap::from([("planted".to_owned(), vec!["a".to_owned(), "b".to_owned()])]);
    let count = |name: &str, number: usize, slack: usize| {
        Ratchet { kind: "faults", numbers: &[(name, number)], slack }.differences(&faults).len()
    };
    assert_eq!([count("planted", 2, 0), count("planted", 3, 1)], [0, 0]);
    assert_eq!([count("planted", 1, 0), count("planted", 3, 0), count("planted", 4, 1)], [1, 1, 1]);
    assert_eq!(count("another", 2, 0), 1);
}
