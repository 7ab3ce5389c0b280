//! Why a request would be served or refused, for people: the rules that are looked at for it, and the one that decides.

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;

use crate::auth::{Auth, Identity, Rule, Ruling};
use crate::config::Request;
use crate::names::PolicyType;
use crate::policy::Entry;
use crate::resource::{Names, Needed, Resource};

/// Whether an entry matches a request for a resource that its pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The entry matches and is the first one that does.
    Decides,
    /// The entry is about other actions.
    OtherActions,
    /// The entry is about other addresses.
    OtherAddress,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Decides => "decides",
            Self::OtherActions => "other actions",
            Self::OtherAddress => "other addresses",
        })
    }
}

/// An entry that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The policy that the entry belongs to.
    pub policy: PolicyType,
    /// The entry as text.
    pub entry: String,
    /// Whether the entry matches.
    pub outcome: Outcome,
}

/// What was looked at for one need of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks {
    /// The need as text.
    pub needed: String,
    /// The entries whose pattern matches the resource, in the order in which they decide, up to the one that does.
    pub looks: Vec<Look>,
}

/// Why a request would be served or refused.
#[derive(Debug)]
pub struct Explanation {
    /// One for each need that is looked at; none when the rule is about the user or the settings.
    pub needs: Vec<Looks>,
    /// The decision that the server makes.
    pub ruling: Ruling,
}

impl Auth {
    /// Explains the decision about a request of a user whose signature holds.
    #[must_use]
    pub fn explain(
        &self,
        user: &str,
        request: Request<'_>,
        caller: IpAddr,
        needed: &[Needed<'_>],
    ) -> Explanation {
        let ruling = self.decide(&Identity::User(user.into()), request, caller, needed);
        let accounts = self.accounts();
        let needs = match (&ruling.rule, accounts.get(user)) {
            (Rule::Entry(_) | Rule::NoEntry, Some(account)) => {
                let decided = &needed[..=ruling.at];
                let looks = |needed: &Needed<'_>| {
                    let mut looks = Vec::new();
                    for policy in [PolicyType::Custom, PolicyType::Default] {
                        if look_at(policy, account.policies.of(policy).entries(), needed, caller, &mut looks)
                        {
                            break;
                        }
                    }
                    Looks { needed: format!("{} on {}", needed.actions, needed.resource), looks }
                };
                decided.iter().map(looks).collect()
            }
            _ => Vec::new(),
        };
        Explanation { needs, ruling }
    }
}

/// Looks at the entries of one policy; true when one of them decides.
fn look_at(
    policy: PolicyType,
    entries: &[Entry],
    needed: &Needed<'_>,
    caller: IpAddr,
    looks: &mut Vec<Look>,
) -> bool {
    for entry in in_order(entries, needed.resource) {
        let outcome = if entry.covers(needed.actions, caller) {
            Outcome::Decides
        } else if entry.actions.cover(needed.actions) {
            Outcome::OtherAddress
        } else {
            Outcome::OtherActions
        };
        looks.push(Look { policy, entry: entry.to_string(), outcome });
        if outcome == Outcome::Decides {
            return true;
        }
    }
    false
}

/// The entries whose pattern matches a resource, in the order in which they decide: for one kind before those for all kinds,
/// literal names, the longer prefix, all names, and `Deny` before `Allow`.
fn in_order<'a>(entries: &'a [Entry], resource: Resource<'_>) -> Vec<&'a Entry> {
    let mut matching: Vec<_> = entries.iter().filter(|entry| entry.pattern.matches(resource)).collect();
    matching.sort_by_key(|entry| {
        let names = match &entry.pattern.names {
            Names::Literal(_) => (0, Reverse(0)),
            Names::Prefixed(prefix) => (1, Reverse(prefix.len())),
            Names::Any => (2, Reverse(0)),
        };
        (entry.pattern.kind.is_none(), names, Reverse(entry.decision))
    });
    matching
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Looks { needed, looks } in &self.needs {
            writeln!(f, "needs {needed}")?;
            for Look { policy, entry, outcome } in looks {
                writeln!(f, "  {policy} {entry}: {outcome}")?;
            }
            if looks.last().is_none_or(|look| look.outcome != Outcome::Decides) {
                writeln!(f, "  no entry matches")?;
            }
        }
        match &self.ruling.refusal {
            None => write!(f, "Allow, because of: {}", self.ruling.rule),
            Some(error) => write!(
                f,
                "Deny, because of: {}. The answer is code {}: {error}",
                self.ruling.rule,
                error.code()
            ),
        }
    }
}

#[cfg(test)]
mod tests;
