//! Queries by key (`IndexService.queryOffset`, `IndexFile.selectPhyOffset`, `DefaultMessageStore.queryMessage`).

use super::layout::{Header, ITEM_BYTES, Item};
use super::{FullFile, Indexer, KeyIndex};
use crate::disk::DiskFile;
use crate::error::{ReadError, Result};
use crate::keys::{KeyKind, Keys, hash_of, seed_of};
use crate::read::Reader;
use crate::wake::lock;
use std::io;
use std::sync::Arc;
use wire::record::RecordView;
use wire::units::LogOffset;

/// Bytes of items read at once, because keys of a topic are often close together.
const BLOCK_BYTES: usize = 4096;
/// Most bytes of records in a result. The first record always fits.
const ANSWER_BYTES: usize = 12 << 20;
/// Most records with a matching hash and a different key that a query reads.
const COLLISIONS_MAX: usize = 1024;

/// A query by key or tag.
#[derive(Clone, Copy, Debug)]
pub struct KeyQuery<'a> {
    /// Topic of the messages.
    pub topic: &'a str,
    /// The key or tag.
    pub key: &'a str,
    /// Whether `key` is a key or a tag.
    pub kind: KeyKind,
    /// Most messages to return, the newest first.
    pub max: usize,
    /// Earliest store time, ms since the epoch.
    pub begin_ms: i64,
    /// Latest store time, ms since the epoch. The index has whole seconds: messages up to 999 ms later may be returned.
    pub end_ms: i64,
}

/// A message that has the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyMatch {
    /// Log position of the message's record.
    pub at: LogOffset,
    /// The message's record.
    pub record: Vec<u8>,
}

/// Result of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyMatches {
    /// The messages, newest first.
    pub found: Vec<KeyMatch>,
    /// Store time in ms of the newest message in the index.
    pub indexed_time: i64,
    /// Log position of the newest message in the index.
    pub indexed_offset: u64,
}

/// An index file during a query.
struct FileView {
    name: String,
    file: Arc<dyn DiskFile>,
    header: Header,
    /// Number of the newest item in the key's slot. `None` if it must be read from the file.
    newest: Option<u32>,
}

/// Reasons why the search of a file ended early.
enum SearchError {
    /// The file holds invalid data.
    Damage,
    Disk(io::Error),
}

impl From<io::Error> for SearchError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl Indexer<'_> {
    /// Finds messages by key. Finds all messages appended before the call, unless the index is still catching up.
    pub(crate) fn query(&self, query: &KeyQuery<'_>) -> Result<KeyMatches> {
        // Write the pending keys first. When the log must be read for them, the query does not wait for all of it.
        let _ = self.fill();
        let seed = seed_of(query.topic.as_bytes());
        let hash = hash_of(seed, query.kind, query.key.as_bytes());
        let (mut matches, views) = self.index.views(hash);
        let mut search = Search { reader: self.reader, query, collisions: 0, bytes: 0, error: None };
        for view in views.iter().rev() {
            let overlaps = query.begin_ms <= view.header.end_time && query.end_ms >= view.header.begin_time;
            let result = match overlaps {
                true => self.index.walk(view, hash, query, |at| search.take(at, &mut matches.found)),
                false => Ok(true),
            };
            match result {
                Ok(goes_on) if goes_on && view.header.begin_time >= query.begin_ms => {}
                Ok(_) => break,
                Err(broken) => {
                    let error = match broken {
                        SearchError::Damage => "an item that cannot have been written".to_owned(),
                        SearchError::Disk(error) => error.to_string(),
                    };
                    tracing::error!(
                        file = view.name,
                        error,
                        "an index file is damaged; it is rebuilt from the log"
                    );
                    self.index.distrust(&view.name);
                }
            }
        }
        search.error.map_or(Ok(matches), Err)
    }
}

/// State of a query.
struct Search<'a> {
    reader: Reader<'a>,
    query: &'a KeyQuery<'a>,
    collisions: usize,
    bytes: usize,
    error: Option<ReadError>,
}

