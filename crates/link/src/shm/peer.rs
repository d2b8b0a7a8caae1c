//! A met process: its rings, its key directory, its doorbell.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use weft_sys::sync::Ordering;

use weft_shm::{Doorbell, SleepWatch, Stamps};
use weft_sys::bell::{self, Heard};
use weft_sys::share::View;
use weft_sys::shared::Shared;
use weft_sys::{foreign, pidfd};
use weft_transport::peers::Reach;

use super::frame_ring::{Reader, Writer};
use super::kernel::Kernel;
use super::key_directory::{DIRECTORY_LABEL, KeyDirectory};
use super::key_directory_view::KeyDirectoryView;
use super::layout::{PAIR_BYTES, Side};

/// The daemon's descriptors for two processes that meet.
#[derive(Debug)]
pub struct PeerConfig {
    /// Slot of the peer.
    pub slot: u32,
    /// Generation of the peer's process in that slot.
    pub generation: u64,
    /// The pair of rings.
    pub pair: OwnedFd,
    /// Wakes the peer: the counter that it gives to all, or the other end of a bell if there is a `bell`.
    pub doorbell: OwnedFd,
    /// The peer's own bell to wake this process, if it does not use the common doorbell.
    pub bell: Option<OwnedFd>,
    /// The peer's process.
    pub process: Option<OwnedFd>,
    /// Its key directory, if it trusts this process.
    pub directory: Option<OwnedFd>,
    /// Whether the key directory was found in the peer's process ([`find_directory`]), so that the peer may not have
    /// found this one's yet.
    pub found: bool,
    /// Its shared pages, if it trusts this process.
    pub arena: Option<OwnedFd>,
}

/// Finds the key directory of a process of the same user by slot and generation, in that process itself: for a daemon
/// that is not trusted to hand key directories out.
pub fn find_directory(process: &OwnedFd, slot: u32, generation: u64) -> Option<OwnedFd> {
    for _ in 0..FIND_TRIES {
        let accept = |file: OwnedFd| KeyDirectoryView::map(&file, slot, generation).ok().map(|_| file);
        if let Some(directory) = foreign::find_memory_file(process, DIRECTORY_LABEL, accept) {
            return Some(directory);
        }
        // The peer publishes itself before it makes its key directory.
        std::thread::sleep(FIND_PAUSE);
    }
    None
}

/// Number of attempts to find a key directory, and the time between two.
const FIND_TRIES: u32 = 4;
const FIND_PAUSE: Duration = Duration::from_millis(1);

/// First pause before checking again a peer that had not found this process's key directory; each pause is twice the
/// last.
const LOOK_PAUSE: Duration = Duration::from_micros(500);
const LOOKS_MAX: u32 = 12;

/// Whether the peer has found this process's key directory. Before that, this process may not copy: the peer would not
/// wait for its copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Knows {
    Yes,
    /// Not yet at the last check: number of checks, and time of the next one.
    NotYet(u32, Instant),
}

/// Identity of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Us {
    pub slot: u32,
    pub generation: u64,
}

/// Values of `here`: the process uses the pair, and reads the other's sleep in the pair, or in its key directory.
const HERE_BY_PAIR: u64 = 1;
const HERE_BY_DIRECTORY: u64 = 2;

/// A met process.
#[derive(Debug)]
pub(super) struct Peer {
    pub slot: u32,
    pub generation: u64,
    /// Whether it is this process itself.
    pub own: bool,
    pub pair: Shared,
    side: Side,
    pub out: Writer,
    pub inn: Reader,
    pub view: Option<KeyDirectoryView>,
    pub arena: Option<View>,
    pub kernel: Option<Kernel>,
    doorbell: Option<Doorbell>,
    bell: Option<OwnedFd>,
    pub process: Option<OwnedFd>,
    knows: Knows,
    /// The pair's file, until the peer joins the pair.
    file: Option<OwnedFd>,
    /// Its process exists and its ring is in order.
    pub alive: bool,
    /// The process is known to be dead, not only gone from the daemon.
    pub dead: bool,
    /// A frame was pushed since doorbells were last rung.
    pub pushed: bool,
    sleep: SleepWatch,
    /// How its memory was last reached.
    pub reach: Reach,
}

impl Peer {
    /// Makes this process its own peer.
    pub fn own(us: Us, directory: &KeyDirectory) -> io::Result<Peer> {
        let stamps = Stamps::between(us.generation, us.generation);
        let side = Side(0);
        Ok(Peer {
            slot: us.slot,
            generation: us.generation,
            own: true,
            pair: Shared::private(PAIR_BYTES)?,
            side,
            out: Writer::new(side, side, stamps),
            inn: Reader::new(side, side, stamps),
            view: Some(KeyDirectoryView::map(&directory.fd().try_clone_to_owned()?, us.slot, us.generation)?),
            arena: None,
            kernel: None,
            doorbell: None,
            bell: None,
            process: None,
            knows: Knows::Yes,
            file: None,
            alive: true,
            dead: false,
            pushed: false,
            sleep: SleepWatch::default(),
            reach: Reach::Memory,
        })
    }

