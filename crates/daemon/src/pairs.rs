//! What processes of this host share: what each published, and the pairs of lanes between those that met. The files are
//! made here, so that none of a stranger's has to be taken in and closed; a pair's are let go once both ends have them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use weft_ipc::{PeerGrant, Publication, Refusal};
use weft_link::shm::{BOARD_BYTES, PAIR_BYTES};
use weft_sys::bell::bell;
use weft_sys::event::EventFd;
use weft_sys::{share, shared};

use crate::refusal::{EINVAL, EMFILE, refuse};
use crate::slots::ClientId;

/// Two slots, the lower first.
pub type Slots = (u32, u32);

/// The two in their order.
pub fn ordered(one: u32, other: u32) -> Slots {
    (one.min(other), one.max(other))
}

/// What a process published.
#[derive(Debug)]
struct Published {
    generation: u64,
    doorbell: OwnedFd,
    board_and_arena: Option<(OwnedFd, OwnedFd)>,
    process: Option<Arc<OwnedFd>>,
}

/// A pair that one of the two has not fetched.
#[derive(Debug)]
struct Pair {
    lanes: OwnedFd,
    /// For two users: what wakes the lower and what wakes the higher, each as (to hear, to ring). The counter that one user's
    /// processes have would let either make the other sleep in a write.
    bells: Option<[(OwnedFd, OwnedFd); 2]>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Pairs {
    processes: BTreeMap<ClientId, Arc<OwnedFd>>,
    published: BTreeMap<u32, Published>,
    pairs: BTreeMap<Slots, Pair>,
}

impl Pairs {
    /// A client came; its process.
    pub fn enter(&mut self, client: ClientId, process: Option<Arc<OwnedFd>>) {
        self.processes.extend(process.map(|process| (client, process)));
    }

    /// The process of a client, if the kernel tells it.
    pub fn process(&self, client: ClientId) -> Option<Arc<OwnedFd>> {
        self.processes.get(&client).cloned()
    }

    /// It left.
    pub fn leave(&mut self, client: ClientId) {
        self.processes.remove(&client);
    }

    /// Make, or take back, what a process is met with; whether it shares memory.
    pub fn publish(
        &mut self,
        client: ClientId,
        slot: u32,
        what: Publication,
        brought: &[OwnedFd],
    ) -> Result<bool, Refusal> {
        let made = if what.brings { take_back(what, brought) } else { make(what) };
        let (doorbell, board_and_arena) =
            made.map_err(|error| refuse(EMFILE, format!("nothing to be met with could be made: {error}")))?;
        let process = self.processes.get(&client).cloned();
        let shares = board_and_arena.is_some();
        self.published.insert(slot, Published { generation: what.generation, doorbell, board_and_arena, process });
        Ok(shares)
    }

    /// A process is gone.
    pub fn unpublish(&mut self, slot: u32) {
        self.published.remove(&slot);
    }

    /// What its own process gets: doorbell, board, arena.
    pub fn own(&self, slot: u32) -> Vec<BorrowedFd<'_>> {
        let Some(published) = self.published.get(&slot) else { return Vec::new() };
        let shared = published.board_and_arena.iter().flat_map(|(board, arena)| [board.as_fd(), arena.as_fd()]);
        [published.doorbell.as_fd()].into_iter().chain(shared).collect()
    }

    /// Make a pair, or take one back; `most` is how many there may be.
    pub fn make_pair(
        &mut self,
        slots: Slots,
        same_user: bool,
        brought: Option<&OwnedFd>,
        most: usize,
    ) -> Result<(), Refusal> {
        if self.pairs.len() >= most {
            return Err(refuse(EMFILE, "too many processes are about to meet, and the others do not come: try again"));
        }
        let make = || -> io::Result<Pair> {
            let lanes = match brought {
                Some(pair) if shared::is_sealed(pair, PAIR_BYTES) => pair.try_clone()?,
                _ => shared::create_file("weft-pair", PAIR_BYTES)?.into(),
            };
            let bells = if same_user { None } else { Some([bell()?, bell()?]) };
            Ok(Pair { lanes, bells })
        };
        let pair = make().map_err(|error| refuse(EMFILE, format!("no lanes could be made: {error}")))?;
        self.pairs.insert(slots, pair);
        Ok(())
    }

