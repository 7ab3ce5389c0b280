//! Accounts of ACL 1.0 become users and acls of Auth 2.0 (`AuthMigrator`).

use std::sync::Arc;

use super::files::{PlainAccount, permitted};
use super::rules::PlainRules;
use crate::accounts::{Account, Accounts};
use crate::error::printable;
use crate::names::{Action, Actions, Decision, ResourceType, UserType};
use crate::policy::{Policy, PolicyEntry};
use crate::resource::{NamePattern, Pattern};

impl PlainRules {
    /// Adds the accounts that are not yet users. White lists are not migrated, as in RocketMQ. An account that cannot become a
    /// user is logged and left out.
    pub(crate) fn migrate(&self, accounts: &mut Accounts) {
        for account in self.accounts.values().map(|account| &account.written) {
            let name = account.access_key.as_str();
            if accounts.contains_key(name) {
                continue;
            }
            let kind = if account.admin == Some(true) { UserType::Super } else { UserType::Normal };
            match Account::new(name, &account.secret_key, kind) {
                Ok(mut user) => {
                    user.policies.custom = Policy::new(listed(account));
                    user.policies.default = Policy::new(defaults(account));
                    accounts.insert(user.name.clone(), Arc::new(user));
                }
                Err(error) => tracing::error!(account = printable(name), %error, "account is not migrated"),
            }
        }
    }
}

/// Returns the entries for the topics and groups that an account lists. A name with `*` is left out. It is the name
/// of no topic, and as a pattern it would allow more than the account was allowed.
fn listed(account: &PlainAccount) -> Vec<PolicyEntry> {
    let permissions = account.permissions().flatten();
    let permissions = permissions.filter(|(resource, _)| !resource.name.contains('*'));
    permissions.map(|(resource, actions)| entry(Pattern::literal(resource), actions)).collect()
}

/// The entries for all other topics and groups.
fn defaults(account: &PlainAccount) -> Vec<PolicyEntry> {
    let topic = (&account.default_topic_perm, ResourceType::Topic);
    let group = (&account.default_group_perm, ResourceType::Group);
    let entry = |(text, kind): (&Option<String>, ResourceType)| {
        let permission = text.as_deref().filter(|text| !text.trim().is_empty())?;
        Some(entry(Pattern { kind: Some(kind), names: NamePattern::Any }, permitted(permission)))
    };
    [topic, group].into_iter().filter_map(entry).collect()
}

/// `DENY` denies every action, and so does a text that ACL 1.0 took for `DENY`; RocketMQ makes an entry of the latter that
/// allows everything.
fn entry(pattern: Pattern, actions: Actions) -> PolicyEntry {
    let (actions, decision) = if actions.is_empty() {
        (Actions::of(&[Action::All]), Decision::Deny)
    } else {
        (actions, Decision::Allow)
    };
    PolicyEntry { pattern, actions, sources: Vec::new(), decision }
}
