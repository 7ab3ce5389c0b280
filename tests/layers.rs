//! The layer rules: a crate uses only the crates below it that the design names, and the top-level modules of a crate do not
//! use each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Who may use whom. A crate that is not listed here needs a decision first.
const LAYERS: [(&str, &[&str]); 17] = [
    ("wire", &[]),
    ("host", &[]),
    ("store", &["wire"]),
    ("replica", &["wire"]),
    ("net", &["wire"]),
    ("grpc", &[]),
    ("auth", &["wire"]),
    ("client", &["wire", "net"]),
    ("namesrv", &["wire", "net", "auth"]),
    ("controller", &["wire", "store", "replica", "net", "client"]),
    ("broker", &["wire", "store", "replica", "net", "auth", "client", "grpc"]),
    ("proxy", &["wire", "net", "grpc", "auth", "broker", "client"]),
    ("lab", &["wire", "net", "grpc", "client"]),
    ("admin", &["wire", "client", "host"]),
    ("console", &["wire", "net", "auth", "admin"]),
    ("sim", &["wire", "store", "replica", "controller"]),
    (
        "vostok",
        &[
            "wire",
            "store",
            "net",
            "auth",
            "client",
            "namesrv",
            "controller",
            "broker",
            "proxy",
            "lab",
            "admin",
            "console",
        ],
    ),
];

/// Packages of the shipped binary at most.
const PACKAGES_MAX: usize = 218;

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

#[test]
fn every_crate_uses_only_what_the_design_allows() {
    let metadata = metadata();
    let members: Vec<&str> = metadata["workspace_members"]
        .as_array()
        .expect("members")
        .iter()
        .filter_map(serde_json::Value::as_str)
        .collect();
    let rules: BTreeMap<_, _> = LAYERS.into_iter().collect();
    for package in metadata["packages"].as_array().expect("packages") {
        if !package["id"].as_str().is_some_and(|id| members.contains(&id)) {
            continue;
        }
        let short = |name: &str| name.strip_prefix("vostok-").unwrap_or(name).to_owned();
        let name = short(package["name"].as_str().expect("name"));
        let allowed = rules.get(name.as_str()).unwrap_or_else(|| panic!("{name} is not in the layer table"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("name");
            if used.starts_with("vostok") {
                let used = short(used);
                assert!(allowed.contains(&used.as_str()), "{name} must not use {used}");
            }
        }
    }
}

#[test]
fn the_binary_has_few_dependencies() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--package",
            "vostok",
            "--offline",
            "--locked",
        ])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("package names are text");
    let packages: BTreeSet<_> = text.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    assert!(packages.len() > 20, "cargo tree lists packages: {packages:?}");
    assert!(packages.len() <= PACKAGES_MAX, "{} packages ship, the limit is {PACKAGES_MAX}", packages.len());
}

/// Top-level modules by the top-level modules they use.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// All Rust files below a directory, without tests.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the repository") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("names are text");
        if matches!(name, "tests" | "testing" | "lib") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names that follow `crate::` in the code of a file, groups in braces included.
fn used_names(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    let name =
        |text: &str| text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect::<String>();
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(name(rest));
            continue;
        };
        let mut depth = 0;
        let mut is_first = true;
        for (index, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                letter if is_first && depth == 0 && !letter.is_whitespace() => {
                    names.insert(name(&group[index..]));
                    is_first = false;
                }
                _ => {}
            }
        }
    }
    names
}

fn uses_of(krate: &str) -> Uses {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(krate).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut uses = Uses::new();
    for path in files {
        let top = path
            .strip_prefix(&root)
            .expect("below it")
            .iter()
            .next()
            .expect("a name")
            .to_str()
            .expect("text");
        let names = used_names(&fs::read_to_string(&path).expect("readable"));
        uses.entry(top.trim_end_matches(".rs").to_owned()).or_default().extend(names);
    }
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    uses.iter_mut().for_each(|(module, used)| used.retain(|name| name != module && modules.contains(name)));
    uses
}

