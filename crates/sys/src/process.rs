//! Properties of this process, its namespaces and its limits.

use std::io;

use rustix::process::{Resource, Rlimit};

/// The UID that stands for every user without a mapping in this user namespace.
pub const OVERFLOW_UID: u32 = 65534;

/// Returns the effective UID.
pub fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns a number that every library of this process computes alike, and hardly another process: a hash of its ID and of
/// the random bytes that execve(2) gave it.
pub fn identity() -> u64 {
    use std::hash::{DefaultHasher, Hasher as _};
    // SAFETY: reads the auxiliary vector, which every process has.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const [u8; 16];
    let mut hasher = DefaultHasher::new();
    hasher.write_u32(std::process::id());
    // SAFETY: null, or the address of 16 bytes that the kernel put on the stack, which stay as they are.
    if let Some(random) = unsafe { random.as_ref() } {
        hasher.write(random);
    }
    hasher.finish()
}

/// Whether our effective UID belongs to us alone. It does not if it is the overflow UID in a user namespace that maps
/// no user to it: all unmapped users then share it.
pub fn euid_is_ours_alone() -> bool {
    euid() != OVERFLOW_UID || has_other_users()
}

/// Whether our user namespace has users beside us: one that an ordinary user makes without help maps that user alone, and
/// not [`OVERFLOW_UID`], which the namespaces of containers and of the machine map.
pub fn has_other_users() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_overflow_uid(&map))
}

fn maps_overflow_uid(map: &str) -> bool {
    map.lines().any(|line| {
        let mut columns = line.split_ascii_whitespace().map(|column| column.parse::<u64>().unwrap_or(u64::MAX));
        let (inside, _outside, count) = (columns.next(), columns.next(), columns.next());
        matches!((inside, count), (Some(inside), Some(count))
            if inside <= u64::from(OVERFLOW_UID) && u64::from(OVERFLOW_UID) - inside < count)
    })
}

/// Whether every user of the machine has a distinct UID in our user namespace. If not, [`OVERFLOW_UID`] may be any
/// user, including root.
pub fn tells_users_apart() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_everybody(&map))
}

fn maps_everybody(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns the start time of a process, in clock ticks since boot. Together with the PID it identifies one process.
pub fn start_time(pid: u32) -> Option<u64> {
    start_time_in(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn start_time_in(stat: &str) -> Option<u64> {
    // The program's name, in parentheses, may contain any byte; field 22 is the 20th after it.
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether executing this program gave it rights that its caller lacks (set-user-ID, file capabilities): then the
/// environment must not be trusted.
pub fn gained_privilege() -> bool {
    // SAFETY: getauxval reads the auxiliary vector; the call passes no pointers.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Number of descriptors that a service wants to open.
const DESCRIPTORS_WANTED: u64 = 1 << 16;

/// Raises the soft limit of open descriptors to the hard limit, and, if permitted, the hard limit to a service's needs;
/// returns the new limit.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raise_to =
        |maximum| rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map(|()| maximum);
    let wanted = limit.maximum.map(|hard| hard.max(DESCRIPTORS_WANTED));
    if wanted != limit.maximum && raise_to(wanted).is_ok() {
        return Ok(wanted.unwrap_or(u64::MAX));
    }
    if limit.current != limit.maximum {
        raise_to(limit.maximum)?;
    }
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Returns the index of an interface of this network namespace.
pub fn interface_index(name: &str) -> std::io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: the name ends in a NUL and lives across the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(std::io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Returns a value that identifies this network namespace within this boot: it stays the same while the namespace
/// lives.
pub fn network_namespace_identity() -> u64 {
    use std::hash::{Hash, Hasher};
    use std::os::unix::fs::MetadataExt;
    // Fixed keys: the same value everywhere in this boot.
    let mut hasher = std::hash::DefaultHasher::new();
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().hash(&mut hasher);
    std::fs::metadata("/proc/thread-self/ns/net").map(|meta| meta.ino()).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// Asks the scheduler for short time slices: this process then runs soon after it is woken, with the same share of the
/// processor. Kernels before 6.12 ignore it.
pub fn prefer_short_slices() {
    const SLICE_NS: u64 = 100_000;
    // SAFETY: all bytes of the structure may be zero.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: reads the caller's own attributes into, or sets them from, a structure of the given size.
    unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, attributes.size, 0) == 0 {
            attributes.sched_runtime = SLICE_NS;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_its_number_and_its_start() {
        let stat = "4711 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987 20";
        assert_eq!(start_time_in(stat), Some(987));
        assert_eq!(start_time_in("4711 (a"), None);
        assert!(start_time(std::process::id()).is_some());
    }

    #[test]
    fn one_user_in_a_namespace_of_his_own_tells_nobody_apart() {
        assert!(maps_everybody("         0          0 4294967295\n"));
        assert!(!maps_everybody("      1000       1000          1\n"));
        assert!(!maps_everybody("     65534      65534          1\n"));
    }

    #[test]
    fn overflow_number_is_ours_only_if_mapped() {
        assert!(maps_overflow_uid("         0          0 4294967295\n"));
        assert!(!maps_overflow_uid("         0       1000          1\n"));
        assert!(!maps_overflow_uid(""));
        assert!(maps_overflow_uid("65534 1000 1\n"));
    }
}
