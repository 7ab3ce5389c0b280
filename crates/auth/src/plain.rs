//! ACL 1.0 (`aclEnable=true`): accounts, white lists and permissions of `plain_acl.yml` and `acl/*.yml`, enforced
//! like RocketMQ 4.9.8. An invalid file leaves the rules unchanged and is reported. At a start it stops the start.

mod address;
mod files;
mod migrate;
mod rules;
mod yaml;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use files::Contents;
pub use files::{PlainAccount, PlainError, PlainFiles, PlainVersion};
use parking_lot::{Mutex, RwLock};
pub(crate) use rules::PlainRules;
pub use rules::PlainSubject;
use yaml::{Node, found_or_added};

use crate::file;

/// Interval of checks of the files (`AclFileWatchService`).
pub const RELOAD_INTERVAL_MS: u64 = 5000;

/// The rules of ACL 1.0 with their files. All methods may be called from any thread.
pub struct PlainAcl {
    files: PlainFiles,
    rules: RwLock<Arc<PlainRules>>,
    /// Content of the files at the last check.
    seen: Mutex<Contents>,
}

impl std::fmt::Debug for PlainAcl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainAcl").field("files", &self.files).finish_non_exhaustive()
    }
}

impl PlainAcl {
    /// Reads the rules.
    ///
    /// # Errors
    /// [`PlainError::File`] when a file cannot be read, [`PlainError::Content`] when a file is not valid.
    pub fn open(files: PlainFiles) -> Result<Self, PlainError> {
        let seen = files.read()?;
        log_skipped(&seen);
        let rules = Arc::new(PlainRules::parse(&seen.files)?);
        Ok(Self { files, rules: RwLock::new(rules), seen: Mutex::new(seen) })
    }

    /// Reads the files again. Returns whether the rules changed. The shell calls it every [`RELOAD_INTERVAL_MS`].
    ///
    /// # Errors
    /// Errors of [`PlainAcl::open`]. The rules stay unchanged. An invalid file is reported once for each of its changes.
    pub fn reload(&self) -> Result<bool, PlainError> {
        self.read_again(&mut self.seen.lock())
    }

    fn read_again(&self, seen: &mut Contents) -> Result<bool, PlainError> {
        let found = self.files.read()?;
        if found.skipped != seen.skipped {
            log_skipped(&found);
        }
        let is_same = found.files == seen.files;
        *seen = found;
        if is_same {
            return Ok(false);
        }
        let rules = PlainRules::parse(&seen.files)?;
        *self.rules.write() = Arc::new(rules);
        Ok(true)
    }

    /// The main file, whether or not it exists.
    pub fn main_file(&self) -> &Path {
        &self.files.file
    }

    /// The files with their versions (request 52).
    pub fn versions(&self) -> Vec<(PathBuf, PlainVersion)> {
        self.rules().versions.clone()
    }

    /// Changes the given members of an account, or adds the account to the main file (request 50).
    ///
    /// # Errors
    /// [`PlainError::Content`] when the account is not valid, [`PlainError::File`] when the file cannot be replaced.
    /// Nothing changes then.
    pub fn update_account(&self, account: &PlainAccount, now_ms: i64) -> Result<(), PlainError> {
        let path = self.path_of(&account.access_key).unwrap_or_else(|| self.files.file.clone());
        self.change(&path, now_ms, |root| {
            let Node::List(accounts) = root.entry("accounts", Node::List(Vec::new())) else { return };
            let is_it = |node: &Node| is_named(node, &account.access_key);
            write_account(found_or_added(accounts, is_it, || Node::Map(Vec::new())), account);
        })
    }

    /// Removes an account (request 51). Returns `false` if it does not exist.
    ///
    /// # Errors
    /// [`PlainError::Content`] when the file is no longer valid, [`PlainError::File`] when it cannot be replaced.
    /// Nothing changes then.
    pub fn delete_account(&self, access_key: &str, now_ms: i64) -> Result<bool, PlainError> {
        let Some(path) = self.path_of(access_key) else { return Ok(false) };
        self.change(&path, now_ms, |root| {
            if let Node::List(accounts) = root.entry("accounts", Node::List(Vec::new())) {
                accounts.retain(|node| !is_named(node, access_key));
            }
        })?;
        Ok(true)
    }

