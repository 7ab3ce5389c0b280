//! Explanation for people of the decision about a request: the examined rules, and the deciding rule.

use std::fmt;
use std::net::IpAddr;

use crate::auth::{Auth, Rule, Ruling, Subject};
use crate::config::{Request, Settings, Switch};
use crate::error::AuthError;
use crate::names::PolicyType;
use crate::policy::Policies;
use crate::resource::Permission;

/// Explanation of the decision about a request.
pub struct Explanation {
    /// Examined needs, each with the entries whose pattern matches its resource, in their order of decision, up to
    /// the deciding entry. Empty if the rule is about the user or the settings.
    pub looks: String,
    /// The decision that the server makes.
    pub ruling: Ruling,
}

impl Auth {
    /// Explains the decision about a request of a user with a valid signature. An unknown or disabled user cannot
    /// have one.
    pub fn explain(
        &self,
        user: &str,
        request: Request<'_>,
        caller: IpAddr,
        needed: &[Permission<'_>],
    ) -> Explanation {
        let account = self.enabled(user, AuthError::UnknownUser);
        let Settings { authentication, unsigned, .. } = self.settings();
        let is_signed = *authentication == Switch::On && !unsigned.contains(request);
        let ruling = match &account {
            Err(refusal) if is_signed => Ruling::deny(refusal.clone()),
            _ => self.decide(&Subject::User(user.into()), request, caller, needed),
        };
        let mut looks = String::new();
        if let (Rule::Entry(_) | Rule::NoEntry, Ok(account)) = (&ruling.rule, account) {
            for needed in &needed[..=ruling.at] {
                looks += &format!("needs {} on {}\n", needed.actions, needed.resource);
                if !look_at(&account.policies, needed, caller, &mut looks) {
                    looks += "  no entry matches\n";
                }
            }
        }
        Explanation { looks, ruling }
    }
}

/// Examines the entries of a user for a need. Returns true if an entry decides.
fn look_at(policies: &Policies, needed: &Permission<'_>, caller: IpAddr, looks: &mut String) -> bool {
    for policy in [PolicyType::Custom, PolicyType::Default] {
        for at in policies.of(policy).matching(&needed.resource) {
            let entry = &policies.of(policy).entries()[at];
            let decides = entry.covers(needed.actions, caller);
            let outcome = match entry.actions.cover(needed.actions) {
                true if decides => "decides",
                true => "other addresses",
                false => "other actions",
            };
            *looks += &format!("  {policy} {entry}: {outcome}\n");
            if decides {
                return true;
            }
        }
    }
    false
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.ruling.is_allowed() { "Allow" } else { "Deny" };
        write!(f, "{}{word}, because of: {}", self.looks, self.ruling.rule)?;
        match &self.ruling.refusal {
            None => Ok(()),
            Some(error) => write!(f, ". The answer is code {}: {error}", error.code()),
        }
    }
}

#[cfg(test)]
mod tests;
