//! Settings without effect here: settings of Java without counterpart, and unknown names.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use super::{PROPERTIES, refused};

/// Setting of Java that has no effect here.
pub(super) struct WithoutEffect {
    /// Java's default.
    pub default: String,
    /// Reason why the setting has no effect.
    pub reason: &'static str,
    /// Whether operators may rely on the setting. A value other than the default is then reported as without effect,
    /// otherwise as not needed.
    pub is_missed: bool,
}

static TABLE: LazyLock<HashMap<&'static str, WithoutEffect>> = LazyLock::new(|| {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    parse(include_str!("without_effect.properties"), cpus)
});

/// Returns the entry of a setting without effect.
pub(super) fn lookup(key: &str) -> Option<&'static WithoutEffect> {
    TABLE.get(key)
}

/// Java's defaults of these settings, by name.
pub(super) fn defaults() -> BTreeMap<String, String> {
    TABLE.iter().map(|(name, known)| ((*name).to_owned(), known.default.clone())).collect()
}

/// The names of these settings by the reason why they have no effect; reasons and names are sorted.
pub(super) fn by_reason() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, known) in TABLE.iter() {
        groups.entry(known.reason).or_default().push(name);
    }
    groups.values_mut().for_each(|names| names.sort_unstable());
    groups
}

/// Returns the known name most similar to an unknown name. At most every fourth letter differs.
pub(super) fn nearest(key: &str) -> Option<&'static str> {
    let effective = PROPERTIES.iter().map(|property| property.name);
    let names = effective.chain(refused::names()).chain(TABLE.keys().copied());
    let near = names.map(|name| (distance(key, name), name)).min()?;
    (near.0 <= near.1.len() / 4).then_some(near.1)
}

/// Returns the edit distance of two names, ignoring case.
fn distance(left: &str, right: &str) -> usize {
    strsim::generic_levenshtein(
        &left.as_bytes()[..left.len().min(128)].to_ascii_lowercase(),
        &right.as_bytes().to_ascii_lowercase(),
    )
}

fn parse(text: &'static str, cpus: usize) -> HashMap<&'static str, WithoutEffect> {
    let mut table = HashMap::new();
    let mut group = (false, "");
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let (level, reason) = heading.split_once(": ").expect("a test reads every heading of the file");
            group = (level == "warn", reason);
        } else if let Some((name, default)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let default = default_text(default, cpus);
            table.insert(name, WithoutEffect { default, reason: group.1, is_missed: group.0 });
        }
    }
    table
}

/// The default of a setting, computed where Java computes the size of a pool from the number of processors.
fn default_text(text: &str, cpus: usize) -> String {
    match text {
        "@cpu4" => cpus.min(4).to_string(),
        "@cpu32" => cpus.min(32).to_string(),
        "@8+cpu" => (8 + cpus).to_string(),
        "@16+2cpu" => (16 + 2 * cpus).to_string(),
        "@transaction" => (8 + 2 * cpus).max(4 * cpus.min(4)).to_string(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
