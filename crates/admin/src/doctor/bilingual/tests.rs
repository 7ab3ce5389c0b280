use super::*;
use std::collections::BTreeSet;
use std::path::Path;

/// The sources of the doctor, without tests and without this room.
fn sources() -> String {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/doctor")];
    let mut sources = String::new();
    while let Some(directory) = open.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") && name != "tests" && name != "bilingual"
            {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    sources
}

/// The text of a literal at the beginning of `code`, and the code behind it.
fn literal(code: &str) -> Option<(String, &str)> {
    let code = code.trim_start().strip_prefix('"')?;
    let end = code.char_indices().find(|(at, letter)| *letter == '"' && !code[..*at].ends_with('\\'))?.0;
    let lines: Vec<&str> = code[..end].split("\\\n").collect();
    let rest = lines[1..].iter().map(|line| line.trim_start());
    let text = [lines[0]].into_iter().chain(rest).collect::<String>().replace("\\\"", "\"");
    Some((text, &code[end + 1..]))
}

/// Names of the values that a call gives, up to its closing parenthesis.
fn names(call: &str) -> BTreeSet<&str> {
    let (mut names, mut depth, mut start) = (BTreeSet::new(), 0, 0);
    for (at, letter) in call.char_indices() {
        let is_end = depth == 0 && letter == ')';
        if is_end || depth == 0 && letter == ',' {
            let given = call[start..at].trim();
            names.insert(given.split_once(" = ").map_or(given, |(name, _)| name));
            start = at + 1;
        }
        match letter {
            _ if is_end => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    names.remove("");
    names
}

fn places(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name)
}

/// A text without Chinese, values that a text does not name, and places without a value.
#[test]
fn every_text_has_both_languages_and_gets_the_values_that_it_names() {
    let sources = sources();
    let mut used = BTreeSet::new();
    let calls = [concat!("text", "!("), "Phrase("].map(|start| sources.split(start).skip(1));
    for call in calls.into_iter().flatten() {
        let Some((english, rest)) = literal(call) else { continue };
        let chinese = CHINESE.get(&english).unwrap_or_else(|| panic!("no Chinese of {english}"));
        let named: BTreeSet<&str> = places(&english).chain(places(chinese)).collect();
        assert_eq!(names(rest), named, "{english}");
        used.insert(english);
    }
    used.extend(crate::doctor::checks::all().map(|check| check.about.0.to_owned()));
    let texts: Vec<&str> = CHINESE.iter().map(|(english, _)| english).collect();
    let left_over: Vec<_> = texts.iter().filter(|it| !used.contains(**it)).collect();
    assert!(left_over.is_empty() && used.len() > 300, "{left_over:?}");
    let missing: Vec<_> = used.iter().filter(|it| CHINESE.get(it).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len(), "an English text has two lines");
}

#[test]
fn values_are_put_in_their_places_in_both_languages() {
    let (first, inner) = ("{inner}", Phrase("never"));
    let values: [(&str, &dyn Value); 2] = [("first", &first), ("inner", &inner)];
    assert_eq!(fill("a {first} b {inner}{first}", Lang::En, &values), "a {inner} b never{inner}");
    assert_eq!(fill("{inner}", Lang::Zh, &values), CHINESE.get("never").unwrap());
    assert_eq!(fill("plain", Lang::Zh, &[]), "plain");
}
