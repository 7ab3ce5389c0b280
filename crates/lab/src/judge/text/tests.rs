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
    template.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(place, _)| {
        let (name, format) = place.split_once(':').unwrap_or((place, "whole"));
        assert!(FORMATS.iter().any(|(known, _)| *known == format), "no format {format}");
        name
    })
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
    // Names are looked up by the value that they name.
    let is_named = |key: &str| key.split_once('.').is_some_and(|(kind, _)| NAMED.contains(&kind));
    let is_left_over = |key: &&&str| !used.contains(**key) && !is_named(key);
    let left_over: Vec<_> = TEXTS.keys().filter(is_left_over).collect();
    assert!(left_over.is_empty() && used.len() > 300, "{left_over:?}");
}

/// Kinds of values whose names are texts.
const NAMED: [&str; 8] = ["cause", "drift", "factor", "judgement", "phase", "quantity", "resource", "tested"];

#[test]
fn every_value_with_a_name_has_one_in_both_languages() {
    use crate::judge::balance::Quantity;
    use crate::judge::bottleneck::Resource;
    use crate::judge::factor::Factor;
    use crate::judge::soak::Drifting;
    use crate::judge::versus::{Tested, Verdict};
    fn check(kind: &str, values: &[impl Serialize]) {
        let names: BTreeSet<_> = values.iter().map(|value| Text::named(kind, value).zh).collect();
        assert_eq!(names.len(), values.len(), "{names:?}");
        let rows = TEXTS.keys().filter(|key| key.split_once('.').is_some_and(|(of, _)| of == kind));
        assert_eq!(rows.count(), values.len(), "{kind}: a name that nothing has");
        let of = |value: &_| serde_json::to_value(value).unwrap().as_str().unwrap().to_owned();
        assert!(values.iter().all(|value| Text::known(&format!("{kind}.{}", of(value))).is_some()), "{kind}");
    }
    use Resource::{Client, Cpu, Disk, Network, Replica, Server, Unknown};
    check("resource", &[Cpu, Disk, Network, Replica, Client, Server, Unknown]);
    use Verdict::{Better, Equal, NotComparable, Undecided, Worse};
    check("judgement", &[Better, Equal, Worse, Undecided, NotComparable]);
    use Drifting::{Files, Memory, Rate, SendP99, Threads};
    check("drift", &[Rate, SendP99, Memory, Files, Threads]);
    use Tested::{Crc, DiskFlushes, DiskWrite, LabMessages, Loopback, RoundTrips};
    check("tested", &[DiskWrite, DiskFlushes, Loopback, RoundTrips, LabMessages, Crc]);
    check("quantity", &[Quantity::NetworkIn, Quantity::NetworkOut, Quantity::DiskWritten]);
    check("factor", &Factor::FIXED);
    check("phase", &["before", "during", "drain", "after", "warmup", "steady", "rest", "fault", "heal"]);
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
    let values: [(&str, &dyn Value); 2] = [("share", &0.123), ("bytes", &93_412_000_u64)];
    assert_eq!(fill("{share:percent} of {bytes:bytes}", Language::En, &values), "12.3 % of 93.4 MB");
    let text = Text::of(("one", "一"));
    assert_eq!(fill("a {text}", Language::Zh, &[("text", &text)]), "a 一");
}