/// Modules from which a chain of uses leads back to themselves.
fn in_circles(uses: &Uses) -> BTreeSet<&str> {
    let leads_back = |module: &str| {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = uses[module].iter().map(String::as_str).collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(uses[next].iter().map(String::as_str));
            }
        }
        reached.contains(module)
    };
    uses.keys().map(String::as_str).filter(|module| leads_back(module)).collect()
}

#[test]
fn modules_of_a_crate_form_no_circles() {
    for (krate, _) in LAYERS.into_iter().filter(|(krate, _)| *krate != "vostok") {
        let uses = uses_of(krate);
        assert!(uses.len() > 3 && uses.values().any(|used| !used.is_empty()), "{krate}: {uses:?}");
        let found = in_circles(&uses);
        assert!(found.is_empty(), "{krate}: modules that use each other in a circle: {found:?}");
    }
}

#[test]
fn circles_are_found() {
    let text = "use crate::{b, c::{d, e}};\nfn f() { crate::g::h() } // crate::i\n#[cfg(test)]\nmod tests { use crate::j; }";
    assert_eq!(used_names(text), ["b", "c", "g"].map(str::to_owned).into());
    let uses = |list: &[(&str, &[&str])]| -> Uses {
        list.iter()
            .map(|(name, used)| ((*name).to_owned(), used.iter().map(|it| (*it).to_owned()).collect()))
            .collect()
    };
    let circle = uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
    assert_eq!(in_circles(&circle), ["b", "c"].into());
    assert!(in_circles(&uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])).is_empty());
}

/// Files of one top-level module that use each other in a circle, at most.
const FILES_IN_CIRCLE_MAX: usize = 3;

/// The paths that begin with `crate`, `self` or `super` in the code of a file, groups in braces taken apart.
fn used_paths(text: &str) -> Vec<Vec<String>> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    let mut paths = Vec::new();
    for root in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let is_begin = !code[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_' || it == ':');
            if is_begin {
                take_path(&code[at..], &[], &mut paths);
            }
        }
    }
    paths
}

/// Adds the path at the beginning of `text`, or those of its group; returns how many bytes they take.
fn take_path(text: &str, prefix: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = text.len() - text.trim_start().len();
    loop {
        let word: String = text[at..].chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
        at += word.len();
        if text[at..].starts_with('{') && word.is_empty() {
            at += 1;
            while !text[at..].trim_start().starts_with('}') && at < text.len() {
                at += take_path(&text[at..], &path, paths);
                at += text[at..].find(['}', ',']).unwrap_or(text.len() - at);
                at += usize::from(text[at..].starts_with(','));
            }
            return (at + text[at..].find('}').map_or(0, |end| end + 1)).min(text.len());
        }
        path.push(word);
        if !text[at..].starts_with("::") {
            paths.push(path);
            return at;
        }
        at += 2;
    }
}

/// The files of a crate by the files they use; a file is named by its module path.
fn file_uses(krate: &str) -> Uses {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(krate).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let module = |path: &Path| {
        let path = path.strip_prefix(&root).expect("below it").with_extension("");
        path.iter()
            .map(|it| it.to_str().expect("text").to_owned())
            .filter(|it| it != "mod")
            .collect::<Vec<_>>()
    };
    let modules: BTreeSet<Vec<String>> = files.iter().map(|path| module(path)).collect();
    let mut uses = Uses::new();
    for path in &files {
        let own = module(path);
        let used = used_paths(&fs::read_to_string(path).expect("readable"))
            .into_iter()
            .map(|path| absolute(&own, &path))
            .filter_map(|path| {
                (1..=path.len()).rev().map(|length| path[..length].to_vec()).find(|it| modules.contains(it))
            })
            .filter(|used| *used != own);
        uses.insert(own.join("::"), used.map(|it| it.join("::")).collect());
    }
    uses
}

/// A path from the root of the crate.
fn absolute(own: &[String], path: &[String]) -> Vec<String> {
    let mut base = if path[0] == "crate" { Vec::new() } else { own.to_vec() };
    let mut rest = path.iter().peekable();
    while let Some(word) = rest.next_if(|word| ["crate", "self", "super"].contains(&word.as_str())) {
        if word == "super" {
            base.pop();
        }
    }
    base.extend(rest.cloned());
    base
}

