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

/// What this process may well occupy: what it does, and half of what the system can still give; what it does where the system does not say.
pub fn at_hand() -> u64 {
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:").map(str::to_owned))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    resident().unwrap_or(0) + free.unwrap_or(0) * 1024 / 2
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_memory_and_disk() {
        release_freed();
        assert!(at_hand() > 100_000);
        assert!(resident().expect("memory") > 100_000 && peak().expect("memory") >= 100_000);
        assert!(free_disk(&std::env::temp_dir()).is_some());
        assert!(free_disk("/no/such/place".as_ref()).is_none());
    }
}
