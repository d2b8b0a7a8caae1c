//! Requests for direct connections to other processes of the host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Client;
use crate::{PEER_FDS_MAX, PeerMet, Publication, Published, Request, RequestError, Response};

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
