//! Files that processes of this host share: each one's publication, and the pairs of rings between connected processes.
//! The daemon makes the files, so that it never has to take in and close an untrusted one; it closes a pair's once both
//! ends have them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use weft_ipc::{PeerGrant, Publication, Refusal};
use weft_link::shm::{DIRECTORY_BYTES, PAIR_BYTES};
use weft_sys::bell::bell;
use weft_sys::event::EventFd;
use weft_sys::{share, shared};

use crate::refusal::{EINVAL, EMFILE, refuse};
use crate::slots::ClientId;

/// Two slots, the lower first.
pub type Slots = (u32, u32);

/// Returns the two slots in order.
pub fn ordered(one: u32, other: u32) -> Slots {
    (one.min(other), one.max(other))
}

/// Publication of a process.
#[derive(Debug)]
struct Published {
    generation: u64,
    doorbell: OwnedFd,
    directory_and_arena: Option<(OwnedFd, OwnedFd)>,
    process: Option<Arc<OwnedFd>>,
}

/// A pair that at least one end has not fetched.
#[derive(Debug)]
struct Pair {
    rings: OwnedFd,
    /// For two users: bells that wake the lower and the higher, each as (to hear, to ring). With the eventfd that one
    /// user's processes share, either user could make the other sleep in a write.
    bells: Option<[(OwnedFd, OwnedFd); 2]>,
}

/// Publications and pairs of all processes.
#[derive(Debug, Default)]
pub struct Pairs {
    processes: BTreeMap<ClientId, Arc<OwnedFd>>,
    published: BTreeMap<u32, Published>,
    pairs: BTreeMap<Slots, Pair>,
}

impl Pairs {
    /// Registers a client's process.
    pub fn enter(&mut self, client: ClientId, process: Option<Arc<OwnedFd>>) {
        self.processes.extend(process.map(|process| (client, process)));
    }

    /// Returns the process of a client, if the kernel reported it.
    pub fn process(&self, client: ClientId) -> Option<Arc<OwnedFd>> {
        self.processes.get(&client).cloned()
    }

    /// Removes a client's process.
    pub fn leave(&mut self, client: ClientId) {
        self.processes.remove(&client);
    }

    /// Makes, or takes back, the files for connections to a process; returns whether it shares memory.
    pub fn publish(
        &mut self,
        client: ClientId,
        slot: u32,
        what: Publication,
        brought: &[OwnedFd],
    ) -> Result<bool, Refusal> {
        let made = if what.brings { take_back(what, brought) } else { make(what) };
        let (doorbell, directory_and_arena) =
            made.map_err(|error| refuse(EMFILE, format!("could not make the files for connections: {error}")))?;
        let process = self.processes.get(&client).cloned();
        let shares = directory_and_arena.is_some();
        self.published.insert(slot, Published { generation: what.generation, doorbell, directory_and_arena, process });
        Ok(shares)
    }

    /// Removes the publication of a slot.
    pub fn unpublish(&mut self, slot: u32) {
        self.published.remove(&slot);
    }

