use super::*;
use std::collections::BTreeSet;
use std::path::Path;

/// The sources of this crate, one behind the other.
fn sources() -> String {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut sources = String::new();
    while let Some(directory) = open.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    sources
}

fn places(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name)
}

/// Splits the arguments of a call, up to its closing parenthesis.
fn arguments(call: &str) -> Vec<&str> {
    let (mut arguments, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in call.char_indices() {
        let is_end = depth == 0 && letter == ')';
        if is_end || depth == 0 && letter == ',' {
            arguments.push(call[start..at].trim());
            start = at + 1;
        }
        match letter {
            _ if is_end => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    arguments.retain(|it| !it.is_empty());
    arguments
}

/// A key that is missing, values that a text does not name, and places without a value.
#[test]
fn every_text_is_there_and_gets_the_values_that_it_names() {
    let sources = sources();
    let mut used = BTreeSet::new();
    for call in sources.split(concat!("both", "!(")).skip(1) {
        let arguments = arguments(call);
        // The macro calls itself for each value.
        let Some(key) = arguments[0].strip_prefix('"') else { continue };
        let key = key.trim_matches('"');
        let Some([en, zh]) = TEXTS.get(key) else { panic!("no text {key}") };
        let named: BTreeSet<&str> = places(en).chain(places(zh)).collect();
        let given = arguments[1..].iter().map(|it| it.split_once(" = ").map_or(*it, |(name, _)| name));
        assert_eq!(given.collect::<BTreeSet<_>>(), named, "{key}");
        used.insert(key);
    }
    // Names of causes are looked up by the kind of an event.
    let is_left_over = |key: &&&str| !used.contains(**key) && !key.starts_with("cause.");
    let left_over: Vec<_> = TEXTS.keys().filter(is_left_over).collect();
    assert!(left_over.is_empty() && used.len() > 300, "{left_over:?}");
}

#[test]
fn every_line_is_a_key_and_two_texts() {
    for line in FILE.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(fields.len() == 3 && fields.iter().all(|field| !field.is_empty()), "{line:?}");
    }
    assert_eq!(FILE.lines().count(), TEXTS.len(), "a key has two lines");
}

#[test]
fn values_are_put_in_their_places_and_stay_as_they_are() {
    let (first, second) = ("{second}", 7);
    assert_eq!(
        fill("a {first} b {second}{first}", Language::En, &[("first", &first), ("second", &second)]),
        "a {second} b 7{second}"
    );
    assert_eq!(fill("plain", Language::En, &[]), "plain");
    let text = Text::of(("one", "一"));
    assert_eq!(fill("a {text}", Language::Zh, &[("text", &text)]), "a 一");
}
