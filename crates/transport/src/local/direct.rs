//! Direct access: the initiator alone reads or writes the peer's memory. A request takes this path only when everything
//! before it is done, so requests stay in order. A refused request goes through the ring, where the peer reports the
//! reason.

use weft_verbs::op::{ListUse, TargetAction};
use weft_verbs::{RemoteTarget, WcStatus};

use crate::core::Core;
use crate::frame::{HostRange, Outgoing};
use crate::peers::{Direct, Reach};
use crate::sq::{SendQueue, Wqe};
use crate::word::AtomicOp;
use crate::{Env, Memory, Peers, segment};

use super::peer_ring::PeerRing;
use super::requester::{Ranges, Requester, gather};

/// Bytes copied in one step. Meanwhile other queue pairs of the process wait, and so does a thread that revokes the
/// key.
const COPY_STEP_MAX: u64 = 4 << 20;

/// Result of an attempt.
enum Tried {
    /// The whole request is done.
    Done,
    /// A part is done.
    Part(u64),
    /// The direct path cannot do it.
    Refused,
}

impl Requester {
    /// Executes, or continues, the request at `cur`. Returns whether it must send frames.
    #[inline]
    pub(super) fn copy_direct<E: Env>(
        &mut self,
        core: &mut Core,
        sq: &mut SendQueue,
        ring: &PeerRing,
        env: &mut E,
    ) -> bool {
        let wqe = sq.get(self.progress.cur);
        match self.attempt(core, wqe, ring, env) {
            Ok(Tried::Done) => {
                count(core, wqe.length, env.peers().reach(ring.peer));
                let tells = u64::from(wqe.op.info().action == TargetAction::Write && wqe.op.imm().is_some());
                self.finish_here(core, sq, tells, env);
                tells > 0
            }
            Ok(Tried::Part(bytes)) => {
                self.copied = bytes;
                false
            }
            Ok(Tried::Refused) => {
                self.by_ring = Some(self.progress.cur);
                self.copied = 0;
                self.open(sq);
                true
            }
            Err(status) => {
                self.fail_here(core, sq, status, env);
                false
            }
        }
    }

    #[inline]
    fn attempt<E: Env>(&self, core: &Core, wqe: &Wqe, ring: &PeerRing, env: &mut E) -> Result<Tried, WcStatus> {
        if core.path_closed {
            return Ok(Tried::Refused);
        }
        let row = wqe.op.info();
        let Some(RemoteTarget { addr, rkey: key }) = wqe.op.target() else { return Ok(Tried::Refused) };
        let (peer, qpn, dest_qpn) = (ring.peer, core.qpn, core.attr.dest_qpn);
        let at = Direct { peer, qpn, dest_qpn, key, addr, whole: wqe.length, need: row.need };
        match row.action {
            TargetAction::Write => self.write(core, wqe, at, env),
            TargetAction::Read => self.read(core, wqe, at, env),
            TargetAction::Word => access_word(core, wqe, at, env),
            _ => Ok(Tried::Refused),
        }
    }

    #[inline]
    fn write<E: Env>(&self, core: &Core, wqe: &Wqe, mut at: Direct, env: &mut E) -> Result<Tried, WcStatus> {
        if wqe.is_inline() {
            let done = env.peers().write_direct(&at, Outgoing::Bytes(&wqe.inline));
            return Ok(if done { Tried::Done } else { Tried::Refused });
        }
        let (offset, len) = self.next_part(wqe);
        let mut ranges = Ranges::new();
        gather(env, core, wqe, offset, len, &mut ranges)?;
        at.addr = at.addr.wrapping_add(offset);
        at.whole -= offset;
        let done = env.peers().write_direct(&at, Outgoing::Memory(&ranges));
        Ok(verdict(done, offset + len, wqe))
    }

    fn read<E: Env>(&self, core: &Core, wqe: &Wqe, mut at: Direct, env: &mut E) -> Result<Tried, WcStatus> {
        let (offset, len) = self.next_part(wqe);
        let mut ranges = Ranges::new();
        gather(env, core, wqe, offset, len, &mut ranges)?;
        at.addr = at.addr.wrapping_add(offset);
        at.whole -= offset;
        let done = env.peers().read_direct(&at, &ranges);
        Ok(verdict(done, offset + len, wqe))
    }

    /// Returns offset and length of the next part to copy.
    fn next_part(&self, wqe: &Wqe) -> (u64, u64) {
        (self.copied, (wqe.length - self.copied).min(COPY_STEP_MAX))
    }
}

fn count(core: &mut Core, bytes: u64, reach: Reach) {
    let stats = &mut core.stats;
    let (ops, sum) = match reach {
        Reach::Memory => (&mut stats.memcpy_ops, &mut stats.memcpy_bytes),
        _ => (&mut stats.process_vm_ops, &mut stats.process_vm_bytes),
    };
    *ops += 1;
    *sum += bytes;
}

fn verdict(done: bool, end: u64, wqe: &Wqe) -> Tried {
    match done {
        true if end == wqe.length => Tried::Done,
        true => Tried::Part(end),
        false => Tried::Refused,
    }
}

/// Executes an operation on eight bytes.
fn access_word<E: Env>(core: &Core, wqe: &Wqe, at: Direct, env: &mut E) -> Result<Tried, WcStatus> {
    let mut operands = wqe.op.operands();
    if wqe.op.info().list == ListUse::Sent {
        operands.value = u64::from_ne_bytes(eight_bytes(core, wqe, env)?);
    }
    let Some(op) = AtomicOp::of(wqe.op.op(), operands) else { return Ok(Tried::Refused) };
    let Some(before) = env.peers().atomic_direct(&at, op) else { return Ok(Tried::Refused) };
    if wqe.op.op().fills_list() {
        segment::scatter(env, core.pd(), &wqe.sges, 0, &before.to_ne_bytes())?;
    }
    Ok(Tried::Done)
}

/// Returns the value that a request sends.
fn eight_bytes<E: Env>(core: &Core, wqe: &Wqe, env: &mut E) -> Result<[u8; 8], WcStatus> {
    let mut value = [0; 8];
    if wqe.is_inline() {
        value.copy_from_slice(wqe.inline.get(..8).ok_or(WcStatus::LocLenErr)?);
        return Ok(value);
    }
    let mut ranges = Ranges::new();
    gather(env, core, wqe, 0, 8, &mut ranges)?;
    let mut rest = &mut value[..];
    for HostRange { addr, len } in ranges {
        let (now, later) = rest.split_at_mut((len as usize).min(rest.len()));
        env.memory().read(addr, now);
        rest = later;
    }
    Ok(value)
}
