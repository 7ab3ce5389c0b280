//! The layer rule: a crate uses only the crates below it that the design names.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Who may use whom. A crate that is not listed here needs a decision first.
const LAYERS: [(&str, &[&str]); 8] = [
    ("wire", &[]),
    ("store", &["wire"]),
    ("net", &["wire"]),
    ("client", &["wire", "net"]),
    ("namesrv", &["wire", "net"]),
    ("broker", &["wire", "store", "net", "client"]),
    ("lab", &["wire", "net", "client"]),
    ("vostok", &["wire", "store", "net", "client", "namesrv", "broker", "lab"]),
];

/// Packages of the shipped binary at most.
const PACKAGES_MAX: usize = 250;

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
