//! Content of the files of ACL 1.0 before its check: accounts, and the counters of changes.

use std::fs;
use std::path::PathBuf;
use std::sync::Once;

use super::yaml::Node;
use crate::error::printable;
use crate::file::{self, FileError};
use crate::names::{Action, Actions};
use crate::resource::Resource;

/// Paths of the rules.
#[derive(Clone, Debug)]
pub struct PlainFiles {
    /// The file `conf/plain_acl.yml`, which need not exist.
    pub file: PathBuf,
    /// Directory `conf/acl`, whose `*.yml` and `*.yaml` are read too, at any depth.
    pub directory: PathBuf,
}

/// Errors of the rules.
#[derive(Debug, thiserror::Error)]
pub enum PlainError {
    /// A file or directory cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is not valid.
    #[error("{path} is not usable: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Error of the content. The text has no secret.
        reason: String,
    },
}

/// Most directories that are read: `conf/acl` and those below.
const DIRECTORIES_MAX: usize = if cfg!(test) { 3 } else { 100 };

/// Most bytes of all files together.
const BYTES_MAX: u64 = if cfg!(test) { 8 << 10 } else { 64 << 20 };

/// Files with their content, and the skipped files.
#[derive(Default, PartialEq)]
pub(crate) struct Contents {
    /// The files that were read.
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    /// Paths that name no regular file, and files behind the first [`BYTES_MAX`] bytes.
    pub(super) skipped: Vec<PathBuf>,
}

/// Guard of the single log line about too many directories.
static TOO_MANY: Once = Once::new();

