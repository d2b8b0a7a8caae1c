//! Everything that our process shares with the others of its host.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::event::EventFd;
use weft_sys::share::Extent;
use weft_sys::{fork, pidfd};
use weft_transport::SameHost;
use weft_transport::same_host::{KeyView, PeerId};

use super::board::Board;
use super::peer::{Peer, PeerConfig, Us};

/// Lanes that one look goes through.
pub(super) const LOOKS_MAX: usize = 64;
/// Processes that ours can have met at the same time: as many as there are slots, and some that died.
const PEERS_MAX: usize = 4 << (24 - weft_verbs::QPN_INDEX_BITS);
/// Slots that wait to be met.
const WANTED_MAX: usize = 64;
/// How long a process that could not be met is left alone.
const REFUSAL_KEPT: Duration = Duration::from_secs(1);
/// What marks the number of a peer in the set that is watched: its bell, not its process.
const TOKEN_BELL: u64 = 1 << 32;

/// Who our process is.
#[derive(Debug)]
pub struct HostConfig {
    /// Slot of our queue pair numbers.
    pub slot: u32,
    /// A number that no other process of this slot had or will have.
    pub generation: u64,
    /// What peers wake us by.
    pub doorbell: OwnedFd,
    /// The memory of our board, [`BOARD_BYTES`] of it; without it nobody gets at our memory.
    ///
    /// [`BOARD_BYTES`]: super::BOARD_BYTES
    pub board: Option<OwnedFd>,
}

/// What our process shares with others.
#[derive(Debug)]
pub struct Host {
    pub(super) us: Us,
    pub(super) board: Board,
    /// By number; none where everything is over.
    pub(super) peers: Vec<Option<Box<Peer>>>,
    numbers: FxHashMap<(u32, u64), PeerId>,
    /// Who has each slot now, or had it last.
    slots: FxHashMap<u32, PeerId>,
    /// Slots whose processes are to be met.
    wanted: Vec<u32>,
    /// Slots whose processes could not be met, and when that was.
    refused: FxHashMap<u32, Instant>,
    /// Peers whose lanes are read.
    pub(super) lanes: Vec<u32>,
    /// Place of the lane that is looked at next.
    pub(super) turn: usize,
    /// Peers that were sent something since the doorbells were thought of.
    pub(super) pushed: Vec<u32>,
    /// The frame that is being handled: whose, and its payload.
    pub(super) current: Option<(u32, u32)>,
    doorbell: EventFd,
    /// Deaths and bells of peers.
    watch: Epoll,
    sleeps: u64,
    asleep: bool,
    /// Slots of peers that broke the rules, until somebody asks.
    broken: Vec<u32>,
}

impl Host {
    /// A process that has met nobody but itself, which is [`PeerId`] 0.
    ///
    /// # Errors
    /// No memory files (a kernel before 5.1), or no descriptors are left.
    pub fn new(config: HostConfig) -> io::Result<Host> {
        let us = Us { slot: config.slot, generation: config.generation };
        let board = Board::new(us.slot, us.generation, config.board)?;
        let doorbell = EventFd::from(config.doorbell);
        let watch = Epoll::new()?;
        for fd in [board.fd(), doorbell.as_fd(), watch.as_fd()] {
            fork::track(fd);
        }
        let own = Peer::own(us, &board)?;
        Ok(Host {
            us,
            board,
            peers: vec![Some(Box::new(own))],
            numbers: FxHashMap::from_iter([((us.slot, us.generation), PeerId(0))]),
            slots: FxHashMap::from_iter([(us.slot, PeerId(0))]),
            wanted: Vec::new(),
            refused: FxHashMap::default(),
            lanes: vec![0],
            turn: 0,
            pushed: Vec::new(),
            current: None,
            doorbell,
            watch,
            sleeps: 0,
            asleep: false,
            broken: Vec::new(),
        })
    }

