//! The three system calls of the tests that the standard library does not offer.
#![allow(unsafe_code, reason = "signals and fault injection need the kernel; plain integers in and out")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

pub const SIGTERM: i32 = 15;
pub const SIGCONT: i32 = 18;
pub const SIGSTOP: i32 = 19;

/// `FS_IOC_SHUTDOWN`: `_IOR('X', 125, __u32)`.
const SHUTDOWN: u64 = 0x8004_587d;
/// Do not write the journal out first: what was not flushed is gone, as when power fails.
const NO_LOG_FLUSH: u32 = 2;
/// Wait before, start, wait after.
const WRITE_AND_WAIT: u32 = 7;

unsafe extern "C" {
    fn kill(pid: i32, signal: i32) -> i32;
    fn ioctl(fd: i32, request: u64, argument: *const u32) -> i32;
    fn sync_file_range(fd: i32, offset: i64, length: i64, flags: u32) -> i32;
}

fn outcome(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends `signal` to a process we started and have not waited for.
pub fn signal(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: no memory is passed.
    outcome(unsafe { kill(pid, signal) })
}

/// Cuts a mounted file system off its disk: nothing that was not flushed will be there after a new mount.
pub fn cut_power(mount: &File) -> io::Result<()> {
    // SAFETY: the kernel reads four bytes behind the pointer, which live until the call returns.
    outcome(unsafe { ioctl(mount.as_raw_fd(), SHUTDOWN, &NO_LOG_FLUSH) })
}

/// Writes the dirty pages of a range to the disk, not the metadata that leads to them.
pub fn keep_range(file: &File, at: u64, length: u64) -> io::Result<()> {
    let (at, length) = (at.cast_signed(), length.cast_signed());
    // SAFETY: no memory is passed; the descriptor is open while `file` is borrowed.
    outcome(unsafe { sync_file_range(file.as_raw_fd(), at, length, WRITE_AND_WAIT) })
}
