//! Policies of a user, and which of their entries decides about a request (`AclAuthorizationHandler`).
//!
//! Of the entries that match, the first one decides: entries for one kind of resource before those for all kinds; literal names
//! before prefixes, longer prefixes before shorter ones, prefixes before all names; `Deny` before `Allow`. Entries are kept in
//! the order in which they came and once more sorted, so that a decision is a handful of binary searches, however many entries
//! a user has.

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;

use crate::names::{Actions, Decision, PolicyType};
use crate::resource::{Names, Needed, Pattern};
use crate::source::Source;

/// One entry of a policy (`PolicyEntry`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The resources that the entry is about.
    pub pattern: Pattern,
    /// The actions that the entry is about.
    pub actions: Actions,
    /// The callers that the entry is about; empty means all.
    pub sources: Vec<Source>,
    /// What the entry says.
    pub decision: Decision,
}

impl Entry {
    /// Whether the entry is about a request for one of these actions from this address, whatever its resource is.
    pub(crate) fn covers(&self, actions: Actions, caller: IpAddr) -> bool {
        self.actions.cover(actions)
            && (self.sources.is_empty() || self.sources.iter().any(|source| source.matches(caller)))
    }

    /// The order in which a policy sorts its entries; it keeps equal patterns together, `Deny` first.
    fn rank(&self, other: &Self) -> Ordering {
        let kind = |entry: &Self| (entry.pattern.kind.is_none(), entry.pattern.kind);
        kind(self)
            .cmp(&kind(other))
            .then_with(|| self.pattern.names.cmp(&other.pattern.names))
            .then_with(|| other.decision.cmp(&self.decision))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} on {}", self.decision, self.actions, self.pattern)?;
        self.sources
            .iter()
            .enumerate()
            .try_for_each(|(at, source)| write!(f, "{}{source}", if at == 0 { " from " } else { "," }))
    }
}

/// The entries of one policy of a user.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    entries: Vec<Entry>,
    /// Invariant: every index of `entries` once, in the order of [`Entry::rank`].
    ranked: Vec<u32>,
}

impl Policy {
    /// Makes a policy of entries.
    #[must_use]
    pub fn new(entries: Vec<Entry>) -> Self {
        let count = u32::try_from(entries.len()).expect("fewer entries than 2^32 fit in memory");
        let mut ranked: Vec<u32> = (0..count).collect();
        ranked.sort_by(|one, other| entries[*one as usize].rank(&entries[*other as usize]));
        Self { entries, ranked }
    }

    /// The entries in the order in which they came.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The policy with these entries in it: they replace those with an equal pattern, others are added
    /// (`Policy.updateEntry`). Of several new entries with an equal pattern the last one stays.
    #[must_use]
    pub fn merged(&self, added: Vec<Entry>) -> Self {
        let old_count = self.entries.len();
        let all = Self::new(self.entries.iter().cloned().chain(added).collect());
        let mut kept: Vec<(u32, u32)> = Vec::with_capacity(all.entries.len());
        for equal in all.ranked.chunk_by(|one, other| all.entry(*one).pattern == all.entry(*other).pattern) {
            let newest = equal.iter().copied().filter(|at| *at as usize >= old_count).max();
            match (newest, equal.iter().copied().min()) {
                (Some(newest), Some(place)) => kept.push((place, newest)),
                _ => kept.extend(equal.iter().map(|at| (*at, *at))),
            }
        }
        kept.sort_unstable();
        Self::new(kept.into_iter().map(|(_, at)| all.entry(at).clone()).collect())
    }

    /// The policy without the entries of a pattern.
    #[must_use]
    pub fn without(&self, pattern: &Pattern) -> Self {
        Self::new(self.entries.iter().filter(|entry| entry.pattern != *pattern).cloned().collect())
    }

