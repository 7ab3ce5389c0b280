//! `messageRequestMode.json`: whether groups pull or pop topics (`MessageRequestModeManager`).

use parking_lot::Mutex;
use wire::body::{RequestMode, RequestModeTable};
use wire::json::{self, Dialect};

use crate::persist::{self, ConfigFile};

/// The table of request modes. A change is on disk before it takes effect.
pub(crate) struct Modes {
    file: ConfigFile,
    table: Mutex<RequestModeTable>,
    /// Lock of file writes, so that the file follows the order of changes.
    writing: Mutex<()>,
}

impl Modes {
    /// Loads the table from `messageRequestMode.json`; starts empty when there is no such file.
    pub(crate) fn load(file: ConfigFile) -> Result<Self, persist::Error> {
        let table = file.read()?.unwrap_or_default();
        Ok(Self { file, table: Mutex::new(table), writing: Mutex::new(()) })
    }

    /// The mode that an operator set for a topic and a group; `None` when there is none.
    pub(crate) fn find(&self, topic: &str, group: &str) -> Option<RequestMode> {
        self.table.lock().message_request_mode_map.get(topic)?.get(group).cloned()
    }

    /// The table as the file holds it.
    pub(crate) fn text(&self) -> Vec<u8> {
        json::to_vec_as(&*self.table.lock(), Dialect::Standard)
    }

    /// Sets the mode of a topic and a group; waits for the disk.
    pub(crate) fn set(&self, mode: RequestMode) -> Result<(), persist::Error> {
        let _writing = self.writing.lock();
        let mut next = self.table.lock().clone();
        let groups = next.message_request_mode_map.entry(mode.topic.clone()).or_default();
        groups.insert(mode.consumer_group.clone(), mode);
        self.file.write(&json::to_vec_as(&next, Dialect::Standard))?;
        *self.table.lock() = next;
        Ok(())
    }

    /// Replaces the table by that of a master. Waits for the disk if the tables differ.
    ///
    /// # Errors
    /// When the file cannot be written; the table is then as before.
    pub(crate) fn adopt(&self, next: RequestModeTable) -> Result<(), persist::Error> {
        let _writing = self.writing.lock();
        let next = RequestModeTable { extra: self.table.lock().extra.clone(), ..next };
        if self.text() != json::to_vec_as(&next, Dialect::Standard) {
            self.file.write(&json::to_vec_as(&next, Dialect::Standard))?;
            *self.table.lock() = next;
        }
        Ok(())
    }
}
