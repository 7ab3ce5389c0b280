//! Offsets of a broadcasting consumer, kept in a local file (`LocalFileOffsetStore`).

use crate::MessageQueue;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use wire::body::ResetOffsetBody;
use wire::json;

/// Reads the offsets; empty when the file does not exist.
pub(super) fn load(path: &Path) -> io::Result<BTreeMap<MessageQueue, i64>> {
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        text => text?,
    };
    // The file has the same structure as that of RocketMQ's Java client: a table of offsets by queue.
    let table: ResetOffsetBody = json::from_slice(&text).map_err(io::Error::other)?;
    Ok(table.offset_table)
}

/// Replaces the file atomically: after a crash it has either the old or the new content.
pub(super) fn store(path: &Path, offsets: BTreeMap<MessageQueue, i64>) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let text = json::to_vec(&ResetOffsetBody { offset_table: offsets });
    let fresh = path.with_extension("tmp");
    std::fs::write(&fresh, text)?;
    std::fs::rename(fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub").join("offsets.json");
        assert!(load(&path).unwrap().is_empty());
        let offsets =
            BTreeMap::from([(MessageQueue::new("t", "b", 1), 7), (MessageQueue::new("t", "b", 0), 3)]);
        store(&path, offsets.clone()).unwrap();
        assert_eq!(load(&path).unwrap(), offsets);
        std::fs::write(&path, "{").unwrap();
        assert!(load(&path).is_err());
    }
}