#[test]
fn few_files_of_a_module_form_a_circle() {
    for (krate, _) in LAYERS.into_iter().filter(|(krate, _)| *krate != "vostok") {
        let uses = file_uses(krate);
        let reach = |from: &str| {
            let mut reached: BTreeSet<&str> = BTreeSet::new();
            let mut open: Vec<&str> = uses[from].iter().map(String::as_str).collect();
            while let Some(next) = open.pop() {
                if reached.insert(next) {
                    open.extend(uses[next].iter().map(String::as_str));
                }
            }
            reached
        };
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            uses.keys().map(|file| (file.as_str(), reach(file))).collect();
        for (file, reaches) in &reached {
            let circle: Vec<_> = reaches.iter().filter(|other| reached[**other].contains(file)).collect();
            assert!(
                circle.len() <= FILES_IN_CIRCLE_MAX,
                "{krate}: files that use each other in a circle: {circle:?}"
            );
        }
    }
}

/// Fields of the broker's hub at most.
const BROKER_FIELDS_MAX: usize = 12;

/// Modules of the broker that may take the hub as a whole: the dispatcher, the typed API, starting and running.
const HUB_USERS: [&str; 5] = ["remoting", "api", "start", "shell", "broker"];

/// Whether a text has a word, which letters, digits and underscores surround nowhere.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').any(|it| it == word)
}

/// The number of functions in a text whose parameters name a type.
fn takers(text: &str, name: &str) -> usize {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    let takes = |signature: &&str| has_word(signature.split(['{', ';']).next().unwrap_or_default(), name);
    code.split(" fn ").skip(1).filter(takes).count()
}

#[test]
fn operations_of_the_broker_take_parts_and_not_the_hub() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/broker/src");
    let hub = fs::read_to_string(root.join("broker.rs")).expect("readable");
    let fields = hub.split("pub struct Broker {").nth(1).and_then(|rest| rest.split("\n}").next());
    let fields = fields.expect("the struct of the hub").lines().filter(|line| line.contains(": ")).count();
    assert!((1..=BROKER_FIELDS_MAX).contains(&fields), "{fields} fields of the broker");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut found = BTreeMap::new();
    for path in files {
        let top = path.strip_prefix(&root).expect("below it").iter().next().and_then(|it| it.to_str());
        if top.is_some_and(|top| HUB_USERS.contains(&top.trim_end_matches(".rs"))) {
            continue;
        }
        let takers = takers(&fs::read_to_string(&path).expect("readable"), "Broker");
        if takers > 0 {
            found.insert(path, takers);
        }
    }
    assert!(found.is_empty(), "functions below `remoting` that take the hub: {found:?}");
}

#[test]
fn functions_that_take_a_type_are_found() {
    let text = "use a::Hub;\npub fn one(hub: &Hub) { two(Hub::new()) }\npub async fn two(a: u8,\n    b: Arc<Hub>,\n) {}\n\
                fn three(hub: &HubParts) {} // fn four(hub: &Hub)\n#[cfg(test)]\nmod tests { fn five(hub: &Hub) {} }";
    assert_eq!(takers(text, "Hub"), 2);
}

#[test]
fn paths_are_taken_apart() {
    let text = "use crate::{a::{B, c::D}, e};\nuse super::f as g; // self::h\nfn i() { self::j::k() }";
    let mut found: Vec<String> = used_paths(text).iter().map(|path| path.join("::")).collect();
    found.sort();
    assert_eq!(found, ["crate::a::B", "crate::a::c::D", "crate::e", "self::j::k", "super::f"]);
    let own = ["x".to_owned(), "y".to_owned()];
    assert_eq!(absolute(&own, &["super".to_owned(), "z".to_owned()]), ["x", "z"]);
    assert_eq!(absolute(&own, &["crate".to_owned(), "z".to_owned()]), ["z"]);
}
