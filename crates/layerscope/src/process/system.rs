//! What this process occupies and what the disk still holds, as the system counts it.

/// A line of `/proc/self/status`, in bytes; None where the system has no such file.
fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// Resident memory now.
pub fn resident() -> Option<u64> {
    status("VmRSS")
}

/// The most resident memory there ever was.
pub fn peak() -> Option<u64> {
    status("VmHWM")
}

/// Memory that this process may still take: what the machine has left, or its control group allows; None if the system does not say.
pub fn available() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = machine.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024;
    let of_group = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/memory.{name}")).ok()?.trim().parse::<u64>().ok();
    let allowed = of_group("max").zip(of_group("current")).map(|(most, now)| most.saturating_sub(now));
    Some(free.min(allowed.unwrap_or(u64::MAX)))
}

/// What this process may well occupy: what it does, and half of what it may still take; None if the system does not say.
pub fn at_hand() -> Option<u64> {
    Some(resident()? + available()? / 2)
}

/// Gives memory that was freed back to the system, so that [`resident`] says what is in use.
pub fn release_freed() {
    // SAFETY: malloc_trim takes a number and touches only the allocator's own lists, under its lock.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes an ordinary user can still write where `path` lies; None if the system does not say.
#[cfg(unix)]
pub fn free_disk(path: &std::path::Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte, and the structure is read only after the call filled it.
    let found = unsafe {
        if libc::statvfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    Some(found.f_bavail as u64 * found.f_frsize as u64)
}

/// Bytes an ordinary user can still write where `path` lies: not known there.
#[cfg(not(unix))]
pub fn free_disk(_path: &std::path::Path) -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_memory_and_disk() {
        release_freed();
        assert!(at_hand().is_some_and(|bytes| bytes > 100_000));
        assert!(resident().expect("memory") > 100_000 && peak().expect("memory") >= 100_000);
        assert!(available().expect("memory") > 1_000_000);
        assert!(free_disk(&std::env::temp_dir()).is_some());
        assert!(free_disk("/no/such/place".as_ref()).is_none());
    }
}
