//! A simulated host: its processes, the rings between them, and what each has published. A seed makes the choices of
//! kernel, scheduler and shared memory: how much room a ring has, when a process polls its rings, how much it takes at
//! once, which ways lead to another process's memory and when they fail.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use weft_transport::frame::{Frame, FrameKind};
use weft_transport::peers::{KeyView, PeerId, QpView, Reach};
use weft_verbs::{Duration, Qpn};

use crate::memory::Regions;
use crate::rng::Rng;

/// The access that the host permits, and its scheduling of processes.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// How one process accesses another's memory.
    pub reach: Reach,
    /// Chance in 10,000 that a direct access fails in the middle.
    pub direct_fails: u32,
    /// Chance in 10,000 that the data that a frame names cannot be fetched.
    pub fetch_fails: u32,
    /// Frames that a ring holds.
    pub ring_frames: usize,
    /// Bytes that a ring holds; one frame of any size fits.
    pub ring_bytes: usize,
    /// Maximum delay until a process polls its rings.
    pub delay: Duration,
    /// Maximum number of frames that a process takes in one turn.
    pub burst: u64,
}

impl Ways {
    /// Direct copies, roomy rings, processes that run at once.
    pub const OPEN: Ways = Ways {
        reach: Reach::Memory,
        direct_fails: 0,
        fetch_fails: 0,
        ring_frames: 64,
        ring_bytes: 1 << 17,
        delay: Duration::from_micros(2),
        burst: 64,
    };

    /// No process can access another's memory.
    pub const RINGS: Ways = Ways { reach: Reach::Ring, ..Ways::OPEN };

    /// Draws the settings from a seed; `direct` permits direct access.
    pub fn new(rng: &mut Rng, direct: bool) -> Ways {
        let reach = if direct { rng.pick(&[Reach::Memory, Reach::Memory, Reach::Kernel]) } else { Reach::Ring };
        Ways {
            reach,
            direct_fails: rng.pick(&[0, 0, 0, 200, 3000]),
            fetch_fails: rng.pick(&[0, 0, 0, 500, 10_000]),
            ring_frames: rng.pick(&[1, 2, 3, 8, 64, 1024]),
            ring_bytes: rng.pick(&[1, 20_000, 1 << 16, 1 << 20]),
            delay: Duration::from_nanos(rng.pick(&[1, 200, 2_000, 50_000])),
            burst: rng.pick(&[1, 2, 5, 100]),
        }
    }
}

/// Counts of a host's events.
#[derive(Clone, Debug, Default)]
pub struct HostStats {
    /// Frames put into rings, by kind.
    pub frames: BTreeMap<&'static str, u64>,
    /// Times that a ring was full.
    pub full: u64,
    /// Completed direct accesses, by kind.
    pub direct: BTreeMap<&'static str, u64>,
    /// Refused direct accesses.
    pub refused: u64,
    /// Direct accesses that failed in the middle.
    pub broke: u64,
    /// Completed fetches.
    pub fetched: u64,
    /// Fetches that failed because the seed said so.
    pub fetch_broke: u64,
    /// Fetches of unmapped memory.
    pub fetch_astray: u64,
}

/// A frame with its payload.
#[derive(Clone, Debug)]
pub struct Held {
    /// The frame.
    pub frame: Frame,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Frames from one process to another.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    pub held: VecDeque<Held>,
    pub bytes: usize,
    /// Frames ever put in.
    pub written: u64,
    /// Frames ever taken out.
    pub taken: u64,
}

/// One process of the host.
#[derive(Debug)]
pub(crate) struct Process {
    pub regions: Rc<RefCell<Regions>>,
    pub alive: bool,
    /// It takes no frames until it is resumed.
    pub stopped: bool,
    pub keys: BTreeMap<u32, KeyView>,
    pub qps: BTreeMap<Qpn, QpView>,
    /// The process whose frame it is handling.
    pub current: Option<usize>,
    /// The peer whose turn it is.
    pub turn: usize,
    /// Frames that it may still take in its current turn.
    pub budget: u64,
    /// It was notified of frames and has not polled since.
    pub rung: bool,
}

/// The host.
#[derive(Debug)]
pub struct Machine {
    pub(crate) ways: Ways,
    pub(crate) rng: Rng,
    pub(crate) processes: Vec<Process>,
    pub(crate) rings: BTreeMap<(usize, usize), Ring>,
    /// Processes to notify of waiting frames.
    pub(crate) bells: Vec<usize>,
    /// Frames put into rings, each with its sender and receiver, if recording is on.
    pub recorded: Option<Vec<(usize, usize, Held)>>,
    /// Counts of events.
    pub stats: HostStats,
}

/// Maximum number of processes of a machine; the numbers of peers differ from process to process.
const PROCESSES_MAX: u32 = 16;

/// Returns the number by which `of` knows `other`.
pub(crate) fn peer_id(of: usize, other: usize) -> PeerId {
    PeerId((of as u32 + 1) * PROCESSES_MAX + other as u32)
}

/// Returns the process that `of` knows by a number.
pub(crate) fn process_of(of: usize, peer: PeerId) -> usize {
    let base = (of as u32 + 1) * PROCESSES_MAX;
    assert!((base..base + PROCESSES_MAX).contains(&peer.0), "process {of} uses {peer:?}, which is another's number");
    (peer.0 - base) as usize
}

