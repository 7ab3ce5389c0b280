//! The files of the commit log when a store is opened.

use super::Recovery;
use crate::checkpoint_file::Checkpoint;
use crate::disk::{LOCK_FILE, file_name};
use crate::error::OpenError;
use crate::follow::has_followed;

impl Recovery<'_> {
    /// Adds the commit log files of all directories to the log, in the order of their names.
    pub(super) fn load_segments(&self) -> Result<(), OpenError> {
        let mut files = Vec::new();
        for directory in self.state.log.directories.all() {
            let entries = self.state.disk.list(directory).map_err(OpenError::io(directory))?;
            let found = entries.into_iter().filter(|entry| !entry.is_dir);
            files.extend(found.map(|entry| (entry.name, entry.length, directory)));
        }
        files.sort();
        if let Some((_, _, directory)) = files.iter().find(|(name, ..)| name == LOCK_FILE) {
            return Err(OpenError::RootIsLog { path: (*directory).clone() });
        }
        for (index, (name, length, directory)) in files.iter().enumerate() {
            let path = directory.join(name);
            if let Some((_, _, first)) = index.checked_sub(1).map(|at| &files[at]).filter(|it| it.0 == *name)
            {
                return Err(OpenError::Twice { first: first.join(name), second: path });
            }
            let expected = self.state.log.segment_bytes;
            if *length == 0 && index + 1 == files.len() {
                self.state.disk.remove(&path).map_err(OpenError::io(&path))?;
                continue;
            }
            let base = name.parse::<u64>().ok().filter(|base| file_name(*base) == *name);
            let base = base.ok_or(OpenError::FileName { path: path.clone() })?;
            if *length != expected {
                return Err(OpenError::FileSize { path, expected, found: *length });
            }
            let end = self.state.log.capacity_end();
            if !base.is_multiple_of(expected) || (index > 0 && base != end) {
                return Err(OpenError::Gap { expected: end, found: path });
            }
            let file = self.state.disk.open(&path).map_err(OpenError::io(&path))?;
            self.state.log.adopt(base, path, file);
        }
        Ok(())
    }

    /// Rejects a store whose commit log is in another directory. Retention and a clean stop always leave the file of
    /// the newest message. A store that was killed while following a master may have been about to begin at another
    /// position, and gets its messages again. RocketMQ would begin an empty log and remove the queue files
    /// (`DefaultMessageStore.recover`).
    pub(super) fn refuse_lost_log(&self, page: &Checkpoint) -> Result<(), OpenError> {
        let claimed = u64::try_from(page.logics_physical_offset.max(page.newest_record())).unwrap_or(0);
        if claimed == 0 || self.state.log.capacity_end() > 0 {
            return Ok(());
        }
        if has_followed(self.state).map_err(OpenError::io(&self.state.config.root))? {
            return Ok(());
        }
        let queues = &self.state.queues.directory;
        let topics = self.state.disk.list(queues).map_err(OpenError::io(queues))?;
        if topics.iter().any(|entry| entry.is_dir) {
            let (path, queues) = (self.state.config.commit_log.clone(), queues.clone());
            return Err(OpenError::NoLog { path, claimed, queues });
        }
        Ok(())
    }
}
