//! A file in memory that knows which of its pages are durable.

use super::super::DiskFile;
use super::faults::{Control, Operation};
use crate::wake::lock;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// Content of a file, with the pages whose newest bytes are not durable.
pub(super) struct Data {
    pub(super) current: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) dirty: BTreeSet<usize>,
}

pub(super) struct FakeFile {
    page_bytes: usize,
    pub(super) data: Mutex<Data>,
    pub(super) modified_ms: AtomicI64,
    pub(super) unreadable: Mutex<Range<u64>>,
    control: Arc<Control>,
}

impl FakeFile {
    pub(super) fn new(page_bytes: usize, control: Arc<Control>) -> Self {
        let data = Data { current: Vec::new(), durable: Vec::new(), dirty: BTreeSet::new() };
        let modified_ms = AtomicI64::new(lock(&control.faults).now_ms);
        Self { page_bytes, data: Mutex::new(data), modified_ms, unreadable: Mutex::default(), control }
    }

    fn with_content(&self, content: Vec<u8>, control: Arc<Control>) -> Self {
        let data = Data { current: content.clone(), durable: content, dirty: BTreeSet::new() };
        let modified_ms = AtomicI64::new(self.modified_ms.load(Ordering::Relaxed));
        let (page_bytes, unreadable) = (self.page_bytes, Mutex::default());
        Self { page_bytes, data: Mutex::new(data), modified_ms, unreadable, control }
    }

    pub(super) fn copy(&self, control: Arc<Control>) -> Self {
        self.with_content(lock(&self.data).current.clone(), control)
    }

    pub(super) fn after_power_cut(&self, random: &mut Random, control: Arc<Control>) -> Self {
        let data = lock(&self.data);
        let mut content = data.durable.clone();
        // Each cut draws its own survival rate, so that both long and short runs of pages are lost.
        let chance = random.below(101);
        for page in &data.dirty {
            if random.below(100) < chance {
                let range = page * self.page_bytes..((page + 1) * self.page_bytes).min(content.len());
                content[range.clone()].copy_from_slice(&data.current[range]);
            }
        }
        self.with_content(content, control)
    }

    fn read(&self, target: &mut [u8], at: u64) -> io::Result<()> {
        const BAD_SECTOR: i32 = 5;
        let unreadable = lock(&self.unreadable).clone();
        if unreadable.start < at + target.len() as u64 && at < unreadable.end {
            let left = &mut lock(&self.control.faults).failing_reads_left;
            if *left != Some(0) {
                *left = left.map(|left| left - 1);
                return Err(io::Error::from_raw_os_error(BAD_SECTOR));
            }
        }
        let data = lock(&self.data);
        let source = data.current.get(position(at)..position(at) + target.len());
        target.copy_from_slice(source.ok_or(io::Error::from(ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn note_time(&self) {
        self.modified_ms.store(lock(&self.control.faults).now_ms, Ordering::Relaxed);
    }

    fn put(&self, source: &[u8], at: usize) -> io::Result<()> {
        let mut data = lock(&self.data);
        let end = at + source.len();
        if end > data.current.len() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the store never writes past a file's end"));
        }
        data.current[at..end].copy_from_slice(source);
        if !source.is_empty() {
            data.dirty.extend(at / self.page_bytes..=(end - 1) / self.page_bytes);
        }
        Ok(())
    }
}

pub(super) fn position(at: u64) -> usize {
    usize::try_from(at).expect("test files fit memory")
}

impl DiskFile for FakeFile {
    fn read_at(&self, target: &mut [u8], at: u64) -> io::Result<()> {
        self.control.spend(Operation::Read);
        self.read(target, at)
    }

    fn read_resident(&self, target: &mut [u8], at: u64) -> io::Result<bool> {
        if lock(&self.control.faults).nothing_resident {
            return Ok(false);
        }
        self.read(target, at).map(|()| true)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(lock(&self.data).current.len() as u64)
    }

    fn next_data(&self, at: u64) -> io::Result<u64> {
        let data = lock(&self.data);
        let rest = data.current.get(position(at)..).unwrap_or_default();
        Ok(at + rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len()) as u64)
    }

    fn write_at(&self, source: &[u8], at: u64) -> io::Result<()> {
        let _change = self.control.change(Operation::Write)?;
        self.note_time();
        if let Some(left) = &mut lock(&self.control.faults).writes_left {
            let Some(fewer) = left.checked_sub(1) else {
                self.put(&source[..source.len() / 2], position(at))?;
                return Err(io::Error::other("injected write error"));
            };
            *left = fewer;
        }
        self.put(source, position(at))
    }

    fn sync(&self) -> io::Result<()> {
        let hanging = lock(&self.control.faults).syncs_wait_for.clone();
        hanging.inspect(|hanging| drop(lock(hanging)));
        self.control.spend(Operation::Sync);
        let _change = self.control.begin();
        if let Some(left) = &mut lock(&self.control.faults).syncs_left {
            let Some(fewer) = left.checked_sub(1) else {
                // Linux marks pages clean after a failed write-back: a second sync would succeed.
                lock(&self.data).dirty.clear();
                return Err(io::Error::other("injected sync error"));
            };
            *left = fewer;
        }
        let data = &mut *lock(&self.data);
        for page in std::mem::take(&mut data.dirty) {
            let range = page * self.page_bytes..((page + 1) * self.page_bytes).min(data.current.len());
            data.durable[range.clone()].copy_from_slice(&data.current[range]);
        }
        Ok(())
    }

    fn start_write_back(&self, _at: u64, _length: u64) {}

    fn forget(&self, _at: u64, _length: u64) {}

    fn will_need(&self, _at: u64, _length: u64) {}

    fn zero(&self, at: u64, length: u64) -> io::Result<()> {
        let _change = self.control.change(Operation::Write)?;
        self.note_time();
        self.put(&vec![0; position(length)], position(at))
    }

    fn write_zeros(&self, at: u64, length: u64) -> io::Result<()> {
        self.write_at(&vec![0; position(length)], at)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let _change = self.control.change(Operation::Names)?;
        // A truncation is durable at once: the worst case for code that relied on the bytes.
        let data = &mut *lock(&self.data);
        let length = position(length);
        data.current.truncate(length);
        data.durable.truncate(length);
        data.dirty.retain(|page| page * self.page_bytes < length);
        Ok(())
    }
}

/// A small random generator (xorshift64*) that chooses the pages that survive.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }
}
