//! Cache of digest entries in memory. A consumer of a backlog needs successive entries, and consumers of all queues
//! and groups need the same entries.

use super::block::{BLOCK_BYTES, DigestBlock};
use super::file::read_block;
use crate::disk::DiskFile;
use crate::wake::lock;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Mutex;

/// Blocks read at once: the entries of about 4,000 records.
const BLOCKS: u64 = 64;

/// Most pieces in the cache: 1 MiB.
const PIECES_MAX: usize = 32;

/// Entries of a part of a digest file. New entries are only added behind the last entry, so a piece stays valid.
pub(super) struct FilePiece {
    base: u64,
    /// Range of positions in the log file of which all entries are in this piece.
    reach: RangeInclusive<u32>,
    /// Position in the log file and digest, ascending.
    entries: Vec<(u32, u32)>,
}

/// Cached pieces of all files, the oldest first.
#[derive(Default)]
pub(super) struct PieceCache(Mutex<VecDeque<FilePiece>>);

impl PieceCache {
    /// The digest at a position of the log file that starts at `base`; the outer `None` when no cached piece covers the
    /// position.
    pub(super) fn find(&self, base: u64, position: u32) -> Option<Option<u32>> {
        let pieces = lock(&self.0);
        let piece =
            pieces.iter().rev().find(|piece| piece.base == base && piece.reach.contains(&position))?;
        let index = piece.entries.binary_search_by_key(&position, |entry| entry.0);
        Some(index.ok().map(|index| piece.entries[index].1))
    }

    pub(super) fn keep(&self, piece: FilePiece) {
        let mut pieces = lock(&self.0);
        // Replaces an older reading of the same blocks, which have more entries since.
        pieces.retain(|old| old.base != piece.base || old.reach.start() != piece.reach.start());
        if pieces.len() == PIECES_MAX {
            pieces.pop_front();
        }
        pieces.push_back(piece);
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

impl FilePiece {
    /// Reads the part of a file with `blocks` blocks that covers a position; `None` behind all entries.
    /// Damaged blocks are skipped.
    pub(super) fn read(file: &dyn DiskFile, base: u64, blocks: u64, position: u32) -> Option<Self> {
        let (mut low, mut high) = (0, blocks);
        let (mut before, mut behind) = (None, None);
        while low < high {
            let middle = low + (high - low) / 2;
            let found = (middle..high).find_map(|number| Some((number, read_block(file, number)?)));
            match found.and_then(|(number, block)| Some((number, block.first()?, block.last()?.0, block))) {
                Some((number, first, last, block)) if (first..=last).contains(&position) => {
                    return Some(Self::around(file, base, blocks, number, block));
                }
                Some((number, _, last, _)) if last < position => (low, before) = (number + 1, Some(last)),
                Some((_, first, ..)) => (high, behind) = (middle, Some(first)),
                None => high = middle,
            }
        }
        let reach = before.map_or(0, |last| last + 1)..=behind? - 1;
        Some(Self { base, reach, entries: Vec::new() })
    }

    /// Reads the aligned group of [`BLOCKS`] blocks that contains block `number`.
    fn around(file: &dyn DiskFile, base: u64, blocks: u64, number: u64, block: DigestBlock) -> Self {
        let first = number / BLOCKS * BLOCKS;
        let count = usize::try_from(BLOCKS.min(blocks - first)).expect("few blocks");
        let mut bytes = vec![0; count * BLOCK_BYTES];
        let entries = match file.read_at(&mut bytes, first * BLOCK_BYTES as u64) {
            Ok(()) => {
                bytes.as_chunks().0.iter().filter_map(DigestBlock::read).flat_map(|block| block.0).collect()
            }
            // Another block of the group is in a bad sector.
            Err(_) => block.0,
        };
        let place = |entry: Option<&(u32, u32)>| entry.expect("the block has entries").0;
        Self { base, reach: place(entries.first())..=place(entries.last()), entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::RecordDigest;
    use crate::disk::{Disk, FakeDisk, Space};
    use std::path::Path;
    use std::sync::Arc;
    use wire::units::LogOffset;

    /// Makes a file of blocks with a single entry each, at positions 10, 20, 30 and so on. The digest is the
    /// position.
    fn file(blocks: u64) -> Arc<dyn DiskFile> {
        let disk = FakeDisk::new(512);
        let length = blocks * BLOCK_BYTES as u64;
        let file = disk.create(Path::new("/digests"), length, Space::Sparse).unwrap();
        let mut bytes = Vec::new();
        for number in 1..=blocks {
            let mut block = DigestBlock::default();
            block.push(RecordDigest { at: LogOffset::new(10 * number), digest: 10 * number as u32 }, 0);
            block.write(&mut bytes);
        }
        file.write_at(&bytes, 0).unwrap();
        file
    }

    #[test]
    fn neighbours_are_known_from_one_reading() {
        let (file, pieces) = (file(100), PieceCache::default());
        pieces.keep(FilePiece::read(&*file, 0, 100, 300).unwrap());
        assert_eq!(
            [10, 300, 640].map(|position| pieces.find(0, position)),
            [10, 300, 640].map(|at| Some(Some(at)))
        );
        assert_eq!(pieces.find(0, 305), Some(None), "no record begins there");
        assert_eq!((pieces.find(0, 650), pieces.find(1 << 30, 300)), (None, None));
    }

    #[test]
    fn what_came_since_is_found() {
        let (file, pieces) = (file(100), PieceCache::default());
        pieces.keep(FilePiece::read(&*file, 0, 7, 70).unwrap());
        assert_eq!(pieces.find(0, 80), None);
        pieces.keep(FilePiece::read(&*file, 0, 8, 80).unwrap());
        assert_eq!((pieces.find(0, 70), pieces.find(0, 80)), (Some(Some(70)), Some(Some(80))));
        assert_eq!(lock(&pieces.0).len(), 1, "one reading of a place is enough");
        assert!(FilePiece::read(&*file, 0, 8, 90).is_none(), "behind all of them");
    }

    #[test]
    fn damaged_blocks_are_passed_over() {
        let (file, pieces) = (file(100), PieceCache::default());
        file.write_at(&[1; BLOCK_BYTES], 49 * BLOCK_BYTES as u64).unwrap();
        pieces.keep(FilePiece::read(&*file, 0, 100, 500).unwrap());
        assert_eq!(
            [490, 495, 500, 505, 510].map(|position| pieces.find(0, position).is_some()),
            [false, true, true, true, false]
        );
        assert_eq!(pieces.find(0, 500), Some(None));
        pieces.keep(FilePiece::read(&*file, 0, 100, 490).unwrap());
        assert_eq!((pieces.find(0, 490), pieces.find(0, 510)), (Some(Some(490)), Some(Some(510))));
    }

    #[test]
    fn the_oldest_reading_makes_room() {
        let (file, pieces) = (file(100), PieceCache::default());
        for base in 0..=PIECES_MAX as u64 {
            pieces.keep(FilePiece::read(&*file, base << 30, 100, 10).unwrap());
        }
        assert_eq!((pieces.find(0, 10), pieces.find(1 << 30, 10)), (None, Some(Some(10))));
    }
}
