//! The directories of the commit log, and which of them gets the next file (`MultiPathMappedFileQueue`).

use crate::config::Config;
use crate::wake::lock;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The directories of the commit log.
pub(crate) struct Directories {
    /// Directories that receive new files, sorted; at least one.
    writable: Vec<PathBuf>,
    /// Directories that receive no new files.
    read_only: Vec<PathBuf>,
    /// Writable directories that receive no new files while others have more space.
    full: Mutex<BTreeSet<PathBuf>>,
}

/// Path at which the next file of a directory is created before it is renamed.
pub(super) fn beside(directory: &Path) -> PathBuf {
    let mut beside = directory.as_os_str().to_owned();
    beside.push(".next");
    PathBuf::from(beside)
}

impl Directories {
    pub(super) fn new(config: &Config) -> Self {
        let read_only: BTreeSet<PathBuf> = config.commit_log_read_only.iter().cloned().collect();
        let named = std::iter::once(&config.commit_log).chain(&config.commit_log_more);
        let mut writable: BTreeSet<PathBuf> =
            named.filter(|path| !read_only.contains(*path)).cloned().collect();
        if writable.is_empty() {
            // At least one directory must receive new files.
            writable.insert(config.commit_log.clone());
        }
        let read_only = read_only.into_iter().filter(|path| !writable.contains(path)).collect();
        Self { writable: writable.into_iter().collect(), read_only, full: Mutex::default() }
    }

    /// Returns all directories of the commit log, including directories without new files.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.writable.iter().chain(&self.read_only)
    }

    /// The directories that get new files.
    pub(crate) fn writable(&self) -> &[PathBuf] {
        &self.writable
    }

    /// Whether files are in several directories, so that their names do not become durable in order without a sync.
    pub(super) fn are_several(&self) -> bool {
        self.writable.len() + self.read_only.len() > 1
    }

    /// Sets which directories receive no new files while others have space.
    pub(crate) fn set_full(&self, full: BTreeSet<PathBuf>) {
        *lock(&self.full) = full;
    }

    /// Returns the next directory in turn for the file with this number.
    pub(super) fn of(&self, number: u64) -> &Path {
        let full = lock(&self.full);
        let mut open: Vec<&PathBuf> = self.writable.iter().filter(|path| !full.contains(*path)).collect();
        if open.is_empty() {
            open = self.writable.iter().collect();
        }
        let index = usize::try_from(number % open.len() as u64).expect("less than the number of directories");
        open[index]
    }
}

#[cfg(test)]
mod tests {
    use super::Directories;
    use crate::config::Config;
    use std::path::Path;

    fn places(more: &[&str], read_only: &[&str]) -> Directories {
        Directories::new(&Config {
            commit_log: "/b".into(),
            commit_log_more: more.iter().map(Into::into).collect(),
            commit_log_read_only: read_only.iter().map(Into::into).collect(),
            ..Config::new("/store")
        })
    }

    fn order(places: &Directories) -> Vec<&str> {
        (0..4).map(|number| places.of(number).to_str().unwrap()).collect()
    }

    #[test]
    fn files_go_round_the_sorted_directories() {
        assert_eq!(order(&places(&["/c", "/a"], &[])), ["/a", "/b", "/c", "/a"]);
        assert_eq!(order(&places(&[], &["/old"])), ["/b", "/b", "/b", "/b"]);
        assert_eq!(order(&places(&["/a"], &["/a"])), ["/b", "/b", "/b", "/b"]);
    }

    #[test]
    fn full_directories_are_left_out_unless_all_are() {
        let places = places(&["/c", "/a"], &[]);
        places.set_full([Path::new("/b").to_owned()].into());
        assert_eq!(order(&places), ["/a", "/c", "/a", "/c"]);
        places.set_full(["/a", "/b", "/c"].iter().map(Into::into).collect());
        assert_eq!(order(&places), ["/a", "/b", "/c", "/a"]);
    }

    #[test]
    fn a_directory_that_is_only_read_still_counts() {
        let places = places(&["/a"], &["/old", "/a"]);
        assert_eq!(places.all().map(|path| path.to_str().unwrap()).collect::<Vec<_>>(), ["/b", "/a", "/old"]);
    }
}