    /// Meets another process. A key directory without a process to watch is not used: a revocation must be able to
    /// learn that a process that announced a copy is dead.
    pub fn meet(us: Us, config: PeerConfig) -> io::Result<Peer> {
        if config.slot == us.slot {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a process cannot meet itself"));
        }
        let pair = Shared::map(&config.pair, PAIR_BYTES)?;
        let side = Side(usize::from(us.slot > config.slot));
        let view = match (&config.directory, &config.process) {
            (Some(directory), Some(_)) => Some(KeyDirectoryView::map(directory, config.slot, config.generation)?),
            _ => None,
        };
        let number = config.process.as_ref().and_then(pidfd::number);
        let kernel = view.as_ref().zip(number).map(|(view, pid)| Kernel::new(pid, view.identity()));
        let arena = config.arena.filter(|_| view.is_some()).map(View::new).transpose()?;
        let doorbell = if config.bell.is_some() {
            Doorbell::Bell(config.doorbell)
        } else {
            Doorbell::Counter(config.doorbell.into())
        };
        let here = if view.is_some() { HERE_BY_DIRECTORY } else { HERE_BY_PAIR };
        pair.word(side.here()).store(here, Ordering::Release);
        Ok(Peer {
            slot: config.slot,
            generation: config.generation,
            own: false,
            out: Writer::new(side, side.other(), Stamps::between(us.generation, config.generation)),
            inn: Reader::new(side.other(), side, Stamps::between(config.generation, us.generation)),
            pair,
            side,
            reach: if kernel.is_some() { Reach::Kernel } else { Reach::Ring },
            view,
            arena,
            kernel,
            doorbell: Some(doorbell),
            bell: config.bell,
            process: config.process,
            knows: if config.found { Knows::NotYet(0, Instant::now()) } else { Knows::Yes },
            file: Some(config.pair),
            alive: true,
            dead: false,
            pushed: false,
            sleep: SleepWatch::default(),
        })
    }

    /// Whether the peer has this process's key directory and waits for copies announced there.
    #[inline]
    pub fn knows(&mut self, directory: &KeyDirectory) -> bool {
        match self.knows {
            Knows::Yes => true,
            Knows::NotYet(looks, at) => {
                looks < LOOKS_MAX && Instant::now() >= at && self.look_whether_it_knows(directory, looks)
            }
        }
    }

    #[cold]
    fn look_whether_it_knows(&mut self, directory: &KeyDirectory, looks: u32) -> bool {
        let maps =
            self.process.as_ref().is_some_and(|process| foreign::maps(process, directory.file()).unwrap_or(false));
        self.knows =
            if maps { Knows::Yes } else { Knows::NotYet(looks + 1, Instant::now() + LOOK_PAUSE * 2u32.pow(looks)) };
        maps
    }

    /// Whether a frame waits in its ring.
    #[inline]
    pub fn has_frame(&self) -> bool {
        self.inn.has_frame(&self.pair)
    }

    /// Whether the peer uses the pair; frames in a pair that it never joins are lost.
    pub fn is_here(&self) -> bool {
        self.own || self.pair.word(self.side.other().here()).load(Ordering::Acquire) != 0
    }

    /// Returns the pair's file, for a peer that has not joined it.
    pub fn unused_pair(&mut self) -> Option<&OwnedFd> {
        if self.file.is_some() && self.is_here() {
            self.file = None;
        }
        self.file.as_ref()
    }

    /// Announces in the pair whether this process sleeps, if the peer reads that there.
    pub fn say_asleep(&self, asleep: u64) {
        if !self.own && self.pair.word(self.side.other().here()).load(Ordering::Relaxed) != HERE_BY_DIRECTORY {
            self.pair.word(self.side.asleep()).store(asleep, Ordering::Relaxed);
        }
    }

    /// Wakes the peer, once for each sleep. Pushed frames must be visible before.
    pub fn ring(&mut self) {
        let asleep = match &self.view {
            Some(view) => view.asleep(),
            None => self.pair.word(self.side.other().asleep()).load(Ordering::Relaxed),
        };
        if self.sleep.must_ring(asleep)
            && let Some(doorbell) = &self.doorbell
        {
            doorbell.ring();
        }
    }

    /// Returns the peer's own bell to wake this process, if it has one.
    pub fn bell(&self) -> Option<&OwnedFd> {
        self.bell.as_ref()
    }

    /// Acknowledges a wake-up. Returns a bell that has no ringer any more; the caller stops watching it.
    pub fn silence(&mut self) -> Option<OwnedFd> {
        self.bell.take_if(|bell| bell::silence(bell) == Heard::Gone)
    }
}