    /// Replaces the addresses that need no signature, in the main file or in another file of the rules (request 53).
    ///
    /// # Errors
    /// [`PlainError::Content`] when an address is not valid or the file is not a file of the rules,
    /// [`PlainError::File`] when the file cannot be replaced. Nothing changes then.
    pub fn update_white_list(
        &self,
        addresses: &[String],
        path: Option<&Path>,
        now_ms: i64,
    ) -> Result<(), PlainError> {
        let path = path.unwrap_or(&self.files.file);
        if path != self.files.file && !self.rules().versions.iter().any(|(known, _)| known == path) {
            let reason = "the file is not one of the rules".to_owned();
            return Err(PlainError::Content { path: path.to_owned(), reason });
        }
        self.change(path, now_ms, |root| {
            root.set("globalWhiteRemoteAddresses", Node::texts(addresses));
        })
    }

    /// Changes one file: the new rules are checked as a whole before the file is replaced, and count at once.
    fn change(&self, path: &Path, now_ms: i64, change: impl FnOnce(&mut Node)) -> Result<(), PlainError> {
        let mut seen = self.seen.lock();
        let mut found = self.files.read()?.files;
        let bad = |reason| PlainError::Content { path: path.to_owned(), reason };
        let (_, content) =
            found_or_added(&mut found, |(known, _)| known == path, || (path.to_owned(), Vec::new()));
        let text = std::str::from_utf8(content).map_err(|error| bad(error.to_string()))?;
        let mut root = Node::parse_file(text).map_err(bad)?.unwrap_or(Node::Map(Vec::new()));
        change(&mut root);
        let number = |number: i64| Node::Scalar(number.to_string(), true);
        let counter = number(PlainVersion::read(&root).counter + 1);
        let version = vec![("counter".to_owned(), counter), ("timestamp".to_owned(), number(now_ms))];
        root.set("dataVersion", Node::List(vec![Node::Map(version)]));
        let text = root.write();
        *content = text.clone().into_bytes();
        PlainRules::parse(&found)?;
        file::write(path, text.as_bytes())?;
        self.read_again(&mut seen).map(drop)
    }

    fn path_of(&self, access_key: &str) -> Option<PathBuf> {
        self.rules().accounts.get(access_key).map(|account| account.path.to_path_buf())
    }

    fn rules(&self) -> Arc<PlainRules> {
        self.rules.read().clone()
    }
}

/// Logs the skipped files, so that an operator finds the cause of missing accounts.
fn log_skipped(found: &Contents) {
    for path in &found.skipped {
        tracing::warn!(path = %path.display(), "a file of ACL 1.0 is not read: expected a regular file, and at most 64 MiB in all files");
    }
}

fn is_named(node: &Node, access_key: &str) -> bool {
    matches!(node.get("accessKey"), Some(Node::Scalar(text, _)) if text == access_key)
}

fn write_account(node: &mut Node, account: &PlainAccount) {
    let mut set = |key, value: Option<Node>| value.into_iter().for_each(|value| node.set(key, value));
    let text = |text: &Option<String>| text.as_deref().map(Node::text);
    let list = |texts: &Option<Vec<String>>| texts.as_deref().map(Node::texts);
    set("accessKey", Some(Node::text(&account.access_key)));
    set("secretKey", Some(Node::text(&account.secret_key)));
    set("whiteRemoteAddress", text(&account.white_remote_address));
    set("admin", account.admin.map(|is_admin| Node::Scalar(is_admin.to_string(), true)));
    set("defaultTopicPerm", text(&account.default_topic_perm));
    set("defaultGroupPerm", text(&account.default_group_perm));
    set("topicPerms", list(&account.topic_perms));
    set("groupPerms", list(&account.group_perms));
}

#[cfg(test)]
mod tests;
