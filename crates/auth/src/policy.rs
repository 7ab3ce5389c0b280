//! Policies of a user, and the choice of the entry that decides about a request (`AclAuthorizationHandler`).
//!
//! The first matching entry decides, in this order:
//! - Entries for a kind of resource come before entries for all kinds.
//! - Literal names come before prefixes, longer prefixes before shorter prefixes, prefixes before all names.
//! - `Deny` comes before `Allow`.
//!
//! Entries are stored in the order of their arrival and once more sorted, so that a decision is a handful of binary
//! searches, however many entries a user has.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::iter::once_with;
use std::net::IpAddr;

use serde::Deserialize;
use wire::body::PolicyEntryInfo;

use crate::error::{AuthError, Result};
use crate::names::{Action, Actions, Decision, PolicyType, ResourceType};
use crate::resource::{NamePattern, Pattern, Permission, Resource};
use crate::source::Source;

/// Entry of a policy (`PolicyEntry`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "PolicyEntryTexts<'_>")]
pub(crate) struct PolicyEntry {
    /// The resources that the entry is about.
    pub(crate) pattern: Pattern,
    /// The actions that the entry is about.
    pub(crate) actions: Actions,
    /// The callers that the entry is about; empty means all.
    pub(crate) sources: Vec<Source>,
    pub(crate) decision: Decision,
}

impl PolicyEntry {
    /// Whether the entry covers a request for one of these actions from this address, for any resource.
    pub(crate) fn covers(&self, actions: Actions, caller: IpAddr) -> bool {
        self.actions.cover(actions)
            && (self.sources.is_empty() || self.sources.iter().any(|source| source.matches(caller)))
    }

    /// Returns the rank of the entry in the order of decision: its kind of resource, all kinds last, then its kind of
    /// names, then the name or prefix.
    fn rank(&self) -> Rank<'_> {
        let (names, text) = match &self.pattern.names {
            NamePattern::Literal(name) => (LITERAL, name.as_bytes()),
            NamePattern::Prefixed(prefix) => (PREFIXED, prefix.as_bytes()),
            NamePattern::Any => (ANY, &[][..]),
        };
        (self.pattern.kind.is_none(), self.pattern.kind, names, text)
    }
}

/// Rank of an entry, as [`PolicyEntry::rank`] returns it.
type Rank<'a> = (bool, Option<ResourceType>, u8, &'a [u8]);

/// Rank of entries for a single name, which decide first.
const LITERAL: u8 = 0;
/// Rank of entries for names with a prefix, which decide after literal names.
const PREFIXED: u8 = 1;
/// Rank of entries for all names, which decide last.
const ANY: u8 = 2;

impl fmt::Display for PolicyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} on {}", self.decision, self.actions, self.pattern)?;
        self.sources
            .iter()
            .enumerate()
            .try_for_each(|(at, source)| write!(f, "{}{source}", if at == 0 { " from " } else { "," }))
    }
}

/// Entry in the form of files and requests. A start reads very many entries of a file, so only the stored texts are
/// copied.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PolicyEntryTexts<'a> {
    #[serde(borrow)]
    resource: Cow<'a, str>,
    actions: Vec<ListItem<'a>>,
    source_ips: Vec<ListItem<'a>>,
    #[serde(borrow)]
    decision: Cow<'a, str>,
}

/// Item of a list in an entry: the name of an action, or an address. Borrowed from the file's text where it has no
/// escapes.
#[derive(Deserialize)]
struct ListItem<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> From<&'a PolicyEntryInfo> for PolicyEntryTexts<'a> {
    fn from(info: &'a PolicyEntryInfo) -> Self {
        let text = |text: &'a Option<String>| Cow::from(text.as_deref().unwrap_or_default());
        let all =
            |list: &'a Option<Vec<String>>| list.iter().flatten().map(|it| ListItem(it.into())).collect();
        Self {
            resource: text(&info.resource),
            actions: all(&info.actions),
            source_ips: all(&info.source_ips),
            decision: text(&info.decision),
        }
    }
}

