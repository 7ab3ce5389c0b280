//! Users with their policies: the table that requests are checked against, and its two files. An acl belongs
//! to a user and is removed with the user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use wire::body::{AclInfo, PolicyInfo, UserInfo};
use wire::json;

use crate::error::{AuthError, Result, printable};
use crate::file::{self, FileError, FileId};
use crate::names::{PolicyType, UserStatus, UserType};
use crate::policy::{Policies, Policy, PolicyEntry, PolicyEntryTexts};
use crate::signature::SigningKey;

/// Bytes that the name of a user may have at most.
pub const USER_NAME_BYTES_MAX: usize = 255;
/// Bytes that the password of a user may have at most.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// A user with its policies.
#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    password: Box<str>,
    pub(crate) kind: UserType,
    pub(crate) status: UserStatus,
    pub(crate) key: SigningKey,
    pub(crate) policies: Policies,
}

impl Account {
    /// Makes an enabled user without policies.
    ///
    /// # Errors
    /// [`AuthError::Invalid`] for a blank name or password, [`AuthError::TooLong`] for a name or password that is too
    /// long.
    pub(crate) fn new(name: &str, password: &str, kind: UserType) -> Result<Self> {
        if name.trim().is_empty() {
            return Err(AuthError::Invalid("username can not be blank"));
        }
        bounded("username", name, USER_NAME_BYTES_MAX)?;
        let (key, status) = (key_of(password)?, UserStatus::Enable);
        let (name, password) = (name.into(), password.into());
        Ok(Self { name, password, kind, status, key, policies: Policies::default() })
    }

    /// Sets the user's password, type and status, if present and valid.
    ///
    /// # Errors
    /// [`AuthError::TooLong`] for a password that is too long.
    pub(crate) fn update(&mut self, info: &UserInfo) -> Result<()> {
        if let Some(password) = info.password.as_deref().filter(|text| !text.trim().is_empty()) {
            (self.key, self.password) = (key_of(password)?, password.into());
        }
        self.kind = info.user_type.as_deref().and_then(UserType::from_name).unwrap_or(self.kind);
        self.status = info.user_status.as_deref().and_then(UserStatus::from_name).unwrap_or(self.status);
        Ok(())
    }

    /// The user as requests and the file show it.
    pub(crate) fn info(&self) -> UserInfo {
        UserInfo {
            username: Some(self.name.to_string()),
            password: Some(self.password.to_string()),
            user_type: Some(self.kind.name().to_owned()),
            user_status: Some(self.status.name().to_owned()),
        }
    }

    /// The text of the user as a subject of policies.
    pub(crate) fn subject(&self) -> String {
        format!("User:{}", self.name)
    }

    /// Returns the policies in the form of requests and the file, with the entries that `shows` accepts. `None`
    /// without any entry.
    pub(crate) fn acl(&self, shows: impl Fn(&PolicyEntry) -> bool) -> Option<AclInfo> {
        let policy = |kind: PolicyType| {
            let entries: Vec<_> =
                self.policies.of(kind).entries().iter().filter(|it| shows(it)).map(Into::into).collect();
            let kind = Some(kind.name().to_owned());
            (!entries.is_empty()).then_some(PolicyInfo { entries: Some(entries), policy_type: kind })
        };
        let policies: Vec<_> = PolicyType::ALL.iter().copied().filter_map(policy).collect();
        (!policies.is_empty()).then(|| AclInfo { policies: Some(policies), subject: Some(self.subject()) })
    }
}

fn key_of(password: &str) -> Result<SigningKey> {
    if password.trim().is_empty() {
        return Err(AuthError::Invalid("password can not be blank"));
    }
    bounded("password", password, PASSWORD_BYTES_MAX)?;
    Ok(SigningKey::new(password))
}

fn bounded(what: &'static str, text: &str, max: usize) -> Result<()> {
    let bytes = text.len();
    if bytes > max { Err(AuthError::TooLong { what, bytes, max }) } else { Ok(()) }
}

/// The name of the user in the text of a subject; `None` when the subject is not a user (`Subject.of`).
pub(crate) fn user_of(subject: &str) -> Option<&str> {
    let (kind, name) = subject.split_once(':')?;
    (kind.eq_ignore_ascii_case("User") && !name.trim().is_empty()).then_some(name)
}

