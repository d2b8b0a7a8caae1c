//! Direct connections between processes of one host. A process that accepts them publishes itself once it has a slot; a
//! process that wants one asks for the other's slot, and both get the same pair of rings. The daemon makes everything
//! that the two share, so that no process's descriptors ever enter it, except those that it made and gets back after a
//! restart.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::{Client, PEER_FDS_MAX, Request, RequestError, Response};

/// A process's offer to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Publication {
    /// Number that no other process of this slot ever has.
    pub generation: u64,
    /// Whether peers of the same user may access its memory: it needs a key directory and an arena.
    pub shares: bool,
    /// Whether it brings back what a dead daemon made: doorbell, and key directory and arena if it shares memory.
    pub brings: bool,
}

/// Reply to a publication. Descriptors come in this order: doorbell, key directory, arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PublishGrant {
    /// Whether a key directory and an arena came.
    pub shares: bool,
}

/// A connected peer. Descriptors come in this order: pair, doorbell, bell, process, key directory and arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerGrant {
    /// Generation that the peer published.
    pub generation: u64,
    /// Whether the peer rings this process by a bell of its own instead of the common doorbell.
    pub has_bell: bool,
    /// Whether a descriptor of the process (pidfd) came.
    pub has_process: bool,
    /// Whether it shares memory with this process: key directory and arena came.
    pub shares: bool,
}

/// A process's own descriptors for peers to connect with.
#[derive(Debug)]
pub struct Published {
    /// Doorbell that wakes this process.
    pub doorbell: OwnedFd,
    /// Memory for the key directory and the arena.
    pub shared: Option<(OwnedFd, OwnedFd)>,
}

/// A connected peer process.
#[derive(Debug)]
pub struct PeerMet {
    /// Generation that the peer published.
    pub generation: u64,
    /// The pair of rings.
    pub pair: OwnedFd,
    /// Doorbell that wakes the peer.
    pub doorbell: OwnedFd,
    /// Bell by which the peer wakes this process, if not by this process's doorbell.
    pub bell: Option<OwnedFd>,
    /// Descriptor of the process (pidfd).
    pub process: Option<OwnedFd>,
    /// The peer's key directory and arena.
    pub shared: Option<(OwnedFd, OwnedFd)>,
}

impl Client {
    /// Lets other processes connect to this one, which has a slot. `shares`: peers of the same user may access its
    /// memory; ask this only of a daemon that the process trusts with that memory.
    pub fn publish(&mut self, generation: u64, shares: bool) -> Result<Published, RequestError> {
        let request = Request::Publish(Publication { generation, shares, brings: false });
        let (Response::Published(grant), fds) = self.exchange(request, &[], PEER_FDS_MAX)? else {
            return Err(RequestError::Protocol);
        };
        let mut fds = Descriptors(fds.into_iter());
        Ok(Published { doorbell: fds.take()?, shared: fds.pair_if(grant.shares)? })
    }

    /// Publishes again, to the successor of the daemon that made these descriptors.
    pub fn publish_again(&mut self, generation: u64, published: &Published) -> Result<(), RequestError> {
        let shares = published.shared.is_some();
        let request = Request::Publish(Publication { generation, shares, brings: true });
        let mut fds = vec![published.doorbell.as_fd()];
        fds.extend(published.shared.iter().flat_map(|(directory, arena)| [directory.as_fd(), arena.as_fd()]));
        match self.exchange(request, &fds, PEER_FDS_MAX)? {
            (Response::Published(_), _) => Ok(()),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Connects to the process that has this slot; `None` if that is impossible. `pair` is the pair that a dead daemon
    /// had made, if the peer has not picked it up.
    pub fn meet_peer(&mut self, slot: u32, pair: Option<BorrowedFd<'_>>) -> Result<Option<PeerMet>, RequestError> {
        let fds: Vec<BorrowedFd<'_>> = pair.into_iter().collect();
        let (response, fds) = self.exchange(Request::MeetPeer { slot }, &fds, PEER_FDS_MAX)?;
        let grant = match response {
            Response::Peer(Some(grant)) => grant,
            Response::Peer(None) => return Ok(None),
            _ => return Err(RequestError::Protocol),
        };
        let wanted = 2 + usize::from(grant.has_bell) + usize::from(grant.has_process) + 2 * usize::from(grant.shares);
        if fds.len() != wanted {
            // The peer left before its descriptors did.
            return Ok(None);
        }
        let mut fds = Descriptors(fds.into_iter());
        Ok(Some(PeerMet {
            generation: grant.generation,
            pair: fds.take()?,
            doorbell: fds.take()?,
            bell: fds.take_if(grant.has_bell)?,
            process: fds.take_if(grant.has_process)?,
            shared: fds.pair_if(grant.shares)?,
        }))
    }
}

/// Descriptors in the order in which they came.
struct Descriptors(std::vec::IntoIter<OwnedFd>);

impl Descriptors {
    fn take(&mut self) -> Result<OwnedFd, RequestError> {
        self.0.next().ok_or(RequestError::Protocol)
    }

    fn take_if(&mut self, wanted: bool) -> Result<Option<OwnedFd>, RequestError> {
        wanted.then(|| self.take()).transpose()
    }

    fn pair_if(&mut self, wanted: bool) -> Result<Option<(OwnedFd, OwnedFd)>, RequestError> {
        wanted.then(|| Ok((self.take()?, self.take()?))).transpose()
    }
}
