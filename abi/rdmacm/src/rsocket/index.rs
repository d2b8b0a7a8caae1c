//! The index of rsockets by descriptor.

use libc::c_int;
use parking_lot::RwLock;
use std::sync::Arc;

use super::datagram::Datagram;
use super::interests::Interests;
use super::stream::Stream;

/// The object behind a descriptor.
#[derive(Clone)]
pub(crate) enum Rsocket {
    /// SOCK_STREAM.
    Stream(Arc<Stream>),
    /// SOCK_DGRAM.
    Datagram(Arc<Datagram>),
    /// A set of descriptors made by `repoll_create`.
    Interests(Arc<Interests>),
}

static BY_FD: RwLock<Vec<Option<Rsocket>>> = RwLock::new(Vec::new());

/// Adds an rsocket under its own descriptor, whose number is unique while it is open.
pub(crate) fn insert(fd: c_int, rsocket: Rsocket) {
    let Ok(at) = usize::try_from(fd) else { return };
    let mut by_fd = BY_FD.write();
    if by_fd.len() <= at {
        by_fd.resize(at + 1, None);
    }
    by_fd[at] = Some(rsocket);
}

/// Returns the rsocket of a descriptor.
pub(crate) fn find(fd: c_int) -> Option<Rsocket> {
    BY_FD.read().get(usize::try_from(fd).ok()?)?.clone()
}

/// As [`find`]; EBADF if there is none, or it is not a socket.
pub(crate) fn socket(fd: c_int) -> Result<Rsocket, c_int> {
    find(fd).filter(|found| !matches!(found, Rsocket::Interests(_))).ok_or(libc::EBADF)
}

/// Removes an rsocket.
pub(crate) fn remove(fd: c_int) -> Option<Rsocket> {
    BY_FD.write().get_mut(usize::try_from(fd).ok()?)?.take()
}