impl PlainFiles {
    /// Reads the existing files: the files of the directory by name, then the main file. Paths of other kinds are
    /// skipped, because reading a FIFO or a device does not end. Files that do not fit into [`BYTES_MAX`] are
    /// skipped, too.
    ///
    /// # Errors
    /// [`PlainError::File`] when a directory or file cannot be read.
    pub(crate) fn read(&self) -> Result<Contents, PlainError> {
        let (mut paths, is_all) = self.listed()?;
        if !is_all {
            TOO_MANY.call_once(|| {
                let directory = self.directory.display();
                tracing::warn!(%directory, limit = DIRECTORIES_MAX, "more directories than are looked into; the files in the others are not read");
            });
        }
        paths.sort();
        if !paths.contains(&self.file) {
            paths.push(self.file.clone());
        }
        let (mut found, mut left) = (Contents::default(), BYTES_MAX);
        for path in paths {
            match file::read(&path, left) {
                Ok(None) => {}
                Ok(Some(text)) => {
                    left = left.saturating_sub(u64::try_from(text.len()).unwrap_or(u64::MAX));
                    found.files.push((path, text));
                }
                Err(error) if error.is_unfit() => found.skipped.push(path),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// Returns the files of the directory, and whether all directories were searched. A directory with the
    /// name of a rule file is skipped.
    pub(super) fn listed(&self) -> Result<(Vec<PathBuf>, bool), PlainError> {
        let mut paths = Vec::new();
        let mut open = vec![self.directory.clone()];
        for at in 0..DIRECTORIES_MAX {
            let Some(directory) = open.get(at).cloned() else { break };
            let failed = || file::failed("list", &directory);
            let entries = file::if_found(fs::read_dir(&directory)).map_err(failed())?;
            for entry in entries.into_iter().flatten() {
                let path = entry.map_err(failed())?.path();
                let is_file = path.extension().is_some_and(|it| it == "yml" || it == "yaml");
                match (is_file, path.is_dir()) {
                    (true, false) => paths.push(path),
                    (false, true) => open.push(path),
                    _ => {}
                }
            }
        }
        Ok((paths, open.len() <= DIRECTORIES_MAX))
    }
}

/// Account in the form of the file (`PlainAccessConfig`).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PlainAccount {
    /// The name of the account.
    pub access_key: String,
    /// The secret of the account.
    pub secret_key: String,
    /// Addresses from which the account needs no signature.
    pub white_remote_address: Option<String>,
    /// Whether the account is an administrator.
    pub admin: Option<bool>,
    /// The permission for topics that are not listed.
    pub default_topic_perm: Option<String>,
    /// The permission for groups that are not listed.
    pub default_group_perm: Option<String>,
    /// Permissions such as `topic=PUB|SUB`.
    pub topic_perms: Option<Vec<String>>,
    /// Permissions such as `group=SUB`.
    pub group_perms: Option<Vec<String>>,
}

impl std::fmt::Debug for PlainAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainAccount").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

impl PlainAccount {
    pub(crate) fn read(node: &Node) -> Result<Self, String> {
        if !matches!(node, Node::Map(_)) {
            return Err("an account is not a mapping".to_owned());
        }
        Ok(Self {
            access_key: text_of(node, "accessKey")?.unwrap_or_default(),
            secret_key: text_of(node, "secretKey")?.unwrap_or_default(),
            white_remote_address: text_of(node, "whiteRemoteAddress")?,
            admin: text_of(node, "admin")?.map(|text| is_true(&text)),
            default_topic_perm: text_of(node, "defaultTopicPerm")?,
            default_group_perm: text_of(node, "defaultGroupPerm")?,
            topic_perms: texts_of(node, "topicPerms")?,
            group_perms: texts_of(node, "groupPerms")?,
        })
    }

    /// Returns the topics and groups that the account lists, with the permitted actions
    /// (`Permission.parseResourcePerms`).
    pub(crate) fn permissions(&self) -> impl Iterator<Item = Result<(Resource<'_>, Actions), String>> {
        let topics = self.topic_perms.iter().flatten().map(|text| ("topic", text));
        let groups = self.group_perms.iter().flatten().map(|text| ("group", text));
        topics.chain(groups).map(|(word, text)| {
            let parts: Vec<_> = text.split('=').filter(|part| !part.is_empty()).collect();
            let [name, permission] = parts[..] else {
                return Err(format!("Parse resource permission failed for {word}:{}", printable(text)));
            };
            let resource = if word == "topic" { Resource::topic } else { Resource::group };
            Ok((resource(name.trim()), permitted(permission)))
        })
    }
}

/// Returns the actions that a permission text permits (`Permission.parsePermFromString`). Every text except four,
/// including `DENY` and `ANY`, permits no action.
pub(crate) fn permitted(text: &str) -> Actions {
    match text.trim() {
        "PUB" => Actions::of(&[Action::Pub]),
        "SUB" => Actions::of(&[Action::Sub]),
        "PUB|SUB" | "SUB|PUB" => Actions::of(&[Action::Pub, Action::Sub]),
        _ => Actions::default(),
    }
}

/// Whether a text is a word for true in YAML 1.1, which RocketMQ's parser reads.
fn is_true(text: &str) -> bool {
    ["true", "yes", "on"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn text_of(node: &Node, key: &str) -> Result<Option<String>, String> {
    match node.get(key) {
        None => Ok(None),
        Some(Node::Scalar(text, _)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{key} is not a text")),
    }
}

/// The items of a list among the members of a mapping; none when the list is absent.
pub(crate) fn items_of<'a>(node: &'a Node, key: &str) -> Result<Option<&'a [Node]>, String> {
    match node.get(key) {
        None => Ok(None),
        Some(Node::List(items)) => Ok(Some(items)),
        Some(_) => Err(format!("{key} is not a list")),
    }
}

pub(crate) fn texts_of(node: &Node, key: &str) -> Result<Option<Vec<String>>, String> {
    let text = |item: &Node| match item {
        Node::Scalar(text, _) => Ok(text.clone()),
        _ => Err(format!("{key} has an item that is not a text")),
    };
    items_of(node, key)?.map(|items| items.iter().map(text).collect()).transpose()
}

/// Counter of the changes of a file (`DataVersion`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainVersion {
    /// When the file was changed by a request, in milliseconds since 1970.
    pub timestamp: i64,
    /// Number of changes by requests.
    pub counter: i64,
}

impl PlainVersion {
    pub(crate) fn read(root: &Node) -> Self {
        let first = items_of(root, "dataVersion").ok().flatten().and_then(<[Node]>::first);
        let number = |key| first.and_then(|it| text_of(it, key).ok()??.trim().parse().ok()).unwrap_or(0);
        Self { timestamp: number("timestamp"), counter: number("counter") }
    }
}