impl TryFrom<PolicyEntryTexts<'_>> for PolicyEntry {
    type Error = AuthError;

    /// Reads an entry. Names of actions that are unknown are dropped (`AclConverter.convertAcl`).
    ///
    /// # Errors
    /// [`AuthError::Invalid`] with RocketMQ's text for the first thing that is wrong (`AuthorizationMetadataManagerImpl.validate`).
    fn try_from(texts: PolicyEntryTexts<'_>) -> Result<Self> {
        let pattern = Pattern::parse(&texts.resource).ok_or(AuthError::Invalid("The resource is null."))?;
        if texts.actions.iter().any(|name| name.0.eq_ignore_ascii_case("Any")) {
            return Err(AuthError::Invalid("The actions can not be Any."));
        }
        let known = texts.actions.iter().filter_map(|name| Action::from_name(&name.0));
        let actions = known.fold(Actions::default(), Actions::with);
        if actions.is_empty() {
            return Err(AuthError::Invalid("The actions is empty."));
        }
        let source = |text: &ListItem<'_>| match text.0.trim() {
            "" => Err(AuthError::Invalid("The source ip is empty.")),
            _ => Source::parse(&text.0).ok_or(AuthError::Invalid("The source ip is invalid.")),
        };
        let sources = texts.source_ips.iter().map(source).collect::<Result<_, _>>()?;
        let decision = Decision::from_name(&texts.decision);
        let decision = decision.ok_or(AuthError::Invalid("The decision is null or illegal."))?;
        Ok(Self { pattern, actions, sources, decision })
    }
}

impl From<&PolicyEntry> for PolicyEntryInfo {
    fn from(entry: &PolicyEntry) -> Self {
        let sources: Vec<_> = entry.sources.iter().map(Source::to_string).collect();
        Self {
            resource: Some(entry.pattern.to_string()),
            actions: Some(entry.actions.iter().map(|action| action.name().to_owned()).collect()),
            source_ips: (!sources.is_empty()).then_some(sources),
            decision: Some(entry.decision.name().to_owned()),
        }
    }
}

/// The entries of one policy of a user.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    entries: Vec<PolicyEntry>,
    /// Invariant: every index of `entries` once, in the order of [`PolicyEntry::rank`], `Deny` first where that is equal.
    ranked: Vec<u32>,
}

impl Policy {
    /// Makes a policy of entries.
    pub(crate) fn new(entries: Vec<PolicyEntry>) -> Self {
        let count = u32::try_from(entries.len()).expect("fewer entries than 2^32 fit in memory");
        let mut ranked: Vec<u32> = (0..count).collect();
        ranked.sort_by_cached_key(|at| {
            let entry = &entries[*at as usize];
            (entry.rank(), Reverse(entry.decision))
        });
        Self { entries, ranked }
    }

    /// The entries in the order in which they came.
    pub(crate) fn entries(&self) -> &[PolicyEntry] {
        &self.entries
    }

    /// Returns the policy with these entries. They replace entries with an equal pattern, and others are added
    /// (`Policy.updateEntry`). The last of several new entries with an equal pattern stays.
    pub(crate) fn merged(&self, added: Vec<PolicyEntry>) -> Self {
        let old_count = self.entries.len();
        let all = Self::new(self.entries.iter().cloned().chain(added).collect());
        let mut kept: Vec<(u32, u32)> = Vec::with_capacity(all.entries.len());
        for equal in all.ranked.chunk_by(|one, other| all.entry(*one).pattern == all.entry(*other).pattern) {
            let newest = equal.iter().copied().filter(|at| *at as usize >= old_count).max();
            match (newest, equal.iter().copied().min()) {
                (Some(newest), Some(first)) => kept.push((first, newest)),
                _ => kept.extend(equal.iter().map(|at| (*at, *at))),
            }
        }
        kept.sort_unstable();
        Self::new(kept.into_iter().map(|(_, at)| all.entry(at).clone()).collect())
    }