    /// Our board, for peers of our user.
    pub fn board(&self) -> BorrowedFd<'_> {
        self.board.fd()
    }

    /// What peers wake us by: readable when one did.
    pub fn doorbell(&self) -> &EventFd {
        &self.doorbell
    }

    /// Readable when [`Host::handle_watch`] has something to do.
    pub fn watch(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// The number of a process that we have met.
    pub fn number(&self, slot: u32, generation: u64) -> Option<PeerId> {
        self.numbers.get(&(slot, generation)).copied()
    }

    /// The number of the process that has a slot now, if we have met it.
    #[inline]
    pub fn number_of_slot(&self, slot: u32) -> Option<PeerId> {
        let id = *self.slots.get(&slot)?;
        self.is_alive(id).then_some(id)
    }

    /// Slots whose processes are to be met.
    pub fn take_wanted(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.wanted)
    }

    /// Whether there are any.
    #[inline]
    pub fn wants_to_meet(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// The process of a slot cannot be met: it is not wanted for a while.
    pub fn on_refused(&mut self, slot: u32) {
        self.refused.insert(slot, Instant::now());
    }

    /// Meet a process; once met it keeps its number.
    ///
    /// # Errors
    /// What was handed out is not what it should be; descriptors or address space are used up.
    pub fn attach(&mut self, config: PeerConfig) -> io::Result<PeerId> {
        let name = (config.slot, config.generation);
        if let Some(&known) = self.numbers.get(&name) {
            return Ok(known);
        }
        if self.numbers.len() >= PEERS_MAX {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "too many processes were met"));
        }
        let peer = Peer::meet(self.us, config)?;
        let index = self.peers.len() as u32;
        let sources = [(peer.process.as_ref(), u64::from(index)), (peer.bell(), u64::from(index) | TOKEN_BELL)];
        for (fd, token) in sources.into_iter().filter_map(|(fd, token)| Some((fd?, token))) {
            self.watch.add(fd, token, Interest::READ)?;
        }
        self.peers.push(Some(Box::new(peer)));
        self.slots.insert(name.0, PeerId(index));
        self.refused.remove(&name.0);
        self.numbers.insert(name, PeerId(index));
        self.lanes.push(index);
        Ok(PeerId(index))
    }

    /// The daemon says that a process is gone. What it left in its lane is still read.
    pub fn on_gone(&mut self, slot: u32, generation: u64) {
        if let Some(PeerId(index)) = self.number(slot, generation).filter(|&id| id != PeerId(0)) {
            self.lose(index);
        }
    }

    /// Peers died, or rang.
    pub fn handle_watch(&mut self) {
        let mut ready: Vec<Ready> = Vec::new();
        let _ = self.watch.wait(&mut ready, Some(Duration::ZERO));
        for event in ready {
            let index = event.token as u32;
            match self.peer(index) {
                Some(peer) if event.token & TOKEN_BELL != 0 => {
                    if let Some(bell) = peer.silence() {
                        let _ = self.watch.delete(&bell);
                    }
                }
                Some(_) => self.bury(index),
                None => {}
            }
        }
    }

    /// Peers that have not come to their pair with us, each with the pair's file.
    pub fn unused_pairs(&mut self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        let peers = self.peers.iter_mut().flatten().filter(|peer| peer.alive && !peer.own);
        peers.filter_map(|peer| {
            let slot = peer.slot;
            Some((slot, peer.unused_pair()?.as_fd()))
        })
    }

    /// Slots of peers that broke the rules since this was asked last; their lanes are closed.
    pub fn take_broken(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.broken)
    }

    /// Wake the peers that were sent something and sleep. To be called after each turn; costs nothing if nothing was
    /// sent.
    #[inline]
    pub fn ring_doorbells(&mut self) {
        if !self.pushed.is_empty() {
            self.ring();
        }
    }

    fn ring(&mut self) {
        // Against the sleeper, who says so and then looks for frames.
        fence(Ordering::SeqCst);
        while let Some(index) = self.pushed.pop() {
            if let Some(peer) = self.peer(index) {
                peer.pushed = false;
                peer.ring();
            }
        }
    }

    /// Whether a frame waits in any lane.
    pub fn has_frames(&self) -> bool {
        self.lanes.iter().any(|&index| self.peer_at(index).is_some_and(Peer::has_frame))
    }

    /// Whether we left ourselves a frame: nobody else will tell.
    #[inline]
    pub fn has_own_frame(&self) -> bool {
        self.peer_at(0).is_some_and(Peer::has_frame)
    }

    /// Say that nobody looks at the lanes until the doorbell rings; `false` if frames wait already.
    pub fn fall_asleep(&mut self) -> bool {
        self.sleeps += 1;
        self.asleep = true;
        self.say_asleep(self.sleeps);
        // Against a peer that pushes and then looks whether we sleep.
        fence(Ordering::SeqCst);
        if self.has_frames() {
            self.wake_up();
            return false;
        }
        true
    }

    /// Somebody looks at the lanes again.
    #[inline]
    pub fn wake_up(&mut self) {
        if std::mem::replace(&mut self.asleep, false) {
            self.say_asleep(0);
        }
    }

    fn say_asleep(&self, value: u64) {
        self.board.asleep().store(value, Ordering::Relaxed);
        self.peers.iter().flatten().for_each(|peer| peer.say_asleep(value));
    }

    /// As [`SameHost::publish_key`], of memory of which a part is shared.
    pub fn publish_shared_key(&mut self, key: &KeyView, extent: Option<Extent>) {
        if self.board.has_key(key.key) {
            self.revoke_key(key.key);
        }
        self.board.put_key(key, extent);
    }

    /// Host addresses and lengths of the keys that are published.
    pub fn keys(&mut self) -> Vec<(u64, u64)> {
        let mut keys = Vec::new();
        self.board.each_key(|_, addr, len| keys.push((addr, len)));
        keys
    }

    /// What is shared of keys' memory has changed, all of it at once, before any peer could use it: `find` is given each
    /// key with its host address and length.
    pub fn share_keys(&mut self, find: impl FnMut(u32, u64, u64) -> Option<Extent>) {
        self.board.share_keys(find);
    }

    #[cold]
    pub(super) fn want(&mut self, slot: u32) -> Option<PeerId> {
        let lately = self.refused.get(&slot).is_some_and(|at| at.elapsed() < REFUSAL_KEPT);
        if !lately && !self.wanted.contains(&slot) && self.wanted.len() < WANTED_MAX {
            self.wanted.push(slot);
        }
        None
    }

    #[inline]
    pub(super) fn peer_at(&self, index: u32) -> Option<&Peer> {
        self.peers.get(index as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn peer(&mut self, index: u32) -> Option<&mut Peer> {
        self.peers.get_mut(index as usize)?.as_deref_mut()
    }

    /// A peer broke the rules: nothing of its lane is believed any more. Its board is still looked at, for its copies.
    #[cold]
    pub(super) fn close(&mut self, index: u32) {
        self.lanes.retain(|&lane| lane != index);
        if let Some(peer) = self.peer(index) {
            peer.alive = false;
            let slot = peer.slot;
            self.broken.push(slot);
        }
    }

    /// A peer is gone, if not dead.
    fn lose(&mut self, index: u32) {
        if let Some(peer) = self.peer(index) {
            peer.alive = false;
            peer.dead |= peer.process.as_ref().is_none_or(pidfd::is_dead);
        }
        self.clear_away(index);
    }

    /// A peer's process is dead.
    fn bury(&mut self, index: u32) {
        if let Some(peer) = self.peers.get_mut(index as usize).and_then(|peer| peer.as_deref_mut()) {
            (peer.alive, peer.dead) = (false, true);
            if let Some(process) = peer.process.take() {
                let _ = self.watch.delete(&process);
            }
        }
        self.clear_away(index);
    }

    /// What a dead peer left is read before its memory goes.
    pub(super) fn clear_away(&mut self, index: u32) {
        if self.current.is_some_and(|(current, _)| current == index) {
            return;
        }
        let has_frame = self.lanes.contains(&index) && self.peer_at(index).is_some_and(Peer::has_frame);
        let place = self.peers.get_mut(index as usize);
        if let Some(peer) = place.filter(|_| !has_frame).and_then(|peer| peer.take_if(|peer| peer.dead)) {
            for fd in [peer.bell(), peer.process.as_ref()].into_iter().flatten() {
                let _ = self.watch.delete(fd);
            }
            self.numbers.remove(&(peer.slot, peer.generation));
            self.lanes.retain(|&lane| lane != index);
        }
    }
}
