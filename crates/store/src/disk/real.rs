//! A [`Disk`] on the operating system's files. Reads and writes are positional: with a writable memory mapping a full disk or
//! a bad sector would raise SIGBUS, while a write returns an error.

use super::{DirEntry, Disk, DiskFile, PAGE_BYTES, Space, Syncer, Usage, lock};
use rustix::fs::{
    Advice, AtFlags, CWD, FallocateFlags, OFlags, SeekFrom, StatxFlags, fadvise, fallocate, fdatasync, fsync,
    seek, statvfs, statx, syncfs,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::any::Any;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// The operating system's file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let entries = match fs::read_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut list = Vec::new();
        for entry in entries {
            let entry = entry?;
            // Another thread may have renamed or removed the entry since it was listed; leave it out.
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let is_dir = metadata.is_dir();
            let (length, modified_ms) = if is_dir {
                (0, 0)
            } else {
                (metadata.len(), metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000)
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            list.push(DirEntry { name, is_dir, length, modified_ms });
        }
        list.sort();
        Ok(list)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(File::options().read(true).write(true).open(path)?)))
    }

    fn create(&self, path: &Path, length: u64, space: Space) -> io::Result<Arc<dyn DiskFile>> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        // Set the length before the space is reserved: reservation extends a file piece by piece, and a power cut could leave
        // a shorter file.
        file.set_len(length)?;
        if space == Space::Reserved {
            match fallocate(&file, FallocateFlags::empty(), 0, length) {
                // Some file systems cannot reserve space; the file is a hole there, and writing to it may run out of space.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(error) => {
                    drop(file);
                    // Remove the unfinished file, which only takes space; a failure to remove it matters less than the first
                    // error.
                    let _ = fs::remove_file(path);
                    return Err(error.into());
                }
            }
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn link(&self, source: &Path, target: &Path) -> io::Result<()> {
        fs::hard_link(source, target)
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        fs::rename(source, target)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn usage(&self, path: &Path) -> io::Result<Usage> {
        let found = statvfs(path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Usage {
            device: fs::metadata(path)?.dev(),
            total: bytes(found.f_blocks),
            free: bytes(found.f_bfree),
            available: bytes(found.f_bavail),
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir(path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {
                Ok(())
            }
            done => done,
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Ok(fsync(File::open(path)?)?)
    }

    fn syncer(&self, path: &Path) -> io::Result<Syncer> {
        // Opened before the writes: the descriptor remembers which write-back errors it has reported.
        let directory = File::open(path)?;
        Ok(Box::new(move || Ok(syncfs(&directory)?)))
    }

    fn mount(&self, path: &Path) -> io::Result<Option<String>> {
        let boot = match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
            Err(_) => return Ok(None),
            Ok(boot) => boot,
        };
        let found = match statx(CWD, path, AtFlags::empty(), MNT_ID_UNIQUE | StatxFlags::INO) {
            Err(Errno::NOSYS | Errno::INVAL) => return Ok(None),
            found => found?,
        };
        if found.stx_mask & MNT_ID_UNIQUE.bits() == 0 {
            return Ok(None);
        }
        // The directory's inode number identifies a copied directory, whose files were not written by the process
        // that recorded the name.
        let (mount, inode) = (found.stx_mnt_id, found.stx_ino);
        Ok(Some(format!("{} {mount} {inode}", boot.trim())))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        lock::lock(path)
    }
}

/// `STATX_MNT_ID_UNIQUE` (Linux 6.8): the id of a mount that no later mount gets again.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Opens an existing file for reading only.
pub(super) fn open_to_read(path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    Ok(Arc::new(RealFile(File::open(path)?)))
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, target: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(target, at)
    }

    fn read_resident(&self, target: &mut [u8], at: u64) -> io::Result<bool> {
        let mut done = 0;
        while done < target.len() {
            let mut slices = [IoSliceMut::new(&mut target[done..])];
            match preadv2(&self.0, &mut slices, at + done as u64, ReadWriteFlags::NOWAIT) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                // Some file systems cannot read only from memory (tmpfs is always in memory): read normally.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    return self.0.read_exact_at(&mut target[done..], at + done as u64).map(|()| true);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn next_data(&self, at: u64) -> io::Result<u64> {
        // `seek` moves the file's cursor, which nothing else uses.
        match seek(&self.0, SeekFrom::Data(at)) {
            Ok(data) => Ok(data),
            Err(Errno::NXIO) => self.length(),
            // Some file systems do not report holes.
            Err(_) => Ok(at),
        }
    }

    fn write_at(&self, source: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(source, at)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fdatasync(&self.0)?)
    }

    fn start_write_back(&self, at: u64, length: u64) {
        let (Ok(at), Ok(length)) = (i64::try_from(at), i64::try_from(length)) else { return };
        start_write_back(&self.0, at, length);
    }

    fn forget(&self, at: u64, length: u64) {
        // Only a hint: pages that stay are dropped when the kernel needs the memory.
        let _ = fadvise(&self.0, at, NonZeroU64::new(length), Advice::DontNeed);
    }

    fn will_need(&self, at: u64, length: u64) {
        // Only a hint: a reader of the range reads it anyway.
        let _ = fadvise(&self.0, at, NonZeroU64::new(length), Advice::WillNeed);
    }

    fn zero(&self, at: u64, length: u64) -> io::Result<()> {
        if length == 0 || self.is_zero(at, length)? {
            return Ok(());
        }
        let keep = FallocateFlags::KEEP_SIZE;
        if fallocate(&self.0, FallocateFlags::ZERO_RANGE | keep, at, length).is_ok() {
            return Ok(());
        }
        if fallocate(&self.0, FallocateFlags::PUNCH_HOLE | keep, at, length).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; 1 << 20];
        let mut done = 0;
        while done < length {
            let step = usize::try_from(length - done).map_or(zeros.len(), |left| left.min(zeros.len()));
            self.0.write_all_at(&zeros[..step], at + done)?;
            done += step as u64;
        }
        Ok(())
    }

    fn write_zeros(&self, at: u64, length: u64) -> io::Result<()> {
        let zeros = AlignedZeros::new();
        let whole = length - length % PAGE_BYTES;
        let mut done = 0;
        if at.is_multiple_of(PAGE_BYTES)
            && let Ok(direct) = self.open_direct()
        {
            while done < whole {
                match direct.write_at(zeros.up_to(whole - done), at + done) {
                    Ok(count) => done += count as u64,
                    // The file system demands another alignment for direct writes; fall back to normal ones.
                    Err(error) if error.kind() == ErrorKind::InvalidInput => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        while done < length {
            let step = zeros.up_to(length - done);
            self.0.write_all_at(step, at + done)?;
            done += step.len() as u64;
        }
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

impl RealFile {
    /// Opens the same file for direct writes, which bypass the page cache. Not every file system supports them.
    fn open_direct(&self) -> io::Result<File> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        File::options().write(true).custom_flags(flags).open(path)
    }

    /// Whether a range already reads as zeros, according to the file's holes. True for most ranges of most files, and
    /// much cheaper than zeroing them. Returns false if the holes do not tell.
    fn is_zero(&self, at: u64, length: u64) -> io::Result<bool> {
        const BLOCK_BYTES: u64 = 4096;
        let (end, block_end) = (at + length, (at + 1).next_multiple_of(BLOCK_BYTES));
        let mut head = [0; 4096];
        let head = &mut head[..usize::try_from(block_end.min(end) - at).unwrap_or(0)];
        self.0.read_exact_at(head, at)?;
        if head.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        // `seek` moves the file's cursor, which nothing else uses.
        match seek(&self.0, SeekFrom::Data(block_end)) {
            _ if block_end >= end => Ok(true),
            Ok(data) => Ok(data >= end),
            Err(Errno::NXIO) => Ok(true),
            Err(_) => Ok(false),
        }
    }
}

/// Zeros in page-aligned memory, as direct writes demand.
struct AlignedZeros {
    bytes: Vec<u8>,
    first: usize,
}

impl AlignedZeros {
    /// Bytes of a write. Other writes to the same file wait until the write ends.
    const BYTES: usize = 1 << 20;

    fn new() -> Self {
        let bytes = vec![0; Self::BYTES + PAGE_BYTES as usize];
        let first = bytes.as_ptr().align_offset(PAGE_BYTES as usize);
        assert!(first < PAGE_BYTES as usize, "there is a page's start in every page's length");
        Self { bytes, first }
    }

    fn up_to(&self, length: u64) -> &[u8] {
        let length = usize::try_from(length).map_or(Self::BYTES, |length| length.min(Self::BYTES));
        &self.bytes[self.first..self.first + length]
    }
}

#[allow(unsafe_code)]
fn start_write_back(file: &File, at: i64, length: i64) {
    const SYNC_FILE_RANGE_WRITE: u32 = 2;
    unsafe extern "C" {
        fn sync_file_range(fd: i32, offset: i64, length: i64, flags: u32) -> i32;
    }
    // SAFETY: the C library's function takes plain integers and touches no memory of ours; the descriptor is
    // open for as long as `file` is borrowed. Its result is not needed: a failed write surfaces in fdatasync.
    unsafe {
        sync_file_range(file.as_raw_fd(), at, length, SYNC_FILE_RANGE_WRITE);
    }
}