/// Reads the policies of an acl. Policies without entries are dropped.
///
/// # Errors
/// [`AuthError::Invalid`] with RocketMQ's text for the first error.
pub(crate) fn policies_of(acl: &AclInfo) -> Result<Policies> {
    let mut policies = Vec::new();
    for PolicyInfo { policy_type, entries } in acl.policies.iter().flatten() {
        let entries =
            entries.iter().flatten().map(|entry| PolicyEntry::try_from(PolicyEntryTexts::from(entry)));
        let entries = entries.collect::<Result<_, _>>()?;
        policies.push(StoredPolicy { policy_type: policy_type.clone(), entries });
    }
    Some(by_type(policies)).filter(|it| !it.is_empty()).ok_or(AuthError::Invalid("The policies is empty."))
}

/// Acl of the file. Each entry is read and checked on its own, so that a start needs the memory of the entries only.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredAcl {
    subject: String,
    policies: Vec<StoredPolicy>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredPolicy {
    policy_type: Option<String>,
    entries: Vec<PolicyEntry>,
}

/// The policies of an acl, each with all entries of its type in the order in which they are given.
fn by_type(policies: Vec<StoredPolicy>) -> Policies {
    let (mut custom, mut default) = (Vec::new(), Vec::new());
    for StoredPolicy { policy_type, mut entries } in policies {
        let kind = policy_type.as_deref().and_then(PolicyType::from_name);
        let list = if kind == Some(PolicyType::Default) { &mut default } else { &mut custom };
        if list.is_empty() { *list = entries } else { list.append(&mut entries) }
    }
    Policies { custom: Policy::new(custom), default: Policy::new(default) }
}

/// All users by name. A change makes a new table, so that a decision about a request sees a single state.
pub(crate) type Accounts = BTreeMap<Arc<str>, Arc<Account>>;

/// Returns a user to change. Copies the user if requests use the former table.
pub(crate) fn changed<'a>(accounts: &'a mut Accounts, user: &str) -> Option<&'a mut Account> {
    accounts.get_mut(user).map(Arc::make_mut)
}

/// Errors of the files of users and acls.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A Java broker kept its users in RocksDB, which is not read here, and there is no file yet.
    #[error(
        "{directory} holds the users of a Java broker, and there is no {file}: start the Java broker once more, read them with \
         `vostok auth import --from HOST:PORT --out {}`, stop it and start again; `vostok auth export --to HOST:PORT` gives them back",
        .file.with_file_name("").display()
    )]
    Rocks {
        /// The directory of the RocksDB database.
        directory: PathBuf,
        /// The file that is missing.
        file: PathBuf,
    },
    /// A file is damaged. It stays unchanged.
    #[error(
        "{path} is damaged: {reason}; it is kept as it is, and nothing starts without its users: repair it{}",
        .copy.as_ref().map(|copy| format!(", or replace it by {}, which holds the state before the last change", copy.display())).unwrap_or_default()
    )]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// Error of its content.
        reason: String,
        /// Copy of the file from before the last change. `None` without an earlier change.
        copy: Option<PathBuf>,
    },
}

/// Most bytes of a file of users or acls: more than a million users.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The files of users and acls.
pub(crate) struct Files {
    users: PathBuf,
    acls: PathBuf,
    /// Both files at the time of the last [`Files::look`].
    seen: [Option<FileId>; 2],
}

impl Files {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { users: directory.join("users.json"), acls: directory.join("acls.json"), seen: [None; 2] }
    }

    /// Whether a file was replaced since the last call.
    pub(crate) fn look(&mut self) -> bool {
        let found = [&self.users, &self.acls].map(|path| file::id_of(path));
        std::mem::replace(&mut self.seen, found) != found
    }

    /// Reads both files. Without the files there are no users.
    ///
    /// # Errors
    /// [`LoadError::File`] when a file cannot be read, [`LoadError::Damaged`] when its content is not valid.
    /// [`LoadError::Rocks`] when a Java broker's database exists without a file, because without users every client
    /// would be refused.
    pub(crate) fn load(&self) -> Result<Accounts, LoadError> {
        let directory = self.users.with_extension("");
        if directory.join("CURRENT").is_file() && !self.users.exists() {
            return Err(LoadError::Rocks { directory, file: self.users.clone() });
        }
        let mut users = users_of(&list(&self.users)?).map_err(|reason| damaged(&self.users, reason))?;
        let added = add_acls(&mut users, list(&self.acls)?);
        added.map_err(|reason| damaged(&self.acls, reason)).map(|()| users)
    }

    /// Makes users and acls durable. The acls come first. A crash between the two leaves a user without its acl, or
    /// an acl that the next user of its name removes. It never gives permissions to another user.
    ///
    /// # Errors
    /// [`FileError`] when a file cannot be replaced. Its former content stays.
    pub(crate) fn save(&self, accounts: &Accounts) -> Result<(), FileError> {
        self.save_acls(accounts)?;
        self.save_users(accounts)
    }

    /// Makes the users durable.
    ///
    /// # Errors
    /// [`FileError`] when the file cannot be replaced. Its former content stays.
    pub(crate) fn save_users(&self, accounts: &Accounts) -> Result<(), FileError> {
        file::write(&self.users, &json::to_vec(&accounts.values().map(|it| it.info()).collect::<Vec<_>>()))
    }

    /// Makes the acls durable.
    ///
    /// # Errors
    /// [`FileError`] when the file cannot be replaced. Its former content stays.
    pub(crate) fn save_acls(&self, accounts: &Accounts) -> Result<(), FileError> {
        let acls: Vec<_> = accounts.values().filter_map(|account| account.acl(|_| true)).collect();
        file::write(&self.acls, &json::to_vec(&acls))
    }
}