impl Search<'_> {
    /// Examines a message with the right hash; `false` ends the query.
    fn take(&mut self, at: u64, found: &mut Vec<KeyMatch>) -> bool {
        if found.len() >= self.query.max {
            return false;
        }
        let at = LogOffset::new(at);
        // The message has the same key twice.
        if found.last().is_some_and(|last| last.at == at) {
            return true;
        }
        let mut record = Vec::new();
        match self.reader.record_at(at, &mut record, false) {
            Ok(_) => {}
            Err(ReadError::Io(error)) => {
                self.error = Some(error.into());
                return false;
            }
            // The message is expired or the item is wrong: skip it.
            Err(_) => return true,
        }
        let has_key = RecordView::parse(&record).is_ok_and(|view| {
            view.topic() == self.query.topic.as_bytes()
                && Keys::of(view.properties()).has(self.query.kind, self.query.key.as_bytes())
                && view.check_crc().is_ok()
        });
        if !has_key {
            self.collisions += 1;
            return self.collisions < COLLISIONS_MAX;
        }
        self.bytes += record.len();
        if self.bytes > ANSWER_BYTES && !found.is_empty() {
            return false;
        }
        found.push(KeyMatch { at, record });
        found.len() < self.query.max
    }
}

impl KeyIndex {
    /// Returns an empty result with the index's progress, and the index files, oldest first.
    fn views(&self, hash: u32) -> (KeyMatches, Vec<FileView>) {
        let filling = lock(&self.filling);
        let newest = filling.newest();
        let mut views = Vec::with_capacity(filling.finished.len() + 1);
        for finished in &filling.finished {
            let FullFile { name, file, header } = &**finished;
            views.push(FileView { name: name.clone(), file: file.clone(), header: *header, newest: None });
        }
        if let Some(current) = &filling.current {
            let (name, file, header) = (current.name.clone(), current.file.clone(), current.header);
            views.push(FileView { name, file, header, newest: Some(current.newest_of(hash)) });
        }
        let matches = KeyMatches {
            found: Vec::new(),
            indexed_time: newest.map_or(0, |newest| newest.end_time),
            indexed_offset: newest.map_or(0, |newest| newest.end_offset),
        };
        (matches, views)
    }

    pub(super) fn item(&self, file: &dyn DiskFile, number: u32) -> io::Result<Item> {
        let mut bytes = [0; ITEM_BYTES];
        file.read_at(&mut bytes, self.geometry.item_at(number))?;
        Ok(Item::from_bytes(&bytes))
    }

    /// Follows the chain of a hash from its newest item while `take` returns true; `false` when `take` ended it.
    fn walk(
        &self,
        view: &FileView,
        hash: u32,
        query: &KeyQuery<'_>,
        mut take: impl FnMut(u64) -> bool,
    ) -> Result<bool, SearchError> {
        let (header, slot) = (&view.header, self.geometry.slot_of(hash));
        let mut number = match view.newest {
            Some(number) => number,
            None => {
                let mut bytes = [0; 4];
                view.file.read_at(&mut bytes, self.geometry.slot_at(slot))?;
                u32::from_be_bytes(bytes)
            }
        };
        if number >= header.next {
            return Err(SearchError::Damage);
        }
        let mut block = ItemBlock { first: 0, bytes: Vec::new() };
        while number > 0 {
            let item = block.item(self, view, number)?;
            let in_file = (header.begin_offset..=header.end_offset).contains(&item.offset);
            if self.geometry.slot_of(item.hash) != slot
                || item.previous >= number
                || item.seconds < 0
                || !in_file
            {
                return Err(SearchError::Damage);
            }
            // The first item's seconds count from the end of the file before.
            let seconds = if number == 1 { 0 } else { i64::from(item.seconds) };
            let time = header.begin_time.saturating_add(1000 * seconds);
            if time.saturating_add(999) < query.begin_ms {
                return Ok(true);
            }
            if item.hash == hash && time <= query.end_ms && !take(item.offset) {
                return Ok(false);
            }
            number = item.previous;
        }
        Ok(true)
    }
}

/// A block of items read together, aligned because chains lead backwards.
struct ItemBlock {
    first: u32,
    bytes: Vec<u8>,
}

impl ItemBlock {
    fn item(&mut self, index: &KeyIndex, view: &FileView, number: u32) -> io::Result<Item> {
        let held = self.bytes.len() / ITEM_BYTES;
        let is_held = number >= self.first && ((number - self.first) as usize) < held;
        if !is_held {
            let count = (BLOCK_BYTES / ITEM_BYTES) as u32;
            self.first = (number + 1).saturating_sub(count).max(1);
            self.bytes.resize((number + 1 - self.first) as usize * ITEM_BYTES, 0);
            view.file.read_at(&mut self.bytes, index.geometry.item_at(self.first))?;
        }
        let at = (number - self.first) as usize * ITEM_BYTES;
        Ok(Item::from_bytes(&self.bytes[at..at + ITEM_BYTES]))
    }
}
