//! Changes and lists of users and acls: requests 3001 to 3010 with the bodies of `wire`. A change is durable before
//! it takes effect, which is from the next request on. If it cannot be made durable, nothing changes. Changes wait
//! for the disk and for each other. Requests that are verified or decided meanwhile do not wait.

use std::sync::Arc;

use wire::body::{AclInfo, UserInfo};

use crate::accounts::{Account, Accounts, Files, changed, merge, policies_of, user_of};
use crate::auth::{Auth, Subject};
use crate::error::{AuthError, Result, printable};
use crate::file::FileError;
use crate::names::{PolicyType, UserType};
use crate::policy::{Policies, PolicyEntry};
use crate::resource::Pattern;

/// Function that writes one of the two files.
type Save = fn(&Files, &Accounts) -> Result<(), FileError>;

impl Auth {
    /// Creates a user (request 3001). Without a type the user is normal, without a status enabled.
    ///
    /// # Errors
    /// [`AuthError::BlankUser`], [`AuthError::SuperNeeded`] when a caller who is not super makes a super user,
    /// [`AuthError::Invalid`] for a blank password or a user that exists, [`AuthError::TooLong`], [`AuthError::NotStored`].
    pub fn create_user(&self, caller: &Subject, user: &str, info: &UserInfo) -> Result<()> {
        let user = named(user)?;
        if makes_super(info) && !self.is_super(caller) {
            return Err(AuthError::SuperNeeded("create"));
        }
        let password = info.password.as_deref().unwrap_or_default();
        let mut account = Account::new(user, password, UserType::Normal)?;
        account.update(info)?;
        self.change(self.settings().keeps_users, Files::save, |accounts| {
            if accounts.contains_key(user) {
                return Err(AuthError::Invalid("The user is existed"));
            }
            accounts.insert(account.name.clone(), Arc::new(account));
            Ok(())
        })
    }

    /// Changes the given members of a user (request 3002).
    ///
    /// # Errors
    /// [`AuthError::BlankUser`], [`AuthError::SuperNeeded`] and [`AuthError::Invalid`] when a caller who is not super makes or
    /// changes a super user, [`AuthError::Invalid`] for a user that does not exist, [`AuthError::TooLong`],
    /// [`AuthError::NotStored`].
    pub fn update_user(&self, caller: &Subject, user: &str, info: &UserInfo) -> Result<()> {
        let user = named(user)?;
        let is_super = self.is_super(caller);
        if makes_super(info) && !is_super {
            return Err(AuthError::SuperNeeded("update"));
        }
        self.change(self.settings().keeps_users, Files::save_users, |accounts| {
            let account = changed(accounts, user).ok_or(AuthError::Invalid("The user is not exist"))?;
            may_change(account, is_super)?;
            account.update(info)
        })
    }

    /// Removes a user and its acl (request 3003). Removing a user that does not exist succeeds.
    ///
    /// # Errors
    /// [`AuthError::Invalid`] for a blank name, or when a caller who is not super removes a super user;
    /// [`AuthError::NotStored`].
    pub fn delete_user(&self, caller: &Subject, user: &str) -> Result<()> {
        named(user).map_err(|_| AuthError::Invalid("username can not be blank"))?;
        let is_super = self.is_super(caller);
        self.change(self.settings().keeps_users, Files::save, |accounts| {
            accounts.remove(user).map_or(Ok(()), |account| may_change(&account, is_super))
        })
    }

    /// Returns a user (request 3004), or `None` if it does not exist. Only super users see passwords, which RocketMQ
    /// shows to all permitted users.
    ///
    /// # Errors
    /// [`AuthError::BlankUser`].
    pub fn user(&self, caller: &Subject, user: &str) -> Result<Option<UserInfo>> {
        let user = named(user)?;
        let is_super = self.is_super(caller);
        Ok(self.accounts().get(user).map(|account| info_for(account, is_super)))
    }

    /// Returns the users whose name contains `filter`, by name (request 3005). Only super users see passwords.
    pub fn users(&self, caller: &Subject, filter: &str) -> Vec<UserInfo> {
        let is_super = self.is_super(caller);
        let accounts = self.accounts();
        let found = accounts.values().filter(|account| account.name.contains(filter));
        found.map(|account| info_for(account, is_super)).collect()
    }