    /// Position in [`Policy::entries`] of the entry that decides about a request; `None` when no entry matches.
    #[must_use]
    pub fn decide(&self, needed: &Needed<'_>, caller: IpAddr) -> Option<usize> {
        let (kind, name) = (needed.resource.kind, needed.resource.name);
        let matching = |ranked: &[u32]| {
            let found = ranked.iter().find(|at| self.entry(**at).covers(needed.actions, caller));
            found.map(|at| *at as usize)
        };
        let of_kind = self.part(&self.ranked, |entry| match entry.pattern.kind {
            Some(found) => found.cmp(&kind),
            None => Ordering::Greater,
        });
        let part = |class: u8| self.part(of_kind, |entry| class_of(&entry.pattern.names).cmp(&class));
        matching(self.part(part(LITERAL), |entry| text_of(entry).cmp(name)))
            .or_else(|| self.prefixes(part(PREFIXED), name).find_map(matching))
            .or_else(|| matching(part(ANY)))
            .or_else(|| {
                let from = self.ranked.partition_point(|at| self.entry(*at).pattern.kind.is_some());
                matching(&self.ranked[from..])
            })
    }

    /// The entries with a prefix of `name`, the longest prefix first. `ranked` are entries with prefixes, in their order: the
    /// last one that is not behind `name` has the longest prefix, or shows how much shorter that must be.
    fn prefixes<'a>(&'a self, ranked: &'a [u32], name: &'a str) -> impl Iterator<Item = &'a [u32]> {
        let mut rest = Some(name.as_bytes());
        std::iter::from_fn(move || {
            while let Some(key) = rest {
                let until = ranked.partition_point(|at| text_of(self.entry(*at)).as_bytes() <= key);
                let found = text_of(self.entry(*ranked[..until].last()?)).as_bytes();
                let common = found.iter().zip(key).take_while(|(one, other)| one == other).count();
                if common < found.len() {
                    rest = Some(&key[..common]);
                    continue;
                }
                rest = common.checked_sub(1).map(|shorter| &key[..shorter]);
                let from = ranked[..until].partition_point(|at| text_of(self.entry(*at)).as_bytes() < found);
                return Some(&ranked[from..until]);
            }
            None
        })
    }

    /// The part of a ranked list that compares as equal; `compare` is monotonic over the list.
    fn part<'a>(&self, ranked: &'a [u32], compare: impl Fn(&Entry) -> Ordering) -> &'a [u32] {
        let from = ranked.partition_point(|at| compare(self.entry(*at)).is_lt());
        let until = from + ranked[from..].partition_point(|at| compare(self.entry(*at)).is_eq());
        &ranked[from..until]
    }

    fn entry(&self, at: u32) -> &Entry {
        &self.entries[at as usize]
    }
}

const LITERAL: u8 = 0;
const PREFIXED: u8 = 1;
const ANY: u8 = 2;

/// The place of names among the other kinds of names in the order in which entries decide.
pub(crate) fn class_of(names: &Names) -> u8 {
    match names {
        Names::Literal(_) => LITERAL,
        Names::Prefixed(_) => PREFIXED,
        Names::Any => ANY,
    }
}

/// The name or prefix of an entry; empty for all names.
pub(crate) fn text_of(entry: &Entry) -> &str {
    match &entry.pattern.names {
        Names::Literal(text) | Names::Prefixed(text) => text,
        Names::Any => "",
    }
}

/// The two policies of a user (`Acl`).
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// The entries that are looked at first.
    pub custom: Policy,
    /// The entries that count when no entry of `custom` matches.
    pub default: Policy,
}

impl Policies {
    /// The policy of a type.
    #[must_use]
    pub fn of(&self, kind: PolicyType) -> &Policy {
        match kind {
            PolicyType::Custom => &self.custom,
            PolicyType::Default => &self.default,
        }
    }

    pub(crate) fn of_mut(&mut self, kind: PolicyType) -> &mut Policy {
        match kind {
            PolicyType::Custom => &mut self.custom,
            PolicyType::Default => &mut self.default,
        }
    }

    /// Whether no policy has an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.custom.entries.is_empty() && self.default.entries.is_empty()
    }

    /// The entry that decides about a request: its policy and its position there; `None` when no entry matches.
    #[must_use]
    pub fn decide(&self, needed: &Needed<'_>, caller: IpAddr) -> Option<(PolicyType, usize)> {
        let of = |kind: PolicyType| Some((kind, self.of(kind).decide(needed, caller)?));
        of(PolicyType::Custom).or_else(|| of(PolicyType::Default))
    }
}

#[cfg(test)]
mod tests;
