//! Direct access: the initiator alone reads or writes the peer's memory. A request takes this path only when everything
//! before it is done, so requests stay in order. A refused request goes through the lane, where the peer reports the
//! reason.

use weft_verbs::{Access, RemoteTarget, SendOp, WcStatus};

use crate::core::Core;
use crate::same_host::{AtomicOp, Direct, HostRange, Outgoing, Reach};
use crate::sq::{SendQueue, Wqe};
use crate::{Env, Memory, SameHost, segment};

use super::Way;
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
    pub(super) fn copy_direct<E: Env>(&mut self, core: &mut Core, sq: &mut SendQueue, way: &Way, env: &mut E) -> bool {
        let wqe = sq.get(self.cur);
        match self.attempt(core, wqe, way, env) {
            Ok(Tried::Done) => {
                count(core, wqe.length, env.memory().reach(way.peer));
                let tells = u64::from(matches!(wqe.op, SendOp::WriteImm(..)));
                self.finish_here(core, sq, tells, env);
                tells > 0
            }
            Ok(Tried::Part(bytes)) => {
                self.copied = bytes;
                false
            }
            Ok(Tried::Refused) => {
                self.by_lane = Some(self.cur);
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
    fn attempt<E: Env>(&self, core: &Core, wqe: &Wqe, way: &Way, env: &mut E) -> Result<Tried, WcStatus> {
        let at = |target: RemoteTarget, need: Access| Direct {
            peer: way.peer,
            qpn: core.qpn,
            dest_qpn: core.attr.dest_qpn,
            key: target.rkey,
            addr: target.addr,
            whole: wqe.length,
            need,
        };
        match wqe.op {
            SendOp::Write(target) | SendOp::WriteImm(target, _) => {
                self.write(core, wqe, at(target, Access::REMOTE_WRITE), env)
            }
            SendOp::Read(target) => self.read(core, wqe, at(target, Access::REMOTE_READ), env),
            SendOp::CompareSwap { target, compare, swap } => {
                let op = AtomicOp::CompareSwap { compare, swap };
                fetch_and_op(core, wqe, at(target, Access::REMOTE_ATOMIC), op, env)
            }
            SendOp::FetchAdd { target, add } => {
                fetch_and_op(core, wqe, at(target, Access::REMOTE_ATOMIC), AtomicOp::FetchAdd(add), env)
            }
            SendOp::AtomicWrite(target) => {
                let op = AtomicOp::Store(eight_bytes(core, wqe, env)?);
                Ok(env
                    .memory()
                    .atomic_direct(&at(target, Access::REMOTE_WRITE), op)
                    .map_or(Tried::Refused, |_| Tried::Done))
            }
            _ => Ok(Tried::Refused),
        }
    }

    #[inline]
    fn write<E: Env>(&self, core: &Core, wqe: &Wqe, mut at: Direct, env: &mut E) -> Result<Tried, WcStatus> {
        if wqe.is_inline() {
            let done = env.memory().write_direct(&at, Outgoing::Bytes(&wqe.inline));
            return Ok(if done { Tried::Done } else { Tried::Refused });
        }
        let (offset, len) = self.next_part(wqe);
        let mut ranges = Ranges::new();
        gather(env, core, wqe, offset, len, &mut ranges)?;
        at.addr = at.addr.wrapping_add(offset);
        at.whole -= offset;
        let done = env.memory().write_direct(&at, Outgoing::Memory(&ranges));
        Ok(verdict(done, offset + len, wqe))
    }

    fn read<E: Env>(&self, core: &Core, wqe: &Wqe, mut at: Direct, env: &mut E) -> Result<Tried, WcStatus> {
        let (offset, len) = self.next_part(wqe);
        let mut ranges = Ranges::new();
        gather(env, core, wqe, offset, len, &mut ranges)?;
        at.addr = at.addr.wrapping_add(offset);
        at.whole -= offset;
        let done = env.memory().read_direct(&at, &ranges);
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

fn fetch_and_op<E: Env>(core: &Core, wqe: &Wqe, at: Direct, op: AtomicOp, env: &mut E) -> Result<Tried, WcStatus> {
    let Some(before) = env.memory().atomic_direct(&at, op) else { return Ok(Tried::Refused) };
    segment::scatter(env, core.pd(), &wqe.sges, 0, &before.to_ne_bytes())?;
    Ok(Tried::Done)
}

/// Returns the value of an ATOMIC WRITE.
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
