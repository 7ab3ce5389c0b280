//! Describes a machine: processors, memory, disk, network cards.

use super::process;
use crate::archive::{HostFile, is_virtual};
use procfs::{Current, CurrentSI};
use std::path::{Path, PathBuf};

/// Describes this machine. `store` is a directory on the disk of interest, `pid` the process of the broker.
pub fn host(name: &str, store: &Path, pid: Option<i32>) -> HostFile {
    let cpu_model = procfs::CpuInfo::current()
        .ok()
        .and_then(|cpus| cpus.model_name(0).map(str::to_owned))
        .unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let mount = mount_of(store);
    let (disk, filesystem) = mount.map_or_else(Default::default, |mount| (mount.device, mount.filesystem));
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    HostFile {
        name: name.to_owned(),
        cpu_model,
        cores: procfs::KernelStats::current().map_or(cores, |stat| stat.cpu_time.len() as u32),
        cores_allowed: process::cores_allowed(pid.unwrap_or(own)),
        memory_bytes: procfs::Meminfo::current().map_or(0, |memory| memory.mem_total),
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        disk_rotational: rotational(&disk),
        disk,
        filesystem,
        tells_pressure: Some(Path::new("/proc/pressure/io").exists()),
        nics: nics(),
        roofline: None,
        beaten: Vec::new(),
    }
}

/// The host name of this machine.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Name in `/proc/diskstats` of the device that holds a directory; empty when there is none, as for a file system in
/// memory.
pub fn device_of(store: &Path) -> String {
    mount_of(store).map_or_else(String::new, |mount| mount.device)
}

/// The directory whose disk is observed, from the store path that the broker reports and the broker's process. Without
/// a broker on this machine it is any directory. Empty for a broker that reports no path, or a path that does not exist
/// here, because the figures of another disk would be taken for the broker's.
pub fn store_of(configured: Option<PathBuf>, pid: Option<i32>) -> PathBuf {
    let Some(configured) = configured else { return std::env::current_dir().unwrap_or_else(|_| "/".into()) };
    let absolute = || {
        if configured.is_absolute() || configured.as_os_str().is_empty() {
            return Some(configured);
        }
        // A relative path begins at the working directory of the broker's process.
        Some(procfs::process::Process::new(pid?).ok()?.cwd().ok()?.join(configured))
    };
    let is_there = |path: &PathBuf| {
        !std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    absolute().filter(is_there).unwrap_or_default()
}

struct Mount {
    device: String,
    filesystem: String,
}

/// The mounted file system that holds a path: the one with the longest mount point above it.
fn mount_of(path: &Path) -> Option<Mount> {
    // A path that only its owner may enter cannot be resolved and is used as written.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mounts = procfs::process::Process::myself().ok()?.mountinfo().ok()?;
    let above = mounts.into_iter().filter(|mount| path.starts_with(&mount.mount_point));
    let mount = above.max_by_key(|mount| mount.mount_point.as_os_str().len())?;
    let disks = procfs::diskstats().ok()?;
    let named = |disk: &&procfs::DiskStat| format!("{}:{}", disk.major, disk.minor) == mount.majmin;
    let device = disks.iter().find(named).map_or_else(String::new, |disk| disk.name.clone());
    Some(Mount { device, filesystem: mount.fs_type })
}

/// Whether the disk of a device, or of the partition that it is, spins; `None` when unknown.
fn rotational(device: &str) -> Option<bool> {
    if device.is_empty() {
        return None;
    }
    let directory = PathBuf::from("/sys/class/block").join(device).canonicalize().ok()?;
    let own = read(directory.join("queue/rotational"));
    let whole = own.or_else(|| read(directory.parent()?.join("queue/rotational")))?;
    Some(whole == "1").filter(|spins| !*spins || !is_virtual(device))
}

fn nics() -> std::collections::BTreeMap<String, Option<u64>> {
    let interfaces = procfs::net::dev_status().unwrap_or_default();
    let speed = |name: &str| read(format!("/sys/class/net/{name}/speed"))?.parse().ok();
    let cards = cards(interfaces.keys().map(String::as_str));
    cards.into_iter().map(|name| (name.clone(), speed(&name))).collect()
}

/// The network interfaces through which bytes leave the machine; see [`cards_below`].
pub(super) fn cards<'a>(interfaces: impl Iterator<Item = &'a str>) -> Vec<String> {
    cards_below(Path::new("/sys/class/net"), interfaces)
}

/// The interfaces with a device, with bonds in place of the interfaces that they bundle. Every byte passes exactly one
/// of these; bridges, tunnels and container interfaces only forward what a card carries. When no interface has a
/// device, as in a container, all interfaces except loopback.
pub(super) fn cards_below<'a>(root: &Path, interfaces: impl Iterator<Item = &'a str>) -> Vec<String> {
    let outward: Vec<&str> = interfaces.filter(|name| *name != "lo").collect();
    let has = |name: &&str, what: &str| root.join(name).join(what).exists();
    // The virtual functions of a card are enslaved to an interface that has a device itself.
    let is_bound = |name: &&str| has(name, "master/bonding") || has(name, "master/device");
    let is_card = |name: &&str| has(name, "bonding") || (has(name, "device") && !is_bound(name));
    let cards: Vec<&str> = outward.iter().copied().filter(is_card).collect();
    let counted = if cards.is_empty() { outward } else { cards };
    counted.into_iter().map(str::to_owned).collect()
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
