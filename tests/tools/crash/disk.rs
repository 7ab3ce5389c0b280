//! A file system on a loop device whose power can be cut.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::os;
use crate::common::random::Random;

const IMAGE_BYTES: u64 = 3 << 30;
const PAGE: u64 = 4096;
/// Around the end of the log: what may be unwritten before it, and what no answer has told of yet.
const BEFORE_END: u64 = 4 << 20;
const AFTER_END: u64 = 1 << 20;
/// Pages tried in each file that is not the log.
const PAGES_OF_OTHERS: u64 = 64;

/// A mounted ext4 in an image file. Everything is undone when dropped.
pub struct LoopDisk {
    device: String,
    mount: PathBuf,
    mounted: bool,
}

impl LoopDisk {
    /// Makes and mounts the file system. Fails where that is not possible: no root, no loop devices.
    pub fn new(home: &Path) -> Result<Self, String> {
        let image = home.join("image");
        let file = File::create(&image).map_err(|error| format!("{}: {error}", image.display()))?;
        file.set_len(IMAGE_BYTES).map_err(|error| format!("{}: {error}", image.display()))?;
        let mount = home.join("mount");
        fs::create_dir_all(&mount).map_err(|error| format!("{}: {error}", mount.display()))?;
        let device = run(Command::new("losetup").args(["-f", "--show"]).arg(&image))?.trim().to_owned();
        let mut disk = Self { device, mount, mounted: false };
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&disk.device))?;
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
        run(Command::new("umount").arg(&self.mount))?;
        self.mounted = false;
        self.mount()
    }

    fn mount(&mut self) -> Result<(), String> {
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

fn run(command: &mut Command) -> Result<String, String> {
    let what = format!("{command:?}");
    let output = command.output().map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// Writes a random part of the dirty pages below `data` to the disk, each page with a chance of `tenths` / 10: near
/// the end of the commit log (at `log_end`) and anywhere in other files. How many pages were tried.
pub fn keep_some_pages(data: &Path, log_end: u64, tenths: u64, random: &mut Random) -> io::Result<u64> {
    let mut kept = 0;
    for path in files(data)? {
        let Ok(file) = File::options().write(true).open(&path) else { continue };
        let length = file.metadata()?.len();
        let (from, to) = match log_base(&path) {
            Some(base) => {
                (log_end.saturating_sub(base + BEFORE_END), (log_end + AFTER_END).saturating_sub(base))
            }
            None => (0, PAGES_OF_OTHERS * PAGE),
        };
        let mut at = from / PAGE * PAGE;
        while at < to.min(length) {
            if random.next() % 10 < tenths {
                os::keep_range(&file, at, PAGE)?;
                kept += 1;
            }
            at += PAGE;
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

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}