    /// Returns the descriptors for the process itself: doorbell, key directory, arena.
    pub fn own(&self, slot: u32) -> Vec<BorrowedFd<'_>> {
        let Some(published) = self.published.get(&slot) else { return Vec::new() };
        let shared =
            published.directory_and_arena.iter().flat_map(|(directory, arena)| [directory.as_fd(), arena.as_fd()]);
        [published.doorbell.as_fd()].into_iter().chain(shared).collect()
    }

    /// Makes a pair, or takes one back; `most` is the maximum number of pairs.
    pub fn make_pair(
        &mut self,
        slots: Slots,
        same_user: bool,
        brought: Option<&OwnedFd>,
        most: usize,
    ) -> Result<(), Refusal> {
        if self.pairs.len() >= most {
            return Err(refuse(EMFILE, "too many connections between processes are unfinished: try again"));
        }
        let make = || -> io::Result<Pair> {
            let rings = match brought {
                Some(pair) if shared::is_sealed(pair, PAIR_BYTES) => pair.try_clone()?,
                _ => shared::create_file("weft-pair", PAIR_BYTES)?.into(),
            };
            let bells = if same_user { None } else { Some([bell()?, bell()?]) };
            Ok(Pair { rings, bells })
        };
        let pair = make().map_err(|error| refuse(EMFILE, format!("could not make the rings: {error}")))?;
        self.pairs.insert(slots, pair);
        Ok(())
    }

    /// Removes a pair that both ends have, or that lost an end.
    pub fn forget_pair(&mut self, slots: Slots) {
        self.pairs.remove(&slots);
    }

    /// Returns the reply about the pair of `own` and `peer`.
    pub fn grant(&self, own: u32, peer: u32) -> Option<PeerGrant> {
        let (pair, ours, theirs) = self.meeting(own, peer)?;
        Some(PeerGrant {
            generation: theirs.generation,
            has_bell: pair.bells.is_some(),
            has_process: theirs.process.is_some(),
            shares: share_with(pair, ours, theirs).is_some(),
        })
    }

    /// Returns the descriptors of that reply: pair, doorbell, bell, process, key directory, arena.
    pub fn descriptors(&self, own: u32, peer: u32) -> Vec<BorrowedFd<'_>> {
        let Some((pair, ours, theirs)) = self.meeting(own, peer) else { return Vec::new() };
        let mut fds = vec![pair.rings.as_fd()];
        match &pair.bells {
            None => fds.push(theirs.doorbell.as_fd()),
            Some([lower, higher]) => {
                let (to_peer, to_us) = if own < peer { (higher, lower) } else { (lower, higher) };
                fds.extend([to_peer.1.as_fd(), to_us.0.as_fd()]);
            }
        }
        fds.extend(theirs.process.as_ref().map(|process| process.as_fd()));
        fds.extend(
            share_with(pair, ours, theirs)
                .into_iter()
                .flat_map(|(directory, arena)| [directory.as_fd(), arena.as_fd()]),
        );
        fds
    }

    fn meeting(&self, own: u32, peer: u32) -> Option<(&Pair, &Published, &Published)> {
        Some((self.pairs.get(&ordered(own, peer))?, self.published.get(&own)?, self.published.get(&peer)?))
    }
}

/// Returns the peer's key directory and arena, if both processes belong to one user and both share memory.
fn share_with<'a>(pair: &Pair, ours: &Published, theirs: &'a Published) -> Option<&'a (OwnedFd, OwnedFd)> {
    theirs.directory_and_arena.as_ref().filter(|_| pair.bells.is_none() && ours.directory_and_arena.is_some())
}

type Made = (OwnedFd, Option<(OwnedFd, OwnedFd)>);

fn make(what: Publication) -> io::Result<Made> {
    // A published process without rings would be unreachable; an unpublished one is reachable by packets.
    if !weft_sys::file_size::allows(PAIR_BYTES as u64) {
        let text = "the weft daemon's file size limit is too small for rings (ulimit -f)";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let shared = || -> io::Result<_> {
        let directory: File = shared::create_file("weft-board", DIRECTORY_BYTES)?;
        Ok((directory.into(), share::Arena::create_file()?.into()))
    };
    // Without space for an arena (`ulimit -f`) there are still rings.
    let shared = if what.shares { shared().ok() } else { None };
    Ok((EventFd::new()?.into(), shared))
}

fn take_back(what: Publication, brought: &[OwnedFd]) -> io::Result<Made> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "not the files of a publication");
    match (what.shares, brought) {
        (false, [doorbell]) => Ok((doorbell.try_clone()?, None)),
        (true, [doorbell, directory, arena]) if shared::is_sealed(directory, DIRECTORY_BYTES) => {
            Ok((doorbell.try_clone()?, Some((directory.try_clone()?, arena.try_clone()?))))
        }
        _ => Err(wrong()),
    }
}

/// Makes the refusal of requests that need a publication.
pub fn unpublished() -> Refusal {
    refuse(EINVAL, "a process must publish itself before it connects to others")
}
