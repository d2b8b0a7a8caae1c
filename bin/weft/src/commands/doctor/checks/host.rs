//! The kernel and the limits of this user's processes.

use crate::commands::doctor::machine::Machine;
use crate::commands::doctor::report::Finding;

/// Oldest kernel that Weft supports.
const KERNEL_MIN: (u32, u32) = (5, 10);
/// First kernel whose userfaultfd guards shared pages (minor faults of shmem).
const KERNEL_GUARDED: (u32, u32) = (5, 14);

/// Open files that a program with a few hundred connections needs: sockets, key directories of its peers, channels.
const DESCRIPTORS_WANTED: u64 = 1024;

/// Locked memory below which programs that check the limit themselves warn.
const LOCKED_BYTES_WANTED: u64 = 64 << 20;

/// The kernel's version.
pub fn kernel(machine: &dyn Machine) -> Vec<Finding> {
    let release = machine.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let finding = match version_of(release) {
        None => Finding::note(format!("version unknown ({release:?}); Weft needs Linux 5.10 or newer")),
        Some(version) if version < KERNEL_MIN => {
            Finding::error(format!("Linux {release}; Weft needs 5.10 or newer"), "boot a newer kernel")
        }
        Some(version) if version < KERNEL_GUARDED => Finding::note(format!(
            "Linux {release}; from 5.14 on, pages of programs with threads can be shared at deregistration, too"
        )),
        Some(_) => Finding::well(format!("Linux {release}")),
    };
    vec![finding]
}

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The limits of open files and of locked memory.
pub fn limits(machine: &dyn Machine) -> Vec<Finding> {
    let mut findings = Vec::new();
    let descriptors = machine.descriptors_max();
    if descriptors < DESCRIPTORS_WANTED {
        findings.push(Finding::warning(
            format!("{descriptors} open files; programs with many connections need more"),
            "`ulimit -n $(ulimit -Hn)`; LimitNOFILE= in a unit raises the hard limit",
        ));
    } else {
        findings.push(Finding::well(format!("{} open files", counted(descriptors))));
    }
    let locked = machine.locked_bytes_max();
    if locked < LOCKED_BYTES_WANTED {
        findings.push(Finding::note(format!(
            "{} KiB of locked memory: Weft locks none, but programs may check the limit (`ulimit -l unlimited`)",
            locked >> 10
        )));
    }
    findings
}

fn counted(number: u64) -> String {
    if number == u64::MAX { "unlimited".to_owned() } else { number.to_string() }
}
