//! A file system on a disk that fails, is slow or hangs when it is told to: image file, nbdkit with its filters, nbdfuse, loop
//! device, ext4.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::disk::{FileSystem, LoopDisk, run};
use super::os;

/// What the disk may suffer from.
#[derive(Clone, Copy, Debug)]
pub enum Sickness {
    /// Writes fail in this share, in percent, while [`SickDisk::fail_writes`] is on; all reads while
    /// [`SickDisk::fail_reads`] is on.
    Errors { writes_percent: u32 },
    /// Every write takes so long.
    Slow { write_ms: u32 },
}

/// A mounted disk that can be made to fail. Everything is undone when dropped.
pub struct SickDisk {
    // Dropped in this order.
    disk: Option<LoopDisk>,
    server: Option<Child>,
    device: PathBuf,
    home: PathBuf,
    bytes: u64,
    sickness: Sickness,
}

impl SickDisk {
    /// Makes an ext4 of `bytes` and mounts it in `home`. Fails where that is not possible.
    pub fn new(home: &Path, bytes: u64, sickness: Sickness) -> Result<Self, String> {
        let image = home.join("image");
        let text = |error: std::io::Error| error.to_string();
        File::create(&image).and_then(|file| file.set_len(bytes)).map_err(text)?;
        FileSystem::Ext4.make(&image)?;
        let device = home.join("device");
        File::create(&device).map_err(text)?;
        let mut sick = Self { disk: None, server: None, device, home: home.to_owned(), bytes, sickness };
        sick.put_in()?;
        Ok(sick)
    }

    /// Starts the chain of programs and mounts what it shows.
    fn put_in(&mut self) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let path = |name: &str| self.home.join(name).display().to_string();
        let mut command = Command::new("nbdfuse");
        command.arg(&self.device).args(["[", "nbdkit", "--exit-with-parent", "-f"]);
        match self.sickness {
            Sickness::Errors { writes_percent } => command.args([
                "--filter=error".to_owned(),
                "file".to_owned(),
                path("image"),
                "error-pwrite=EIO".to_owned(),
                format!("error-pwrite-rate={writes_percent}%"),
                format!("error-pwrite-file={}", path("fail-writes")),
                "error-pread=EIO".to_owned(),
                "error-pread-rate=100%".to_owned(),
                format!("error-pread-file={}", path("fail-reads")),
            ]),
            Sickness::Slow { write_ms } => command.args([
                "--filter=delay".to_owned(),
                "file".to_owned(),
                path("image"),
                format!("wdelay={write_ms}ms"),
            ]),
        };
        let output = File::create(self.home.join("nbdkit.log")).map_err(text)?;
        let errors = output.try_clone().map_err(text)?;
        let server = command.arg("]").stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        self.server = Some(server.map_err(|error| format!("nbdfuse: {error}"))?);
        let began = Instant::now();
        while !fs::metadata(&self.device).is_ok_and(|device| device.len() == self.bytes) {
            if began.elapsed() > PATIENCE {
                let said = fs::read_to_string(self.home.join("nbdkit.log")).unwrap_or_default();
                return Err(format!("nbdfuse shows no disk: {}", said.trim()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.disk = Some(LoopDisk::attach(&self.device, &self.home)?);
        Ok(())
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.disk.as_ref().expect("mounted until it is dropped").path()
    }

    /// Whether writes fail from now on.
    pub fn fail_writes(&self, fail: bool) {
        self.switch("fail-writes", fail);
    }

    /// Whether reads of the disk fail from now on.
    pub fn fail_reads(&self, fail: bool) {
        self.switch("fail-reads", fail);
    }

    fn switch(&self, name: &str, on: bool) {
        let path = self.home.join(name);
        let done = if on { File::create(&path).map(drop) } else { fs::remove_file(&path) };
        done.expect("a file of our own");
    }

    /// The disk does not answer any more, or answers again.
    pub fn hang(&self, hang: bool) {
        let server = self.server.as_ref().expect("runs until it is dropped").id();
        let signal = if hang { os::SIGSTOP } else { os::SIGCONT };
        os::signal(server, signal).expect("our own child can be signalled");
        let began = Instant::now();
        while hang && !stands_still(server) {
            assert!(began.elapsed() < PATIENCE, "{server} goes on after SIGSTOP");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Forgets what memory holds of the files, on every level. Nobody may have one open.
    pub fn remount(&mut self) -> Result<(), String> {
        self.take_out();
        self.put_in()
    }

    /// Takes the disk out and mounts what is on it on a disk without faults.
    pub fn healed(mut self) -> Result<LoopDisk, String> {
        self.take_out();
        LoopDisk::attach(&self.home.join("image"), &self.home)
    }

    fn take_out(&mut self) {
        drop(self.disk.take());
        if let Some(mut server) = self.server.take() {
            // Ends nbdfuse, and nbdkit with it. Errors mean that they are gone.
            let _ = run(Command::new("umount").arg(&self.device));
            let began = Instant::now();
            while began.elapsed() < PATIENCE && !matches!(server.try_wait(), Ok(Some(_))) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Drop for SickDisk {
    fn drop(&mut self) {
        self.take_out();
    }
}

/// Whether every thread of a process is stopped; on a busy machine some run on for a while after the signal.
fn stands_still(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("our own child is there");
    tasks.flatten().all(|task| {
        // A thread that is gone does nothing either.
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, after)| after.starts_with('T'))
    })
}
