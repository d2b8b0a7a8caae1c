//! A frame of a request from a process of this host.

use smallvec::SmallVec;
use weft_verbs::{PdId, RemoteTarget, SGE_MAX, Sge};

use crate::frame::{Frame, FrameFlags, FrameKind, HostRange};
use crate::peers::PeerId;
use crate::word::{OPERANDS_MAX, read_operands};
use crate::{Env, Peers, sge_list};

use super::refusal::{INVALID, Refusal, local_fault};
use super::request::{RemoteAccess, RemoteRange, RequestPart};

/// Size of a list element in a ring.
const SGE_BYTES: usize = size_of::<Sge>();

/// The current frame of the ring from a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRequest<'a> {
    pub peer: PeerId,
    pub frame: &'a Frame,
}

impl FrameRequest<'_> {
    #[inline]
    fn has(&self, flag: FrameFlags) -> bool {
        self.frame.flags.contains(flag)
    }

    /// Returns whether its payload is a list of the message's bytes in the sender's memory.
    #[inline]
    fn is_rendezvous(&self) -> bool {
        self.is_send() && self.has(FrameFlags::RENDEZVOUS)
    }

    /// Fetches a whole message from the sender's memory.
    fn fetch<E: Env>(&self, pd: PdId, sges: &[Sge], env: &mut E) -> Result<(), Refusal> {
        let list = self.named_list(env)?;
        if sge_list::total(&list) != u64::from(self.frame.total) {
            return Err(INVALID);
        }
        let mut at = 0;
        for from in list.iter().filter(|sge| sge.length != 0) {
            let mut within = 0;
            for part in sge_list::parts(sges, at, u64::from(from.length)) {
                let addr = env.local(pd, &part, true).map_err(local_fault)?;
                let to = HostRange { addr, len: u64::from(part.length) };
                if !env.peers().fetch(self.peer, from, within, to) {
                    return Err(Refusal::CannotFetch);
                }
                within += u64::from(part.length);
            }
            at += u64::from(from.length);
        }
        Ok(())
    }

    /// Returns the list in its payload.
    fn named_list<E: Env>(&self, env: &mut E) -> Result<SmallVec<[Sge; 4]>, Refusal> {
        let bytes = self.frame.bytes as usize;
        if !bytes.is_multiple_of(SGE_BYTES) || bytes / SGE_BYTES > SGE_MAX as usize {
            return Err(INVALID);
        }
        let mut list = SmallVec::new();
        for at in (0..bytes).step_by(SGE_BYTES) {
            let mut element = [0; SGE_BYTES];
            env.peers().peek(at as u32, &mut element);
            let word = |from: usize| u32::from_ne_bytes(std::array::from_fn(|i| element[from + i]));
            let addr = u64::from_ne_bytes(std::array::from_fn(|i| element[i]));
            list.push(Sge { addr, length: word(8), lkey: word(12) });
        }
        Ok(list)
    }
}

impl RequestPart for FrameRequest<'_> {
    #[inline]
    fn is_send(&self) -> bool {
        self.frame.kind == FrameKind::Send
    }

    #[inline]
    fn is_write(&self) -> bool {
        self.frame.kind == FrameKind::Write
    }

    #[inline]
    fn is_first(&self) -> bool {
        self.has(FrameFlags::FIRST)
    }

    #[inline]
    fn is_last(&self) -> bool {
        self.has(FrameFlags::LAST)
    }

    #[inline]
    fn bytes(&self) -> u64 {
        u64::from(if self.is_rendezvous() { self.frame.total } else { self.frame.bytes })
    }

    /// Only the last frame may be empty: each takes the message further.
    #[inline]
    fn has_good_length(&self, _mtu: u32) -> bool {
        self.is_last() || self.bytes() != 0
    }

    #[inline]
    fn is_in_place(&self) -> bool {
        self.has(FrameFlags::DATA_IN_PLACE)
    }

    #[inline]
    fn opens_range(&self) -> bool {
        true
    }

    #[inline]
    fn srqn(&self) -> Option<u32> {
        Some(self.frame.srqn)
    }

    #[inline]
    fn is_solicited(&self) -> bool {
        self.has(FrameFlags::SOLICITED)
    }

    #[inline]
    fn imm(&self) -> Option<u32> {
        self.has(FrameFlags::IMM).then_some(self.frame.imm)
    }

    #[inline]
    fn invalidates(&self) -> Option<u32> {
        self.has(FrameFlags::INV).then_some(self.frame.imm)
    }

    #[inline]
    fn target(&self) -> Option<RemoteRange> {
        let at = RemoteTarget { addr: self.frame.addr, rkey: self.frame.key };
        Some(RemoteRange { at, length: u64::from(self.frame.total) })
    }

    #[inline]
    fn scatter<E: Env>(&self, pd: PdId, sges: &[Sge], offset: u64, env: &mut E) -> Result<(), Refusal> {
        if self.is_rendezvous() {
            return self.fetch(pd, sges, env);
        }
        let mut at = 0;
        for part in sge_list::parts(sges, offset, u64::from(self.frame.bytes)) {
            let addr = env.local(pd, &part, true).map_err(local_fault)?;
            env.peers().place(at, HostRange { addr, len: u64::from(part.length) });
            at += part.length;
        }
        Ok(())
    }

    #[inline]
    fn store<E: Env>(&self, addr: u64, len: u64, env: &mut E) {
        env.peers().place(0, HostRange { addr, len });
    }

    fn remote_access<E: Env>(&self, env: &mut E) -> Option<RemoteAccess> {
        let op = self.frame.kind.op()?;
        let mut bytes = [0; OPERANDS_MAX];
        env.peers().peek(0, &mut bytes);
        let operands = read_operands(op, &bytes, self.frame.bytes)?;
        let (placement, level) = (self.frame.code & 0xf, self.frame.code >> 4);
        Some(RemoteAccess { op, target: self.target()?, operands, placement, level })
    }
}
