//! `messageRequestMode.json`: whether groups pull or pop topics (`MessageRequestModeManager`).

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::body::{RequestMode, RequestModeTable};
use wire::json::{self, Dialect};

use crate::persist;

/// The table of request modes. A change is on disk before it takes effect.
pub(crate) struct Modes {
    path: PathBuf,
    table: Mutex<RequestModeTable>,
    /// Held while the file is written, so that the file follows the order of changes.
    writing: Mutex<()>,
}

impl Modes {
    /// Loads the table from `path`, or starts empty.
    pub(crate) fn load(path: PathBuf) -> Result<Self, persist::Error> {
        let table = persist::read(&path)?.unwrap_or_default();
        Ok(Self { path, table: Mutex::new(table), writing: Mutex::new(()) })
    }

    /// The mode that an operator set for a topic and a group; `None` when there is none.
    pub(super) fn find(&self, topic: &str, group: &str) -> Option<RequestMode> {
        self.table().message_request_mode_map.get(topic)?.get(group).cloned()
    }

    /// The table as the file holds it.
    pub(super) fn text(&self) -> Vec<u8> {
        json::to_vec_as(&*self.table(), Dialect::Standard)
    }

    /// Sets the mode of a topic and a group; waits for the disk.
    pub(super) fn set(&self, mode: RequestMode) -> Result<(), persist::Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.table().clone();
        let groups = next.message_request_mode_map.entry(mode.topic.clone()).or_default();
        groups.insert(mode.consumer_group.clone(), mode);
        persist::write(&self.path, &json::to_vec_as(&next, Dialect::Standard))?;
        *self.table() = next;
        Ok(())
    }

    fn table(&self) -> MutexGuard<'_, RequestModeTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
