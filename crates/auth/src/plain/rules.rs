//! Rules of ACL 1.0: checked accounts and white lists, and the permissions by them (`PlainPermissionManager.load`,
//! `PlainPermissionManager.validate`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::names::TRACE_TOPIC;

use super::PlainAcl;
use super::address::WhiteList;
use super::files::{PlainAccount, PlainError, PlainVersion, items_of, permitted, texts_of};
use super::yaml::Node;
use crate::error::{AuthError, Result, printable};
use crate::names::{Action, Actions, ResourceType};
use crate::resource::{Permission, Resource};
use crate::signature::{ACCESS_KEY, Signable, SigningKey, UnsignedQuery};

/// Characters that access keys and secret keys must exceed (`AclConstants.ACCESS_KEY_MIN_LENGTH`).
const KEY_CHARACTERS: usize = 6;

/// An account that was checked.
pub(crate) struct PlainUser {
    pub(crate) written: PlainAccount,
    /// The file that the account is in.
    pub(crate) path: Arc<Path>,
    key: SigningKey,
    white: WhiteList,
    default_topic: Actions,
    default_group: Actions,
    topics: HashMap<Box<str>, Actions>,
    groups: HashMap<Box<str>, Actions>,
}

impl PlainUser {
    fn new(written: PlainAccount, path: Arc<Path>) -> Result<Self, String> {
        let is_short = |key: &str| key.chars().count() <= KEY_CHARACTERS;
        if is_short(&written.access_key) || is_short(&written.secret_key) {
            let name = printable(&written.access_key);
            // RocketMQ's text has the secret.
            return Err(format!(
                "The accessKey={name} and secretKey=*** cannot be null and length should longer than 6"
            ));
        }
        let (mut topics, mut groups) = (HashMap::new(), HashMap::new());
        for permission in written.permissions() {
            let (Resource { kind, name }, actions) = permission?;
            let list = if kind == ResourceType::Group { &mut groups } else { &mut topics };
            list.insert(name.into(), actions);
        }
        let permission = |text: &Option<String>| permitted(text.as_deref().unwrap_or_default());
        Ok(Self {
            key: SigningKey::new(&written.secret_key),
            white: WhiteList::parse(written.white_remote_address.as_deref().unwrap_or_default())?,
            default_topic: permission(&written.default_topic_perm),
            default_group: permission(&written.default_group_perm),
            topics,
            groups,
            path,
            written,
        })
    }

    fn is_admin(&self) -> bool {
        self.written.admin == Some(true)
    }
}

/// All rules that were read.
#[derive(Default)]
pub(crate) struct PlainRules {
    white: Vec<WhiteList>,
    pub(crate) accounts: HashMap<Box<str>, Arc<PlainUser>>,
    pub(crate) versions: Vec<(PathBuf, PlainVersion)>,
}

/// Verified sender of a request in ACL 1.0.
#[derive(Clone)]
pub struct PlainSubject(pub(crate) Option<Arc<PlainUser>>);

impl PlainSubject {
    /// The account; `None` for a caller on a white list.
    pub fn access_key(&self) -> Option<&str> {
        self.0.as_deref().map(|account| account.written.access_key.as_str())
    }
}

impl PlainRules {
    /// Reads the rules of files with this content.
    ///
    /// # Errors
    /// [`PlainError::Content`] for the first file that is not valid.
    pub(crate) fn parse(files: &[(PathBuf, Vec<u8>)]) -> Result<Self, PlainError> {
        let mut rules = Self::default();
        for (path, text) in files {
            rules.add(path, text).map_err(|reason| PlainError::Content { path: path.clone(), reason })?;
        }
        Ok(rules)
    }

    fn add(&mut self, path: &Path, text: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let Some(root) = Node::parse_file(text)? else { return Ok(()) };
        for text in texts_of(&root, "globalWhiteRemoteAddresses")?.unwrap_or_default() {
            self.white.push(WhiteList::parse(&text)?);
        }
        let shared: Arc<Path> = path.into();
        for node in items_of(&root, "accounts")?.unwrap_or_default() {
            let account = PlainUser::new(PlainAccount::read(node)?, shared.clone())?;
            let name = account.written.access_key.as_str();
            if self.accounts.contains_key(name) {
                tracing::warn!(account = printable(name), path = %path.display(), "account is repeated, its first definition counts");
                continue;
            }
            self.accounts.insert(name.into(), Arc::new(account));
        }
        self.versions.push((path.to_owned(), PlainVersion::read(&root)));
        Ok(())
    }
}

impl PlainAcl {
    /// Authenticates a request. White lists come before signatures.
    ///
    /// # Errors
    /// [`AuthError::Plain`] with RocketMQ's text: no access key, an unknown access key, or an invalid signature,
    /// unless the caller is on a white list.
    pub fn verify(&self, signed: &Signable<'_>, caller: IpAddr) -> Result<PlainSubject> {
        let rules = self.rules();
        if rules.white.iter().any(|addresses| addresses.contain(caller)) {
            return Ok(PlainSubject(None));
        }
        let name = signed.fields.text(ACCESS_KEY);
        let name = name.ok_or_else(|| AuthError::Plain("No accessKey is configured".to_owned()))?;
        let account = rules.accounts.get(name);
        let account =
            account.ok_or_else(|| AuthError::Plain(format!("No acl config for {}", printable(name))))?;
        if account.white.contain(caller) {
            return Ok(PlainSubject(None));
        }
        let key = &account.key;
        if !signed.signature().is_some_and(|it| key.verify(signed.parts(UnsignedQuery::Always), &it)) {
            return Err(AuthError::Plain(format!(
                "Check signature failed for accessKey={}",
                printable(name)
            )));
        }
        Ok(PlainSubject(Some(account.clone())))
    }

    /// Checks that a caller may send a request for administrators.
    ///
    /// # Errors
    /// [`AuthError::Plain`] with RocketMQ's text.
    pub fn check_administrator(&self, identity: &PlainSubject, code: i32) -> Result<()> {
        let Some(account) = &identity.0 else { return Ok(()) };
        if account.is_admin() {
            return Ok(());
        }
        let name = printable(&account.written.access_key);
        let text = format!("Need admin permission for request code={code}, but accessKey={name} is not");
        Err(AuthError::Plain(text))
    }

    /// Decides whether a caller may send a request with these needs.
    ///
    /// # Errors
    /// [`AuthError::Plain`] with RocketMQ's text: a permission is missing.
    pub fn decide(&self, identity: &PlainSubject, needs: &[Permission<'_>]) -> Result<()> {
        let Some(account) = &identity.0 else { return Ok(()) };
        let traces = Permission::new(Resource::topic(TRACE_TOPIC), Actions::of(&[Action::Pub]));
        if needs.contains(&traces) {
            return Ok(());
        }
        if account.is_admin() && account.topics.is_empty() && account.groups.is_empty() {
            return Ok(());
        }
        for Permission { resource, actions } in needs {
            let (list, default, word) = match resource.kind {
                ResourceType::Group => (&account.groups, account.default_group, "group"),
                _ => (&account.topics, account.default_topic, "topic"),
            };
            let permission = list.get(&*resource.name).copied().unwrap_or(default);
            if !permission.cover(*actions) {
                let text = format!("No default permission for {word}:{}", printable(&resource.name));
                return Err(AuthError::Plain(text));
            }
        }
        Ok(())
    }
}
