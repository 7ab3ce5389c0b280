//! Mounts: on which file system and device a directory is.

use crate::text;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The mount that a directory is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    /// Requested directory.
    pub path: String,
    /// Mount point of the file system.
    pub mounted_at: String,
    /// Device such as `/dev/vda1`, or the source that a file system without a device names, for example `tmpfs` or
    /// `nas:/export`.
    pub device: String,
    /// Type of the file system, for example `ext4`.
    pub file_system: String,
    /// Mount options, separated by commas.
    pub options: String,
    /// The active scheduler of the device. `None` for file systems without a block device, and if
    /// the kernel does not tell.
    pub scheduler: Option<String>,
    /// Whether the device is a rotating disk. `None` if the kernel does not tell.
    pub is_rotational: Option<bool>,
}

impl Mount {
    /// Finds the mount of a directory below the system root `root`; `None` if the mounts or the link of a mapped device
    /// cannot be read.
    pub(crate) fn of(root: &Path, path: &Path) -> Option<Self> {
        let mounts = std::fs::read_to_string(root.join("proc/mounts")).ok()?;
        let mut found = find(&mounts, path)?;
        let queue = block_device_name(&found.device)?;
        if let Some(queue) = queue {
            let queue = root.join("sys/class/block").join(queue);
            // A partition has no queue of its own, its disk has.
            let queue = [queue.join("queue"), queue.join("../queue")].into_iter().find(|path| path.is_dir());
            if let Some(queue) = queue {
                found.scheduler = text::line(&queue.join("scheduler")).map(|text| text::chosen(&text));
                found.is_rotational = text::number(&queue.join("rotational")).map(|number| number == 1);
            }
        }
        Some(found)
    }
}

/// Returns the name of the directory of a block device in `/sys/class/block`. `Some(None)` for a
/// source that is no block device. `None` if the link of a mapped device (`/dev/mapper/NAME`)
/// cannot be read.
fn block_device_name(device: &str) -> Option<Option<String>> {
    let Some(name) = device.strip_prefix("/dev/") else { return Some(None) };
    let name = match name.starts_with("mapper/") {
        true => std::fs::canonicalize(device).ok()?.file_name()?.to_str()?.to_owned(),
        false => name.replace('/', "!"),
    };
    Some(Some(name))
}

/// Returns the mount with the longest mount point above `path`; of several with the same mount point the last, which
/// hides the others. `mounts` is the text of `/proc/mounts`.
fn find(mounts: &str, path: &Path) -> Option<Mount> {
    let mut best: Option<(usize, Mount)> = None;
    for line in mounts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [device, mounted_at, file_system, options, ..] = words[..] else { continue };
        let mounted_at = mounted_at.replace("\\040", " ");
        if !path.starts_with(&mounted_at) {
            continue;
        }
        let depth = Path::new(&mounted_at).components().count();
        if best.as_ref().is_none_or(|(known, _)| depth >= *known) {
            let mount = Mount {
                path: path.display().to_string(),
                mounted_at,
                device: device.to_owned(),
                file_system: file_system.to_owned(),
                options: options.to_owned(),
                ..Mount::default()
            };
            best = Some((depth, mount));
        }
    }
    best.map(|(_, mount)| mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_counts() {
        let mounts = "/dev/vda / ext4 rw,relatime 0 0\n/dev/vdb /data xfs rw,noatime 0 0\nnas:/x /data/far nfs4 rw 0 0\n";
        let of = |path: &str| find(mounts, Path::new(path)).unwrap();
        assert_eq!((of("/home/a").device, of("/home/a").file_system), ("/dev/vda".into(), "ext4".into()));
        assert_eq!(
            (of("/data/store").options, of("/data").mounted_at),
            ("rw,noatime".into(), "/data".into())
        );
        assert_eq!(of("/data/far/store").file_system, "nfs4");
        assert_eq!(of("/database").mounted_at, "/");
        assert_eq!(block_device_name("nas:/x"), Some(None));
        assert_eq!(block_device_name("/dev/vda1"), Some(Some("vda1".into())));
    }
}
