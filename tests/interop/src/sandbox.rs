//! Sandboxes: the system calls that containers refuse, as seccomp filters. `weft-sandbox PROFILE CMD ...` enters one and
//! becomes the command.

use anyhow::{Context, Result, bail};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::lab::Lab;

/// A set of refused system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Docker's default profile, for a container with Docker's default capabilities.
    Docker,
    /// That, and everything else that Weft can do without.
    Strict,
}

impl Sandbox {
    /// All of them.
    pub const ALL: [Sandbox; 2] = [Sandbox::Docker, Sandbox::Strict];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Sandbox::Docker => "docker",
            Sandbox::Strict => "strict",
        }
    }

    fn refused(self) -> Vec<i64> {
        match self {
            Sandbox::Docker => DOCKER.to_vec(),
            Sandbox::Strict => [DOCKER, STRICT].concat(),
        }
    }

    /// Lets the kernel refuse the calls to this process and its children, for ever.
    fn enter(self) -> Result<()> {
        let always = |numbers: Vec<i64>| numbers.into_iter().map(|number| (number, Vec::new()));
        let mut refused: BTreeMap<i64, Vec<SeccompRule>> = always(self.refused()).collect();
        refused.insert(libc::SYS_clone, NAMESPACES.iter().map(|flag| with_flag(*flag)).collect::<Result<_>>()?);
        refused.insert(libc::SYS_socket, vec![rule(SeccompCmpOp::Eq, AF_VSOCK)?]);
        // The C library falls back to clone only after ENOSYS.
        for (rules, errno) in [(refused, libc::EPERM), (always(vec![libc::SYS_clone3]).collect(), libc::ENOSYS)] {
            let action = SeccompAction::Errno(errno.cast_unsigned());
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, ARCHITECTURE)?;
            seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?;
        }
        Ok(())
    }
}

/// Copies the command that enters sandboxes, `built`, to a place where the lab's ordinary users may run it.
pub(crate) fn install(lab: &Lab, built: &str) -> Result<PathBuf> {
    let command = lab.file("weft-sandbox");
    std::fs::copy(built, &command).with_context(|| format!("cannot copy {built}"))?;
    Ok(command)
}

/// The command `weft-sandbox`. Returns only if it fails.
pub fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let profile = words.next().unwrap_or_default();
    let sandbox = Sandbox::ALL.into_iter().find(|sandbox| profile == sandbox.name());
    let (Some(sandbox), Some(program)) = (sandbox, words.next()) else {
        bail!("usage: weft-sandbox docker|strict CMD [ARGS]...");
    };
    sandbox.enter().with_context(|| format!("cannot enter the sandbox {}", sandbox.name()))?;
    let arguments: Vec<OsString> = words.collect();
    Err(Command::new(&program).args(arguments).exec()).with_context(|| program.to_string_lossy().into_owned())
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;

const AF_VSOCK: u64 = 40;

/// The flags of clone(2) that make namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

fn with_flag(flag: libc::c_int) -> Result<SeccompRule> {
    let flag = u64::from(flag.cast_unsigned());
    rule(SeccompCmpOp::MaskedEq(flag), flag)
}

fn rule(operator: SeccompCmpOp, value: u64) -> Result<SeccompRule> {
    Ok(SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value)?])?)
}

/// Calls that Docker's default profile refuses with EPERM (profiles/seccomp/default.json of moby 28), beside clone's
/// flags and sockets of VMs.
const DOCKER: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_get_mempolicy,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    // Older profiles allow these.
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
];

/// Calls that Weft uses where it may, and can do without.
const STRICT: &[i64] = &[
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_names_each_call_once() {
        for sandbox in Sandbox::ALL {
            let mut refused = sandbox.refused();
            let count = refused.len();
            refused.sort_unstable();
            refused.dedup();
            assert_eq!(refused.len(), count, "{sandbox:?}");
            assert!(!refused.contains(&libc::SYS_memfd_create), "{sandbox:?}");
        }
    }
}
