//! The rings of two iWARP queue pairs of one host, and what the adapter does about them. The initiator is connected some time
//! after the responder, whose first frames may come too early.

use std::cell::RefCell;
use std::rc::Rc;

use weft_iwarp::StreamParams;
use weft_transport::{Env as _, Peers, Qp, RingEnd, TxBatch};
use weft_verbs::{Instant, QpState};

use super::host::Host;
use crate::machine::{Machine, Ways, peer_id};
use crate::memory::SimMemory;
use crate::peers::Seat;
use crate::rng::Rng;

/// Steps within which both ends are connected.
pub(super) const CONNECTED_WITHIN: u64 = 300;

/// The rings between the two sides.
pub(super) struct Rings {
    machine: Rc<RefCell<Machine>>,
    /// Step at which each side is connected.
    connected_at: [u64; 2],
    /// Whether a frame came to each side before that.
    early: [bool; 2],
}

impl Rings {
    /// Creates the host, and its two processes.
    pub fn new(rng: &mut Rng) -> (Rings, [Host; 2]) {
        let direct = rng.chance(2, 3);
        let ways = Ways::new(rng, direct);
        let machine = Rc::new(RefCell::new(Machine::new(Rng::new(rng.bits()), ways)));
        let hosts = [0x1000_0000, 0x9000_0000].map(|base| {
            let memory = SimMemory::new(base);
            let me = machine.borrow_mut().join(memory.regions.clone());
            Host::with(memory, Some(Seat { machine: machine.clone(), me }))
        });
        let connected_at = [rng.below(CONNECTED_WITHIN), 0];
        (Rings { machine, connected_at, early: [false; 2] }, hosts)
    }

    /// Connects a side whose time has come.
    pub fn connect(
        &mut self,
        (now, step): (Instant, u64),
        side: usize,
        params: &StreamParams,
        end: (&mut Qp, &mut Host),
    ) {
        let (qp, host) = end;
        if self.connected_at[side] == step {
            let (peer, qpn) = (peer_id(side, 1 - side), 0x10 + 1 - side as u32);
            let early = self.early[side];
            assert!(qp.attach_ring(now, params, RingEnd { peer, qpn, early }, host));
        }
    }

    /// Lets a side handle some of the frames in its ring, or all of them.
    pub fn take_frames(&mut self, now: Instant, side: usize, qp: &mut Qp, host: &mut Host, all: bool) {
        self.machine.borrow_mut().begin_turn(side);
        if all {
            self.machine.borrow_mut().processes[side].budget = u64::MAX;
        }
        let peer = peer_id(side, 1 - side);
        while let Some(frame) = host.peers().next_frame(peer) {
            if qp.peer() == Some(peer) {
                qp.handle_frame(now, &frame, host);
            } else {
                self.early[side] = true;
            }
            host.peers().end_frame();
        }
        self.machine.borrow_mut().end_turn(side);
        self.machine.borrow_mut().bells();
    }

    /// Gives a side its turn to send, and sends its acknowledgement.
    pub fn transmit(&mut self, now: Instant, qp: &mut Qp, host: &mut Host) {
        if qp.wants_transmit(now) {
            let mut batch = TxBatch::default();
            qp.poll_transmit(now, &mut batch, host);
            assert!(batch.packets.is_empty(), "a packet");
        }
        if qp.owes_ack() {
            qp.flush_ack(now, host);
        }
    }

    /// Returns whether nothing is on its way to a side, or about to be.
    pub fn is_quiet(&self, now: Instant, side: usize, from: &Qp) -> bool {
        let machine = self.machine.borrow();
        let is_empty = machine.rings.get(&(1 - side, side)).is_none_or(|ring| ring.held.is_empty());
        is_empty && !from.wants_transmit(now) && !from.owes_ack()
    }

    /// Returns the situations that the run met.
    pub fn met(&self) -> Vec<&'static str> {
        let stats = &self.machine.borrow().stats;
        let early = u64::from(self.early.contains(&true));
        let counts = [("early frame", early), ("full ring", stats.full), ("fetch", stats.fetched)];
        let others = counts.into_iter().filter(|(_, count)| *count > 0).map(|(what, _)| what);
        stats.direct.keys().chain(stats.frames.keys()).copied().chain(others).collect()
    }
}

/// Returns whether a side may send to a peer that lives: it may not be connected yet.
pub(super) fn may_send(near: &Qp, far: &Qp) -> bool {
    near.state() == QpState::Rts && matches!(far.state(), QpState::Init | QpState::Rts)
}