    /// Both have it, or one is gone.
    pub fn forget_pair(&mut self, slots: Slots) {
        self.pairs.remove(&slots);
    }

    /// What comes with the pair of `own` and `peer`.
    pub fn grant(&self, own: u32, peer: u32) -> Option<PeerGrant> {
        let (pair, ours, theirs) = self.meeting(own, peer)?;
        Some(PeerGrant {
            generation: theirs.generation,
            has_bell: pair.bells.is_some(),
            has_process: theirs.process.is_some(),
            shares: share_with(pair, ours, theirs).is_some(),
        })
    }

    /// The descriptors of that: pair, doorbell, bell, process, board, arena.
    pub fn descriptors(&self, own: u32, peer: u32) -> Vec<BorrowedFd<'_>> {
        let Some((pair, ours, theirs)) = self.meeting(own, peer) else { return Vec::new() };
        let mut fds = vec![pair.lanes.as_fd()];
        match &pair.bells {
            None => fds.push(theirs.doorbell.as_fd()),
            Some([lower, higher]) => {
                let (to_peer, to_us) = if own < peer { (higher, lower) } else { (lower, higher) };
                fds.extend([to_peer.1.as_fd(), to_us.0.as_fd()]);
            }
        }
        fds.extend(theirs.process.as_ref().map(|process| process.as_fd()));
        fds.extend(
            share_with(pair, ours, theirs).into_iter().flat_map(|(board, arena)| [board.as_fd(), arena.as_fd()]),
        );
        fds
    }

    fn meeting(&self, own: u32, peer: u32) -> Option<(&Pair, &Published, &Published)> {
        Some((self.pairs.get(&ordered(own, peer))?, self.published.get(&own)?, self.published.get(&peer)?))
    }
}

/// A process is let at another's memory if both are of one user and let others at theirs.
fn share_with<'a>(pair: &Pair, ours: &Published, theirs: &'a Published) -> Option<&'a (OwnedFd, OwnedFd)> {
    theirs.board_and_arena.as_ref().filter(|_| pair.bells.is_none() && ours.board_and_arena.is_some())
}

type Made = (OwnedFd, Option<(OwnedFd, OwnedFd)>);

fn make(what: Publication) -> io::Result<Made> {
    // A process that is met and has no lanes could not be reached at all; one that is not met is, by packets.
    if !weft_sys::file_size::allows(PAIR_BYTES as u64) {
        let text = "the weft daemon's files are limited to less than lanes take (ulimit -f)";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let shared = || -> io::Result<_> {
        let board: File = shared::create_file("weft-board", BOARD_BYTES)?;
        Ok((board.into(), share::Arena::create_file()?.into()))
    };
    // Without room for an arena (`ulimit -f`) there are still lanes.
    let shared = if what.shares { shared().ok() } else { None };
    Ok((EventFd::new()?.into(), shared))
}

fn take_back(what: Publication, brought: &[OwnedFd]) -> io::Result<Made> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "not what a process is met with");
    match (what.shares, brought) {
        (false, [doorbell]) => Ok((doorbell.try_clone()?, None)),
        (true, [doorbell, board, arena]) if shared::is_sealed(board, BOARD_BYTES) => {
            Ok((doorbell.try_clone()?, Some((board.try_clone()?, arena.try_clone()?))))
        }
        _ => Err(wrong()),
    }
}

/// The refusal of what only a process that published itself may ask.
pub fn unpublished() -> Refusal {
    refuse(EINVAL, "a process that has published nothing of itself can meet nobody")
}
