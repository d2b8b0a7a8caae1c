//! The state that this process shares with the others of its host.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use weft_sys::sync::Ordering;

use rustc_hash::FxHashMap;
use weft_shm::{SleepCount, fence_before_check};
use weft_sys::epoll::{Epoll, Interest, Ready};
use weft_sys::event::EventFd;
use weft_sys::share::Extent;
use weft_sys::{fork, pidfd};
use weft_transport::Peers;
use weft_transport::peers::{KeyView, PeerId};

use super::key_directory::KeyDirectory;
use super::peer::{Peer, PeerConfig, Us};

/// Maximum number of rings checked in one call.
pub(super) const LOOKS_MAX: usize = 64;
/// Maximum number of processes met at the same time: one per slot, and some that died.
const PEERS_MAX: usize = 4 << (24 - weft_verbs::QPN_INDEX_BITS);
/// Maximum number of slots waiting to be met.
const WANTED_MAX: usize = 64;
/// How long a process that could not be met is not tried again.
const REFUSAL_KEPT: Duration = Duration::from_secs(1);
/// Bit in a watch token that marks a peer's bell, as opposed to its process.
const TOKEN_BELL: u64 = 1 << 32;

/// Identity of this process.
#[derive(Debug)]
pub struct HostConfig {
    /// Slot of our queue pair numbers.
    pub slot: u32,
    /// A number that no other process of this slot had or will have.
    pub generation: u64,
    /// Doorbell that peers ring to wake this process.
    pub doorbell: OwnedFd,
    /// The memory of this process's key directory, [`DIRECTORY_BYTES`] of it; without it no peer can access this
    /// process's memory.
    ///
    /// [`DIRECTORY_BYTES`]: super::DIRECTORY_BYTES
    pub directory: Option<OwnedFd>,
}

/// Shared-memory connections of this process.
#[derive(Debug)]
pub struct Host {
    pub(super) us: Us,
    pub(super) directory: KeyDirectory,
    /// By number; none for a peer that is gone for good.
    pub(super) peers: Vec<Option<Box<Peer>>>,
    numbers: FxHashMap<(u32, u64), PeerId>,
    /// The current or last process of each slot.
    slots: FxHashMap<u32, PeerId>,
    /// Slots whose processes must be met.
    wanted: Vec<u32>,
    /// Slots whose processes could not be met, and the time of the attempt.
    refused: FxHashMap<u32, Instant>,
    /// Peers whose rings are read.
    pub(super) rings: Vec<u32>,
    /// Index of the ring to check next.
    pub(super) turn: usize,
    /// Peers with frames pushed since doorbells were last rung.
    pub(super) pushed: Vec<u32>,
    /// The frame being handled: its peer, and its payload.
    pub(super) current: Option<(u32, u32)>,
    doorbell: EventFd,
    /// Deaths and bells of peers.
    watch: Epoll,
    sleep: SleepCount,
    /// Slots of peers that broke the rules, until the caller takes them.
    broken: Vec<u32>,
}

impl Host {
    /// Makes the state of a process that has met only itself, which is [`PeerId`] 0.
    ///
    /// # Errors
    /// No memory files (a kernel before 5.1), or no descriptors are left.
    pub fn new(config: HostConfig) -> io::Result<Host> {
        let us = Us { slot: config.slot, generation: config.generation };
        let directory = KeyDirectory::new(us.slot, us.generation, config.directory)?;
        let doorbell = EventFd::from(config.doorbell);
        let watch = Epoll::new()?;
        for fd in [directory.fd(), doorbell.as_fd(), watch.as_fd()] {
            fork::track(fd);
        }
        let own = Peer::own(us, &directory)?;
        Ok(Host {
            us,
            directory,
            peers: vec![Some(Box::new(own))],
            numbers: FxHashMap::from_iter([((us.slot, us.generation), PeerId(0))]),
            slots: FxHashMap::from_iter([(us.slot, PeerId(0))]),
            wanted: Vec::new(),
            refused: FxHashMap::default(),
            rings: vec![0],
            turn: 0,
            pushed: Vec::new(),
            current: None,
            doorbell,
            watch,
            sleep: SleepCount::default(),
            broken: Vec::new(),
        })
    }

