//! How processes of one host meet. Each that wants to be met publishes itself once it has a slot; who wants to reach
//! another asks for that one's slot, and both get the same pair of lanes. The daemon makes everything that is shared, so
//! that no process's descriptors ever enter it, save those that it made itself and gets back after a restart.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::{Client, PEER_FDS_MAX, Request, RequestError, Response};

/// What a process publishes of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Publication {
    /// A number that no other process of this slot has, had or will have.
    pub generation: u64,
    /// Whether peers of the same user may get at its memory: it wants a board and an arena.
    pub shares: bool,
    /// Whether it brings what a daemon that died had made: doorbell, and board and arena if it shares.
    pub brings: bool,
}

/// What a process got to be met with, in this order: doorbell, board, arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PublishGrant {
    /// Whether a board and an arena came.
    pub shares: bool,
}

/// A process that was met, and which descriptors came, in this order: pair, doorbell, bell, process, board and arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerGrant {
    /// What it gave as its generation.
    pub generation: u64,
    /// Whether the peer rings something else than the doorbell that all ring.
    pub has_bell: bool,
    /// Whether a descriptor of the process came.
    pub has_process: bool,
    /// Whether it shares memory with us: board and arena came.
    pub shares: bool,
}

/// What a process is met with.
#[derive(Debug)]
pub struct Published {
    /// What wakes it.
    pub doorbell: OwnedFd,
    /// Memory for its board and its arena.
    pub shared: Option<(OwnedFd, OwnedFd)>,
}

/// A process that was met.
#[derive(Debug)]
pub struct PeerMet {
    /// What it gave as its generation.
    pub generation: u64,
    /// The pair of lanes.
    pub pair: OwnedFd,
    /// What wakes it.
    pub doorbell: OwnedFd,
    /// What it wakes us by, if not by our doorbell.
    pub bell: Option<OwnedFd>,
    /// The process.
    pub process: Option<OwnedFd>,
    /// Its board and its arena.
    pub shared: Option<(OwnedFd, OwnedFd)>,
}

impl Client {
    /// Lets other processes meet this one, which has a slot. `shares`: those of the same user may get at its memory; only
    /// a daemon that is trusted with that memory is to be asked so.
    pub fn publish(&mut self, generation: u64, shares: bool) -> Result<Published, RequestError> {
        let request = Request::Publish(Publication { generation, shares, brings: false });
        let (Response::Published(grant), fds) = self.exchange(request, &[], PEER_FDS_MAX)? else {
            return Err(RequestError::Protocol);
        };
        let mut fds = Descriptors(fds.into_iter());
        Ok(Published { doorbell: fds.take()?, shared: fds.pair_if(grant.shares)? })
    }

    /// The same to a daemon that took the place of the one that made what there is.
    pub fn publish_again(&mut self, generation: u64, published: &Published) -> Result<(), RequestError> {
        let shares = published.shared.is_some();
        let request = Request::Publish(Publication { generation, shares, brings: true });
        let mut fds = vec![published.doorbell.as_fd()];
        fds.extend(published.shared.iter().flat_map(|(board, arena)| [board.as_fd(), arena.as_fd()]));
        match self.exchange(request, &fds, PEER_FDS_MAX)? {
            (Response::Published(_), _) => Ok(()),
            _ => Err(RequestError::Protocol),
        }
    }

    /// Meets the process that has this slot; `None` if it cannot be met. `pair` is the pair that a daemon which died had
    /// made, if the peer has not come to it.
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
            // It left before its descriptors did.
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