    /// Creates the acl of a subject or changes it (requests 3006 and 3007, which are equal). Entries replace entries
    /// with the same resource, and others are added. A subject in the body takes precedence.
    ///
    /// # Errors
    /// [`AuthError::NoBody`] without policies, [`AuthError::Invalid`] with RocketMQ's text for the first error,
    /// [`AuthError::SubjectNotExist`], [`AuthError::NotStored`].
    pub fn change_acl(&self, subject: &str, acl: &AclInfo) -> Result<()> {
        if acl.policies.as_ref().is_none_or(Vec::is_empty) {
            return Err(AuthError::NoBody);
        }
        let subject = acl.subject.as_deref().filter(|it| user_of(it).is_some()).unwrap_or(subject);
        let user = user_of(subject).ok_or(NO_SUBJECT)?;
        let policies = policies_of(acl)?;
        self.change(self.settings().keeps_acls, Files::save_acls, |accounts| {
            let account =
                changed(accounts, user).ok_or_else(|| AuthError::SubjectNotExist(printable(subject)))?;
            merge(&mut account.policies, policies);
            Ok(())
        })
    }

    /// Removes the entry for a resource from a policy of a subject, or without a resource the whole acl (request
    /// 3008). The default type is the custom policy.
    ///
    /// # Errors
    /// [`AuthError::Invalid`] for a subject or an acl that does not exist or a resource that cannot be read,
    /// [`AuthError::NotStored`].
    pub fn delete_acl(&self, subject: &str, policy: &str, resource: &str) -> Result<()> {
        let user = user_of(subject).ok_or(NO_SUBJECT)?;
        let pattern = match resource {
            "" => None,
            text => Some(Pattern::parse(text).ok_or(AuthError::Invalid("The resource is null."))?),
        };
        self.change(self.settings().keeps_acls, Files::save_acls, |accounts| {
            let policies = &mut changed(accounts, user).ok_or(NO_SUCH_SUBJECT)?.policies;
            if policies.is_empty() {
                return Err(AuthError::Invalid("The acl is not exist."));
            }
            match (pattern, PolicyType::from_name(policy)) {
                (None, _) => *policies = Policies::default(),
                (Some(pattern), Some(PolicyType::Default)) => policies.default.remove(&pattern),
                (Some(pattern), _) => policies.custom.remove(&pattern),
            }
            Ok(())
        })
    }

    /// The acl of a subject (request 3009); `None` when the user has none.
    ///
    /// # Errors
    /// [`AuthError::Invalid`] for a subject that does not exist.
    pub fn acl(&self, subject: &str) -> Result<Option<AclInfo>> {
        let user = user_of(subject).ok_or(NO_SUBJECT)?;
        let accounts = self.accounts();
        Ok(accounts.get(user).ok_or(NO_SUCH_SUBJECT)?.acl(|_| true))
    }

    /// Returns the acls of subjects that contain `subject`, with the entries whose resource contains `resource`, by
    /// name (request 3010). Acls without such an entry are left out.
    pub fn acls(&self, subject: &str, resource: &str) -> Vec<AclInfo> {
        let accounts = self.accounts();
        let found = accounts.values().filter(|account| account.subject().contains(subject));
        let shows = |it: &PolicyEntry| resource.is_empty() || it.pattern.to_string().contains(resource);
        found.filter_map(|account| account.acl(shows)).collect()
    }

    /// Performs a change at a time: on a copy of the table, then in the file, then for all requests. Does nothing if
    /// the server stores no users or acls.
    fn change(
        &self,
        is_kept: bool,
        save: Save,
        change: impl FnOnce(&mut Accounts) -> Result<()>,
    ) -> Result<()> {
        if !is_kept {
            return Err(AuthError::NotStored);
        }
        let files = self.files();
        let mut accounts = Accounts::clone(&self.accounts());
        change(&mut accounts)?;
        save(&files, &accounts).map_err(|error| {
            tracing::error!(%error, "change of users or acls is not stored");
            AuthError::NotStored
        })?;
        self.replace(accounts);
        Ok(())
    }
}

const NO_SUBJECT: AuthError = AuthError::Invalid("The subject is null.");
const NO_SUCH_SUBJECT: AuthError = AuthError::Invalid("The subject is not exist.");

fn named(user: &str) -> Result<&str> {
    if user.trim().is_empty() { Err(AuthError::BlankUser) } else { Ok(user) }
}

/// Whether a request makes its user a super user.
fn makes_super(info: &UserInfo) -> bool {
    info.user_type.as_deref().and_then(UserType::from_name) == Some(UserType::Super)
}

/// Super users are changed by super users only.
fn may_change(account: &Account, is_super: bool) -> Result<()> {
    if account.kind == UserType::Super && !is_super {
        return Err(AuthError::Invalid("The super user can only be update by super user"));
    }
    Ok(())
}

fn info_for(account: &Account, is_super: bool) -> UserInfo {
    let info = account.info();
    UserInfo { password: info.password.filter(|_| is_super), ..info }
}

#[cfg(test)]
mod tests;