    /// Returns this process's key directory, for peers of its user.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.fd()
    }

    /// Returns the doorbell of this process: readable when a peer rang it.
    pub fn doorbell(&self) -> &EventFd {
        &self.doorbell
    }

    /// Returns a descriptor that is readable when [`Host::handle_watch`] has work.
    pub fn watch(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// Returns the number of a met process.
    pub fn number(&self, slot: u32, generation: u64) -> Option<PeerId> {
        self.numbers.get(&(slot, generation)).copied()
    }

    /// Returns the number of a slot's current process, if this one has met it.
    #[inline]
    pub fn number_of_slot(&self, slot: u32) -> Option<PeerId> {
        let id = *self.slots.get(&slot)?;
        self.is_alive(id).then_some(id)
    }

    /// Takes the slots whose processes must be met.
    pub fn take_wanted(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.wanted)
    }

    /// Whether there are any.
    #[inline]
    pub fn wants_to_meet(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Records that the process of a slot cannot be met: it is not tried again for a while.
    pub fn on_refused(&mut self, slot: u32) {
        self.refused.insert(slot, Instant::now());
    }

    /// Meets a process; a met process keeps its number.
    ///
    /// # Errors
    /// The daemon's descriptors are not of the right kind; descriptors or address space are exhausted.
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
        self.rings.push(index);
        Ok(PeerId(index))
    }

    /// Handles the daemon's message that a process is gone. The remaining frames in its ring are still read.
    pub fn on_gone(&mut self, slot: u32, generation: u64) {
        if let Some(PeerId(index)) = self.number(slot, generation).filter(|&id| id != PeerId(0)) {
            self.lose(index);
        }
    }

    /// Handles peers that died or rang.
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

    /// Returns the peers that have not joined their pair with this process, each with the pair's file.
    pub fn unused_pairs(&mut self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        let peers = self.peers.iter_mut().flatten().filter(|peer| peer.alive && !peer.own);
        peers.filter_map(|peer| {
            let slot = peer.slot;
            Some((slot, peer.unused_pair()?.as_fd()))
        })
    }

    /// Takes the slots of peers that broke the rules; their rings are closed.
    pub fn take_broken(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.broken)
    }

    /// Wakes the sleeping peers that have new frames. Must be called after each turn; costs nothing if nothing was
    /// sent.
    #[inline]
    pub fn ring_doorbells(&mut self) {
        if !self.pushed.is_empty() {
            self.ring();
        }
    }

    fn ring(&mut self) {
        fence_before_check();
        while let Some(index) = self.pushed.pop() {
            if let Some(peer) = self.peer(index) {
                peer.pushed = false;
                peer.ring();
            }
        }
    }

    /// Whether a frame waits in any ring.
    pub fn has_frames(&self) -> bool {
        self.rings.iter().any(|&index| self.peer_at(index).is_some_and(Peer::has_frame))
    }

    /// Whether this process has a frame for itself: no doorbell announces it.
    #[inline]
    pub fn has_own_frame(&self) -> bool {
        self.peer_at(0).is_some_and(Peer::has_frame)
    }

    /// Announces that no thread reads the rings until the doorbell rings; returns `false` if frames wait already.
    pub fn fall_asleep(&mut self) -> bool {
        self.sleep.fall_asleep(|word| write_sleep(&self.directory, &self.peers, word));
        if self.has_frames() {
            self.wake_up();
            return false;
        }
        true
    }

    /// Announces that a thread reads the rings again.
    #[inline]
    pub fn wake_up(&mut self) {
        self.sleep.wake_up(|word| write_sleep(&self.directory, &self.peers, word));
    }

    /// Like [`Peers::publish_key`], for memory that is partly shared.
    pub fn publish_shared_key(&mut self, key: &KeyView, extent: Option<Extent>) {
        if self.directory.has_key(key.key) {
            self.revoke_key(key.key);
        }
        self.directory.put_key(key, extent);
    }

    /// Returns the host addresses and lengths of the published keys.
    pub fn keys(&mut self) -> Vec<(u64, u64)> {
        let mut keys = Vec::new();
        self.directory.each_key(|_, addr, len| keys.push((addr, len)));
        keys
    }

    /// Updates the shared parts of all keys' memory at once, before any peer can use them: `find` gets each key with
    /// its host address and length.
    pub fn share_keys(&mut self, find: impl FnMut(u32, u64, u64) -> Option<Extent>) {
        self.directory.share_keys(find);
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

    /// Closes the ring of a peer that broke the rules: it is not trusted any more. Its key directory is still read, for
    /// its copies.
    #[cold]
    pub(super) fn close(&mut self, index: u32) {
        self.rings.retain(|&ring| ring != index);
        if let Some(peer) = self.peer(index) {
            peer.alive = false;
            let slot = peer.slot;
            self.broken.push(slot);
        }
    }

    /// Handles a peer that is gone, and may be dead.
    fn lose(&mut self, index: u32) {
        if let Some(peer) = self.peer(index) {
            peer.alive = false;
            peer.dead |= peer.process.as_ref().is_none_or(pidfd::is_dead);
        }
        self.clear_away(index);
    }

    /// Handles the death of a peer's process.
    fn bury(&mut self, index: u32) {
        if let Some(peer) = self.peers.get_mut(index as usize).and_then(|peer| peer.as_deref_mut()) {
            (peer.alive, peer.dead) = (false, true);
            if let Some(process) = peer.process.take() {
                let _ = self.watch.delete(&process);
            }
        }
        self.clear_away(index);
    }

    /// Removes a dead peer once its remaining frames are read.
    pub(super) fn clear_away(&mut self, index: u32) {
        if self.current.is_some_and(|(current, _)| current == index) {
            return;
        }
        let has_frame = self.rings.contains(&index) && self.peer_at(index).is_some_and(Peer::has_frame);
        let place = self.peers.get_mut(index as usize);
        if let Some(peer) = place.filter(|_| !has_frame).and_then(|peer| peer.take_if(|peer| peer.dead)) {
            for fd in [peer.bell(), peer.process.as_ref()].into_iter().flatten() {
                let _ = self.watch.delete(fd);
            }
            self.numbers.remove(&(peer.slot, peer.generation));
            self.rings.retain(|&ring| ring != index);
        }
    }
}

/// Writes this process's sleep word, for peers that read its key directory and for those that do not.
fn write_sleep(directory: &KeyDirectory, peers: &[Option<Box<Peer>>], word: u64) {
    directory.asleep().store(word, Ordering::Relaxed);
    peers.iter().flatten().for_each(|peer| peer.say_asleep(word));
}
