//! The memory limit of this process.

use std::path::Path;

/// The machine's memory in bytes, or the smallest limit of the process's control groups.
pub fn limit() -> Option<usize> {
    let machine = machine(&std::fs::read_to_string("/proc/meminfo").ok()?);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    [machine, of_groups(&groups, Path::new("/sys/fs/cgroup"))].into_iter().flatten().min()
}

/// Smallest block, in bytes, that the allocator returns to the system as soon as the block is freed.
const RETURNED_BYTES: i32 = 128 << 10;

/// Free bytes that a heap of smaller blocks keeps at its end, so that the heap does not shrink and grow with every response.
const KEPT_BYTES: i32 = 2 << 20;

/// Makes the allocator return large blocks to the system as soon as the blocks are freed. The allocator of glibc starts with this
/// bound of 128 KiB, but raises the bound to the largest freed block. Frames of 16 MiB then lie in heaps that neither shrink nor
/// fit the next load. Called once, before there are other threads.
pub fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a setting of the C library")]
    // SAFETY: mallopt takes two numbers and has no precondition. The function takes no lock, so the caller calls it before other
    // threads allocate. An invalid value leaves the allocator unchanged.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, RETURNED_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

fn machine(text: &str) -> Option<usize> {
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(total.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? << 10)
}

/// The smallest limit of the control groups in `/proc/self/cgroup` (cgroups(7)): of version 2 in the line `0::PATH`, of
/// version 1 in the line of the controller `memory`. A container sees its own group as the root.
fn of_groups(text: &str, mount: &Path) -> Option<usize> {
    let limits = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (mount, file) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                (mount.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let path = Path::new(path.trim_start_matches('/'));
        let limit = |group: &Path| {
            std::fs::read_to_string(mount.join(group).join(file)).ok()?.trim().parse::<usize>().ok()
        };
        path.ancestors().filter_map(limit).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_what_meminfo_says() {
        assert_eq!(machine("MemTotal:       24683520 kB\nMemFree: 1 kB\n"), Some(24_683_520 << 10));
        assert_eq!(machine("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_smallest_limit_of_the_groups_counts() {
        let mount = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = mount.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("a/memory.max", "1073741824\n");
        put("a/b/memory.max", "max\n");
        put("memory/c/memory.limit_in_bytes", "4096\n");
        put("memory/memory.limit_in_bytes", "9223372036854771712\n");
        for (groups, expected) in [
            ("0::/a/b\n", Some(1 << 30)),
            ("0::/a\n", Some(1 << 30)),
            ("0::/\n", None),
            ("0::/elsewhere/b\n", None),
            ("3:cpu,memory:/c\n1:name=systemd:/x\n0::/\n", Some(4096)),
            ("3:memory:/docker/1234\n", Some(9_223_372_036_854_771_712)),
            ("", None),
        ] {
            assert_eq!(of_groups(groups, mount.path()), expected, "{groups}");
        }
    }
}
