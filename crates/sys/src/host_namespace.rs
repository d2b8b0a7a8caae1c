//! Namespaces of a virtual host: a network and a host name of its own. A process makes them for all hosts one after
//! another; they last as long as a process is in them or a descriptor of them is open.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use crate::namespace::map_own_user;

/// Descriptors of a host's namespaces.
#[derive(Debug)]
pub struct HostNamespaces {
    /// The user namespace that owns the others, if an ordinary user made them.
    pub user: Option<OwnedFd>,
    /// The network namespace.
    pub net: OwnedFd,
    /// The UTS namespace, which has the host name.
    pub uts: OwnedFd,
}

/// Enters a user namespace that owns the namespaces made next, if the process may not make them without one. Returns its
/// descriptor then. The process must be single-threaded.
///
/// # Errors
/// The system lets the process make neither.
pub fn become_owner() -> io::Result<Option<OwnedFd>> {
    if rustix::process::geteuid().is_root() && unshare(UnshareFlags::NEWNET | UnshareFlags::NEWUTS).is_ok() {
        return Ok(None);
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(UnshareFlags::NEWUSER)?;
    map_own_user(uid.as_raw(), gid.as_raw())?;
    Ok(Some(File::open("/proc/self/ns/user")?.into()))
}

/// Moves the process into a new network and a new UTS namespace with this host name. The process must be
/// single-threaded.
///
/// # Errors
/// The process does not own its user namespace, or the system has no room for more namespaces.
pub fn enter_new(name: &str) -> io::Result<(OwnedFd, OwnedFd)> {
    unshare(UnshareFlags::NEWNET | UnshareFlags::NEWUTS)?;
    rustix::system::sethostname(name.as_bytes())?;
    Ok((File::open("/proc/self/ns/net")?.into(), File::open("/proc/self/ns/uts")?.into()))
}

/// Moves the process into the network namespace of a host that it made. The process must be single-threaded.
///
/// # Errors
/// `EINVAL`: the descriptor is no network namespace; `EPERM`: another user's.
pub fn enter_network(network: &OwnedFd) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Moves the process into a host's namespaces, as far as it is not there. The process must be single-threaded.
///
/// # Errors
/// `EPERM`: they belong to another user.
pub fn join(host: &HostNamespaces) -> io::Result<()> {
    // The user namespace first: its owner may enter the others only from there.
    let user = host.user.as_ref().map(|user| (user, LinkNameSpaceType::User, "user"));
    let others = [
        (&host.net, LinkNameSpaceType::Network, "net"),
        (&host.uts, LinkNameSpaceType::HostNameAndNISDomainName, "uts"),
    ];
    for (descriptor, kind, name) in user.into_iter().chain(others) {
        // A user namespace lets no process in that is in it.
        if !is_in(descriptor, name)? {
            rustix::thread::move_into_link_name_space(descriptor.as_fd(), Some(kind))?;
        }
    }
    Ok(())
}

/// Whether the process is in this namespace.
fn is_in(namespace: &OwnedFd, name: &str) -> io::Result<bool> {
    let (wanted, own) = (rustix::fs::fstat(namespace)?, rustix::fs::stat(format!("/proc/self/ns/{name}"))?);
    Ok((wanted.st_dev, wanted.st_ino) == (own.st_dev, own.st_ino))
}

/// Rights that programs of a host have over the namespaces of all hosts, which are the user's own: to administer and
/// watch the network, and to run programs as other hosts (setns(2)).
const RIGHTS: [CapabilitySet; 4] =
    [CapabilitySet::NET_ADMIN, CapabilitySet::NET_RAW, CapabilitySet::NET_BIND_SERVICE, CapabilitySet::SYS_ADMIN];

/// Keeps the user's rights over the hosts' namespaces for the programs that this process becomes. Without a user
/// namespace, the process has or lacks them as it is.
///
/// # Errors
/// The process has not entered the host's namespaces.
pub fn keep_rights() -> io::Result<()> {
    let rights = RIGHTS.into_iter().collect();
    let mut sets = capabilities(None)?;
    if !sets.permitted.contains(rights) {
        return Ok(());
    }
    sets.inheritable |= rights;
    set_capabilities(None, sets)?;
    for right in RIGHTS {
        configure_capability_in_ambient_set(right, true)?;
    }
    Ok(())
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: none of the flags unshares the file descriptor table, which is what could break others' assumptions.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// The process's host name, as its UTS namespace has it.
///
/// # Errors
/// /proc is not mounted.
pub fn host_name() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/hostname")?.trim_end().to_owned())
}
