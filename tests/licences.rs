//! Every package we are built from has a licence of the list in `deny.toml`, and comes from crates.io.

use std::process::Command;

/// The quoted lines of `allow = [ ... ]` in deny.toml.
fn allowed() -> Vec<String> {
    let text = std::fs::read_to_string("deny.toml").expect("deny.toml");
    let (_, list) = text.split_once("allow = [").expect("a list of licences");
    let (list, _) = list.split_once(']').expect("the end of the list");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Evaluates an SPDX expression: words, `WITH`, `AND`, `OR` (also written `/`) and parentheses.
struct Expression<'a> {
    words: Vec<&'a str>,
    at: usize,
    allowed: &'a [String],
}

impl<'a> Expression<'a> {
    fn is_allowed(text: &'a str, allowed: &'a [String]) -> bool {
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(at) = rest.find(['(', ')', '/']) {
                words.extend([&rest[..at], &rest[at..=at]]);
                rest = &rest[at + 1..];
            }
            words.push(rest);
        }
        words.retain(|word| !word.is_empty());
        let mut expression = Expression { words, at: 0, allowed };
        expression.any() && expression.at == expression.words.len()
    }

    fn take(&mut self, words: &[&str]) -> bool {
        let found = self.words.get(self.at).is_some_and(|word| words.contains(word));
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> bool {
        let mut result = self.all();
        while self.take(&["OR", "/"]) {
            result |= self.all();
        }
        result
    }

    fn all(&mut self) -> bool {
        let mut result = self.one();
        while self.take(&["AND"]) {
            result &= self.one();
        }
        result
    }

    fn one(&mut self) -> bool {
        if self.take(&["("]) {
            let result = self.any();
            return self.take(&[")"]) && result;
        }
        let Some(word) = self.words.get(self.at).copied() else { return false };
        self.at += 1;
        let mut name = word.to_owned();
        if self.take(&["WITH"]) {
            name = format!("{word} WITH {}", self.words.get(self.at).copied().unwrap_or_default());
            self.at += 1;
        }
        self.allowed.contains(&name)
    }
}

/// What cargo knows about the packages this platform needs; works offline after a build.
fn metadata() -> serde_json::Value {
    let version = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let version = String::from_utf8(version.stdout).expect("text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

#[test]
fn expressions_are_understood() {
    let allowed = ["MIT", "Apache-2.0", "Zlib", "A WITH e"].map(str::to_owned);
    let check = |text, expected| assert_eq!(Expression::is_allowed(text, &allowed), expected, "{text}");
    check("MIT", true);
    check("GPL-3.0", false);
    check("GPL-3.0 OR MIT", true);
    check("GPL-3.0/MIT", true);
    check("MIT AND GPL-3.0", false);
    check("(MIT OR GPL-3.0) AND Zlib", true);
    check("(MIT OR Apache-2.0) AND GPL-3.0", false);
    check("A WITH e OR GPL-3.0", true);
    check("A WITH f", false);
    check("A", false);
    check("", false);
    check("MIT MIT", false);
}

#[test]
fn every_package_may_be_shipped() {
    let allowed = allowed();
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let mut bad = Vec::new();
    for package in packages {
        let name = format!("{} {}", package["name"], package["version"]);
        let licence = package["license"].as_str().unwrap_or("none stated");
        if !Expression::is_allowed(licence, &allowed) {
            bad.push(format!("{name}: licence {licence}"));
        }
        let source = package["source"].as_str();
        if source.is_some_and(|source| source != "registry+https://github.com/rust-lang/crates.io-index") {
            bad.push(format!("{name}: from {source:?}"));
        }
    }
    assert!(packages.len() > 20, "only {} packages", packages.len());
    assert!(bad.is_empty(), "not in the list of deny.toml:\n{}", bad.join("\n"));
}