    /// Removes the entries of a pattern.
    pub(crate) fn remove(&mut self, pattern: &Pattern) {
        self.entries.retain(|entry| entry.pattern != *pattern);
        *self = Self::new(std::mem::take(&mut self.entries));
    }

    /// Position in [`Policy::entries`] of the entry that decides about a request; `None` when no entry matches.
    pub(crate) fn decide(&self, needed: &Permission<'_>, caller: IpAddr) -> Option<usize> {
        self.matching(&needed.resource).find(|at| self.entries[*at].covers(needed.actions, caller))
    }

    /// Positions in [`Policy::entries`] of the entries that are about a resource, in the order in which they decide.
    pub(crate) fn matching<'a>(&'a self, resource: &'a Resource<'a>) -> impl Iterator<Item = usize> {
        let named = move |names, text| (false, Some(resource.kind), names, text);
        let at_rank = |rank| once_with(move || self.equal_range(|entry| entry.rank().cmp(&rank)));
        let of_all_kinds = once_with(|| self.equal_range(|entry| entry.pattern.kind.is_none().cmp(&true)));
        at_rank(named(LITERAL, resource.name.as_bytes()))
            .chain(self.prefixes(resource))
            .chain(at_rank(named(ANY, &[])))
            .chain(of_all_kinds)
            .flatten()
            .map(|at| *at as usize)
    }

    /// Returns the entries with a prefix of a resource's name, the longest prefix first. The last entry not behind
    /// the name has the longest prefix, or shows how much shorter that prefix must be.
    fn prefixes<'a>(&'a self, resource: &'a Resource<'a>) -> impl Iterator<Item = &'a [u32]> {
        let mut rest = Some(resource.name.as_bytes());
        std::iter::from_fn(move || {
            while let Some(key) = rest {
                let rank = (false, Some(resource.kind), PREFIXED, key);
                let until = self.ranked.partition_point(|at| self.entry(*at).rank() <= rank);
                let last = self.entry(*self.ranked[..until].last()?).rank();
                let (is_of_all_kinds, kind, names, found) = last;
                if (is_of_all_kinds, kind, names) != (false, Some(resource.kind), PREFIXED) {
                    return None;
                }
                let common = found.iter().zip(key).take_while(|(one, other)| one == other).count();
                if common == found.len() {
                    rest = common.checked_sub(1).map(|shorter| &key[..shorter]);
                    return Some(self.equal_range(|entry| entry.rank().cmp(&last)));
                }
                rest = Some(&key[..common]);
            }
            None
        })
    }

    /// The ranked entries that compare as equal; `compare` is monotonic over them.
    fn equal_range(&self, compare: impl Fn(&PolicyEntry) -> Ordering) -> &[u32] {
        let from = self.ranked.partition_point(|at| compare(self.entry(*at)).is_lt());
        let behind = &self.ranked[from..];
        &behind[..behind.partition_point(|at| compare(self.entry(*at)).is_eq())]
    }

    fn entry(&self, at: u32) -> &PolicyEntry {
        &self.entries[at as usize]
    }
}

/// The two policies of a user (`Acl`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    /// The entries that are examined first.
    pub(crate) custom: Policy,
    /// The entries that count when no entry of `custom` matches.
    pub(crate) default: Policy,
}

impl Policies {
    pub(crate) fn of(&self, kind: PolicyType) -> &Policy {
        match kind {
            PolicyType::Custom => &self.custom,
            PolicyType::Default => &self.default,
        }
    }

    /// Whether no policy has an entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.custom.entries.is_empty() && self.default.entries.is_empty()
    }

    /// The entry that decides about a request: its policy and its position there; `None` when no entry matches.
    pub(crate) fn decide(&self, needed: &Permission<'_>, caller: IpAddr) -> Option<(PolicyType, usize)> {
        let of = |kind: PolicyType| Some((kind, self.of(kind).decide(needed, caller)?));
        of(PolicyType::Custom).or_else(|| of(PolicyType::Default))
    }
}

#[cfg(test)]
mod tests;
