//! File systems on loop devices, whose power can be cut.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::os;
use super::random::Random;

const PAGE: u64 = 4096;
/// Around the end of the log: what may be unwritten before it, and what no answer has told of yet.
const BEFORE_END: u64 = 4 << 20;
const AFTER_END: u64 = 1 << 20;
/// Pages tried at the start of each file that is not the log, and anywhere in it.
const PAGES_OF_OTHERS: u64 = 64;

/// The file systems whose power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileSystem {
    Ext4,
    Xfs,
}

impl FileSystem {
    /// Makes an empty one on `device`, a device or a file.
    pub fn make(self, device: &Path) -> Result<(), String> {
        let mut command = match self {
            Self::Ext4 => Command::new("mkfs.ext4"),
            Self::Xfs => Command::new("mkfs.xfs"),
        };
        match self {
            // Complete at once, so that no kernel thread goes on making it.
            Self::Ext4 => command.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
            Self::Xfs => command.args(["-q", "-f"]),
        };
        run(command.arg(device)).map(drop)
    }
}

/// A mounted file system in an image file. Everything is undone when dropped.
pub struct LoopDisk {
    device: String,
    mount: PathBuf,
    mounted: bool,
}

impl LoopDisk {
    /// Makes a file system of `bytes` in an image file in `home` and mounts it there. Fails where that is not possible:
    /// no root, no loop devices.
    pub fn new(home: &Path, kind: FileSystem, bytes: u64) -> Result<Self, String> {
        let image = home.join("image");
        let file = File::create(&image).map_err(|error| format!("{}: {error}", image.display()))?;
        file.set_len(bytes).map_err(|error| format!("{}: {error}", image.display()))?;
        kind.make(&image)?;
        Self::attach(&image, home)
    }

    /// Mounts the file system in the file `image` in `home`.
    pub fn attach(image: &Path, home: &Path) -> Result<Self, String> {
        let mount = home.join("mount");
        fs::create_dir_all(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
        let device = run(Command::new("losetup").args(["-f", "--show"]).arg(image))?.trim().to_owned();
        let mut disk = Self { device, mount, mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// The power fails: what was not flushed is gone. Everything answers errors until [`Self::power_up`].
    pub fn cut(&self) -> io::Result<()> {
        os::cut_power(&File::open(&self.mount)?)
    }

    /// Mounts the file system again; nobody may have a file of it open.
    pub fn power_up(&mut self) -> Result<(), String> {
        self.unmount()?;
        self.mount()
    }

    /// Unmounts it; nobody may have a file of it open.
    pub fn unmount(&mut self) -> Result<(), String> {
        run(Command::new("umount").arg(&self.mount))?;
        self.mounted = false;
        Ok(())
    }

    /// Mounts it after [`Self::unmount`].
    pub fn mount(&mut self) -> Result<(), String> {
        run(Command::new("mount").arg(&self.device).arg(&self.mount))?;
        self.mounted = true;
        Ok(())
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Nothing to be done about errors here; the image is deleted with its directory.
        if self.mounted {
            let _ = run(Command::new("umount").arg(&self.mount));
        }
        let _ = run(Command::new("losetup").arg("-d").arg(&self.device));
    }
}

/// Runs a command to its end; its output, or what it said instead.
pub fn run(command: &mut Command) -> Result<String, String> {
    let what = format!("{command:?}");
    let output = command.output().map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// Writes a random part of the dirty pages below `data` to the disk, each page with a chance of `tenths` / 10: near
/// the end of the commit log (at `log_end`), at the start of other files and at random places of them. How many pages
/// were tried.
pub fn keep_some_pages(data: &Path, log_end: u64, tenths: u64, random: &mut Random) -> io::Result<u64> {
    if tenths == 0 {
        return Ok(0);
    }
    let mut kept = 0;
    for path in files(data) {
        // Whatever is gone by now needs no page kept.
        let Ok(file) = File::options().write(true).open(&path) else { continue };
        let length = file.metadata()?.len();
        let (from, to) = match log_base(&path) {
            Some(base) => {
                (log_end.saturating_sub(base + BEFORE_END), (log_end + AFTER_END).saturating_sub(base))
            }
            None => (0, PAGES_OF_OTHERS * PAGE),
        };
        let mut pages: Vec<u64> = (from / PAGE..to.min(length).div_ceil(PAGE)).collect();
        if log_base(&path).is_none() && length > to {
            pages.extend((0..PAGES_OF_OTHERS).map(|_| random.within(0, length) / PAGE));
        }
        for page in pages {
            if random.within(0, 10) < tenths {
                os::keep_range(&file, page * PAGE, PAGE)?;
                kept += 1;
            }
        }
    }
    Ok(kept)
}

/// The log offset a commit log file begins at; `None` for other files.
fn log_base(path: &Path) -> Option<u64> {
    let directory = path.parent()?.file_name()?;
    if directory != "commitlog" {
        return None;
    }
    path.file_name()?.to_str()?.parse().ok()
}

/// All files below a directory, as far as they can be listed.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