/// Reads users and acls in the form of a broker's lists. An empty list has no text. Missing fields of users get
/// RocketMQ's defaults. Acls without a user are ignored.
///
/// # Errors
/// A text about the first user or acl that is not valid.
pub(crate) fn parse_accounts(users: &[u8], acls: &[u8]) -> Result<Accounts, String> {
    let (mut users, mut acls): (Vec<UserInfo>, Vec<StoredAcl>) = (parse(users)?, parse(acls)?);
    for info in &mut users {
        if info.password.is_none() {
            let reason =
                "passwords are told to super users only, and innerClientAuthenticationCredentials name none";
            return Err(reason.to_owned());
        }
        info.user_type.get_or_insert_with(|| UserType::Normal.name().to_owned());
        info.user_status.get_or_insert_with(|| UserStatus::Enable.name().to_owned());
    }
    acls.retain(|acl| user_of(&acl.subject).is_some());
    let mut users = users_of(&users)?;
    add_acls(&mut users, acls).map(|()| users)
}

fn users_of(infos: &[UserInfo]) -> Result<Accounts, String> {
    let by_name = |account: Account| (account.name.clone(), Arc::new(account));
    infos.iter().map(|info| account_of(info).map(by_name)).collect()
}

/// Assigns acls to users. An acl of a user that does not exist is dropped.
fn add_acls(users: &mut Accounts, acls: Vec<StoredAcl>) -> Result<(), String> {
    for StoredAcl { subject, policies } in acls {
        let bad = |reason: &str| format!("acl of {:?}: {reason}", printable(&subject));
        let name = user_of(&subject).ok_or_else(|| bad("the subject is not a user"))?;
        let policies = by_type(policies);
        if policies.is_empty() {
            return Err(bad("it has no entry"));
        }
        match changed(users, name) {
            Some(account) => merge(&mut account.policies, policies),
            None => tracing::warn!(user = printable(name), "acl of a user that does not exist is dropped"),
        }
    }
    Ok(())
}

fn parse<T: for<'a> Deserialize<'a>>(text: &[u8]) -> Result<Vec<T>, String> {
    if text.is_empty() { Ok(Vec::new()) } else { json::from_slice(text).map_err(|error| error.to_string()) }
}

fn list<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>, LoadError> {
    let Some(text) = file::read(path, FILE_BYTES_MAX)? else { return Ok(Vec::new()) };
    json::from_slice(&text).map_err(|error| damaged(path, error.to_string()))
}

fn damaged(path: &Path, reason: String) -> LoadError {
    let copy = Some(file::copy_of(path)).filter(|copy| copy.exists());
    LoadError::Damaged { path: path.to_owned(), reason, copy }
}

fn account_of(info: &UserInfo) -> Result<Account, String> {
    let name = info.username.as_deref().unwrap_or_default();
    let bad = |what: &str| format!("user {:?}: {what}", printable(name));
    let kind = info.user_type.as_deref().and_then(UserType::from_name);
    let status = info.user_status.as_deref().and_then(UserStatus::from_name);
    let kind = kind.ok_or_else(|| bad("userType is neither Super nor Normal"))?;
    let mut account = Account::new(name, info.password.as_deref().unwrap_or_default(), kind)
        .map_err(|error| bad(&error.to_string()))?;
    account.status = status.ok_or_else(|| bad("userStatus is neither enable nor disable"))?;
    Ok(account)
}

/// Adds policies to those of a user. The first acl of a user is stored unchanged. Later acls replace entries with
/// equal patterns (`Acl.updatePolicy`).
pub(crate) fn merge(policies: &mut Policies, added: Policies) {
    if policies.is_empty() {
        *policies = added;
    } else {
        policies.custom = policies.custom.merged(added.custom.entries().to_vec());
        policies.default = policies.default.merged(added.default.entries().to_vec());
    }
}