impl Machine {
    /// Creates a machine without processes.
    pub fn new(rng: Rng, ways: Ways) -> Machine {
        Machine {
            ways,
            rng,
            processes: Vec::new(),
            rings: BTreeMap::new(),
            bells: Vec::new(),
            recorded: None,
            stats: HostStats::default(),
        }
    }

    /// Adds a process.
    pub(crate) fn join(&mut self, regions: Rc<RefCell<Regions>>) -> usize {
        assert!(self.processes.len() < PROCESSES_MAX as usize);
        self.processes.push(Process {
            regions,
            alive: true,
            stopped: false,
            keys: BTreeMap::new(),
            qps: BTreeMap::new(),
            current: None,
            turn: 0,
            budget: 0,
            rung: false,
        });
        self.processes.len() - 1
    }

    /// Puts a frame into a ring; `false` if there is no room.
    pub(crate) fn put(&mut self, from: usize, to: usize, frame: Frame, payload: Vec<u8>) -> bool {
        let Ways { ring_frames, ring_bytes, .. } = self.ways;
        let ring = self.rings.entry((from, to)).or_default();
        let room = ring.held.len() < ring_frames && ring.bytes + payload.len() <= ring_bytes;
        if !room && !ring.held.is_empty() {
            self.stats.full += 1;
            return false;
        }
        self.force(from, to, Held { frame, payload });
        true
    }

    /// Puts a frame into a ring, whether there is room or not.
    pub fn force(&mut self, from: usize, to: usize, mut held: Held) {
        let ring = self.rings.entry((from, to)).or_default();
        held.frame.bytes = held.payload.len() as u32;
        *self.stats.frames.entry(name_of(held.frame.kind)).or_default() += 1;
        ring.bytes += held.payload.len();
        ring.written += 1;
        if let Some(recorded) = &mut self.recorded {
            recorded.push((from, to, held.clone()));
        }
        ring.held.push_back(held);
        self.ring(to);
    }

    /// Drops the frames waiting in a ring.
    pub fn empty_ring(&mut self, from: usize, to: usize) {
        if let Some(ring) = self.rings.get_mut(&(from, to)) {
            ring.taken = ring.written;
            (ring.bytes, ring.held) = (0, VecDeque::new());
        }
    }

    fn ring(&mut self, process: usize) {
        if !std::mem::replace(&mut self.processes[process].rung, true) {
            self.bells.push(process);
        }
    }

    /// Starts a process's turn: it may take this many frames.
    pub fn begin_turn(&mut self, process: usize) {
        let burst = self.ways.burst;
        let budget = self.rng.range(1, burst);
        let process = &mut self.processes[process];
        process.budget = if process.alive && !process.stopped { budget } else { 0 };
        process.rung = false;
    }

    /// Ends the turn; frames still waiting are for the next turn.
    pub fn end_turn(&mut self, process: usize) {
        assert_eq!(self.processes[process].current, None, "a frame was not given back");
        self.processes[process].budget = 0;
        let runs = self.processes[process].alive && !self.processes[process].stopped;
        if runs && self.rings.iter().any(|((_, to), ring)| *to == process && !ring.held.is_empty()) {
            self.ring(process);
        }
    }

    /// Stops a process, as SIGSTOP does, or resumes it.
    pub fn stop(&mut self, process: usize, stopped: bool) {
        self.processes[process].stopped = stopped;
        self.end_turn(process);
    }

    /// Returns whether a process has published a queue pair.
    pub fn has_qps(&self, process: usize) -> bool {
        !self.processes[process].qps.is_empty()
    }

    /// Returns whether a process has published a key.
    pub fn has_key(&self, process: usize, key: u32) -> bool {
        self.processes[process].keys.contains_key(&key)
    }

    /// Kills a process, with all that it has published and taken; frames that it sent remain.
    pub fn kill(&mut self, process: usize, dead: bool) {
        self.processes[process].alive = !dead;
    }

    /// Returns the processes to notify of frames, each with its delay before it polls.
    pub fn bells(&mut self) -> Vec<(usize, Duration)> {
        let bells = std::mem::take(&mut self.bells);
        let longest = self.ways.delay.as_nanos() as u64;
        bells.into_iter().map(|process| (process, Duration::from_nanos(self.rng.below(longest + 1)))).collect()
    }
}

fn name_of(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Send => "frame_send",
        FrameKind::Write => "frame_write",
        FrameKind::Read => "frame_read",
        FrameKind::CompareSwap => "frame_compare_swap",
        FrameKind::FetchAdd => "frame_fetch_add",
        FrameKind::AtomicWrite => "frame_atomic_write",
        FrameKind::Flush => "frame_flush",
        FrameKind::Ack => "frame_ack",
        FrameKind::Rnr => "frame_rnr",
        FrameKind::Nak => "frame_nak",
        FrameKind::Dropped => "frame_dropped",
        FrameKind::ReadData => "frame_read_data",
        FrameKind::AtomicResult => "frame_atomic_result",
        FrameKind::Datagram => "frame_datagram",
    }
}
