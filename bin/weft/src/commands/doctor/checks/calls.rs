//! System calls that Weft uses and that sandboxes refuse.

use weft_sys::probe::Probe;

use crate::commands::doctor::machine::Machine;
use crate::commands::doctor::report::Finding;

/// Memory files, which hold everything that two processes share.
pub fn memory_files(machine: &dyn Machine) -> Vec<Finding> {
    match machine.attempt(Probe::MemoryFile) {
        Ok(()) => vec![Finding::well("memory files (memfd_create) are allowed")],
        Err(error) => vec![Finding::error(
            format!("memfd_create is refused ({}): the daemon cannot start", crate::errno::text(&error)),
            "allow memfd_create in the sandbox's seccomp filter",
        )],
    }
}

/// Copies between two processes' memory.
pub fn copies(machine: &dyn Machine) -> Vec<Finding> {
    if let Err(error) = machine.attempt(Probe::ReadProcess) {
        return vec![Finding::warning(
            format!(
                "process_vm_readv is refused ({}): data within the host takes two copies where pages are not shared",
                crate::errno::text(&error)
            ),
            "allow process_vm_readv and process_vm_writev in the sandbox's seccomp filter (docker: --cap-add SYS_PTRACE)",
        )];
    }
    let scope = machine.read("/proc/sys/kernel/yama/ptrace_scope");
    match scope.as_deref().map(str::trim) {
        None | Some("0") => vec![Finding::well("processes of one user may copy from each other")],
        Some(scope) => vec![Finding::note(format!(
            "kernel.yama.ptrace_scope={scope}: programs of an ordinary user take two copies where pages are not shared; \
             `sysctl -w kernel.yama.ptrace_scope=0` as root allows one"
        ))],
    }
}

/// The guard under which pages become shared while other threads run.
pub fn sharing(machine: &dyn Machine) -> Vec<Finding> {
    if let Err(error) = machine.attempt(Probe::UserFaults) {
        return vec![Finding::note(format!(
            "userfaultfd is refused ({}): pages of programs with threads are not shared, and copies are the kernel's",
            crate::errno::text(&error)
        ))];
    }
    let all = machine.user() == 0
        || machine.read("/proc/sys/vm/unprivileged_userfaultfd").is_some_and(|value| value.trim() == "1")
        || machine.may_use("/dev/userfaultfd");
    if all {
        return vec![Finding::well("userfaultfd guards pages while they become shared")];
    }
    vec![Finding::note(
        "vm.unprivileged_userfaultfd=0: pages of an ordinary user's programs with threads are not shared, and copies \
         are the kernel's; `sysctl -w vm.unprivileged_userfaultfd=1` as root allows it",
    )]
}
